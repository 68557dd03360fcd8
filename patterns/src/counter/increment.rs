//! State machine of an increment: the next request, and the conclusions from its reply. It does no I/O and
//! reads no clock, so that a test can go through all of its transitions.

use std::time::Duration;

use bson::{DateTime, Document};

use super::{IncrementState, IncrementStep, Intent, documents, intent::IntentStage};
use steadfast::error::{Error, Result};

/// Number of times that the state of a token is read before the increment fails as contended.
const MAX_READS: u8 = 4;
/// Lower bound of the time that servers keep the record of a retryable write (30 minutes by default). An
/// increment that may begin later than this cannot rely on it.
const TXN_RECORD_LIFETIME: Duration = Duration::from_secs(20 * 60);

/// Next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum CounterRequest {
    StepOne,
    /// Insert the counter's document.
    CreateCounter,
    /// Read the state of the token.
    ReadToken,
    GiveUp,
    StepTwo {
        leaves_tombstone: bool,
    },
}

/// Reply to a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum CounterReply {
    /// `true` if the token was added.
    StepOne(bool),
    /// `true` if the document was inserted.
    Created(bool),
    Token(TokenState),
    /// `true` if the token was neither pending nor done.
    GaveUp(bool),
    /// Acknowledged, whether or not the token was pending.
    StepTwo,
    Failed {
        /// `true` if the request may have been executed, or may be later.
        in_doubt: bool,
        can_retry: bool,
    },
}

/// State of a token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum TokenState {
    /// The counter has no document.
    NoCounter,
    Pending,
    Counted,
    /// Given up before this time of the server.
    GivenUp(DateTime),
    /// Neither pending nor done, at this time of the server.
    Absent(DateTime),
}

/// End of an increment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum IncrementEnd {
    Resolved(Resolution),
    /// The last error ended it.
    Failed {
        step: IncrementStep,
        state: IncrementState,
    },
    /// It cannot begin yet, at this time of the server.
    TooEarly {
        server: DateTime,
        state: IncrementState,
    },
    /// The state of the token changed with each read.
    Contended {
        state: IncrementState,
    },
}

/// Certain result of an increment, with the time of the server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Resolution {
    Counted,
    NeverBegun(DateTime),
    Unknown(DateTime),
}

/// An increment in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Increment {
    pub(super) stage: IntentStage,
    request: CounterRequest,
    gives_up: bool,
    since: DateTime,
    until: DateTime,
    /// Time at which its tombstone may be removed.
    tombstone_expires: DateTime,
    /// Time of the server when the token was read.
    read_at: DateTime,
    /// `true` if an acknowledged single step one needs no tombstone.
    has_txn_record: bool,
    /// `true` if step one was sent before.
    step_one_was_sent: bool,
    /// `true` if a step one whose reply is missing may be executed, or was, by this client or another.
    is_in_doubt: bool,
    is_step_two_in_doubt: bool,
    has_created: bool,
    reads_left: u8,
    retries: u32,
    retries_left: u32,
}

impl Increment {
    /// Begins an increment that no other process has.
    pub(super) fn unshared(intent: &Intent, keep: Duration, retries: u32) -> Self {
        let may_begin_for = intent.until.timestamp_millis() - intent.since.timestamp_millis();
        let has_txn_record = u128::try_from(may_begin_for)
            .is_ok_and(|millis| millis <= 2 * TXN_RECORD_LIFETIME.as_millis());
        Self { has_txn_record, is_in_doubt: false, ..Self::shared(intent, keep, retries) }
    }

    /// Begins an intent that may have been begun before, or by another client.
    pub(super) fn shared(intent: &Intent, keep: Duration, retries: u32) -> Self {
        let mut increment = Self {
            stage: intent.stage,
            request: CounterRequest::StepOne,
            gives_up: false,
            since: intent.since,
            until: intent.until,
            tombstone_expires: documents::later(intent.until, keep),
            read_at: intent.until,
            has_txn_record: false,
            step_one_was_sent: false,
            is_in_doubt: true,
            // It was begun before, so it may have been counted since.
            is_step_two_in_doubt: intent.stage != IntentStage::Open,
            has_created: false,
            reads_left: MAX_READS,
            retries,
            retries_left: retries,
        };
        if intent.stage != IntentStage::Open {
            increment.send_step_two();
        }
        increment
    }

    /// Gives the intent up unless it has begun.
    pub(super) fn given_up(mut self) -> Self {
        self.gives_up = true;
        if self.request == CounterRequest::StepOne {
            self.request = CounterRequest::ReadToken;
        }
        self
    }

    /// Returns the next request.
    pub(super) fn request(&self) -> CounterRequest {
        self.request
    }

