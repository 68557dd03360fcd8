//! A MongoDB that misbehaves on demand, for tests of any driver and of any application.
//!
//! - [`server`]: a scripted server. A test says what comes and what happens then.
//! - [`proxy`]: stands between any client and real servers, and does by rules what networks do.

pub mod proxy;
pub mod server;
