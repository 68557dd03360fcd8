//! Requests whose response the test decides.

use std::{ops::Deref, sync::Arc};

use bson::Document;
use tokio::sync::{mpsc, oneshot};

use super::{SharedScript, Step, wait};
use blackpipe_base::message::Request;

/// A request that a test waits for. [`Server::receives`](super::Server::receives) creates it.
#[derive(Debug)]
#[must_use]
pub struct PendingRequest {
    pub(super) what: String,
    pub(super) script: Arc<SharedScript>,
    pub(super) arrival: mpsc::UnboundedReceiver<ReceivedRequest>,
}

impl PendingRequest {
    /// Waits for the request.
    ///
    /// # Panics
    ///
    /// Panics after 60 seconds. The message shows the transcript.
    pub async fn arrives(mut self) -> ReceivedRequest {
        match wait::with_timeout(self.arrival.recv()).await {
            Some(Some(received)) => received,
            Some(None) | None => self.script.fail_wait(&self.what),
        }
    }

    /// Waits like [`arrives`](Self::arrives), in a test without a runtime.
    ///
    /// # Panics
    ///
    /// Panics after 60 seconds, and if called from asynchronous code.
    pub fn arrives_blocking(self) -> ReceivedRequest {
        wait::blocking(self.arrives())
    }
}

/// A received request whose response the test decides. It dereferences to [`Request`]. Dropping it
/// leaves the request without a reply.
#[derive(Debug)]
pub struct ReceivedRequest {
    pub(super) request: Request,
    pub(super) steps: oneshot::Sender<Vec<Step>>,
}

impl ReceivedRequest {
    /// Sends this reply.
    pub fn reply(self, reply: Document) {
        self.then([Step::Reply(reply)]);
    }

    /// Sends the default reply.
    pub fn reply_default(self) {
        self.then([Step::DefaultReply]);
    }

    /// Closes the connection.
    pub fn hang_up(self) {
        self.then([Step::HangUp]);
    }

    /// Performs these steps.
    pub fn then(self, steps: impl IntoIterator<Item = impl Into<Step>>) {
        // Fails only if the server was stopped.
        let _ = self.steps.send(steps.into_iter().map(Into::into).collect());
    }
}

impl Deref for ReceivedRequest {
    type Target = Request;

    fn deref(&self) -> &Request {
        &self.request
    }
}
