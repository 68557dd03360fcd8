//! Sessions on a real replica set: which commands run in which, what they guarantee, and that they
//! go back to the pool when, and only when, they may.

mod cursors;
mod guarantees;
mod pooling;
mod prose;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use steadfast::{
    Client, Collection,
    bson::{Document, doc},
    error::{Error, ErrorKind},
    event::{EventHandler, command::CommandEvent},
    options::{ClientOptions, WriteConcern},
};

/// What a client said and heard, in order.
#[derive(Clone, Default)]
struct Talk(Arc<Mutex<Vec<CommandEvent>>>);

impl Talk {
    fn events(&self) -> Vec<CommandEvent> {
        self.0.lock().unwrap().clone()
    }

    fn clear(&self) {
        self.0.lock().unwrap().clear();
    }

    /// The commands that were sent.
    fn sent(&self) -> Vec<Document> {
        let started = |event| match event {
            CommandEvent::Started(event) => Some(event.command),
            _ => None,
        };
        self.events().into_iter().filter_map(started).collect()
    }

    /// The commands of this name that were sent.
    fn named(&self, name: &str) -> Vec<Document> {
        let mut sent = self.sent();
        sent.retain(|command| command.keys().next().is_some_and(|key| key == name));
        sent
    }

    /// The last command of this name.
    #[track_caller]
    fn last(&self, name: &str) -> Document {
        self.named(name).pop().unwrap_or_else(|| panic!("no {name} was sent"))
    }

    /// The reply to the last command of this name.
    #[track_caller]
    fn last_reply(&self, name: &str) -> Document {
        let succeeded = |event| match event {
            CommandEvent::Succeeded(event) if event.command_name == name => Some(event.reply),
            _ => None,
        };
        let mut replies: Vec<_> = self.events().into_iter().filter_map(succeeded).collect();
        replies.pop().unwrap_or_else(|| panic!("no {name} succeeded"))
    }

    /// The sessions of all commands, each once, in the order of their first use.
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

    /// Waits until so many commands of this name were sent.
    async fn wait_for(&self, name: &str, count: usize) {
        let sent = async {
            while self.named(name).len() < count {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), sent).await.expect("it is sent in time");
    }
}

async fn client_with(change: impl FnOnce(&mut ClientOptions)) -> (Client, Talk) {
    client_at(&testbed::shared::uri().expect("a deployment"), change).await
}

async fn client_at(uri: &str, change: impl FnOnce(&mut ClientOptions)) -> (Client, Talk) {
    let talk = Talk::default();
    let log = talk.clone();
    let mut options = ClientOptions::parse(uri).await.unwrap();
    options.command_event_handler =
        Some(EventHandler::callback(move |event| log.0.lock().unwrap().push(event)));
    change(&mut options);
    (Client::with_options(options).unwrap(), talk)
}

/// A collection of `count` documents `{ _id: 0 }`, … on all members, and a client that has said
/// nothing yet.
async fn collection(name: &str, count: i32) -> (Client, Collection<Document>, Talk) {
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
    let (client, talk) = client_with(|_| ()).await;
    let collection = client.database("sessions").collection(name);
    (client, collection, talk)
}

#[track_caller]
fn assert_invalid_argument(error: &Error) {
    assert!(matches!(&*error.kind, ErrorKind::InvalidArgument { .. }), "{error}");
}

