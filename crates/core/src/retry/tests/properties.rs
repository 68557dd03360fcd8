//! What holds whatever fails, in whatever order; and what an outcome claims, against a server
//! that is known to have applied a write or not.

use proptest::{collection::vec, option, prelude::*, sample::select};

use super::*;

/// Failures of every sort, sensible or not.
fn any_failure() -> impl Strategy<Value = Failure<'static>> {
    const CODES: &[i32] = &[0, 13, 20, 91, 134, 189, 217, 225, 251, 10107, 11000, 11600, 11601];
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
    let labels = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
        |(retryable_write, no_writes_performed, system_overloaded, transient_transaction)| Labels {
            retryable: false,
            retryable_write,
            no_writes_performed,
            system_overloaded,
            transient_transaction,
        },
    );
    (phase, cause, labels).prop_map(|(phase, cause, labels)| Failure { phase, cause, labels })
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
    (prop::bool::weighted(0.8), prop::bool::weighted(0.8))
        .prop_map(|(retry_writes, retry_reads)| RetrySettings { retry_writes, retry_reads })
}

/// Whether the specifications forbid a second sending, told without looking at the machine.
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

/// What an attempt's own error says: that something may have been written.
fn may_have_written(failure: &Failure<'_>) -> bool {
    failure.phase == Phase::Sending && !failure.labels.no_writes_performed
}

