//! Reading every event once.

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
    merge::{Head, Merge},
    resolve::{Resolved, Resolver},
};
use crate::{
    Cursor, decode,
    error::{Error, Result},
    options::Collation,
};

/// The documents of all datacenters, one for each event, in the order of their keys. See
/// [`Duplicates::read`].
///
/// It is read like a [`Cursor`]: as a [`Stream`], or with [`advance`](Self::advance) and
/// [`current`](Self::current). It holds one document of each deployment and one more, besides the batch
/// that each cursor has at hand.
///
/// An error of any deployment ends it: documents of a datacenter that does not answer are not passed over
/// in silence. The futures can be dropped at any time; the next call goes on.
pub struct Distinct<T> {
    merged: Merged,
    resolver: Resolver<RawDocumentBuf>,
    current: Option<RawDocumentBuf>,
    ended: bool,
    /// The failure was given out as an item of the stream.
    told: bool,
    surplus: u64,
    documents: PhantomData<fn() -> T>,
}

impl<T> Distinct<T> {
    pub(super) async fn open<S: Send + Sync>(
        duplicates: &Duplicates<S>,
        filter: Document,
    ) -> Result<Self> {
        let key = duplicates.checked(&filter)?;
        // The mark is a trim's own affair.
        let projection = bson::doc! { MARK: 0 };
        Ok(Self {
            merged: Merged::open(duplicates, key, &filter, projection).await?,
            resolver: Resolver::new(duplicates.keep),
            current: None,
            ended: false,
            told: false,
            surplus: 0,
            documents: PhantomData,
        })
    }

    /// Moves on to the next document and says whether there is one.
    pub async fn advance(&mut self) -> Result<bool> {
        poll_fn(|cx| self.poll_advance(cx)).await
    }

    fn poll_advance(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool>> {
        self.current = None;
        loop {
            match self.resolver.next() {
                Some(Resolved::Chosen(document) | Resolved::Apart(document)) => {
                    self.current = Some(document);
                    return Poll::Ready(Ok(true));
                }
                Some(Resolved::Surplus(_)) => self.surplus += 1,
                None if self.ended => return Poll::Ready(Ok(false)),
                None => match ready!(self.merged.poll_next(cx))? {
                    Some(head) => self.resolver.offer(head.place, head.document),
                    None => {
                        self.resolver.finish();
                        self.ended = true;
                    }
                },
            }
        }
    }

    /// The document that it is at.
    ///
    /// # Panics
    ///
    /// If the last call of [`advance`](Self::advance) did not return `Ok(true)`.
    pub fn current(&self) -> &RawDocument {
        self.current.as_ref().expect("it is at a document only after `advance` returned true")
    }

    /// The document that it is at, as a `T`.
    ///
    /// Fails if the last call of [`advance`](Self::advance) did not return `Ok(true)`, or if the document
    /// is not a `T`.
    pub fn deserialize_current(&self) -> Result<T>
    where
        T: DeserializeOwned,
    {
        let document = self.current.as_ref().ok_or_else(|| {
            Error::invalid_argument("it is at a document only after `advance` returned true")
        })?;
        Ok(decode::document(document.as_bytes())?)
    }

    /// How many copies were left out so far, because another copy of the same event was chosen.
    pub fn surplus(&self) -> u64 {
        self.surplus
    }

    /// The same reading, its documents read as `D`.
    pub fn with_type<D>(self) -> Distinct<D> {
        let Self { merged, resolver, current, ended, told, surplus, documents: _ } = self;
        Distinct { merged, resolver, current, ended, told, surplus, documents: PhantomData }
    }
}

impl<T: DeserializeOwned> Stream for Distinct<T> {
    type Item = Result<T>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.told {
            return Poll::Ready(None);
        }
        Poll::Ready(match ready!(self.poll_advance(cx)) {
            Ok(true) => Some(self.deserialize_current()),
            Ok(false) => None,
            Err(error) => {
                self.told = true;
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

/// All copies of all deployments, sorted by key, then by age.
pub(super) struct Merged {
    cursors: Vec<Cursor<RawDocumentBuf>>,
    key: Key,
    merge: Merge<RawDocumentBuf>,
}

impl Merged {
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
                // Else strings would be sorted as the collection's own collation says, each deployment's
                // in its own way.
                .collation(Collation::builder().locale("simple").build())
                .selection_criteria(duplicates.criteria.clone())
                .await?;
            cursors.push(cursor);
        }
        let merge = Merge::of(cursors.len());
        Ok(Self { cursors, key, merge })
    }

    pub(super) async fn next(&mut self) -> Result<Option<Head<RawDocumentBuf>>> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Head<RawDocumentBuf>>>> {
        while let Some(source) = self.merge.wants() {
            let cursor = &mut self.cursors[source];
            let read = if ready!(cursor.poll_advance(cx))? {
                let document = cursor.current();
                Some((self.key.place(document)?, document.to_owned()))
            } else {
                None
            };
            self.merge.fill(source, read);
        }
        Poll::Ready(Ok(self.merge.take()))
    }
}

impl<T: Send + Sync> Duplicates<T> {
    /// The key, if a reading by it with this filter makes sense.
    pub(super) fn checked(&self, filter: &Document) -> Result<Key> {
        if self.collections.is_empty() {
            return Err(Error::invalid_argument("there is no collection to read from"));
        }
        let key = Key::new(&self.key, &self.datacenter_field)?;
        broadcast::check(filter, &self.datacenter_field)?;
        Ok(key)
    }
}
