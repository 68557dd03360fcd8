//! A change stream without the type of its events: a cursor that is replaced when it is lost.
//!
//! The `aggregate` that replaces a cursor runs in a task of its own, as each `getMore` does: so the
//! future of `next` can be dropped at any time without an event being lost.

use std::{
    sync::Arc,
    task::{Context, Poll, ready},
};

use bson::RawDocument;

use super::{
    event::ResumeToken,
    position::{Batch, Position},
    resumable::is_resumable,
};
use crate::{
    Client,
    command::{Command, Reply},
    cursor::{Advance, Answer, RawCursor, ask, poll_answer},
    deadline::Deadline,
    error::{Error, ErrorKind, Result},
    operation::change_stream::Beginning,
    operation::{change_stream::Plan, get_more::More},
    session::Session,
};

/// A change stream whose events are bytes.
#[derive(Debug)]
pub(super) struct Watching {
    client: Client,
    plan: Plan,
    position: Position,
    /// The session that all its commands run in; an implicit one goes back as soon as the stream
    /// has ended (pitfall 20).
    session: Option<Arc<Session>>,
    cursor: RawCursor,
    /// The `aggregate` that is under way to replace the cursor.
    resuming: Option<Resuming>,
    /// How long each step may take.
    time: Option<Deadline>,
    /// By when the step under way must be done.
    step: Option<Deadline>,
    /// The time of the latest step was over before it was done: the next takes the stream up again.
    interrupted: bool,
    /// Why there will be no more events though there may be some.
    failure: Option<Error>,
}

/// A stream that is being taken up again.
#[derive(Debug)]
struct Resuming {
    answer: Answer,
    /// How the cursor is to go on.
    more: More,
    /// Whether the step under way has asked for more already, which was refused.
    has_asked: bool,
}

impl Watching {
    /// Runs the command that makes the stream.
    pub(super) async fn begin(plan: Plan, session: Option<Arc<Session>>) -> Result<Self> {
        let client = plan.scope.client().clone();
        let (command, more) = plan.begin(&Beginning::AsAsked)?;
        let reply = client.executor().run(Command { session, ..command }).await?;
        let mut position = Position::new(&plan.options);
        let time = reply.body().get_timestamp("operationTime").ok();
        let session = reply.session.clone();
        let limit = reply.clock.map(|clock| clock.deadline);
        let cursor = open(&client, reply, more)?;
        position.began(rest_of(&cursor), time);
        let mut watching = Self {
            client,
            plan,
            position,
            session,
            cursor,
            resuming: None,
            time: limit,
            step: None,
            interrupted: false,
            failure: None,
        };
        watching.release_if_ended();
        Ok(watching)
    }

    /// The event that the stream is at.
    pub(super) fn current(&self) -> Option<&RawDocument> {
        self.cursor.current()
    }

    /// What the stream would be taken up after.
    pub(super) fn resume_token(&self) -> Option<&ResumeToken> {
        self.position.token()
    }

    /// Whether there may be another event.
    pub(super) fn is_alive(&self) -> bool {
        let is_lost = self.resuming.is_some() || self.interrupted;
        self.failure.is_none() && (is_lost || self.cursor.has_next())
    }

