//! Cursors over whole batches: the replies of a query and its `getMore` commands as they are.
//!
//! A [`Cursor`](crate::Cursor) returns documents. A [`RawBatchCursor`] returns the batches, for
//! applications that decode BSON themselves or forward it: nothing is copied or decoded. The method
//! `batch` of [`find`](crate::action::Find::batch), [`aggregate`](crate::action::Aggregate::batch)
//! and other actions with a cursor returns one.
//!
//! ```no_run
//! # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
//! use futures_util::TryStreamExt;
//! use steadfast::bson::doc;
//!
//! let mut batches = books.find(doc! {}).batch().await?;
//! while let Some(batch) = batches.try_next().await? {
//!     for book in batch.doc_slices()? {
//!         println!("{:?}", book?);
//!     }
//! }
//! # Ok(()) }
//! ```

use std::{
    fmt,
    marker::PhantomData,
    pin::Pin,
    sync::Weak,
    task::{Context, Poll, ready},
};

use bson::{RawArray, RawDocument, raw::RawBsonRef};
use bytes::Bytes;
use futures_core::Stream;

use crate::{
    Client, ClientSession,
    command::Reply,
    cursor::RawCursor,
    error::{Error, Result},
    operation::get_more::GetMoreOptions,
    session::Session,
};

/// Batch of a cursor: the reply of the server.
#[derive(Clone, Debug)]
pub struct RawBatch {
    /// Reply. It was checked to be a BSON document.
    reply: Bytes,
}

impl RawBatch {
    /// Returns the documents of the batch (`firstBatch` or `nextBatch`), without copying them.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidResponse`](crate::error::ErrorKind::InvalidResponse) if the reply has no
    /// batch.
    pub fn doc_slices(&self) -> Result<&RawArray> {
        let cursor = match self.as_raw_document().get("cursor") {
            Ok(Some(RawBsonRef::Document(cursor))) => cursor,
            _ => return Err(Error::invalid_response("the reply has no cursor")),
        };
        let batch = ["firstBatch", "nextBatch"]
            .iter()
            .find_map(|name| cursor.get(name).ok().flatten()?.as_array());
        batch.ok_or_else(|| Error::invalid_response("the cursor of the reply has no batch"))
    }

    /// Returns the whole reply.
    pub fn as_raw_document(&self) -> &RawDocument {
        RawDocument::from_bytes(&self.reply).expect("checked when it was received")
    }
}

/// Cursor over the batches of a query.
/// See [cursors](https://www.mongodb.com/docs/manual/core/cursors/).
///
/// A [`Stream`] of [`RawBatch`]es, which may be empty. After an error the stream ends. Dropping it
/// kills the cursor on the server in the background (`killCursors`).
pub struct RawBatchCursor {
    batches: Batches,
}

/// Cursor over the batches of a query in an explicit session. See [`RawBatchCursor`].
///
/// ```no_run
/// # async fn run(client: steadfast::Client) -> steadfast::error::Result<()> {
/// use futures_util::TryStreamExt;
/// use steadfast::bson::{Document, doc};
///
/// let books = client.database("library").collection::<Document>("books");
/// let mut session = client.start_session().await?;
/// let mut batches = books.find(doc! {}).session(&mut session).batch().await?;
/// let mut batches = batches.stream(&mut session);
/// while let Some(batch) = batches.try_next().await? {
///     println!("{:?}", batch.as_raw_document());
/// }
/// # Ok(()) }
/// ```
pub struct SessionRawBatchCursor {
    batches: Batches,
    /// Identifies the session without keeping the server session in use.
    session: Weak<Session>,
}

/// Batches of a [`SessionRawBatchCursor`]. See [`SessionRawBatchCursor::stream`].
pub struct SessionRawBatchCursorStream<'cursor, 'session> {
    /// Cursor, or the error for a wrong session until the stream has returned it.
    batches: std::result::Result<&'cursor mut Batches, Option<Error>>,
    session: PhantomData<&'session mut ClientSession>,
}

