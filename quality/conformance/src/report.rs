//! Results of a run, as text and as JSON.

use std::{
    collections::BTreeMap,
    io::{self, Write},
};

use crate::Target;

/// The results of one suite.
#[derive(Clone, Debug)]
pub struct SuiteReport {
    /// The suite's name.
    pub suite: &'static str,
    /// Number of cases that passed.
    pub passed: usize,
    /// For each case, in the order of the files, true if it passed.
    pub passed_cases: Vec<bool>,
    /// Cases that passed at the second try, with the reason why the first failed.
    pub second_tries: Vec<CaseFailure>,
    /// Cases that failed and are not listed in the ledger.
    pub failed: Vec<CaseFailure>,
    /// Number of skipped cases by reason.
    pub skip_reasons: BTreeMap<String, usize>,
    /// Ledger lines that are not needed, with the reason.
    pub unneeded_ledger_lines: Vec<String>,
}

/// A case that failed.
#[derive(Clone, Debug)]
pub struct CaseFailure {
    /// Its file; empty if the suite could not be loaded.
    pub file: String,
    /// Its description.
    pub case: String,
    /// Difference from the expected behaviour.
    pub why: String,
}

impl SuiteReport {
    /// Creates an empty report.
    pub fn new(suite: &'static str) -> Self {
        Self {
            suite,
            passed: 0,
            passed_cases: Vec::new(),
            second_tries: Vec::new(),
            failed: Vec::new(),
            skip_reasons: BTreeMap::new(),
            unneeded_ledger_lines: Vec::new(),
        }
    }

    /// Counts a skipped case.
    pub fn skip(&mut self, reason: String) {
        *self.skip_reasons.entry(reason).or_default() += 1;
    }

    /// Number of skipped cases.
    pub fn skipped(&self) -> usize {
        self.skip_reasons.values().sum()
    }

    /// Number of cases that passed at the first try.
    pub fn first_tries(&self) -> usize {
        self.passed - self.second_tries.len()
    }

    /// Number of cases.
    pub fn total(&self) -> usize {
        self.passed + self.failed.len() + self.skipped()
    }

    /// Returns true if no case failed and every ledger line was needed.
    pub fn is_ok(&self) -> bool {
        self.failed.is_empty() && self.unneeded_ledger_lines.is_empty()
    }

    /// Failed cases and ledger lines that are not needed, one text each.
    pub fn complaints(&self) -> Vec<String> {
        let failures = self.failed.iter().map(|failure| self.line("FAILED", failure));
        let lines =
            self.unneeded_ledger_lines.iter().map(|line| format!("UNNEEDED in the ledger: {line}"));
        failures.chain(lines).collect()
    }

    fn line(&self, label: &str, failure: &CaseFailure) -> String {
        let CaseFailure { file, case, why } = failure;
        let why = why.replace('\n', "\n    ");
        format!("{label} {} / {file} / {case}\n    {why}", self.suite)
    }

    /// Writes the complaints, the suite's line, and the reasons of skipped cases.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        for complaint in self.complaints() {
            writeln!(out, "{complaint}")?;
        }
        for failure in &self.second_tries {
            writeln!(out, "{}", self.line("PASSED AT THE SECOND TRY", failure))?;
        }
        let (failed, skipped) = (self.failed.len(), self.skipped());
        writeln!(
            out,
            "{}: {} passed, {failed} failed, {skipped} skipped of {}",
            self.suite,
            self.passed,
            self.total()
        )?;
        if !self.second_tries.is_empty() {
            writeln!(out, "    {} of {} passed at the first try", self.first_tries(), self.passed)?;
        }
        for (reason, count) in &self.skip_reasons {
            writeln!(out, "    {count} skipped: {reason}")?;
        }
        Ok(())
    }
}

/// Writes the totals, `total: P passed, F failed, S skipped of N` and
/// `at the first try: T of P passed`.
pub fn write_total(reports: &[SuiteReport], out: &mut dyn Write) -> io::Result<()> {
    let sum = |count: fn(&SuiteReport) -> usize| reports.iter().map(count).sum::<usize>();
    writeln!(
        out,
        "total: {} passed, {} failed, {} skipped of {}",
        sum(|report| report.passed),
        sum(|report| report.failed.len()),
        sum(SuiteReport::skipped),
        sum(SuiteReport::total)
    )?;
    let (first_tries, passed) = (sum(SuiteReport::first_tries), sum(|report| report.passed));
    writeln!(out, "at the first try: {first_tries} of {passed} passed")
}

/// The reports of a target as JSON objects
/// `{"target", "suite", "passed", "passed_at_first_try", "failed", "skipped", "total"}`.
pub fn to_json(target: &Target, reports: &[SuiteReport]) -> Vec<serde_json::Value> {
    let row = |report: &SuiteReport| {
        serde_json::json!({
            "target": target.name(),
            "suite": report.suite,
            "passed": report.passed,
            "passed_at_first_try": report.first_tries(),
            "failed": report.failed.len(),
            "skipped": report.skipped(),
            "total": report.total(),
        })
    };
    reports.iter().map(row).collect()
}
