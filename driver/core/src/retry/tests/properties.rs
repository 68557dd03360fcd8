//! Invariants of retries under random failures.

use proptest::{collection::vec, option, prelude::*, sample::select};

use super::*;

/// Failures of all kinds, realistic or not.
fn any_failure() -> impl Strategy<Value = AttemptFailure<'static>> {
    const CODES: &[i32] = &[0, 13, 20, 91, 134, 189, 217, 225, 251, 462, 10107, 11000, 11601];
    const LISTS: &[&[i32]] = &[&[], &[11000], &[91], &[11000, 121], &[11000, 10107]];
    let cause = prop_oneof![
        any::<bool>().prop_map(|aborted_by_client| FailureCause::Network { aborted_by_client }),
        Just(FailureCause::PoolCleared),
        select(CODES)
            .prop_map(|code| FailureCause::CommandError { code, message: "Transaction numbers" }),
        (select(LISTS), any::<bool>())
            .prop_map(|(codes, any_applied)| FailureCause::WriteErrors { codes, any_applied }),
        select(CODES).prop_map(|code| FailureCause::WriteConcern { code }),
        Just(FailureCause::MalformedReply),
        Just(FailureCause::Driver),
    ];
    let phase = select(&[AttemptPhase::BeforeSend, AttemptPhase::Sent, AttemptPhase::Sent][..]);
    let labels =
        any::<[bool; 5]>().prop_map(|[write, none_performed, any, overloaded, transient]| {
            ErrorLabels {
                retryable_write: write,
                no_writes_performed: none_performed,
                retryable: any,
                system_overloaded: overloaded,
                transient_transaction: transient,
            }
        });
    let base_backoff = option::weighted(0.2, (0_u64..20_000).prop_map(Duration::from_millis));
    (phase, cause, labels, base_backoff).prop_map(|(phase, cause, labels, base_backoff)| {
        AttemptFailure { phase, cause, labels, base_backoff }
    })
}

fn any_server() -> impl Strategy<Value = ServerFacts> {
    let server_type = select(vec![
        ServerType::RsPrimary,
        ServerType::Mongos,
        ServerType::Standalone,
        ServerType::LoadBalancer,
    ]);
    (select(&["a", "b", "c"][..]), server_type, select(vec![5, 8, 17]), option::of(1_u32..40))
        .prop_map(|(host, server_type, max_wire_version, minutes)| ServerFacts {
            max_wire_version,
            logical_session_timeout: minutes.map(|minutes| minutes * MINUTE),
            ..server(host, server_type)
        })
}

prop_compose! {
    fn any_operation()(
        kind in select(vec![
            CommandKind::Read,
            CommandKind::RetryableWrite,
            CommandKind::RetryableWrite,
            CommandKind::Write,
            CommandKind::Generic,
            CommandKind::GetMore,
            CommandKind::EndTransaction,
        ]),
        in_transaction in prop::bool::weighted(0.1),
        acknowledged in prop::bool::weighted(0.9),
        single_document in any::<bool>(),
    ) -> CommandFacts {
        CommandFacts { kind, in_transaction, acknowledged, single_document, deadline: None }
    }
}

fn any_settings() -> impl Strategy<Value = RetrySettings> {
    let on = || prop::bool::weighted(0.8);
    (on(), on(), option::of(0_u32..8), option::of(any::<bool>())).prop_map(
        |(retry_writes, retry_reads, max_adaptive_retries, overload_retargeting)| RetrySettings {
            retry_writes,
            retry_reads,
            max_adaptive_retries,
            overload_retargeting,
            ..RetrySettings::default()
        },
    )
}

/// Returns `true` if the specifications forbid a retry after an ordinary error. Implemented
/// independently of the state machine.
fn must_be_sent_once(
    settings: RetrySettings,
    operation: CommandFacts,
    first: &ServerFacts,
) -> bool {
    match operation.kind {
        CommandKind::Write | CommandKind::Generic | CommandKind::GetMore => true,
        CommandKind::EndTransaction => false,
        CommandKind::Read => operation.in_transaction || !settings.retry_reads,
        CommandKind::RetryableWrite => {
            operation.in_transaction
                || !operation.acknowledged
                || !settings.retry_writes
                || !first.supports_retryable_writes()
        }
    }
}

