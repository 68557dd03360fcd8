//! Where a cursor lives: one server, and behind a load balancer one connection.

use std::sync::{Arc, Mutex, PoisonError};

use crate::{pool::PooledConnection, topology::Server};

/// The server that has a cursor, and the connection that leads to it if no other does.
#[derive(Clone, Debug)]
pub(crate) struct Home {
    pub(crate) server: Arc<Server>,
    pub(crate) connection: Pinned,
}

/// The one connection through which a cursor can be reached, where there is only one.
///
/// Whoever sends a command through it takes it out, and puts it back unless it broke. When the
/// last one lets go of it, the connection is dropped and so returns to its pool.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pinned(Option<Arc<Mutex<Option<PooledConnection>>>>);

impl Pinned {
    /// Any connection will do if there is none.
    pub(crate) fn new(connection: Option<PooledConnection>) -> Self {
        Self(connection.map(|connection| Arc::new(Mutex::new(Some(connection)))))
    }

    /// Takes the connection out; none if any will do, or if it broke.
    pub(crate) fn take(&self) -> Option<PooledConnection> {
        self.0.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Puts the connection back for the cursor's next command; if any will do, it returns to its
    /// pool.
    pub(crate) fn put_back(&self, connection: PooledConnection) {
        if let Some(place) = &self.0 {
            *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(connection);
        }
    }

    /// Whether only one connection will do, and it is gone.
    pub(super) fn is_broken(&self) -> bool {
        self.0
            .as_ref()
            .is_some_and(|place| place.lock().unwrap_or_else(PoisonError::into_inner).is_none())
    }

    /// Whether only one connection will do.
    pub(super) fn is_pinned(&self) -> bool {
        self.0.is_some()
    }
}
