//! Batches of documents, read from the bytes of the reply.

use std::ops::Range;

use bson::{RawBsonRef, RawDocument, ToStr};
use bytes::Bytes;
use steadfast_wire::{field, fields};

use crate::{
    Namespace,
    error::{Error, Result},
};

/// BSON element type of a document.
const DOCUMENT: u8 = 0x03;
/// BSON element type of an array.
const ARRAY: u8 = 0x04;

/// Documents of a batch: the current one and those that follow.
#[derive(Debug, Default)]
pub(super) struct CursorBatch {
    /// Elements of the BSON array, without its terminating byte.
    elements: Bytes,
    /// Range of the current document. Empty if there is none.
    current: Range<usize>,
    /// Offset of the next element.
    next: usize,
}

/// Field `cursor` of a reply.
#[derive(Debug)]
pub(super) struct CursorReply {
    /// Cursor id. Zero if the server has closed the cursor.
    pub(super) id: i64,
    pub(super) namespace: Namespace,
    pub(super) batch: CursorBatch,
    /// `postBatchResumeToken` of a change stream.
    pub(super) post_batch_token: Option<Bytes>,
}

impl CursorReply {
    /// Reads the reply of a command that returns a cursor, or of a `getMore`, without copying it.
    pub(super) fn read(reply: &Bytes) -> Result<Self> {
        let body = RawDocument::from_bytes(reply).map_err(malformed)?;
        let cursor = match body.get("cursor").map_err(malformed)? {
            Some(RawBsonRef::Document(cursor)) => cursor,
            Some(_) => return Err(unexpected("cursor is not a document")),
            None => return Err(unexpected("cursor is missing")),
        };
        let (mut id, mut namespace, mut batch, mut post_batch_token) = (None, None, None, None);
        for element in cursor.iter_elements() {
            let element = element.map_err(malformed)?;
            match element.key().to_str() {
                "id" => id = Some(element.value().map_err(malformed)?),
                "ns" => namespace = Some(element.value().map_err(malformed)?),
                "firstBatch" | "nextBatch" => batch = Some(element.value().map_err(malformed)?),
                "postBatchResumeToken" => {
                    post_batch_token = Some(element.value().map_err(malformed)?);
                }
                _ => {}
            }
        }
        let id = match id {
            Some(RawBsonRef::Int64(id)) => id,
            Some(RawBsonRef::Int32(id)) => i64::from(id),
            _ => return Err(unexpected("cursor has no id")),
        };
        let namespace = match namespace {
            Some(RawBsonRef::String(text)) => Namespace::parse(text),
            _ => None,
        };
        let Some(RawBsonRef::Array(batch)) = batch else {
            return Err(unexpected("cursor has no batch"));
        };
        let post_batch_token = match post_batch_token {
            Some(RawBsonRef::Document(token)) => Some(reply.slice_ref(token.as_bytes())),
            Some(_) => return Err(unexpected("postBatchResumeToken is not a document")),
            None => None,
        };
        Ok(Self {
            id,
            namespace: namespace.ok_or_else(|| unexpected("cursor has no ns"))?,
            batch: CursorBatch::new(reply.slice_ref(batch.as_bytes())),
            post_batch_token,
        })
    }
}

/// Returns `true` if the server has closed the cursor with this reply.
pub(super) fn is_last(reply: &Bytes) -> bool {
    CursorReply::read(reply).is_ok_and(|reply| reply.id == 0)
}

impl CursorBatch {
    /// Returns the documents of a reply with which the cursor ends. `None` if the cursor stays
    /// open, or if the reply is malformed; [`CursorReply::read`] returns that error.
    pub(super) fn complete(reply: &Bytes) -> Option<Self> {
        let cursor = field(RawDocument::from_bytes(reply).ok()?, "cursor")?.as_document()?;
        let (mut id, mut batch) = (None, None);
        for field in fields(cursor) {
            match field.key {
                b"id" => id = field.as_i64(),
                b"firstBatch" if field.element_type == ARRAY => batch = Some(field.value),
                _ => {}
            }
        }
        let batch = batch.filter(|_| id == Some(0))?;
        Some(Self::new(reply.slice_ref(batch)))
    }

    /// Creates a batch from a BSON array: length, elements and terminating byte.
    fn new(array: Bytes) -> Self {
        let end = array.len().saturating_sub(1);
        let begin = end.min(4);
        Self { elements: array.slice(begin..end), ..Self::default() }
    }

    /// Returns `true` if no document follows.
    pub(super) fn is_empty(&self) -> bool {
        self.next == self.elements.len()
    }

    /// Returns the size of the documents in bytes.
    pub(super) fn size(&self) -> usize {
        self.elements.len()
    }

    /// Returns the number of bytes read.
    pub(super) fn bytes_read(&self) -> usize {
        self.next
    }

    /// Advances to the next document. Returns `false` at the end of the batch.
    pub(super) fn advance(&mut self) -> Result<bool> {
        self.current = 0..0;
        let Some((kind, rest)) = self.elements[self.next..].split_first() else { return Ok(false) };
        if *kind != DOCUMENT {
            return Err(unexpected("batch contains a value that is not a document"));
        }
        let key = rest.iter().position(|byte| *byte == 0);
        let key = key.ok_or_else(|| unexpected("batch ends within a key"))?;
        let begin = self.next + 1 + key + 1;
        let length = rest.get(key + 1..).and_then(|document| document.first_chunk());
        let end = length
            .and_then(|length| usize::try_from(i32::from_le_bytes(*length)).ok())
            .and_then(|length| begin.checked_add(length))
            .filter(|end| *end <= self.elements.len())
            .ok_or_else(|| unexpected("batch ends within a document"))?;
        RawDocument::from_bytes(&self.elements[begin..end]).map_err(malformed)?;
        (self.current, self.next) = (begin..end, end);
        Ok(true)
    }

