//! When a command is tried again, which error a caller gets, and what became of the write.
//!
//! The one state machine for retryable writes and retryable reads. It knows nothing of sockets,
//! sessions or the driver's errors: failures come in as facts, `now` is passed in, and decisions
//! go out as data for the driver's loop to act on. One [`Retry`] serves one command; a batch that
//! is sent as several commands has one for each, because each has its own transaction id.
//!
//! # The order of calls
//!
//! ```text
//! Retry::new
//!   loop: select a server, avoiding deprioritised()
//!           none found          -> no_server()            -> GiveUp
//!         server_selected(facts)                          -> go on | GiveUp
//!         check out a connection
//!           failed              -> on_failure(..)         -> Retry | GiveUp
//!         begin_sending(now)                              -> TransactionId | GiveUp
//!         send, receive
//!           failed              -> on_failure(..)         -> Retry | GiveUp
//! ```
//!
//! # What may be tried again at all
//!
//! Decided when the first server has been selected, and never widened later.
//!
//! | # | command                              | tried again if                                             | transaction id |
//! |---|--------------------------------------|------------------------------------------------------------|----------------|
//! | 1 | [`Kind::Read`]                       | `retryReads`, not in a transaction                         | no             |
//! | 2 | [`Kind::RecognisableWrite`]          | `retryWrites`, not in a transaction, acknowledged, and the server supports it (wire version 6, sessions, not a standalone) | yes, under the same conditions |
//! | 3 | [`Kind::EndTransaction`]             | always, whatever `retryWrites` says                        | the transaction's own |
//! | 4 | [`Kind::Write`], [`Kind::Generic`], [`Kind::GetMore`] | never                                     | no             |
//!
//! # What happens after a failure
//!
//! The first row that fits decides.
//!
//! | # | the failure                                                                | then |
//! |---|----------------------------------------------------------------------------|------|
//! | 1 | of a command that may not be tried again                                    | give up |
//! | 2 | not retryable: of a write, one without `RetryableWriteError`, be it from the server or added here ([`retryable_write_label`]); of a read, neither a network error, nor PoolCleared, nor one of the specification's codes | give up |
//! | 3 | there is no deadline, and this was the second attempt                       | give up |
//! | 4 | there is a deadline, and it has passed                                      | give up |
//! | 5 | the first attempt to be sent was sent so long ago that the server may have forgotten the session | give up |
//! | 6 | any other                                                                   | retry; avoid the server if it is a router or said `SystemOverloadedError` |
//!
//! Row 5 is asked again right before sending, because selecting and connecting take time too.
//!
//! # Which error is raised
//!
//! | # | what the attempts came to                                    | raised |
//! |---|--------------------------------------------------------------|--------|
//! | 1 | no attempt: the first selection failed                       | that error |
//! | 2 | one or more were sent and not labelled `NoWritesPerformed`   | the latest of these |
//! | 3 | none was sent, or all that were are labelled `NoWritesPerformed` | the first |
//!
//! So an error that tells of no attempt (no server, no connection) or of no write never hides one
//! after which a write may have happened. It is the label of each error itself that counts; the
//! specification's pseudocode asks the previous error's.
//!
//! What became of the write is a question of its own, answered over all attempts: [`Outcome`].

mod codes;
mod facts;
mod label;
mod outcome;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use crate::address::ServerAddress;

use self::label::{is_retryable_read, is_without_transaction_numbers};
pub use self::{
    facts::{Cause, Failure, Kind, Labels, Operation, Phase, RetrySettings, ServerFacts},
    label::retryable_write_label,
    outcome::{Ledger, Outcome},
};

/// On errors after which a write may be sent again with the same transaction id.
pub const RETRYABLE_WRITE_ERROR: &str = "RetryableWriteError";
/// On errors of an attempt that wrote nothing.
pub const NO_WRITES_PERFORMED: &str = "NoWritesPerformed";
/// On errors after which any command may be sent again.
pub const RETRYABLE_ERROR: &str = "RetryableError";
/// On errors of a server that sheds load.
pub const SYSTEM_OVERLOADED_ERROR: &str = "SystemOverloadedError";
/// On errors after which a whole transaction may be tried again: it was not committed.
pub const TRANSIENT_TRANSACTION_ERROR: &str = "TransientTransactionError";

/// What a caller reads instead of the server's "Transaction numbers are only allowed on …".
pub const RETRYABLE_WRITES_UNSUPPORTED: &str = "This MongoDB deployment does not support retryable \
     writes. Please add retryWrites=false to your connection string.";

