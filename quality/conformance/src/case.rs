//! What a suite is made of: named cases, each of which runs once and has a result.

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
    /// The file it comes from, relative to the suite's folder, with forward slashes.
    pub file: String,
    /// The description in the file; for files of one case, whatever the file says of itself.
    pub description: String,
    body: Box<dyn FnOnce() -> CaseResult + Send>,
}

/// What became of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CaseResult {
    /// Everything that the case expects was observed.
    Pass,
    /// It was, but only at the second try: what was observed at the first, in words. Only of cases
    /// that depend on how fast things go.
    PassAtSecondTry(String),
    /// Something else was observed: what, in words.
    Fail(String),
    /// The case is not meant for this deployment, or asks for a part of the format that the driver
    /// does not have at all: which of its requirements is not met. What the driver merely gets
    /// wrong is not skipped here; it stands in the ledger.
    Skip(String),
}

impl Case {
    /// A case whose body returns a [`CaseResult`] or a `Result<(), String>`.
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

    /// Runs the case. A panic in its body is a failure of this case alone.
    pub fn run(self) -> CaseResult {
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(self.body))
            .unwrap_or_else(|panic| CaseResult::Fail(format!("panicked: {}", panic_text(&*panic))))
    }
}

impl CaseResult {
    /// The result of running something that depends on how fast things go: once more, perhaps with more
    /// time, if it fails.
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
