//! Parts shared by the actions that write: batches, deadlines, checks of hints and sessions.

use std::{future::poll_fn, pin::pin, sync::Arc, time::Duration};

use bson::RawDocument;
use steadfast_core::{
    description::{ServerDescription, ServerType},
    selection::SelectionTarget,
};

use crate::{
    Client, ClientSession,
    collection::CollectionHandle,
    command::Command,
    deadline::{Deadline, TimeLimit, now},
    error::{Error, ErrorKind, Result, TimeSpent},
    operation::{
        WriteLimits,
        bulk::{self, CollectionBulkTally, Statements},
        read_reply,
        write::Settings,
    },
    session::{self, Session},
    topology::SelectedServer,
    trace,
};

/// First wire version with `hint` for `delete` and `findAndModify`: that of MongoDB 4.4.
const HINTS_EVERYWHERE: i32 = 9;

/// Runs a write command. The result of an unacknowledged one is the default of `T`.
pub(super) async fn run<T: Default>(
    client: &Client,
    command: Box<Command>,
    read: impl FnOnce(&RawDocument) -> Result<T>,
) -> Result<T> {
    let acknowledged = command.acknowledged;
    let reply = client.executor().run(command).await?;
    if acknowledged { read_reply(&reply, read) } else { Ok(T::default()) }
}

/// Returns an error if the selected server does not support `hint` for this write.
///
/// The CRUD specification: older servers report the option as an error, which an unacknowledged
/// write (`w: 0`) does not receive.
pub(super) async fn check_unacknowledged_hint(
    client: &Client,
    operation: trace::Operation<'_>,
    deadline: Option<Deadline>,
) -> Result<()> {
    let (selected, _) = select(client, operation, deadline).await?;
    // Servers behind a load balancer are of MongoDB 5.0 or later.
    let is_too_old = |server: &ServerDescription| {
        server.server_type != ServerType::LoadBalancer && server.max_wire_version < HINTS_EVERYWHERE
    };
    if selected.description().is_some_and(is_too_old) {
        let message = "hint in an unacknowledged write (w: 0) requires MongoDB 4.4 or later";
        let error = Error::new(ErrorKind::IncompatibleServer { message: message.to_owned() });
        return Err(error.with_server(&selected.server.address));
    }
    Ok(())
}

/// Returns the explicit session for a collection's write of several batches.
pub(super) fn share(
    session: Option<&mut ClientSession>,
    collection: &CollectionHandle,
    settings: &mut Settings<'_>,
) -> Result<Option<Arc<Session>>> {
    share_with(session, &collection.client, settings, |settings| {
        bulk::is_acknowledged(collection, settings)
    })
}