/// How much earlier than the server we take a session to have expired.
const SESSION_MARGIN: Duration = Duration::from_secs(60);
/// How long servers remember a session if nothing else is known, as behind a load balancer.
const DEFAULT_SESSION_LIFETIME: Duration = Duration::from_secs(30 * 60);
/// How often a command is tried again if no deadline bounds it.
const RETRIES_WITHOUT_DEADLINE: usize = 1;

/// One command's way through its attempts; see the [module](self) for the order of calls.
#[derive(Clone, Debug)]
pub struct Retry {
    settings: RetrySettings,
    operation: Operation,
    policy: Option<Policy>,
    /// The server of the attempt under way, or of the latest.
    server: Option<ServerFacts>,
    attempts: Vec<Tried>,
    deprioritised: Vec<ServerAddress>,
    first_sending: Option<Instant>,
    /// The shortest of the servers that were selected.
    session_lifetime: Duration,
    ledger: Ledger,
}

/// What the first server allows.
#[derive(Clone, Copy, Debug)]
struct Policy {
    may_retry: bool,
    with_transaction_id: bool,
}

/// An attempt that failed.
#[derive(Clone, Copy, Debug)]
struct Tried {
    /// Whether its error lets a caller think that something may have been written.
    tells_of_an_attempt: bool,
    lacks_transaction_numbers: bool,
}

/// What to make of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Verdict {
    /// Whether the driver puts [`RETRYABLE_WRITE_ERROR`] on this error.
    pub add_retryable_write_label: bool,
    /// How to go on.
    pub next: Next,
}

/// How to go on after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Next {
    /// Select a server again, and send the command again with the same transaction id.
    Retry,
    /// Raise an error.
    GiveUp(GiveUp),
}

/// The end of a command that did not succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct GiveUp {
    /// Which error a caller gets.
    pub raise: Raise,
    /// What became of the write, over all attempts.
    pub outcome: Outcome,
    /// What the error is to say instead of the server's words.
    pub message: Option<&'static str>,
}

/// Which error a caller gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Raise {
    /// That no server could be selected: there was no attempt.
    Selection,
    /// That of the attempt with this index; the first failure told to
    /// [`on_failure`](Retry::on_failure) is 0.
    Attempt(usize),
}

/// By what the server is to recognise the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum TransactionId {
    /// By nothing that is added here: send no `txnNumber` of the driver's own.
    None,
    /// By a number that the session has not used: advance it. This is the first sending.
    New,
    /// By the very number of the sendings before.
    Same,
}

impl Retry {
    /// A command that has not been tried.
    pub fn new(settings: RetrySettings, operation: Operation) -> Self {
        Self {
            settings,
            operation,
            policy: None,
            server: None,
            attempts: Vec::new(),
            deprioritised: Vec::new(),
            first_sending: None,
            session_lifetime: Duration::MAX,
            ledger: Ledger::default(),
        }
    }

    /// The same for a command that repeats an earlier one, and so goes on from what is known of that.
    #[must_use]
    pub fn following(mut self, earlier: Ledger) -> Self {
        self.ledger = earlier;
        self
    }

    /// What is known of all attempts so far.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The servers that the next selection avoids while another is suitable.
    pub fn deprioritised(&self) -> &[ServerAddress] {
        &self.deprioritised
    }

    /// How many attempts have failed.
    pub fn failed_attempts(&self) -> usize {
        self.attempts.len()
    }

    /// What became of the write so far.
    pub fn outcome(&self) -> Outcome {
        self.ledger.outcome()
    }

    /// No server could be selected.
    pub fn no_server(&self) -> GiveUp {
        self.give_up()
    }

    /// A server was selected. An error means that the command must not be sent to it, because it
    /// could not recognise what another server was sent before.
    pub fn server_selected(&mut self, server: ServerFacts) -> Result<(), GiveUp> {
        let supported = server.supports_retryable_writes();
        match self.policy {
            None => self.policy = Some(self.policy_by(supported)),
            Some(_) if self.operation.kind.needs_session_record() && !supported => {
                return Err(self.give_up());
            }
            Some(_) => {}
        }
        let lifetime = server.logical_session_timeout.unwrap_or(DEFAULT_SESSION_LIFETIME);
        self.session_lifetime = self.session_lifetime.min(lifetime);
        self.server = Some(server);
        Ok(())
    }

    fn policy_by(&self, supported: bool) -> Policy {
        let operation = &self.operation;
        match operation.kind {
            Kind::Read => Policy {
                may_retry: self.settings.retry_reads && !operation.in_transaction,
                with_transaction_id: false,
            },
            Kind::RecognisableWrite => {
                let eligible = operation.is_retryable_write(self.settings) && supported;
                Policy { may_retry: eligible, with_transaction_id: eligible }
            }
            Kind::EndTransaction => Policy { may_retry: true, with_transaction_id: false },
            Kind::Write | Kind::Generic | Kind::GetMore => {
                Policy { may_retry: false, with_transaction_id: false }
            }
        }
    }

