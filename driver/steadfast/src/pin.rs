//! Pins of cursors and transactions: to one server and, behind a load balancer, to one connection.

use std::sync::{Arc, Mutex, PoisonError};

use crate::{
    error::{Error, NetworkFailure, Result},
    pool::{PinnedBy, PooledConnection},
    topology::Server,
};

/// Server of a cursor or transaction and, behind a load balancer, its connection.
#[derive(Clone, Debug)]
pub(crate) struct PinnedServer {
    pub(crate) server: Arc<Server>,
    pub(crate) connection: PinnedConnection,
}

/// Connection of a cursor or transaction behind a load balancer. Empty for other deployments.
///
/// A command takes the connection and puts it back unless it broke. The connection returns to its
/// pool when the last pin is dropped.
#[derive(Clone, Debug, Default)]
pub(crate) struct PinnedConnection(Option<Arc<SharedConnection>>);

#[derive(Debug)]
struct SharedConnection {
    connection: Mutex<Option<PooledConnection>>,
    /// `true` if a transaction pinned the connection. The transaction's cursors share it.
    of_transaction: bool,
}

impl PinnedConnection {
    /// Pins a cursor to its connection. Without one, the cursor is not pinned.
    pub(crate) fn new(connection: Option<PooledConnection>) -> Self {
        let Some(connection) = connection else { return Self::default() };
        let shared = SharedConnection { connection: Mutex::default(), of_transaction: false };
        let pin = Self(Some(Arc::new(shared)));
        pin.put_back(connection);
        pin
    }

    /// Pins a transaction to a connection, which is in use.
    pub(crate) fn of_transaction() -> Self {
        let shared = SharedConnection { connection: Mutex::default(), of_transaction: true };
        Self(Some(Arc::new(shared)))
    }

    /// Takes the connection. Returns `None` if nothing is pinned, and an error if it is closed.
    pub(crate) fn take(&self) -> Option<Result<PooledConnection>> {
        let connection = self.0.as_ref()?.lock().take();
        Some(connection.ok_or_else(connection_closed))
    }

    /// Puts the connection back for the next command. Without a pin, it returns to its pool. So does a
    /// connection after an invalid reply, which its pool closes; the pin is then broken.
    pub(crate) fn put_back(&self, mut connection: PooledConnection) {
        if let Some(shared) = self.0.as_ref().filter(|_| connection.is_clean()) {
            let by = if shared.of_transaction { PinnedBy::Transaction } else { PinnedBy::Cursor };
            connection.pin(by);
            *shared.lock() = Some(connection);
        }
    }

    /// Returns the pin for the cursor that a successful command left `open`. The connection stays pinned
    /// if the cursor or the transaction needs it.
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

    /// Returns `true` if the pinned connection of a cursor is closed.
    pub(crate) fn is_broken(&self) -> bool {
        self.0.as_ref().is_some_and(|shared| !shared.of_transaction && shared.lock().is_none())
    }

    /// Returns `true` if the connection is pinned by a transaction.
    pub(crate) fn is_of_transaction(&self) -> bool {
        self.0.as_ref().is_some_and(|shared| shared.of_transaction)
    }

    /// Returns `true` if a connection is pinned.
    pub(crate) fn is_pinned(&self) -> bool {
        self.0.is_some()
    }
}

impl SharedConnection {
    fn lock(&self) -> std::sync::MutexGuard<'_, Option<PooledConnection>> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn connection_closed() -> Error {
    let text = "the pinned connection of the cursor or transaction is closed";
    Error::network(NetworkFailure::ClosedByClient, text)
}
