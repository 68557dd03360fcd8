//! Why the testbed could not provide something, in words that say what to do about it.

use std::{fmt, io, path::Path};

/// The testbed could not provide what it was asked for: what, why, and what to do next.
#[derive(Clone)]
pub struct TestbedError {
    what: String,
    why: Option<String>,
    /// Each would do.
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

    /// The parts of the error in one text, for [`from_record`](Self::from_record).
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

    /// The same error, with its reason.
    pub(crate) fn because(mut self, why: impl Into<String>) -> Self {
        self.why = Some(why.into());
        self
    }

    /// The same error, as the reason why something else could not be had.
    pub(crate) fn during(self, what: impl Into<String>) -> Self {
        let why = match self.why {
            Some(why) => format!("{}: {why}", self.what),
            None => self.what,
        };
        Self { what: what.into(), why: Some(why), next: self.next }
    }

    /// The same error, with something that would help.
    pub(crate) fn advise(mut self, next: impl Into<String>) -> Self {
        self.next.push(next.into());
        self
    }

    /// The same error, with advice on what to set instead.
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

/// Written like the error itself: it is read in the messages of `unwrap` more than anywhere else.
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
    fn an_error_says_what_and_why_and_what_would_help() {
        let error = TestbedError::new("tea cannot be had")
            .because("no water\nno leaves")
            .during("breakfast is off")
            .advise("buy some")
            .or_set("COFFEE", "1");
        let said = "breakfast is off\n  why: tea cannot be had: no water\n    no leaves\n  \
                    next: buy some, or set COFFEE to 1";
        assert_eq!(error.to_string(), said);
        assert_eq!(TestbedError::from_record(&error.to_record()).to_string(), said);
        let short = TestbedError::new("no tea");
        assert_eq!(TestbedError::from_record(&short.to_record()).to_string(), "no tea");
    }
}
