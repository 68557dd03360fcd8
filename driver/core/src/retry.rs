//! When a command is tried again, which error a caller gets, and what became of the write.
//!
//! The one state machine for retryable writes, retryable reads and overloaded servers. It knows
//! nothing of sockets, sessions or the driver's errors: failures come in as facts, `now` and random
//! numbers are passed in, and decisions go out as data for the driver's loop to act on. One
//! [`Retry`] serves one command; a batch that is sent as several commands has one for each, because
//! each has its own transaction id. All of a client's commands share one [`Budget`].
//!
//! # The order of calls
//!
//! ```text
//! Retry::new
//!   loop: select a server, avoiding deprioritised()
//!           none found          -> no_server()            -> GiveUp
//!         server_selected(facts)                          -> go on | GiveUp
//!         check out a connection
//!           failed              -> on_failure(..)         -> Retry after a wait | GiveUp
//!         begin_sending(now)                              -> TransactionId | GiveUp
//!         send, receive
//!           failed              -> on_failure(..)         -> Retry after a wait | GiveUp
//!           succeeded           -> succeeded()
//! ```
//!
//! # What may be tried again at all
//!
//! There are two ways for an error to be retryable. By its *kind*: it is one of those that the
//! specifications of retryable reads and writes list, and the command can be sent twice without
//! harm. That is decided when the first server has been selected, and never widened later. By its
//! *label* `RetryableError`: the server has not carried the command out, so that any command may be
//! sent again.
//!
//! | # | command                              | by the error's kind if                                     | by its label if | transaction id |
//! |---|--------------------------------------|------------------------------------------------------------|-----------------|----------------|
//! | 1 | [`Kind::Read`]                       | `retryReads`, not in a transaction                         | `retryReads`    | no             |
//! | 2 | [`Kind::RecognisableWrite`]          | `retryWrites`, not in a transaction, acknowledged, and the server supports it (wire version 6, sessions, not a standalone) | `retryWrites`, acknowledged | yes, if it may be retried by kind |
//! | 3 | [`Kind::EndTransaction`]             | always, whatever `retryWrites` says                        | always          | the transaction's own |
//! | 4 | [`Kind::Write`]                      | never                                                      | `retryWrites`, acknowledged | no |
//! | 5 | [`Kind::GetMore`]                    | never                                                      | `retryReads`    | no             |
//! | 6 | [`Kind::Generic`]                    | never                                                      | `retryReads` and `retryWrites`, acknowledged | no |
//!
//! # What happens after a failure
//!
//! An *overload error* here is one labelled `RetryableError` or `SystemOverloadedError`; any other
//! is an ordinary one, and so is the retry after it. The first row that fits decides.
//!
//! | # | the failure                                                                | then |
//! |---|----------------------------------------------------------------------------|------|
//! | 1 | not retryable by kind: of a write, one without `RetryableWriteError`, be it from the server or added here ([`retryable_write_label`]); of a read, neither a network error, nor PoolCleared, nor one of the specification's codes; or the command may not be. And not retryable by label: none, or the command may not be; or a reply that tells of writes, or no reply to what was sent | give up |
//! | 2 | it or an earlier one is an overload error, and there were `maxAdaptiveRetries` retries of any sort | give up |
//! | 3 | it is an ordinary one, there is no deadline, and something was sent that was retried before; or nothing was sent, and the first such failure was `serverSelectionTimeoutMS` ago | give up |
//! | 4 | there is a deadline, and it has passed                                      | give up |
//! | 5 | an earlier attempt, or this one, may have been carried out, and was sent so long ago that the server may have forgotten the session | give up |
//! | 6 | there is to be a wait, and it would not end before the deadline             | give up; no token is taken |
//! | 7 | it is an overload error, and the [`Budget`] has no token                    | give up |
//! | 8 | any other                                                                   | retry: at once if it is the first ordinary retry, else after a wait; avoid the server if it is a router, or so labelled and `enableOverloadRetargeting` is not off |
//!
//! Row 3: an attempt of which no byte was sent does not use up the retry. The pool was cleared, or
//! the connection broke during its handshake; no server has seen the command.
//!
//! Row 5 is asked again right before sending, because waiting, selecting and connecting take time.
//! The wait after an overload error is `jitter * min(10 s, base * 2^i)`; `i` is the number of such
//! waits before, `base` is 100 ms or the server's `baseBackoffMS`. Between ordinary retries after
//! the first it is `jitter * min(1 s, 10 ms * 2^i)`, so that a deadline does not turn a server's
//! errors into a busy loop.
//!
//! What the token becomes that row 7 took, [`Budget`]'s module says.
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
use self::label::{is_retryable_read, is_without_transaction_numbers};
pub use self::{
    budget::{Budget, Withdrawal},
    codes::is_of_passing_state,
    decision::{GiveUp, Next, Raise, TransactionId, Verdict},
    facts::{Cause, Failure, Kind, Labels, Operation, Phase, RetrySettings, ServerFacts},
    label::retryable_write_label,
    outcome::{Ledger, Outcome},
};

