//! A cursor without the type of its documents: the talk with the server.
//!
//! Each `getMore` runs in a task of its own, which ends whether or not anybody waits: so the future
//! of `advance` can be dropped at any time without a batch being lost, and a cursor that is not
//! polled keeps neither a connection nor a shutdown waiting. While large batches are read one after
//! another, the next is asked for ahead of time ([`Progress::should_read_ahead`]): one, not more.

use std::{
    pin::pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bson::RawDocument;
use steadfast_core::description::{ServerDescription, ServerType};
use tokio::sync::oneshot;

use super::{batch::is_last, progress::Progress};
use crate::{
    Client,
    command::{Command, Reply, Target},
    deadline::Deadline,
    error::{Error, ErrorKind, NetworkFailure, Result},
    operation::get_more::More,
    pin::{Home, Pinned},
    session::Session,
};

/// How long a `killCursors` may take, and so how long at most a shutdown waits for one.
const KILL_LIMIT: Duration = Duration::from_secs(5);

/// How long a batch that was asked for ahead of time, and is not wanted any more, may take to come
/// before it is given up: little of [`KILL_LIMIT`], in case the kill needs its connection.
const ANSWER_LIMIT: Duration = Duration::from_secs(1);

/// The answer to a command that is under way in a task of its own.
pub(crate) type Answer = oneshot::Receiver<Result<Reply>>;

/// A cursor whose documents are bytes.
#[derive(Debug)]
pub(crate) struct RawCursor {
    client: Client,
    home: Home,
    /// The session it was made in; an implicit one goes back as soon as the cursor is exhausted
    /// (pitfall 20).
    session: Option<Arc<Session>>,
    /// The transaction it was made in.
    transaction: Option<i64>,
    progress: Progress,
    answer: Option<Answer>,
    /// Whether that was asked for ahead of time, and nobody has waited for it yet.
    is_ahead: bool,
    /// By when all must be done; or, if the time is that of each step, how long a step has.
    deadline: Option<Deadline>,
    /// By when the step under way must be done, if each has its own time.
    step: Option<Deadline>,
    /// Why there will be no more documents though there may be some.
    failure: Option<Error>,
    /// Whether the failure is that of a `getMore`, and not of what it brought.
    refused_more: bool,
    /// Whether another takes its place when it is lost.
    replaceable: bool,
}

/// What came of moving on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Advance {
    /// To a document.
    Document,
    /// To none; the server was asked and had none for now.
    NoneYet,
    /// To the end.
    End,
}

impl RawCursor {
    /// A cursor that begins with the reply of the command that made it.
    pub(crate) fn new(client: &Client, reply: Reply, mut more: More) -> Result<Self> {
        if more.comment.is_some() && !takes_comments(client, &reply) {
            more.comment = None;
        }
        let progress = Progress::new(reply.bytes(), more)
            .map_err(|error| error.with_server(&reply.server.address))?;
        let mut cursor = Self {
            client: client.clone(),
            home: Home { server: reply.server, connection: reply.pinned },
            session: reply.session,
            transaction: reply.transaction,
            progress,
            answer: None,
            is_ahead: false,
            deadline: reply.clock.map(|clock| clock.deadline),
            step: None,
            failure: None,
            refused_more: false,
            replaceable: false,
        };
        cursor.release_if_exhausted();
        Ok(cursor)
    }

    /// The same cursor, if another takes its place when it is lost: then its server is not waited
    /// for while it cannot be reached, and is told to forget it also after the connection broke.
    pub(crate) fn replaceable(mut self) -> Self {
        self.replaceable = true;
        self
    }

    /// The document that the cursor is at.
    pub(crate) fn current(&self) -> Option<&RawDocument> {
        self.progress.current()
    }

    /// Whether there may be another document.
    pub(crate) fn has_next(&self) -> bool {
        self.failure.is_none() && (self.progress.has_documents() || self.progress.wants_more())
    }

    /// Whether it failed, and said so.
    pub(crate) fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Whether it failed because the server was asked for more and did not give it.
    pub(crate) fn was_refused_more(&self) -> bool {
        self.refused_more
    }

    /// Whether the server keeps the cursor.
    pub(crate) fn is_open(&self) -> bool {
        self.progress.is_open()
    }

    /// Whether documents have come that were not given out.
    pub(crate) fn has_documents(&self) -> bool {
        self.progress.has_documents()
    }

    /// The resume token that came with the batch.
    pub(crate) fn token_after(&self) -> Option<&RawDocument> {
        let token = self.progress.token_after();
        token.map(|token| RawDocument::from_bytes(token).expect("checked when it was read"))
    }

