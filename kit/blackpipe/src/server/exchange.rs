//! A request that is expected, and what happens when it comes.

use std::{
    fmt,
    sync::{Arc, Mutex},
};

use tokio::sync::mpsc;

use super::{Expected, Received, Step};
use blackpipe_base::message::Request;

/// A request that is expected, and what happens when it comes. [`Expected::then`] makes one.
///
/// Without steps, the request is answered [as usual](super::usual).
#[must_use]
pub struct Exchange {
    pub(super) expected: Expected,
    pub(super) reaction: Reaction,
    /// How often it comes, or still comes; if the test has not said so, once where it is expected
    /// and any number of times where it may come whenever it likes.
    pub(super) times: Option<usize>,
}

pub(super) type Making = dyn FnMut(&Request) -> Vec<Step> + Send;

/// What is done about a request.
#[derive(Clone)]
pub(super) enum Reaction {
    Steps(Vec<Step>),
    Made(Arc<Mutex<Making>>),
    /// The request is cut short after so many bytes.
    Cut(usize),
    /// The test is given the request, and says what to do.
    HandOver(mpsc::UnboundedSender<Received>),
}

impl Exchange {
    pub(super) fn new(expected: Expected) -> Self {
        Self { expected, reaction: Reaction::Steps(Vec::new()), times: None }
    }

    pub(super) fn hand_over(expected: Expected, to: mpsc::UnboundedSender<Received>) -> Self {
        Self { reaction: Reaction::HandOver(to), ..Self::new(expected) }
    }

    /// What happens after what was said before.
    pub fn then(mut self, step: impl Into<Step>) -> Self {
        match &mut self.reaction {
            Reaction::Steps(steps) => steps.push(step.into()),
            Reaction::Made(_) | Reaction::Cut(_) | Reaction::HandOver(_) => {
                self.reaction = Reaction::Steps(vec![step.into()]);
            }
        }
        self
    }

    /// See [`Expected::then_with`]. It replaces what was said before.
    pub fn then_with(mut self, steps: impl FnMut(&Request) -> Vec<Step> + Send + 'static) -> Self {
        self.reaction = Reaction::Made(Arc::new(Mutex::new(steps)));
        self
    }

    /// See [`Expected::cut_after`]. It replaces what was said before.
    pub fn cut_after(mut self, bytes: usize) -> Self {
        self.reaction = Reaction::Cut(bytes);
        self
    }

    /// So many times: instead of once where it is [expected](super::Server::expect), at most so often
    /// where it may come [whenever it likes](super::Server::whenever).
    pub fn times(mut self, times: usize) -> Self {
        self.times = Some(times);
        self
    }

    /// At this member only.
    pub(super) fn at(mut self, member: usize) -> Self {
        self.expected = self.expected.at(member);
        self
    }
}

impl From<Expected> for Exchange {
    fn from(expected: Expected) -> Self {
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
