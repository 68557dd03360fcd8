//! Errors that end a test.

/// Error that ends a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TestError {
    /// An expectation is not met, or the test violates the format.
    Failed(String),
    /// The test requires this feature, which the driver does not implement.
    Unsupported(String),
}

/// Result of a part of a test.
pub(super) type TestResult<T> = Result<T, TestError>;

impl TestError {
    pub(super) fn failed(why: impl Into<String>) -> Self {
        Self::Failed(why.into())
    }

    pub(super) fn needs(what: impl std::fmt::Display) -> Self {
        Self::Unsupported(format!("needs {what}"))
    }

    /// Adds the part of the test to the message.
    pub(super) fn within(self, part: impl std::fmt::Display) -> Self {
        match self {
            Self::Failed(why) => Self::Failed(format!("{part}: {why}")),
            Self::Unsupported(what) => Self::Unsupported(what),
        }
    }
}

impl From<String> for TestError {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

impl From<&str> for TestError {
    fn from(why: &str) -> Self {
        Self::Failed(why.to_owned())
    }
}

impl From<steadfast::error::Error> for TestError {
    fn from(error: steadfast::error::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<bson::error::Error> for TestError {
    fn from(error: bson::error::Error) -> Self {
        Self::Failed(error.to_string())
    }
}
