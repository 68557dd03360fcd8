//! Documents that are bytes already. They are not copied to be sent, but held until that is done.

use std::{borrow::Borrow, fmt, marker::PhantomData};

use bson::RawDocument;
use serde::Serialize;

use crate::operation::insert::raw;

/// Raw documents of any type, which the caller gave or lent.
pub(super) trait Held: Send + Sync {
    /// Shows the document at `position`, if it is still what it was.
    fn read(&self, position: usize, reader: &mut dyn FnMut(&RawDocument));
}

/// Documents of a collection of `T`s.
pub(super) struct Documents<T, D> {
    documents: Vec<D>,
    /// Upper bound of the number of documents.
    count: usize,
    of: PhantomData<fn(&T)>,
}

impl<T: Serialize, D: Borrow<T>> Documents<T, D> {
    /// None yet. They will be `count` or so, if there is one; then it makes room for all.
    pub(super) fn expecting(count: usize) -> Self {
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

impl<T: Serialize, D: Borrow<T> + Send + Sync> Held for Documents<T, D> {
    fn read(&self, position: usize, reader: &mut dyn FnMut(&RawDocument)) {
        raw::read(self.documents[position].borrow(), reader);
    }
}

impl fmt::Debug for dyn Held + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("raw documents")
    }
}