    /// A connection is there and the command is about to be written. An error means that it is too
    /// late: the server may no longer know what it was sent before.
    pub fn begin_sending(&mut self, now: Instant) -> Result<TransactionId, GiveUp> {
        if !self.attempts.is_empty() && self.is_too_late(now) {
            return Err(self.give_up());
        }
        let first = self.first_sending.is_none();
        self.first_sending.get_or_insert(now);
        Ok(match (self.with_transaction_id(), first) {
            (false, _) => TransactionId::None,
            // After a check-out that failed there is no session yet, and so no number.
            (true, true) => TransactionId::New,
            (true, false) => TransactionId::Same,
        })
    }

    /// An attempt failed.
    pub fn on_failure(&mut self, failure: &Failure<'_>, now: Instant) -> Verdict {
        let add_label = self.server.as_ref().is_some_and(|server| {
            retryable_write_label(self.settings, &self.operation, server, failure)
        });
        self.record(failure);
        let labelled = failure.labels.retryable_write || add_label;
        let retry = self.may_retry()
            && self.is_retryable(failure, labelled)
            && self.is_retry_left()
            && !self.is_too_late(now);
        if retry {
            self.avoid_server(failure);
        }
        let next = if retry { Next::Retry } else { Next::GiveUp(self.give_up()) };
        Verdict { add_retryable_write_label: add_label, next }
    }

    fn record(&mut self, failure: &Failure<'_>) {
        self.attempts.push(Tried {
            tells_of_an_attempt: failure.phase == Phase::Sending
                && !failure.labels.no_writes_performed,
            lacks_transaction_numbers: self.with_transaction_id()
                && is_without_transaction_numbers(failure),
        });
        let through_router = self.server.as_ref().is_none_or(ServerFacts::is_router);
        let with_transaction_id = self.with_transaction_id();
        self.ledger.enter(&self.operation, failure, through_router, with_transaction_id);
    }

    fn may_retry(&self) -> bool {
        self.policy.is_some_and(|policy| policy.may_retry)
    }

    fn with_transaction_id(&self) -> bool {
        self.policy.is_some_and(|policy| policy.with_transaction_id)
    }

    fn is_retryable(&self, failure: &Failure<'_>, labelled: bool) -> bool {
        match self.operation.kind {
            Kind::Read => is_retryable_read(failure),
            Kind::RecognisableWrite | Kind::EndTransaction => labelled,
            Kind::Write | Kind::Generic | Kind::GetMore => false,
        }
    }

    fn is_retry_left(&self) -> bool {
        self.operation.deadline.is_some() || self.attempts.len() <= RETRIES_WITHOUT_DEADLINE
    }

    /// Whether a further sending would come after the deadline, or after the server's record of an
    /// earlier one may have expired.
    fn is_too_late(&self, now: Instant) -> bool {
        let deadline_passed = self.operation.deadline.is_some_and(|deadline| now >= deadline);
        deadline_passed || self.is_session_record_in_doubt(now)
    }

    fn is_session_record_in_doubt(&self, now: Instant) -> bool {
        let Some(first) = self.first_sending else { return false };
        let safe_for = self.session_lifetime.saturating_sub(SESSION_MARGIN);
        self.operation.kind.needs_session_record()
            && now.saturating_duration_since(first) >= safe_for
    }

    /// Elsewhere than in a sharded cluster, only an overloaded server is avoided: a secondary that
    /// a read prefers stays preferred after its connection broke.
    fn avoid_server(&mut self, failure: &Failure<'_>) {
        let Some(server) = &self.server else { return };
        let avoid = server.is_router() || failure.labels.system_overloaded;
        if avoid && !self.deprioritised.contains(&server.address) {
            self.deprioritised.push(server.address.clone());
        }
    }

    fn give_up(&self) -> GiveUp {
        let outcome = self.outcome();
        if self.attempts.is_empty() {
            return GiveUp { raise: Raise::Selection, outcome, message: None };
        }
        let telling = self.attempts.iter().rposition(|attempt| attempt.tells_of_an_attempt);
        let raised = telling.unwrap_or(0);
        let message =
            self.attempts[raised].lacks_transaction_numbers.then_some(RETRYABLE_WRITES_UNSUPPORTED);
        GiveUp { raise: Raise::Attempt(raised), outcome, message }
    }
}
