//! A batch of documents as it came: one piece of memory, read as it is asked for.

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

/// The documents of a batch that have not been asked for yet.
#[derive(Clone, Debug, Default)]
pub(super) struct Batch {
    /// What is left of the array's elements, without the byte that ends it.
    elements: Bytes,
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
        Self { elements: array.slice(array.len().min(4)..end.max(array.len().min(4))) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.elements.is_empty()
    }

    /// The next document: a part of the memory that the whole batch is in.
    pub(super) fn next(&mut self) -> Result<Option<Bytes>> {
        let Some((kind, rest)) = self.elements.split_first() else { return Ok(None) };
        if *kind != DOCUMENT {
            return Err(unexpected("its batch has something in it that is not a document"));
        }
        let key = rest.iter().position(|byte| *byte == 0);
        let begin = 1 + key.ok_or_else(|| unexpected("its batch ends within a key"))? + 1;
        let document = self.elements.get(begin..).unwrap_or_default();
        let length = document.first_chunk::<4>().copied().map(i32::from_le_bytes);
        let end = length
            .and_then(|length| usize::try_from(length).ok())
            .and_then(|length| begin.checked_add(length))
            .filter(|end| *end <= self.elements.len())
            .ok_or_else(|| unexpected("its batch ends within a document"))?;
        let document = self.elements.slice(begin..end);
        RawDocument::from_bytes(&document).map_err(malformed)?;
        self.elements = self.elements.slice(end..);
        Ok(Some(document))
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
        let found = of(0).unwrap().next().unwrap().unwrap();
        assert_eq!(*found, *rawdoc! { "x": 1 }.as_bytes());
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
        while let Some(document) = batch.next().unwrap() {
            assert!(within.contains(&(document.as_ptr() as usize)));
            found.push(Document::try_from(RawDocument::from_bytes(&document).unwrap()).unwrap());
        }
        assert_eq!(found, [doc! { "x": 1 }, doc! {}, doc! { "x": [1, 2, { "y": "z" }] }]);
        assert!(batch.is_empty() && batch.next().unwrap().is_none());
    }

    #[test]
    fn an_empty_batch_is_empty() {
        let mut batch = CursorReply::read(&reply(vec![])).unwrap().batch;
        assert!(batch.is_empty());
        assert!(batch.next().unwrap().is_none());
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
        assert!(matches!(&*batch.next().unwrap_err().kind, ErrorKind::InvalidResponse { .. }));
    }

    #[test]
    fn a_document_that_lies_about_its_length_is_invalid() {
        // pitfall 42
        let document = rawdoc! { "x": 1 };
        for length in [-1, 0, 4, 1000, i32::MAX] {
            let mut elements = vec![3, b'0', 0];
            elements.extend_from_slice(document.as_bytes());
            elements[3..7].copy_from_slice(&length.to_le_bytes());
            let mut batch = Batch { elements: Bytes::from(elements) };
            assert!(batch.next().is_err(), "{length}");
        }
        for cut in [vec![3], vec![3, b'0'], vec![3, b'0', 0], vec![3, b'0', 0, 5, 0]] {
            assert!(Batch { elements: Bytes::from(cut) }.next().is_err());
        }
    }
}
