//! Descriptions of contradictions between the results of operations and the database.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    account::{Account, Answer, Kind, Record},
    judge::Verdict,
};

/// Sort of contradiction: a transaction that was applied in part.
pub(super) const TORN: &str = "torn";

/// A contradiction.
#[derive(Debug)]
pub(super) struct Contradiction<'a> {
    /// Sort: `duplicated`, `lost`, `wrongly labelled`, `torn`, `foreign`.
    pub(super) what: &'static str,
    pub(super) mark: u64,
    pub(super) operation: u64,
    /// `None` if there was no such operation.
    pub(super) record: Option<&'a Record>,
    /// Number of times that the mark is in the database. Of a torn transaction: number of its marks there.
    pub(super) found: u64,
}

impl<'a> Contradiction<'a> {
    /// Returns the first contradictions, at most `most` of each sort.
    pub(super) fn first(most: usize, account: &'a Account, verdict: &Verdict) -> Vec<Self> {
        let mut marks: Vec<(&'static str, u64)> = Vec::new();
        for (what, all) in verdict.contradictions() {
            marks.extend(all.iter().take(most).map(|mark| (what, *mark)));
        }
        let sought: BTreeSet<u64> = marks.iter().map(|(_, mark)| mark / Kind::MARKS).collect();
        let records: BTreeMap<u64, &Record> = (account.records.iter())
            .filter(|record| sought.contains(&record.operation))
            .map(|record| (record.operation, record))
            .collect();
        let of = |(what, mark): (&'static str, u64)| {
            let operation = mark / Kind::MARKS;
            let record = records.get(&operation).copied();
            let times = |mark| account.census.get(&mark).copied().unwrap_or_default();
            let found = match record {
                Some(record) if what == TORN => {
                    record.kind.marks(operation).filter(|mark| times(*mark) > 0).count() as u64
                }
                _ => times(mark),
            };
            Self { what, mark, operation, record, found }
        };
        marks.into_iter().map(of).collect()
    }

    /// Returns the result that the application got.
    pub(super) fn result(&self) -> String {
        match self.record.map(|record| &record.answer) {
            None => "never written".to_owned(),
            Some(Answer::Acknowledged) => "acknowledged".to_owned(),
            Some(Answer::Wrong(how)) => format!("acknowledged, but {how}"),
            Some(Answer::Failed(outcome)) => format!("failed, {outcome}"),
            Some(Answer::Dropped) => "dropped by the caller".to_owned(),
        }
    }

    /// Returns the state of the database.
    pub(super) fn found(&self) -> String {
        match self.found {
            found if self.what == TORN => format!("{found} of its {} writes found", Kind::MARKS),
            0 => "not found".to_owned(),
            1 => "found".to_owned(),
            times => format!("found {times} times"),
        }
    }

    /// Returns the errors of failed attempts, in order of time.
    pub(super) fn failures(&self) -> Vec<&str> {
        let failures = self.record.map(|record| record.failures.iter());
        failures.into_iter().flatten().map(|failure| failure.what.as_str()).collect()
    }
}
