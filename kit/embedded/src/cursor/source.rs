//! Sources of a cursor's documents.

use std::{fmt, sync::Arc, vec};

use bson::Document;
use steadfast_query::Fault;

use super::{
    super::{oplog::StreamHistory, store::size_of_document},
    batch::{CursorBatch, MAX_REPLY_BYTES},
};

/// Source of a cursor's documents.
#[derive(Debug)]
pub(crate) enum CursorSource {
    /// Documents that were found when the cursor was opened.
    FoundDocuments(FoundDocuments),
    /// Documents that appear later. An empty batch does not end the cursor.
    AwaitDataSource(Box<dyn AwaitDataSource>),
}

impl CursorSource {
    /// Returns the next batch of at most `most` documents, within the size limit.
    pub(super) fn take(&mut self, max_count: usize) -> Result<CursorBatch, Fault> {
        match self {
            Self::FoundDocuments(found) => found.take(max_count),
            Self::AwaitDataSource(live) => live.take(max_count),
        }
    }
}

/// Documents that appear later, such as the events of a change stream.
///
/// Methods run while the cursors of the server are locked, so they must not wait.
pub(crate) trait AwaitDataSource: fmt::Debug + Send {
    /// Sets the oplog entries that the next batch can use.
    fn set_history(&mut self, seen: &StreamHistory);

    /// Returns a batch of at most `most` available documents, within the size limit.
    fn take(&mut self, max_count: usize) -> Result<CursorBatch, Fault>;
}

/// Transformation of a returned document, such as a projection.
type Transform = Box<dyn FnMut(&Document) -> Result<Document, Fault> + Send>;

/// Documents that were found when the cursor was opened.
pub(crate) struct FoundDocuments {
    documents: vec::IntoIter<Arc<Document>>,
    transform: Option<Transform>,
    /// Document that did not fit into the previous batch.
    pending: Option<Document>,
    end_is_known: bool,
}

impl FoundDocuments {
    /// Documents whose end is unknown: after the last one the cursor stays open for another
    /// `getMore`, as on a server.
    pub(crate) fn new(documents: Vec<Arc<Document>>) -> Self {
        Self {
            documents: documents.into_iter(),
            transform: None,
            pending: None,
            end_is_known: false,
        }
    }

    /// Documents with a known end, such as a list or a result up to its limit.
    pub(crate) fn with_known_end(documents: Vec<Arc<Document>>) -> Self {
        Self { end_is_known: true, ..Self::new(documents) }
    }

    /// Applies a transformation to each returned document.
    pub(crate) fn transformed(
        mut self,
        transform: impl FnMut(&Document) -> Result<Document, Fault> + Send + 'static,
    ) -> Self {
        self.transform = Some(Box::new(transform));
        self
    }

    fn next(&mut self) -> Option<Result<Document, Fault>> {
        if let Some(pending) = self.pending.take() {
            return Some(Ok(pending));
        }
        let document = self.documents.next()?;
        Some(match &mut self.transform {
            Some(transform) => transform(&document),
            None => Ok(Arc::unwrap_or_clone(document)),
        })
    }

    fn take(&mut self, max_count: usize) -> Result<CursorBatch, Fault> {
        let mut batch = CursorBatch::default();
        let mut bytes = 0;
        while batch.documents.len() < max_count {
            let Some(document) = self.next().transpose()? else {
                batch.finished = true;
                return Ok(batch);
            };
            bytes += size_of_document(&document);
            // At least one document is returned, otherwise the cursor would never end.
            if bytes > MAX_REPLY_BYTES && !batch.documents.is_empty() {
                self.pending = Some(document);
                return Ok(batch);
            }
            batch.documents.push(document);
        }
        let empty = self.pending.is_none() && self.documents.len() == 0;
        batch.finished = max_count > 0 && self.end_is_known && empty;
        Ok(batch)
    }
}

impl fmt::Debug for FoundDocuments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Found").field("left", &self.documents.len()).finish_non_exhaustive()
    }
}
