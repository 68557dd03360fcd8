//! Each row of the verdict's table, and a comparison with a simpler implementation.

use std::{collections::BTreeMap, time::Duration};

use steadfast::error::Outcome;

use super::*;
use crate::{
    account::Record,
    plan::{Plan, Servers},
};

fn account(records: Vec<(u64, Kind, Answer)>, census: &[(u64, u64)]) -> Account {
    let record = |(operation, kind, answer)| Record {
        operation,
        kind,
        began: Duration::ZERO,
        took: Duration::ZERO,
        answer,
        attempts: 1,
        failures: Vec::new(),
    };
    Account {
        plan: Plan::new(Servers::Embedded),
        server: String::new(),
        lasted: Duration::from_secs(1),
        interrupted: false,
        records: records.into_iter().map(record).collect(),
        incidents: Vec::new(),
        census: census.iter().copied().collect(),
    }
}

/// Returns the verdict on operation 2, whose mark 6 is found this number of times.
fn verdict(answer: Answer, times: u64) -> Verdict {
    judge(&account(vec![(2, Kind::InsertOne, answer)], &[(6, times)]))
}

const SIX: [u64; 1] = [6];

#[test]
fn acknowledged_write_must_be_found_once() {
    let once = verdict(Answer::Acknowledged, 1);
    assert!(once.is_clean());
    assert_eq!((once.acknowledged, once.not_applied, once.in_doubt), (1, 0, 0));
    let none = verdict(Answer::Acknowledged, 0);
    assert_eq!(none, Verdict { acknowledged: 1, lost: SIX.to_vec(), ..Verdict::default() });
    let twice = verdict(Answer::Acknowledged, 2);
    assert_eq!(twice, Verdict { acknowledged: 1, duplicated: SIX.to_vec(), ..Verdict::default() });
}

#[test]
fn impossible_result_is_mislabelled_for_any_count() {
    let wrong = || Answer::Wrong("0 matched".to_owned());
    let base = Verdict { acknowledged: 1, mislabelled: SIX.to_vec(), ..Verdict::default() };
    assert_eq!(verdict(wrong(), 1), base);
    assert_eq!(verdict(wrong(), 0), Verdict { lost: SIX.to_vec(), ..base.clone() });
    assert_eq!(verdict(wrong(), 3), Verdict { duplicated: SIX.to_vec(), ..base });
    let many = account(vec![(0, Kind::BulkWrite, wrong())], &[(0, 1), (1, 1), (2, 1)]);
    assert_eq!(judge(&many).mislabelled, [0], "once, not for each mark");
}

#[test]
fn write_that_was_not_applied_must_not_be_found() {
    for outcome in [Outcome::NotSent, Outcome::NotApplied] {
        let failed = || Answer::Failed(outcome);
        let base = Verdict { not_applied: 1, ..Verdict::default() };
        assert_eq!(verdict(failed(), 0), base);
        let found = Verdict { mislabelled: SIX.to_vec(), ..base };
        assert_eq!(verdict(failed(), 1), found);
        assert_eq!(verdict(failed(), 2), Verdict { duplicated: SIX.to_vec(), ..found });
    }
}

#[test]
fn write_in_doubt_may_be_found_at_most_once() {
    for outcome in [Outcome::MaybeApplied, Outcome::AppliedNotDurable] {
        let failed = || Answer::Failed(outcome);
        let base = Verdict { in_doubt: 1, ..Verdict::default() };
        assert_eq!(verdict(failed(), 0), base);
        let found = Verdict { in_doubt_applied: 1, ..base };
        assert_eq!(verdict(failed(), 1), found);
        assert_eq!(verdict(failed(), 2), Verdict { duplicated: SIX.to_vec(), ..found });
    }
}

#[test]
fn dropped_write_may_be_found_at_most_once() {
    let base = Verdict { in_doubt: 1, dropped: 1, ..Verdict::default() };
    assert_eq!(verdict(Answer::Dropped, 0), base);
    let found = Verdict { in_doubt_applied: 1, ..base };
    assert_eq!(verdict(Answer::Dropped, 1), found);
    assert_eq!(verdict(Answer::Dropped, 2), Verdict { duplicated: SIX.to_vec(), ..found });
}

#[test]
fn transaction_that_is_applied_in_part_is_torn() {
    let answers = [
        Answer::Acknowledged,
        Answer::Failed(Outcome::NotApplied),
        Answer::Failed(Outcome::MaybeApplied),
        Answer::Dropped,
    ];
    for answer in answers {
        let torn = |kind, census: &[(u64, u64)]| {
            judge(&account(vec![(2, kind, answer.clone())], census)).torn
        };
        let [none, whole] = [[(6, 0), (7, 0), (8, 0)], [(6, 1), (7, 1), (8, 1)]];
        assert_eq!(torn(Kind::Transaction, &none), [0; 0], "{answer:?}");
        assert_eq!(torn(Kind::Transaction, &whole), [0; 0], "{answer:?}");
        for part in [vec![(6, 1)], vec![(7, 1)], vec![(6, 1), (8, 1)], vec![(7, 2)]] {
            assert_eq!(torn(Kind::Transaction, &part), SIX, "{answer:?} {part:?}");
            assert_eq!(torn(Kind::BulkWrite, &part), [0; 0], "a bulk write is not atomic");
        }
    }
    let verdict = judge(&account(vec![(2, Kind::Transaction, Answer::Dropped)], &[(7, 1)]));
    assert!(!verdict.is_clean());
}

