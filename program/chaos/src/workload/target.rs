//! The collections that the load writes to, and their prepared documents, which show each application of a write.

use std::error::Error;

use crate::strategy::Strategy;
use steadfast::{
    Client, Collection, Database,
    bson::{Bson, Document, doc},
    options::{CollectionOptions, ReadConcern, WriteConcern},
};

use super::sequence::Sequence;
use crate::{account::Kind, plan::CLAIM};

/// Maximum number of operations that share a document with a log, which limits its size.
const OPERATIONS_OF_A_LOG: u64 = 64;
const BATCH: usize = 1_000;
const DUPLICATE_KEY: i32 = 11000;
/// State of a prepared document before its write.
pub(super) const UNTOUCHED: &str = "untouched";

/// Collections of the load.
///
/// | collection | documents | effect of each application |
/// |---|---|---|
/// | `counters` | `{_id, n, log}`, one for 64 operations | pushes the mark to `log` and increments `n` |
/// | `logs` | `{_id, log}`, one for 64 operations | pushes the mark to `log` |
/// | `entries` | `{mark}`, inserted by the load | inserts a document |
/// | `documents` | `{mark, state}`, two equal ones for each mark | changes or deletes one untouched document |
/// | `mixed` | all of these, for bulk writes | |
///
/// A transaction writes to `documents` and `entries`.
///
/// With the idempotent strategy, each write targets one document, whose `_id` is the mark: `documents` has one for
/// each mark, and `counters` has the documents `{_id, counter, …}` of the pattern.
#[derive(Clone, Debug)]
pub(super) struct Target {
    database: Database,
    pub(super) counters: Collection<Document>,
    pub(super) logs: Collection<Document>,
    pub(super) entries: Collection<Document>,
    pub(super) documents: Collection<Document>,
    pub(super) mixed: Collection<Document>,
    /// Number of documents with a log in each collection that has logs.
    logs_each: u64,
    strategy: Strategy,
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

    /// Returns `true` if transactions are retried until they are committed.
    pub(super) fn repeats_transactions(&self) -> bool {
        self.strategy == Strategy::RetryableWrites
    }

    pub(super) fn collections(&self) -> [&Collection<Document>; 5] {
        [&self.counters, &self.logs, &self.entries, &self.documents, &self.mixed]
    }

    /// Returns the collection with read concern and write concern `majority`.
    pub(super) fn durably(&self, collection: &Collection<Document>) -> Collection<Document> {
        let options = CollectionOptions::builder()
            .write_concern(WriteConcern::majority())
            .read_concern(ReadConcern::majority())
            .build();
        self.database.collection_with_options(collection.name(), options)
    }

    /// Returns the collection of the final majority writes before the count.
    pub(super) fn last(&self) -> Collection<Document> {
        self.database.collection("last")
    }

    /// Returns the `_id` of the document whose log receives the marks of an operation. Consecutive operations have
    /// different ones, which avoids write conflicts.
    pub(super) fn log_of(&self, operation: u64) -> Bson {
        number(operation % self.logs_each)
    }

    /// Returns the number of prepared documents for each mark that changes or deletes one.
    pub(super) fn copies(&self) -> u8 {
        if self.is_idempotent() { 1 } else { 2 }
    }

    /// Returns the marks of an operation that have prepared documents.
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
            // An update, an insert and a delete.
            Kind::BulkWrite => mark == first + 2 || (is_idempotent && mark == first),
            Kind::Transaction => mark != first + 1,
        })
    }

    /// Claims the database for this run. A document with a fixed `_id` ensures that only one of several concurrent
    /// runs succeeds.
    pub(super) async fn claim(&self) -> Result<(), Box<dyn Error>> {
        let name = self.database.name();
        let taken = || format!("the database {name:?} already exists: choose another, or drop it");
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

    /// Creates the collections and their documents in the claimed database.
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

/// Returns the BSON value of a mark or `_id`.
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
