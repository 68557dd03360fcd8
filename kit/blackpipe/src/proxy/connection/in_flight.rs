//! The requests of a connection that the server has yet to answer.

use std::{
    collections::VecDeque,
    num::NonZeroU64,
    sync::Arc,
    time::{Duration, Instant},
};

use crate::proxy::reaction::Reaction;
use blackpipe_base::codes::ErrorContext;

/// A request under way, and what is to become of its reply.
#[derive(Debug)]
pub(super) struct Pending {
    /// The id that the reply will name.
    pub(super) id: i32,
    /// Its number in the ledger.
    pub(super) entry: u64,
    pub(super) command: Arc<str>,
    pub(super) namespace: Arc<str>,
    pub(super) is_hello: bool,
    /// Whether the reply is one more to an earlier request, as those are of a hello that is streamed.
    pub(super) is_one_more: bool,
    pub(super) since: Instant,
    /// What rules want; rarely anything.
    pub(super) plan: Option<Box<Plan>>,
}

/// What rules want of a reply.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) delay: Duration,
    pub(super) rate: Option<NonZeroU64>,
    pub(super) decided: Option<(Reaction, u64)>,
    pub(super) rules: Vec<String>,
    pub(super) context: ErrorContext,
}

/// The requests under way, oldest first.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    requests: VecDeque<Pending>,
}

impl Waiting {
    pub(super) fn push(&mut self, pending: Pending) {
        self.requests.push_back(pending);
    }

    /// The request that a reply answers, which is nearly always the only one.
    pub(super) fn take(&mut self, response_to: i32) -> Option<Pending> {
        let place = self.requests.iter().position(|pending| pending.id == response_to)?;
        self.requests.remove(place)
    }
}
