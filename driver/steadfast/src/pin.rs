//! Where a cursor or a transaction lives: one server, and behind a load balancer one connection.

use std::sync::{Arc, Mutex, PoisonError};

use crate::{
    error::{Error, NetworkFailure, Result},
    pool::{PinnedBy, PooledConnection},
    topology::Server,
};

/// The server that has a cursor or a transaction, and the connection that leads to it if no other
/// does.
#[derive(Clone, Debug)]
pub(crate) struct PinnedServer {
    pub(crate) server: Arc<Server>,
    pub(crate) connection: PinnedConnection,
}

/// The one connection through which a cursor or a transaction can be reached, where there is only
/// one.
///
/// Whoever sends a command through it takes it out, and puts it back unless it broke. When the
/// last one lets go of it, the connection is dropped and so returns to its pool.
#[derive(Clone, Debug, Default)]
pub(crate) struct PinnedConnection(Option<Arc<SharedConnection>>);

#[derive(Debug)]
struct SharedConnection {
    connection: Mutex<Option<PooledConnection>>,
    /// Whether it is a transaction's, whose cursors share it.
    of_transaction: bool,
}

impl PinnedConnection {
    /// The connection of a cursor. Any will do if there is none.
    pub(crate) fn new(connection: Option<PooledConnection>) -> Self {
        Self(connection.map(|mut connection| {
            connection.pin(PinnedBy::Cursor);
            Arc::new(SharedConnection {
                connection: Mutex::new(Some(connection)),
                of_transaction: false,
            })
        }))
    }

    /// A shared for the connection of a transaction, which is in use.
    pub(crate) fn of_transaction() -> Self {
        let shared = SharedConnection { connection: Mutex::default(), of_transaction: true };
        Self(Some(Arc::new(shared)))
    }

    /// Takes the connection out, which may be gone; none if any will do.
    pub(crate) fn take(&self) -> Option<Result<PooledConnection>> {
        let connection = self.0.as_ref()?.lock().take();
        Some(connection.ok_or_else(gone))
    }

    /// Puts the connection back for the next command; if any will do, it returns to its pool.
    pub(crate) fn put_back(&self, mut connection: PooledConnection) {
        if let Some(shared) = &self.0 {
            if shared.of_transaction {
                connection.pin(PinnedBy::Transaction);
            }
            *shared.lock() = Some(connection);
        }
    }

    /// After a command that succeeded: the shared of the connection for the cursor that it left
    /// `open`, and for the transaction, if the connection must be kept for one of them.
    pub(crate) fn keep(&self, connection: PooledConnection, open: bool) -> Self {
        match &self.0 {
            Some(shared) if shared.of_transaction => {
                self.put_back(connection);
                if open { self.clone() } else { Self::default() }
            }
            _ if open => Self::new(Some(connection)),
            _ => Self::default(),
        }
    }

    /// Whether only one connection will do, and it is gone.
    pub(crate) fn is_broken(&self) -> bool {
        self.0.as_ref().is_some_and(|shared| !shared.of_transaction && shared.lock().is_none())
    }

    /// Whether it is the connection of a transaction.
    pub(crate) fn is_of_transaction(&self) -> bool {
        self.0.as_ref().is_some_and(|shared| shared.of_transaction)
    }

    /// Whether only one connection will do.
    pub(crate) fn is_pinned(&self) -> bool {
        self.0.is_some()
    }
}

impl SharedConnection {
    fn lock(&self) -> std::sync::MutexGuard<'_, Option<PooledConnection>> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn gone() -> Error {
    let text = "the only connection that led to the cursor or the transaction is gone";
    Error::network(NetworkFailure::ClosedByUs, text)
}
