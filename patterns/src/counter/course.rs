//! State machine of an increment: the next request, and the conclusions from its reply. It does no I/O and
//! reads no clock, so that a test can go through all of its transitions.

use std::time::Duration;

use bson::{DateTime, Document};

use super::{IncrementState, IncrementStep, Intent, documents, intent::Stage};
use steadfast::error::{Error, Result};

/// Number of times that the state of a token is read before the increment fails as unsettled.
const LOOKS: u8 = 4;
/// Servers keep the record of a retryable write for half an hour. An increment that may begin later than this
/// cannot rely on it.
const KNOWN_TO_SERVERS: Duration = Duration::from_secs(20 * 60);

/// Next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum CounterRequest {
    StepOne,
    /// Insert the counter's document.
    Create,
    /// Read the state of the token.
    Look,
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
    Found(TokenState),
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
    Nowhere,
    Pending,
    Counted,
    /// Given up before this time of the server.
    GivenUp(DateTime),
    /// Neither pending nor done, at this time of the server.
    Neither(DateTime),
}

/// End of an increment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum CourseEnd {
    Settled(Settled),
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
    Unsettled {
        state: IncrementState,
    },
}

/// Certain result of an increment, with the time of the server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Settled {
    Counted,
    NeverBegun(DateTime),
    CannotBeTold(DateTime),
}

/// An increment in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Course {
    pub(super) stage: Stage,
    ask: CounterRequest,
    gives_up: bool,
    since: DateTime,
    until: DateTime,
    /// Time at which its tombstone may be removed.
    kept_until: DateTime,
    /// Time of the server when the token was read.
    seen: DateTime,
    /// `true` if an acknowledged single step one needs no tombstone.
    trusts_servers: bool,
    /// `true` if step one was sent before.
    is_sent_again: bool,
    /// `true` if a step one whose reply is missing may be executed, or was, by this client or another.
    is_in_doubt: bool,
    is_step_two_in_doubt: bool,
    has_created: bool,
    looks_left: u8,
    retries: u32,
    retries_left: u32,
}

impl Course {
    /// Begins an increment that no other process has.
    pub(super) fn of_our_own(intent: &Intent, keep: Duration, retries: u32) -> Self {
        let may_begin_for = intent.until.timestamp_millis() - intent.since.timestamp_millis();
        let trusts_servers = u128::try_from(may_begin_for)
            .is_ok_and(|millis| millis <= 2 * KNOWN_TO_SERVERS.as_millis());
        Self { trusts_servers, is_in_doubt: false, ..Self::of_anybody(intent, keep, retries) }
    }

    /// Begins an intent that may have been begun before, or by others.
    pub(super) fn of_anybody(intent: &Intent, keep: Duration, retries: u32) -> Self {
        let mut course = Self {
            stage: intent.stage,
            ask: CounterRequest::StepOne,
            gives_up: false,
            since: intent.since,
            until: intent.until,
            kept_until: documents::later(intent.until, keep),
            seen: intent.until,
            trusts_servers: false,
            is_sent_again: false,
            is_in_doubt: true,
            // It was begun before, so it may have been counted since.
            is_step_two_in_doubt: intent.stage != Stage::Open,
            has_created: false,
            looks_left: LOOKS,
            retries,
            retries_left: retries,
        };
        if intent.stage != Stage::Open {
            course.go_on_with_step_two();
        }
        course
    }

    /// Gives the intent up unless it has begun.
    pub(super) fn given_up(mut self) -> Self {
        self.gives_up = true;
        if self.ask == CounterRequest::StepOne {
            self.ask = CounterRequest::Look;
        }
        self
    }

    /// Returns the next request.
    pub(super) fn ask(&self) -> CounterRequest {
        self.ask
    }

    /// Applies a reply. Returns the end, if that was the last one.
    pub(super) fn apply(&mut self, answer: CounterReply) -> Option<CourseEnd> {
        match answer {
            CounterReply::StepOne(true) => {
                // A server recognises retries of the driver. It does not recognise a second step one of this
                // client.
                let needs_none = self.trusts_servers && !self.is_sent_again;
                self.stage = if needs_none { Stage::BegunOnce } else { Stage::Begun };
                self.go_on_with_step_two();
                None
            }
            CounterReply::StepOne(false) => {
                self.is_sent_again = true;
                // A server keeps no record of a write that matched nothing. If the driver had retried it, the
                // first attempt may still arrive.
                self.is_in_doubt = true;
                // Most likely it is the first increment of the counter.
                self.go_on_with(if self.has_created {
                    CounterRequest::Look
                } else {
                    CounterRequest::Create
                });
                None
            }
            CounterReply::Created(is_new) => {
                self.has_created = true;
                let goes_on = is_new && !self.gives_up;
                self.go_on_with(if goes_on {
                    CounterRequest::StepOne
                } else {
                    CounterRequest::Look
                });
                None
            }
            CounterReply::Found(place) => self.apply_token_state(place),
            CounterReply::GaveUp(true) => Some(CourseEnd::Settled(Settled::NeverBegun(self.seen))),
            CounterReply::GaveUp(false) => self.look_again(CounterRequest::Look),
            // If nothing matched, another client has counted it, or an earlier attempt.
            CounterReply::StepTwo => Some(CourseEnd::Settled(Settled::Counted)),
            CounterReply::Failed { in_doubt, can_retry } => self.apply_failure(in_doubt, can_retry),
        }
    }