    /// Applies a reply. Returns the end, if that was the last one.
    pub(super) fn apply(&mut self, reply: CounterReply) -> Option<IncrementEnd> {
        match reply {
            CounterReply::StepOne(true) => {
                // A server recognises a retry of the driver by its `txnNumber`, but not a second step one of this
                // client.
                let needs_none = self.has_txn_record && !self.step_one_was_sent;
                self.stage = if needs_none { IntentStage::BegunOnce } else { IntentStage::Begun };
                self.send_step_two();
                None
            }
            CounterReply::StepOne(false) => {
                self.step_one_was_sent = true;
                // A server keeps no record of a write that matched nothing. If the driver had retried it, the
                // first attempt may still arrive.
                self.is_in_doubt = true;
                // Most likely, this is the first increment of the counter.
                self.send_next(if self.has_created {
                    CounterRequest::ReadToken
                } else {
                    CounterRequest::CreateCounter
                });
                None
            }
            CounterReply::Created(is_new) => {
                self.has_created = true;
                let goes_on = is_new && !self.gives_up;
                self.send_next(if goes_on {
                    CounterRequest::StepOne
                } else {
                    CounterRequest::ReadToken
                });
                None
            }
            CounterReply::Token(state) => self.apply_token_state(state),
            CounterReply::GaveUp(true) => {
                Some(IncrementEnd::Resolved(Resolution::NeverBegun(self.read_at)))
            }
            CounterReply::GaveUp(false) => self.restart_with(CounterRequest::ReadToken),
            // If nothing matched, another client has counted it, or an earlier attempt.
            CounterReply::StepTwo => Some(IncrementEnd::Resolved(Resolution::Counted)),
            CounterReply::Failed { in_doubt, can_retry } => self.apply_failure(in_doubt, can_retry),
        }
    }

    fn apply_token_state(&mut self, state: TokenState) -> Option<IncrementEnd> {
        let now = match state {
            TokenState::NoCounter => {
                self.has_created = false;
                return self.restart_with(CounterRequest::CreateCounter);
            }
            TokenState::Pending => {
                self.stage = IntentStage::Begun;
                self.send_step_two();
                return None;
            }
            TokenState::Counted => return Some(IncrementEnd::Resolved(Resolution::Counted)),
            TokenState::GivenUp(now) => {
                return Some(IncrementEnd::Resolved(Resolution::NeverBegun(now)));
            }
            TokenState::Absent(now) => now,
        };
        if !self.gives_up && now < self.since {
            return Some(IncrementEnd::TooEarly { server: now, state: self.state() });
        }
        if !self.gives_up && now < self.until {
            return self.restart_with(CounterRequest::StepOne);
        }
        if now >= self.tombstone_expires {
            return Some(IncrementEnd::Resolved(Resolution::Unknown(now)));
        }
        self.read_at = now;
        self.send_next(CounterRequest::GiveUp);
        None
    }

    fn apply_failure(&mut self, in_doubt: bool, can_retry: bool) -> Option<IncrementEnd> {
        match self.request {
            CounterRequest::StepOne => {
                self.step_one_was_sent = true;
                self.is_in_doubt |= in_doubt;
            }
            CounterRequest::StepTwo { .. } => self.is_step_two_in_doubt |= in_doubt,
            CounterRequest::CreateCounter | CounterRequest::ReadToken | CounterRequest::GiveUp => {}
        }
        if can_retry && self.retries_left > 0 {
            self.retries_left -= 1;
            return None;
        }
        let step = match self.request {
            CounterRequest::StepOne | CounterRequest::CreateCounter => IncrementStep::One,
            CounterRequest::ReadToken | CounterRequest::GiveUp => IncrementStep::Lookup,
            CounterRequest::StepTwo { .. } => IncrementStep::Two,
        };
        Some(IncrementEnd::Failed { step, state: self.state() })
    }

    /// Returns what is known of the increment.
    pub(super) fn state(&self) -> IncrementState {
        match self.stage {
            IntentStage::Open if self.is_in_doubt => IncrementState::MaybePending,
            IntentStage::Open => IncrementState::NeverBegun,
            IntentStage::Begun | IntentStage::BegunOnce if self.is_step_two_in_doubt => {
                IncrementState::MaybeCounted
            }
            IntentStage::Begun | IntentStage::BegunOnce => IncrementState::Pending,
        }
    }

    fn send_next(&mut self, request: CounterRequest) {
        self.request = request;
        self.retries_left = self.retries;
    }

    fn send_step_two(&mut self) {
        self.send_next(CounterRequest::StepTwo {
            leaves_tombstone: self.stage != IntentStage::BegunOnce,
        });
    }

    fn restart_with(&mut self, request: CounterRequest) -> Option<IncrementEnd> {
        if self.reads_left == 0 {
            return Some(IncrementEnd::Contended { state: self.state() });
        }
        self.reads_left -= 1;
        self.send_next(request);
        None
    }
}

impl TokenState {
    /// Reads the result of [`documents::read_token`].
    pub(super) fn read(found: Option<&Document>) -> Result<Self> {
        let Some(found) = found else { return Ok(Self::NoCounter) };
        if found.get_bool("pending").unwrap_or(false) {
            return Ok(Self::Pending);
        }
        let now = *found.get_datetime("now").map_err(|_| {
            Error::invalid_response("the reply does not contain the time of the server ($$NOW)")
        })?;
        let tombstone = found.get_array("done").ok().and_then(|done| done.first());
        let tombstone = tombstone.and_then(|tombstone| tombstone.as_document());
        Ok(match tombstone.map(|tombstone| tombstone.get_bool("counted")) {
            Some(Ok(false)) => Self::GivenUp(now),
            Some(_) => Self::Counted,
            None => Self::Absent(now),
        })
    }
}