/// Fails one attempt after the other until the machine gives up or the list ends. Checks each
/// step; the result is the end and how many attempts there were.
fn drive(
    mut retry: Retry,
    operation: Operation,
    attempts: &[(ServerFacts, Failure<'_>, Duration)],
) -> (GiveUp, usize) {
    let mut now = Instant::now();
    let mut first_sent = None;
    let mut first_server = None;
    let mut lifetime = Duration::MAX;
    for (index, (server, failure, wait)) in attempts.iter().enumerate() {
        now += *wait;
        if let Err(end) = retry.server_selected(server.clone()) {
            assert!(operation.kind.needs_session_record() && !server.supports_retryable_writes());
            return (end, index);
        }
        let first_server = first_server.get_or_insert_with(|| server.clone());
        lifetime = lifetime.min(server.logical_session_timeout.unwrap_or(30 * MINUTE));
        if failure.phase == Phase::Sending {
            let Ok(id) = retry.begin_sending(now) else {
                return (retry.no_server(), index);
            };
            let is_first = first_sent.is_none();
            assert!(id != TransactionId::New || is_first, "a second transaction id");
            assert!(id != TransactionId::Same || !is_first, "a transaction id from nowhere");
            let first = *first_sent.get_or_insert(now);
            if !is_first && operation.kind.needs_session_record() {
                assert!(now - first < lifetime - MINUTE, "a session's record may have expired");
            }
            if operation.kind == Kind::RecognisableWrite && index > 0 {
                assert!(first_server.supports_retryable_writes());
                assert_ne!(id, TransactionId::None, "sent again unrecognisably");
            }
        }
        match retry.on_failure(failure, now).next {
            Next::Retry => {}
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
        attempts in vec((any_server(), any_failure(), 0_u64..1000), 1..6),
    ) {
        let attempts: Vec<_> = attempts
            .into_iter()
            .map(|(server, failure, wait)| (server, failure, Duration::from_secs(wait)))
            .collect();
        let (end, made) = drive(Retry::new(settings, operation), operation, &attempts);
        let allowed = if must_be_sent_once(settings, operation, &attempts[0].0) { 1 } else { 2 };
        prop_assert!(made <= allowed, "{} attempts", made);

        let Raise::Attempt(raised) = end.raise else { panic!("there was an attempt") };
        let made = &attempts[..made];
        prop_assert!(raised < made.len());
        let latest = made.iter().rposition(|(_, failure, _)| may_have_written(failure));
        prop_assert_eq!(raised, latest.unwrap_or(0));
        if made.iter().all(|(_, failure, _)| failure.phase == Phase::BeforeSending) {
            prop_assert_eq!(end.outcome, Outcome::NotSent);
        } else {
            prop_assert_ne!(end.outcome, Outcome::NotSent);
        }
    }

    #[test]
    fn with_a_deadline_nothing_is_tried_after_it(
        operation in any_operation(),
        attempts in vec((any_server(), any_failure(), 0_u64..10), 1..30),
        seconds in 0_u64..60,
    ) {
        let start = Instant::now();
        let deadline = start + Duration::from_secs(seconds);
        let operation = Operation { deadline: Some(deadline), ..operation };
        let mut retry = Retry::new(RetrySettings::default(), operation);
        let mut now = start;
        for (server, failure, wait) in attempts {
            if retry.server_selected(server).is_err() {
                break;
            }
            now += Duration::from_secs(wait);
            let is_first = retry.failed_attempts() == 0;
            if retry.begin_sending(now).is_ok() {
                prop_assert!(is_first || now < deadline);
            }
            if retry.on_failure(&failure, now).next != Next::Retry {
                break;
            }
            prop_assert!(now < deadline);
        }
    }
}

/// What a modelled deployment does with one attempt.
#[derive(Clone, Copy, Debug)]
enum Happening {
    /// No connection.
    NotConnected,
    /// The connection breaks after this many statements were carried out.
    Breaks { after: usize },
    /// Nothing comes in time; the request is carried out now, or waits.
    TimesOut { waits: bool },
    /// Refused at the door: not the primary, or not allowed to.
    RefusedAtTheDoor { code: i32, says_no_writes: bool },
    /// Interrupted after this many statements.
    Interrupted { after: usize },
    /// Carried out, but the server steps down before others have it.
    NotReplicated { retryable: bool },
    /// The record of the session is there only in part.
    RecordIsGone { code: i32 },
    /// Carried out as usual: a statement is done, found in the record, or refused.
    CarriedOut,
}

/// What changes before an attempt.
#[derive(Clone, Copy, Debug)]
struct Before {
    minutes: u32,
    /// A new primary that has nothing of what the former applied.
    rolls_back: bool,
    /// Requests that wait are carried out.
    waiting_run: bool,
    /// Whether another document has each statement's key at present.
    conflicts: [bool; 2],
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        1 => Just(Happening::NotConnected),
        3 => (0_usize..3).prop_map(|after| Happening::Breaks { after }),
        2 => any::<bool>().prop_map(|waits| Happening::TimesOut { waits }),
        2 => (select(vec![10107, 13, 13435]), any::<bool>()).prop_map(|(code, says_no_writes)| {
            Happening::RefusedAtTheDoor { code, says_no_writes }
        }),
        2 => (0_usize..3).prop_map(|after| Happening::Interrupted { after }),
        2 => any::<bool>().prop_map(|retryable| Happening::NotReplicated { retryable }),
        1 => select(vec![217, 225]).prop_map(|code| Happening::RecordIsGone { code }),
        4 => Just(Happening::CarriedOut),
    ]
}

prop_compose! {
    fn before()(
        minutes in select(vec![0, 0, 0, 5, 28, 31]),
        rolls_back in prop::bool::weighted(0.2),
        waiting_run in any::<bool>(),
        conflicts in any::<[bool; 2]>(),
    ) -> Before {
        Before { minutes, rolls_back, waiting_run, conflicts }
    }
}

/// A deployment, as seen by someone who knows everything.
#[derive(Debug)]
struct Deployment {
    /// Whether commands reach it through a router, which may do more than it says.
    routed: bool,
    statements: usize,
    applied: [u32; 2],
    /// Which statements the session's record holds, and when it was last used.
    recorded: [bool; 2],
    record_used: Option<Instant>,
    conflicts: [bool; 2],
    waiting: usize,
    ever_applied: bool,
    ever_reached: bool,
}

impl Deployment {
    fn change(&mut self, before: Before, now: Instant, with_id: bool) {
        if before.waiting_run {
            self.run_waiting(now, with_id);
        }
        self.conflicts = before.conflicts;
        if before.rolls_back {
            self.applied = [0; 2];
            self.recorded = [false; 2];
            self.waiting = 0;
        }
    }

    fn run_waiting(&mut self, now: Instant, with_id: bool) {
        for _ in 0..std::mem::take(&mut self.waiting) {
            let _ = self.carry_out(2, now, with_id);
        }
    }

    /// Carries the statements out in order, as many as `limit`. The result is how many are done,
    /// and whether the next was refused.
    fn carry_out(&mut self, limit: usize, now: Instant, with_id: bool) -> (usize, bool) {
        self.forget_expired(now);
        for index in 0..self.statements.min(limit) {
            if with_id && self.recorded[index] {
                continue;
            }
            if self.conflicts[index] {
                return (index, true);
            }
            self.applied[index] += 1;
            self.ever_applied = true;
            self.recorded[index] = with_id;
        }
        (self.statements.min(limit), false)
    }

    fn forget_expired(&mut self, now: Instant) {
        if self.record_used.is_some_and(|used| now - used >= 30 * MINUTE) {
            self.recorded = [false; 2];
        }
        self.record_used = Some(now);
    }

    /// What the driver sees of an attempt; none if it succeeded.
    fn attempt(
        &mut self,
        happening: Happening,
        now: Instant,
        with_id: bool,
        multi: bool,
    ) -> Option<Failure<'static>> {
        let retryable: &[&str] = if with_id { &["RetryableWriteError"] } else { &[] };
        if let Happening::NotConnected = happening {
            return Some(before_sending(Cause::PoolCleared));
        }
        self.ever_reached = true;
        match happening {
            Happening::NotConnected => unreachable!("answered above"),
            Happening::Breaks { after } => {
                let _ = self.carry_out(after, now, with_id);
                // A shard may get to it although its router is gone.
                self.waiting += usize::from(self.routed && after == 0);
                Some(broken())
            }
            Happening::TimesOut { waits } => {
                if waits {
                    self.waiting += 1;
                } else {
                    let _ = self.carry_out(2, now, with_id);
                }
                Some(timed_out())
            }
            Happening::RefusedAtTheDoor { code, says_no_writes } => {
                // A router met with a lost reply before, and does not say so.
                if self.routed && code != 13 && !says_no_writes {
                    let _ = self.carry_out(2, now, with_id);
                }
                let no_writes: &[&str] = if says_no_writes { &["NoWritesPerformed"] } else { &[] };
                let retryable = if code == 13 { &[] } else { retryable };
                Some(labelled(refused(code), &[retryable, no_writes].concat()))
            }
            Happening::Interrupted { after } => {
                let _ = self.carry_out(after, now, with_id);
                self.waiting += usize::from(self.routed && after == 0);
                Some(labelled(refused(11602), retryable))
            }
            Happening::NotReplicated { retryable: again } => {
                match self.carry_out(2, now, with_id) {
                    (_, false) if again => Some(labelled(write_concern(91), retryable)),
                    (_, false) => Some(write_concern(64)),
                    (done, true) => Some(listed(done > 0 && !multi)),
                }
            }
            Happening::RecordIsGone { code } => Some(refused(code)),
            Happening::CarriedOut => match self.carry_out(2, now, with_id) {
                (_, false) => None,
                // An update of many documents does not tell how many it changed before.
                (done, true) => Some(listed(done > 0 && !multi)),
            },
        }
    }
}

fn listed(any_applied: bool) -> Failure<'static> {
    sending(Cause::WriteErrors { codes: &[11000], any_applied })
}