/// Does everything that takes a session once, with what follows put behind each action, and gives
/// the names and results.
macro_rules! every_action {
    ($client:expr, $($run:tt)*) => {{
        use steadfast::{
            IndexModel, SearchIndexModel,
            bson::{Document, doc, rawdoc},
            options::InsertOneModel,
        };
        let client = &$client;
        let database = client.database("sessions");
        let c = database.collection::<Document>("every_action");
        let other = client.database("sessions_dropped");
        let model = SearchIndexModel::builder().definition(doc! {}).build();
        let index = |key: &str| IndexModel::builder().keys(doc! { key: 1 }).build();
        let set = doc! { "$set": { "x": 1 } };
        let bulk = [InsertOneModel::new(doc! {}).into()];
        let cursor = doc! { "find": "every_action" };
        let raw_cursor = rawdoc! { "find": "every_action" };
        vec![
            ("list_databases", client.list_databases() $($run)*.await.map(drop)),
            ("list_database_names", client.list_database_names() $($run)*.await.map(drop)),
            ("Database::drop", other.drop() $($run)*.await),
            ("Collection::drop", c.drop() $($run)*.await),
            ("create_collection", database.create_collection("every_action") $($run)*.await),
            ("list_collections", database.list_collections() $($run)*.await.map(drop)),
            ("list_collection_names", database.list_collection_names() $($run)*.await.map(drop)),
            ("run_command", database.run_command(doc! { "ping": 1 }) $($run)*.await.map(drop)),
            ("run_raw", database.run_raw_command(rawdoc! { "ping": 1 }) $($run)*.await.map(drop)),
            ("run_cursor_command", database.run_cursor_command(cursor) $($run)*.await.map(drop)),
            ("run_raw_cursor", database.run_raw_cursor_command(raw_cursor) $($run)*.await.map(drop)),
            ("Database::aggregate", database.aggregate([doc! { "$documents": [] }]) $($run)*.await.map(drop)),
            ("insert_one", c.insert_one(doc! { "_id": 1 }) $($run)*.await.map(drop)),
            ("insert_many", c.insert_many([doc! {}, doc! {}]) $($run)*.await.map(drop)),
            ("bulk_write", c.bulk_write(bulk) $($run)*.await.map(drop)),
            ("update_one", c.update_one(doc! {}, set.clone()) $($run)*.await.map(drop)),
            ("update_many", c.update_many(doc! {}, set.clone()) $($run)*.await.map(drop)),
            ("replace_one", c.replace_one(doc! {}, doc! {}) $($run)*.await.map(drop)),
            ("find_one_and_update", c.find_one_and_update(doc! {}, set) $($run)*.await.map(drop)),
            ("find_one_and_replace", c.find_one_and_replace(doc! {}, doc! {}) $($run)*.await.map(drop)),
            ("find_one_and_delete", c.find_one_and_delete(doc! {}) $($run)*.await.map(drop)),
            ("find", c.find(doc! {}) $($run)*.await.map(drop)),
            ("find_one", c.find_one(doc! {}) $($run)*.await.map(drop)),
            ("aggregate", c.aggregate([doc! { "$match": {} }]) $($run)*.await.map(drop)),
            ("distinct", c.distinct("x", doc! {}) $($run)*.await.map(drop)),
            ("count_documents", c.count_documents(doc! {}) $($run)*.await.map(drop)),
            ("estimated_document_count", c.estimated_document_count() $($run)*.await.map(drop)),
            ("delete_one", c.delete_one(doc! {}) $($run)*.await.map(drop)),
            ("delete_many", c.delete_many(doc! {}) $($run)*.await.map(drop)),
            ("create_index", c.create_index(index("x")) $($run)*.await.map(drop)),
            ("create_indexes", c.create_indexes([index("y")]) $($run)*.await.map(drop)),
            ("list_indexes", c.list_indexes() $($run)*.await.map(drop)),
            ("list_index_names", c.list_index_names() $($run)*.await.map(drop)),
            ("drop_index", c.drop_index("x_1") $($run)*.await),
            ("drop_indexes", c.drop_indexes() $($run)*.await),
            ("create_search_index", c.create_search_index(model.clone()) $($run)*.await.map(drop)),
            ("create_search_indexes", c.create_search_indexes([model]) $($run)*.await.map(drop)),
            ("update_search_index", c.update_search_index("i", doc! {}) $($run)*.await),
            ("drop_search_index", c.drop_search_index("i") $($run)*.await),
            ("list_search_indexes", c.list_search_indexes() $($run)*.await.map(drop)),
        ]
    }};
}
use every_action;
