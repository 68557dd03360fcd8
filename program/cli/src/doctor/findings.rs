//! What follows from the facts: a list of findings, each with what it is, why it matters and what to do.
//!
//! No I/O here: the same facts give the same findings.

mod abilities;
mod cluster;
mod reach;
mod safety;
mod set;
#[cfg(test)]
mod tests;
mod uri;

use super::facts::Facts;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// As it should be.
    Ok,
    /// Good to know.
    Note,
    /// It works, and will hurt some day.
    Warning,
    /// It does not work, or less than it should.
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

/// Something that was found.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Finding {
    pub(super) level: Level,
    /// What programs know it by; it stays the same from version to version.
    pub(super) code: &'static str,
    pub(super) what: String,
    /// Why it matters; empty if it is as it should be.
    pub(super) why: String,
    /// What to do; empty if nothing needs to be done.
    pub(super) next: String,
}

/// The findings of one diagnosis, as they are made.
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

/// The diagnosis: what weighs most comes first.
pub(super) fn diagnose(facts: &Facts) -> Vec<Finding> {
    let mut findings = Findings::default();
    reach::examine(facts, &mut findings);
    if facts.reached().next().is_some() {
        set::examine(facts, &mut findings);
        cluster::examine(facts, &mut findings);
        abilities::examine(facts, &mut findings);
        safety::login(facts, &mut findings);
    }
    safety::encryption(facts, &mut findings);
    uri::examine(facts, &mut findings);
    let mut findings = findings.0;
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.level));
    findings
}

/// Names with commas between them.
fn list<T: ToString>(names: impl IntoIterator<Item = T>) -> String {
    let names: Vec<_> = names.into_iter().map(|name| name.to_string()).collect();
    names.join(", ")
}
