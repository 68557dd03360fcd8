//! Records of a pool's connections and their states.
//!
//! Records are in reused slots: lookup, insertion and removal need no search and, once the pool has
//! grown, no allocation.

use std::time::Instant;

use bson::oid::ObjectId;

use super::{ConnectionId, Generation, WaiterId};

#[derive(Debug, Default)]
pub(super) struct ConnectionRecords {
    slots: Vec<Option<ConnectionRecord>>,
    free: Vec<usize>,
    last_number: u32,
    pending: usize,
    failing: usize,
    in_use: usize,
}

#[derive(Debug)]
pub(super) struct ConnectionRecord {
    pub(super) id: ConnectionId,
    pub(super) generation: Generation,
    pub(super) service_id: Option<ObjectId>,
    pub(super) created: Instant,
    /// Waiter that gets the error, once the connection is failing.
    pub(super) error_waiter: Option<WaiterId>,
    state: ConnectionState,
}

/// State of a connection: pending, then failing, idle or in use. The latter two alternate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionState {
    /// Being established.
    Pending,
    /// Could not be established; the topology is processing the error.
    Failing,
    /// Available for check-out.
    Idle,
    /// Checked out.
    InUse,
}

impl ConnectionRecords {
    pub(super) fn create(&mut self, generation: Generation, now: Instant) -> ConnectionId {
        self.last_number = self.last_number.wrapping_add(1).max(1);
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        let id = ConnectionId::new(self.last_number, slot);
        self.slots[slot] = Some(ConnectionRecord {
            id,
            generation,
            service_id: None,
            created: now,
            error_waiter: None,
            state: ConnectionState::Pending,
        });
        self.pending += 1;
        id
    }

    pub(super) fn remove(&mut self, id: ConnectionId) -> Option<ConnectionRecord> {
        let record = self.slots.get_mut(id.slot())?.take_if(|record| record.id == id)?;
        self.free.push(id.slot());
        if let Some(count) = self.count_of(record.state) {
            *count -= 1;
        }
        Some(record)
    }

    /// Changes the state of a connection.
    pub(super) fn set_state(&mut self, id: ConnectionId, state: ConnectionState) {
        let Some(record) = self.get_mut(id) else { return };
        let before = std::mem::replace(&mut record.state, state);
        if let Some(count) = self.count_of(before) {
            *count -= 1;
        }
        if let Some(count) = self.count_of(state) {
            *count += 1;
        }
    }

    pub(super) fn is(&self, id: ConnectionId, state: ConnectionState) -> bool {
        self.get(id).is_some_and(|record| record.state == state)
    }

    pub(super) fn get(&self, id: ConnectionId) -> Option<&ConnectionRecord> {
        self.slots.get(id.slot())?.as_ref().filter(|record| record.id == id)
    }

    pub(super) fn get_mut(&mut self, id: ConnectionId) -> Option<&mut ConnectionRecord> {
        self.slots.get_mut(id.slot())?.as_mut().filter(|record| record.id == id)
    }

    /// Returns the connections of one state that satisfy a predicate, in the order of their
    /// creation.
    pub(super) fn select(
        &self,
        state: ConnectionState,
        fits: impl Fn(&ConnectionRecord) -> bool,
    ) -> Vec<ConnectionId> {
        let records = self.slots.iter().flatten();
        let mut found: Vec<_> = records
            .filter(|record| record.state == state && fits(record))
            .map(|record| record.id)
            .collect();
        found.sort_unstable();
        found
    }

    pub(super) fn total(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Returns the number of connections that are being established.
    pub(super) fn pending(&self) -> usize {
        self.pending
    }

    /// Returns the number of connections that are being established or failing.
    pub(super) fn establishing(&self) -> usize {
        self.pending + self.failing
    }

    pub(super) fn in_use(&self) -> usize {
        self.in_use
    }

    /// Returns the counter of a state. Idle connections are counted by the stack.
    fn count_of(&mut self, state: ConnectionState) -> Option<&mut usize> {
        match state {
            ConnectionState::Pending => Some(&mut self.pending),
            ConnectionState::Failing => Some(&mut self.failing),
            ConnectionState::InUse => Some(&mut self.in_use),
            ConnectionState::Idle => None,
        }
    }
}
