//! The ledger of known exceptions: the cases that do not pass, each with its reason.
//!
//! A failing case must be listed here, and a listed case must fail.

use serde::Deserialize;

use crate::Target;

/// The lines of `ledger.toml`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ledger {
    #[serde(default, rename = "skip")]
    entries: Vec<Entry>,
}

/// One line of the ledger.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The suite's name.
    pub suite: String,
    /// The file in the suite's folder; `*` stands for any text.
    pub file: String,
    /// The case's description; `*` stands for any text.
    pub case: String,
    /// Reason why the case is not expected to pass.
    pub reason: String,
    /// True if the case passes or fails depending on timing.
    #[serde(default)]
    pub may_pass: bool,
    /// Names of the targets that the line applies to. Defaults to all targets of its ledger.
    #[serde(default)]
    pub targets: Vec<String>,
}

impl Ledger {
    /// Returns this repository's ledger for a target: `ledger-embedded.toml` for embedded deployments, `ledger.toml`
    /// for all others, without the lines of other targets.
    pub fn of_this_repository(target: &Target) -> Self {
        let mut ledger = Self::whole(target);
        ledger.entries.retain(|entry| match target {
            Target::Uri(_) => true,
            known => {
                entry.targets.is_empty() || entry.targets.iter().any(|name| name == known.name())
            }
        });
        if matches!(target, Target::Uri(_)) {
            // The deployment may behave like one of these targets.
            let some = ledger.entries.iter_mut().filter(|entry| !entry.targets.is_empty());
            some.for_each(|entry| entry.may_pass = true);
        }
        ledger
    }

    fn whole(target: &Target) -> Self {
        let text = match target.is_embedded() {
            true => include_str!("../ledger-embedded.toml"),
            false => include_str!("../ledger.toml"),
        };
        Self::parse(text).expect("the ledgers are well formed")
    }

    /// Reads a ledger.
    pub fn parse(text: &str) -> Result<Self, String> {
        let ledger: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        match ledger.entries.iter().find(|entry| entry.reason.trim().is_empty()) {
            Some(entry) => Err(format!("no reason is given for {entry}")),
            None => Ok(ledger),
        }
    }

    /// Returns the lines of a suite.
    pub fn of_suite<'a>(&'a self, suite: &'a str) -> impl Iterator<Item = &'a Entry> {
        self.entries.iter().filter(move |entry| entry.suite == suite)
    }

    /// Names of suites in the ledger that are not in `known`.
    pub fn unknown_suites<'a>(&'a self, known: &'a [&str]) -> impl Iterator<Item = &'a str> {
        let named = self.entries.iter().map(|entry| entry.suite.as_str());
        named.filter(|suite| !known.contains(suite))
    }
}

impl Entry {
    /// Returns true if the line names the case.
    pub fn names(&self, file: &str, description: &str) -> bool {
        matches_pattern(&self.file, file) && matches_pattern(&self.case, description)
    }
}

impl std::fmt::Display for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} / {} / {}", self.suite, self.file, self.case)
    }
}

/// Returns true if `text` matches `pattern`, in which `*` stands for any text.
fn matches_pattern(pattern: &str, text: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(text) = text.strip_prefix(head) else { return false };
    let boundaries = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    boundaries.into_iter().any(|at| matches_pattern(rest, &text[at..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn star_matches_any_text() {
        assert!(matches_pattern("legacy/*.json", "legacy/connection-string.json"));
        assert!(matches_pattern("*", ""));
        assert!(matches_pattern("a*b*c", "a-b-b-c"));
        assert!(!matches_pattern("legacy/*.json", "unified/x.json"));
        assert!(!matches_pattern("a*b", "a-b-c"));
        assert!(!matches_pattern("exact", "exactly"));
    }

    #[test]
    fn ledger_line_without_a_reason_is_rejected() {
        let text = "[[skip]]\nsuite = 's'\nfile = 'f'\ncase = 'c'\nreason = ' '";
        assert!(Ledger::parse(text).unwrap_err().contains("s / f / c"));
    }

    #[test]
    fn ledgers_name_existing_suites_and_targets() {
        let known: Vec<_> = crate::suites::ALL.iter().map(|suite| suite.name).collect();
        for target in [Target::Mongod8_2, Target::Embedded] {
            let ledger = Ledger::whole(&target);
            assert_eq!(ledger.unknown_suites(&known).collect::<Vec<_>>(), Vec::<&str>::new());
            for entry in &ledger.entries {
                for name in &entry.targets {
                    let named: Target =
                        name.parse().unwrap_or_else(|error| panic!("{entry}: {error}"));
                    assert_eq!(named.name(), name, "{entry}");
                    assert_eq!(named.is_embedded(), target.is_embedded(), "{entry}");
                }
            }
        }
    }
}
