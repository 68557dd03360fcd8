//! Which connections of a pool are still good: a count that grows with every clearing.
//!
//! The topology keeps the count and tells the pool, so that an error that was caused before the
//! latest clearing can be told from a new one.

use std::collections::BTreeMap;

use bson::oid::ObjectId;

/// The generations of one server's pool.
#[derive(Clone, Debug, Default)]
pub(super) struct Generations {
    own: u64,
    services: BTreeMap<ObjectId, u64>,
}

impl Generations {
    /// The generation of new connections: of the server, or of one service behind it.
    pub(super) fn current(&self, service_id: Option<ObjectId>) -> u64 {
        match service_id {
            None => self.own,
            Some(id) => self.services.get(&id).copied().unwrap_or(0),
        }
    }

    /// Makes all connections so far stale, and returns the new generation.
    pub(super) fn advance(&mut self, service_id: Option<ObjectId>) -> u64 {
        let generation = match service_id {
            None => &mut self.own,
            Some(id) => self.services.entry(id).or_default(),
        };
        *generation += 1;
        *generation
    }
}
