//! Requests of a connection that wait for their replies.

use std::{
    collections::VecDeque,
    num::NonZeroU64,
    sync::Arc,
    time::{Duration, Instant},
};

use crate::proxy::reaction::Reaction;
use blackpipe_base::codes::ErrorContext;

/// A request in flight, and the rules for its reply.
#[derive(Debug)]
pub(super) struct InFlightRequest {
    /// `requestID`, which the reply has as `responseTo`.
    pub(super) id: i32,
    /// Sequence number in the ledger.
    pub(super) entry: u64,
    pub(super) command: Arc<str>,
    pub(super) namespace: Arc<str>,
    pub(super) is_hello: bool,
    /// `true` for a further reply to an earlier request, such as a streamed `hello`.
    pub(super) is_further_reply: bool,
    pub(super) since: Instant,
    /// Rules for the reply. Usually `None`.
    pub(super) plan: Option<Box<ReplyPlan>>,
}

/// Rules for a reply.
#[derive(Debug, Default)]
pub(super) struct ReplyPlan {
    pub(super) delay: Duration,
    pub(super) rate: Option<NonZeroU64>,
    pub(super) final_reaction: Option<(Reaction, u64)>,
    pub(super) rules: Vec<String>,
    pub(super) context: ErrorContext,
}

/// Requests in flight, oldest first.
#[derive(Debug, Default)]
pub(super) struct InFlightRequests {
    requests: VecDeque<InFlightRequest>,
}

impl InFlightRequests {
    pub(super) fn push(&mut self, pending: InFlightRequest) {
        self.requests.push_back(pending);
    }

    /// Removes and returns the request of a reply.
    pub(super) fn take(&mut self, response_to: i32) -> Option<InFlightRequest> {
        let place = self.requests.iter().position(|pending| pending.id == response_to)?;
        self.requests.remove(place)
    }
}
