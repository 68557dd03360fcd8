//! Sources of a cursor's documents.

use std::{fmt, sync::Arc, vec};

use bson::Document;
use steadfast_query::Fault;

use super::{
    super::{log::Histories, store::size_of_document},
    batch::{Batch, MOST_BYTES},
};

/// Source of a cursor's documents.
#[derive(Debug)]
pub(crate) enum Source {
    /// Documents that were found when the cursor was opened.
    Found(Found),
    /// Documents that appear later. An empty batch does not end the cursor.
    Live(Box<dyn Live>),
}

impl Source {
    /// Returns the next batch of at most `most` documents, within the size limit.
    pub(super) fn take(&mut self, most: usize) -> Result<Batch, Fault> {
        match self {
            Self::Found(found) => found.take(most),
            Self::Live(live) => live.take(most),
        }
    }
}

/// Documents that appear later, such as the events of a change stream.
///
/// Methods run while the cursors of the server are locked, so they must not wait.
pub(crate) trait Live: fmt::Debug + Send {
    /// Sets the oplog entries that the next batch can use.
    fn see(&mut self, seen: &Histories);

    /// Returns a batch of at most `most` available documents, within the size limit.
    fn take(&mut self, most: usize) -> Result<Batch, Fault>;
}

/// Transformation of a returned document, such as a projection.
type Shape = Box<dyn FnMut(&Document) -> Result<Document, Fault> + Send>;

/// Documents that were found when the cursor was opened.
pub(crate) struct Found {
    documents: vec::IntoIter<Arc<Document>>,
    shape: Option<Shape>,
    /// Document that did not fit into the previous batch.
    held: Option<Document>,
    end_is_known: bool,
}

impl Found {
    /// Documents whose end is unknown: after the last one the cursor stays open for another
    /// `getMore`, as on a server.
    pub(crate) fn new(documents: Vec<Arc<Document>>) -> Self {
        Self { documents: documents.into_iter(), shape: None, held: None, end_is_known: false }
    }

    /// Documents with a known end, such as a list or a result up to its limit.
    pub(crate) fn all(documents: Vec<Arc<Document>>) -> Self {
        Self { end_is_known: true, ..Self::new(documents) }
    }

    /// Applies a transformation to each returned document.
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
            // At least one document is returned, otherwise the cursor would never end.
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
