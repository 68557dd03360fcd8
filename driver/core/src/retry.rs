//! Retries of commands: which failures are retried, which error is raised, and the outcome of a
//! write.
//!
//! This is the only state machine for retryable writes, retryable reads and overload errors. It has
//! no sockets, sessions or driver errors: failures arrive as facts, `now` and random numbers are
//! parameters, and decisions leave as data for the driver's loop. One [`Retry`] serves one command.
//! A batch of several commands has one for each, because each has its own `txnNumber`. All commands
//! of a client share one [`RetryBudget`].
//!
//! # Order of calls
//!
//! ```text
//!     Retry::new
//!       loop: select a server, without deprioritized() if others are suitable
//!               none found          -> no_server()            -> GiveUp
//!             server_selected(facts)                          -> continue | GiveUp
//!             check out a connection
//!               failed              -> on_failure(..)         -> Retry after a backoff | GiveUp
//!             begin_send(now)                                 -> TxnNumber | GiveUp
//!             send, receive
//!               failed              -> on_failure(..)         -> Retry after a backoff | GiveUp
//!               succeeded           -> succeeded()
//! ```
//!
//! # Commands that can be retried
//!
//! An error is retryable in one of two ways. By its *code*: it is a network error, or has a code that
//! the specifications of retryable reads and writes list, and the command is safe to repeat. The
//! first selected server decides whether the command is; later servers never extend it. By its
//! *label* `RetryableError`: the server has not executed the command, so any command can be retried.
//!
//! | # | command                             | by code if                                                 | by label if     | `txnNumber` |
//! |---|-------------------------------------|------------------------------------------------------------|-----------------|-------------|
//! | 1 | [`CommandKind::Read`]               | `retryReads`, not in a transaction                         | `retryReads`    | no |
//! | 2 | [`CommandKind::RetryableWrite`]     | `retryWrites`, not in a transaction, acknowledged, and supported by the server (wire version 6, sessions, not a standalone) | `retryWrites`, acknowledged | yes, if it can be retried by code |
//! | 3 | [`CommandKind::EndTransaction`]     | always, whatever the value of `retryWrites`                | always          | that of the transaction |
//! | 4 | [`CommandKind::Write`]              | never                                                      | `retryWrites`, acknowledged | no |
//! | 5 | [`CommandKind::GetMore`]            | never                                                      | `retryReads`    | no |
//! | 6 | [`CommandKind::Generic`]            | never                                                      | `retryReads` and `retryWrites`, acknowledged | no |
//!
//! # Decision after a failure
//!
//! An *overload error* has the label `RetryableError` or `SystemOverloadedError`. Any other error
//! is an *ordinary error*, and the retry after it an ordinary retry. The first row that applies
//! decides.
//!
//! | # | condition                                                                  | decision |
//! |---|----------------------------------------------------------------------------|----------|
//! | 1 | The error is not retryable by code: a write error without `RetryableWriteError`, from the server or added here ([`adds_retryable_write_label`]); a read error other than a network error, PoolCleared or a listed code; or the command cannot be retried by code. And it is not retryable by label: there is no label, or the command cannot be retried by label; or the reply reports writes, or the command was sent and has no reply. | give up |
//! | 2 | This or an earlier error is an overload error, and there were `maxAdaptiveRetries` retries of any kind. | give up |
//! | 3 | It is an ordinary error without a deadline, and an attempt that was sent was retried before; or this attempt was not sent, and the first such failure was `serverSelectionTimeoutMS` ago. | give up |
//! | 4 | The deadline has passed.                                                   | give up |
//! | 5 | This or an earlier attempt may have been executed, and was sent so long ago that the session may have expired on the server. | give up |
//! | 6 | The backoff would not end before the deadline.                             | give up, without taking a token |
//! | 7 | It is an overload error, and the [`RetryBudget`] has no token.             | give up |
//! | 8 | Otherwise.                                                                 | retry: immediately for the first ordinary retry, else after a backoff; deprioritize the server if it is a mongos or load balancer, or if the error has `SystemOverloadedError` and `enableOverloadRetargeting` is not off |
//!
//! Row 3: an attempt of which no byte was sent does not use up the retry. The pool was cleared, or
//! the connection failed during its handshake; no server has received the command.
//!
//! Row 5 is checked again immediately before sending, because backoff, server selection and
//! connecting take time. The backoff after an overload error is `jitter * min(10 s, base * 2^i)`,
//! where `i` is the number of earlier such backoffs and `base` is 100 ms or the server's
//! `baseBackoffMS`. From the second ordinary retry on, the backoff is `jitter * min(1 s, 10 ms *
//! 2^i)`, so that a deadline does not turn errors of a server into a busy loop.
//!
//! The module of [`RetryBudget`] documents the fate of the token taken in row 7.
//!
//! # Raised error
//!
//! | # | attempts                                                     | raised error |
//! |---|--------------------------------------------------------------|--------------|
//! | 1 | none: the first server selection failed                      | the selection error |
//! | 2 | at least one was sent and lacks the label `NoWritesPerformed` | the latest of these |
//! | 3 | none was sent, or all that were have `NoWritesPerformed`     | the first |
//!
//! An error without an attempt (no server, no connection) or without a write therefore never hides
//! an error after which a write may have happened. The label of each error itself counts; the
//! pseudocode of the specification examines the previous error.
//!
//! [`Outcome`] is the outcome of the write over all attempts.

