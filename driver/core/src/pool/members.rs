//! The record of a pool's connections: which there are, and what each is doing.
//!
//! Kept in numbered slots that are used again, so that looking one up, adding and striking off take
//! no search and, once the pool has grown, no allocation.

use std::time::Instant;

use bson::oid::ObjectId;

use super::{ConnectionId, Generation, WaiterId};

#[derive(Debug, Default)]
pub(super) struct Members {
    slots: Vec<Option<Member>>,
    free: Vec<usize>,
    last_number: u32,
    pending: usize,
    failing: usize,
    in_use: usize,
}

#[derive(Debug)]
pub(super) struct Member {
    pub(super) id: ConnectionId,
    pub(super) generation: Generation,
    pub(super) service_id: Option<ObjectId>,
    pub(super) created: Instant,
    /// Who will be told, once a connection is failing.
    pub(super) to_be_told: Option<WaiterId>,
    phase: Phase,
}

/// Where a connection is in its life: pending, then failing or idle or in use, and between the
/// latter two to and fro.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// It is being established.
    Pending,
    /// It could not be established; the topology is being told.
    Failing,
    /// It can be handed out.
    Idle,
    /// It was handed out.
    InUse,
}

impl Members {
    pub(super) fn create(&mut self, generation: Generation, now: Instant) -> ConnectionId {
        self.last_number = self.last_number.wrapping_add(1).max(1);
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        let id = ConnectionId::new(self.last_number, slot);
        self.slots[slot] = Some(Member {
            id,
            generation,
            service_id: None,
            created: now,
            to_be_told: None,
            phase: Phase::Pending,
        });
        self.pending += 1;
        id
    }

    pub(super) fn remove(&mut self, id: ConnectionId) -> Option<Member> {
        let member = self.slots.get_mut(id.slot())?.take_if(|member| member.id == id)?;
        self.free.push(id.slot());
        if let Some(count) = self.count_of(member.phase) {
            *count -= 1;
        }
        Some(member)
    }

    /// Moves a connection into another phase.
    pub(super) fn enter(&mut self, id: ConnectionId, phase: Phase) {
        let Some(member) = self.get_mut(id) else { return };
        let before = std::mem::replace(&mut member.phase, phase);
        if let Some(count) = self.count_of(before) {
            *count -= 1;
        }
        if let Some(count) = self.count_of(phase) {
            *count += 1;
        }
    }

    pub(super) fn is(&self, id: ConnectionId, phase: Phase) -> bool {
        self.get(id).is_some_and(|member| member.phase == phase)
    }

    pub(super) fn get(&self, id: ConnectionId) -> Option<&Member> {
        self.slots.get(id.slot())?.as_ref().filter(|member| member.id == id)
    }

    pub(super) fn get_mut(&mut self, id: ConnectionId) -> Option<&mut Member> {
        self.slots.get_mut(id.slot())?.as_mut().filter(|member| member.id == id)
    }

    /// Those in one phase that meet a condition, in the order of their creation.
    pub(super) fn select(&self, phase: Phase, fits: impl Fn(&Member) -> bool) -> Vec<ConnectionId> {
        let members = self.slots.iter().flatten();
        let mut found: Vec<_> = members
            .filter(|member| member.phase == phase && fits(member))
            .map(|member| member.id)
            .collect();
        found.sort_unstable();
        found
    }

    pub(super) fn total(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Those that may yet become usable.
    pub(super) fn pending(&self) -> usize {
        self.pending
    }

    /// Those neither usable nor given up.
    pub(super) fn establishing(&self) -> usize {
        self.pending + self.failing
    }

    pub(super) fn in_use(&self) -> usize {
        self.in_use
    }

    /// The idle ones are counted by the stack they lie on.
    fn count_of(&mut self, phase: Phase) -> Option<&mut usize> {
        match phase {
            Phase::Pending => Some(&mut self.pending),
            Phase::Failing => Some(&mut self.failing),
            Phase::InUse => Some(&mut self.in_use),
            Phase::Idle => None,
        }
    }
}
