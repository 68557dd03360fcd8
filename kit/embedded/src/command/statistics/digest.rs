//! Digest of documents for `dbHash`. It is not cryptographic.

use std::sync::Arc;

use bson::{Bson, Document};
use steadfast_query::{Collation, Fault, value};

use super::super::super::store::Collection;

/// FNV-1a with 128 bits, the length of the MD5 digests of a server.
pub(super) struct Digest(u128);

impl Digest {
    pub(super) fn new() -> Self {
        Self(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d)
    }

    pub(super) fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u128::from(*byte)).wrapping_mul(0x0100_0000_0000_0000_0000_013b);
        }
    }

    /// Hexadecimal form.
    pub(super) fn text(&self) -> String {
        format!("{:032x}", self.0)
    }

    /// Digest of a collection: ordered by `_id`, or by insertion if it is capped.
    pub(super) fn of_collection(collection: &Collection) -> Result<String, Fault> {
        let mut documents: Vec<&Arc<Document>> = collection.documents().collect();
        if !collection.is_capped() {
            let simple = Collation::simple();
            let id = |document: &Document| document.get("_id").cloned().unwrap_or(Bson::Null);
            documents.sort_by(|left, right| value::compare(&id(left), &id(right), &simple));
        }
        let mut digest = Self::new();
        for document in documents {
            let bytes = bson::document_to_vec(document)
                .map_err(|error| Fault::bad_value(format!("a document is no BSON: {error}")))?;
            digest.add(&bytes);
        }
        Ok(digest.text())
    }
}
