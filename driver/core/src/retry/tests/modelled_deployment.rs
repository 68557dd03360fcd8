//! What an outcome claims, against a deployment that is known to have applied a write or not.

use proptest::{collection::vec, prelude::*, sample::select};

use super::*;

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
    /// Turned away, because it has too much to do.
    ShedsLoad { code: i32 },
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
        3 => select(vec![462, 91]).prop_map(|code| Happening::ShedsLoad { code }),
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
            Happening::ShedsLoad { code } => {
                Some(labelled(refused(code), &["SystemOverloadedError", "RetryableError"]))
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
    let mut retry = Retry::new(settings, operation, &Arc::default());
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
        if let Next::GiveUp(end) = retry.on_failure(&failure, now, unjittered).next {
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
        steps in vec((before(), happening()), 1..8),
    ) {
        let settings = RetrySettings { retry_writes, retry_reads: true, ..RetrySettings::default() };
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
