//! Error of the testbed, with its reason and advice.

use std::{fmt, io, path::Path};

/// Error of the testbed: the failure, its reason, and advice.
#[derive(Clone)]
pub struct TestbedError {
    what: String,
    why: Option<String>,
    /// Alternatives.
    next: Vec<String>,
}

impl TestbedError {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), why: None, next: Vec::new() }
    }

    pub(crate) fn io(what: impl fmt::Display, error: &io::Error) -> Self {
        Self::new(format!("{what}: {error}"))
    }

    pub(crate) fn at(path: &Path, error: &io::Error) -> Self {
        Self::io(path.display(), error)
    }

    /// Encodes the error as a text for [`from_record`](Self::from_record).
    pub(crate) fn to_record(&self) -> String {
        let why = self.why.clone().unwrap_or_default();
        [&[self.what.clone(), why], self.next.as_slice()].concat().join("\0")
    }

    pub(crate) fn from_record(record: &str) -> Self {
        let mut parts = record.split('\0').map(str::to_owned);
        let what = parts.next().unwrap_or_default();
        let why = parts.next().filter(|why| !why.is_empty());
        Self { what, why, next: parts.collect() }
    }

    /// Adds the reason.
    pub(crate) fn because(mut self, why: impl Into<String>) -> Self {
        self.why = Some(why.into());
        self
    }

    /// Makes the error the reason of another failure.
    pub(crate) fn during(self, what: impl Into<String>) -> Self {
        let why = match self.why {
            Some(why) => format!("{}: {why}", self.what),
            None => self.what,
        };
        Self { what: what.into(), why: Some(why), next: self.next }
    }

    /// Adds advice.
    pub(crate) fn advise(mut self, next: impl Into<String>) -> Self {
        self.next.push(next.into());
        self
    }

    /// Adds the advice to set an environment variable.
    pub(crate) fn or_set(self, variable: &str, what: &str) -> Self {
        self.advise(format!("set {variable} to {what}"))
    }
}

impl fmt::Display for TestbedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        if let Some(why) = &self.why {
            write!(f, "\n  why: {}", why.trim_end().replace('\n', "\n    "))?;
        }
        if !self.next.is_empty() {
            write!(f, "\n  next: {}", self.next.join(", or "))?;
        }
        Ok(())
    }
}

/// Same as `Display`, for the messages of `unwrap`.
impl fmt::Debug for TestbedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for TestbedError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_has_failure_reason_and_advice() {
        let error = TestbedError::new("npm failed")
            .because("no route\nno mirror")
            .during("mongod could not be fetched")
            .advise("check the network")
            .or_set("MONGOD", "a path");
        let text = "mongod could not be fetched\n  why: npm failed: no route\n    no mirror\n  \
                    next: check the network, or set MONGOD to a path";
        assert_eq!(error.to_string(), text);
        assert_eq!(TestbedError::from_record(&error.to_record()).to_string(), text);
        let short = TestbedError::new("no port");
        assert_eq!(TestbedError::from_record(&short.to_record()).to_string(), "no port");
    }
}
