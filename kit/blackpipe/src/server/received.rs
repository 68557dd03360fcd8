//! Requests that a test takes in its own hands.

use std::{ops::Deref, sync::Arc};

use bson::Document;
use tokio::sync::{mpsc, oneshot};

use super::{Stage, Step, patience};
use blackpipe_base::message::Request;

/// A request that is on its way to the test. [`Server::receives`](super::Server::receives) makes it.
#[derive(Debug)]
#[must_use]
pub struct Receiving {
    pub(super) what: String,
    pub(super) stage: Arc<Stage>,
    pub(super) arrival: mpsc::UnboundedReceiver<Received>,
}

impl Receiving {
    /// Waits until the request is there. It must come within a time that only a hang exceeds.
    ///
    /// # Panics
    ///
    /// If it does not come. The panic shows the conversation so far.
    pub async fn arrives(mut self) -> Received {
        match patience::asynchronous(self.arrival.recv()).await {
            Some(Some(received)) => received,
            Some(None) | None => self.stage.give_up(&format!("waited for {}", self.what)),
        }
    }

    /// The same from a test without a runtime.
    ///
    /// # Panics
    ///
    /// If it does not come, and if it is called from asynchronous code.
    pub fn wait(self) -> Received {
        patience::blocking(self.arrives())
    }
}

/// A request that a test holds in its hands. It reads like a [`Request`], and what becomes of it is
/// for the test to say; one that is dropped is never answered.
#[derive(Debug)]
pub struct Received {
    pub(super) request: Request,
    pub(super) steps: oneshot::Sender<Vec<Step>>,
}

impl Received {
    /// Replies with this document.
    pub fn reply(self, reply: Document) {
        self.then([Step::Reply(reply)]);
    }

    /// Replies as usual.
    pub fn reply_as_usual(self) {
        self.then([Step::Usual]);
    }

    /// Closes the connection.
    pub fn hang_up(self) {
        self.then([Step::HangUp]);
    }

    /// Has the server do these steps.
    pub fn then(self, steps: impl IntoIterator<Item = impl Into<Step>>) {
        // If nobody is there to do them, the server has been stopped.
        let _ = self.steps.send(steps.into_iter().map(Into::into).collect());
    }
}

impl Deref for Received {
    type Target = Request;

    fn deref(&self) -> &Request {
        &self.request
    }
}
