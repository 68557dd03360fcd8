//! Findings about the facts of a deployment: what was found, why it matters, and what to do.
//!
//! This module has no I/O: the same facts give the same findings.

mod cluster;
mod connection;
mod features;
mod replica_set;
mod security;
#[cfg(test)]
mod tests;
mod uri;

use super::facts::Facts;

/// Level of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// No action is needed.
    Ok,
    /// Information.
    Note,
    /// It works, with a risk.
    Warning,
    /// It does not work, or only in part.
    Problem,
}

impl Level {
    pub(super) const ALL: [Self; 4] = [Self::Problem, Self::Warning, Self::Note, Self::Ok];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

/// Result of a check.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Finding {
    pub(super) level: Level,
    /// Identifier for programs, which is stable across versions.
    pub(super) code: &'static str,
    pub(super) what: String,
    /// Reason why it matters. Empty for [`Level::Ok`].
    pub(super) why: String,
    /// Advice. Empty if no action is needed.
    pub(super) next: String,
}

/// Collects findings.
#[derive(Debug, Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn ok(&mut self, code: &'static str, what: impl Into<String>) {
        self.add(Level::Ok, code, what, "", "");
    }

    fn note(&mut self, code: &'static str, what: impl Into<String>, why: &str, next: &str) {
        self.add(Level::Note, code, what, why, next);
    }

    fn warning(&mut self, code: &'static str, what: impl Into<String>, why: &str, next: &str) {
        self.add(Level::Warning, code, what, why, next);
    }

    fn problem(&mut self, code: &'static str, what: impl Into<String>, why: &str, next: &str) {
        self.add(Level::Problem, code, what, why, next);
    }

    fn add(
        &mut self,
        level: Level,
        code: &'static str,
        what: impl Into<String>,
        why: &str,
        next: &str,
    ) {
        let (what, why, next) = (what.into(), why.to_owned(), next.to_owned());
        self.0.push(Finding { level, code, what, why, next });
    }
}

/// Returns all findings, problems first.
pub(super) fn diagnose(facts: &Facts) -> Vec<Finding> {
    let mut findings = Findings::default();
    connection::examine(facts, &mut findings);
    if facts.reached().next().is_some() {
        replica_set::examine(facts, &mut findings);
        cluster::examine(facts, &mut findings);
        features::examine(facts, &mut findings);
        security::login(facts, &mut findings);
    }
    security::encryption(facts, &mut findings);
    uri::examine(facts, &mut findings);
    let mut findings = findings.0;
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.level));
    findings
}

/// Joins names with commas.
fn list<T: ToString>(names: impl IntoIterator<Item = T>) -> String {
    let names: Vec<_> = names.into_iter().map(|name| name.to_string()).collect();
    names.join(", ")
}