#[test]
fn mark_without_an_operation_is_foreign() {
    let records = vec![(2, Kind::InsertOne, Answer::Acknowledged)];
    // 30 has no operation, operation 2 has only the mark 6, and 33 is not found.
    let verdict = judge(&account(records, &[(6, 1), (7, 1), (30, 2), (33, 0)]));
    assert_eq!(verdict.foreign, [7, 30]);
    assert!(verdict.duplicated.is_empty(), "it is reported once");
    assert!(!verdict.is_clean());
}

#[test]
fn marks_of_one_operation_are_judged_one_by_one() {
    let acknowledged =
        account(vec![(1, Kind::InsertMany, Answer::Acknowledged)], &[(3, 1), (5, 2)]);
    let verdict = judge(&acknowledged);
    assert_eq!((verdict.lost, verdict.duplicated), (vec![4], vec![5]));
    assert_eq!(verdict.acknowledged, 1, "operations are counted, not marks");
    let not_applied = Answer::Failed(Outcome::NotApplied);
    let verdict = judge(&account(vec![(1, Kind::BulkWrite, not_applied)], &[(4, 1)]));
    assert_eq!(verdict.mislabelled, [4]);
    let in_doubt = Answer::Failed(Outcome::MaybeApplied);
    let verdict = judge(&account(vec![(1, Kind::BulkWrite, in_doubt)], &[(3, 1), (4, 1)]));
    assert!(verdict.is_clean());
    assert_eq!((verdict.in_doubt, verdict.in_doubt_applied), (1, 2));
}

/// Simpler implementation of [`judge`], which checks every number for every contradiction.
fn simple_judge(account: &Account, numbers: u64) -> Verdict {
    let times = |mark: u64| account.census.get(&mark).copied().unwrap_or(0);
    let answers: BTreeMap<u64, &Answer> = account
        .records
        .iter()
        .flat_map(|record| record.kind.marks(record.operation).map(|mark| (mark, &record.answer)))
        .collect();
    let result_of = |mark: u64| answers.get(&mark).copied();
    let is_acknowledged =
        |answer: &Answer| matches!(answer, Answer::Acknowledged | Answer::Wrong(_));
    let is_not_applied =
        |answer: &Answer| matches!(answer, Answer::Failed(Outcome::NotSent | Outcome::NotApplied));
    let is_in_doubt = |answer: &Answer| !is_acknowledged(answer) && !is_not_applied(answer);
    let is_wrong = |mark: u64| {
        let first = account.records.iter().find(|record| record.operation * 3 == mark);
        first.is_some_and(|record| matches!(record.answer, Answer::Wrong(_)))
    };
    let marks =
        |is: &dyn Fn(u64) -> bool| (0..numbers).filter(|mark| is(*mark)).collect::<Vec<_>>();
    let operations = |is: &dyn Fn(&Answer) -> bool| {
        account.records.iter().filter(|record| is(&record.answer)).count() as u64
    };
    Verdict {
        duplicated: marks(&|mark| result_of(mark).is_some() && times(mark) >= 2),
        lost: marks(&|mark| result_of(mark).is_some_and(is_acknowledged) && times(mark) == 0),
        mislabelled: marks(&|mark| {
            is_wrong(mark) || (result_of(mark).is_some_and(is_not_applied) && times(mark) >= 1)
        }),
        torn: marks(&|mark| {
            let first = account.records.iter().find(|record| record.operation * 3 == mark);
            let found: Vec<bool> = (mark..mark + 3).map(|mark| times(mark) >= 1).collect();
            let is_part = found.contains(&true) && found.contains(&false);
            is_part && first.is_some_and(|record| record.kind == Kind::Transaction)
        }),
        foreign: marks(&|mark| result_of(mark).is_none() && times(mark) >= 1),
        acknowledged: operations(&is_acknowledged),
        not_applied: operations(&is_not_applied),
        in_doubt: operations(&is_in_doubt),
        dropped: operations(&|answer| *answer == Answer::Dropped),
        in_doubt_applied: marks(&|mark| {
            result_of(mark).is_some_and(is_in_doubt) && times(mark) >= 1
        })
        .len() as u64,
    }
}

#[test]
fn verdict_equals_that_of_a_simpler_implementation() {
    const KINDS: [Kind; 4] =
        [Kind::InsertOne, Kind::InsertMany, Kind::BulkWrite, Kind::Transaction];
    let answers = [
        Answer::Acknowledged,
        Answer::Acknowledged,
        Answer::Wrong("impossible".to_owned()),
        Answer::Failed(Outcome::NotSent),
        Answer::Failed(Outcome::NotApplied),
        Answer::Failed(Outcome::MaybeApplied),
        Answer::Failed(Outcome::AppliedNotDurable),
        Answer::Dropped,
    ];
    let mut state = 1_u64;
    let mut below = |bound: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % bound
    };
    for round in 0..2_000 {
        let mut records = Vec::new();
        for operation in 0..8 {
            if below(4) > 0 {
                let at = below(records.len() + 1);
                records.insert(at, (operation, KINDS[below(4)], answers[below(8)].clone()));
            }
        }
        let numbers = 9 * Kind::MARKS;
        let mut census = Vec::new();
        for mark in 0..numbers {
            if below(8) > 0 {
                census.push((mark, [0, 1, 1, 1, 2][below(5)]));
            }
        }
        let account = account(records, &census);
        assert_eq!(judge(&account), simple_judge(&account, numbers), "round {round}: {account:?}");
    }
}