    fn apply_token_state(&mut self, place: TokenState) -> Option<CourseEnd> {
        let now = match place {
            TokenState::Nowhere => {
                self.has_created = false;
                return self.look_again(CounterRequest::Create);
            }
            TokenState::Pending => {
                self.stage = Stage::Begun;
                self.go_on_with_step_two();
                return None;
            }
            TokenState::Counted => return Some(CourseEnd::Settled(Settled::Counted)),
            TokenState::GivenUp(now) => return Some(CourseEnd::Settled(Settled::NeverBegun(now))),
            TokenState::Neither(now) => now,
        };
        if !self.gives_up && now < self.since {
            return Some(CourseEnd::TooEarly { server: now, state: self.state() });
        }
        if !self.gives_up && now < self.until {
            return self.look_again(CounterRequest::StepOne);
        }
        if now >= self.kept_until {
            return Some(CourseEnd::Settled(Settled::CannotBeTold(now)));
        }
        self.seen = now;
        self.go_on_with(CounterRequest::GiveUp);
        None
    }

    fn apply_failure(&mut self, in_doubt: bool, can_retry: bool) -> Option<CourseEnd> {
        match self.ask {
            CounterRequest::StepOne => {
                self.is_sent_again = true;
                self.is_in_doubt |= in_doubt;
            }
            CounterRequest::StepTwo { .. } => self.is_step_two_in_doubt |= in_doubt,
            CounterRequest::Create | CounterRequest::Look | CounterRequest::GiveUp => {}
        }
        if can_retry && self.retries_left > 0 {
            self.retries_left -= 1;
            return None;
        }
        let step = match self.ask {
            CounterRequest::StepOne | CounterRequest::Create => IncrementStep::One,
            CounterRequest::Look | CounterRequest::GiveUp => IncrementStep::Settling,
            CounterRequest::StepTwo { .. } => IncrementStep::Two,
        };
        Some(CourseEnd::Failed { step, state: self.state() })
    }

    /// Returns what is known of the increment.
    pub(super) fn state(&self) -> IncrementState {
        match self.stage {
            Stage::Open if self.is_in_doubt => IncrementState::MaybePending,
            Stage::Open => IncrementState::NeverBegun,
            Stage::Begun | Stage::BegunOnce if self.is_step_two_in_doubt => {
                IncrementState::MaybeCounted
            }
            Stage::Begun | Stage::BegunOnce => IncrementState::Pending,
        }
    }

    fn go_on_with(&mut self, ask: CounterRequest) {
        self.ask = ask;
        self.retries_left = self.retries;
    }

    fn go_on_with_step_two(&mut self) {
        self.go_on_with(CounterRequest::StepTwo {
            leaves_tombstone: self.stage != Stage::BegunOnce,
        });
    }

    fn look_again(&mut self, ask: CounterRequest) -> Option<CourseEnd> {
        if self.looks_left == 0 {
            return Some(CourseEnd::Unsettled { state: self.state() });
        }
        self.looks_left -= 1;
        self.go_on_with(ask);
        None
    }
}

impl TokenState {
    /// Reads the result of [`documents::look`].
    pub(super) fn read(found: Option<&Document>) -> Result<Self> {
        let Some(found) = found else { return Ok(Self::Nowhere) };
        if found.get_bool("pending").unwrap_or(false) {
            return Ok(Self::Pending);
        }
        let now = *found.get_datetime("now").map_err(|_| {
            Error::invalid_response("a server was asked for its time and did not tell")
        })?;
        let tombstone = found.get_array("done").ok().and_then(|done| done.first());
        let tombstone = tombstone.and_then(|tombstone| tombstone.as_document());
        Ok(match tombstone.map(|tombstone| tombstone.get_bool("counted")) {
            Some(Ok(false)) => Self::GivenUp(now),
            Some(_) => Self::Counted,
            None => Self::Neither(now),
        })
    }
}
