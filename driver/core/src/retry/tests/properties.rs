//! What holds whatever fails, in whatever order.

use proptest::{collection::vec, option, prelude::*, sample::select};

use super::*;

/// Failures of every sort, sensible or not.
fn any_failure() -> impl Strategy<Value = Failure<'static>> {
    const CODES: &[i32] = &[0, 13, 20, 91, 134, 189, 217, 225, 251, 462, 10107, 11000, 11601];
    const LISTS: &[&[i32]] = &[&[], &[11000], &[91], &[11000, 121], &[11000, 10107]];
    let cause = prop_oneof![
        any::<bool>().prop_map(|ended_by_us| Cause::Network { ended_by_us }),
        Just(Cause::PoolCleared),
        select(CODES).prop_map(|code| Cause::Refused { code, message: "Transaction numbers" }),
        (select(LISTS), any::<bool>())
            .prop_map(|(codes, any_applied)| Cause::WriteErrors { codes, any_applied }),
        select(CODES).prop_map(|code| Cause::WriteConcern { code }),
        Just(Cause::UnreadableReply),
        Just(Cause::Driver),
    ];
    let phase = select(&[Phase::BeforeSending, Phase::Sending, Phase::Sending][..]);
    let labels =
        any::<[bool; 5]>().prop_map(|[write, none_performed, any, overloaded, transient]| Labels {
            retryable_write: write,
            no_writes_performed: none_performed,
            retryable: any,
            system_overloaded: overloaded,
            transient_transaction: transient,
        });
    let base_backoff = option::weighted(0.2, (0_u64..20_000).prop_map(Duration::from_millis));
    (phase, cause, labels, base_backoff).prop_map(|(phase, cause, labels, base_backoff)| Failure {
        phase,
        cause,
        labels,
        base_backoff,
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
            Kind::Read,
            Kind::RecognisableWrite,
            Kind::RecognisableWrite,
            Kind::Write,
            Kind::Generic,
            Kind::GetMore,
            Kind::EndTransaction,
        ]),
        in_transaction in prop::bool::weighted(0.1),
        acknowledged in prop::bool::weighted(0.9),
        one_document in any::<bool>(),
    ) -> Operation {
        Operation { kind, in_transaction, acknowledged, one_document, deadline: None }
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

/// Whether the specifications forbid a second sending after an ordinary error, told without looking
/// at the machine.
fn must_be_sent_once(settings: RetrySettings, operation: Operation, first: &ServerFacts) -> bool {
    match operation.kind {
        Kind::Write | Kind::Generic | Kind::GetMore => true,
        Kind::EndTransaction => false,
        Kind::Read => operation.in_transaction || !settings.retry_reads,
        Kind::RecognisableWrite => {
            operation.in_transaction
                || !operation.acknowledged
                || !settings.retry_writes
                || !first.supports_retryable_writes()
        }
    }
}

/// Whether they allow it after an error that vouches for nothing having been done, told likewise.
fn may_be_sent_after(failure: &Failure<'_>, settings: RetrySettings, operation: Operation) -> bool {
    let refused = matches!(failure.cause, Cause::Refused { .. });
    let written = matches!(failure.cause, Cause::WriteErrors { .. } | Cause::WriteConcern { .. });
    let unsent = failure.phase == Phase::BeforeSending && !written;
    let allowed = match operation.kind {
        Kind::Read | Kind::GetMore => settings.retry_reads,
        Kind::Write | Kind::RecognisableWrite => settings.retry_writes && operation.acknowledged,
        Kind::Generic => settings.retry_reads && settings.retry_writes && operation.acknowledged,
        Kind::EndTransaction => true,
    };
    failure.labels.retryable && allowed && (refused || unsent)
}

/// What an attempt's own error says: that something may have been written.
fn may_have_written(failure: &Failure<'_>) -> bool {
    failure.phase == Phase::Sending && !failure.labels.no_writes_performed
}

fn is_of_overload(failure: &Failure<'_>) -> bool {
    failure.labels.retryable || failure.labels.system_overloaded
}

/// An attempt as it is to go: at which server, how it fails, after how long, with which jitter.
type Attempt = (ServerFacts, Failure<'static>, Duration, f64);

fn attempts(most: usize, seconds: u64) -> impl Strategy<Value = Vec<Attempt>> {
    let after = (0..seconds).prop_map(Duration::from_secs);
    vec((any_server(), any_failure(), after, 0.0..1.0), 1..most)
}

/// What is known of a run beside what the machine says.
struct Witness {
    settings: RetrySettings,
    operation: Operation,
    first_server: ServerFacts,
    lifetime: Duration,
    sent: Option<Instant>,
    in_doubt_since: Option<Instant>,
    retries_after_sending: usize,
    unsent_since: Option<Instant>,
    any_ordinary_retry: bool,
    met_overload: bool,
}

impl Witness {
    fn check_sending(&mut self, retry: &Retry, id: TransactionId, now: Instant) {
        let is_first = self.sent.replace(now).is_none();
        assert!(id != TransactionId::New || is_first, "a second transaction id");
        assert!(id != TransactionId::Same || !is_first, "a transaction id from nowhere");
        assert_eq!(retry.outcome().is_certainly_not_applied(), self.in_doubt_since.is_none());
        let Some(since) = self.in_doubt_since else { return };
        if self.operation.kind.needs_session_record() {
            assert!(now - since < self.lifetime - MINUTE, "a session's record may have expired");
        }
        if self.operation.kind == Kind::RecognisableWrite {
            assert!(self.first_server.supports_retryable_writes());
            assert_ne!(id, TransactionId::None, "sent again unrecognisably");
        }
    }

    fn note(&mut self, retry: &Retry, failure: &Failure<'_>, now: Instant) {
        if failure.phase == Phase::BeforeSending {
            self.unsent_since = self.unsent_since.or(Some(now));
        }
        self.met_overload |= is_of_overload(failure);
        self.in_doubt_since = match retry.outcome().is_certainly_not_applied() {
            true => None,
            false => self.in_doubt_since.or(self.sent),
        };
    }

    /// pitfalls 31, 32 and 33.
    fn check_retry(&mut self, failure: &Failure<'_>, retries: usize, wait: Duration, now: Instant) {
        let Self { settings, operation, .. } = *self;
        let allowed = !must_be_sent_once(settings, operation, &self.first_server)
            || may_be_sent_after(failure, settings, operation);
        assert!(allowed, "retried against the options");
        let sent = failure.phase == Phase::Sending;
        let ordinary = !is_of_overload(failure);
        self.retries_after_sending += usize::from(ordinary && sent);
        if self.met_overload {
            let most = settings.max_adaptive_retries.unwrap_or(5) as usize;
            assert!(retries <= most, "{retries} retries of {most}");
        }
        match operation.deadline {
            Some(deadline) => assert!(now + wait < deadline, "a wait beyond the deadline"),
            None if sent || !ordinary => assert!(self.retries_after_sending <= 1),
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

/// Fails one attempt after the other until the machine gives up or the list ends. Checks each
/// step; the result is the end and how many attempts there were.
fn drive(
    settings: RetrySettings,
    operation: Operation,
    budget: &Arc<Budget>,
    attempts: &[Attempt],
    start: Instant,
) -> (GiveUp, usize) {
    let mut now = start;
    let mut retry = Retry::new(settings, operation, budget);
    let mut witness = Witness {
        settings,
        operation,
        first_server: attempts[0].0.clone(),
        lifetime: Duration::MAX,
        sent: None,
        in_doubt_since: None,
        retries_after_sending: 0,
        unsent_since: None,
        any_ordinary_retry: false,
        met_overload: false,
    };
    for (index, (server, failure, after, jitter)) in attempts.iter().enumerate() {
        now += *after;
        if let Err(end) = retry.server_selected(server.clone()) {
            assert!(operation.kind.needs_session_record() && !server.supports_retryable_writes());
            return (end, index);
        }
        let lifetime = server.logical_session_timeout.unwrap_or(30 * MINUTE);
        witness.lifetime = witness.lifetime.min(lifetime);
        if failure.phase == Phase::Sending {
            let Ok(id) = retry.begin_sending(now) else {
                return (retry.no_server(), index);
            };
            assert!(index == 0 || operation.deadline.is_none_or(|deadline| now < deadline));
            witness.check_sending(&retry, id, now);
        }
        let jitter_is_due = match is_of_overload(failure) {
            true => failure.labels.system_overloaded,
            false => witness.any_ordinary_retry,
        };
        let verdict = retry.on_failure(failure, now, || {
            assert!(jitter_is_due, "took a random number without need");
            *jitter
        });
        witness.note(&retry, failure, now);
        assert!(!verdict.refused_by_budget || is_of_overload(failure));
        match verdict.next {
            Next::Retry { wait } => {
                assert!(!verdict.refused_by_budget);
                witness.check_retry(failure, index + 1, wait, now);
                now += wait;
            }
            Next::GiveUp(end) => return (end, index + 1),
        }
    }
    (retry.no_server(), attempts.len())
}

proptest! {
    #[test]
    fn no_more_attempts_than_allowed_and_no_maybe_applied_error_hidden(
        settings in any_settings(),
        operation in any_operation(),
        attempts in attempts(10, 1000),
    ) {
        let (end, made) =
            drive(settings, operation, &Arc::default(), &attempts, Instant::now());
        let Raise::Attempt(raised) = end.raise else { panic!("there was an attempt") };
        let made = &attempts[..made];
        prop_assert!(raised < made.len());
        let latest = made.iter().rposition(|(_, failure, ..)| may_have_written(failure));
        prop_assert_eq!(raised, latest.unwrap_or(0));
        if made.iter().all(|(_, failure, ..)| failure.phase == Phase::BeforeSending) {
            prop_assert_eq!(end.outcome, Outcome::NotSent);
        } else {
            prop_assert_ne!(end.outcome, Outcome::NotSent);
        }
    }

    #[test]
    fn with_a_deadline_nothing_is_tried_after_it_and_no_wait_crosses_it(
        settings in any_settings(),
        operation in any_operation(),
        attempts in attempts(30, 10),
        seconds in 0_u64..60,
    ) {
        let start = Instant::now();
        let deadline = Some(start + Duration::from_secs(seconds));
        let operation = Operation { deadline, ..operation };
        let _ = drive(settings, operation, &Arc::default(), &attempts, start);
    }

    /// pitfall 37: whatever happens to many commands, tokens are lost to overload errors alone.
    #[test]
    fn tokens_are_spent_on_overload_errors_alone(
        settings in any_settings(),
        runs in vec((any_operation(), attempts(8, 5), any::<bool>()), 1..20),
        capacity in 0_u32..20,
    ) {
        let budget = Arc::new(Budget::with_capacity(capacity));
        let mut most_spent = 0;
        for (operation, attempts, succeeds) in &runs {
            let (_, made) = drive(settings, *operation, &budget, attempts, Instant::now());
            // The first is paid for by nobody.
            let retries = attempts[..made].iter().skip(1);
            most_spent += retries.filter(|(_, failure, ..)| failure.labels.system_overloaded).count();
            if *succeeds {
                // Full or not, it brings no more than a tenth.
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
