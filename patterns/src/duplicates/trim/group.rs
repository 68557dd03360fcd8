//! Copies of one event, as a trim finds them. Pure.

use std::{cmp::Ordering, mem};

use bson::{Bson, DateTime, oid::ObjectId};
use steadfast_value::{BinaryOrder, compare};

use super::report::CopyLocation;
use crate::duplicates::{Keep, key::EventKey};

/// Largest number of copies of an event. More copies suggest that the key does not identify an event; they are
/// kept.
const MAX_COPIES: usize = 1_000;

/// Copy with the fields that identify it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ListedCopy {
    /// Index of the deployment.
    pub(super) source: usize,
    pub(super) id: ObjectId,
    pub(super) datacenter: Option<Bson>,
    /// Mark of another trim, or of an interrupted one.
    pub(super) mark: Option<Bson>,
}

impl ListedCopy {
    /// Order of copies, the same for all clients: it does not depend on the order of the deployments.
    fn age(&self, other: &Self) -> Ordering {
        let datacenter = |it: &Self| it.datacenter.clone().unwrap_or(Bson::Null);
        self.id
            .cmp(&other.id)
            .then_with(|| compare(&datacenter(self), &datacenter(other), &BinaryOrder))
    }

    /// Returns `true` if the order of the two is unknown.
    pub(super) fn has_same_age_as(&self, other: &Self) -> bool {
        self.age(other).is_eq()
    }

    pub(super) fn location(&self) -> CopyLocation {
        CopyLocation { deployment: self.source, id: self.id, datacenter: self.datacenter.clone() }
    }
}

/// Event with its copies.
#[derive(Clone, Debug)]
pub(super) struct CopyGroup {
    pub(super) event: EventKey,
    pub(super) kept: ListedCopy,
    pub(super) others: Vec<ListedCopy>,
    exceeds_max_copies: bool,
}

impl CopyGroup {
    /// Returns the number of copies.
    pub(super) fn len(&self) -> usize {
        1 + self.others.len()
    }

    /// Returns `true` if there are several copies, or the only one has a mark.
    fn needs_work(&self) -> bool {
        self.len() > 1 || self.kept.mark.is_some()
    }

    /// Returns the copies that had a mark.
    pub(super) fn marked(&self) -> Vec<(EventKey, ListedCopy)> {
        let marked = self.copies().filter(|copy| copy.mark.is_some());
        marked.map(|copy| (self.event.clone(), copy.clone())).collect()
    }

    /// Returns all copies.
    pub(super) fn copies(&self) -> impl Iterator<Item = &ListedCopy> {
        [&self.kept].into_iter().chain(&self.others)
    }

    /// Selects the copy to keep.
    pub(super) fn choose(&mut self, keep: Keep) {
        for other in &mut self.others {
            let is_better = match keep {
                Keep::First => other.age(&self.kept).is_lt(),
                Keep::Last => other.age(&self.kept).is_gt(),
            };
            if is_better {
                mem::swap(other, &mut self.kept);
            }
        }
    }

    /// Returns `true` if there are more than the largest number of copies.
    pub(super) fn exceeds_max_copies(&self) -> bool {
        self.exceeds_max_copies
    }

    /// Returns the time of the latest copy.
    pub(super) fn youngest(&self) -> DateTime {
        let others = self.others.iter().map(|copy| copy.id.timestamp());
        others.fold(self.kept.id.timestamp(), DateTime::max)
    }
}

/// Groups copies, which are sorted by event.
#[derive(Debug, Default)]
pub(super) struct CopyGroups {
    open: Option<CopyGroup>,
}

impl CopyGroups {
    /// Adds a copy. Returns the previous event if this copy is of another one, and the previous one needs work.
    pub(super) fn add(&mut self, event: EventKey, copy: ListedCopy) -> Option<CopyGroup> {
        match &mut self.open {
            Some(group) if group.event == event => {
                if group.others.len() < MAX_COPIES {
                    group.others.push(copy);
                } else {
                    group.exceeds_max_copies = true;
                }
                None
            }
            _ => {
                let next =
                    CopyGroup { event, kept: copy, others: Vec::new(), exceeds_max_copies: false };
                self.open.replace(next).filter(CopyGroup::needs_work)
            }
        }
    }

    /// Returns the last event, if it needs work.
    pub(super) fn finish(&mut self) -> Option<CopyGroup> {
        self.open.take().filter(CopyGroup::needs_work)
    }
}
