//! Change streams without an event type: a cursor that is replaced after resumable errors.
//!
//! The `aggregate` that replaces a cursor runs in its own task, like each `getMore`. So the future
//! of `next` can be dropped without losing an event.

use std::{
    sync::Arc,
    task::{Context, Poll, ready},
};

use bson::RawDocument;

use super::{
    event::ResumeToken,
    position::{BatchState, ChangeStreamPosition},
    resumable::is_resumable,
};
use crate::{
    Client,
    command::{Command, Reply},
    cursor::{Advance, PendingReply, RawCursor, poll_pending, spawn_command},
    deadline::Deadline,
    error::{Error, ErrorKind, Result},
    operation::change_stream::StartPosition,
    operation::{change_stream::ChangeStreamPlan, get_more::GetMoreOptions},
    session::Session,
};

/// Change stream over raw events.
#[derive(Debug)]
pub(super) struct RawChangeStream {
    client: Client,
    plan: ChangeStreamPlan,
    position: ChangeStreamPosition,
    /// Session of all commands. An implicit one returns to the pool once the stream has ended
    /// (pitfall 20).
    session: Option<Arc<Session>>,
    cursor: RawCursor,
    /// The `aggregate` in progress that replaces the cursor.
    resuming: Option<Resumption>,
    /// Time-out of each iteration.
    time: Option<Deadline>,
    /// Deadline of the current iteration.
    iteration: Option<Deadline>,
    /// `true` if the last iteration timed out: the next one resumes the stream.
    interrupted: bool,
    /// Error that ended the stream.
    failure: Option<Error>,
}

/// Resumption in progress.
#[derive(Debug)]
struct Resumption {
    pending: PendingReply,
    /// Options of the new cursor's `getMore`.
    more: GetMoreOptions,
    /// `true` if the current iteration has already sent a `getMore`, which failed.
    get_more_sent: bool,
}

impl RawChangeStream {
    /// Runs the command that opens the stream.
    pub(super) async fn begin(
        plan: ChangeStreamPlan,
        session: Option<Arc<Session>>,
    ) -> Result<Self> {
        let client = plan.scope.client().clone();
        let (command, more) = plan.begin(&StartPosition::FromOptions)?;
        let reply = client.executor().run(Command { session, ..command }).await?;
        let mut position = ChangeStreamPosition::new(&plan.options);
        let time = reply.body().get_timestamp("operationTime").ok();
        let session = reply.session.clone();
        let limit = reply.clock.map(|clock| clock.deadline);
        let cursor = open(&client, reply, more)?;
        position.opened(batch_state(&cursor), time);
        let mut stream = Self {
            client,
            plan,
            position,
            session,
            cursor,
            resuming: None,
            time: limit,
            iteration: None,
            interrupted: false,
            failure: None,
        };
        stream.release_if_ended();
        Ok(stream)
    }

    /// Returns the current event.
    pub(super) fn current(&self) -> Option<&RawDocument> {
        self.cursor.current()
    }

    /// Returns the cached resume token.
    pub(super) fn resume_token(&self) -> Option<&ResumeToken> {
        self.position.token()
    }

    /// Returns `true` if another event may follow.
    pub(super) fn is_alive(&self) -> bool {
        let is_lost = self.resuming.is_some() || self.interrupted;
        self.failure.is_none() && (is_lost || self.cursor.has_next())
    }

