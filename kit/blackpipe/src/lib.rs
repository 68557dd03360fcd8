//! A MongoDB that misbehaves on demand, for tests of any driver and of any application.
//!
//! - [`server`]: a scripted server. A test says what comes and what happens then.
//! - [`proxy`]: stands between any client and real servers, and does by rules what networks do.
//! - [`embedded`]: a deployment with its data in memory: replica sets and sharded clusters without
//!   `mongod`, in milliseconds.
//! - [`message`]: what all stand on, whole messages on a socket and requests to read.

mod codes;
mod dice;
pub mod embedded;
mod home;
pub mod message;
mod number;
pub mod proxy;
mod seat;
pub mod server;
