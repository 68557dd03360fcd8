//! Why the testbed could not provide something, in words that say what to do about it.

use std::{fmt, io, path::Path};

/// The testbed could not provide what a test asked for.
#[derive(Clone)]
pub struct TestbedError(String);

impl TestbedError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    pub(crate) fn io(what: impl fmt::Display, error: &io::Error) -> Self {
        Self(format!("{what}: {error}"))
    }

    pub(crate) fn at(path: &Path, error: &io::Error) -> Self {
        Self::io(path.display(), error)
    }

    /// The same error, with what was being attempted.
    pub(crate) fn during(self, what: &str) -> Self {
        Self(format!("{what}: {}", self.0))
    }

    /// The same error, with advice on what to set instead.
    pub(crate) fn or_set(self, variable: &str, what: &str) -> Self {
        Self(format!("{}\n(or set {variable} to {what})", self.0))
    }
}

impl fmt::Display for TestbedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Written like the error itself: it is read in the messages of `unwrap` more than anywhere else.
impl fmt::Debug for TestbedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TestbedError {}
