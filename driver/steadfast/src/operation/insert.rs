//! `insert`.

pub(crate) mod raw;

use bson::{Bson, RawDocument, oid::ObjectId};
use serde::Serialize;
use steadfast_wire::fields;

use super::write::{Settings, Verb, WriteReply, append_whole, head, with_statements};
use crate::{
    collection::CollectionHandle,
    command::{Command, CommandKind},
    error::{Error, Result},
    options::{InsertManyOptions, InsertOneOptions},
};

/// Encoded document and its `_id`.
#[derive(Debug)]
pub(crate) struct Encoded {
    pub(crate) bytes: Vec<u8>,
    pub(crate) id: Bson,
}

/// Bytes of a generated `_id`: type, name and `ObjectId`.
const GENERATED_ID_BYTES: usize = 1 + 4 + 12;

/// Initial capacity for a document. Growth in small steps would take longer.
const USUAL_BYTES: usize = 512;

/// `_id` of a document.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Id {
    /// The document contains it.
    Given(Bson),
    /// The driver generates it and sends it as the first field.
    Generated(ObjectId),
}

/// Origin of the `_id` of a document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum IdOrigin {
    Given,
    #[default]
    Generated,
}

impl Id {
    /// Returns the `_id` of the document, or a generated one.
    pub(crate) fn of(document: &RawDocument) -> Result<Self> {
        Ok(id_of(document)?.map_or_else(|| Self::Generated(ObjectId::new()), Self::Given))
    }

    pub(crate) fn origin(&self) -> IdOrigin {
        match self {
            Self::Given(_) => IdOrigin::Given,
            Self::Generated(_) => IdOrigin::Generated,
        }
    }
}

impl From<Id> for Bson {
    fn from(id: Id) -> Self {
        match id {
            Id::Given(id) => id,
            Id::Generated(id) => id.into(),
        }
    }
}

/// Encodes one document. An `_id` is added if it has none.
pub(crate) fn encode<T: Serialize>(document: &T) -> Result<Encoded> {
    let mut bytes = Vec::with_capacity(USUAL_BYTES);
    let id = append(document, &mut bytes, IdOrigin::default())?.into();
    Ok(Encoded { bytes, id })
}

/// Appends a document to `out`. An `_id` is added as the first field if it has none.
///
/// `expected` is a prediction, such as the origin for the document before. If it is right, the
/// document is encoded in place and not moved.
pub(crate) fn append<T: Serialize>(
    document: &T,
    out: &mut Vec<u8>,
    expected: IdOrigin,
) -> Result<Id> {
    append_whole(out, |out| {
        let start = out.len();
        let room = match expected {
            IdOrigin::Given => 0,
            IdOrigin::Generated => GENERATED_ID_BYTES,
        };
        out.resize(start + room, 0);
        bson::serialize_to_buffer(document, out)?;
        let id = Id::of(RawDocument::from_bytes(&out[start + room..])?)?;
        match &id {
            Id::Given(_) => drop(out.drain(start..start + room)),
            Id::Generated(generated) => {
                let missing = GENERATED_ID_BYTES - room;
                out.splice(start..start, std::iter::repeat_n(0, missing));
                let front = front(out.len() - start, *generated)?;
                out[start..start + front.len()].copy_from_slice(&front);
            }
        }
        Ok(id)
    })
}

/// Returns the sent length of an encoded document.
pub(crate) fn length_of(document: &RawDocument, origin: IdOrigin) -> usize {
    let length = document.as_bytes().len();
    match origin {
        IdOrigin::Given => length,
        IdOrigin::Generated => length + GENERATED_ID_BYTES,
    }
}

/// Appends a raw document, with the generated `_id` as its first field if there is one.
pub(crate) fn append_raw(
    document: &RawDocument,
    generated: Option<ObjectId>,
    out: &mut Vec<u8>,
) -> Result<()> {
    let bytes = document.as_bytes();
    match generated {
        None => out.extend_from_slice(bytes),
        Some(id) => {
            out.extend_from_slice(&front(length_of(document, IdOrigin::Generated), id)?);
            out.extend_from_slice(&bytes[4..]);
        }
    }
    Ok(())
}

/// Returns the `_id` of a document, if it has one.
pub(crate) fn id_of(document: &RawDocument) -> Result<Option<Bson>> {
    // Faster than `get`, which also decodes the values. `get` is called if there is an `_id`, or if
    // the document is malformed.
    let mut walk = fields(document);
    if walk.all(|field| field.key != b"_id") && walk.reached_end() {
        return Ok(None);
    }
    Ok(document.get("_id")?.map(Bson::try_from).transpose()?)
}

/// Returns the first bytes of a document of this length with a generated `_id`: the length and the
/// `_id`.
fn front(length: usize, id: ObjectId) -> Result<[u8; 4 + GENERATED_ID_BYTES]> {
    let length = i32::try_from(length)
        .map_err(|_| Error::invalid_argument("the document exceeds the maximum length of BSON"))?;
    let mut front = *b"\0\0\0\0\x07_id\0............";
    front[..4].copy_from_slice(&length.to_le_bytes());
    front[9..].copy_from_slice(&id.bytes());
    Ok(front)
}

/// Returns the command that inserts one document.
pub(crate) fn one(
    collection: &CollectionHandle,
    document: Vec<u8>,
    options: Option<&InsertOneOptions>,
) -> Result<Command> {
    let settings = options.map_or_else(Settings::default, |options| Settings {
        bypass_document_validation: options.bypass_document_validation,
        comment: options.comment.as_ref(),
        write_concern: options.write_concern.as_ref(),
        timeout: options.timeout,
        ..Settings::default()
    });
    let head = head(collection, Verb::Insert, &settings, CommandKind::RetryableWrite)?;
    Ok(with_statements(head, Verb::Insert, document))
}

/// Returns the settings of all documents of an `insert_many`.
pub(crate) fn settings_of_many(options: &InsertManyOptions) -> Settings<'_> {
    Settings {
        ordered: options.ordered.unwrap_or(true),
        bypass_document_validation: options.bypass_document_validation,
        let_vars: None,
        comment: options.comment.as_ref(),
        write_concern: options.write_concern.as_ref(),
        timeout: options.timeout,
        ..Settings::default()
    }
}

/// Reads the reply to [`one`].
pub(crate) fn read_one(body: &RawDocument) -> Result<()> {
    WriteReply::read_single(body).map(drop)
}

#[cfg(test)]
mod tests;
