//! A batch of documents as it came: one piece of memory, read as it is asked for.

use std::ops::Range;

use bson::{RawBsonRef, RawDocument};
use bytes::Bytes;
use steadfast_wire::{field, fields};

use crate::{
    Namespace,
    error::{Error, Result},
};

/// The type of an element that is a document.
const DOCUMENT: u8 = 0x03;
/// The type of an element that is an array.
const ARRAY: u8 = 0x04;

/// The documents of a batch: the one that it is at, and those that have not been asked for yet.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// The array's elements, without the byte that ends it.
    elements: Bytes,
    /// Where the document is that it is at; empty if it is at none.
    current: Range<usize>,
    /// Where the next element begins.
    next: usize,
}

/// What a reply says of a cursor.
#[derive(Debug)]
pub(super) struct CursorReply {
    /// Zero if the server has nothing more.
    pub(super) id: i64,
    pub(super) namespace: Namespace,
    pub(super) batch: Batch,
    /// Of a change stream: the token of the place that the server has read on to.
    pub(super) token_after: Option<Bytes>,
}

impl CursorReply {
    /// Reads the reply of a command that makes a cursor, or of `getMore`, without copying it.
    pub(super) fn read(reply: &Bytes) -> Result<Self> {
        let body = RawDocument::from_bytes(reply).map_err(malformed)?;
        let cursor = match body.get("cursor").map_err(malformed)? {
            Some(RawBsonRef::Document(cursor)) => cursor,
            Some(_) => return Err(unexpected("its cursor is not a document")),
            None => return Err(unexpected("it has no cursor")),
        };
        let (mut id, mut namespace, mut batch, mut token_after) = (None, None, None, None);
        for element in cursor.iter_elements() {
            let element = element.map_err(malformed)?;
            match element.key().as_str() {
                "id" => id = Some(element.value().map_err(malformed)?),
                "ns" => namespace = Some(element.value().map_err(malformed)?),
                "firstBatch" | "nextBatch" => batch = Some(element.value().map_err(malformed)?),
                "postBatchResumeToken" => {
                    token_after = Some(element.value().map_err(malformed)?);
                }
                _ => {}
            }
        }
        let id = match id {
            Some(RawBsonRef::Int64(id)) => id,
            Some(RawBsonRef::Int32(id)) => i64::from(id),
            _ => return Err(unexpected("its cursor has no id")),
        };
        let namespace = match namespace {
            Some(RawBsonRef::String(text)) => Namespace::parse(text),
            _ => None,
        };
        let Some(RawBsonRef::Array(batch)) = batch else {
            return Err(unexpected("its cursor has no batch"));
        };
        let token_after = match token_after {
            Some(RawBsonRef::Document(token)) => Some(reply.slice_ref(token.as_bytes())),
            Some(_) => return Err(unexpected("its resume token is not a document")),
            None => None,
        };
        Ok(Self {
            id,
            namespace: namespace.ok_or_else(|| unexpected("its cursor has no namespace"))?,
            batch: Batch::new(reply.slice_ref(batch.as_bytes())),
            token_after,
        })
    }
}

/// Whether the server has nothing more of the cursor that this is a reply of.
pub(super) fn is_last(reply: &Bytes) -> bool {
    CursorReply::read(reply).is_ok_and(|reply| reply.id == 0)
}

impl Batch {
    /// The documents of a reply whose cursor ends with it. None if the server keeps the cursor, or if
    /// the reply is not as expected: [`CursorReply::read`] then says what is wrong with it.
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

    /// `array` is all of a BSON array: its length, its elements, and the byte that ends it.
    fn new(array: Bytes) -> Self {
        let end = array.len().saturating_sub(1);
        let begin = end.min(4);
        Self { elements: array.slice(begin..end), ..Self::default() }
    }

    /// Whether no document is left to be asked for.
    pub(super) fn is_empty(&self) -> bool {
        self.next == self.elements.len()
    }

    /// How many bytes the documents take.
    pub(super) fn size(&self) -> usize {
        self.elements.len()
    }

    /// How many of them have been given out.
    pub(super) fn bytes_read(&self) -> usize {
        self.next
    }

