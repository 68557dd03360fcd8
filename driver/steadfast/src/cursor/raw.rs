//! Cursors without a document type: `getMore`, read-ahead and `killCursors`.
//!
//! Each `getMore` runs in its own task, whether or not its reply is awaited. So the future of
//! `advance` can be dropped without losing a batch, and a cursor that is not polled blocks neither
//! a connection nor a shutdown. While large batches are read one after another, at most one batch
//! is requested ahead ([`CursorProgress::should_read_ahead`]).

use std::{
    pin::pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bson::RawDocument;
use bytes::Bytes;
use steadfast_core::description::{ServerDescription, ServerType};
use tokio::sync::oneshot;

use super::{batch::is_last, progress::CursorProgress};
use crate::{
    Client,
    command::{Command, Reply, Target},
    deadline::Deadline,
    error::{Error, ErrorKind, NetworkFailure, Result},
    operation::get_more::GetMoreOptions,
    pin::{PinnedConnection, PinnedServer},
    session::Session,
};

/// Time-out of `killCursors`, and so the longest that a shutdown waits for one.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// Time-out of the reply to a read-ahead `getMore` that is no longer needed. Shorter than
/// [`KILL_TIMEOUT`], because the kill may need its connection.
const READ_AHEAD_TIMEOUT: Duration = Duration::from_secs(1);

/// Reply to a command that runs in its own task.
pub(crate) type PendingReply = oneshot::Receiver<Result<Reply>>;

/// Cursor over raw documents.
#[derive(Debug)]
pub(crate) struct RawCursor {
    client: Client,
    pin: PinnedServer,
    /// Session of the cursor. An implicit one returns to the pool once the cursor is exhausted
    /// (pitfall 20).
    session: Option<Arc<Session>>,
    /// Transaction of the cursor.
    transaction: Option<i64>,
    progress: CursorProgress,
    pending: Option<PendingReply>,
    /// `true` if `pending` was requested ahead and is not awaited yet.
    is_read_ahead: bool,
    /// Deadline of the cursor. If each iteration has the full time-out, that time-out.
    deadline: Option<Deadline>,
    /// Deadline of the current iteration, if each has the full time-out.
    iteration: Option<Deadline>,
    /// Error that ended the cursor.
    failure: Option<Error>,
    /// `true` if the error is that of a `getMore`, not of a malformed batch.
    get_more_failed: bool,
    /// `true` if a change stream replaces the cursor after an error.
    replaceable: bool,
}

/// Result of an advance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Advance {
    /// The cursor is at a document.
    Document,
    /// The server had no document for now.
    NoneYet,
    /// The cursor is exhausted.
    End,
}

impl RawCursor {
    /// Creates a cursor from the reply of its command.
    pub(crate) fn new(client: &Client, reply: Reply, mut more: GetMoreOptions) -> Result<Self> {
        if more.comment.is_some() && !supports_get_more_comment(client, &reply) {
            more.comment = None;
        }
        let progress = CursorProgress::new(reply.bytes(), more)
            .map_err(|error| error.with_server(&reply.server.address))?;
        let mut cursor = Self {
            client: client.clone(),
            pin: PinnedServer { server: reply.server, connection: reply.pinned },
            session: reply.session,
            transaction: reply.transaction,
            progress,
            pending: None,
            is_read_ahead: false,
            deadline: reply.clock.map(|clock| clock.deadline),
            iteration: None,
            failure: None,
            get_more_failed: false,
            replaceable: false,
        };
        cursor.release_if_exhausted();
        Ok(cursor)
    }

    /// Marks the cursor as that of a change stream: an unavailable server is not waited for, and
    /// the cursor is killed also after a network error.
    pub(crate) fn replaceable(mut self) -> Self {
        self.replaceable = true;
        self
    }

    /// Returns the current document.
    pub(crate) fn current(&self) -> Option<&RawDocument> {
        self.progress.current()
    }

