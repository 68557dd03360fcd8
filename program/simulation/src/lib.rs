//! What retries do to a server that has too much to do: thousands of clients, one server of limited
//! capacity, virtual time.
//!
//! The clients decide with the very code that the driver decides with, [`steadfast_core::retry`].
//! Everything around it is a model, as plain as it can be:
//!
//! **Clients.** Each is a process of its own with its own [`RetryBudget`]. Together they begin operations
//! as a Poisson process whose rate depends on nothing: a user who waits does not keep others from
//! coming. Each operation belongs to a client drawn evenly. There is no deadline, no limit on
//! connections, and an operation that failed is not begun again by its application.
//!
//! **Server.** It serves one operation after the other, in the order of their coming, each with the
//! same amount of work; that gives its capacity. If as many operations wait as may, it sheds: it
//! answers with code 462 and both labels. Shedding costs a part of the work of serving, by default that
//! measured for inserts on MongoDB 8.2 ([`INSERT_SHED_COST`]), and comes first: what it takes is missing
//! for serving. If more has to be rejected than it has time for, the replies come later and later.
//!
//! **Network.** A round trip always takes the same time, and nothing is lost.
//!
//! **Time.** At first half of the capacity is asked for, then a multiple of it, then half again.
//!
//! Left out: other servers to go to, connections and their making, time-outs, operations of
//! different weight, applications that try again by themselves. All of these make overload worse for
//! a client that retries eagerly.
//!
//! [`RetryBudget`]: steadfast_core::retry::RetryBudget
//! [`INSERT_SHED_COST`]: scenario::INSERT_SHED_COST

mod agenda;
pub mod chart;
mod client;
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
/// A thousandth of one.
pub const MILLISECOND: Nanos = 1_000_000;
