//! What a server does about a request, one step after the other.

use std::time::Duration;

use bson::Document;

use super::{Failure, Gate};

/// What a server does about a request. Steps are done one after the other.
///
/// The functions of this module's parent make them: [`reply`](super::reply),
/// [`hang_up`](super::hang_up), [`error`](super::error) and so on.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Step {
    /// Replies as a server should. (To a request that wants no reply, nothing is sent.)
    Reply(Document),
    /// Replies what the server would have replied without a script.
    Usual,
    /// Replies to a hello as the server's role demands, with these fields in place of its own; a null
    /// takes a field away.
    Hello(Document),
    /// Replies, and says that another reply follows without being asked for (`moreToCome`).
    ReplyWithMoreToCome(Document),
    /// Replies to another request than the one that was made.
    ReplyToAnother(Document),
    /// Sends so many bytes of a good reply, and not the rest.
    Part(Document, usize),
    /// Sends these bytes, whatever they are.
    Raw(Vec<u8>),
    /// Waits until the gate is open.
    Wait(Gate),
    /// Takes its time.
    Pause(Duration),
    /// Does nothing. Alone, it leaves the request without an answer.
    Nothing,
    /// Closes the connection.
    HangUp,
    /// Resets the connection: the client sees an error where it would have seen the end.
    Reset,
}

impl From<Failure> for Step {
    fn from(failure: Failure) -> Self {
        Self::Reply(failure.into_reply())
    }
}

/// Replies with this document.
pub fn reply(document: Document) -> Step {
    Step::Reply(document)
}

/// Replies as the server would without a script.
pub fn usual() -> Step {
    Step::Usual
}

/// Replies with this document to another request than the one that was made.
pub fn reply_to_another(document: Document) -> Step {
    Step::ReplyToAnother(document)
}

/// Sends the first `bytes` bytes of the reply, its header included. What then becomes of the
/// connection is for the next step to say: [`hang_up`], [`reset`], or nothing.
pub fn part_of_reply(document: Document, bytes: usize) -> Step {
    Step::Part(document, bytes)
}

/// Sends bytes that are no reply, or one that the test has made itself.
///
/// ```
/// use blackpipe::server::{any, garbage, hang_up};
///
/// let _ = any().then(garbage(*b"HTTP/1.1 400 Bad Request\r\n\r\n")).then(hang_up());
/// ```
pub fn garbage(bytes: impl Into<Vec<u8>>) -> Step {
    Step::Raw(bytes.into())
}

/// Waits until the gate is open.
pub fn wait_for(gate: &Gate) -> Step {
    Step::Wait(gate.clone())
}

/// Takes its time. It is tokio's time: a test that has paused the clock need
/// not wait for it.
pub fn delay(time: Duration) -> Step {
    Step::Pause(time)
}

/// Never answers. The connection stays open, and what comes through it next is served.
pub fn silence() -> Step {
    Step::Nothing
}

/// Closes the connection.
pub fn hang_up() -> Step {
    Step::HangUp
}

/// Resets the connection.
pub fn reset() -> Step {
    Step::Reset
}
