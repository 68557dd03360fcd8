//! Documents of the workloads.

use bson::{RawDocumentBuf, oid::ObjectId};
use serde::{Deserialize, Serialize};

use crate::Result;

/// Approximate size of a large document.
const LARGE_BYTES: usize = 2 * 1024 * 1024;

/// A small document: a few fields of common types.
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

/// A book with a number as `_id`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Numbered<'a> {
    #[serde(rename = "_id")]
    pub(crate) id: i32,
    #[serde(flatten)]
    pub(crate) book: &'a Book,
}

/// A large document: one long field.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Scan {
    pub(crate) page: i32,
    pub(crate) text: String,
}

impl Book {
    /// Creates a book of 275 bytes, its `ObjectId` included.
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

    /// Returns a book as raw BSON, without an `_id`.
    pub(crate) fn raw() -> Result<RawDocumentBuf> {
        Ok(bson::serialize_to_raw_document_buf(&Self::new())?)
    }
}

impl Scan {
    pub(crate) fn new() -> Self {
        Self { page: 1, text: "x".repeat(LARGE_BYTES - 64) }
    }
}

/// Prepends an `_id` to a document that has none.
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

/// Returns a book as it is stored, with an `ObjectId`.
pub(crate) fn stored_book() -> Result<RawDocumentBuf> {
    with_id(ObjectId::new(), &Book::raw()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_book_has_275_bytes() {
        assert_eq!(stored_book().unwrap().as_bytes().len(), 275);
    }
}
