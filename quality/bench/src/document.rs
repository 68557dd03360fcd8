//! The documents that are written and read.

use bson::{RawDocumentBuf, oid::ObjectId};
use serde::{Deserialize, Serialize};

use crate::Result;

/// How long a large document is, nearly.
const LARGE_BYTES: usize = 2 * 1024 * 1024;

/// A small document: a few fields of the usual types.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Book {
    pub(crate) title: String,
    pub(crate) author: String,
    pub(crate) isbn: String,
    pub(crate) pages: i32,
    pub(crate) price: f64,
    pub(crate) sold: i64,
    pub(crate) available: bool,
    pub(crate) tags: Vec<String>,
    pub(crate) summary: String,
}

/// A book whose `_id` is a number.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Numbered<'a> {
    #[serde(rename = "_id")]
    pub(crate) id: i32,
    #[serde(flatten)]
    pub(crate) book: &'a Book,
}

/// A document with one field that is long.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Scan {
    pub(crate) page: i32,
    pub(crate) text: String,
}

impl Book {
    /// One that is 275 bytes long once it has an `ObjectId`.
    pub(crate) fn new() -> Self {
        Self {
            title: "The Left Hand of Darkness".to_owned(),
            author: "Ursula K. Le Guin".to_owned(),
            isbn: "978-0-441-47812-5".to_owned(),
            pages: 304,
            price: 12.99,
            sold: 1_000_000,
            available: true,
            tags: vec!["novel".to_owned(), "winter".to_owned()],
            summary: "An envoy is sent to a world of ice, and stays there...".to_owned(),
        }
    }

    /// The same as bytes, without an `_id`.
    pub(crate) fn raw() -> Result<RawDocumentBuf> {
        Ok(bson::serialize_to_raw_document_buf(&Self::new())?)
    }
}

impl Scan {
    pub(crate) fn new() -> Self {
        Self { page: 1, text: "x".repeat(LARGE_BYTES - 64) }
    }
}

/// A document, which has no `_id`, with one in front.
pub(crate) fn with_id(
    id: impl Into<bson::RawBson>,
    document: &RawDocumentBuf,
) -> Result<RawDocumentBuf> {
    let mut whole = RawDocumentBuf::new();
    whole.append(bson::raw::cstr!("_id"), id.into());
    for element in document.iter() {
        let (key, value) = element?;
        whole.append(key, value);
    }
    Ok(whole)
}

/// A book as it is stored, with an `ObjectId`.
pub(crate) fn stored_book() -> Result<RawDocumentBuf> {
    with_id(ObjectId::new(), &Book::raw()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_document_has_the_size_that_the_tables_say() {
        assert_eq!(stored_book().unwrap().as_bytes().len(), 275);
    }
}