/// On errors after which a write may be sent again with the same transaction id.
pub const RETRYABLE_WRITE_ERROR: &str = "RetryableWriteError";
/// On errors of an attempt that wrote nothing.
pub const NO_WRITES_PERFORMED: &str = "NoWritesPerformed";
/// On errors after which any command may be sent again, because this one was not carried out.
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
/// Retries of a command that was sent and failed with an ordinary error, if there is no deadline.
const RETRIES_WITHOUT_DEADLINE: usize = 1;

/// One command's way through its attempts; see the [module](self) for the order of calls.
#[derive(Debug)]
pub struct Retry {
    settings: RetrySettings,
    operation: Operation,
    policy: Option<Policy>,
    /// The server of the attempt under way, or of the latest.
    server: Option<ServerFacts>,
    failed_attempts: usize,
    /// The one whose error would be raised now.
    raised: Option<Tried>,
    deprioritised: Vec<ServerAddress>,
    /// Retries after ordinary errors.
    ordinary_retries: u32,
    /// Those of them after an attempt that was sent.
    retries_after_sending: usize,
    /// Time of the first failure of an attempt that was not sent.
    unsent_since: Option<Instant>,
    /// How often it waited for a server to recover.
    waits: u32,
    met_overload: bool,
    budget: Arc<Budget>,
    /// What the attempt under way was paid for with.
    token: Option<Withdrawal>,
    /// When the latest attempt to be sent was sent.
    latest_sending: Option<Instant>,
    /// When the first of those attempts was sent that may have been carried out.
    in_doubt_since: Option<Instant>,
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
    index: usize,
    lacks_transaction_numbers: bool,
}

/// Why there is no retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    Policy,
    Budget,
}

