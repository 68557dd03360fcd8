//! Deletion of copies so that one of each event stays, with any number of concurrent trims.
//!
//! Three steps, each with write concern `majority`:
//!
//! 1. Every copy to be deleted is marked with an id of this deletion.
//! 2. Every copy to be kept is confirmed: it exists, and a mark of another deletion is overwritten.
//! 3. Every marked copy is deleted if the copy to keep was confirmed and the mark is still that of this deletion.
//!
//! Suppose that deletion D deletes copy X because Y exists, and another deletion deletes Y because Z exists. When D
//! confirmed Y, Y had no other mark, so the mark of the other deletion is later than D's mark on X. So along a
//! chain of deletions each mark is later than the one before, and no chain is a cycle: the copy at its end stays.
//! Another read instead of the marks would not be enough, because two copies are read at different times.
//!
//! Each step changes the document, because a primary that has not detected yet that it was replaced would
//! acknowledge a write that changes nothing.

use std::error::Error as _;

use bson::{Bson, Document, doc, oid::ObjectId};
use steadfast::options::WriteConcern;

use super::{
    Deployments,
    group::{CopyGroup, ListedCopy},
};
use crate::duplicates::{MARK, key::EventKey};
use steadfast::{
    error::{Error, ErrorKind, Result},
    options::{DeleteOneModel, UpdateOneModel, WriteModel},
};

impl Deployments {
    /// Deletes the other copies of these events. Returns the number of deleted copies, and the error of copies
    /// that could not be marked. These are not deleted, and do not delay the others.
    pub(super) async fn delete(&self, groups: &[CopyGroup]) -> Result<(u64, Option<Error>)> {
        if groups.is_empty() {
            return Ok((0, None));
        }
        let mark = ObjectId::new();
        let marking = |filter| UpdateOneModel::new(filter, mark_with(mark));
        let (_, unmarked) = self.write_in_part(others(groups), marking).await?;
        let (confirmed, unconfirmed, unkept) = self.confirm(groups).await?;
        let deletion = |mut filter: Document| {
            filter.insert(MARK, mark);
            DeleteOneModel::new(filter)
        };
        let deleted = self.write(others(confirmed), deletion).await?;
        // No copy is deleted if the one to keep is missing.
        self.write(others(unconfirmed), unmarking(mark)).await?;
        Ok((deleted, unmarked.or(unkept)))
    }

    /// Removes marks that the trim has found, if they still exist: their trims have ended, or will not delete these
    /// copies.
    pub(super) async fn unmark(&self, marked: &[(EventKey, ListedCopy)]) -> Result<()> {
        let copies: Vec<_> = marked.iter().map(|(event, copy)| (event, copy)).collect();
        // One for each trim.
        let mut marks: Vec<_> = marked.iter().filter_map(|(_, copy)| copy.mark.clone()).collect();
        marks.dedup();
        self.write(copies, unmarking(doc! { "$in": marks })).await.map(drop)
    }

    /// Returns the events whose copy to keep exists, those whose copy does not, and the error of copies that
    /// could not be marked.
    ///
    /// The copy gets a mark that no trim deletes by, which replaces any other and is removed again. The mark is
    /// read back instead of counted, because a shard may count orphaned documents.
    async fn confirm<'g>(
        &self,
        groups: &'g [CopyGroup],
    ) -> Result<(Vec<&'g CopyGroup>, Vec<&'g CopyGroup>, Option<Error>)> {
        let mark = ObjectId::new();
        let confirmation = |filter| UpdateOneModel::new(filter, mark_with(mark));
        let (_, rejected) = self.write_in_part(kept(groups), confirmation).await?;
        let marked = self.reread(groups, Some(mark)).await?;
        let exists = |group: &&CopyGroup| marked.has(&group.event, &group.kept);
        let (found, missing): (Vec<_>, Vec<_>) = groups.iter().partition(exists);
        self.write(kept(found.clone()), unmarking(mark)).await?;
        Ok((found, missing, rejected))
    }

    /// Writes each of these copies, in one bulk write for each deployment. Returns the number of deleted ones.
    async fn write<'c, M: Into<WriteModel>>(
        &self,
        copies: impl IntoIterator<Item = (&'c EventKey, &'c ListedCopy)>,
        model: impl Fn(Document) -> M,
    ) -> Result<u64> {
        let (deleted, rejected) = self.write_in_part(copies, model).await?;
        rejected.map_or(Ok(deleted), Err)
    }

    /// Writes each of these copies. Returns also the error of those that servers rejected.
    async fn write_in_part<'c, M: Into<WriteModel>>(
        &self,
        copies: impl IntoIterator<Item = (&'c EventKey, &'c ListedCopy)>,
        model: impl Fn(Document) -> M,
    ) -> Result<(u64, Option<Error>)> {
        let mut rejected = None;
        let mut models: Vec<Vec<WriteModel>> = vec![Vec::new(); self.collections.len()];
        for (event, copy) in copies {
            models[copy.source].push(model(self.identity(event, copy)).into());
        }
        let mut deleted = 0;
        for (collection, models) in self.collections.iter().zip(models) {
            if models.is_empty() {
                continue;
            }
            let result = collection
                .bulk_write(models)
                .ordered(false)
                .write_concern(WriteConcern::majority())
                .await;
            match result {
                Ok(result) => deleted += result.deleted_count,
                Err(error) if is_of_statements(&error) => rejected = rejected.or(Some(error)),
                Err(error) => return Err(error),
            }
        }
        Ok((deleted, rejected))
    }

    /// Returns a filter that matches this copy only. It contains the datacenter, which targets its shards.
    fn identity(&self, event: &EventKey, copy: &ListedCopy) -> Document {
        let mut filter = doc! { "_id": copy.id };
        filter.extend(self.key.filter(event));
        let datacenter = copy.datacenter.clone().map_or(Bson::Null, |it| doc! { "$eq": it }.into());
        filter.insert(&self.datacenter_field, datacenter);
        filter
    }
}

/// Returns `true` if all was acknowledged except some rejected statements.
fn is_of_statements(error: &Error) -> bool {
    let ErrorKind::BulkWrite(bulk) = &*error.kind else { return false };
    !bulk.write_errors.is_empty()
        && bulk.write_concern_errors.is_empty()
        && error.source().is_none()
}

fn others<'g>(
    groups: impl IntoIterator<Item = &'g CopyGroup>,
) -> impl Iterator<Item = (&'g EventKey, &'g ListedCopy)> {
    groups.into_iter().flat_map(|group| group.others.iter().map(|copy| (&group.event, copy)))
}

fn kept<'g>(
    groups: impl IntoIterator<Item = &'g CopyGroup>,
) -> impl Iterator<Item = (&'g EventKey, &'g ListedCopy)> {
    groups.into_iter().map(|group| (&group.event, &group.kept))
}

fn mark_with(mark: ObjectId) -> Document {
    doc! { "$set": { MARK: mark } }
}

/// Removes this mark, if it is still there.
fn unmarking(mark: impl Into<Bson>) -> impl Fn(Document) -> UpdateOneModel {
    let mark = mark.into();
    move |mut filter: Document| {
        filter.insert(MARK, mark.clone());
        UpdateOneModel::new(filter, doc! { "$unset": { MARK: "" } })
    }
}