    /// Moves on to the next document, asking the server for more as often as it takes.
    pub(crate) fn poll_advance(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool>> {
        loop {
            match ready!(self.poll_try_advance(cx))? {
                Advance::Document => return Poll::Ready(Ok(true)),
                Advance::End => return Poll::Ready(Ok(false)),
                Advance::NoneYet => {}
            }
        }
    }

    /// Moves on to the next document, asking the server for more at most once.
    pub(crate) fn poll_try_advance(&mut self, cx: &mut Context<'_>) -> Poll<Result<Advance>> {
        if let Some(failure) = &self.failure {
            return Poll::Ready(Err(failure.clone()));
        }
        let outcome = ready!(self.poll_step(cx));
        // Several steps to one document, as of a tailable cursor, share the time of one.
        if !matches!(outcome, Ok(Advance::NoneYet)) {
            self.step = None;
        }
        if let Err(error) = &outcome {
            self.fail(error.clone());
        }
        Poll::Ready(outcome)
    }

    /// Says how long the step to the next document has.
    pub(crate) fn begin_step(&mut self, deadline: Option<Deadline>) {
        self.step = deadline;
    }

    /// The next document will have its own time again.
    pub(super) fn end_step(&mut self) {
        self.step = None;
    }

    fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Result<Advance>> {
        if self.progress.should_read_ahead() && self.read_ahead() {
            // The task that asks begins when this one lets it: nothing else here would for a while.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if self.take_next()? {
            return Poll::Ready(Ok(Advance::Document));
        }
        if !self.progress.wants_more() {
            self.close();
            return Poll::Ready(Ok(Advance::End));
        }
        let reply = ready!(self.poll_reply(cx)).inspect_err(|_| self.refused_more = true)?;
        self.accept(reply)?;
        let found = self.take_next()?;
        Poll::Ready(Ok(if found { Advance::Document } else { Advance::NoneYet }))
    }

    fn take_next(&mut self) -> Result<bool> {
        self.progress.advance().map_err(|error| error.with_server(&self.home.server.address))
    }

    /// Waits for the next batch, having asked for it if nobody did.
    fn poll_reply(&mut self, cx: &mut Context<'_>) -> Poll<Result<Reply>> {
        self.is_ahead = false;
        let mut answer = match self.answer.take() {
            Some(answer) => answer,
            None => self.ask_for_more()?,
        };
        let answered = poll_answer(&mut answer, cx);
        if answered.is_pending() {
            self.answer = Some(answer);
        }
        answered
    }

    /// Asks for the batch after the one that is being read. What comes of it, be it an error, is found
    /// where that one ends. False if it is not asked for.
    fn read_ahead(&mut self) -> bool {
        let is_free = self.deadline.is_none() && !self.home.connection.is_pinned();
        if is_free && self.answer.is_none() {
            self.answer = self.ask_for_more().ok();
            self.is_ahead = self.answer.is_some();
        }
        self.answer.is_some()
    }

    fn ask_for_more(&mut self) -> Result<Answer> {
        if self.home.connection.is_broken() {
            return Err(lost_connection());
        }
        if self.replaceable && !is_reachable(&self.client, &self.home) {
            return Err(unreachable(&self.home));
        }
        let mut command = self.progress.get_more(Target::Cursor(self.home.clone()))?;
        command.session.clone_from(&self.session);
        command.deadline = match self.progress.has_time_for_each_step() {
            false => self.deadline,
            true => {
                self.step = self.step.or_else(|| self.deadline.map(Deadline::renewed));
                self.step
            }
        };
        command.scope = self.transaction.into();
        Ok(ask(&self.client, command))
    }

    fn accept(&mut self, reply: Reply) -> Result<()> {
        let server = &reply.server.address;
        self.progress.accept(reply.bytes()).map_err(|error| error.with_server(server))?;
        if self.home.connection.is_pinned() {
            self.home.connection = reply.pinned;
        }
        self.release_if_exhausted();
        Ok(())
    }

    /// Connection and session are not kept longer than the server keeps the cursor.
    fn release_if_exhausted(&mut self) {
        if !self.progress.is_open() {
            self.home.connection = Pinned::default();
            self.session = None;
        }
    }

    /// Remembers why it cannot go on, so that nobody takes this for the end.
    fn fail(&mut self, error: Error) {
        /// The codes of a server that has not got the cursor: CursorNotFound, CursorKilled.
        const GONE: [i32; 2] = [43, 237];
        let unreachable = error.is_network_error() && !self.replaceable
            || error.is_server_selection_error()
            || matches!(&*error.kind, ErrorKind::Shutdown);
        if unreachable || error.code().is_some_and(|code| GONE.contains(&code)) {
            let _ = self.progress.close();
            self.home.connection = Pinned::default();
            self.session = None;
        } else {
            self.close();
        }
        self.progress.leave_current();
        self.failure = Some(error);
    }

    /// Has the server forget the cursor, in the background, if it still has it.
    pub(crate) fn close(&mut self) {
        let connection = std::mem::take(&mut self.home.connection);
        let mut answer = self.answer.take();
        let session = self.session.take();
        let Some(kill) = self.progress.close() else { return };
        if let Some(mut ahead) = answer.take_if(|_| self.is_ahead) {
            match ahead.try_recv() {
                // With it, the server has forgotten the cursor.
                Ok(Ok(reply)) if is_last(reply.bytes()) => return,
                Ok(_) => {}
                // Killed, the cursor answers at once. Unheard, that would cost the session.
                Err(_) => self.client.executor().spawn(async move {
                    drop(tokio::time::timeout(ANSWER_LIMIT, ahead).await);
                }),
            }
        }
        // It ends with its transaction, whose next command must find the connection in its place.
        if connection.is_of_transaction() {
            return;
        }
        // However late it is: the server is to be rid of it.
        let deadline = self.deadline.map(Deadline::renewed);
        let kill = move |target| Command { session, deadline, ..kill(target) };
        let home = Home { server: self.home.server.clone(), connection };
        let client = self.client.clone();
        match answer {
            // The connection is in use: what it is used for has to end first.
            Some(answer) if home.connection.is_pinned() => {
                self.client.executor().spawn(async move {
                    let Ok(Ok(reply)) = answer.await else { return };
                    let connection = reply.pinned;
                    if connection.is_pinned() {
                        send_kill(&client, kill(Target::Cursor(Home { connection, ..home }))).await;
                    }
                });
            }
            _ if home.connection.is_broken() => {}
            _ => self.client.executor().spawn(async move {
                send_kill(&client, kill(Target::Cursor(home))).await;
            }),
        }
    }
}

impl Drop for RawCursor {
    fn drop(&mut self) {
        self.close();
    }
}

/// Sends a `killCursors`. If it fails nobody is there to be told, and the server forgets an idle
/// cursor by itself. After a shutdown nothing is sent (pitfall 37).
async fn send_kill(client: &Client, command: Command) {
    let _ = tokio::time::timeout(KILL_LIMIT, client.executor().run(command)).await;
}

/// Runs a command in a task that ends early if nobody waits for the answer any more.
pub(crate) fn ask(client: &Client, command: Command) -> Answer {
    let (mut sender, answer) = oneshot::channel();
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
    answer
}

/// Waits for the answer of such a task.
pub(crate) fn poll_answer(answer: &mut Answer, cx: &mut Context<'_>) -> Poll<Result<Reply>> {
    pin!(answer).poll(cx).map(|answered| {
        answered.unwrap_or_else(|_| {
            Err(Error::new(ErrorKind::Internal {
                message: "the runtime of the client ended before the cursor".to_owned(),
            }))
        })
    })
}

/// Whether the server takes a comment with `getMore`: from 4.4 on. What is behind a load balancer
/// always does; and a server of which nothing is known just now most likely does, too.
fn takes_comments(client: &Client, reply: &Reply) -> bool {
    const WIRE_VERSION_4_4: i32 = 9;
    let view = client.executor().topology().view();
    let server = view.description.servers.get(&reply.server.address);
    server.is_none_or(|server| {
        matches!(server.server_type, ServerType::LoadBalancer | ServerType::Unknown)
            || server.max_wire_version >= WIRE_VERSION_4_4
    })
}

/// Whether the server that has the cursor answered when it was last looked for.
fn is_reachable(client: &Client, home: &Home) -> bool {
    let view = client.executor().topology().view();
    view.description.servers.get(&home.server.address).is_some_and(ServerDescription::is_available)
}

fn unreachable(home: &Home) -> Error {
    let address = &home.server.address;
    let message = format!("the server {address}, which has the cursor, cannot be reached");
    Error::new(ErrorKind::ConnectionPoolCleared { message }).with_server(address)
}

fn lost_connection() -> Error {
    let text = "the connection that the cursor was bound to is gone";
    Error::network(NetworkFailure::ClosedByUs, text)
}
