//! A MongoDB that misbehaves on demand, for tests of any driver and of any application.
//!
//! - [`server`]: a scripted server. A test says what comes and what happens then.
//! - [`proxy`]: stands between any client and real servers, and does by rules what networks do.
//! - [`message`]: what both stand on, whole messages on a socket and requests to read.

pub mod message;
pub mod proxy;
pub mod server;