/// Runs a write against the deployment as the driver would; none if it succeeded.
fn write_to(
    deployment: &mut Deployment,
    settings: RetrySettings,
    operation: Operation,
    steps: &[(Before, Happening)],
) -> Option<GiveUp> {
    let at = if deployment.routed { router() } else { primary() };
    let with_id = settings.retry_writes && operation.kind == Kind::RecognisableWrite;
    let multi = operation.kind == Kind::Write;
    let mut now = Instant::now();
    let mut retry = Retry::new(settings, operation);
    for (before, happening) in steps {
        if before.minutes > 0 {
            // A request does not wait for longer than the margin of a session's lifetime.
            deployment.run_waiting(now, with_id);
        }
        now += before.minutes * MINUTE;
        deployment.change(*before, now, with_id);
        retry.server_selected(at.clone()).unwrap();
        if !matches!(happening, Happening::NotConnected)
            && let Err(end) = retry.begin_sending(now)
        {
            return finish(deployment, end, now, with_id);
        }
        let failure = deployment.attempt(*happening, now, with_id, multi)?;
        if let Next::GiveUp(end) = retry.on_failure(&failure, now).next {
            return finish(deployment, end, now, with_id);
        }
    }
    finish(deployment, retry.no_server(), now, with_id)
}

/// What still waits is carried out in the end, when the conflicting documents are gone.
fn finish(deployment: &mut Deployment, end: GiveUp, now: Instant, with_id: bool) -> Option<GiveUp> {
    deployment.conflicts = [false; 2];
    deployment.run_waiting(now, with_id);
    Some(end)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20000))]

    /// The claims of [`Outcome`], and that a write is applied at most once.
    #[test]
    fn an_outcome_never_claims_more_than_the_servers_did(
        routed in any::<bool>(),
        statements in 1_usize..3,
        recognisable in prop::bool::weighted(0.8),
        retry_writes in prop::bool::weighted(0.8),
        bounded in any::<bool>(),
        steps in vec((before(), happening()), 1..6),
    ) {
        let settings = RetrySettings { retry_writes, retry_reads: true };
        let kind = if recognisable { Kind::RecognisableWrite } else { Kind::Write };
        let operation = Operation {
            one_document: recognisable && statements == 1,
            deadline: bounded.then(|| Instant::now() + 1000 * MINUTE),
            ..Operation::new(kind)
        };
        let mut deployment = Deployment {
            routed,
            statements,
            applied: [0; 2],
            recorded: [false; 2],
            record_used: None,
            conflicts: [false; 2],
            waiting: 0,
            ever_applied: false,
            ever_reached: false,
        };
        let end = write_to(&mut deployment, settings, operation, &steps);
        prop_assert!(deployment.applied.iter().all(|&times| times <= 1), "{:?}", deployment);
        let Some(end) = end else { return Ok(()) };
        match end.outcome {
            Outcome::NotSent => prop_assert!(!deployment.ever_reached, "{:?}", deployment),
            Outcome::NotApplied => {
                prop_assert_eq!(deployment.applied, [0; 2], "{:?}", deployment);
            }
            Outcome::MaybeApplied => {}
            Outcome::AppliedNotDurable => prop_assert!(deployment.ever_applied),
        }
    }
}
