//! Command events: a started event, then exactly one succeeded or failed event (pitfall 38).

use std::time::Instant;

use bson::{Document, RawDocument, oid::ObjectId};

use super::raw;
use crate::{
    connection::{Connection, Outgoing},
    error::{Error, NetworkFailure},
    event::command::{
        CommandEvent, CommandFailedEvent, CommandStartedEvent, CommandSucceededEvent,
        ConnectionInfo, is_sensitive,
    },
    exec::Executor,
};

/// Guard of a command in progress, if there is a listener. Dropping it emits the failed event of a
/// dropped future.
pub(super) struct CommandEventGuard(Option<Box<StartedCommand>>);

struct StartedCommand {
    executor: Executor,
    began: Instant,
    name: String,
    db: String,
    request_id: i32,
    operation_id: i64,
    connection: ConnectionInfo,
    service_id: Option<ObjectId>,
    sensitive: bool,
}

impl CommandEventGuard {
    /// Emits the started event, unless there is no listener.
    pub(super) fn start(
        executor: &Executor,
        outgoing: &Outgoing<'_>,
        connection: &Connection,
        request_id: i32,
        operation_id: i64,
    ) -> Self {
        if !executor.monitors_commands() {
            return Self(None);
        }
        let started = StartedCommand {
            executor: executor.clone(),
            began: Instant::now(),
            name: outgoing.name.to_owned(),
            db: outgoing.database.to_owned(),
            request_id,
            operation_id,
            connection: connection.info(),
            service_id: connection.hello.service_id,
            sensitive: is_sensitive(outgoing.name, outgoing.body),
        };
        let command = if started.sensitive { Document::new() } else { outgoing.to_document() };
        executor.emit_command_event(CommandEvent::Started(CommandStartedEvent {
            command,
            db: started.db.clone(),
            command_name: started.name.clone(),
            request_id,
            operation_id,
            connection: started.connection.clone(),
            service_id: started.service_id,
        }));
        Self(Some(Box::new(started)))
    }

    /// Emits the succeeded or failed event.
    pub(super) fn finish(mut self, outcome: Result<&[u8], &Error>) {
        let Some(started) = self.0.take() else { return };
        match outcome {
            Ok(reply) => started.succeeded(raw(reply)),
            Err(error) => started.failed(error),
        }
    }
}

impl Drop for CommandEventGuard {
    fn drop(&mut self) {
        if let Some(started) = self.0.take() {
            let why = "the future of the operation was dropped";
            let why = Error::network(NetworkFailure::ClosedByClient, why);
            let why = why.with_server(&started.connection.address);
            started.failed(&why);
        }
    }
}

impl StartedCommand {
    fn succeeded(self, reply: &RawDocument) {
        let reply = if self.sensitive {
            Document::new()
        } else {
            Document::try_from(reply).unwrap_or_default()
        };
        self.executor.emit_command_event(CommandEvent::Succeeded(CommandSucceededEvent {
            duration: self.began.elapsed(),
            reply,
            command_name: self.name,
            db: self.db,
            request_id: self.request_id,
            operation_id: self.operation_id,
            connection: self.connection,
            service_id: self.service_id,
        }));
    }

    fn failed(self, error: &Error) {
        let failure = if self.sensitive { error.clone().redacted() } else { error.clone() };
        self.executor.emit_command_event(CommandEvent::Failed(CommandFailedEvent {
            duration: self.began.elapsed(),
            failure,
            command_name: self.name,
            db: self.db,
            request_id: self.request_id,
            operation_id: self.operation_id,
            connection: self.connection,
            service_id: self.service_id,
        }));
    }
}
