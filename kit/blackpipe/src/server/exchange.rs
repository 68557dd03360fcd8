//! An expected request with its response.

use std::{
    fmt,
    sync::{Arc, Mutex},
};

use tokio::sync::mpsc;

use super::{ExpectedRequest, ReceivedRequest, Step};
use blackpipe_base::message::Request;

/// An expected request with its response. [`ExpectedRequest::then`] creates it.
///
/// Without steps, the server sends the [default reply](super::default_reply).
#[must_use]
pub struct Exchange {
    pub(super) expected: ExpectedRequest,
    pub(super) response: ScriptedResponse,
    /// Number of times the request may arrive. `None`: once if expected, any number of times for
    /// `whenever`.
    pub(super) times: Option<usize>,
}

pub(super) type ComputeSteps = dyn FnMut(&Request) -> Vec<Step> + Send;

/// Response to a request.
#[derive(Clone)]
pub(super) enum ScriptedResponse {
    Steps(Vec<Step>),
    Computed(Arc<Mutex<ComputeSteps>>),
    /// Resets the connection after this number of bytes of the request.
    CutRequest(usize),
    /// Passes the request to the test, which decides the response.
    AskTest(mpsc::UnboundedSender<ReceivedRequest>),
}

impl Exchange {
    pub(super) fn new(expected: ExpectedRequest) -> Self {
        Self { expected, response: ScriptedResponse::Steps(Vec::new()), times: None }
    }

    pub(super) fn ask_test(
        expected: ExpectedRequest,
        to: mpsc::UnboundedSender<ReceivedRequest>,
    ) -> Self {
        Self { response: ScriptedResponse::AskTest(to), ..Self::new(expected) }
    }

    /// Appends a step to the response.
    pub fn then(mut self, step: impl Into<Step>) -> Self {
        match &mut self.response {
            ScriptedResponse::Steps(steps) => steps.push(step.into()),
            ScriptedResponse::Computed(_)
            | ScriptedResponse::CutRequest(_)
            | ScriptedResponse::AskTest(_) => {
                self.response = ScriptedResponse::Steps(vec![step.into()]);
            }
        }
        self
    }

    /// Computes the steps for each request; see [`ExpectedRequest::then_with`]. Replaces earlier
    /// steps.
    pub fn then_with(mut self, steps: impl FnMut(&Request) -> Vec<Step> + Send + 'static) -> Self {
        self.response = ScriptedResponse::Computed(Arc::new(Mutex::new(steps)));
        self
    }

    /// Cuts the request; see [`ExpectedRequest::cut_after`]. Replaces earlier steps.
    pub fn cut_after(mut self, bytes: usize) -> Self {
        self.response = ScriptedResponse::CutRequest(bytes);
        self
    }

    /// Sets the number of times: exactly for [expected](super::Server::expect) requests, at most
    /// for [`whenever`](super::Server::whenever).
    pub fn times(mut self, times: usize) -> Self {
        self.times = Some(times);
        self
    }

    /// Restricts the exchange to one server.
    pub(super) fn at(mut self, member: usize) -> Self {
        self.expected = self.expected.at(member);
        self
    }
}

impl From<ExpectedRequest> for Exchange {
    fn from(expected: ExpectedRequest) -> Self {
        Self::new(expected)
    }
}

impl fmt::Display for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.times {
            None | Some(1) => write!(f, "{}", self.expected),
            Some(times) => write!(f, "{} ({times} times)", self.expected),
        }
    }
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Exchange({self})")
    }
}
