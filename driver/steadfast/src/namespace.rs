//! Names of databases and collections.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Namespace of a collection: database and collection name, written `database.collection`.
/// See [namespaces](https://www.mongodb.com/docs/manual/reference/limits/#naming-restrictions).
///
/// ```
/// use steadfast::Namespace;
///
/// assert_eq!(Namespace::new("library", "books").to_string(), "library.books");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Namespace {
    /// Name of the database.
    pub db: String,
    /// Name of the collection. It may contain dots.
    pub coll: String,
}

impl Namespace {
    /// Creates the namespace of a collection.
    ///
    /// ```
    /// use steadfast::Namespace;
    ///
    /// assert_eq!(Namespace::new("library", "books").to_string(), "library.books");
    /// ```
    pub fn new(db: impl Into<String>, coll: impl Into<String>) -> Self {
        Self { db: db.into(), coll: coll.into() }
    }

    /// Checks the names of the database and the collection.
    ///
    /// Every action checks them before it sends anything.
    ///
    /// # Errors
    ///
    /// An [invalid argument](Error::is_invalid_argument) if a name is empty or has a character that no
    /// server accepts.
    ///
    /// ```
    /// use steadfast::Namespace;
    ///
    /// assert!(Namespace::new("app", "messages.new").validate().is_ok());
    /// assert!(Namespace::new("my app", "messages").validate().is_err());
    /// ```
    pub fn validate(&self) -> Result<()> {
        check_database_name(&self.db)?;
        check_collection_name(&self.coll)
    }

    /// Parses `database.collection`. Dots after the first belong to the name of the collection.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (db, coll) = text.split_once('.')?;
        Some(Self::new(db, coll))
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.db, self.coll)
    }
}

impl FromStr for Namespace {
    type Err = Error;

    /// Parses `database.collection`. Dots after the first belong to the name of the collection.
    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text).filter(|namespace| !namespace.coll.is_empty()).ok_or_else(|| {
            Error::invalid_argument(format!(
                "{text:?} is not a namespace; expected \"database.collection\""
            ))
        })
    }
}

impl Serialize for Namespace {
    fn serialize<S: serde::Serializer>(
        &self,
        serializer: S,
    ) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Namespace {
    fn deserialize<D: serde::Deserializer<'de>>(
        deserializer: D,
    ) -> std::result::Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text)
            .ok_or_else(|| serde::de::Error::custom("expected \"database.collection\""))
    }
}

/// Returns an error for a name that servers reject, or that a NUL byte would truncate on the wire.
pub(crate) fn check_database_name(name: &str) -> Result<()> {
    let reason = if name.is_empty() {
        "it is empty"
    } else if name.contains('\0') {
        "it contains a NUL byte"
    } else if name != "$external" && name.contains(['.', '/', '\\', ' ', '"', '$']) {
        "it contains one of . / \\ \" $ or a space"
    } else {
        return Ok(());
    };
    Err(Error::invalid_argument(format!("invalid database name {name:?}: {reason}")))
}

pub(crate) fn check_collection_name(name: &str) -> Result<()> {
    if name.is_empty() {
        return Err(Error::invalid_argument("invalid collection name: it is empty"));
    }
    if name.contains('\0') {
        return Err(Error::invalid_argument(format!(
            "invalid collection name {name:?}: it contains a NUL byte"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_namespace_parses() {
        assert_eq!("a.b.c".parse::<Namespace>().unwrap(), Namespace::new("a", "b.c"));
        for text in ["", "a", "a."] {
            assert!(text.parse::<Namespace>().unwrap_err().is_invalid_argument(), "{text}");
        }
    }
}
