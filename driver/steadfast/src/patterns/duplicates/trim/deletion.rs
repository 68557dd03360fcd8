//! Deleting copies so that one of each event stays, whoever else deletes at the same time.
//!
//! Three steps, each acknowledged by a majority before the next:
//!
//! 1. Every copy to be deleted is marked with an id of this deletion.
//! 2. Every copy to be kept is confirmed: it is there, and a mark of another deletion that it may have is
//!    overwritten.
//! 3. Every marked copy whose keeper was confirmed is deleted, if it still bears this deletion's mark.
//!
//! Say that deletion D removes copy X because of copy Y, and another removes Y because of Z. Y had no other's
//! mark when D confirmed it, so the mark that Y was deleted with is later; D's mark on X was earlier. So along
//! a chain of deletions marks are always later, and no chain comes back to where it began: the copy at its end
//! stays. A mark is needed rather than another look, because looks at two copies are two moments.
//!
//! Each step changes what it writes to. A write that changes nothing would be acknowledged, as by a majority,
//! by a primary that was deposed and does not know it yet; that cannot say what is there.

use std::error::Error as _;

use bson::{Bson, Document, doc, oid::ObjectId};
use steadfast_core::concern::WriteConcern;

use super::{
    Deployments,
    group::{Copy, Group},
};
use crate::{
    error::{Error, ErrorKind, Result},
    options::{DeleteOneModel, UpdateOneModel, WriteModel},
    patterns::duplicates::{MARK, key::Event},
};

impl Deployments {
    /// Deletes the other copies of these events, and says how many it deleted; and why, if some could not be
    /// marked. They have no mark and so are not deleted, and the others need not wait for that to be resolved.
    pub(super) async fn delete(&self, groups: &[Group]) -> Result<(u64, Option<Error>)> {
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
        // Nothing is deleted because of what is not there.
        self.write(others(unconfirmed), unmarking(mark)).await?;
        Ok((deleted, unmarked.or(unkept)))
    }

    /// Takes away marks that were found, where they still are: whoever made them has ended, or will find them
    /// gone and delete nothing.
    pub(super) async fn unmark(&self, marked: &[(Event, Copy)]) -> Result<()> {
        let copies: Vec<_> = marked.iter().map(|(event, copy)| (event, copy)).collect();
        // One for each trim that made some.
        let mut marks: Vec<_> = marked.iter().filter_map(|(_, copy)| copy.mark.clone()).collect();
        marks.dedup();
        self.write(copies, unmarking(doc! { "$in": marks })).await.map(drop)
    }

    /// The events whose copy to keep is there, and those of which it is not, or could not be marked, and why.
    ///
    /// The copy gets a mark that nobody deletes by, in the place of any other, and loses it again. That it got
    /// the mark is looked at, and not counted: a shard may count what a migration left behind.
    async fn confirm<'g>(
        &self,
        groups: &'g [Group],
    ) -> Result<(Vec<&'g Group>, Vec<&'g Group>, Option<Error>)> {
        let mark = ObjectId::new();
        let confirmation = |filter| UpdateOneModel::new(filter, mark_with(mark));
        let (_, refused) = self.write_in_part(kept(groups), confirmation).await?;
        let marked = self.look(groups, Some(mark)).await?;
        let is_there = |group: &&Group| marked.has(&group.event, &group.kept);
        let (there, gone): (Vec<_>, Vec<_>) = groups.iter().partition(is_there);
        self.write(kept(there.clone()), unmarking(mark)).await?;
        Ok((there, gone, refused))
    }

    /// A write of each of these copies, in one bulk write for each deployment; how many were deleted.
    async fn write<'c, M: Into<WriteModel>>(
        &self,
        copies: impl IntoIterator<Item = (&'c Event, &'c Copy)>,
        model: impl Fn(Document) -> M,
    ) -> Result<u64> {
        let (deleted, refused) = self.write_in_part(copies, model).await?;
        refused.map_or(Ok(deleted), Err)
    }

    /// The same; and why some were not written, if servers refused them for what they are.
    async fn write_in_part<'c, M: Into<WriteModel>>(
        &self,
        copies: impl IntoIterator<Item = (&'c Event, &'c Copy)>,
        model: impl Fn(Document) -> M,
    ) -> Result<(u64, Option<Error>)> {
        let mut refused = None;
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
                Err(error) if is_of_statements(&error) => refused = refused.or(Some(error)),
                Err(error) => return Err(error),
            }
        }
        Ok((deleted, refused))
    }

    /// A filter that only this copy matches. It names the datacenter, so that only its shards are asked.
    fn identity(&self, event: &Event, copy: &Copy) -> Document {
        let mut filter = doc! { "_id": copy.id };
        filter.extend(self.key.filter(event));
        let datacenter = copy.datacenter.clone().map_or(Bson::Null, |it| doc! { "$eq": it }.into());
        filter.insert(&self.datacenter_field, datacenter);
        filter
    }
}

/// Whether all was acknowledged but for some statements that were refused.
fn is_of_statements(error: &Error) -> bool {
    let ErrorKind::BulkWrite(bulk) = &*error.kind else { return false };
    !bulk.write_errors.is_empty()
        && bulk.write_concern_errors.is_empty()
        && error.source().is_none()
}

fn others<'g>(
    groups: impl IntoIterator<Item = &'g Group>,
) -> impl Iterator<Item = (&'g Event, &'g Copy)> {
    groups.into_iter().flat_map(|group| group.others.iter().map(|copy| (&group.event, copy)))
}

fn kept<'g>(
    groups: impl IntoIterator<Item = &'g Group>,
) -> impl Iterator<Item = (&'g Event, &'g Copy)> {
    groups.into_iter().map(|group| (&group.event, &group.kept))
}

fn mark_with(mark: ObjectId) -> Document {
    doc! { "$set": { MARK: mark } }
}

/// Takes this mark away, where it still is.
fn unmarking(mark: impl Into<Bson>) -> impl Fn(Document) -> UpdateOneModel {
    let mark = mark.into();
    move |mut filter: Document| {
        filter.insert(MARK, mark.clone());
        UpdateOneModel::new(filter, doc! { "$unset": { MARK: "" } })
    }
}