    /// Returns the current document.
    pub(super) fn current(&self) -> Option<&RawDocument> {
        RawDocument::from_bytes(&self.elements[self.current.clone()]).ok()
    }

    /// Returns the current document as a slice of the reply.
    pub(super) fn into_current(self) -> Option<Bytes> {
        (!self.current.is_empty()).then(|| self.elements.slice(self.current))
    }

    /// Clears the current document.
    pub(super) fn clear_current(&mut self) {
        self.current = 0..0;
    }
}

fn unexpected(what: &str) -> Error {
    Error::invalid_response(format!("expected a reply with a cursor: {what}"))
}

fn malformed(error: impl std::fmt::Display) -> Error {
    Error::invalid_response(format!("malformed reply: {error}"))
}

#[cfg(test)]
mod tests {
    use bson::{Document, doc, rawdoc};

    use super::*;
    use crate::error::ErrorKind;

    fn bytes(document: &Document) -> Bytes {
        Bytes::from(bson::serialize_to_vec(document).unwrap())
    }

    fn reply(batch: Vec<Document>) -> Bytes {
        bytes(&doc! { "cursor": { "firstBatch": batch, "id": 7_i64, "ns": "db.a.b" }, "ok": 1 })
    }

    #[test]
    fn only_replies_of_exhausted_cursors_are_complete() {
        let of = |id: i64| {
            let cursor = doc! { "firstBatch": [{ "x": 1 }], "id": id, "ns": "db.a" };
            CursorBatch::complete(&bytes(&doc! { "cursor": cursor, "ok": 1 }))
        };
        let mut found = of(0).unwrap();
        assert!(found.advance().unwrap());
        assert_eq!(*found.into_current().unwrap(), *rawdoc! { "x": 1 }.as_bytes());
        assert!(of(7).is_none());
        assert!(CursorBatch::complete(&bytes(&doc! { "cursor": 1, "ok": 1 })).is_none());
        assert!(CursorBatch::complete(&bytes(&doc! { "ok": 1 })).is_none());
    }

    #[test]
    fn replies_are_read_without_copying() {
        let all = reply(vec![doc! { "x": 1 }, doc! {}, doc! { "x": [1, 2, { "y": "z" }] }]);
        let CursorReply { id, namespace, mut batch, post_batch_token } =
            CursorReply::read(&all).unwrap();
        assert!(post_batch_token.is_none());
        assert_eq!((id, namespace), (7, Namespace::new("db", "a.b")));
        let within = all.as_ptr() as usize..all.as_ptr() as usize + all.len();
        let mut found = Vec::new();
        assert!(batch.current().is_none());
        while batch.advance().unwrap() {
            let document = batch.current().unwrap();
            assert!(within.contains(&(document.as_bytes().as_ptr() as usize)));
            found.push(Document::try_from(document).unwrap());
        }
        assert_eq!(found, [doc! { "x": 1 }, doc! {}, doc! { "x": [1, 2, { "y": "z" }] }]);
        assert!(batch.is_empty() && batch.current().is_none() && !batch.advance().unwrap());
    }

    #[test]
    fn empty_batch_has_no_documents() {
        let mut batch = CursorReply::read(&reply(vec![])).unwrap().batch;
        assert!(batch.is_empty());
        assert!(!batch.advance().unwrap() && batch.into_current().is_none());
    }

    #[test]
    fn malformed_cursor_replies_are_invalid() {
        for reply in [
            doc! { "ok": 1 },
            doc! { "cursor": 1 },
            doc! { "cursor": { "id": 0_i64, "ns": "a.b" } },
            doc! { "cursor": { "id": 0_i64, "firstBatch": [] } },
            doc! { "cursor": { "id": 0_i64, "firstBatch": [], "ns": "no-dot" } },
            doc! { "cursor": { "ns": "a.b", "firstBatch": [] } },
            doc! { "cursor": { "id": "x", "ns": "a.b", "firstBatch": [] } },
            doc! { "cursor": { "id": 0_i64, "ns": "a.b", "firstBatch": {} } },
            doc! { "cursor": {
                "id": 0_i64, "ns": "a.b", "firstBatch": [], "postBatchResumeToken": 1,
            } },
        ] {
            let error = CursorReply::read(&bytes(&reply)).unwrap_err();
            assert!(matches!(&*error.kind, ErrorKind::InvalidResponse { .. }), "{reply}: {error}");
        }
    }

    #[test]
    fn batch_element_that_is_not_a_document_is_invalid() {
        let all = bytes(&doc! { "cursor": { "firstBatch": [1], "id": 0_i64, "ns": "a.b" } });
        let mut batch = CursorReply::read(&all).unwrap().batch;
        assert!(matches!(&*batch.advance().unwrap_err().kind, ErrorKind::InvalidResponse { .. }));
    }

    #[test]
    fn document_with_wrong_length_is_invalid() {
        // pitfall 42
        let document = rawdoc! { "x": 1 };
        for length in [-1, 0, 4, 1000, i32::MAX] {
            let mut elements = vec![3, b'0', 0];
            elements.extend_from_slice(document.as_bytes());
            elements[3..7].copy_from_slice(&length.to_le_bytes());
            let mut batch =
                CursorBatch { elements: Bytes::from(elements), ..CursorBatch::default() };
            assert!(batch.advance().is_err() && batch.current().is_none(), "{length}");
        }
        for cut in [vec![3], vec![3, b'0'], vec![3, b'0', 0], vec![3, b'0', 0, 5, 0]] {
            let mut batch = CursorBatch { elements: Bytes::from(cut), ..CursorBatch::default() };
            assert!(batch.advance().is_err());
        }
    }
}
