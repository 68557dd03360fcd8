//! The writes of an ordinary application. The database shows each application of a write.

use std::time::Duration;

use steadfast::{
    bson::{Bson, Document, doc},
    error::Result,
    options::{DeleteOneModel, InsertOneModel, UpdateOneModel},
    results::UpdateResult,
};

use super::target::{Target, UNTOUCHED, number};
use crate::account::Kind;

/// Description of an impossible result. `None` for a correct one.
pub(super) type Flaw = Option<String>;

impl Target {
    /// Runs a write once, with `timeoutMS`. The driver may retry it.
    pub(super) async fn write(&self, kind: Kind, operation: u64, limit: Duration) -> Result<Flaw> {
        let mark = operation * Kind::MARKS;
        let log = doc! { "_id": self.log_of(operation) };
        let push = |mark| doc! { "$push": { "log": number(mark) } };
        let untouched = doc! { "mark": number(mark), "state": UNTOUCHED };
        let replaced = doc! { "mark": number(mark), "state": "replaced" };
        let entry = |mark| doc! { "mark": number(mark) };
        Ok(match kind {
            Kind::Increment => {
                let update = doc! { "$inc": { "n": 1 }, "$push": { "log": number(mark) } };
                of_update(&self.counters.update_one(log, update).timeout(limit).await?)
            }
            Kind::InsertOne => {
                self.entries.insert_one(entry(mark)).timeout(limit).await?;
                None
            }
            Kind::InsertMany => {
                let entries = kind.marks(operation).map(entry);
                let result = self.entries.insert_many(entries).timeout(limit).await?;
                unless(result.inserted_ids.len() == 3, || {
                    format!("{} of 3 inserted", result.inserted_ids.len())
                })
            }
            Kind::UpdateOne => {
                let update = doc! { "$set": { "state": "updated" } };
                of_update(&self.documents.update_one(untouched, update).timeout(limit).await?)
            }
            Kind::ReplaceOne => {
                of_update(&self.documents.replace_one(untouched, replaced).timeout(limit).await?)
            }
            Kind::DeleteOne => {
                let result = self.documents.delete_one(untouched).timeout(limit).await?;
                unless(result.deleted_count == 1, || format!("{} deleted", result.deleted_count))
            }
            Kind::FindOneAndUpdate => {
                let before = self.logs.find_one_and_update(log, push(mark)).timeout(limit).await?;
                of_log(before.as_ref(), mark)
            }
            Kind::FindOneAndReplace => {
                let replacing = self.documents.find_one_and_replace(untouched, replaced);
                of_document(replacing.timeout(limit).await?.as_ref(), mark)
            }
            Kind::FindOneAndDelete => {
                let deleting = self.documents.find_one_and_delete(untouched);
                of_document(deleting.timeout(limit).await?.as_ref(), mark)
            }
            Kind::BulkWrite => {
                let third = doc! { "mark": number(mark + 2), "state": UNTOUCHED };
                let models = [
                    UpdateOneModel::new(log, push(mark)).into(),
                    InsertOneModel::new(entry(mark + 1)).into(),
                    DeleteOneModel::new(third).into(),
                ];
                let result = self.mixed.bulk_write(models).timeout(limit).await?;
                let counts = (result.modified_count, result.inserted_count, result.deleted_count);
                unless(counts == (1, 1, 1), || {
                    let (updated, inserted, deleted) = counts;
                    format!(
                        "{updated} updated, {inserted} inserted and {deleted} deleted, of one each"
                    )
                })
            }
            Kind::Transaction => self.transact(operation, limit).await?,
        })
    }
}

pub(super) fn unless(is_right: bool, flaw: impl FnOnce() -> String) -> Flaw {
    if is_right { None } else { Some(flaw()) }
}

/// Checks that one document matched and was modified.
pub(super) fn of_update(result: &UpdateResult) -> Flaw {
    let UpdateResult { matched_count, modified_count, .. } = result;
    unless((*matched_count, *modified_count) == (1, 1), || {
        format!("{matched_count} matched and {modified_count} modified, of one")
    })
}

/// Checks that the log before the update does not contain the mark. This also holds for a reply from the record of an
/// earlier attempt.
fn of_log(before: Option<&Document>, mark: u64) -> Flaw {
    let Some(before) = before else { return Some("no document was found".to_owned()) };
    match before.get_array("log") {
        Ok(log) if !log.contains(&number(mark)) => None,
        Ok(_) => Some("the returned document is not the one before the write".to_owned()),
        Err(_) => Some("the returned document has no log".to_owned()),
    }
}

/// Checks that the document before the write is the expected one, in the untouched state.
pub(super) fn of_document(before: Option<&Document>, mark: u64) -> Flaw {
    let Some(before) = before else { return Some("no document was found".to_owned()) };
    let is_it = before.get("mark") == Some(&number(mark));
    let is_untouched = before.get("state") == Some(&Bson::from(UNTOUCHED));
    unless(is_it && is_untouched, || {
        "the returned document is not the one before the write".to_owned()
    })
}
