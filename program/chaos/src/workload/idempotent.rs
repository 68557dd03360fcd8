//! Idempotent forms of the writes. Each one targets one document by its `_id`.
//!
//! An increment uses `Counters` of the patterns. The `_id` of an insert is its mark. Updates and replacements set a
//! fixed state. A bulk write inserts with `replace_one` and `upsert`. After an attempt in doubt, results are not
//! checked: a retry cannot return the document before the first attempt, or whether the first attempt deleted it.

use std::time::Duration;

use steadfast::{
    bson::{Document, doc},
    error::{Error, Result},
    options::{DeleteOneModel, ReplaceOneModel, UpdateOneModel},
};
use steadfast_patterns::{
    counter::Counters,
    idempotent::{self, DeleteOutcome},
};

use super::{
    plain::{Flaw, of_document, of_update, unless},
    target::{Target, UNTOUCHED, number},
};
use crate::account::Kind;

impl Target {
    /// Runs a write of `steadfast-patterns`, which retries by itself. Returns `None` for a kind without one: the
    /// strategy then retries [`write_again`](Self::write_again).
    pub(super) async fn write_by_pattern(
        &self,
        kind: Kind,
        operation: u64,
    ) -> Option<Result<Flaw>> {
        let mark = operation * Kind::MARKS;
        let entry = |mark| doc! { "_id": number(mark), "mark": number(mark) };
        Some(match kind {
            Kind::Increment => {
                let counted = Counters::new(&self.counters).increment(number(mark)).await;
                counted.map(|()| None).map_err(|error| error.into_error())
            }
            Kind::InsertOne => {
                idempotent::insert_one(&self.entries, entry(mark)).await.map(|_| None)
            }
            Kind::InsertMany => {
                let entries = kind.marks(operation).map(entry);
                let inserted = idempotent::insert_many(&self.entries, entries).await;
                let flaw = |count: usize| unless(count == 3, || format!("{count} of 3 inserted"));
                inserted.map(|all| flaw(all.inserted())).map_err(Error::from)
            }
            Kind::UpdateOne => {
                let updated = idempotent::update_one(&self.documents, own(mark), set("updated"));
                updated.await.map(|counted| counted.exact().and_then(of_update))
            }
            Kind::DeleteOne => {
                let deleted = idempotent::delete_one(&self.documents, own(mark)).await;
                deleted.map(|outcome| {
                    unless(outcome != DeleteOutcome::NotFound, || "nothing was deleted".to_owned())
                })
            }
            Kind::ReplaceOne
            | Kind::FindOneAndUpdate
            | Kind::FindOneAndReplace
            | Kind::FindOneAndDelete
            | Kind::BulkWrite
            | Kind::Transaction => return None,
        })
    }

    /// Runs a write that is safe to retry, once.
    pub(super) async fn write_again(
        &self,
        kind: Kind,
        operation: u64,
        limit: Duration,
    ) -> Result<Flaw> {
        let mark = operation * Kind::MARKS;
        let replaced = doc! { "mark": number(mark), "state": "replaced" };
        let documents = &self.documents;
        Ok(match kind {
            Kind::ReplaceOne => {
                of_update(&documents.replace_one(own(mark), replaced).timeout(limit).await?)
            }
            Kind::FindOneAndUpdate => {
                let updating = documents.find_one_and_update(own(mark), set("updated"));
                of_document(updating.timeout(limit).await?.as_ref(), mark)
            }
            Kind::FindOneAndReplace => {
                let replacing = documents.find_one_and_replace(own(mark), replaced);
                of_document(replacing.timeout(limit).await?.as_ref(), mark)
            }
            Kind::FindOneAndDelete => {
                let deleting = documents.find_one_and_delete(own(mark));
                of_document(deleting.timeout(limit).await?.as_ref(), mark)
            }
            Kind::BulkWrite => {
                let entry = doc! { "mark": number(mark + 1) };
                let models = [
                    UpdateOneModel::new(own(mark), set("updated")).into(),
                    ReplaceOneModel::new(own(mark + 1), entry).upsert(true).into(),
                    DeleteOneModel::new(own(mark + 2)).into(),
                ];
                let result = self.mixed.bulk_write(models).timeout(limit).await?;
                let counts = (result.modified_count, result.upserted_count, result.deleted_count);
                unless(counts == (1, 1, 1), || {
                    let (updated, inserted, deleted) = counts;
                    format!(
                        "{updated} updated, {inserted} inserted and {deleted} deleted, of one each"
                    )
                })
            }
            Kind::Transaction => self.transact(operation, limit).await?,
            Kind::Increment
            | Kind::InsertOne
            | Kind::InsertMany
            | Kind::UpdateOne
            | Kind::DeleteOne => unreachable!("written by a pattern"),
        })
    }
}

fn own(mark: u64) -> Document {
    doc! { "_id": number(mark) }
}

fn set(state: &str) -> Document {
    debug_assert_ne!(state, UNTOUCHED);
    doc! { "$set": { "state": state } }
}
