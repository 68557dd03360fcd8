//! Small parts of test files.

use std::{fmt, ops::Deref};

use bson::{Bson, Document};
use serde::{Deserialize, Deserializer};

/// An array of at least one item.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "Vec<T>", bound(deserialize = "T: Deserialize<'de>"))]
pub(crate) struct NonEmpty<T>(Vec<T>);

impl<T> TryFrom<Vec<T>> for NonEmpty<T> {
    type Error = &'static str;

    fn try_from(items: Vec<T>) -> Result<Self, Self::Error> {
        if items.is_empty() { Err("an array has no items") } else { Ok(Self(items)) }
    }
}

impl<T> Deref for NonEmpty<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

/// A document of at least one field.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "Document")]
pub(crate) struct NonEmptyDocument(Document);

impl TryFrom<Document> for NonEmptyDocument {
    type Error = &'static str;

    fn try_from(document: Document) -> Result<Self, Self::Error> {
        if document.is_empty() { Err("a document has no fields") } else { Ok(Self(document)) }
    }
}

impl Deref for NonEmptyDocument {
    type Target = Document;

    fn deref(&self) -> &Document {
        &self.0
    }
}

/// An empty document.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EmptyDocument {}

/// A version of a server or of the format: one to three numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Version(pub(crate) u32, pub(crate) u32, pub(crate) u32);

impl TryFrom<String> for Version {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let bad = || format!("\"{text}\" is not a version");
        let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        let parts: Vec<u32> = text
            .split('.')
            .map(|part| part.parse().ok().filter(|_| digits(part)))
            .collect::<Option<_>>()
            .ok_or_else(bad)?;
        match *parts {
            [major] => Ok(Self(major, 0, 0)),
            [major, minor] => Ok(Self(major, minor, 0)),
            [major, minor, patch] => Ok(Self(major, minor, patch)),
            _ => Err(bad()),
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(major, minor, patch) = self;
        write!(f, "{major}.{minor}")?;
        if *patch > 0 { write!(f, ".{patch}") } else { Ok(()) }
    }
}

/// Deserializes an expected value, so that an expected `null` differs from no expectation.
pub(crate) fn present<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Bson>, D::Error> {
    Bson::deserialize(deserializer).map(Some)
}
