//! Write commands: replies and stored documents.

mod batches;
mod bulk;
mod find_and_modify;
mod retries;
mod statements;

use std::{collections::BTreeMap, sync::Mutex};

use bson::{Bson, DateTime, Document, Timestamp, doc};
use steadfast_query::{Code, Environment, Fault, value};

use super::super::{Handler, ServerInfo, WriteContext, find};
use crate::{
    call::Call,
    change::{BatchProgress, Change, ChangeWriter, Statement},
    cursor::Cursors,
    namespace::Namespace,
    store::Store,
};

/// A standalone server without network: each change is applied at once.
#[derive(Default)]
struct WriteTestServer {
    store: Store,
    /// Recorded results of retryable writes, by `txnNumber` and statement id.
    records: BTreeMap<(i64, i32), Document>,
    number: Option<i64>,
    /// Documents that another session's transaction has changed.
    reserved_by_others: Vec<Bson>,
    reserved: Vec<Bson>,
    made: usize,
    max_wire_version: i32,
    seed: u64,
}

impl ChangeWriter for WriteTestServer {
    fn store(&self) -> &Store {
        &self.store
    }

    fn reserve(&mut self, _namespace: &Namespace, ids: &[&Bson]) -> Result<(), Fault> {
        if ids.iter().any(|id| {
            self.reserved_by_others
                .iter()
                .any(|reserved_by_others| value::equal(reserved_by_others, id))
        }) {
            return Err(Fault::new(Code::WRITE_CONFLICT, "WriteConflict error"));
        }
        self.reserved = ids.iter().map(|id| (*id).clone()).collect();
        Ok(())
    }

    fn apply_change(&mut self, change: Change, statement: Option<Statement>) -> Result<(), Fault> {
        self.store.check_and_apply(&change)?;
        let id = match &change {
            Change::Insert { document, .. } | Change::Replace { document, .. } => {
                document.get("_id")
            }
            Change::Delete { id, .. } => Some(id),
            _ => None,
        };
        if let Some(id) = id {
            assert!(
                self.reserved.iter().any(|reserved| value::equal(reserved, id)),
                "{id} was not reserved"
            );
        }
        if let (Some(number), Some(statement)) = (self.number, statement) {
            self.records.insert((number, statement.id), statement.outcome);
        }
        self.made += 1;
        Ok(())
    }

    fn recorded(&self, statement: i32) -> Option<Document> {
        self.records.get(&(self.number?, statement)).cloned()
    }
}

impl WriteTestServer {
    fn new() -> Self {
        Self { max_wire_version: 17, ..Self::default() }
    }

    /// A server with these documents in `shop.orders`.
    fn with(documents: impl IntoIterator<Item = Document>) -> Self {
        let mut server = Self::new();
        let documents: Vec<Document> = documents.into_iter().collect();
        server.ok(doc! { "insert": "orders", "documents": documents });
        server
    }

    /// Runs a command until its reply, or until it must wait.
    fn run_until_wait(
        &mut self,
        command: &Document,
        progress: &mut BatchProgress,
    ) -> Result<Document, Fault> {
        let name = command.keys().next().expect("a command has a name").clone();
        let database = if name == "bulkWrite" { "admin" } else { "shop" };
        let database = command.get_str("$db").unwrap_or(database).to_owned();
        let call = Call::read(&name, database, command.clone())?;
        let found = find(&name).expect("a known command");
        let Handler::Write(run) = (found.run)(&call.body) else {
            panic!("{name} is not a write command")
        };
        self.seed += 1;
        let env = Environment::new(
            DateTime::from_millis(1),
            Timestamp { time: 1, increment: 1 },
            self.seed,
        );
        let server_info = ServerInfo {
            version: "8.0.4".into(),
            max_wire_version: self.max_wire_version,
            address: "localhost:27017".into(),
            set_name: None,
            process_id: 1,
            started: DateTime::from_millis(0),
        };
        self.number =
            call.transaction.filter(|transaction| !transaction.multi_document).map(|it| it.number);
        let cursors = Mutex::new(Cursors::default());
        let mut writing = WriteContext {
            call: &call,
            env: &env,
            changes: self,
            seen: None,
            progress,
            cursors: &cursors,
            server_info: &server_info,
        };
        run(&mut writing)
    }

    fn run(&mut self, command: Document) -> Result<Document, Fault> {
        self.run_until_wait(&command, &mut BatchProgress::default())
    }

    fn ok(&mut self, command: Document) -> Document {
        self.run(command).expect("the command is executed")
    }

    fn expect_error(&mut self, command: Document) -> (i32, String) {
        let fault = self.run(command).expect_err("the command is rejected");
        (fault.code.number, fault.message)
    }

    /// Documents of a collection, in natural order.
    fn documents(&self, collection: &str) -> Vec<Document> {
        let collection = self.store.collection(&Namespace::new("shop", collection));
        collection.map_or_else(Vec::new, |it| it.documents().map(|it| (**it).clone()).collect())
    }

    fn change(&mut self, change: Change) {
        self.store.check_and_apply(&change).expect("the change can be made");
    }
}

/// The command as a retryable write with this `txnNumber`.
fn numbered(mut command: Document, number: i64) -> Document {
    let id = bson::Uuid::from_bytes([1; 16]);
    command.extend(doc! { "lsid": { "id": id }, "txnNumber": number });
    command
}

/// The command as part of a transaction.
fn in_transaction(command: Document) -> Document {
    let mut command = numbered(command, 1);
    command.extend(doc! { "autocommit": false, "startTransaction": true });
    command
}