/// Returns the explicit session for a write of several batches. An unacknowledged write concern is
/// an error here, before the first batch, because only the last of many may be unacknowledged. In a
/// transaction the settings have no write concern.
pub(super) fn share_with(
    session: Option<&mut ClientSession>,
    client: &Client,
    settings: &mut Settings<'_>,
    is_acknowledged: impl FnOnce(&Settings<'_>) -> bool,
) -> Result<Option<Arc<Session>>> {
    let Some(session) = session else { return Ok(None) };
    session.begin_use();
    let session = session.share(client)?;
    settings.in_transaction = session.is_in_transaction();
    if settings.in_transaction && settings.write_concern.is_some() {
        return Err(session::explicit_write_concern());
    }
    if !is_acknowledged(settings) {
        return Err(session::unacknowledged());
    }
    Ok(Some(session))
}

/// Starts the deadline of a write of several commands, if it has a time-out.
pub(super) fn start_deadline(
    own: Option<Duration>,
    session: Option<&ClientSession>,
    inherited: Option<Duration>,
) -> Result<Option<Deadline>> {
    if let Some(session) = session
        && let Some(deadline) = session.shared().operation_deadline(own.is_some())?
    {
        return Ok(Some(deadline));
    }
    Ok(TimeLimit::of(own, inherited).map(|limit| Deadline::begin(limit.timeout)))
}

/// Selects a server for writes and measures the time that it took.
pub(super) async fn select(
    client: &Client,
    operation: trace::Operation<'_>,
    deadline: Option<Deadline>,
) -> Result<(SelectedServer, TimeSpent)> {
    let began = now();
    let until = client.executor().topology().selection_deadline(deadline, began);
    let selected =
        client.executor().topology().select(SelectionTarget::Write, &[], operation, until).await;
    let selecting = now().saturating_duration_since(began);
    let spent = TimeSpent { selecting, ..TimeSpent::default() };
    match (selected, deadline) {
        (Err(error), Some(deadline)) => {
            let error = deadline.or_exceeded(error, spent);
            if error.is_timeout() {
                client.executor().counters().count_timeout();
            }
            Err(error)
        }
        (selected, _) => Ok((selected?, spent)),
    }
}

/// Marks the error of a batch with a deadline: the server's time-out is then that of the call.
pub(super) fn mark_limited<T>(concluded: Result<T>, deadline: Option<Deadline>) -> Result<T> {
    match deadline {
        Some(_) => concluded.map_err(Error::limited),
        None => concluded,
    }
}

/// Runs `work` in small steps while `run` is pending.
pub(super) async fn run_with_idle_work<T>(
    run: impl Future<Output = T>,
    mut work: impl FnMut() -> bool,
) -> T {
    let mut run = pin!(run);
    let mut is_done = false;
    poll_fn(|cx| {
        let polled = run.as_mut().poll(cx);
        if polled.is_pending() && !is_done {
            is_done = !work();
            cx.waker().wake_by_ref();
        }
        polled
    })
    .await
}

/// Results of the executed batches, and the error that prevented the next one.
pub(super) type BatchesOutcome = (CollectionBulkTally, Option<Error>);

/// Executes the batches in one session: the explicit session, or the implicit session of the first
/// batch.
pub(super) async fn run_batches(
    collection: &CollectionHandle,
    statements: &Statements<'_>,
    settings: &Settings<'_>,
    mut session: Option<Arc<Session>>,
    deadline: Option<Deadline>,
) -> Result<BatchesOutcome> {
    let client = &collection.client;
    let operation_id = client.executor().begin_operation();
    let operation = trace::Operation { name: statements.first_command(), id: operation_id };
    // The limits of a message are those of the server selected for the first batch.
    let selected = select(client, operation, deadline).await;
    let (selected, mut spent) =
        selected.map_err(|error| session::without_server(session.as_deref(), error))?;
    let batches = bulk::plan(statements, collection, settings, &WriteLimits::of(&selected))?;
    let mut selected = Some(selected);
    let mut tally = CollectionBulkTally::default();
    for (done, batch) in (1..).zip(&batches) {
        let followed = done < batches.len();
        let mut command = bulk::command(collection, settings, batch, followed)?;
        let acknowledged = command.acknowledged;
        // pitfall 19
        command = command.in_shared(session.take().filter(|_| acknowledged))?;
        command.selected = selected.take();
        (command.deadline, command.spent) = (deadline, spent);
        let lent = statements.document_sequence(batch);
        let mut reply =
            match client.executor().run_in_operation(operation_id, command, Some(&lent)).await {
                Ok(reply) => reply,
                Err(error) => return Ok((tally, Some(error))),
            };
        session = reply.session.take();
        spent = reply.clock.map_or(spent, |clock| clock.spent);
        if !acknowledged {
            tally.count_unacknowledged(batch);
        } else if let Err(error) = tally.count(statements, batch, settings.ordered, &reply) {
            return Ok((tally, Some(error)));
        }
        if settings.ordered && tally.has_write_errors() {
            break;
        }
    }
    Ok((tally, None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn idle_work_runs_only_while_pending() {
        let mut done = 0;
        let mut work = || {
            done += 1;
            done < 3
        };
        assert_eq!(run_with_idle_work(async { 5 }, &mut work).await, 5);
        let (sender, answer) = tokio::sync::oneshot::channel();
        tokio::spawn(async move {
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
            sender.send(7).unwrap();
        });
        assert_eq!(run_with_idle_work(answer, &mut work).await, Ok(7));
        assert_eq!(done, 3);
    }
}
