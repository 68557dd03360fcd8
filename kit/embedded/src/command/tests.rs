//! Commands on a store of their own. The expected replies come from real servers.

mod aggregate;
mod collections;
mod explain;
mod indexes;
mod info;
mod merge;
mod reads;

use std::sync::Mutex;

use bson::{Bson, DateTime, Document, Timestamp, doc};
use steadfast_query::{Environment, Fault};

use super::{Handler, ReadContext, ServerInfo, WriteContext, find};
use crate::{
    call::Call,
    change::{BatchProgress, Change, ChangeWriter, Statement},
    cursor::Cursors,
    namespace::Namespace,
    oplog::MemberHistory,
    store::Store,
};

/// A standalone server without network: each change is applied at once.
struct TestServer {
    data: Data,
    cursors: Mutex<Cursors>,
    server_info: ServerInfo,
    now: DateTime,
    seed: u64,
}

/// Data of the server.
#[derive(Default)]
struct Data {
    store: Store,
    reserved: Vec<Bson>,
}

impl ChangeWriter for Data {
    fn store(&self) -> &Store {
        &self.store
    }

    fn reserve(&mut self, _: &Namespace, ids: &[&Bson]) -> Result<(), Fault> {
        self.reserved.extend(ids.iter().map(|id| (*id).clone()));
        Ok(())
    }

    fn apply_change(&mut self, change: Change, _: Option<Statement>) -> Result<(), Fault> {
        self.store.check_and_apply(&change)?;
        if let Change::Insert { document, .. } | Change::Replace { document, .. } = &change {
            let id = document.get("_id").expect("a document has an _id");
            assert!(self.reserved.contains(id), "{id} was not reserved");
        }
        Ok(())
    }

    fn recorded(&self, _: i32) -> Option<Document> {
        None
    }
}

impl TestServer {
    fn new() -> Self {
        Self {
            data: Data::default(),
            cursors: Mutex::default(),
            server_info: ServerInfo {
                version: String::from("6.0.5"),
                max_wire_version: 17,
                address: String::from("localhost:27017"),
                set_name: Some(String::from("rs")),
                process_id: 1,
                started: DateTime::from_millis(0),
            },
            now: DateTime::from_millis(10_000),
            seed: 0,
        }
    }

    /// A server with these documents in `d.c`.
    fn with(documents: impl IntoIterator<Item = Document>) -> Self {
        let mut server = Self::new();
        server.fill("c", documents);
        server
    }

    fn fill(&mut self, collection: &str, documents: impl IntoIterator<Item = Document>) {
        let documents: Vec<Document> = documents.into_iter().collect();
        self.ok(doc! { "insert": collection, "documents": documents });
    }

    /// Runs a command on the database `d`, or on its `$db`.
    fn run(&mut self, command: Document) -> Result<Document, Fault> {
        let name = command.keys().next().expect("a command has a name").clone();
        let database = command.get_str("$db").unwrap_or("d").to_owned();
        let call = Call::read(&name, database, command)?;
        self.seed += 1;
        let mut env = Environment::new(self.now, Timestamp { time: 1, increment: 1 }, self.seed);
        env.dialect = self.server_info.dialect();
        let command = find(&name).expect("a known command");
        match (command.run)(&call.body) {
            Handler::Read(run) => run(&ReadContext {
                call: &call,
                env: &env,
                store: &self.data.store,
                history: &MemberHistory::default().into(),
                cursors: &self.cursors,
                server_info: &self.server_info,
            }),
            Handler::Write(run) => run(&mut WriteContext {
                call: &call,
                env: &env,
                changes: &mut self.data,
                seen: None,
                progress: &mut BatchProgress::default(),
                cursors: &self.cursors,
                server_info: &self.server_info,
            }),
        }
    }

    #[track_caller]
    fn ok(&mut self, command: Document) -> Document {
        let shown = command.to_string();
        match self.run(command) {
            Ok(reply) => reply,
            Err(fault) => panic!("{shown}: {fault}"),
        }
    }

    /// Runs a command on the database `admin`.
    #[track_caller]
    fn admin(&mut self, mut command: Document) -> Document {
        command.insert("$db", "admin");
        self.ok(command)
    }

    #[track_caller]
    fn expect_error(&mut self, command: Document) -> (i32, String) {
        let shown = command.to_string();
        match self.run(command) {
            Ok(reply) => panic!("{shown}: {reply}"),
            Err(fault) => (fault.code.number, fault.message),
        }
    }

    /// Documents of the first batch.
    #[track_caller]
    fn batch(&mut self, command: Document) -> Vec<Document> {
        let reply = self.ok(command);
        let cursor = reply.get_document("cursor").expect("it has a cursor");
        let batch = cursor.get_array("firstBatch").or(cursor.get_array("nextBatch"));
        batch.expect("it has a batch").iter().map(|it| it.as_document().unwrap().clone()).collect()
    }

    /// The `_id`s of the first batch.
    #[track_caller]
    fn ids(&mut self, command: Document) -> Vec<i32> {
        self.batch(command).iter().map(|it| it.get_i32("_id").expect("an int")).collect()
    }

    /// All documents of a collection.
    fn documents(&mut self, collection: &str) -> Vec<Document> {
        self.batch(doc! { "find": collection })
    }
}

/// Cursor id of a reply.
fn cursor_id(reply: &Document) -> i64 {
    reply.get_document("cursor").unwrap().get_i64("id").unwrap()
}

/// Documents with `_id`s from one to `count`, with `a` from 0 to 2.
fn numbers(count: i32) -> impl Iterator<Item = Document> {
    (1..=count).map(|number| doc! { "_id": number, "a": number % 3 })
}
