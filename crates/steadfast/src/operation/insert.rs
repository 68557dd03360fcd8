//! `insert`.

use bson::{Bson, RawDocument, oid::ObjectId};
use serde::Serialize;
use steadfast_wire::fields;

use super::write::{Settings, Verb, WriteReply, append_whole, head, with_statements};
use crate::{
    collection::Handle,
    command::{Command, Kind},
    error::{Error, Result},
    options::{InsertManyOptions, InsertOneOptions},
};

/// A document as it is sent, and its `_id`.
#[derive(Debug)]
pub(crate) struct Encoded {
    pub(crate) bytes: Vec<u8>,
    pub(crate) id: Bson,
}

/// How many bytes an `_id` of ours takes: its type, its name, and an `ObjectId`.
const GENERATED_ID_BYTES: usize = 1 + 4 + 12;

/// The room that a document's bytes begin with; growing into it in small steps would take longer.
const USUAL_BYTES: usize = 512;

/// Whether a document brought its own `_id`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum IdOrigin {
    #[default]
    Given,
    Generated,
}

/// Encodes a single document, with an `_id` if it has none.
pub(crate) fn encode<T: Serialize>(document: &T) -> Result<Encoded> {
    let mut bytes = Vec::with_capacity(USUAL_BYTES);
    let (id, _) = append(document, &mut bytes, IdOrigin::Given)?;
    Ok(Encoded { bytes, id })
}

/// Appends a document to those in `out`, with an `_id` in front if it has none.
///
/// `expected` is a guess, for which the document before this one is good: if it is right, the
/// document is written in place and not moved.
pub(crate) fn append<T: Serialize>(
    document: &T,
    out: &mut Vec<u8>,
    expected: IdOrigin,
) -> Result<(Bson, IdOrigin)> {
    append_whole(out, |out| {
        let start = out.len();
        let room = match expected {
            IdOrigin::Given => 0,
            IdOrigin::Generated => GENERATED_ID_BYTES,
        };
        out.resize(start + room, 0);
        bson::serialize_to_buffer(document, out)?;
        match id_of(RawDocument::from_bytes(&out[start + room..])?)? {
            Some(id) => {
                out.drain(start..start + room);
                Ok((id, IdOrigin::Given))
            }
            None => {
                let missing = GENERATED_ID_BYTES - room;
                out.splice(start..start, std::iter::repeat_n(0, missing));
                let id = ObjectId::new();
                prepend_id(&mut out[start..], id)?;
                Ok((id.into(), IdOrigin::Generated))
            }
        }
    })
}

/// The `_id` of a document, if it has one.
fn id_of(document: &RawDocument) -> Result<Option<Bson>> {
    // Going over the keys is quicker than `get`, which decodes the values on its way. If there is
    // one, or something is wrong with the document, `get` has the word.
    let mut walk = fields(document);
    if walk.all(|field| field.key != b"_id") && walk.is_done() {
        return Ok(None);
    }
    Ok(document.get("_id")?.map(Bson::try_from).transpose()?)
}

/// Writes the length and an `_id` over the beginning of `document`, whose first bytes are free and
/// followed by a document's length and elements.
fn prepend_id(document: &mut [u8], id: ObjectId) -> Result<()> {
    let length = i32::try_from(document.len())
        .map_err(|_| Error::invalid_argument("a document is longer than BSON can tell"))?;
    document[..4].copy_from_slice(&length.to_le_bytes());
    document[4..9].copy_from_slice(b"\x07_id\0");
    document[9..9 + 12].copy_from_slice(&id.bytes());
    Ok(())
}

/// Inserts one document.
pub(crate) fn one(
    collection: &Handle,
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
    let head = head(collection, Verb::Insert, &settings, Kind::RecognisableWrite)?;
    Ok(with_statements(head, Verb::Insert, document))
}

/// What holds for all documents of an `insert_many`.
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
