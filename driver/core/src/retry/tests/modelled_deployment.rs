//! Outcomes, checked against a model of a deployment that records the writes applied.

use proptest::{collection::vec, prelude::*, sample::select};

use super::*;

/// Treatment of one attempt by the modelled deployment.
#[derive(Clone, Copy, Debug)]
enum Treatment {
    /// There is no connection.
    NotConnected,
    /// The connection breaks after this many statements were executed.
    Breaks { after: usize },
    /// The attempt times out. The request is executed now, or waits.
    TimesOut { waits: bool },
    /// Rejected before execution: not the primary, or unauthorized.
    RejectedBeforeExecution { code: i32, no_writes_performed: bool },
    /// Rejected because of overload.
    Overloaded { code: i32 },
    /// Interrupted after this many statements.
    Interrupted { after: usize },
    /// Executed, but the server steps down before replication.
    NotReplicated { retryable: bool },
    /// The transaction record of the session is incomplete.
    RecordMissing { code: i32 },
    /// Executed: a statement is applied, found in the transaction record, or rejected.
    Executed,
}

/// Changes of the deployment before an attempt.
#[derive(Clone, Copy, Debug)]
struct Before {
    minutes: u32,
    /// A new primary without the writes of the former one.
    rolls_back: bool,
    /// Waiting requests are executed.
    waiting_execute: bool,
    /// `true` if another document has the statement's key.
    conflicts: [bool; 2],
}

fn treatment() -> impl Strategy<Value = Treatment> {
    prop_oneof![
        1 => Just(Treatment::NotConnected),
        3 => (0_usize..3).prop_map(|after| Treatment::Breaks { after }),
        2 => any::<bool>().prop_map(|waits| Treatment::TimesOut { waits }),
        2 => (select(vec![10107, 13, 13435]), any::<bool>()).prop_map(|(code, no_writes_performed)| {
            Treatment::RejectedBeforeExecution { code, no_writes_performed }
        }),
        3 => select(vec![462, 91]).prop_map(|code| Treatment::Overloaded { code }),
        2 => (0_usize..3).prop_map(|after| Treatment::Interrupted { after }),
        2 => any::<bool>().prop_map(|retryable| Treatment::NotReplicated { retryable }),
        1 => select(vec![217, 225]).prop_map(|code| Treatment::RecordMissing { code }),
        4 => Just(Treatment::Executed),
    ]
}

prop_compose! {
    fn before()(
        minutes in select(vec![0, 0, 0, 5, 28, 31]),
        rolls_back in prop::bool::weighted(0.2),
        waiting_execute in any::<bool>(),
        conflicts in any::<[bool; 2]>(),
    ) -> Before {
        Before { minutes, rolls_back, waiting_execute, conflicts }
    }
}

/// Complete state of the modelled deployment.
#[derive(Debug)]
struct Deployment {
    /// `true` if commands pass a mongos, which may retry internally.
    routed: bool,
    statements: usize,
    applied: [u32; 2],
    /// Statements in the transaction record of the session, and the time of its last use.
    recorded: [bool; 2],
    record_used: Option<Instant>,
    conflicts: [bool; 2],
    waiting: usize,
    ever_applied: bool,
    ever_reached: bool,
}

impl Deployment {
    fn change(&mut self, before: Before, now: Instant, with_id: bool) {
        if before.waiting_execute {
            self.execute_waiting(now, with_id);
        }
        self.conflicts = before.conflicts;
        if before.rolls_back {
            self.applied = [0; 2];
            self.recorded = [false; 2];
            self.waiting = 0;
        }
    }

    fn execute_waiting(&mut self, now: Instant, with_id: bool) {
        for _ in 0..std::mem::take(&mut self.waiting) {
            let _ = self.execute(2, now, with_id);
        }
    }