    /// Returns `true` if the stream ended with an error.
    pub(super) fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Polls for the next event, with as many `getMore` commands as necessary.
    pub(super) fn poll_advance(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool>> {
        loop {
            match ready!(self.poll_try_advance(cx))? {
                Advance::Document => return Poll::Ready(Ok(true)),
                Advance::End => return Poll::Ready(Ok(false)),
                Advance::NoneYet => {}
            }
        }
    }

    /// Polls for the next event, with at most one `getMore`. A lost cursor is replaced first.
    pub(super) fn poll_try_advance(&mut self, cx: &mut Context<'_>) -> Poll<Result<Advance>> {
        if let Some(failure) = &self.failure {
            return Poll::Ready(Err(failure.clone()));
        }
        if self.iteration.is_none() {
            self.iteration = self.time.map(Deadline::renewed);
            self.cursor.begin_iteration(self.iteration);
        }
        let outcome = ready!(self.poll_iteration(cx));
        // Several `getMore` commands for one event share one deadline.
        if !matches!(outcome, Ok(Advance::NoneYet)) {
            self.iteration = None;
        }
        match &outcome {
            Ok(_) => {}
            // Client-side operations timeout: the stream remains usable, and the next iteration
            // resumes it.
            Err(error) if error.is_timeout() => {
                self.cursor.close();
                self.interrupted = true;
            }
            Err(error) => self.fail(error.clone()),
        }
        self.release_if_ended();
        Poll::Ready(outcome)
    }

    /// Ends the iteration: the next one has the full time-out.
    pub(super) fn end_iteration(&mut self) {
        self.iteration = None;
    }

    fn poll_iteration(&mut self, cx: &mut Context<'_>) -> Poll<Result<Advance>> {
        if self.interrupted {
            self.resuming = Some(self.resume(false)?);
            self.interrupted = false;
        }
        loop {
            let get_more_sent =
                self.resuming.as_ref().is_some_and(|resuming| resuming.get_more_sent);
            ready!(self.poll_resumed(cx))?;
            if get_more_sent && !self.cursor.has_documents() {
                return Poll::Ready(Ok(Advance::NoneYet));
            }
            match ready!(self.cursor.poll_try_advance(cx)) {
                Ok(advance) => return Poll::Ready(self.record_advance(advance)),
                Err(error) if self.cursor.has_get_more_failed() && is_resumable(&error) => {
                    self.resuming = Some(self.resume(true)?);
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// Updates the position after an advance.
    fn record_advance(&mut self, advance: Advance) -> Result<Advance> {
        match advance {
            Advance::Document => {
                let id = self.cursor.current().and_then(|event| event.get("_id").ok()?);
                let id = id.ok_or_else(|| Error::new(ErrorKind::MissingResumeToken))?.into();
                self.position.event_returned(id, batch_state(&self.cursor));
            }
            Advance::NoneYet => self.position.batch_received(batch_state(&self.cursor)),
            Advance::End => {}
        }
        Ok(advance)
    }

    /// Sends the `aggregate` that replaces the cursor, with the read preference of the stream.
    fn resume(&self, get_more_sent: bool) -> Result<Resumption> {
        let (command, more) = self.plan.begin(&self.position.resumption())?;
        // The specification: the stream resumes in the same session.
        let command =
            Command { session: self.session.clone(), deadline: self.iteration, ..command };
        Ok(Resumption { pending: spawn_command(&self.client, command), more, get_more_sent })
    }

    fn poll_resumed(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let Some(resuming) = &mut self.resuming else { return Poll::Ready(Ok(())) };
        let answered = ready!(poll_pending(&mut resuming.pending, cx));
        let more = std::mem::take(&mut resuming.more);
        self.resuming = None;
        self.cursor = open(&self.client, answered?, more)?;
        self.cursor.begin_iteration(self.iteration);
        self.position.batch_received(batch_state(&self.cursor));
        Poll::Ready(Ok(()))
    }

    /// Stores the error, so that it is not mistaken for the end.
    fn fail(&mut self, error: Error) {
        self.cursor.close();
        self.failure = Some(error);
    }

    fn release_if_ended(&mut self) {
        if !self.cursor.is_open() && self.resuming.is_none() && !self.interrupted {
            self.session = None;
        }
    }
}

/// Kills the cursor of a resumption in progress.
impl Drop for RawChangeStream {
    fn drop(&mut self) {
        let Some(Resumption { pending, more, .. }) = self.resuming.take() else { return };
        let client = self.client.clone();
        self.client.executor().spawn(async move {
            if let Ok(Ok(reply)) = pending.await {
                drop(open(&client, reply, more));
            }
        });
    }
}

fn open(client: &Client, reply: Reply, more: GetMoreOptions) -> Result<RawCursor> {
    Ok(RawCursor::new(client, reply, more)?.replaceable())
}

/// Returns the state of the cursor's batch.
fn batch_state(cursor: &RawCursor) -> BatchState<'_> {
    BatchState { is_empty: !cursor.has_documents(), post_batch_token: cursor.post_batch_token() }
}
