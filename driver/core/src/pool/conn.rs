//! A connection as the pool sees it: a number, a generation, and something inside.

use std::fmt;

use bson::oid::ObjectId;

use super::Generation;

/// Names a connection within its pool.
///
/// Numbers begin at 1 and grow by 1 with each connection created, and are never used twice.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId {
    number: u32,
    /// Where the pool keeps its record, so that no search is needed.
    slot: usize,
}

impl ConnectionId {
    pub(super) fn new(number: u32, slot: usize) -> Self {
        Self { number, slot }
    }

    /// The number that events and logs call the connection by.
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
/// It holds a place in the pool until it is checked in or discarded.
#[derive(Debug)]
#[must_use = "a connection that is neither checked in nor discarded takes up a place for ever"]
pub struct Conn<C> {
    pub(super) id: ConnectionId,
    pub(super) generation: Generation,
    pub(super) service_id: Option<ObjectId>,
    /// The connection itself.
    pub payload: C,
}

impl<C> Conn<C> {
    /// Its name in the pool.
    pub fn id(&self) -> ConnectionId {
        self.id
    }

    /// The pool's generation, or that of its service, when the connection was made.
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// Behind a load balancer, the service it leads to.
    pub fn service_id(&self) -> Option<ObjectId> {
        self.service_id
    }

    /// The connection itself, to be closed; its place is still to be given back with
    /// [`Pool::discard`](super::Pool::discard).
    pub fn into_payload(self) -> C {
        self.payload
    }
}
