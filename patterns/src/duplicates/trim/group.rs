//! Copies of one event, as a trim finds them. Pure.

use std::{cmp::Ordering, mem};

use bson::{Bson, DateTime, oid::ObjectId};
use steadfast_value::{BinaryOrder, compare};

use super::report::CopyLocation;
use crate::duplicates::{Keep, key::Event};

/// Largest number of copies of an event. More suggest that the key does not identify an event, and they are
/// kept.
const CROWD: usize = 1_000;

/// Copy with the fields that identify it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Copy {
    /// Index of the deployment.
    pub(super) source: usize,
    pub(super) id: ObjectId,
    pub(super) datacenter: Option<Bson>,
    /// Mark of another trim, or of an interrupted one.
    pub(super) mark: Option<Bson>,
}

impl Copy {
    /// Order of copies, the same for all clients: it does not depend on the order of the deployments.
    fn age(&self, other: &Self) -> Ordering {
        let datacenter = |it: &Self| it.datacenter.clone().unwrap_or(Bson::Null);
        self.id
            .cmp(&other.id)
            .then_with(|| compare(&datacenter(self), &datacenter(other), &BinaryOrder))
    }

    /// Returns `true` if the order of the two is unknown.
    pub(super) fn is_as_old_as(&self, other: &Self) -> bool {
        self.age(other).is_eq()
    }

    pub(super) fn shown(&self) -> CopyLocation {
        CopyLocation { deployment: self.source, id: self.id, datacenter: self.datacenter.clone() }
    }
}

/// Event with its copies.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) event: Event,
    pub(super) kept: Copy,
    pub(super) others: Vec<Copy>,
    is_crowded: bool,
}

impl Group {
    /// Returns the number of copies.
    pub(super) fn len(&self) -> usize {
        1 + self.others.len()
    }

    /// Returns `true` if there are several copies, or the only one has a mark.
    fn concerns(&self) -> bool {
        self.len() > 1 || self.kept.mark.is_some()
    }

    /// Returns the copies that had a mark.
    pub(super) fn marked(&self) -> Vec<(Event, Copy)> {
        let marked = self.copies().filter(|copy| copy.mark.is_some());
        marked.map(|copy| (self.event.clone(), copy.clone())).collect()
    }

    /// Returns all copies.
    pub(super) fn copies(&self) -> impl Iterator<Item = &Copy> {
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
    pub(super) fn is_crowded(&self) -> bool {
        self.is_crowded
    }

    /// Returns the time of the latest copy.
    pub(super) fn youngest(&self) -> DateTime {
        let others = self.others.iter().map(|copy| copy.id.timestamp());
        others.fold(self.kept.id.timestamp(), DateTime::max)
    }
}

/// Groups copies, which come event by event.
#[derive(Debug, Default)]
pub(super) struct Groups {
    open: Option<Group>,
}

impl Groups {
    /// Adds a copy. Returns the previous event if this copy is of another one, and the previous one needs work.
    pub(super) fn add(&mut self, event: Event, copy: Copy) -> Option<Group> {
        match &mut self.open {
            Some(group) if group.event == event => {
                if group.others.len() < CROWD {
                    group.others.push(copy);
                } else {
                    group.is_crowded = true;
                }
                None
            }
            _ => {
                let next = Group { event, kept: copy, others: Vec::new(), is_crowded: false };
                self.open.replace(next).filter(Group::concerns)
            }
        }
    }

    /// Returns the last event, if it needs work.
    pub(super) fn finish(&mut self) -> Option<Group> {
        self.open.take().filter(Group::concerns)
    }
}
