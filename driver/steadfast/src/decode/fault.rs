//! Errors of deserialization. An error of `bson` is boxed, because every call returns a result and
//! errors are rare.

use std::fmt;

use bson::error::DeserializeError;
use serde::de;

/// Error with the path of its field.
#[derive(Debug)]
pub(super) struct Fault(Box<PathError>);

#[derive(Debug)]
struct PathError {
    error: DeserializeError,
    path: Option<String>,
}

impl Fault {
    #[cold]
    pub(super) fn new(message: impl fmt::Display) -> Self {
        Self(Box::new(PathError { error: de::Error::custom(message), path: None }))
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
        if let Some(inner) = &self.0.path {
            path = path + "." + inner;
        }
        self.0.path = Some(path);
        self
    }

    pub(super) fn into_error(self) -> DeserializeError {
        let PathError { error, path } = *self.0;
        match path {
            Some(path) => bson::error::with_key(error, path),
            None => error,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.error.fmt(f)
    }
}

impl std::error::Error for Fault {}

impl de::Error for Fault {
    #[cold]
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::new(message)
    }
}
