//! Figures of small runs.

use std::{collections::BTreeMap, time::Duration};

use steadfast::error::Outcome;

use super::*;
use crate::{
    account::{Failure, Incident},
    plan::{Plan, Servers},
};

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn account(lasted: u64, records: Vec<Record>, incidents: Vec<Incident>) -> Account {
    let plan = Plan {
        faults: Fault::ALL.to_vec(),
        tasks: 1,
        rate: 10,
        lasting: ms(lasted),
        ..Plan::new(Servers::Embedded)
    };
    Account {
        plan,
        server: "a server".to_owned(),
        lasted: ms(lasted),
        interrupted: false,
        records,
        incidents,
        census: BTreeMap::new(),
    }
}

fn record(began: u64, took: u64, answer: Answer, failures: &[(u64, &str)]) -> Record {
    let failure = |(at, what): &(u64, &str)| Failure { at: ms(*at), what: (*what).to_owned() };
    let is_successful = u32::from(answer == Answer::Acknowledged);
    Record {
        operation: began,
        kind: Kind::Increment,
        began: ms(began),
        took: ms(took),
        answer,
        attempts: u32::try_from(failures.len()).unwrap() + is_successful,
        failures: failures.iter().map(failure).collect(),
    }
}

fn acknowledged(began: u64, took: u64) -> Record {
    record(began, took, Answer::Acknowledged, &[])
}

fn incident(fault: Fault, began: u64, ended: u64, hits: u64) -> Incident {
    let is_failover = matches!(fault, Fault::Kill | Fault::StepDown);
    let what = fault.name().to_owned();
    Incident { fault, what, began: ms(began), ended: ms(ended), is_failover, hits, lost_replies: 0 }
}

#[test]
fn figures_of_an_empty_run_are_zero() {
    let figures = Figures::of(&account(0, Vec::new(), Vec::new()));
    assert_eq!(figures.all, Operations::default());
    assert_eq!(figures.timeline.bins, [Bin::default()]);
    assert!(figures.kinds.is_empty() && figures.errors.is_empty() && figures.faults.is_empty());
}

#[test]
fn quantiles_are_values_that_occurred() {
    let of = |millis: &[u64]| Latency::of(millis.iter().copied().map(ms).collect());
    let one = of(&[7]);
    assert_eq!((one.p50, one.p999, one.max), (ms(7), ms(7), ms(7)));
    let hundred = of(&(1..=100).rev().collect::<Vec<_>>());
    assert_eq!((hundred.p50, hundred.p90, hundred.p99), (ms(50), ms(90), ms(99)));
    assert_eq!((hundred.p999, hundred.max), (ms(100), ms(100)));
}

#[test]
fn results_are_counted_by_class() {
    let failed = |outcome| record(0, 1, Answer::Failed(outcome), &[(1, "broken")]);
    let wrong = Answer::Wrong("none matched".to_owned());
    let records = vec![
        acknowledged(0, 1),
        record(0, 1, wrong, &[]),
        failed(Outcome::NotSent),
        failed(Outcome::NotApplied),
        failed(Outcome::MaybeApplied),
        failed(Outcome::AppliedNotDurable),
    ];
    let figures = Figures::of(&account(1_000, records, Vec::new()));
    let answers = Answers { acknowledged: 2, not_applied: 2, in_doubt: 2 };
    assert_eq!(figures.all.answers, answers);
    assert_eq!(figures.kinds[&Kind::Increment], figures.all);
    assert_eq!(figures.all.failed_attempts, 4);
}

#[test]
fn attempts_are_counted_per_operation() {
    let records = vec![
        acknowledged(0, 1),
        acknowledged(1, 1),
        record(2, 9, Answer::Acknowledged, &[(3, "broken"), (4, "broken")]),
        Record { attempts: 0, ..record(3, 9, Answer::Failed(Outcome::NotSent), &[]) },
    ];
    let all = Figures::of(&account(1_000, records, Vec::new())).all;
    assert_eq!(all.by_attempts, BTreeMap::from([(0, 1), (1, 2), (3, 1)]));
    assert_eq!((all.attempts(), all.retried(), all.count()), (5, 1, 4));
}

#[test]
fn operations_are_in_the_step_of_their_end_and_failed_attempts_in_that_of_their_time() {
    let records = vec![
        acknowledged(10, 20),
        record(20, 200, Answer::Acknowledged, &[(110, "broken")]),
        record(90, 800, Answer::Failed(Outcome::NotApplied), &[(890, "rejected")]),
    ];
    let timeline = Figures::of(&account(850, records, Vec::new())).timeline;
    assert_eq!((timeline.width, timeline.lasted), (ms(100), ms(890)));
    let ended: Vec<_> = timeline.bins.iter().map(|bin| bin.answers.count()).collect();
    assert_eq!(ended, [1, 0, 1, 0, 0, 0, 0, 0, 1]);
    let failed: Vec<_> = timeline.bins.iter().map(|bin| bin.failed_attempts).collect();
    assert_eq!(failed, [0, 1, 0, 0, 0, 0, 0, 0, 1]);
    assert_eq!(timeline.bins[8].answers.not_applied, 1);
    assert_eq!(timeline.bins[2].latency.max, ms(200));
    assert_eq!(timeline.begin(2), ms(200));
}

