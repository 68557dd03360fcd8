//! Of commands that failed: tried again, or not for the sake of an overloaded server.

use std::time::Duration;

use steadfast_core::address::ServerAddress;

/// A command failed and will be tried again.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RetryScheduledEvent {
    /// The command's name.
    pub command_name: String,
    /// The number of the operation; the same as in the events of its commands.
    pub operation_id: i64,
    /// The server of the attempt that failed, if it came to one.
    pub server: Option<ServerAddress>,
    /// How many attempts have failed so far.
    pub failed_attempts: usize,
    /// Why the latest of them did.
    pub reason: String,
    /// Whether that was because the server, or the way to it, is overloaded.
    pub overloaded: bool,
    /// How long is waited before the next; zero unless a server sheds load.
    pub backoff: Duration,
    /// What is left of the client's allowance for retries while servers are overloaded.
    pub tokens_left: f64,
}

/// A command failed because a server is overloaded, and is not tried again.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OverloadGivenUpEvent {
    /// The command's name.
    pub command_name: String,
    /// The number of the operation; the same as in the events of its commands.
    pub operation_id: i64,
    /// The server of the attempt that failed, if it came to one.
    pub server: Option<ServerAddress>,
    /// How many attempts have failed in all.
    pub failed_attempts: usize,
    /// Why the latest of them did.
    pub reason: String,
    /// Whether the client's allowance for retries is used up. If not, it is the number of attempts,
    /// the deadline or the client's options that allow for no more.
    pub refused_by_budget: bool,
    /// What is left of that allowance.
    pub tokens_left: f64,
}

/// What becomes of commands that failed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum RetryEvent {
    /// It will be tried again.
    Scheduled(RetryScheduledEvent),
    /// It is not tried again although a server is only overloaded.
    GivenUp(OverloadGivenUpEvent),
}
