//! Retryable writes of every kind with unique marks, so that the number of times that each was applied can be
//! counted.

use std::collections::BTreeMap;

use steadfast::{
    Collection, Database,
    bson::{Document, doc},
    error::Result,
    options::{InsertOneModel, UpdateOneModel},
};

use crate::write_record;

/// Number of marks of an operation.
const MARKS: i64 = 3;

/// Kinds of writes, in the order of execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteKind {
    UpdateOne,
    InsertOne,
    FindOneAndUpdate,
    InsertMany,
    BulkWrite,
    DeleteOne,
}

const WRITE_KINDS: [WriteKind; 6] = [
    WriteKind::UpdateOne,
    WriteKind::InsertOne,
    WriteKind::FindOneAndUpdate,
    WriteKind::InsertMany,
    WriteKind::BulkWrite,
    WriteKind::DeleteOne,
];

impl WriteKind {
    pub(crate) fn of(operation: i64) -> Self {
        WRITE_KINDS[usize::try_from(operation).unwrap() % WRITE_KINDS.len()]
    }

    pub(crate) fn marks(self, operation: i64) -> impl Iterator<Item = i64> {
        let count = match self {
            Self::InsertMany | Self::BulkWrite => MARKS,
            Self::UpdateOne | Self::InsertOne | Self::FindOneAndUpdate | Self::DeleteOne => 1,
        };
        (0..count).map(move |nth| operation * MARKS + nth)
    }
}

/// Collections of the writes.
pub(crate) struct MarkedCollections {
    /// One document for each task, with a log of marks.
    logs: Collection<Document>,
    /// One document for each inserted mark.
    entries: Collection<Document>,
    /// Two documents for each deleted mark, so that a second deletion is visible.
    pairs: Collection<Document>,
}

impl MarkedCollections {
    pub(crate) fn within(database: &Database) -> Self {
        Self {
            logs: database.collection("logs"),
            entries: database.collection("entries"),
            pairs: database.collection("pairs"),
        }
    }

    pub(crate) async fn prepare(database: &Database, tasks: i64, operations: i64) {
        let collections = Self::within(database);
        let logs = (0..tasks).map(|task| doc! { "_id": task, "log": [] });
        collections.logs.insert_many(logs).await.unwrap();
        let deletes =
            (0..operations).filter(|&operation| WriteKind::of(operation) == WriteKind::DeleteOne);
        let pairs = deletes.flat_map(|operation| {
            WriteKind::DeleteOne
                .marks(operation)
                .flat_map(|mark| [doc! { "mark": mark }, doc! { "mark": mark }])
        });
        collections.pairs.insert_many(pairs.collect::<Vec<_>>()).await.unwrap();
        database
            .run_command(doc! {
                "createIndexes": "pairs",
                "indexes": [{ "key": { "mark": 1 }, "name": "mark" }],
            })
            .await
            .unwrap();
        database.create_collection("entries").await.unwrap();
    }

    pub(crate) async fn write(&self, kind: WriteKind, task: i64, operation: i64) -> Result<()> {
        let log = doc! { "_id": task };
        let push = |mark: i64| doc! { "$push": { "log": mark } };
        let mut marks = kind.marks(operation);
        let first = marks.next().expect("one at least");
        match kind {
            WriteKind::UpdateOne => {
                let result = self.logs.update_one(log, push(first)).await?;
                assert_eq!((result.matched_count, result.modified_count), (1, 1));
            }
            WriteKind::FindOneAndUpdate => {
                let before = self.logs.find_one_and_update(log, push(first)).await?;
                let before = before.expect("the log is there");
                // Also if the reply is that of the first attempt.
                let there = before.get_array("log").unwrap().contains(&first.into());
                assert!(!there, "the document as it was before");
            }
            WriteKind::InsertOne => {
                self.entries.insert_one(doc! { "mark": first }).await?;
            }
            WriteKind::InsertMany => {
                let documents = kind.marks(operation).map(|mark| doc! { "mark": mark });
                let result = self.entries.insert_many(documents).await?;
                assert_eq!(result.inserted_ids.len(), 3);
            }
            WriteKind::BulkWrite => {
                let (second, third) = (first + 1, first + 2);
                let result = self
                    .logs
                    .bulk_write([
                        UpdateOneModel::new(log.clone(), push(first)).into(),
                        InsertOneModel::new(doc! { "log": [second] }).into(),
                        UpdateOneModel::new(log, push(third)).into(),
                    ])
                    .await?;
                assert_eq!((result.modified_count, result.inserted_count), (2, 1));
            }
            WriteKind::DeleteOne => {
                let result = self.pairs.delete_one(doc! { "mark": first }).await?;
                assert_eq!(result.deleted_count, 1);
            }
        }
        Ok(())
    }
}

/// Returns the number of times that each mark was applied, according to the collections.
pub(crate) fn count_applied(
    operations: i64,
    documents: impl Fn(&str) -> Vec<Document>,
) -> BTreeMap<i64, usize> {
    let mut applied = write_record::logged(&documents("logs"));
    for entry in documents("entries") {
        *applied.entry(entry.get_i64("mark").unwrap()).or_default() += 1;
    }
    let mut left: BTreeMap<i64, usize> = BTreeMap::new();
    for one in documents("pairs") {
        *left.entry(one.get_i64("mark").unwrap()).or_default() += 1;
    }
    for operation in (0..operations).filter(|&nth| WriteKind::of(nth) == WriteKind::DeleteOne) {
        for mark in WriteKind::DeleteOne.marks(operation) {
            applied.insert(mark, 2 - left.get(&mark).copied().unwrap_or_default());
        }
    }
    applied
}
