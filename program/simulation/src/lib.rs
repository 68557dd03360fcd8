//! Overload experiments in virtual time: thousands of clients retry against one server of limited capacity.
//!
//! The clients use the retry rules of the driver, [`steadfast_core::retry`]. The rest is a simple model:
//!
//! **Clients.** Each client has its own [`RetryBudget`]. Together, the clients begin operations as a Poisson process
//! with a given rate, which does not depend on replies. Each operation belongs to a random client. There are no
//! deadlines and no connection limits, and applications do not repeat failed operations.
//!
//! **Server.** It serves operations in order of arrival, one at a time, each with the same amount of work, which
//! determines its capacity. If the queue is full, it rejects the operation with code 462 and both labels. A
//! rejection costs a part of the work of serving, by default that measured for inserts on MongoDB 8.2
//! ([`INSERT_SHED_COST`]). Rejections come first and reduce the time for serving. With more rejections than the
//! server has time for, replies are delayed.
//!
//! **Network.** A round trip always takes the same time, and no message is lost.
//!
//! **Time.** The offered load is half of the capacity, then a multiple of it, then half of it again.
//!
//! The model omits other servers, connections and handshakes, time-outs, operations of different weight, and
//! applications that retry. Each of these makes overload worse for a client that retries eagerly.
//!
//! [`RetryBudget`]: steadfast_core::retry::RetryBudget
//! [`INSERT_SHED_COST`]: scenario::INSERT_SHED_COST
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

pub mod chart;
mod client;
mod event_queue;
pub mod grid;
pub mod measure;
pub mod scenario;
mod server;
pub mod table;
pub mod world;

/// Points of virtual time, and spans of it, in nanoseconds.
pub type Nanos = u64;

/// A second.
pub const SECOND: Nanos = 1_000_000_000;
/// A millisecond.
pub const MILLISECOND: Nanos = 1_000_000;