#[test]
fn hits_are_spread_over_the_duration_of_their_fault() {
    let incidents = vec![
        incident(Fault::Cuts, 100, 399, 10),
        incident(Fault::Overload, 350, 350, 2),
        incident(Fault::Cuts, 400, 60_000, 1),
    ];
    let figures = Figures::of(&account(500, Vec::new(), incidents));
    let hits: Vec<_> = figures.timeline.bins.iter().map(|bin| bin.hits).collect();
    assert_eq!(hits, [0, 3, 3, 6, 1]);
    let cuts = FaultTotals { incidents: 2, hits: 11, lost_replies: 0, lasted: ms(59_899) };
    assert_eq!(figures.faults[&Fault::Cuts], cuts);
}

#[test]
fn recovery_ends_when_an_operation_that_began_after_the_failover_is_acknowledged() {
    let records = vec![
        acknowledged(0, 90),
        // Began before the primary was killed: its success is no evidence of recovery.
        acknowledged(95, 10),
        record(120, 500, Answer::Failed(Outcome::NotApplied), &[(620, "no primary")]),
        record(130, 1_170, Answer::Acknowledged, &[(140, "connection reset")]),
        acknowledged(1_310, 10),
    ];
    let incidents =
        vec![incident(Fault::Kill, 100, 5_000, 0), incident(Fault::Slow, 1_305, 1_310, 0)];
    let recoveries = Figures::of(&account(2_000, records, incidents)).recoveries;
    let expected = Recovery { incident: 0, took: Some(ms(1_200)), silence: ms(1_195) };
    assert_eq!(recoveries, [expected]);
}

#[test]
fn without_recovery_the_silence_lasts_until_the_end() {
    let incidents = vec![incident(Fault::Kill, 400, 900, 0)];
    let recoveries = Figures::of(&account(1_000, vec![acknowledged(0, 100)], incidents)).recoveries;
    assert_eq!(recoveries, [Recovery { incident: 0, took: None, silence: ms(900) }]);
}

#[test]
fn silence_is_attributed_to_the_preceding_failover() {
    let records = [0, 100, 800, 900, 1_000, 3_000].map(|began| acknowledged(began, 10)).to_vec();
    let incidents =
        vec![incident(Fault::Kill, 150, 900, 0), incident(Fault::StepDown, 1_050, 1_050, 0)];
    let recoveries = Figures::of(&account(3_010, records, incidents)).recoveries;
    let silences: Vec<_> = recoveries.iter().map(|recovery| recovery.silence).collect();
    assert_eq!(silences, [ms(700), ms(2_000)]);
}

#[test]
fn errors_are_counted_with_the_results_of_their_operations() {
    let records = vec![
        record(0, 9, Answer::Acknowledged, &[(1, "broken"), (2, "broken"), (3, "rejected")]),
        record(1, 9, Answer::Failed(Outcome::MaybeApplied), &[(5, "broken")]),
        record(2, 9, Answer::Failed(Outcome::NotApplied), &[(5, "rejected")]),
        record(2, 9, Answer::Acknowledged, &[(5, "late")]),
    ];
    let errors = Figures::of(&account(1_000, records, Vec::new())).errors;
    let met =
        |what: &str, attempts, [acknowledged, not_applied, in_doubt]: [u64; 3]| ErrorFigures {
            what: what.to_owned(),
            attempts,
            answers: Answers { acknowledged, not_applied, in_doubt },
        };
    let expected =
        [met("broken", 3, [1, 0, 1]), met("rejected", 2, [1, 1, 0]), met("late", 1, [1, 0, 0])];
    assert_eq!(errors, expected);
}

#[test]
fn run_without_a_lost_reply_of_an_executed_write_proves_little() {
    let mut account = account(1_000, Vec::new(), Vec::new());
    assert!(account.plan.has(Fault::Cuts));
    account.incidents = vec![incident(Fault::Cuts, 0, 5, 3)];
    assert!(Figures::of(&account).proves_little(&account));
    account.incidents[0].lost_replies = 1;
    assert!(!Figures::of(&account).proves_little(&account));
    account.incidents.clear();
    account.plan.faults = vec![Fault::Kill];
    assert!(!Figures::of(&account).proves_little(&account), "the plan has no cuts");
}
