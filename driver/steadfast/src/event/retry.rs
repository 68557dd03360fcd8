//! Retry events: scheduled retries, and retries that client backpressure prevented. See
//! [client backpressure](https://github.com/mongodb/specifications/blob/master/source/client-backpressure/client-backpressure.md).

use std::time::Duration;

use steadfast_core::address::ServerAddress;

/// A command failed and will be retried.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RetryScheduledEvent {
    /// Name of the command.
    pub command_name: String,
    /// Operation id, as in the command events.
    pub operation_id: i64,
    /// Server of the failed attempt. `None` if none was selected.
    pub server: Option<ServerAddress>,
    /// Number of failed attempts so far.
    pub failed_attempts: usize,
    /// Error of the last attempt.
    pub reason: String,
    /// `true` if the attempt failed because the server, or the network to it, is overloaded.
    pub overloaded: bool,
    /// Backoff before the next attempt. Zero unless the server is overloaded.
    pub backoff: Duration,
    /// Tokens left in the retry budget of the client.
    pub tokens_left: f64,
}

/// A command failed on an overloaded server and will not be retried.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OverloadGivenUpEvent {
    /// Name of the command.
    pub command_name: String,
    /// Operation id, as in the command events.
    pub operation_id: i64,
    /// Server of the failed attempt. `None` if none was selected.
    pub server: Option<ServerAddress>,
    /// Number of failed attempts.
    pub failed_attempts: usize,
    /// Error of the last attempt.
    pub reason: String,
    /// `true` if the retry budget of the client is exhausted. Otherwise the number of attempts, the
    /// deadline or the options of the client prevented the retry.
    pub budget_exhausted: bool,
    /// Tokens left in the retry budget of the client.
    pub tokens_left: f64,
}

/// Retry event. See [client backpressure](https://github.com/mongodb/specifications/blob/master/source/client-backpressure/client-backpressure.md).
///
/// ```no_run
/// # async fn run() -> steadfast::error::Result<()> {
/// use steadfast::{Client, event::{EventHandler, retry::RetryEvent}, options::ClientOptions};
///
/// let mut options = ClientOptions::parse("mongodb://localhost:27017").await?;
/// options.retry_event_handler = Some(EventHandler::callback(|event| {
///     if let RetryEvent::Scheduled(retry) = event {
///         println!("{} is retried after {:?}: {}", retry.command_name, retry.backoff, retry.reason);
///     }
/// }));
/// let client = Client::with_options(options)?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum RetryEvent {
    /// A command will be retried.
    Scheduled(RetryScheduledEvent),
    /// A command failed on an overloaded server and will not be retried.
    GivenUp(OverloadGivenUpEvent),
}