    /// Goes on to the next document, and says whether there is one.
    pub(super) fn advance(&mut self) -> Result<bool> {
        self.current = 0..0;
        let Some((kind, rest)) = self.elements[self.next..].split_first() else { return Ok(false) };
        if *kind != DOCUMENT {
            return Err(unexpected("its batch has something in it that is not a document"));
        }
        let key = rest.iter().position(|byte| *byte == 0);
        let key = key.ok_or_else(|| unexpected("its batch ends within a key"))?;
        let begin = self.next + 1 + key + 1;
        let length = rest.get(key + 1..).and_then(|document| document.first_chunk());
        let end = length
            .and_then(|length| usize::try_from(i32::from_le_bytes(*length)).ok())
            .and_then(|length| begin.checked_add(length))
            .filter(|end| *end <= self.elements.len())
            .ok_or_else(|| unexpected("its batch ends within a document"))?;
        RawDocument::from_bytes(&self.elements[begin..end]).map_err(malformed)?;
        (self.current, self.next) = (begin..end, end);
        Ok(true)
    }

    /// The document that it is at.
    pub(super) fn current(&self) -> Option<&RawDocument> {
        RawDocument::from_bytes(&self.elements[self.current.clone()]).ok()
    }

    /// The same, as a part of the memory that the whole batch is in.
    pub(super) fn into_current(self) -> Option<Bytes> {
        (!self.current.is_empty()).then(|| self.elements.slice(self.current))
    }

    /// Is at no document any more.
    pub(super) fn leave_current(&mut self) {
        self.current = 0..0;
    }
}

fn unexpected(what: &str) -> Error {
    Error::invalid_response(format!("a reply that should have a cursor: {what}"))
}

fn malformed(error: impl std::fmt::Display) -> Error {
    Error::invalid_response(format!("a malformed reply: {error}"))
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
    fn only_a_reply_whose_cursor_is_exhausted_is_complete() {
        let of = |id: i64| {
            let cursor = doc! { "firstBatch": [{ "x": 1 }], "id": id, "ns": "db.a" };
            Batch::complete(&bytes(&doc! { "cursor": cursor, "ok": 1 }))
        };
        let mut found = of(0).unwrap();
        assert!(found.advance().unwrap());
        assert_eq!(*found.into_current().unwrap(), *rawdoc! { "x": 1 }.as_bytes());
        assert!(of(7).is_none());
        assert!(Batch::complete(&bytes(&doc! { "cursor": 1, "ok": 1 })).is_none());
        assert!(Batch::complete(&bytes(&doc! { "ok": 1 })).is_none());
    }

    #[test]
    fn a_reply_is_read_without_copying() {
        let all = reply(vec![doc! { "x": 1 }, doc! {}, doc! { "x": [1, 2, { "y": "z" }] }]);
        let CursorReply { id, namespace, mut batch, token_after } =
            CursorReply::read(&all).unwrap();
        assert!(token_after.is_none());
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
    fn an_empty_batch_is_empty() {
        let mut batch = CursorReply::read(&reply(vec![])).unwrap().batch;
        assert!(batch.is_empty());
        assert!(!batch.advance().unwrap() && batch.into_current().is_none());
    }

    #[test]
    fn replies_of_another_form_are_invalid() {
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
    fn a_batch_of_something_else_is_invalid() {
        let all = bytes(&doc! { "cursor": { "firstBatch": [1], "id": 0_i64, "ns": "a.b" } });
        let mut batch = CursorReply::read(&all).unwrap().batch;
        assert!(matches!(&*batch.advance().unwrap_err().kind, ErrorKind::InvalidResponse { .. }));
    }

    #[test]
    fn a_document_that_lies_about_its_length_is_invalid() {
        // pitfall 42
        let document = rawdoc! { "x": 1 };
        for length in [-1, 0, 4, 1000, i32::MAX] {
            let mut elements = vec![3, b'0', 0];
            elements.extend_from_slice(document.as_bytes());
            elements[3..7].copy_from_slice(&length.to_le_bytes());
            let mut batch = Batch { elements: Bytes::from(elements), ..Batch::default() };
            assert!(batch.advance().is_err() && batch.current().is_none(), "{length}");
        }
        for cut in [vec![3], vec![3, b'0'], vec![3, b'0', 0], vec![3, b'0', 0, 5, 0]] {
            let mut batch = Batch { elements: Bytes::from(cut), ..Batch::default() };
            assert!(batch.advance().is_err());
        }
    }
}
