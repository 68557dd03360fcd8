//! The results of a run, for people and for programs.

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
    /// How many cases passed.
    pub passed: usize,
    /// For each case, in the order of the files, true if it passed.
    pub passed_cases: Vec<bool>,
    /// Those among them that passed only at their second try, and why not at the first.
    pub second_tries: Vec<Failure>,
    /// The cases that failed and do not stand in the ledger.
    pub failed: Vec<Failure>,
    /// How many cases were skipped, by reason.
    pub skip_reasons: BTreeMap<String, usize>,
    /// Ledger lines that should go, and why.
    pub unneeded_ledger_lines: Vec<String>,
}

/// A case that failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Its file; empty when the suite itself could not be loaded.
    pub file: String,
    /// Its description.
    pub case: String,
    /// What was observed instead of what was expected.
    pub why: String,
}

impl SuiteReport {
    /// A report of nothing yet.
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

    /// How many cases were skipped.
    pub fn skipped(&self) -> usize {
        self.skip_reasons.values().sum()
    }

    /// Cases that passed at their first try.
    pub fn first_tries(&self) -> usize {
        self.passed - self.second_tries.len()
    }

    /// How many cases there were.
    pub fn total(&self) -> usize {
        self.passed + self.failed.len() + self.skipped()
    }

    /// Whether nothing failed and every ledger line was needed.
    pub fn is_ok(&self) -> bool {
        self.failed.is_empty() && self.unneeded_ledger_lines.is_empty()
    }

    /// Everything that is wrong, a line each.
    pub fn complaints(&self) -> Vec<String> {
        let failures = self.failed.iter().map(|failure| self.tell("FAILED", failure));
        let lines =
            self.unneeded_ledger_lines.iter().map(|line| format!("UNNEEDED in the ledger: {line}"));
        failures.chain(lines).collect()
    }

    fn tell(&self, what: &str, failure: &Failure) -> String {
        let Failure { file, case, why } = failure;
        let why = why.replace('\n', "\n    ");
        format!("{what} {} / {file} / {case}\n    {why}", self.suite)
    }

    /// Writes what is wrong, the suite's line, and the reasons of what was skipped.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        for complaint in self.complaints() {
            writeln!(out, "{complaint}")?;
        }
        for failure in &self.second_tries {
            writeln!(out, "{}", self.tell("PASSED AT THE SECOND TRY", failure))?;
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

/// Writes the closing lines, `total: P passed, F failed, S skipped of N` and
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
