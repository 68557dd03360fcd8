//! Change streams: changes of a collection, a database or a deployment as they happen.

pub mod event;
mod position;
mod raw;
mod resumable;
pub mod session;

use std::{
    fmt,
    future::poll_fn,
    marker::PhantomData,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use futures_core::Stream;
use serde::de::DeserializeOwned;

use self::{event::ResumeToken, raw::RawChangeStream};
use crate::{
    cursor::Advance, decode, error::Result, operation::change_stream::ChangeStreamPlan,
    session::Session,
};

/// Change stream: events of a collection, a database or a deployment. See
/// [change streams](https://www.mongodb.com/docs/manual/changeStreams/).
///
/// [`Collection::watch`](crate::Collection::watch), [`Database::watch`](crate::Database::watch) and
/// [`Client::watch`](crate::Client::watch) open one. It is a [`Stream`] that waits for the next
/// event; [`next_if_any`](Self::next_if_any) does not wait. The stream ends with an event of type
/// [`Invalidate`](event::OperationType::Invalidate) when the watched collection or database is
/// dropped or renamed.
///
/// ```no_run
/// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
/// use futures_util::TryStreamExt;
///
/// let mut changes = books.watch().await?;
/// while let Some(event) = changes.try_next().await? {
///     println!("{:?}: {:?}", event.operation_type, event.full_document);
/// }
/// # Ok(()) }
/// ```
///
/// # Errors
///
/// After a network error or another resumable error, the stream resumes after the last event, once
/// for each such error, with its options and read preference. No event is lost or duplicated. If
/// resuming fails, or after another error, the stream returns the error and no more events. Its
/// [`resume_token`](Self::resume_token) remains available for a new stream.
///
/// # Cancellation
///
/// The future of `next` can be dropped: the `getMore`, or the `aggregate` that resumes the stream,
/// continues in the background, and the next call receives its result. Dropping the stream kills
/// its cursor on the server in the background.
///
/// # Resuming after a restart
///
/// An application that must process every change stores the [`resume_token`](Self::resume_token)
/// after each processed event, and passes it to
/// [`resume_after`](crate::action::Watch::resume_after) after a restart.
/// [`next_if_any`](Self::next_if_any) also updates the token while there are no events, so that it
/// does not fall out of the oplog:
///
/// ```no_run
/// # use steadfast::{bson::Document, change_stream::event::ResumeToken, error::Result};
/// # async fn handle<T>(event: T) {}
/// # async fn store(token: Option<ResumeToken>) {}
/// # async fn run(books: steadfast::Collection<Document>, stored: Option<ResumeToken>) -> Result<()> {
/// let mut changes = books.watch().resume_after(stored).await?;
/// while changes.is_alive() {
///     if let Some(event) = changes.next_if_any().await? {
///         handle(event).await;
///     }
///     store(changes.resume_token()).await;
/// }
/// # Ok(()) }
/// ```
///
/// # Time-outs
///
/// A [`timeout`](crate::action::Watch::timeout) applies to the call that opens the stream, and to
/// each iteration including a resumption. After a [time-out](crate::error::Error::is_timeout) the
/// stream can be used further: the next iteration resumes it. If the first iteration times out, the
/// server may need more time to scan the oplog: open a new stream with a longer time-out.
pub struct ChangeStream<T> {
    raw: Box<RawChangeStream>,
    /// `true` once the stream has returned the error.
    error_returned: bool,
    events: PhantomData<fn() -> T>,
}

impl<T> ChangeStream<T> {
    /// Runs the command that opens the stream.
    pub(crate) async fn begin(
        plan: ChangeStreamPlan,
        session: Option<Arc<Session>>,
    ) -> Result<Self> {
        let raw = Box::new(RawChangeStream::begin(plan, session).await?);
        Ok(Self { raw, error_returned: false, events: PhantomData })
    }

    /// Returns the resume token of the last event, or of the last batch without events
    /// (`postBatchResumeToken`). `None` before the first of them.
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// let mut changes = books.watch().await?;
    /// let token = changes.resume_token();
    /// let resumed = books.watch().resume_after(token).await?;
    /// # Ok(()) }
    /// ```
    pub fn resume_token(&self) -> Option<ResumeToken> {
        self.raw.resume_token().cloned()
    }

    /// Returns the same stream with another event type, for pipelines that change the form of
    /// events.
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// use steadfast::bson::{Document, doc};
    ///
    /// let stage = doc! { "$project": { "documentKey": 1 } };
    /// let keys = books.watch().pipeline([stage]).await?.with_type::<Document>();
    /// # Ok(()) }
    /// ```
    pub fn with_type<D: DeserializeOwned>(self) -> ChangeStream<D> {
        ChangeStream { raw: self.raw, error_returned: self.error_returned, events: PhantomData }
    }

    /// Returns `true` if another event may follow.
    pub fn is_alive(&self) -> bool {
        self.raw.is_alive()
    }

    /// Returns the next event, with at most one `getMore`. `None` means that there is no event now;
    /// [`is_alive`](Self::is_alive) returns whether one may follow.
    ///
    /// The server waits for [`max_await_time`](crate::action::Watch::max_await_time), by default
    /// one second, before it returns an empty batch.
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// let mut changes = books.watch().await?;
    /// if let Some(event) = changes.next_if_any().await? {
    ///     println!("{:?}", event.operation_type);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::Command`](crate::error::ErrorKind::Command) if the server returns an error
    ///   that is not resumable.
    /// - [`ErrorKind::MissingResumeToken`](crate::error::ErrorKind::MissingResumeToken) if the
    ///   pipeline removes the `_id` of an event.
    /// - [`ErrorKind::Bson`](crate::error::ErrorKind::Bson) if the event does not deserialize as
    ///   `T`.
    ///
    /// See also the [errors of every action](crate::action#errors).
    ///
    /// # Cancellation
    ///
    /// The future can be dropped. The command in progress continues in the background, and the next
    /// call receives its result.
    pub async fn next_if_any(&mut self) -> Result<Option<T>>
    where
        T: DeserializeOwned,
    {
        let advance = poll_fn(|cx| self.raw.poll_try_advance(cx)).await?;
        self.raw.end_iteration();
        if advance == Advance::Document { self.current().map(Some) } else { Ok(None) }
    }

    /// Waits for the next event.
    pub(crate) async fn next_event(&mut self) -> Result<Option<T>>
    where
        T: DeserializeOwned,
    {
        let found = poll_fn(|cx| self.raw.poll_advance(cx)).await?;
        if found { self.current().map(Some) } else { Ok(None) }
    }

    fn current(&self) -> Result<T>
    where
        T: DeserializeOwned,
    {
        let event = self.raw.current().map_or(&[][..], |event| event.as_bytes());
        Ok(decode::document(event)?)
    }
}

impl<T: DeserializeOwned> Stream for ChangeStream<T> {
    type Item = Result<T>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.error_returned {
            return Poll::Ready(None);
        }
        let item = match ready!(self.raw.poll_advance(cx)) {
            Ok(true) => Some(self.current()),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        };
        self.error_returned = self.raw.has_failed();
        Poll::Ready(item)
    }
}

impl<T> fmt::Debug for ChangeStream<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChangeStream").field("is_alive", &self.is_alive()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::{ChangeStream, session::SessionChangeStream};

    #[test]
    fn change_streams_are_send_and_sync() {
        fn sendable<T: Send + Sync + Unpin + 'static>() {}
        sendable::<ChangeStream<bson::Document>>();
        sendable::<SessionChangeStream<bson::Document>>();
        // For any event type: a change stream contains no event.
        sendable::<ChangeStream<std::rc::Rc<()>>>();
    }
}