/// Returns `true` if the specifications allow a retry after an error that proves that nothing was
/// executed.
fn may_be_sent_after(
    failure: &AttemptFailure<'_>,
    settings: RetrySettings,
    operation: CommandFacts,
) -> bool {
    let command_error = matches!(failure.cause, FailureCause::CommandError { .. });
    let written = matches!(
        failure.cause,
        FailureCause::WriteErrors { .. } | FailureCause::WriteConcern { .. }
    );
    let unsent = failure.phase == AttemptPhase::BeforeSend && !written;
    let allowed = match operation.kind {
        CommandKind::Read | CommandKind::GetMore => settings.retry_reads,
        CommandKind::Write | CommandKind::RetryableWrite => {
            settings.retry_writes && operation.acknowledged
        }
        CommandKind::Generic => {
            settings.retry_reads && settings.retry_writes && operation.acknowledged
        }
        CommandKind::EndTransaction => true,
    };
    failure.labels.retryable && allowed && (command_error || unsent)
}

/// Returns `true` if the error of an attempt admits that something was written.
fn may_have_written(failure: &AttemptFailure<'_>) -> bool {
    failure.phase == AttemptPhase::Sent && !failure.labels.no_writes_performed
}

fn is_overload(failure: &AttemptFailure<'_>) -> bool {
    failure.labels.retryable || failure.labels.system_overloaded
}

