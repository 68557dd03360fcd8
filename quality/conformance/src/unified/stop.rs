//! Why a test does not go on.

/// The end of a test before its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// Something is not as the test expects, or the test is not as the format demands.
    Failed(String),
    /// The test asks for something that the driver does not have: what, in words.
    Unsupported(String),
}

/// A part of a test.
pub(super) type Step<T> = Result<T, Stop>;

impl Stop {
    pub(super) fn failed(why: impl Into<String>) -> Self {
        Self::Failed(why.into())
    }

    pub(super) fn needs(what: impl std::fmt::Display) -> Self {
        Self::Unsupported(format!("needs {what}"))
    }

    /// The same, said of a part of the test.
    pub(super) fn within(self, part: impl std::fmt::Display) -> Self {
        match self {
            Self::Failed(why) => Self::Failed(format!("{part}: {why}")),
            Self::Unsupported(what) => Self::Unsupported(what),
        }
    }
}

impl From<String> for Stop {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

impl From<&str> for Stop {
    fn from(why: &str) -> Self {
        Self::Failed(why.to_owned())
    }
}

impl From<steadfast::error::Error> for Stop {
    fn from(error: steadfast::error::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<bson::error::Error> for Stop {
    fn from(error: bson::error::Error) -> Self {
        Self::Failed(error.to_string())
    }
}
