//! What a server reports of writes that failed, one by one or as a batch.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
};

use bson::{Bson, Document};
use serde::{Deserialize, Serialize};

use super::PartialBulkWriteResult;

/// A write that was applied, but is not yet as durable as its write concern asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WriteConcernError {
    /// The number of the error.
    #[serde(default)]
    pub code: i32,
    /// Its name.
    #[serde(rename = "codeName", default)]
    pub code_name: String,
    /// What the server says of it.
    #[serde(rename = "errmsg", default)]
    pub message: String,
    /// More about it, such as the write concern that was not met.
    #[serde(rename = "errInfo", default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Document>,
}

/// A single write that the server refused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WriteError {
    /// The number of the error.
    pub code: i32,
    /// Its name; servers leave it out at times.
    #[serde(rename = "codeName", default)]
    pub code_name: Option<String>,
    /// What the server says of it.
    #[serde(rename = "errmsg", default)]
    pub message: String,
    /// More about it, such as which rule of a validator failed.
    #[serde(rename = "errInfo", default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Document>,
    /// Of a duplicate key, the index that has it: its fields, each with its direction. Servers before
    /// 4.2 tell it in the message only.
    #[serde(rename = "keyPattern", default, skip_serializing_if = "Option::is_none")]
    pub key_pattern: Option<Document>,
    /// Of a duplicate key, the key that was to be added. Strings in it are no longer themselves if the
    /// index has a collation.
    #[serde(rename = "keyValue", default, skip_serializing_if = "Option::is_none")]
    pub key_value: Option<Document>,
}

/// A write of a batch that the server refused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct IndexedWriteError {
    /// Which write of the batch, as the caller counts them.
    #[serde(default)]
    pub index: usize,
    /// The number of the error.
    pub code: i32,
    /// Its name; servers leave it out at times.
    #[serde(rename = "codeName", default)]
    pub code_name: Option<String>,
    /// What the server says of it.
    #[serde(rename = "errmsg", default)]
    pub message: String,
    /// More about it, such as which rule of a validator failed.
    #[serde(rename = "errInfo", default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Document>,
    /// Of a duplicate key, the index that has it: its fields, each with its direction. Servers before
    /// 4.2 tell it in the message only.
    #[serde(rename = "keyPattern", default, skip_serializing_if = "Option::is_none")]
    pub key_pattern: Option<Document>,
    /// Of a duplicate key, the key that was to be added. Strings in it are no longer themselves if the
    /// index has a collation.
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
    /// Returns the error as that of the write with this index of a batch.
    pub fn at(self, index: usize) -> IndexedWriteError {
        let Self { code, code_name, message, details, key_pattern, key_value } = self;
        IndexedWriteError { index, code, code_name, message, details, key_pattern, key_value }
    }
}

/// Why a single write failed.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum WriteFailure {
    /// It was applied, but is not yet as durable as asked.
    WriteConcernError(WriteConcernError),
    /// It was refused.
    WriteError(WriteError),
}

impl WriteFailure {
    /// The number of the error.
    pub fn code(&self) -> i32 {
        match self {
            Self::WriteConcernError(error) => error.code,
            Self::WriteError(error) => error.code,
        }
    }
}

/// What became of an `insert_many` that failed in part.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct InsertManyError {
    /// The inserts that were refused.
    pub write_errors: Option<Vec<IndexedWriteError>>,
    /// The inserts were applied, but are not yet as durable as asked.
    pub write_concern_error: Option<WriteConcernError>,
    /// The ids of the documents that were inserted, by their index.
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

/// What became of a `bulk_write` that failed in part.
///
/// If the whole command failed (the network broke, say), that error is the
/// [`source`](std::error::Error::source) of the error that holds this.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct BulkWriteError {
    /// Every batch's write concern error, in order; none hides another.
    pub write_concern_errors: Vec<WriteConcernError>,
    /// The models that were refused, by their index.
    pub write_errors: BTreeMap<usize, WriteError>,
    /// What was done; there only if something was.
    pub partial_result: Option<PartialBulkWriteResult>,
}

impl BulkWriteError {
    pub(super) fn code(&self) -> Option<i32> {
        self.write_errors
            .values()
            .map(|error| error.code)
            .chain(self.write_concern_errors.iter().map(|error| error.code))
            .next()
    }
}

impl fmt::Display for WriteConcernError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { code, code_name, message, .. } = self;
        write!(
            f,
            "applied, but the write concern was not met: error {code} ({code_name}): {message}"
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
        write!(f, "{} inserted, {} refused", self.inserted_ids.len(), errors.len())?;
        if let Some(first) = errors.first() {
            write!(f, "; the first: {first}")?;
        }
        if let Some(error) = &self.write_concern_error {
            write!(f, "; {error}")?;
        }
        Ok(())
    }
}

impl fmt::Display for BulkWriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} refused", self.write_errors.len())?;
        if let Some((index, first)) = self.write_errors.first_key_value() {
            write!(f, "; the first: write {index}: {first}")?;
        }
        if let Some(first) = self.write_concern_errors.first() {
            write!(f, "; {} write concern error(s): {first}", self.write_concern_errors.len())?;
        }
        Ok(())
    }
}