/// A planned attempt: server, failure, duration and jitter.
type Attempt = (ServerFacts, AttemptFailure<'static>, Duration, f64);

fn attempts(most: usize, seconds: u64) -> impl Strategy<Value = Vec<Attempt>> {
    let after = (0..seconds).prop_map(Duration::from_secs);
    vec((any_server(), any_failure(), after, 0.0..1.0), 1..most)
}

/// Independent record of a run, to check the state machine.
struct RunRecord {
    settings: RetrySettings,
    operation: CommandFacts,
    first_server: ServerFacts,
    lifetime: Duration,
    sent: Option<Instant>,
    in_doubt_since: Option<Instant>,
    retries_after_send: usize,
    unsent_since: Option<Instant>,
    any_ordinary_retry: bool,
    had_overload: bool,
}

impl RunRecord {
    fn check_sent(&mut self, retry: &Retry, id: TxnNumber, now: Instant) {
        let is_first = self.sent.replace(now).is_none();
        assert!(id != TxnNumber::Assign || is_first, "a second transaction id");
        assert!(id != TxnNumber::Reuse || !is_first, "a transaction id from nowhere");
        assert_eq!(retry.outcome().is_certainly_not_applied(), self.in_doubt_since.is_none());
        let Some(since) = self.in_doubt_since else { return };
        if self.operation.kind.needs_session_record() {
            assert!(now - since < self.lifetime - MINUTE, "a session's record may have expired");
        }
        if self.operation.kind == CommandKind::RetryableWrite {
            assert!(self.first_server.supports_retryable_writes());
            assert_ne!(id, TxnNumber::Omit, "sent again unrecognisably");
        }
    }

    fn note(&mut self, retry: &Retry, failure: &AttemptFailure<'_>, now: Instant) {
        if failure.phase == AttemptPhase::BeforeSend {
            self.unsent_since = self.unsent_since.or(Some(now));
        }
        self.had_overload |= is_overload(failure);
        self.in_doubt_since = match retry.outcome().is_certainly_not_applied() {
            true => None,
            false => self.in_doubt_since.or(self.sent),
        };
    }

    /// pitfalls 31, 32 and 33.
    fn check_retry(
        &mut self,
        failure: &AttemptFailure<'_>,
        retries: usize,
        wait: Duration,
        now: Instant,
    ) {
        let Self { settings, operation, .. } = *self;
        let allowed = !must_be_sent_once(settings, operation, &self.first_server)
            || may_be_sent_after(failure, settings, operation);
        assert!(allowed, "retried against the options");
        let sent = failure.phase == AttemptPhase::Sent;
        let ordinary = !is_overload(failure);
        self.retries_after_send += usize::from(ordinary && sent);
        if self.had_overload {
            let most = settings.max_adaptive_retries.unwrap_or(5) as usize;
            assert!(retries <= most, "{retries} retries of {most}");
        }
        match operation.deadline {
            Some(deadline) => assert!(now + wait < deadline, "a wait beyond the deadline"),
            None if sent || !ordinary => assert!(self.retries_after_send <= 1),
            None => assert!(now - self.unsent_since.unwrap() < settings.server_selection_timeout),
        }
        let longest = match ordinary {
            true if !self.any_ordinary_retry => Duration::ZERO,
            true => Duration::from_secs(1),
            false if failure.labels.system_overloaded => Duration::from_secs(10),
            false => Duration::ZERO,
        };
        assert!(wait <= longest, "{wait:?} is longer than {longest:?}");
        self.any_ordinary_retry |= ordinary;
    }
}

/// Fails one attempt after another until the state machine gives up or the list ends. Checks each
/// step. Returns the end and the number of attempts.
fn drive(
    settings: RetrySettings,
    operation: CommandFacts,
    budget: &Arc<RetryBudget>,
    attempts: &[Attempt],
    start: Instant,
) -> (GiveUp, usize) {
    let mut now = start;
    let mut retry = Retry::new(settings, operation, budget);
    let mut record = RunRecord {
        settings,
        operation,
        first_server: attempts[0].0.clone(),
        lifetime: Duration::MAX,
        sent: None,
        in_doubt_since: None,
        retries_after_send: 0,
        unsent_since: None,
        any_ordinary_retry: false,
        had_overload: false,
    };
    for (index, (server, failure, after, jitter)) in attempts.iter().enumerate() {
        now += *after;
        if let Err(end) = retry.server_selected(server.clone()) {
            assert!(operation.kind.needs_session_record() && !server.supports_retryable_writes());
            return (end, index);
        }
        let lifetime = server.logical_session_timeout.unwrap_or(30 * MINUTE);
        record.lifetime = record.lifetime.min(lifetime);
        if failure.phase == AttemptPhase::Sent {
            let Ok(id) = retry.begin_send(now) else {
                return (retry.no_server(), index);
            };
            assert!(index == 0 || operation.deadline.is_none_or(|deadline| now < deadline));
            record.check_sent(&retry, id, now);
        }
        let jitter_is_due = match is_overload(failure) {
            true => failure.labels.system_overloaded,
            false => record.any_ordinary_retry,
        };
        let verdict = retry.on_failure(failure, now, || {
            assert!(jitter_is_due, "took a random number without need");
            *jitter
        });
        record.note(&retry, failure, now);
        assert!(!verdict.budget_exhausted || is_overload(failure));
        match verdict.next {
            NextStep::Retry { wait } => {
                assert!(!verdict.budget_exhausted);
                record.check_retry(failure, index + 1, wait, now);
                now += wait;
            }
            NextStep::GiveUp(end) => return (end, index + 1),
        }
    }
    (retry.no_server(), attempts.len())
}

proptest! {
    #[test]
    fn retry_limits_hold_and_maybe_applied_errors_are_raised(
        settings in any_settings(),
        operation in any_operation(),
        attempts in attempts(10, 1000),
    ) {
        let (end, made) =
            drive(settings, operation, &Arc::default(), &attempts, Instant::now());
        let RaisedError::Attempt(raised) = end.raise else { panic!("there was an attempt") };
        let made = &attempts[..made];
        prop_assert!(raised < made.len());
        let latest = made.iter().rposition(|(_, failure, ..)| may_have_written(failure));
        prop_assert_eq!(raised, latest.unwrap_or(0));
        if made.iter().all(|(_, failure, ..)| failure.phase == AttemptPhase::BeforeSend) {
            prop_assert_eq!(end.outcome, Outcome::NotSent);
        } else {
            prop_assert_ne!(end.outcome, Outcome::NotSent);
        }
    }

    #[test]
    fn no_attempt_or_backoff_passes_the_deadline(
        settings in any_settings(),
        operation in any_operation(),
        attempts in attempts(30, 10),
        seconds in 0_u64..60,
    ) {
        let start = Instant::now();
        let deadline = Some(start + Duration::from_secs(seconds));
        let operation = CommandFacts { deadline, ..operation };
        let _ = drive(settings, operation, &Arc::default(), &attempts, start);
    }

    /// pitfall 37: under any failures of many commands, only overload errors spend tokens.
    #[test]
    fn tokens_are_spent_only_by_overload_errors(
        settings in any_settings(),
        runs in vec((any_operation(), attempts(8, 5), any::<bool>()), 1..20),
        capacity in 0_u32..20,
    ) {
        let budget = Arc::new(RetryBudget::with_capacity(capacity));
        let mut most_spent = 0;
        for (operation, attempts, succeeds) in &runs {
            let (_, made) = drive(settings, *operation, &budget, attempts, Instant::now());
            // The first attempt takes no token.
            let retries = attempts[..made].iter().skip(1);
            most_spent += retries.filter(|(_, failure, ..)| failure.labels.system_overloaded).count();
            if *succeeds {
                // A success adds at most a tenth, full or not.
                let before = budget.tokens_left();
                Retry::new(settings, *operation, &budget).succeeded();
                prop_assert!(budget.tokens_left() <= before + 0.11);
            }
        }
        let left = budget.tokens_left();
        prop_assert!(left <= f64::from(capacity));
        prop_assert!(left + 1e-9 >= f64::from(capacity) - most_spent as f64, "{} left", left);
    }
}
