//! The verdict: compares the results of the writes with the contents of the database.

use super::{
    account::{Account, Answer, Kind, ResultClass},
    contradiction::TORN,
};

/// Contradictions between the results of operations and the database, by the number of the mark, and counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Writes that were applied more than once.
    pub duplicated: Vec<u64>,
    /// Writes that were acknowledged and are missing.
    pub lost: Vec<u64>,
    /// Writes that were applied although their error excludes it, or with an impossible result.
    pub mislabelled: Vec<u64>,
    /// Transactions that were applied in part, by the first of their marks.
    pub torn: Vec<u64>,
    /// Writes in the database that no operation made.
    pub foreign: Vec<u64>,
    /// Operations that were acknowledged.
    pub acknowledged: u64,
    /// Operations that failed and are certainly not applied.
    pub not_applied: u64,
    /// Operations that failed or were dropped and may be applied.
    pub in_doubt: u64,
    /// Operations in doubt because the application dropped their futures.
    pub dropped: u64,
    /// Marks of operations in doubt that are in the database, which is no contradiction.
    pub in_doubt_applied: u64,
}

impl Verdict {
    /// Returns `true` if there is no contradiction.
    pub fn is_clean(&self) -> bool {
        self.contradictions().iter().all(|(_, marks)| marks.is_empty())
    }

    /// Returns the name of each sort of contradiction, with its marks.
    pub fn contradictions(&self) -> [(&'static str, &[u64]); 5] {
        [
            ("duplicated", &self.duplicated),
            ("lost", &self.lost),
            ("wrongly labelled", &self.mislabelled),
            (TORN, &self.torn),
            ("foreign", &self.foreign),
        ]
    }

    /// Returns the same without the last sort, which only an error of this library can cause, if it is empty.
    pub(super) fn shown(&self) -> Vec<(&'static str, &[u64])> {
        let shown = if self.foreign.is_empty() { 4 } else { 5 };
        self.contradictions()[..shown].to_vec()
    }

    /// Returns a sentence for each reason to reject the run: it proves nothing, or there are contradictions.
    pub fn problems(&self) -> Vec<String> {
        let nothing = (self.acknowledged == 0).then(|| NOTHING_ACKNOWLEDGED.to_owned());
        let counts = self.contradictions().into_iter().filter(|(_, marks)| !marks.is_empty());
        let counts: Vec<String> =
            counts.map(|(what, marks)| format!("{} {what}", marks.len())).collect();
        let contradiction = (!counts.is_empty()).then(|| {
            let counts = counts.join(", ");
            format!("the results of writes contradict the database: {counts}")
        });
        [nothing, contradiction].into_iter().flatten().collect()
    }
}

/// Problem of a run without acknowledged operations.
pub(super) const NOTHING_ACKNOWLEDGED: &str =
    "no operation was acknowledged: this run proves nothing";

/// Judges a run.
///
/// | result of the operation | mark found 0 times | once | more often |
/// |---|---|---|---|
/// | acknowledged | lost | | duplicated |
/// | acknowledged, with an impossible result | lost, mislabelled | mislabelled | duplicated, mislabelled |
/// | not sent, or not applied | | mislabelled | duplicated, mislabelled |
/// | maybe applied, or applied and not durable | | in doubt, and applied | the same, and duplicated |
/// | dropped by the caller | | in doubt, and applied | the same, and duplicated |
/// | no such operation | | foreign | foreign |
///
/// The error of an operation with several marks applies to each of them. An impossible result is reported under
/// the first mark of its operation. A transaction is torn if some of its marks are found and others are not, for
/// any result.
pub(super) fn judge(account: &Account) -> Verdict {
    let mut verdict = Verdict::default();
    let mut begun: Vec<(u64, Kind)> = Vec::with_capacity(account.records.len());
    for record in &account.records {
        begun.push((record.operation, record.kind));
        verdict.count(&record.answer);
        if let Answer::Wrong(_) = record.answer {
            verdict.mislabelled.extend(record.kind.marks(record.operation).next());
        }
        let times = |mark: &u64| account.census.get(mark).copied().unwrap_or_default();
        let marks = || record.kind.marks(record.operation);
        for mark in marks() {
            verdict.check_mark(mark, &record.answer, times(&mark));
        }
        let there = marks().filter(|mark| times(mark) > 0).count();
        if record.kind.is_atomic() && there > 0 && there < marks().count() {
            verdict.torn.extend(marks().next());
        }
    }
    begun.sort_unstable();
    let was_begun = |mark: u64| {
        let operation = mark / Kind::MARKS;
        let found = begun.binary_search_by_key(&operation, |(operation, _)| *operation);
        found.is_ok_and(|at| begun[at].1.marks(operation).any(|own| own == mark))
    };
    let found = account.census.iter().filter(|(_, times)| **times > 0).map(|(mark, _)| *mark);
    verdict.foreign = found.filter(|mark| !was_begun(*mark)).collect();
    let Verdict { duplicated, lost, mislabelled, torn, .. } = &mut verdict;
    for list in [duplicated, lost, mislabelled, torn] {
        list.sort_unstable();
    }
    verdict
}

impl Verdict {
    /// Counts an operation.
    fn count(&mut self, answer: &Answer) {
        match answer.class() {
            ResultClass::Acknowledged => self.acknowledged += 1,
            ResultClass::NotApplied => self.not_applied += 1,
            ResultClass::InDoubt => self.in_doubt += 1,
        }
        self.dropped += u64::from(*answer == Answer::Dropped);
    }

    /// Compares the result of a mark's operation with the number of times that the mark is found.
    fn check_mark(&mut self, mark: u64, answer: &Answer, times: u64) {
        if times > 1 {
            self.duplicated.push(mark);
        }
        match (answer.class(), times) {
            (ResultClass::Acknowledged, 0) => self.lost.push(mark),
            (ResultClass::Acknowledged, _)
            | (ResultClass::NotApplied | ResultClass::InDoubt, 0) => {}
            (ResultClass::NotApplied, _) => self.mislabelled.push(mark),
            (ResultClass::InDoubt, _) => self.in_doubt_applied += 1,
        }
    }
}

#[cfg(test)]
mod tests;
