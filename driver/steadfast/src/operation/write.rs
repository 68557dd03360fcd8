//! Common parts of `insert`, `update` and `delete`: the command without statements, and the reply.

use std::time::Duration;

use bson::{
    Bson, Document, RawDocument, ToStr,
    raw::{CStr, RawBsonRef, cstr},
};
use serde::Deserialize;
use steadfast_core::concern::WriteConcern;
use steadfast_wire::fields;

use super::add_write_concern;
use crate::{
    collection::CollectionHandle,
    command::{Command, CommandKind, Target},
    error::command_error::parse,
    error::{
        Error, ErrorKind, IndexedWriteError, Result, WriteConcernError, WriteFailure,
        command_error::labels,
    },
    sequence::DocumentSequence,
    serde_helpers::number,
};

/// Write command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verb {
    Insert,
    Update,
    Delete,
}

impl Verb {
    pub(crate) const ALL: [Self; 3] = [Self::Insert, Self::Update, Self::Delete];

    /// Returns the name of the command.
    pub(crate) fn name(self) -> &'static CStr {
        match self {
            Self::Insert => cstr!("insert"),
            Self::Update => cstr!("update"),
            Self::Delete => cstr!("delete"),
        }
    }

    /// Returns the field with the statements.
    pub(crate) fn identifier(self) -> &'static CStr {
        match self {
            Self::Insert => cstr!("documents"),
            Self::Update => cstr!("updates"),
            Self::Delete => cstr!("deletes"),
        }
    }
}

/// Settings of all statements of a command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings<'a> {
    pub(crate) ordered: bool,
    pub(crate) bypass_document_validation: Option<bool>,
    pub(crate) let_vars: Option<&'a Document>,
    pub(crate) comment: Option<&'a Bson>,
    pub(crate) write_concern: Option<&'a WriteConcern>,
    pub(crate) timeout: Option<Duration>,
    /// `true` if the write concern of the transaction replaces that of the command.
    pub(crate) in_transaction: bool,
}

impl Default for Settings<'_> {
    fn default() -> Self {
        Self {
            ordered: true,
            bypass_document_validation: None,
            let_vars: None,
            comment: None,
            write_concern: None,
            timeout: None,
            in_transaction: false,
        }
    }
}

/// Returns the command without its statements.
pub(crate) fn head(
    collection: &CollectionHandle,
    verb: Verb,
    settings: &Settings<'_>,
    kind: CommandKind,
) -> Result<Command> {
    let name = collection.checked_name()?;
    let mut command = Command::new(verb.name(), name, &collection.database, Target::Write, kind);
    command.field(cstr!("ordered"), settings.ordered);
    // Servers reject these fields in the other commands, where they have no meaning.
    if let Some(bypass) = settings.bypass_document_validation.filter(|_| verb != Verb::Delete) {
        command.field(cstr!("bypassDocumentValidation"), bypass);
    }
    if let Some(variables) = settings.let_vars.filter(|_| verb != Verb::Insert) {
        command.field(cstr!("let"), bson::to_raw_document(variables)?);
    }
    if let Some(comment) = settings.comment {
        command.field(cstr!("comment"), bson::to_raw_value(comment.clone())?);
    }
    if !settings.in_transaction {
        add_write_concern(&mut command, collection.write_concern(settings.write_concern))?;
    }
    command.limit(settings.timeout, collection.timeout);
    Ok(command)
}

/// Adds the encoded statements to the command.
pub(crate) fn with_statements(mut command: Command, verb: Verb, documents: Vec<u8>) -> Command {
    let identifier = verb.identifier();
    command.sequence = Some(DocumentSequence { identifier, documents, ns_info: None });
    command
}

/// Appends the output of `write`. After an error nothing is appended.
pub(crate) fn append_whole<T>(
    out: &mut Vec<u8>,
    write: impl FnOnce(&mut Vec<u8>) -> Result<T>,
) -> Result<T> {
    let start = out.len();
    write(out).inspect_err(|_| out.truncate(start))
}

/// Reply to an `insert`, `update` or `delete`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct WriteReply {
    #[serde(deserialize_with = "number::optional")]
    n: Option<u64>,
    #[serde(deserialize_with = "number::optional")]
    n_modified: Option<u64>,
    upserted: Vec<Upserted>,
    pub(crate) write_errors: Vec<IndexedWriteError>,
    pub(crate) write_concern_error: Option<WriteConcernError>,
}

/// Document inserted by an upsert.
#[derive(Debug, Deserialize)]
pub(crate) struct Upserted {
    pub(crate) index: usize,
    #[serde(rename = "_id")]
    pub(crate) id: Bson,
}