mod backoff;
pub mod budget;
pub(crate) mod codes;
mod decision;
mod facts;
mod label;
mod outcome;
#[cfg(test)]
mod tests;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use crate::address::ServerAddress;

pub use self::codes::{is_duplicate_key, is_resumable};
use self::label::{is_retryable_read, is_txn_number_unsupported};
pub use self::{
    budget::{RetryBudget, RetryToken},
    codes::is_retryable_code,
    decision::{GiveUp, NextStep, RaisedError, RetryVerdict, TxnNumber},
    facts::{
        AttemptFailure, AttemptPhase, CommandFacts, CommandKind, ErrorLabels, FailureCause,
        RetrySettings, ServerFacts,
    },
    label::adds_retryable_write_label,
    outcome::{Outcome, OutcomeTracker},
};

/// Error label: the write can be retried with the same `txnNumber`.
pub const RETRYABLE_WRITE_ERROR: &str = "RetryableWriteError";
/// Error label: the attempt wrote nothing.
pub const NO_WRITES_PERFORMED: &str = "NoWritesPerformed";
/// Error label: the command was not executed, so any command can be retried.
pub const RETRYABLE_ERROR: &str = "RetryableError";
/// Error label: the server sheds load.
pub const SYSTEM_OVERLOADED_ERROR: &str = "SystemOverloadedError";
/// Error label: the transaction was not committed and can be retried as a whole.
pub const TRANSIENT_TRANSACTION_ERROR: &str = "TransientTransactionError";

/// Message in place of the server's "Transaction numbers are only allowed on …".
pub const RETRYABLE_WRITES_UNSUPPORTED: &str = "This MongoDB deployment does not support retryable \
     writes. Please add retryWrites=false to your connection string.";

/// Safety margin before the expiry of a session on the server.
const SESSION_MARGIN: Duration = Duration::from_secs(60);
/// Lifetime of a session if the server does not report one, as behind a load balancer.
const DEFAULT_SESSION_LIFETIME: Duration = Duration::from_secs(30 * 60);
/// Maximum number of retries after ordinary errors of attempts that were sent, without a deadline.
const RETRIES_WITHOUT_DEADLINE: usize = 1;

/// Retry state of one command. See the [module](self) for the order of calls.
#[derive(Debug)]
pub struct Retry {
    settings: RetrySettings,
    operation: CommandFacts,
    policy: Option<RetryPolicy>,
    /// Server of the current or latest attempt.
    server: Option<ServerFacts>,
    failed_attempts: usize,
    /// Attempt whose error would be raised now.
    raised: Option<FailedAttempt>,
    deprioritized: Vec<ServerAddress>,
    /// Number of retries after ordinary errors.
    ordinary_retries: u32,
    /// Number of those after attempts that were sent.
    retries_after_send: usize,
    /// Time of the first failure of an attempt that was not sent.
    unsent_since: Option<Instant>,
    /// Number of backoffs after overload errors.
    backoffs: u32,
    had_overload: bool,
    budget: Arc<RetryBudget>,
    /// Token taken for the current attempt.
    token: Option<RetryToken>,
    /// Time at which the latest attempt was sent.
    last_sent: Option<Instant>,
    /// Time at which the first attempt was sent that may have been executed.
    in_doubt_since: Option<Instant>,
    /// Shortest session lifetime of the selected servers.
    session_lifetime: Duration,
    outcomes: OutcomeTracker,
}

