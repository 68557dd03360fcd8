//! The copies of one event, as a trim finds them. Pure.

use std::{cmp::Ordering, mem};

use bson::{Bson, DateTime, oid::ObjectId};
use steadfast_value::{BinaryOrder, compare};

use super::report::CopyAt;
use crate::patterns::duplicates::{Keep, key::Event};

/// An event with more copies than this has no key worth the name: it is left alone.
const CROWD: usize = 1_000;

/// A copy, and how to find it again.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Copy {
    /// Which deployment it is in.
    pub(super) source: usize,
    pub(super) id: ObjectId,
    pub(super) datacenter: Option<Bson>,
    /// What it is marked with, if it is: by another trim, or by one that was interrupted.
    pub(super) mark: Option<Bson>,
}

impl Copy {
    /// The order of copies, which is the same for all who look: it does not depend on how they list the
    /// deployments.
    fn age(&self, other: &Self) -> Ordering {
        let datacenter = |it: &Self| it.datacenter.clone().unwrap_or(Bson::Null);
        self.id
            .cmp(&other.id)
            .then_with(|| compare(&datacenter(self), &datacenter(other), &BinaryOrder))
    }

    /// Whether nothing says which of the two is older.
    pub(super) fn is_as_old_as(&self, other: &Self) -> bool {
        self.age(other).is_eq()
    }

    pub(super) fn shown(&self) -> CopyAt {
        CopyAt { deployment: self.source, id: self.id, datacenter: self.datacenter.clone() }
    }
}

/// An event of which there are several copies, as a rule.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) event: Event,
    pub(super) kept: Copy,
    pub(super) others: Vec<Copy>,
    is_crowded: bool,
}

impl Group {
    /// How many copies there are.
    pub(super) fn len(&self) -> usize {
        1 + self.others.len()
    }

    /// Whether there is anything to do: there are several copies, or the only one bears a mark still.
    fn concerns(&self) -> bool {
        self.len() > 1 || self.kept.mark.is_some()
    }

    /// Those that were marked when they were found.
    pub(super) fn marked(&self) -> Vec<(Event, Copy)> {
        let marked = self.copies().filter(|copy| copy.mark.is_some());
        marked.map(|copy| (self.event.clone(), copy.clone())).collect()
    }

    /// All of them.
    pub(super) fn copies(&self) -> impl Iterator<Item = &Copy> {
        [&self.kept].into_iter().chain(&self.others)
    }

    /// Says which one is kept.
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

    /// Whether there are too many to be copies.
    pub(super) fn is_crowded(&self) -> bool {
        self.is_crowded
    }

    /// When the latest copy was made.
    pub(super) fn youngest(&self) -> DateTime {
        let others = self.others.iter().map(|copy| copy.id.timestamp());
        others.fold(self.kept.id.timestamp(), DateTime::max)
    }
}

/// Gathers copies, which come event by event.
#[derive(Debug, Default)]
pub(super) struct Groups {
    open: Option<Group>,
}

impl Groups {
    /// Adds a copy. If it is of another event, the one before it is complete: it is given back if there
    /// is anything to do about it.
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

    /// The last event, if there is anything to do about it.
    pub(super) fn finish(&mut self) -> Option<Group> {
        self.open.take().filter(Group::concerns)
    }
}
