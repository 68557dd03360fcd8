//! Pool generations, incremented by each clearing.
//!
//! The topology counts them and passes them to the pool. It thus distinguishes errors from before
//! the latest clearing from new ones.

use std::collections::BTreeMap;

use bson::oid::ObjectId;

/// Generations of one server's pool.
#[derive(Clone, Debug, Default)]
pub(super) struct Generations {
    own: u64,
    services: BTreeMap<ObjectId, u64>,
}

impl Generations {
    /// Returns the generation of new connections: of the server, or of one service behind it.
    pub(super) fn current(&self, service_id: Option<ObjectId>) -> u64 {
        match service_id {
            None => self.own,
            Some(id) => self.services.get(&id).copied().unwrap_or(0),
        }
    }

    /// Increments the generation, which makes all existing connections stale. Returns the new
    /// generation.
    pub(super) fn advance(&mut self, service_id: Option<ObjectId>) -> u64 {
        let generation = match service_id {
            None => &mut self.own,
            Some(id) => self.services.entry(id).or_default(),
        };
        *generation += 1;
        *generation
    }
}
