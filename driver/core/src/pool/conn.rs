//! Connections of a pool: id, generation and payload.

use std::fmt;

use bson::oid::ObjectId;

use super::Generation;

/// Id of a connection within its pool.
///
/// Numbers start at 1, increase by 1 with each connection created, and are never reused.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId {
    number: u32,
    /// Index of the connection's record, so that no search is needed.
    slot: usize,
}

impl ConnectionId {
    pub(super) fn new(number: u32, slot: usize) -> Self {
        Self { number, slot }
    }

    /// Returns the connection number used in events and logs.
    pub fn number(self) -> u32 {
        self.number
    }

    pub(super) fn slot(self) -> usize {
        self.slot
    }
}

impl fmt::Debug for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConnectionId({})", self.number)
    }
}

impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.number.fmt(f)
    }
}

/// An established connection, checked out of its pool.
///
/// It counts towards `maxPoolSize` until it is checked in or discarded.
#[derive(Debug)]
#[must_use = "a connection that is neither checked in nor discarded counts as in use forever"]
pub struct PoolConnection<C> {
    pub(super) id: ConnectionId,
    pub(super) generation: Generation,
    pub(super) service_id: Option<ObjectId>,
    /// The connection.
    pub payload: C,
}

impl<C> PoolConnection<C> {
    /// Returns the id of the connection.
    pub fn id(&self) -> ConnectionId {
        self.id
    }

    /// Returns the generation of the pool, or of the service, at the time the connection was
    /// established.
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// Returns the id of the service behind a load balancer.
    pub fn service_id(&self) -> Option<ObjectId> {
        self.service_id
    }

    /// Returns the connection to be closed. [`Pool::discard`](super::Pool::discard) must still be
    /// called.
    pub fn into_payload(self) -> C {
        self.payload
    }
}
