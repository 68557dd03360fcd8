//! Write errors and write concern errors, single or of a bulk write.

use std::{collections::HashMap, fmt};

use bson::{Bson, Document};
use serde::{Deserialize, Serialize};

use super::PartialBulkWriteResult;
use crate::write_results::BulkWriteResult;

/// Write concern error: the write was applied, but its write concern is not satisfied.
/// See [write concern](https://www.mongodb.com/docs/manual/reference/write-concern/).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WriteConcernError {
    /// Error code (`code`).
    #[serde(default)]
    pub code: i32,
    /// Name of the error code (`codeName`).
    #[serde(rename = "codeName", default)]
    pub code_name: String,
    /// Error message (`errmsg`).
    #[serde(rename = "errmsg", default)]
    pub message: String,
    /// Details (`errInfo`), such as the write concern.
    #[serde(rename = "errInfo", default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Document>,
}

/// Write error: the server did not apply the write.
/// See the [error codes](https://www.mongodb.com/docs/manual/reference/error-codes/).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WriteError {
    /// Error code (`code`).
    pub code: i32,
    /// Name of the error code (`codeName`), if sent.
    #[serde(rename = "codeName", default)]
    pub code_name: Option<String>,
    /// Error message (`errmsg`).
    #[serde(rename = "errmsg", default)]
    pub message: String,
    /// Details (`errInfo`), such as the violated rule of a schema validation.
    #[serde(rename = "errInfo", default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Document>,
    /// Key pattern of the violated unique index (`keyPattern`). Sent by MongoDB 4.2 or later.
    #[serde(rename = "keyPattern", default, skip_serializing_if = "Option::is_none")]
    pub key_pattern: Option<Document>,
    /// Duplicate key (`keyValue`). Strings are collation keys if the index has a collation.
    #[serde(rename = "keyValue", default, skip_serializing_if = "Option::is_none")]
    pub key_value: Option<Document>,
}

/// Write error in a bulk write.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct IndexedWriteError {
    /// Index of the document or model in the call (`index`).
    #[serde(default)]
    pub index: usize,
    /// Error code (`code`).
    pub code: i32,
    /// Name of the error code (`codeName`), if sent.
    #[serde(rename = "codeName", default)]
    pub code_name: Option<String>,
    /// Error message (`errmsg`).
    #[serde(rename = "errmsg", default)]
    pub message: String,
    /// Details (`errInfo`), such as the violated rule of a schema validation.
    #[serde(rename = "errInfo", default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Document>,
    /// Key pattern of the violated unique index (`keyPattern`). Sent by MongoDB 4.2 or later.
    #[serde(rename = "keyPattern", default, skip_serializing_if = "Option::is_none")]
    pub key_pattern: Option<Document>,
    /// Duplicate key (`keyValue`). Strings are collation keys if the index has a collation.
    #[serde(rename = "keyValue", default, skip_serializing_if = "Option::is_none")]
    pub key_value: Option<Document>,
}

impl From<IndexedWriteError> for WriteError {
    fn from(error: IndexedWriteError) -> Self {
        let IndexedWriteError {
            index: _,
            code,
            code_name,
            message,
            details,
            key_pattern,
            key_value,
        } = error;
        Self { code, code_name, message, details, key_pattern, key_value }
    }
}

impl WriteError {
    /// Converts into the write error of the write with this index of a bulk write.
    pub fn at(self, index: usize) -> IndexedWriteError {
        let Self { code, code_name, message, details, key_pattern, key_value } = self;
        IndexedWriteError { index, code, code_name, message, details, key_pattern, key_value }
    }
}

/// Failure of a single write.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum WriteFailure {
    /// The write was applied, but its write concern is not satisfied.
    WriteConcernError(WriteConcernError),
    /// The write was not applied.
    WriteError(WriteError),
}

impl WriteFailure {
    /// Returns the error code (`code`).
    pub fn code(&self) -> i32 {
        match self {
            Self::WriteConcernError(error) => error.code,
            Self::WriteError(error) => error.code,
        }
    }
}

/// Partial failure of [`insert_many`](crate::Collection::insert_many).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct InsertManyError {
    /// Write errors, with the indexes of their documents.
    pub write_errors: Option<Vec<IndexedWriteError>>,
    /// Write concern error: the inserts were applied, but their write concern is not satisfied.
    pub write_concern_error: Option<WriteConcernError>,
    /// `_id`s of the inserted documents, by their index in the call.
    #[serde(skip)]
    pub inserted_ids: HashMap<usize, Bson>,
}

impl InsertManyError {
    pub(super) fn code(&self) -> Option<i32> {
        let first = self.write_errors.as_ref().and_then(|errors| errors.first());
        first
            .map(|error| error.code)
            .or_else(|| self.write_concern_error.as_ref().map(|error| error.code))
    }
}

/// Partial failure of a [`bulk_write`](crate::Collection::bulk_write).
///
/// If a whole command failed, for example with a network error, that error is the
/// [`source`](std::error::Error::source) of the [`Error`](super::Error) that contains this.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct BulkWriteError {
    /// Write concern errors of all commands, in order.
    pub write_concern_errors: Vec<WriteConcernError>,
    /// Write errors, by the index of the model.
    pub write_errors: HashMap<usize, WriteError>,
    /// Result of the executed models. `None` if there are none.
    pub partial_result: Option<PartialBulkWriteResult>,
    /// Result of the executed models of a [collection's bulk write](crate::Collection::bulk_write),
    /// with the `_id`s. `None` for a client's bulk write, and if there are none.
    pub partial_collection_result: Option<BulkWriteResult>,
}

impl BulkWriteError {
    pub(super) fn code(&self) -> Option<i32> {
        let write_error = self.first_write_error().map(|(_, error)| error.code);
        write_error.or_else(|| self.write_concern_errors.first().map(|error| error.code))
    }

    /// Returns the write error with the lowest index.
    fn first_write_error(&self) -> Option<(usize, &WriteError)> {
        let errors = self.write_errors.iter().map(|(index, error)| (*index, error));
        errors.min_by_key(|(index, _)| *index)
    }
}

impl fmt::Display for WriteConcernError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { code, code_name, message, .. } = self;
        write!(
            f,
            "applied, but the write concern is not satisfied: error {code} ({code_name}): {message}"
        )
    }
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error {}: {}", self.code, self.message)
    }
}

impl fmt::Display for IndexedWriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "write {}: error {}: {}", self.index, self.code, self.message)
    }
}

impl fmt::Display for WriteFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WriteConcernError(error) => error.fmt(f),
            Self::WriteError(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for InsertManyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let errors = self.write_errors.as_deref().unwrap_or_default();
        write!(f, "{} inserted, {} write errors", self.inserted_ids.len(), errors.len())?;
        if let Some(first) = errors.first() {
            write!(f, "; first: {first}")?;
        }
        if let Some(error) = &self.write_concern_error {
            write!(f, "; {error}")?;
        }
        Ok(())
    }
}

impl fmt::Display for BulkWriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} write errors", self.write_errors.len())?;
        if let Some((index, first)) = self.first_write_error() {
            write!(f, "; first: write {index}: {first}")?;
        }
        if let Some(first) = self.write_concern_errors.first() {
            write!(
                f,
                "; {} write concern errors, first: {first}",
                self.write_concern_errors.len()
            )?;
        }
        Ok(())
    }
}
