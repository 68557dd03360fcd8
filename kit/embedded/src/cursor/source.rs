//! Where a cursor's documents come from.

use std::{fmt, sync::Arc, vec};

use bson::Document;
use steadfast_query::Fault;

use super::{
    super::{log::Histories, store::size_of_document},
    batch::{Batch, MOST_BYTES},
};

/// Where a cursor's documents come from.
#[derive(Debug)]
pub(crate) enum Source {
    /// They were found when the cursor was opened.
    Found(Found),
    /// They come into being: the cursor is asked again and again, and an empty batch does not end it.
    Live(Box<dyn Live>),
}

impl Source {
    /// The next documents, at most so many, and no more than fit into a reply.
    pub(super) fn take(&mut self, most: usize) -> Result<Batch, Fault> {
        match self {
            Self::Found(found) => found.take(most),
            Self::Live(live) => live.take(most),
        }
    }
}

/// Documents that come into being, such as a change stream's.
///
/// It is asked while the member's cursors are locked, so it must not wait.
pub(crate) trait Live: fmt::Debug + Send {
    /// Says what is there by now, before it is asked.
    fn see(&mut self, seen: &Histories);

    /// Those that are there by now, at most so many, and no more than fit into a reply.
    fn take(&mut self, most: usize) -> Result<Batch, Fault>;
}

/// What is made of a document when it is given, such as a projection.
type Shape = Box<dyn FnMut(&Document) -> Result<Document, Fault> + Send>;

/// Documents that were found, to be given one after the other.
pub(crate) struct Found {
    documents: vec::IntoIter<Arc<Document>>,
    shape: Option<Shape>,
    /// One that did not fit into the batch before.
    held: Option<Document>,
    end_is_known: bool,
}

impl Found {
    /// These. A server that gives the last of them does not know it, and keeps the cursor until it is
    /// asked once more.
    pub(crate) fn new(documents: Vec<Arc<Document>>) -> Self {
        Self { documents: documents.into_iter(), shape: None, held: None, end_is_known: false }
    }

    /// These, and the last one is known to be the last: those of a list, or up to a limit.
    pub(crate) fn all(documents: Vec<Arc<Document>>) -> Self {
        Self { end_is_known: true, ..Self::new(documents) }
    }

    /// The same, each document changed in this way when it is given.
    pub(crate) fn shaped(
        mut self,
        shape: impl FnMut(&Document) -> Result<Document, Fault> + Send + 'static,
    ) -> Self {
        self.shape = Some(Box::new(shape));
        self
    }

    fn next(&mut self) -> Option<Result<Document, Fault>> {
        if let Some(held) = self.held.take() {
            return Some(Ok(held));
        }
        let document = self.documents.next()?;
        Some(match &mut self.shape {
            Some(shape) => shape(&document),
            None => Ok(Arc::unwrap_or_clone(document)),
        })
    }

    fn take(&mut self, most: usize) -> Result<Batch, Fault> {
        let mut batch = Batch::default();
        let mut bytes = 0;
        while batch.documents.len() < most {
            let Some(document) = self.next().transpose()? else {
                batch.finished = true;
                return Ok(batch);
            };
            bytes += size_of_document(&document);
            // One is always given, or the cursor would never come to an end.
            if bytes > MOST_BYTES && !batch.documents.is_empty() {
                self.held = Some(document);
                return Ok(batch);
            }
            batch.documents.push(document);
        }
        let empty = self.held.is_none() && self.documents.len() == 0;
        batch.finished = most > 0 && self.end_is_known && empty;
        Ok(batch)
    }
}

impl fmt::Debug for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Found").field("left", &self.documents.len()).finish_non_exhaustive()
    }
}