/// Retry policy, determined by the first server.
#[derive(Clone, Copy, Debug)]
struct RetryPolicy {
    may_retry: bool,
    uses_txn_number: bool,
}

/// A failed attempt.
#[derive(Clone, Copy, Debug)]
struct FailedAttempt {
    index: usize,
    lacks_txn_numbers: bool,
}

/// Reason for not retrying.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StopReason {
    Policy,
    Budget,
}

impl Retry {
    /// Creates the state of a command without attempts.
    pub fn new(
        settings: RetrySettings,
        operation: CommandFacts,
        budget: &Arc<RetryBudget>,
    ) -> Self {
        Self {
            settings,
            operation,
            policy: None,
            server: None,
            failed_attempts: 0,
            raised: None,
            deprioritized: Vec::new(),
            ordinary_retries: 0,
            retries_after_send: 0,
            unsent_since: None,
            backoffs: 0,
            had_overload: false,
            budget: Arc::clone(budget),
            token: None,
            last_sent: None,
            in_doubt_since: None,
            session_lifetime: Duration::MAX,
            outcomes: OutcomeTracker::default(),
        }
    }

    /// Continues with the outcome of an earlier command that this one repeats.
    #[must_use]
    pub fn continuing_from(mut self, earlier: OutcomeTracker) -> Self {
        self.outcomes = earlier;
        self
    }

    /// Returns the outcome of all attempts so far.
    pub fn outcomes(&self) -> &OutcomeTracker {
        &self.outcomes
    }

    /// Returns the servers that server selection avoids while another one is suitable.
    pub fn deprioritized(&self) -> &[ServerAddress] {
        &self.deprioritized
    }

    /// Returns the index of the attempt whose error would be raised now. The first attempt is 0.
    pub fn raised_attempt(&self) -> Option<usize> {
        self.raised.map(|raised| raised.index)
    }

    /// Returns the number of failed attempts.
    pub fn failed_attempts(&self) -> usize {
        self.failed_attempts
    }

    /// Returns the outcome of the write so far.
    pub fn outcome(&self) -> Outcome {
        self.outcomes.outcome()
    }

    /// Ends the command because no server could be selected.
    pub fn no_server(&self) -> GiveUp {
        self.give_up()
    }

    /// Records the selected server.
    ///
    /// # Errors
    ///
    /// The command must not be sent: this server could not recognise the `txnNumber` of an earlier
    /// attempt.
    pub fn server_selected(&mut self, server: ServerFacts) -> Result<(), GiveUp> {
        let supported = server.supports_retryable_writes();
        match self.policy {
            None => self.policy = Some(self.policy_for(supported)),
            Some(_) if self.needs_session_record() && !supported => {
                return Err(self.give_up());
            }
            Some(_) => {}
        }
        let lifetime = server.logical_session_timeout.unwrap_or(DEFAULT_SESSION_LIFETIME);
        self.session_lifetime = self.session_lifetime.min(lifetime);
        self.server = Some(server);
        Ok(())
    }

    fn policy_for(&self, supported: bool) -> RetryPolicy {
        let operation = &self.operation;
        match operation.kind {
            CommandKind::Read => RetryPolicy {
                may_retry: self.settings.retry_reads && !operation.in_transaction,
                uses_txn_number: false,
            },
            CommandKind::RetryableWrite => {
                let eligible = operation.is_retryable_write(self.settings) && supported;
                RetryPolicy { may_retry: eligible, uses_txn_number: eligible }
            }
            CommandKind::EndTransaction => RetryPolicy { may_retry: true, uses_txn_number: false },
            CommandKind::Write | CommandKind::Generic | CommandKind::GetMore => {
                RetryPolicy { may_retry: false, uses_txn_number: false }
            }
        }
    }

    /// Records that the handshake of the connection reports no session support. A write that was
    /// not sent yet gets no `txnNumber`, and so no retry.
    pub fn sessions_unsupported(&mut self) {
        if let Some(server) = &mut self.server {
            server.logical_session_timeout = None;
        }
        if self.last_sent.is_none() && self.operation.kind == CommandKind::RetryableWrite {
            self.policy = Some(RetryPolicy { may_retry: false, uses_txn_number: false });
        }
    }