    /// Whether it failed, and said so.
    pub(super) fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Moves on to the next event, asking the server for more as often as it takes.
    pub(super) fn poll_advance(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool>> {
        loop {
            match ready!(self.poll_try_advance(cx))? {
                Advance::Document => return Poll::Ready(Ok(true)),
                Advance::End => return Poll::Ready(Ok(false)),
                Advance::NoneYet => {}
            }
        }
    }

    /// Moves on to the next event, asking the server for more at most once. A stream that was lost,
    /// before or by that, is taken up again.
    pub(super) fn poll_try_advance(&mut self, cx: &mut Context<'_>) -> Poll<Result<Advance>> {
        if let Some(failure) = &self.failure {
            return Poll::Ready(Err(failure.clone()));
        }
        if self.step.is_none() {
            self.step = self.time.map(Deadline::renewed);
            self.cursor.begin_step(self.step);
        }
        let outcome = ready!(self.poll_step(cx));
        // Several steps to one event share the time of one.
        if !matches!(outcome, Ok(Advance::NoneYet)) {
            self.step = None;
        }
        match &outcome {
            Ok(_) => {}
            // The specification on time limits: it stays as it is, and the next step resumes it.
            Err(error) if error.is_timeout() => {
                self.cursor.close();
                self.interrupted = true;
            }
            Err(error) => self.fail(error.clone()),
        }
        self.release_if_ended();
        Poll::Ready(outcome)
    }

    /// The next event will have its own time again.
    pub(super) fn end_step(&mut self) {
        self.step = None;
    }

    fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Result<Advance>> {
        if self.interrupted {
            self.resuming = Some(self.resume(false)?);
            self.interrupted = false;
        }
        loop {
            let has_asked = self.resuming.as_ref().is_some_and(|resuming| resuming.has_asked);
            ready!(self.poll_resumed(cx))?;
            if has_asked && !self.cursor.has_documents() {
                return Poll::Ready(Ok(Advance::NoneYet));
            }
            match ready!(self.cursor.poll_try_advance(cx)) {
                Ok(advance) => return Poll::Ready(self.moved(advance)),
                Err(error) if self.cursor.was_refused_more() && is_resumable(&error) => {
                    self.resuming = Some(self.resume(true)?);
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// Takes note of where the cursor has come to.
    fn moved(&mut self, advance: Advance) -> Result<Advance> {
        match advance {
            Advance::Document => {
                let id = self.cursor.current().and_then(|event| event.get("_id").ok()?);
                let id = id.ok_or_else(|| Error::new(ErrorKind::MissingResumeToken))?.into();
                self.position.event_given(id, rest_of(&self.cursor));
            }
            Advance::NoneYet => self.position.batch_came(rest_of(&self.cursor)),
            Advance::End => {}
        }
        Ok(advance)
    }

    /// Asks for a cursor in place of the one that was lost, wherever the original criteria allow.
    fn resume(&self, has_asked: bool) -> Result<Resuming> {
        let (command, more) = self.plan.begin(&self.position.resumption())?;
        // The specification: in the same session as before.
        let command = Command { session: self.session.clone(), deadline: self.step, ..command };
        Ok(Resuming { answer: ask(&self.client, command), more, has_asked })
    }

    fn poll_resumed(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let Some(resuming) = &mut self.resuming else { return Poll::Ready(Ok(())) };
        let answered = ready!(poll_answer(&mut resuming.answer, cx));
        let more = std::mem::take(&mut resuming.more);
        self.resuming = None;
        self.cursor = open(&self.client, answered?, more)?;
        self.cursor.begin_step(self.step);
        self.position.batch_came(rest_of(&self.cursor));
        Poll::Ready(Ok(()))
    }

    /// Remembers why it cannot go on, so that nobody takes this for the end.
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

/// A cursor that comes of resuming when nobody is there any more is one that the server is to
/// forget.
impl Drop for Watching {
    fn drop(&mut self) {
        let Some(Resuming { answer, more, .. }) = self.resuming.take() else { return };
        let client = self.client.clone();
        self.client.executor().spawn(async move {
            if let Ok(Ok(reply)) = answer.await {
                drop(open(&client, reply, more));
            }
        });
    }
}

fn open(client: &Client, reply: Reply, more: More) -> Result<RawCursor> {
    Ok(RawCursor::new(client, reply, more)?.replaceable())
}

/// What is left of the cursor's batch.
fn rest_of(cursor: &RawCursor) -> Batch<'_> {
    Batch { is_empty: !cursor.has_documents(), token_after: cursor.token_after() }
}
