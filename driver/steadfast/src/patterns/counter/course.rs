//! The course of an increment: what to ask of the server next, and what its answers come to. It does no
//! I/O and reads no clock, so that a test can go through all of its turns.

use std::time::Duration;

use bson::{DateTime, Document};

use super::{Intent, Known, Step, documents, intent::Stage};
use crate::error::{Error, Result};

/// How often the state of a token is looked at before it is said that it cannot be settled.
const LOOKS: u8 = 4;
/// Servers know a write that they have executed for half an hour, and refuse it when it comes again.
/// An increment that may begin later than this cannot rely on it.
const KNOWN_TO_SERVERS: Duration = Duration::from_secs(20 * 60);

/// What to ask of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Ask {
    StepOne,
    /// To make the counter's document.
    Create,
    /// Where the token is.
    Look,
    GiveUp,
    StepTwo {
        leaves_tombstone: bool,
    },
}

/// What the server said.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Answer {
    /// Whether there was a document that takes the token.
    StepOne(bool),
    /// Whether there was no document.
    Created(bool),
    Found(Place),
    /// Whether the token was neither pending nor done.
    GaveUp(bool),
    /// Whether or not the token was there.
    StepTwo,
    Failed {
        /// Whether the request may have been executed, or may yet be.
        in_doubt: bool,
        can_retry: bool,
    },
}

/// Where a token is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Place {
    /// The counter has no document.
    Nowhere,
    Pending,
    Counted,
    /// Given up, at this time of the server's at the latest.
    GivenUp(DateTime),
    /// Neither pending nor done, at this time of the server's.
    Neither(DateTime),
}

/// What an increment has come to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum End {
    Settled(Settled),
    /// The latest failure ended it.
    Failed {
        step: Step,
        known: Known,
    },
    /// It cannot begin yet, at this time of the server's.
    TooEarly {
        server: DateTime,
        known: Known,
    },
    /// The state of the token was another each time.
    Unsettled {
        known: Known,
    },
}

/// What is certain of an increment, with the server's time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Settled {
    Counted,
    NeverBegun(DateTime),
    CannotBeTold(DateTime),
}

/// An increment on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Course {
    pub(super) stage: Stage,
    ask: Ask,
    gives_up: bool,
    since: DateTime,
    until: DateTime,
    /// When its tombstone may be gone.
    kept_until: DateTime,
    /// The server's time when the token was looked for.
    seen: DateTime,
    /// Whether a single step one that was answered needs no tombstone.
    trusts_servers: bool,
    /// Whether step one was sent here before.
    is_sent_again: bool,
    /// Whether a step one, ours or another's, may take effect, or have taken it, unheard.
    is_in_doubt: bool,
    is_step_two_in_doubt: bool,
    has_created: bool,
    looks_left: u8,
    retries: u32,
    retries_left: u32,
}

impl Course {
    /// Of an increment that nobody else knows of.
    pub(super) fn of_our_own(intent: &Intent, keep: Duration, retries: u32) -> Self {
        let may_begin_for = intent.until.timestamp_millis() - intent.since.timestamp_millis();
        let trusts_servers = u128::try_from(may_begin_for)
            .is_ok_and(|millis| millis <= 2 * KNOWN_TO_SERVERS.as_millis());
        Self { trusts_servers, is_in_doubt: false, ..Self::of_anybody(intent, keep, retries) }
    }

