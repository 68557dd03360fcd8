//! Telling of a command: started, then succeeded or failed, exactly once (pitfall 38).

use std::{io, time::Instant};

use bson::{Bson, Document, RawDocument, oid::ObjectId};

use super::raw;
use crate::{
    Client,
    command::Documents,
    connection::{Connection, Outgoing},
    error::Error,
    event::command::{
        CommandEvent, CommandFailedEvent, CommandStartedEvent, CommandSucceededEvent,
        ConnectionInfo, is_sensitive,
    },
};

/// A command under way that somebody listens to. If it is dropped, so was the future of the call,
/// and that is what is told.
pub(super) struct Watch(Option<Box<Watched>>);

struct Watched {
    client: Client,
    began: Instant,
    name: String,
    db: String,
    request_id: i32,
    operation_id: i64,
    connection: ConnectionInfo,
    service_id: Option<ObjectId>,
    sensitive: bool,
}

impl Watch {
    /// Tells that a command is about to be sent. Costs nothing if nobody listens.
    pub(super) fn start(
        client: &Client,
        outgoing: &Outgoing<'_>,
        connection: &Connection,
        request_id: i32,
        operation_id: i64,
    ) -> Self {
        if !client.watches_commands() {
            return Self(None);
        }
        let watched = Watched {
            client: client.clone(),
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
        client.tell_of_command(CommandEvent::Started(CommandStartedEvent {
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

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(watched) = self.0.take() {
            let why = io::Error::other("the future of the operation was dropped before its end");
            let why = Error::from(why).with_server(&watched.connection.address);
            watched.failed(&why);
        }
    }
}

impl Watched {
    fn succeeded(self, reply: &RawDocument) {
        let reply = if self.sensitive {
            Document::new()
        } else {
            Document::try_from(reply).unwrap_or_default()
        };
        self.client.tell_of_command(CommandEvent::Succeeded(CommandSucceededEvent {
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
        self.client.tell_of_command(CommandEvent::Failed(CommandFailedEvent {
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

/// Documents that travel beside a command, as the array that they are.
fn array(documents: &Documents<'_>) -> Vec<Bson> {
    let mut array = Vec::new();
    let shown = documents.for_each(|document| {
        array.push(Bson::Document(Document::try_from(document).unwrap_or_default()));
    });
    debug_assert!(shown.is_ok(), "{shown:?}");
    array
}

impl Outgoing<'_> {
    /// The command as a document, as events show it: with what is added for the attempt, and with
    /// the documents beside it in the field whose array they are.
    fn to_document(&self) -> Document {
        let mut document = Document::try_from(self.body).unwrap_or_default();
        if let Some(beside) = &self.beside {
            document.insert(beside.identifier.as_str(), array(&beside.documents));
            if let Some(ahead) = beside.ahead {
                let documents = Documents::Whole(&ahead.documents);
                document.insert(ahead.identifier.as_str(), array(&documents));
            }
        }
        document.insert("$db", self.database);
        for (key, value) in [("lsid", self.lsid), ("$clusterTime", self.cluster_time)] {
            if let Some(Ok(value)) = value.map(Document::try_from) {
                document.insert(key, value);
            }
        }
        if let Some(number) = self.txn_number {
            document.insert("txnNumber", number);
        }
        if let Some(millis) = self.max_time {
            document.insert("maxTimeMS", millis);
        }
        if self.starts_transaction {
            document.insert("startTransaction", true);
        }
        if self.in_transaction {
            document.insert("autocommit", false);
        }
        if let Some(preference) = self.read_preference {
            document.insert("$readPreference", preference.to_document());
        }
        if let Some(api) = self.server_api {
            api.append_to(&mut document);
        }
        document
    }
}
