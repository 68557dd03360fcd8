//! Sessions on a real replica set: implicit and explicit sessions, their guarantees, and their return to the pool.

mod cursors;
mod guarantees;
mod pooling;
mod prose;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use crate::every_action::every_action;
use steadfast::{
    Client, Collection,
    bson::{Document, doc},
    error::{Error, ErrorKind},
    event::{EventHandler, command::CommandEvent},
    options::{ClientOptions, WriteConcern},
};

/// Command events of a client, in order.
#[derive(Clone, Default)]
struct CommandLog(Arc<Mutex<Vec<CommandEvent>>>);

impl CommandLog {
    fn events(&self) -> Vec<CommandEvent> {
        self.0.lock().unwrap().clone()
    }

    fn clear(&self) {
        self.0.lock().unwrap().clear();
    }

    /// Returns the sent commands.
    fn sent(&self) -> Vec<Document> {
        let started = |event| match event {
            CommandEvent::Started(event) => Some(event.command),
            _ => None,
        };
        self.events().into_iter().filter_map(started).collect()
    }

    /// Returns the sent commands with this name.
    fn named(&self, name: &str) -> Vec<Document> {
        let mut sent = self.sent();
        sent.retain(|command| command.keys().next().is_some_and(|key| key == name));
        sent
    }

    /// Returns the last command with this name.
    #[track_caller]
    fn last(&self, name: &str) -> Document {
        self.named(name).pop().unwrap_or_else(|| panic!("no {name} was sent"))
    }

    /// Returns the reply to the last command with this name.
    #[track_caller]
    fn last_reply(&self, name: &str) -> Document {
        let succeeded = |event| match event {
            CommandEvent::Succeeded(event) if event.command_name == name => Some(event.reply),
            _ => None,
        };
        let mut replies: Vec<_> = self.events().into_iter().filter_map(succeeded).collect();
        replies.pop().unwrap_or_else(|| panic!("no {name} succeeded"))
    }

    /// Returns the `lsid` of all commands without duplicates, in the order of their first use.
    fn sessions(&self) -> Vec<Document> {
        let mut sessions = Vec::new();
        for command in self.sent() {
            if let Ok(id) = command.get_document("lsid")
                && !sessions.contains(id)
            {
                sessions.push(id.clone());
            }
        }
        sessions
    }

    /// Waits until this number of commands with this name were sent.
    async fn wait_for(&self, name: &str, count: usize) {
        let sent = async {
            while self.named(name).len() < count {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), sent).await.expect("the command is sent");
    }
}

async fn client_with(change: impl FnOnce(&mut ClientOptions)) -> (Client, CommandLog) {
    client_at(&testbed::shared::uri().expect("a deployment"), change).await
}

async fn client_at(uri: &str, change: impl FnOnce(&mut ClientOptions)) -> (Client, CommandLog) {
    let log = CommandLog::default();
    let recorder = log.clone();
    let mut options = ClientOptions::parse(uri).await.unwrap();
    options.command_event_handler =
        Some(EventHandler::callback(move |event| recorder.0.lock().unwrap().push(event)));
    change(&mut options);
    (Client::with_options(options).unwrap(), log)
}

/// Creates a collection of `count` documents `{ _id: 0 }`, … on all members, and a client that has sent no command
/// yet.
async fn collection(name: &str, count: i32) -> (Client, Collection<Document>, CommandLog) {
    let (before, _) = client_with(|_| ()).await;
    let hello = before.database("admin").run_command(doc! { "hello": 1 }).await.unwrap();
    let members = u32::try_from(hello.get_array("hosts").unwrap().len()).unwrap();
    let everywhere = WriteConcern::nodes(members);
    let prepared = before.database("sessions").collection::<Document>(name);
    prepared.drop().write_concern(everywhere.clone()).await.unwrap();
    if count > 0 {
        let documents = (0..count).map(|id| doc! { "_id": id });
        prepared.insert_many(documents).write_concern(everywhere).await.unwrap();
    }
    before.shutdown().await;
    let (client, log) = client_with(|_| ()).await;
    let collection = client.database("sessions").collection(name);
    (client, collection, log)
}

#[track_caller]
fn assert_invalid_argument(error: &Error) {
    assert!(matches!(&*error.kind, ErrorKind::InvalidArgument { .. }), "{error}");
}
