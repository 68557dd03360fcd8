//! Reads that return every event once.

use std::{
    fmt,
    future::poll_fn,
    marker::PhantomData,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bson::{Document, RawDocument, RawDocumentBuf};
use futures_core::Stream;
use serde::de::DeserializeOwned;

use super::{
    Duplicates, MARK, broadcast,
    key::Key,
    merge::{Merge, SourceDocument},
    resolve::{Resolved, Resolver},
};
use steadfast::{
    Cursor,
    error::{Error, Result},
    options::Collation,
};

/// Documents of all datacenters, one for each event, sorted by key. Returned by [`Duplicates::read`].
///
/// Read it like a [`Cursor`]: as a [`Stream`], or with [`advance`](Self::advance) and
/// [`current`](Self::current). It holds one document of each deployment and one more, in addition to the batch
/// of each cursor.
///
/// An error of any deployment ends it, so that no documents of an unreachable datacenter are silently missing:
/// `advance` returns the error again, and the stream ends.
///
/// # Cancellation
///
/// The futures can be dropped at any time; the next call continues.
pub struct Distinct<T> {
    merged: MergedCursors,
    resolver: Resolver<RawDocumentBuf>,
    current: Option<RawDocumentBuf>,
    ended: bool,
    /// The error was returned as an item of the stream.
    error_returned: bool,
    surplus: u64,
    documents: PhantomData<fn() -> T>,
}

impl<T> Distinct<T> {
    pub(super) async fn open<S: Send + Sync>(
        duplicates: &Duplicates<S>,
        filter: Document,
    ) -> Result<Self> {
        let key = duplicates.checked(&filter)?;
        // Marks of trims are not part of the document.
        let projection = bson::doc! { MARK: 0 };
        Ok(Self {
            merged: MergedCursors::open(duplicates, key, &filter, projection).await?,
            resolver: Resolver::new(duplicates.keep),
            current: None,
            ended: false,
            error_returned: false,
            surplus: 0,
            documents: PhantomData,
        })
    }

    /// Advances to the next document. Returns `false` at the end.
    ///
    /// # Errors
    ///
    /// The error of a deployment; every later call returns it again.
    pub async fn advance(&mut self) -> Result<bool> {
        poll_fn(|cx| self.poll_advance(cx)).await
    }

    fn poll_advance(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool>> {
        self.current = None;
        loop {
            match self.resolver.next() {
                Some(Resolved::Chosen(document) | Resolved::NotACopy(document)) => {
                    self.current = Some(document);
                    return Poll::Ready(Ok(true));
                }
                Some(Resolved::Surplus(_)) => self.surplus += 1,
                None if self.ended => return Poll::Ready(Ok(false)),
                None => match ready!(self.merged.poll_next(cx))? {
                    Some(next) => self.resolver.offer(next.position, next.document),
                    None => {
                        self.resolver.finish();
                        self.ended = true;
                    }
                },
            }
        }
    }

    /// Returns the current document.
    ///
    /// # Panics
    ///
    /// If the last call of [`advance`](Self::advance) did not return `Ok(true)`.
    pub fn current(&self) -> &RawDocument {
        self.current.as_ref().expect("`advance` must have returned true")
    }

    /// Deserializes the current document.
    ///
    /// # Errors
    ///
    /// An error if the last call of [`advance`](Self::advance) did not return `Ok(true)`, or if the document is
    /// not a `T`.
    pub fn deserialize_current(&self) -> Result<T>
    where
        T: DeserializeOwned,
    {
        let document = self.current.as_ref().ok_or_else(|| {
            Error::invalid_argument("there is no current document: call advance first")
        })?;
        Ok(bson::deserialize_from_slice(document.as_bytes())?)
    }

    /// Returns the number of copies that were left out so far.
    pub fn surplus(&self) -> u64 {
        self.surplus
    }

    /// Changes the type of the documents to `D`.
    pub fn with_type<D>(self) -> Distinct<D> {
        let Self { merged, resolver, current, ended, error_returned, surplus, documents: _ } = self;
        Distinct {
            merged,
            resolver,
            current,
            ended,
            error_returned,
            surplus,
            documents: PhantomData,
        }
    }
}

impl<T: DeserializeOwned> Stream for Distinct<T> {
    type Item = Result<T>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.error_returned {
            return Poll::Ready(None);
        }
        Poll::Ready(match ready!(self.poll_advance(cx)) {
            Ok(true) => Some(self.deserialize_current()),
            Ok(false) => None,
            Err(error) => {
                self.error_returned = true;
                Some(Err(error))
            }
        })
    }
}

impl<T> fmt::Debug for Distinct<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Distinct").field("surplus", &self.surplus).finish_non_exhaustive()
    }
}

/// Copies of all deployments, sorted by key, then by age.
pub(super) struct MergedCursors {
    cursors: Vec<Cursor<RawDocumentBuf>>,
    key: Key,
    merge: Merge<RawDocumentBuf>,
    /// Error of a cursor, which every later call returns.
    failed: Option<Error>,
}

impl MergedCursors {
    pub(super) async fn open<T: Send + Sync>(
        duplicates: &Duplicates<T>,
        key: Key,
        filter: &Document,
        projection: Document,
    ) -> Result<Self> {
        let mut cursors = Vec::with_capacity(duplicates.collections.len());
        for collection in &duplicates.collections {
            let cursor = collection
                .clone_with_type::<RawDocumentBuf>()
                .find(filter.clone())
                .sort(key.sort())
                .projection(projection.clone())
                .allow_disk_use(true)
                // Otherwise strings would be sorted by the collation of each collection.
                .collation(Collation::builder().locale("simple").build())
                .selection_criteria(duplicates.criteria.clone())
                .await?;
            cursors.push(cursor);
        }
        let merge = Merge::of(cursors.len());
        Ok(Self { cursors, key, merge, failed: None })
    }

    pub(super) async fn next(&mut self) -> Result<Option<SourceDocument<RawDocumentBuf>>> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<SourceDocument<RawDocumentBuf>>>> {
        // After an error, the stream of a cursor ends as if all documents were read.
        if let Some(error) = &self.failed {
            return Poll::Ready(Err(error.clone()));
        }
        while let Some(source) = self.merge.source_to_read() {
            let cursor = &mut self.cursors[source];
            let read = match ready!(Pin::new(cursor).poll_next(cx)) {
                Some(Ok(document)) => Some((self.key.position(&document)?, document)),
                Some(Err(error)) => {
                    self.failed = Some(error.clone());
                    return Poll::Ready(Err(error));
                }
                None => None,
            };
            self.merge.fill(source, read);
        }
        Poll::Ready(Ok(self.merge.take()))
    }
}

impl<T: Send + Sync> Duplicates<T> {
    /// Returns the key, if key and filter are valid.
    pub(super) fn checked(&self, filter: &Document) -> Result<Key> {
        if self.collections.is_empty() {
            return Err(Error::invalid_argument("there is no collection to read from"));
        }
        let key = Key::new(&self.key, &self.datacenter_field)?;
        broadcast::check(filter, &self.datacenter_field)?;
        Ok(key)
    }
}