    /// Records that the command is about to be sent.
    ///
    /// # Errors
    ///
    /// It is too late: the deadline has passed, or the session of an earlier attempt may have
    /// expired on the server.
    pub fn begin_send(&mut self, now: Instant) -> Result<TxnNumber, GiveUp> {
        if self.failed_attempts > 0 && self.is_too_late(now) {
            return Err(self.give_up());
        }
        if let Some(token) = &mut self.token {
            token.mark_sent();
        }
        let first = self.last_sent.replace(now).is_none();
        Ok(match (self.uses_txn_number(), first) {
            (false, _) => TxnNumber::Omit,
            // After a failed check-out there is no session yet, and so no number.
            (true, true) => TxnNumber::Assign,
            (true, false) => TxnNumber::Reuse,
        })
    }

    /// Records that the command succeeded.
    pub fn succeeded(&mut self) {
        if let Some(token) = self.token.take() {
            token.refund();
        }
        // An unacknowledged write has no reply, so it proves nothing about the server.
        if self.operation.acknowledged {
            self.budget.deposit();
        }
    }

    /// Records a failed attempt and decides. `jitter` returns a random number from 0 to 1, and is
    /// called only before a backoff.
    pub fn on_failure(
        &mut self,
        failure: &AttemptFailure<'_>,
        now: Instant,
        jitter: impl FnOnce() -> f64,
    ) -> RetryVerdict {
        let add_label = self.server.as_ref().is_some_and(|server| {
            adds_retryable_write_label(self.settings, &self.operation, server, failure)
        });
        self.record(failure, now);
        let labelled = failure.labels.retryable_write || add_label;
        let decided = self.backoff_or_stop(failure, labelled, now, jitter);
        if decided.is_ok() {
            self.deprioritize_server(failure);
        }
        let next = match decided {
            Ok(wait) => NextStep::Retry { wait },
            Err(_) => NextStep::GiveUp(self.give_up()),
        };
        RetryVerdict {
            add_retryable_write_label: add_label,
            budget_exhausted: decided == Err(StopReason::Budget),
            next,
        }
    }

    fn record(&mut self, failure: &AttemptFailure<'_>, now: Instant) {
        let may_have_written =
            failure.phase == AttemptPhase::Sent && !failure.labels.no_writes_performed;
        if may_have_written || self.raised.is_none() {
            self.raised = Some(FailedAttempt {
                index: self.failed_attempts,
                lacks_txn_numbers: self.uses_txn_number() && is_txn_number_unsupported(failure),
            });
        }
        self.failed_attempts += 1;
        self.had_overload |= failure.labels.is_overload();
        match self.token.take() {
            Some(token) if failure.labels.system_overloaded => token.spend(),
            Some(token) => token.refund(),
            None => {}
        }
        let through_mongos =
            self.server.as_ref().is_none_or(ServerFacts::is_mongos_or_load_balancer);
        let uses_txn_number = self.uses_txn_number();
        self.outcomes.record_failure(&self.operation, failure, through_mongos, uses_txn_number);
        if failure.phase == AttemptPhase::BeforeSend {
            self.unsent_since = self.unsent_since.or(Some(now));
        }
        self.in_doubt_since = match self.outcome().is_certainly_not_applied() {
            true => None,
            false => self.in_doubt_since.or(self.last_sent),
        };
    }

    /// Returns the backoff before the retry, or the reason for giving up, by the rows of the table
    /// in order.
    fn backoff_or_stop(
        &mut self,
        failure: &AttemptFailure<'_>,
        labelled: bool,
        now: Instant,
        jitter: impl FnOnce() -> f64,
    ) -> Result<Duration, StopReason> {
        if !self.is_retryable(failure, labelled)
            || !self.is_retry_left(failure, now)
            || self.is_too_late(now)
        {
            return Err(StopReason::Policy);
        }
        let wait = if failure.labels.system_overloaded {
            backoff::after_overload(self.backoffs, failure.base_backoff, jitter())
        } else if let Some(earlier) = self.ordinary_retries.checked_sub(1)
            && !failure.labels.is_overload()
        {
            backoff::before_ordinary_retry(earlier, jitter())
        } else {
            Duration::ZERO
        };
        // pitfall 32: no backoff beyond the deadline, and no token for it.
        if !self.is_before_deadline(now, wait) {
            return Err(StopReason::Policy);
        }
        if failure.labels.is_overload() {
            self.token = Some(self.budget.withdraw().ok_or(StopReason::Budget)?);
        } else {
            self.ordinary_retries = self.ordinary_retries.saturating_add(1);
            self.retries_after_send += usize::from(failure.phase == AttemptPhase::Sent);
        }
        self.backoffs += u32::from(failure.labels.system_overloaded);
        Ok(wait)
    }