impl Retry {
    /// A command that has not been tried, of the client whose budget this is.
    pub fn new(settings: RetrySettings, operation: Operation, budget: &Arc<Budget>) -> Self {
        Self {
            settings,
            operation,
            policy: None,
            server: None,
            failed_attempts: 0,
            raised: None,
            deprioritised: Vec::new(),
            ordinary_retries: 0,
            retries_after_sending: 0,
            unsent_since: None,
            waits: 0,
            met_overload: false,
            budget: Arc::clone(budget),
            token: None,
            latest_sending: None,
            in_doubt_since: None,
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

    /// Index of the attempt whose error would be raised now; the first attempt is 0.
    pub fn raised_attempt(&self) -> Option<usize> {
        self.raised.map(|raised| raised.index)
    }

    /// How many attempts have failed.
    pub fn failed_attempts(&self) -> usize {
        self.failed_attempts
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

    /// The handshake of the connection shows that its server keeps no sessions, whatever the monitor
    /// was told. A write that was not sent yet gets no transaction id, and so no retry.
    pub fn sessions_unsupported(&mut self) {
        if let Some(server) = &mut self.server {
            server.logical_session_timeout = None;
        }
        if self.latest_sending.is_none() && self.operation.kind == Kind::RecognisableWrite {
            self.policy = Some(Policy { may_retry: false, with_transaction_id: false });
        }
    }

    /// A connection is there and the command is about to be written. An error means that it is too
    /// late: the server may no longer know what it was sent before.
    pub fn begin_sending(&mut self, now: Instant) -> Result<TransactionId, GiveUp> {
        if self.failed_attempts > 0 && self.is_too_late(now) {
            return Err(self.give_up());
        }
        if let Some(token) = &mut self.token {
            token.keep_if_dropped();
        }
        let first = self.latest_sending.replace(now).is_none();
        Ok(match (self.with_transaction_id(), first) {
            (false, _) => TransactionId::None,
            // After a check-out that failed there is no session yet, and so no number.
            (true, true) => TransactionId::New,
            (true, false) => TransactionId::Same,
        })
    }

    /// The server carried the command out.
    pub fn succeeded(&mut self) {
        if let Some(token) = self.token.take() {
            token.refund();
        }
        // What nobody answered says nothing of how the server is.
        if self.operation.acknowledged {
            self.budget.deposit();
        }
    }

    /// An attempt failed. `jitter` is a random number from 0 to 1, asked for only before a wait.
    pub fn on_failure(
        &mut self,
        failure: &Failure<'_>,
        now: Instant,
        jitter: impl FnOnce() -> f64,
    ) -> Verdict {
        let add_label = self.server.as_ref().is_some_and(|server| {
            retryable_write_label(self.settings, &self.operation, server, failure)
        });
        self.record(failure, now);
        let labelled = failure.labels.retryable_write || add_label;
        let decided = self.wait_for_retry(failure, labelled, now, jitter);
        if decided.is_ok() {
            self.avoid_server(failure);
        }
        let next = match decided {
            Ok(wait) => Next::Retry { wait },
            Err(_) => Next::GiveUp(self.give_up()),
        };
        Verdict {
            add_retryable_write_label: add_label,
            refused_by_budget: decided == Err(Stop::Budget),
            next,
        }
    }

    fn record(&mut self, failure: &Failure<'_>, now: Instant) {
        let tells = failure.phase == Phase::Sending && !failure.labels.no_writes_performed;
        if tells || self.raised.is_none() {
            self.raised = Some(Tried {
                index: self.failed_attempts,
                lacks_transaction_numbers: self.with_transaction_id()
                    && is_without_transaction_numbers(failure),
            });
        }
        self.failed_attempts += 1;
        self.met_overload |= failure.labels.are_of_overload();
        match self.token.take() {
            Some(token) if failure.labels.system_overloaded => token.spend(),
            Some(token) => token.refund(),
            None => {}
        }
        let through_router = self.server.as_ref().is_none_or(ServerFacts::is_router);
        let with_transaction_id = self.with_transaction_id();
        self.ledger.enter(&self.operation, failure, through_router, with_transaction_id);
        if failure.phase == Phase::BeforeSending {
            self.unsent_since = self.unsent_since.or(Some(now));
        }
        self.in_doubt_since = match self.outcome().is_certainly_not_applied() {
            true => None,
            false => self.in_doubt_since.or(self.latest_sending),
        };
    }

    /// How long to wait before the retry, if there is to be one: the rows of the table in order.
    fn wait_for_retry(
        &mut self,
        failure: &Failure<'_>,
        labelled: bool,
        now: Instant,
        jitter: impl FnOnce() -> f64,
    ) -> Result<Duration, Stop> {
        if !self.is_retryable(failure, labelled)
            || !self.is_retry_left(failure, now)
            || self.is_too_late(now)
        {
            return Err(Stop::Policy);
        }
        let wait = if failure.labels.system_overloaded {
            backoff::after_overload(self.waits, failure.base_backoff, jitter())
        } else if let Some(earlier) = self.ordinary_retries.checked_sub(1)
            && !failure.labels.are_of_overload()
        {
            backoff::between_ordinary_retries(earlier, jitter())
        } else {
            Duration::ZERO
        };
        // pitfall 32: no wait for what cannot come in time, and no token for it.
        if !self.is_before_deadline(now, wait) {
            return Err(Stop::Policy);
        }
        if failure.labels.are_of_overload() {
            self.token = Some(self.budget.withdraw().ok_or(Stop::Budget)?);
        } else {
            self.ordinary_retries = self.ordinary_retries.saturating_add(1);
            self.retries_after_sending += usize::from(failure.phase == Phase::Sending);
        }
        self.waits += u32::from(failure.labels.system_overloaded);
        Ok(wait)
    }

    fn may_retry(&self) -> bool {
        self.policy.is_some_and(|policy| policy.may_retry)
    }

    fn with_transaction_id(&self) -> bool {
        self.policy.is_some_and(|policy| policy.with_transaction_id)
    }

    /// Whether a server that does not keep sessions must not be sent it again.
    fn needs_session_record(&self) -> bool {
        self.with_transaction_id() || self.operation.kind == Kind::EndTransaction
    }

    fn is_retryable(&self, failure: &Failure<'_>, labelled: bool) -> bool {
        let by_kind = match self.operation.kind {
            Kind::Read => is_retryable_read(failure),
            Kind::RecognisableWrite | Kind::EndTransaction => labelled,
            Kind::Write | Kind::Generic | Kind::GetMore => false,
        };
        // pitfall 31: nothing is tried again that the application's options forbid.
        let by_label =
            failure.is_retryable_by_label() && self.operation.may_retry_adaptively(self.settings);
        by_kind && self.may_retry() || by_label
    }

    fn is_retry_left(&self, failure: &Failure<'_>, now: Instant) -> bool {
        // pitfall 33: one limit for a mix of errors, deadline or not.
        let retries = self.failed_attempts - 1;
        if self.met_overload && retries >= self.settings.max_adaptive_retries() {
            return false;
        }
        if failure.labels.are_of_overload() || self.operation.deadline.is_some() {
            return true;
        }
        match failure.phase {
            Phase::Sending => self.retries_after_sending < RETRIES_WITHOUT_DEADLINE,
            Phase::BeforeSending => self.unsent_since.is_none_or(|since| {
                now.saturating_duration_since(since) < self.settings.server_selection_timeout
            }),
        }
    }

    /// Whether a further sending would come after the deadline, or after the server's record of an
    /// earlier one may have expired.
    fn is_too_late(&self, now: Instant) -> bool {
        !self.is_before_deadline(now, Duration::ZERO) || self.is_session_record_in_doubt(now)
    }

    fn is_before_deadline(&self, now: Instant, wait: Duration) -> bool {
        self.operation
            .deadline
            .is_none_or(|deadline| now.checked_add(wait).is_some_and(|then| then < deadline))
    }

    fn is_session_record_in_doubt(&self, now: Instant) -> bool {
        let Some(since) = self.in_doubt_since else { return false };
        let safe_for = self.session_lifetime.saturating_sub(SESSION_MARGIN);
        self.operation.kind.needs_session_record()
            && now.saturating_duration_since(since) >= safe_for
    }

    /// Elsewhere than in a sharded cluster, only an overloaded server is avoided, unless an
    /// application would rather not have reads go elsewhere: a secondary that a read prefers stays preferred after its connection broke.
    fn avoid_server(&mut self, failure: &Failure<'_>) {
        let Some(server) = &self.server else { return };
        let overloaded =
            failure.labels.system_overloaded && self.settings.avoids_overloaded_servers();
        let avoid = server.is_router() || overloaded;
        if avoid && !self.deprioritised.contains(&server.address) {
            self.deprioritised.push(ServerAddress::clone(&server.address));
        }
    }

    fn give_up(&self) -> GiveUp {
        let outcome = self.outcome();
        let Some(raised) = self.raised else {
            return GiveUp { raise: Raise::Selection, outcome, message: None };
        };
        let message = raised.lacks_transaction_numbers.then_some(RETRYABLE_WRITES_UNSUPPORTED);
        GiveUp { raise: Raise::Attempt(raised.index), outcome, message }
    }
}
