//! Telling of a command: started, then succeeded or failed, exactly once (pitfall 38).

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

/// A command under way that somebody listens to. If it is dropped, so was the future of the call,
/// and that is what is told.
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
    /// Tells that a command is about to be sent. Costs nothing if nobody listens.
    pub(super) fn start(
        executor: &Executor,
        outgoing: &Outgoing<'_>,
        connection: &Connection,
        request_id: i32,
        operation_id: i64,
    ) -> Self {
        if !executor.watches_commands() {
            return Self(None);
        }
        let watched = StartedCommand {
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
        let command = if watched.sensitive { Document::new() } else { outgoing.to_document() };
        executor.tell_of_command(CommandEvent::Started(CommandStartedEvent {
            command,
            db: watched.db.clone(),
            command_name: watched.name.clone(),
            request_id,
            operation_id,
            connection: watched.connection.clone(),
            service_id: watched.service_id,
        }));
        Self(Some(Box::new(watched)))
    }

    /// Tells how it ended.
    pub(super) fn finish(mut self, outcome: Result<&[u8], &Error>) {
        let Some(watched) = self.0.take() else { return };
        match outcome {
            Ok(reply) => watched.succeeded(raw(reply)),
            Err(error) => watched.failed(error),
        }
    }
}

impl Drop for CommandEventGuard {
    fn drop(&mut self) {
        if let Some(watched) = self.0.take() {
            let why = "the future of the operation was dropped before its end";
            let why = Error::network(NetworkFailure::ClosedByUs, why);
            let why = why.with_server(&watched.connection.address);
            watched.failed(&why);
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
        self.executor.tell_of_command(CommandEvent::Succeeded(CommandSucceededEvent {
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
        self.executor.tell_of_command(CommandEvent::Failed(CommandFailedEvent {
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
