//! Test servers for any MongoDB driver or application: a scripted server and a fault proxy.
//!
//! - [`server`]: a scripted server. A test scripts the requests it expects and the replies it
//!   sends.
//! - [`proxy`]: a fault proxy between any client and real servers. Rules drop, delay and rewrite
//!   messages.
//! - [`message`]: whole wire messages on a socket, requests and replies.
//!
//! The crate `steadfast-embedded` has replica sets and sharded clusters with their data in memory.
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

pub use blackpipe_base::message;
pub mod proxy;
pub mod server;
