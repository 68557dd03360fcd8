//! Steps of a response.

use std::time::Duration;

use bson::Document;

use super::{FailureReply, Gate};

/// One step of a response. Steps run in order.
///
/// Functions of the parent module create them: [`reply`](super::reply),
/// [`hang_up`](super::hang_up), [`error`](super::error) and others.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Step {
    /// Sends a reply. Sends nothing if the request expects no reply.
    Reply(Document),
    /// Sends the default reply.
    DefaultReply,
    /// Replies to `hello` according to the role, with these fields overridden. Null removes a
    /// field.
    Hello(Document),
    /// Sends a reply with the flag `moreToCome`: another reply follows without a request.
    ReplyWithMoreToCome(Document),
    /// Sends a reply whose `responseTo` names another request.
    ReplyToAnother(Document),
    /// Sends the first bytes of a reply.
    PartOfReply(Document, usize),
    /// Sends raw bytes.
    RawBytes(Vec<u8>),
    /// Waits until the gate is open.
    WaitFor(Gate),
    /// Waits for a time.
    Delay(Duration),
    /// Does nothing. As the only step, it leaves the request without a reply.
    NoReply,
    /// Closes the connection.
    HangUp,
    /// Resets the connection (RST).
    Reset,
}

impl From<FailureReply> for Step {
    fn from(failure: FailureReply) -> Self {
        Self::Reply(failure.into_reply())
    }
}

/// Sends this reply.
pub fn reply(document: Document) -> Step {
    Step::Reply(document)
}

/// Sends the default reply: writes succeed, reads find nothing, `hello` depends on the role.
pub fn default_reply() -> Step {
    Step::DefaultReply
}

/// Sends a reply whose `responseTo` names another request.
pub fn reply_to_another(document: Document) -> Step {
    Step::ReplyToAnother(document)
}

/// Sends the first `bytes` bytes of a reply, header included. The connection stays open, unless
/// [`hang_up`] or [`reset`] follows.
pub fn part_of_reply(document: Document, bytes: usize) -> Step {
    Step::PartOfReply(document, bytes)
}

/// Sends raw bytes, such as an invalid reply or one encoded by the test.
///
/// ```
/// use blackpipe::server::{any, raw_bytes, hang_up};
///
/// let _ = any().then(raw_bytes(*b"HTTP/1.1 400 Bad Request\r\n\r\n")).then(hang_up());
/// ```
pub fn raw_bytes(bytes: impl Into<Vec<u8>>) -> Step {
    Step::RawBytes(bytes.into())
}

/// Waits until the gate is open.
pub fn wait_for(gate: &Gate) -> Step {
    Step::WaitFor(gate.clone())
}

/// Waits for a time on tokio's clock. A test with a paused clock does not wait.
pub fn delay(time: Duration) -> Step {
    Step::Delay(time)
}

/// Sends no reply. The connection stays open and serves further requests.
pub fn no_reply() -> Step {
    Step::NoReply
}

/// Closes the connection.
pub fn hang_up() -> Step {
    Step::HangUp
}

/// Resets the connection.
pub fn reset() -> Step {
    Step::Reset
}