    fn may_retry(&self) -> bool {
        self.policy.is_some_and(|policy| policy.may_retry)
    }

    fn uses_txn_number(&self) -> bool {
        self.policy.is_some_and(|policy| policy.uses_txn_number)
    }

    /// Returns `true` if the command must not be sent to a server without session support.
    fn needs_session_record(&self) -> bool {
        self.uses_txn_number() || self.operation.kind == CommandKind::EndTransaction
    }

    fn is_retryable(&self, failure: &AttemptFailure<'_>, labelled: bool) -> bool {
        let by_kind = match self.operation.kind {
            CommandKind::Read => is_retryable_read(failure),
            CommandKind::RetryableWrite | CommandKind::EndTransaction => labelled,
            CommandKind::Write | CommandKind::Generic | CommandKind::GetMore => false,
        };
        // pitfall 31: the options `retryReads` and `retryWrites` apply to overload errors, too.
        let by_label = failure.is_retryable_by_label()
            && self.operation.is_retryable_after_overload(self.settings);
        by_kind && self.may_retry() || by_label
    }

    fn is_retry_left(&self, failure: &AttemptFailure<'_>, now: Instant) -> bool {
        // pitfall 33: one limit for a mix of errors, with or without a deadline.
        let retries = self.failed_attempts - 1;
        if self.had_overload && retries >= self.settings.max_adaptive_retries() {
            return false;
        }
        if failure.labels.is_overload() || self.operation.deadline.is_some() {
            return true;
        }
        match failure.phase {
            AttemptPhase::Sent => self.retries_after_send < RETRIES_WITHOUT_DEADLINE,
            AttemptPhase::BeforeSend => self.unsent_since.is_none_or(|since| {
                now.saturating_duration_since(since) < self.settings.server_selection_timeout
            }),
        }
    }

    /// Returns `true` if another attempt would start after the deadline, or after the session of an
    /// earlier one may have expired.
    fn is_too_late(&self, now: Instant) -> bool {
        !self.is_before_deadline(now, Duration::ZERO) || self.may_session_be_expired(now)
    }

    fn is_before_deadline(&self, now: Instant, wait: Duration) -> bool {
        self.operation
            .deadline
            .is_none_or(|deadline| now.checked_add(wait).is_some_and(|then| then < deadline))
    }

    fn may_session_be_expired(&self, now: Instant) -> bool {
        let Some(since) = self.in_doubt_since else { return false };
        let safe_for = self.session_lifetime.saturating_sub(SESSION_MARGIN);
        self.operation.kind.needs_session_record()
            && now.saturating_duration_since(since) >= safe_for
    }

    /// Deprioritizes the server of a failed attempt. Outside of a sharded cluster, only an
    /// overloaded server is deprioritized: a secondary that a read prefers stays preferred after a
    /// network error.
    fn deprioritize_server(&mut self, failure: &AttemptFailure<'_>) {
        let Some(server) = &self.server else { return };
        let overloaded =
            failure.labels.system_overloaded && self.settings.deprioritizes_overloaded_servers();
        let avoid = server.is_mongos_or_load_balancer() || overloaded;
        if avoid && !self.deprioritized.contains(&server.address) {
            self.deprioritized.push(ServerAddress::clone(&server.address));
        }
    }

    fn give_up(&self) -> GiveUp {
        let outcome = self.outcome();
        let Some(raised) = self.raised else {
            return GiveUp { raise: RaisedError::Selection, outcome, message: None };
        };
        let message = raised.lacks_txn_numbers.then_some(RETRYABLE_WRITES_UNSUPPORTED);
        GiveUp { raise: RaisedError::Attempt(raised.index), outcome, message }
    }
}