impl WriteReply {
    /// Reads the reply to `count` statements. An index beyond them is an error.
    pub(crate) fn read(body: &RawDocument, count: usize) -> Result<Self> {
        let reply = match Self::plain(body) {
            Some(reply) => reply,
            None => parse(body)?,
        };
        if reply.n.is_none() {
            return Err(Error::invalid_response("the reply to a write has no field n"));
        }
        let indexes = reply.write_errors.iter().map(|error| error.index);
        let beyond = indexes
            .chain(reply.upserted.iter().map(|upserted| upserted.index))
            .find(|index| *index >= count);
        if let Some(index) = beyond {
            return Err(Error::invalid_response(format!(
                "the reply to {count} writes contains an item with the index {index}"
            )));
        }
        if reply.n < Some(reply.upserted.len() as u64) {
            return Err(Error::invalid_response(
                "the reply to a write has more upserts than writes",
            ));
        }
        Ok(reply)
    }

    /// Reads a reply without errors and upserts, as most are, without decoding other fields.
    /// Otherwise returns `None`.
    fn plain(body: &RawDocument) -> Option<Self> {
        let mut reply = Self::default();
        for field in fields(body) {
            let count = || field.as_i32().and_then(|count| u64::try_from(count).ok());
            match field.key {
                b"n" => reply.n = Some(count()?),
                b"nModified" => reply.n_modified = Some(count()?),
                b"upserted" | b"writeErrors" | b"writeConcernError" => return None,
                _ => {}
            }
        }
        Some(reply)
    }

    /// Reads the reply to a single statement. A write error or write concern error is returned.
    pub(crate) fn read_single(body: &RawDocument) -> Result<Self> {
        let mut reply = Self::read(body, 1)?;
        let failure = match (reply.write_errors.pop(), reply.write_concern_error.take()) {
            (Some(error), _) => WriteFailure::WriteError(error.into()),
            (None, Some(error)) => WriteFailure::WriteConcernError(error),
            (None, None) => return Ok(reply),
        };
        // If there are both, the write concern error is in the whole reply.
        Err(with_reply(Error::new(ErrorKind::Write(failure)), body))
    }

    /// Returns the number of documents inserted, matched or deleted.
    pub(crate) fn count(&self) -> u64 {
        self.n.unwrap_or_default()
    }

    /// Returns the number of documents that matched an update.
    pub(crate) fn matched_count(&self) -> u64 {
        self.count() - self.upserted.len() as u64
    }

    pub(crate) fn modified_count(&self) -> u64 {
        self.n_modified.unwrap_or_default()
    }

    pub(crate) fn take_upserted(&mut self) -> Vec<Upserted> {
        std::mem::take(&mut self.upserted)
    }
}

/// Adds the labels of the reply and the reply itself to the error.
pub(crate) fn with_reply(mut error: Error, body: &RawDocument) -> Error {
    for label in labels(body) {
        error.add_label(label);
    }
    error.with_response(body.to_owned())
}

/// Kind of modification: an update or a replacement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Update,
    Replacement,
}

impl Change {
    /// Returns an error for a replacement as an update, and vice versa.
    ///
    /// The CRUD specification: only the first field is checked; the server checks the others.
    pub(crate) fn check(self, change: RawBsonRef<'_>) -> Result<()> {
        let document = match (self, change) {
            (_, RawBsonRef::Document(document)) => document,
            (Self::Update, RawBsonRef::Array(_)) => return Ok(()),
            (_, other) => {
                return Err(Error::invalid_argument(format!(
                    "{} must be a document, not a {:?}",
                    self.name(),
                    other.element_type()
                )));
            }
        };
        let first = document.iter_elements().next().transpose()?;
        let first = first.as_ref().map(|element| element.key().to_str());
        match (self, first) {
            (Self::Update, None) => {
                Err(Error::invalid_argument("the update is empty; add an operator such as $set"))
            }
            (Self::Update, Some(key)) if !key.starts_with('$') => {
                Err(Error::invalid_argument(format!(
                    "an update must consist of operators such as $set, but begins with {key:?}; use replace_one for a replacement"
                )))
            }
            (Self::Replacement, Some(key)) if key.starts_with('$') => {
                Err(Error::invalid_argument(format!(
                    "a replacement must not contain operators, but begins with {key:?}; use update_one for operators"
                )))
            }
            (Self::Update | Self::Replacement, _) => Ok(()),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Update => "an update",
            Self::Replacement => "a replacement",
        }
    }
}

#[cfg(test)]
mod tests;
