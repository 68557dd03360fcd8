//! The changes that are made to a collection, a database or a whole deployment, as they happen.

pub mod event;
mod position;
mod resumable;
pub mod session;
mod watching;

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

use self::{event::ResumeToken, watching::Watching};
use crate::{
    cursor::Advance, decode, error::Result, operation::change_stream::Plan, session::Session,
};

/// The changes that are made to what is watched, as they happen.
///
/// Made by [`Collection::watch`](crate::Collection::watch),
/// [`Database::watch`](crate::Database::watch) and [`Client::watch`](crate::Client::watch). It is a
/// [`Stream`] that waits for the next change; [`next_if_any`](Self::next_if_any) does not wait. It
/// ends when what is watched is dropped or renamed, with an event of type
/// [`Invalidate`](event::OperationType::Invalidate).
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
/// # When things go wrong
///
/// If the connection breaks, or the server gives the stream up because another becomes primary, the
/// stream is taken up again where it was, once for each such error, with the options and the read
/// preference it was made with: no event is lost, and none comes twice. An aggregation of one's own
/// that begins with `$changeStream` is not. If the stream cannot be taken up again, or the error is
/// of another kind, the stream has failed and gives no more events; it still knows its
/// [`resume_token`](Self::resume_token), with which another can be made.
///
/// Dropping a stream before its end has the server forget it, in the background. The future of
/// `next` can be dropped at any time: an event that was asked for is not lost, and the next call
/// goes on with it.
///
/// # Going on after a restart
///
/// An application that must see every change stores the [`resume_token`](Self::resume_token) after
/// each event it has dealt with, and gives it to
/// [`resume_after`](crate::action::Watch::resume_after) when it starts again. To have the latest
/// token also when there are no events for long, and so not to fall behind what the servers
/// remember, it is to use [`next_if_any`](Self::next_if_any):
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
/// # Time limits
///
/// A [`timeout`](crate::action::Watch::timeout) is that of the call which makes the stream, and of
/// each step to the next event, taking the stream up again included. A step that ran out of its time
/// is an [error](crate::error::Error::is_timeout), but not the end of the stream: the next step takes
/// it up again. If it comes before there was any event, the server did not get through its log in
/// time: close the stream, and make another with more time.
pub struct ChangeStream<T> {
    watching: Box<Watching>,
    /// The failure was given out as an item of the stream.
    told: bool,
    events: PhantomData<fn() -> T>,
}

impl<T> ChangeStream<T> {
    /// Runs the command that makes the stream.
    pub(crate) async fn begin(plan: Plan, session: Option<Arc<Session>>) -> Result<Self> {
        let watching = Box::new(Watching::begin(plan, session).await?);
        Ok(Self { watching, told: false, events: PhantomData })
    }

    /// The token of the place that the stream has come to: that of the latest event, or of what the
    /// server has read since without finding one. None as long as nothing is known.
    pub fn resume_token(&self) -> Option<ResumeToken> {
        self.watching.resume_token().cloned()
    }

    /// The same stream, its events read as `D`: for pipelines that change what events look like.
    pub fn with_type<D: DeserializeOwned>(self) -> ChangeStream<D> {
        ChangeStream { watching: self.watching, told: self.told, events: PhantomData }
    }

    /// Whether there may be another event: some have come already, or the server may have more.
    pub fn is_alive(&self) -> bool {
        self.watching.is_alive()
    }

    /// The next event, if there is one now: the server is asked for more at most once. None means
    /// that there is none; whether there may be one later, [`is_alive`](Self::is_alive) knows.
    ///
    /// The server waits a while for an event before it says that there is none:
    /// [`max_await_time`](crate::action::Watch::max_await_time), by default a second.
    pub async fn next_if_any(&mut self) -> Result<Option<T>>
    where
        T: DeserializeOwned,
    {
        let advance = poll_fn(|cx| self.watching.poll_try_advance(cx)).await?;
        self.watching.end_step();
        if advance == Advance::Document { self.current().map(Some) } else { Ok(None) }
    }

    /// The next event, however long it takes.
    pub(crate) async fn next_event(&mut self) -> Result<Option<T>>
    where
        T: DeserializeOwned,
    {
        let found = poll_fn(|cx| self.watching.poll_advance(cx)).await?;
        if found { self.current().map(Some) } else { Ok(None) }
    }

    fn current(&self) -> Result<T>
    where
        T: DeserializeOwned,
    {
        let event = self.watching.current().map_or(&[][..], |event| event.as_bytes());
        Ok(decode::document(event)?)
    }
}

impl<T: DeserializeOwned> Stream for ChangeStream<T> {
    type Item = Result<T>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.told {
            return Poll::Ready(None);
        }
        let item = match ready!(self.watching.poll_advance(cx)) {
            Ok(true) => Some(self.current()),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        };
        self.told = self.watching.has_failed();
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
    fn a_change_stream_can_be_sent_and_shared() {
        fn sendable<T: Send + Sync + Unpin + 'static>() {}
        sendable::<ChangeStream<bson::Document>>();
        sendable::<SessionChangeStream<bson::Document>>();
        // Whatever its events are: it holds none.
        sendable::<ChangeStream<std::rc::Rc<()>>>();
    }
}