    /// Executes the statements in order, up to `limit`. Returns how many were executed, and `true`
    /// if the next one was rejected.
    fn execute(&mut self, limit: usize, now: Instant, with_id: bool) -> (usize, bool) {
        self.expire_record(now);
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

    fn expire_record(&mut self, now: Instant) {
        if self.record_used.is_some_and(|used| now - used >= 30 * MINUTE) {
            self.recorded = [false; 2];
        }
        self.record_used = Some(now);
    }

    /// Returns the failure of an attempt, or `None` if it succeeded.
    fn attempt(
        &mut self,
        treatment: Treatment,
        now: Instant,
        with_id: bool,
        multi: bool,
    ) -> Option<AttemptFailure<'static>> {
        let retryable: &[&str] = if with_id { &["RetryableWriteError"] } else { &[] };
        if let Treatment::NotConnected = treatment {
            return Some(before_send(FailureCause::PoolCleared));
        }
        self.ever_reached = true;
        match treatment {
            Treatment::NotConnected => unreachable!("answered above"),
            Treatment::Breaks { after } => {
                let _ = self.execute(after, now, with_id);
                // A shard may execute it although its mongos is gone.
                self.waiting += usize::from(self.routed && after == 0);
                Some(broken())
            }
            Treatment::TimesOut { waits } => {
                if waits {
                    self.waiting += 1;
                } else {
                    let _ = self.execute(2, now, with_id);
                }
                Some(timed_out())
            }
            Treatment::RejectedBeforeExecution { code, no_writes_performed } => {
                // The mongos has lost a reply before, and does not report it.
                if self.routed && code != 13 && !no_writes_performed {
                    let _ = self.execute(2, now, with_id);
                }
                let no_writes: &[&str] =
                    if no_writes_performed { &["NoWritesPerformed"] } else { &[] };
                let retryable = if code == 13 { &[] } else { retryable };
                Some(labelled(command_error(code), &[retryable, no_writes].concat()))
            }
            Treatment::Overloaded { code } => {
                Some(labelled(command_error(code), &["SystemOverloadedError", "RetryableError"]))
            }
            Treatment::Interrupted { after } => {
                let _ = self.execute(after, now, with_id);
                self.waiting += usize::from(self.routed && after == 0);
                Some(labelled(command_error(11602), retryable))
            }
            Treatment::NotReplicated { retryable: again } => match self.execute(2, now, with_id) {
                (_, false) if again => Some(labelled(write_concern(91), retryable)),
                (_, false) => Some(write_concern(64)),
                (done, true) => Some(listed(done > 0 && !multi)),
            },
            Treatment::RecordMissing { code } => Some(command_error(code)),
            Treatment::Executed => match self.execute(2, now, with_id) {
                (_, false) => None,
                // An update of many documents does not report how many it modified before.
                (done, true) => Some(listed(done > 0 && !multi)),
            },
        }
    }
}

fn listed(any_applied: bool) -> AttemptFailure<'static> {
    sent(FailureCause::WriteErrors { codes: &[11000], any_applied })
}

/// Runs a write against the deployment like the driver. Returns `None` if it succeeded.
fn write_to(
    deployment: &mut Deployment,
    settings: RetrySettings,
    operation: CommandFacts,
    steps: &[(Before, Treatment)],
) -> Option<GiveUp> {
    let at = if deployment.routed { mongos() } else { primary() };
    let with_id = settings.retry_writes && operation.kind == CommandKind::RetryableWrite;
    let multi = operation.kind == CommandKind::Write;
    let mut now = Instant::now();
    let mut retry = Retry::new(settings, operation, &Arc::default());
    for (before, treatment) in steps {
        if before.minutes > 0 {
            // A request does not wait longer than the safety margin of a session.
            deployment.execute_waiting(now, with_id);
        }
        now += before.minutes * MINUTE;
        deployment.change(*before, now, with_id);
        retry.server_selected(at.clone()).unwrap();
        if !matches!(treatment, Treatment::NotConnected)
            && let Err(end) = retry.begin_send(now)
        {
            return finish(deployment, end, now, with_id);
        }
        let failure = deployment.attempt(*treatment, now, with_id, multi)?;
        if let NextStep::GiveUp(end) = retry.on_failure(&failure, now, unjittered).next {
            return finish(deployment, end, now, with_id);
        }
    }
    finish(deployment, retry.no_server(), now, with_id)
}

/// Executes the waiting requests at the end, without conflicting documents.
fn finish(deployment: &mut Deployment, end: GiveUp, now: Instant, with_id: bool) -> Option<GiveUp> {
    deployment.conflicts = [false; 2];
    deployment.execute_waiting(now, with_id);
    Some(end)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20000))]

    /// Checks the guarantees of [`Outcome`], and that a write is applied at most once.
    #[test]
    fn outcome_never_contradicts_the_modelled_deployment(
        routed in any::<bool>(),
        statements in 1_usize..3,
        recognisable in prop::bool::weighted(0.8),
        retry_writes in prop::bool::weighted(0.8),
        bounded in any::<bool>(),
        steps in vec((before(), treatment()), 1..8),
    ) {
        let settings = RetrySettings { retry_writes, retry_reads: true, ..RetrySettings::default() };
        let kind = if recognisable { CommandKind::RetryableWrite } else { CommandKind::Write };
        let operation = CommandFacts {
            single_document: recognisable && statements == 1,
            deadline: bounded.then(|| Instant::now() + 1000 * MINUTE),
            ..CommandFacts::new(kind)
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
