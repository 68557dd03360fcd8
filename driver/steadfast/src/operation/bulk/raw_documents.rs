//! Raw documents, which are sent without a copy and kept until then.

use std::{borrow::Borrow, fmt, marker::PhantomData};

use bson::RawDocument;
use serde::Serialize;

use crate::operation::insert::raw;

/// Owned or borrowed raw documents of any type.
pub(super) trait RawDocumentList: Send + Sync {
    /// Passes the document at `position` to `reader`. A document that is no longer raw is skipped.
    fn read(&self, position: usize, reader: &mut dyn FnMut(&RawDocument));
}

/// Raw documents of type `T`.
pub(super) struct RawDocuments<T, D> {
    documents: Vec<D>,
    /// Lower bound of the number of documents.
    count: usize,
    of: PhantomData<fn(&T)>,
}

impl<T: Serialize, D: Borrow<T>> RawDocuments<T, D> {
    /// Creates an empty list. The first document allocates `count` elements.
    pub(super) fn with_capacity(count: usize) -> Self {
        Self { documents: Vec::new(), count, of: PhantomData }
    }

    pub(super) fn push(&mut self, document: D) {
        if self.documents.is_empty() {
            self.documents.reserve_exact(self.count);
        }
        self.documents.push(document);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.documents.iter().map(Borrow::borrow)
    }
}

impl<T: Serialize, D: Borrow<T> + Send + Sync> RawDocumentList for RawDocuments<T, D> {
    fn read(&self, position: usize, reader: &mut dyn FnMut(&RawDocument)) {
        raw::read(self.documents[position].borrow(), reader);
    }
}

impl fmt::Debug for dyn RawDocumentList + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("raw documents")
    }
}