/// Replies of a cursor.
struct Batches {
    cursor: RawCursor,
    /// First reply, until it is returned.
    first: Option<Bytes>,
}

impl RawBatchCursor {
    /// Creates a cursor from the reply of its command.
    pub(crate) fn new(client: &Client, reply: Reply, more: GetMoreOptions) -> Result<Self> {
        let first = Some(reply.bytes().clone());
        let cursor = RawCursor::new(client, reply, more)?;
        Ok(Self { batches: Batches { cursor, first } })
    }
}

impl SessionRawBatchCursor {
    /// Creates the cursor of a command in this session.
    pub(crate) fn new(cursor: RawBatchCursor, session: &ClientSession) -> Self {
        Self { batches: cursor.batches, session: session.downgrade() }
    }

    /// Returns the batches as a [`Stream`], which borrows the session. With another session than
    /// that of the query, the stream returns an
    /// [invalid argument](crate::error::ErrorKind::InvalidArgument) and ends.
    pub fn stream<'session>(
        &mut self,
        session: &'session mut ClientSession,
    ) -> SessionRawBatchCursorStream<'_, 'session> {
        session.begin_use();
        let batches = if self.session.ptr_eq(&session.downgrade()) {
            Ok(&mut self.batches)
        } else {
            Err(Some(Error::invalid_argument(
                "the cursor was created in another session; pass the session of the query",
            )))
        };
        SessionRawBatchCursorStream { batches, session: PhantomData }
    }
}

impl Batches {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<RawBatch>>> {
        if let Some(reply) = self.first.take() {
            return Poll::Ready(Some(Ok(RawBatch { reply })));
        }
        if self.cursor.has_failed() {
            return Poll::Ready(None);
        }
        let reply = ready!(self.cursor.poll_next_reply(cx)).transpose();
        Poll::Ready(reply.map(|reply| reply.map(|reply| RawBatch { reply })))
    }
}

impl Stream for RawBatchCursor {
    type Item = Result<RawBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.batches.poll_next(cx)
    }
}

impl Stream for SessionRawBatchCursorStream<'_, '_> {
    type Item = Result<RawBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match &mut self.batches {
            Ok(batches) => batches.poll_next(cx),
            Err(error) => Poll::Ready(error.take().map(Err)),
        }
    }
}

impl fmt::Debug for RawBatchCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawBatchCursor").finish_non_exhaustive()
    }
}

impl fmt::Debug for SessionRawBatchCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionRawBatchCursor").finish_non_exhaustive()
    }
}

impl fmt::Debug for SessionRawBatchCursorStream<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionRawBatchCursorStream").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    fn batch(reply: &bson::Document) -> RawBatch {
        RawBatch { reply: bson::serialize_to_vec(reply).unwrap().into() }
    }

    #[test]
    fn documents_of_first_and_later_batches_are_found() {
        for name in ["firstBatch", "nextBatch"] {
            let reply = doc! { "cursor": { "id": 0_i64, name: [{ "x": 1 }, {}] }, "ok": 1 };
            let batch = batch(&reply);
            assert_eq!(batch.doc_slices().unwrap().into_iter().count(), 2);
            assert!(batch.as_raw_document().get("ok").unwrap().is_some());
        }
    }

    #[test]
    fn reply_without_batch_is_invalid() {
        for reply in [
            doc! { "ok": 1 },
            doc! { "cursor": 1 },
            doc! { "cursor": {} },
            doc! { "cursor": { "firstBatch": 1 } },
        ] {
            assert!(batch(&reply).doc_slices().is_err(), "{reply}");
        }
    }

    #[test]
    fn batch_cursors_are_send_and_sync() {
        fn sendable<T: Send + Sync + Unpin + 'static>() {}
        sendable::<RawBatchCursor>();
        sendable::<SessionRawBatchCursor>();
    }
}
