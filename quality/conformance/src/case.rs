//! Test suites, their cases, and the result of a case.

use std::fmt;

use crate::{Context, LoadError};

/// A test suite, named by PyMongo's folder name.
#[derive(Clone, Copy, Debug)]
pub struct Suite {
    /// PyMongo's folder name, such as `connection_string`.
    pub name: &'static str,
    /// Reads the suite's files and returns its cases in the order of the files.
    pub load: fn(&Context) -> Result<Vec<Case>, LoadError>,
}

/// One test of a suite.
pub struct Case {
    /// Path of the case's file relative to the suite's folder, with forward slashes.
    pub file: String,
    /// Description of the case in the file, or of the file if it has one case.
    pub description: String,
    body: Box<dyn FnOnce() -> CaseResult + Send>,
}

/// Result of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CaseResult {
    /// The driver did everything that the case expects.
    Pass,
    /// The case failed at the first try, for this reason, and passed at the second. Only cases that measure time have
    /// a second try.
    PassAtSecondTry(String),
    /// The case failed, for this reason.
    Fail(String),
    /// The deployment does not meet this requirement, or the driver does not implement this feature. Known failures of
    /// implemented features are not skipped but listed in the ledger.
    Skip(String),
}

impl Case {
    /// Creates a case whose body returns a [`CaseResult`] or a `Result<(), String>`.
    ///
    /// ```
    /// # use conformance::Case;
    /// let case = Case::new("valid-auth.json", "User info", || {
    ///     if 1 + 1 == 2 { Ok(()) } else { Err("arithmetic is broken".to_owned()) }
    /// });
    /// ```
    pub fn new<R: Into<CaseResult>>(
        file: impl Into<String>,
        description: impl Into<String>,
        body: impl FnOnce() -> R + Send + 'static,
    ) -> Self {
        Self {
            file: file.into(),
            description: description.into(),
            body: Box::new(move || body().into()),
        }
    }

    /// Runs the case. A panic in its body fails this case only.
    pub fn run(self) -> CaseResult {
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(self.body))
            .unwrap_or_else(|panic| CaseResult::Fail(format!("panicked: {}", panic_text(&*panic))))
    }
}

impl CaseResult {
    /// Runs a case that measures time: `first`, and `second` if that fails.
    pub fn of_two_tries(first: impl FnOnce() -> Self, second: impl FnOnce() -> Self) -> Self {
        let first = match first() {
            Self::Fail(why) => why,
            other => return other,
        };
        match second() {
            Self::Pass => Self::PassAtSecondTry(first),
            Self::Fail(again) => Self::Fail(format!("{again}\nat the first of two tries: {first}")),
            other => other,
        }
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} / {}", self.file, self.description)
    }
}

impl From<Result<(), String>> for CaseResult {
    fn from(result: Result<(), String>) -> Self {
        match result {
            Ok(()) => Self::Pass,
            Err(why) => Self::Fail(why),
        }
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a message")
}