    /// Of an intent that may have been begun before, or by others.
    pub(super) fn of_anybody(intent: &Intent, keep: Duration, retries: u32) -> Self {
        let mut course = Self {
            stage: intent.stage,
            ask: Ask::StepOne,
            gives_up: false,
            since: intent.since,
            until: intent.until,
            kept_until: documents::later(intent.until, keep),
            seen: intent.until,
            trusts_servers: false,
            is_sent_again: false,
            is_in_doubt: true,
            // Of one that was begun before: it may have been counted since.
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

    /// The same, to be given up unless it has begun.
    pub(super) fn given_up(mut self) -> Self {
        self.gives_up = true;
        if self.ask == Ask::StepOne {
            self.ask = Ask::Look;
        }
        self
    }

    /// What to ask now.
    pub(super) fn ask(&self) -> Ask {
        self.ask
    }

    /// Goes on by an answer; what it has come to, if that was the last.
    pub(super) fn hear(&mut self, answer: Answer) -> Option<End> {
        match answer {
            Answer::StepOne(true) => {
                // A server knows the driver's own repetitions for what they are. A second sending of
                // ours it does not, nor the first if it comes after all.
                let needs_none = self.trusts_servers && !self.is_sent_again;
                self.stage = if needs_none { Stage::BegunOnce } else { Stage::Begun };
                self.go_on_with_step_two();
                None
            }
            Answer::StepOne(false) => {
                self.is_sent_again = true;
                // No server keeps a record of a write that found nothing to do. If the driver had sent it
                // before, by itself, that one may still come.
                self.is_in_doubt = true;
                // Most likely it is the counter's first increment.
                self.go_on_with(if self.has_created { Ask::Look } else { Ask::Create });
                None
            }
            Answer::Created(is_new) => {
                self.has_created = true;
                let goes_on = is_new && !self.gives_up;
                self.go_on_with(if goes_on { Ask::StepOne } else { Ask::Look });
                None
            }
            Answer::Found(place) => self.hear_of(place),
            Answer::GaveUp(true) => Some(End::Settled(Settled::NeverBegun(self.seen))),
            Answer::GaveUp(false) => self.look_again(Ask::Look),
            // If nothing matched, somebody else has counted it, or an earlier sending of ours.
            Answer::StepTwo => Some(End::Settled(Settled::Counted)),
            Answer::Failed { in_doubt, can_retry } => self.hear_failure(in_doubt, can_retry),
        }
    }

    fn hear_of(&mut self, place: Place) -> Option<End> {
        let now = match place {
            Place::Nowhere => {
                self.has_created = false;
                return self.look_again(Ask::Create);
            }
            Place::Pending => {
                self.stage = Stage::Begun;
                self.go_on_with_step_two();
                return None;
            }
            Place::Counted => return Some(End::Settled(Settled::Counted)),
            Place::GivenUp(now) => return Some(End::Settled(Settled::NeverBegun(now))),
            Place::Neither(now) => now,
        };
        if !self.gives_up && now < self.since {
            return Some(End::TooEarly { server: now, known: self.known() });
        }
        if !self.gives_up && now < self.until {
            return self.look_again(Ask::StepOne);
        }
        if now >= self.kept_until {
            return Some(End::Settled(Settled::CannotBeTold(now)));
        }
        self.seen = now;
        self.go_on_with(Ask::GiveUp);
        None
    }

    fn hear_failure(&mut self, in_doubt: bool, can_retry: bool) -> Option<End> {
        match self.ask {
            Ask::StepOne => {
                self.is_sent_again = true;
                self.is_in_doubt |= in_doubt;
            }
            Ask::StepTwo { .. } => self.is_step_two_in_doubt |= in_doubt,
            Ask::Create | Ask::Look | Ask::GiveUp => {}
        }
        if can_retry && self.retries_left > 0 {
            self.retries_left -= 1;
            return None;
        }
        let step = match self.ask {
            Ask::StepOne | Ask::Create => Step::One,
            Ask::Look | Ask::GiveUp => Step::Settling,
            Ask::StepTwo { .. } => Step::Two,
        };
        Some(End::Failed { step, known: self.known() })
    }

    /// What can be said of it now.
    pub(super) fn known(&self) -> Known {
        match self.stage {
            Stage::Open if self.is_in_doubt => Known::MaybePending,
            Stage::Open => Known::NeverBegun,
            Stage::Begun | Stage::BegunOnce if self.is_step_two_in_doubt => Known::MaybeCounted,
            Stage::Begun | Stage::BegunOnce => Known::Pending,
        }
    }

    fn go_on_with(&mut self, ask: Ask) {
        self.ask = ask;
        self.retries_left = self.retries;
    }

    fn go_on_with_step_two(&mut self) {
        self.go_on_with(Ask::StepTwo { leaves_tombstone: self.stage != Stage::BegunOnce });
    }

    fn look_again(&mut self, ask: Ask) -> Option<End> {
        if self.looks_left == 0 {
            return Some(End::Unsettled { known: self.known() });
        }
        self.looks_left -= 1;
        self.go_on_with(ask);
        None
    }
}

impl Place {
    /// Reads what [`documents::look`] gives.
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