    /// Returns `true` if another document may follow.
    pub(crate) fn has_next(&self) -> bool {
        self.failure.is_none() && (self.progress.has_documents() || self.progress.needs_get_more())
    }

    /// Returns `true` if the cursor ended with an error.
    pub(crate) fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Returns `true` if the cursor ended with an error of a `getMore`.
    pub(crate) fn has_get_more_failed(&self) -> bool {
        self.get_more_failed
    }

    /// Returns `true` if the cursor is open on the server.
    pub(crate) fn is_open(&self) -> bool {
        self.progress.is_open()
    }

    /// Returns `true` if received documents are left.
    pub(crate) fn has_documents(&self) -> bool {
        self.progress.has_documents()
    }

    /// Returns the `postBatchResumeToken` of the batch.
    pub(crate) fn post_batch_token(&self) -> Option<&RawDocument> {
        let token = self.progress.post_batch_token();
        token.map(|token| RawDocument::from_bytes(token).expect("checked when it was read"))
    }

    /// Polls for the next document, with as many `getMore` commands as necessary.
    pub(crate) fn poll_advance(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool>> {
        loop {
            match ready!(self.poll_try_advance(cx))? {
                Advance::Document => return Poll::Ready(Ok(true)),
                Advance::End => return Poll::Ready(Ok(false)),
                Advance::NoneYet => {}
            }
        }
    }

    /// Polls for the next document, with at most one `getMore`.
    pub(crate) fn poll_try_advance(&mut self, cx: &mut Context<'_>) -> Poll<Result<Advance>> {
        if let Some(failure) = &self.failure {
            return Poll::Ready(Err(failure.clone()));
        }
        let outcome = ready!(self.poll_iteration(cx));
        // A tailable cursor may need several `getMore` commands for one document; they share one
        // deadline.
        if !matches!(outcome, Ok(Advance::NoneYet)) {
            self.iteration = None;
        }
        if let Err(error) = &outcome {
            self.fail(error.clone());
        }
        Poll::Ready(outcome)
    }

    /// Polls for the next reply as a whole, with one `getMore`. Returns `None` at the end. Documents
    /// of the reply before count as read.
    pub(crate) fn poll_next_reply(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>>> {
        if let Some(failure) = &self.failure {
            return Poll::Ready(Err(failure.clone()));
        }
        let reply = ready!(self.poll_reply_after_batch(cx));
        self.iteration = None;
        if let Err(error) = &reply {
            self.fail(error.clone());
        }
        Poll::Ready(reply)
    }

    fn poll_reply_after_batch(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>>> {
        let server = &self.pin.server.address;
        self.progress.skip_batch().map_err(|error| error.with_server(server))?;
        if !self.progress.needs_get_more() {
            self.close();
            return Poll::Ready(Ok(None));
        }
        let reply = ready!(self.poll_reply(cx)).inspect_err(|_| self.get_more_failed = true)?;
        let bytes = reply.bytes().clone();
        self.accept(reply)?;
        Poll::Ready(Ok(Some(bytes)))
    }

    /// Sets the deadline of the next iteration.
    pub(crate) fn begin_iteration(&mut self, deadline: Option<Deadline>) {
        self.iteration = deadline;
    }

    /// Ends the iteration: the next one has the full time-out.
    pub(super) fn end_iteration(&mut self) {
        self.iteration = None;
    }

    fn poll_iteration(&mut self, cx: &mut Context<'_>) -> Poll<Result<Advance>> {
        if self.progress.should_read_ahead() && self.read_ahead() {
            // Yields, so that the task of the `getMore` starts before this one continues.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if self.advance_in_batch()? {
            return Poll::Ready(Ok(Advance::Document));
        }
        if !self.progress.needs_get_more() {
            self.close();
            return Poll::Ready(Ok(Advance::End));
        }
        let reply = ready!(self.poll_reply(cx)).inspect_err(|_| self.get_more_failed = true)?;
        self.accept(reply)?;
        let found = self.advance_in_batch()?;
        Poll::Ready(Ok(if found { Advance::Document } else { Advance::NoneYet }))
    }

    fn advance_in_batch(&mut self) -> Result<bool> {
        self.progress.advance().map_err(|error| error.with_server(&self.pin.server.address))
    }

    /// Polls for the reply of a `getMore`, which is sent if none is in progress.
    fn poll_reply(&mut self, cx: &mut Context<'_>) -> Poll<Result<Reply>> {
        self.is_read_ahead = false;
        let mut pending = match self.pending.take() {
            Some(pending) => pending,
            None => self.send_get_more()?,
        };
        let answered = poll_pending(&mut pending, cx);
        if answered.is_pending() {
            self.pending = Some(pending);
        }
        answered
    }

    /// Requests the next batch ahead. Its result, or its error, is used at the end of the current
    /// batch. Returns `false` if nothing was requested.
    fn read_ahead(&mut self) -> bool {
        let is_free = self.deadline.is_none() && !self.pin.connection.is_pinned();
        if is_free && self.pending.is_none() {
            self.pending = self.send_get_more().ok();
            self.is_read_ahead = self.pending.is_some();
        }
        self.pending.is_some()
    }

    fn send_get_more(&mut self) -> Result<PendingReply> {
        if self.pin.connection.is_broken() {
            return Err(pinned_connection_closed());
        }
        if self.replaceable && !is_reachable(&self.client, &self.pin) {
            return Err(unreachable(&self.pin));
        }
        let mut command = self.progress.get_more(Target::Cursor(self.pin.clone()))?;
        command.session.clone_from(&self.session);
        command.deadline = match self.progress.renews_timeout() {
            false => self.deadline,
            true => {
                self.iteration = self.iteration.or_else(|| self.deadline.map(Deadline::renewed));
                self.iteration
            }
        };
        command.scope = self.transaction.into();
        Ok(spawn_command(&self.client, command))
    }

    fn accept(&mut self, reply: Reply) -> Result<()> {
        let server = &reply.server.address;
        self.progress.accept(reply.bytes()).map_err(|error| error.with_server(server))?;
        if self.pin.connection.is_pinned() {
            self.pin.connection = reply.pinned;
        }
        self.release_if_exhausted();
        Ok(())
    }

    /// Releases the pinned connection and the session once the cursor is exhausted.
    fn release_if_exhausted(&mut self) {
        if !self.progress.is_open() {
            self.pin.connection = PinnedConnection::default();
            self.session = None;
        }
    }

    /// Stores the error, so that it is not mistaken for the end.
    fn fail(&mut self, error: Error) {
        /// Codes of a server without the cursor: `CursorNotFound`, `CursorKilled`.
        const CURSOR_LOST: [i32; 2] = [43, 237];
        let unreachable = error.is_network_error() && !self.replaceable
            || error.is_server_selection_error()
            || matches!(&*error.kind, ErrorKind::Shutdown);
        if unreachable || error.code().is_some_and(|code| CURSOR_LOST.contains(&code)) {
            let _ = self.progress.close();
            self.pin.connection = PinnedConnection::default();
            self.session = None;
        } else {
            self.close();
        }
        self.progress.clear_current();
        self.failure = Some(error);
    }

    /// Kills the cursor in the background if it is open on the server.
    pub(crate) fn close(&mut self) {
        let connection = std::mem::take(&mut self.pin.connection);
        let mut pending = self.pending.take();
        let session = self.session.take();
        let Some(kill) = self.progress.close() else { return };
        if let Some(mut ahead) = pending.take_if(|_| self.is_read_ahead) {
            match ahead.try_recv() {
                // The server has closed the cursor with this reply.
                Ok(Ok(reply)) if is_last(reply.bytes()) => return,
                Ok(_) => {}
                // A killed cursor replies at once. Without its reply the session would be dirty.
                Err(_) => self.client.executor().spawn(async move {
                    drop(tokio::time::timeout(READ_AHEAD_TIMEOUT, ahead).await);
                }),
            }
        }
        // The cursor ends with its transaction, which needs the pinned connection.
        if connection.is_of_transaction() {
            return;
        }
        // The kill has its own deadline.
        let deadline = self.deadline.map(Deadline::renewed);
        let kill = move |target| Command { session, deadline, ..kill(target) };
        let pin = PinnedServer { server: self.pin.server.clone(), connection };
        let client = self.client.clone();
        match pending {
            // The pinned connection is in use by the `getMore` in progress.
            Some(pending) if pin.connection.is_pinned() => {
                self.client.executor().spawn(async move {
                    let Ok(Ok(reply)) = pending.await else { return };
                    let connection = reply.pinned;
                    if connection.is_pinned() {
                        send_kill(
                            &client,
                            kill(Target::Cursor(PinnedServer { connection, ..pin })),
                        )
                        .await;
                    }
                });
            }
            _ if pin.connection.is_broken() => {}
            _ => self.client.executor().spawn(async move {
                send_kill(&client, kill(Target::Cursor(pin))).await;
            }),
        }
    }
}

impl Drop for RawCursor {
    fn drop(&mut self) {
        self.close();
    }
}

/// Sends `killCursors`. Errors are ignored: the server closes idle cursors itself. After a shutdown
/// nothing is sent (pitfall 37).
async fn send_kill(client: &Client, command: Command) {
    let _ = tokio::time::timeout(KILL_TIMEOUT, client.executor().run(command)).await;
}

/// Runs a command in a task that ends early if its reply is no longer awaited.
pub(crate) fn spawn_command(client: &Client, command: Command) -> PendingReply {
    let (mut sender, pending) = oneshot::channel();
    let client_of_task = client.clone();
    client.executor().spawn(async move {
        let mut run = pin!(client_of_task.executor().run(command));
        let outcome = std::future::poll_fn(|cx| match sender.poll_closed(cx) {
            Poll::Ready(()) => Poll::Ready(None),
            Poll::Pending => run.as_mut().poll(cx).map(Some),
        });
        if let Some(outcome) = outcome.await {
            let _ = sender.send(outcome);
        }
    });
    pending
}

/// Polls for the reply of such a task.
pub(crate) fn poll_pending(
    pending: &mut PendingReply,
    cx: &mut Context<'_>,
) -> Poll<Result<Reply>> {
    pin!(pending).poll(cx).map(|answered| {
        answered.unwrap_or_else(|_| {
            Err(Error::new(ErrorKind::Internal {
                message: "the tokio runtime of the client ended before the cursor".to_owned(),
            }))
        })
    })
}

/// Returns `true` if the server supports `comment` in `getMore`: MongoDB 4.4 or later. Servers
/// behind a load balancer do, and servers in unknown state most likely do.
fn supports_get_more_comment(client: &Client, reply: &Reply) -> bool {
    const WIRE_VERSION_4_4: i32 = 9;
    let view = client.executor().topology().view();
    let server = view.description.servers.get(&reply.server.address);
    server.is_none_or(|server| {
        matches!(server.server_type, ServerType::LoadBalancer | ServerType::Unknown)
            || server.max_wire_version >= WIRE_VERSION_4_4
    })
}

/// Returns `true` if the last check of the cursor's server succeeded.
fn is_reachable(client: &Client, pin: &PinnedServer) -> bool {
    let view = client.executor().topology().view();
    view.description.servers.get(&pin.server.address).is_some_and(ServerDescription::is_available)
}

fn unreachable(pin: &PinnedServer) -> Error {
    let address = &pin.server.address;
    let message = format!("the server {address} of the cursor is unavailable");
    Error::new(ErrorKind::ConnectionPoolCleared { message }).with_server(address)
}

fn pinned_connection_closed() -> Error {
    let text = "the pinned connection of the cursor is closed";
    Error::network(NetworkFailure::ClosedByClient, text)
}
