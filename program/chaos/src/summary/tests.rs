//! The summary of sample runs.

use std::collections::BTreeMap;

use crate::strategy::Strategy;

use super::*;
use crate::{
    account::{Answer, Failure, Incident, Kind, Record},
    plan::{Fault, Load, Servers, Uri},
};

fn plan() -> Plan {
    Plan::new(Servers::Foreign(Uri::new("mongodb://root:secret@localhost")))
}

/// Returns a run with more items than the summary shows, and names longer than a line.
fn large_run() -> Account {
    let at = Duration::from_secs;
    let record = |operation: u64| Record {
        operation,
        kind: Kind::Increment,
        began: at(operation),
        took: Duration::from_millis(1 + operation),
        answer: Answer::Acknowledged,
        attempts: 2,
        failures: vec![Failure {
            at: at(operation),
            what: format!("a long name of an error, and then {} {operation}", "more ".repeat(20)),
        }],
    };
    let incident = |nth: u64| Incident {
        fault: Fault::Kill,
        what: format!("the primary, {}, is killed", "far.away.example.com".repeat(9)),
        began: at(nth * 9),
        ended: at(nth * 9 + 1),
        is_failover: true,
        hits: 3,
        lost_replies: 0,
    };
    let records: Vec<Record> = (0..50).map(record).collect();
    // Each mark is found twice.
    let census: BTreeMap<u64, u64> =
        (0..50).map(|operation| (operation * Kind::MARKS, 2)).collect();
    Account {
        plan: plan(),
        server: "mongod 6.0.5".to_owned(),
        lasted: at(50),
        interrupted: true,
        records,
        incidents: (0..6).map(incident).collect(),
        census,
    }
}

fn summary_of(account: &Account) -> String {
    Report::of(account.clone()).summary(Styles::default(), Some(Path::new("chaos.html")))
}

#[test]
fn summary_fits_on_a_screen() {
    let text = summary_of(&large_run());
    assert!(text.lines().count() <= 40, "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= WIDE), "{text}");
}

#[test]
fn verdict_comes_first_and_contradictions_second() {
    let text = summary_of(&large_run());
    let mut lines = text.lines();
    assert_eq!(
        lines.next(),
        Some("50 duplicated   0 lost   0 wrongly labelled   0 torn"),
        "{text}"
    );
    assert_eq!(lines.next(), Some("(interrupted after 50 s of 1m)"), "{text}");
    let first = lines.next().unwrap_or_default();
    let begins = "  duplicated: operation 0 (increment, 0:00.0): acknowledged, and found 2 times; attempts fail";
    assert!(first.starts_with(begins), "{text}");
    let operations = "50 of 12,000 planned: 50 acknowledged, 0 not applied, 0 in doubt";
    assert!(text.contains(operations), "{text}");
    assert!(text.contains("100: 0 once, 50 twice"), "{text}");
    assert!(text.contains("failovers   6: time to recover "), "{text}");
    assert!(text.contains("report      chaos.html"), "{text}");
    assert!(!text.contains("secret"), "{text}");
}

#[test]
fn long_command_is_wrapped_for_a_shell() {
    let mut plan = plan();
    plan.servers = Servers::Mongod;
    plan.strategy = Strategy::DontRetry;
    plan.workload = vec![Load::Inserts, Load::FindAndModify];
    plan.faults = vec![Fault::Cuts, Fault::StepDown];
    let lines = repetition(&plan);
    assert!(lines.iter().all(|line| line.chars().count() <= WIDE), "{lines:#?}");
    let (last, others) = lines.split_last().unwrap();
    assert!(!others.is_empty() && others.iter().all(|line| line.ends_with(" \\")), "{lines:#?}");
    assert!(last.ends_with("--faults cuts,step-down"), "{lines:#?}");
}
