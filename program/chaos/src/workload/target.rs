//! Where the writes go, and what lies there before: documents in which a write shows once for each time that it
//! was applied.

use std::error::Error;

use crate::strategy::Strategy;
use steadfast::{
    Client, Collection, Database,
    bson::{Bson, Document, doc},
    options::{CollectionOptions, ReadConcern, WriteConcern},
};

use super::sequence::Sequence;
use crate::{account::Kind, plan::CLAIM};

/// How many operations share a document with a log, at most: so that it stays small.
const OPERATIONS_OF_A_LOG: u64 = 64;
/// How many documents are put there at a time.
const BATCH: usize = 1_000;
const DUPLICATE_KEY: i32 = 11000;
/// The state of a document that no write has found yet.
pub(super) const UNTOUCHED: &str = "untouched";

/// The collections.
///
/// | collection | documents | applied once more |
/// |---|---|---|
/// | `counters` | `{_id, n, log}`, one for 64 operations | a mark more in `log`, and `n` is one more |
/// | `logs` | `{_id, log}`, likewise | a mark more in `log` |
/// | `entries` | `{mark}`, inserted by the load | a document more |
/// | `documents` | `{mark, state}`, two that are the same for each mark | one less of them is untouched |
/// | `mixed` | all of these, for bulk writes | |
///
/// A transaction writes to `documents` and `entries`.
///
/// With the idempotent strategy each write is about a document of its own, whose `_id` is the mark: there is one
/// of each in `documents`, and in `counters` it is `{_id, counter, …}`, as the pattern has it.
#[derive(Clone, Debug)]
pub(super) struct Target {
    database: Database,
    pub(super) counters: Collection<Document>,
    pub(super) logs: Collection<Document>,
    pub(super) entries: Collection<Document>,
    pub(super) documents: Collection<Document>,
    pub(super) mixed: Collection<Document>,
    /// How many documents with a log there are, in each collection that has such.
    logs_each: u64,
    strategy: Strategy,
    /// The collections are sharded.
    pub(super) is_sharded: bool,
}

impl Target {
    pub(super) fn within(
        database: &Database,
        operations: u64,
        strategy: Strategy,
        is_sharded: bool,
    ) -> Self {
        Self {
            database: database.clone(),
            counters: database.collection("counters"),
            logs: database.collection("logs"),
            entries: database.collection("entries"),
            documents: database.collection("documents"),
            mixed: database.collection("mixed"),
            logs_each: operations.div_ceil(OPERATIONS_OF_A_LOG).max(1),
            strategy,
            is_sharded,
        }
    }

    pub(super) fn client(&self) -> &Client {
        self.database.client()
    }

    pub(super) fn is_idempotent(&self) -> bool {
        self.strategy == Strategy::RetryIdempotent
    }

    /// True if a transaction is run until it is committed.
    pub(super) fn repeats_transactions(&self) -> bool {
        self.strategy == Strategy::RetryableWrites
    }

    pub(super) fn collections(&self) -> [&Collection<Document>; 5] {
        [&self.counters, &self.logs, &self.entries, &self.documents, &self.mixed]
    }

    /// The same collection, to be written on a majority and read as a majority has it.
    pub(super) fn durably(&self, collection: &Collection<Document>) -> Collection<Document> {
        let options = CollectionOptions::builder()
            .write_concern(WriteConcern::majority())
            .read_concern(ReadConcern::majority())
            .build();
        self.database.collection_with_options(collection.name(), options)
    }

    /// A collection of its own, for the writes that all others are to be before.
    pub(super) fn last(&self) -> Collection<Document> {
        self.database.collection("last")
    }

    /// The `_id` of the document whose log an operation's marks go to. Neighbours do not share one, so that the
    /// tasks do not wait for each other.
    pub(super) fn log_of(&self, operation: u64) -> Bson {
        number(operation % self.logs_each)
    }

    /// How many documents lie there for each mark that is to change or delete one.
    pub(super) fn copies(&self) -> u8 {
        if self.is_idempotent() { 1 } else { 2 }
    }

