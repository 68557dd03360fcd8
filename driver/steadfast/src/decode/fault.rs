//! Errors of deserialization. An error of `bson` is boxed, because every call returns a result and
//! errors are rare.

use std::fmt;

use serde::de;

/// Error with the path of its field.
#[derive(Debug)]
pub(super) struct Fault(Box<bson::error::Error>);

impl Fault {
    #[cold]
    pub(super) fn new(message: impl fmt::Display) -> Self {
        Self(Box::new(de::Error::custom(message)))
    }

    /// Creates the error for bytes that are not valid BSON.
    #[cold]
    pub(super) fn malformed() -> Self {
        Self::new("malformed document")
    }

    /// Adds the key of the enclosing field or element.
    #[cold]
    pub(super) fn within(mut self, key: &[u8]) -> Self {
        let mut path = String::from_utf8_lossy(key).into_owned();
        if let Some(inner) = &self.0.key {
            path = path + "." + inner;
        }
        self.0.key = Some(path);
        self
    }

    pub(super) fn into_error(self) -> bson::error::Error {
        *self.0
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Fault {}

impl de::Error for Fault {
    #[cold]
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::new(message)
    }
}