    /// The marks of an operation for which documents lie there.
    pub(super) fn prepared(&self, kind: Kind, operation: u64) -> impl Iterator<Item = u64> {
        let is_idempotent = self.is_idempotent();
        let first = operation * Kind::MARKS;
        kind.marks(operation).filter(move |&mark| match kind {
            Kind::Increment | Kind::InsertOne | Kind::InsertMany => false,
            Kind::FindOneAndUpdate => is_idempotent,
            Kind::UpdateOne
            | Kind::ReplaceOne
            | Kind::DeleteOne
            | Kind::FindOneAndReplace
            | Kind::FindOneAndDelete => true,
            // It changes something, inserts something and deletes something.
            Kind::BulkWrite => mark == first + 2 || (is_idempotent && mark == first),
            Kind::Transaction => mark != first + 1,
        })
    }

    /// Takes the database for this run, if nobody has it. Of several runs that ask for it at the same time, one
    /// gets it: what cannot be there twice tells them apart.
    pub(super) async fn claim(&self) -> Result<(), Box<dyn Error>> {
        let name = self.database.name();
        let taken = || format!("there is a database {name:?} already: name another, or drop it");
        if !self.database.list_collection_names().await?.is_empty() {
            return Err(taken().into());
        }
        let claim = self.durably(&self.database.collection(CLAIM));
        match claim.insert_one(doc! { "_id": "steadfast chaos" }).await {
            Ok(_) => Ok(()),
            Err(error) if error.code() == Some(DUPLICATE_KEY) => Err(taken().into()),
            Err(error) => Err(error.into()),
        }
    }

    /// Puts everything there. The database is claimed.
    pub(super) async fn prepare(
        &self,
        sequence: &Sequence,
        operations: u64,
    ) -> Result<(), Box<dyn Error>> {
        for collection in self.collections() {
            self.database.create_collection(collection.name()).await?;
        }
        if self.is_sharded {
            self.shard().await?;
        }
        for collection in [&self.documents, &self.mixed] {
            self.index_marks(collection).await?;
        }
        if !self.is_idempotent() {
            let logs = || (0..self.logs_each).map(|log| doc! { "_id": number(log), "log": [] });
            fill(&self.durably(&self.logs), logs()).await?;
            fill(&self.durably(&self.mixed), logs()).await?;
            let counter = |log| doc! { "_id": number(log), "n": 0, "log": [] };
            fill(&self.durably(&self.counters), (0..self.logs_each).map(counter)).await?;
        }
        let of_kind = |is_bulk: bool| {
            (0..operations).flat_map(move |operation| {
                let kind = sequence.kind(operation);
                let is_it = (kind == Kind::BulkWrite) == is_bulk;
                is_it.then(|| self.prepared(kind, operation)).into_iter().flatten()
            })
        };
        let copies = |mark| (0..self.copies()).map(move |_| self.untouched(mark));
        fill(&self.durably(&self.documents), of_kind(false).flat_map(copies)).await?;
        fill(&self.durably(&self.mixed), of_kind(true).flat_map(copies)).await?;
        Ok(())
    }

    fn untouched(&self, mark: u64) -> Document {
        let mut document = doc! { "mark": number(mark), "state": UNTOUCHED };
        if self.is_idempotent() {
            document.insert("_id", number(mark));
        }
        document
    }

    async fn index_marks(&self, collection: &Collection<Document>) -> Result<(), Box<dyn Error>> {
        let command = doc! {
            "createIndexes": collection.name(),
            "indexes": [{ "key": { "mark": 1 }, "name": "mark" }],
        };
        self.database.run_command(command).await?;
        Ok(())
    }
}

/// As it is in the database.
pub(super) fn number(number: u64) -> Bson {
    Bson::Int64(i64::try_from(number).unwrap_or(i64::MAX))
}

async fn fill(
    collection: &Collection<Document>,
    documents: impl Iterator<Item = Document>,
) -> Result<(), Box<dyn Error>> {
    let mut documents = documents.peekable();
    while documents.peek().is_some() {
        collection.insert_many(documents.by_ref().take(BATCH).collect::<Vec<_>>()).await?;
    }
    Ok(())
}
