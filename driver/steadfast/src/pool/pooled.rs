//! Connection that is checked out of its pool, and checked in when it is dropped.

use std::{
    fmt,
    ops::{Deref, DerefMut},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use steadfast_core::{
    event::cmap::ConnectionClosedReason,
    pool::{Generation, PoolConnection},
};

use super::Pool;
use crate::{connection::Connection, error::Error};

/// Time-out of the reply to a request whose future was dropped. A connection is reusable once the
/// reply is read.
const DROPPED_REPLY_TIMEOUT: Duration = Duration::from_secs(3);

/// Checked-out connection. Dropping it checks it in: immediately if no message is in progress,
/// otherwise after a task has read the outstanding reply. If that is not possible, the connection
/// is closed. A connection with a partial message is never checked in (pitfalls 21 and 22).
pub(crate) struct PooledConnection {
    conn: Option<PoolConnection<Box<Connection>>>,
    pool: Arc<Pool>,
    pinned_by: Option<PinnedBy>,
}

/// Owner of a pinned connection between commands, behind a load balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PinnedBy {
    Cursor,
    Transaction,
}

/// Numbers of pinned connections.
#[derive(Debug, Default)]
pub(super) struct PinnedCounts {
    cursors: AtomicUsize,
    transactions: AtomicUsize,
}

impl PinnedCounts {
    fn of(&self, by: PinnedBy) -> &AtomicUsize {
        match by {
            PinnedBy::Cursor => &self.cursors,
            PinnedBy::Transaction => &self.transactions,
        }
    }

    pub(super) fn get(&self, by: PinnedBy) -> usize {
        self.of(by).load(Ordering::Relaxed)
    }
}

impl PooledConnection {
    pub(super) fn new(conn: PoolConnection<Box<Connection>>, pool: Arc<Pool>) -> Self {
        Self { conn: Some(conn), pool, pinned_by: None }
    }

    /// Returns the generation of the pool at which the connection was created.
    pub(crate) fn generation(&self) -> Generation {
        self.conn().generation()
    }

    /// Sets the owner, for the statistics in error messages.
    pub(crate) fn pin(&mut self, by: PinnedBy) {
        if self.pinned_by.is_none() {
            self.pinned_by = Some(by);
            self.pool.pinned.of(by).fetch_add(1, Ordering::Relaxed);
        }
    }

    fn conn(&self) -> &PoolConnection<Box<Connection>> {
        self.conn.as_ref().expect("present until it is dropped")
    }

    /// Closes the connection.
    pub(crate) fn discard(mut self, reason: ConnectionClosedReason, error: Option<&Error>) {
        if let Some(conn) = self.conn.take() {
            discard(&self.pool, conn, reason, error);
        }
    }
}

fn discard(
    pool: &Pool,
    conn: PoolConnection<Box<Connection>>,
    reason: ConnectionClosedReason,
    error: Option<&Error>,
) {
    let id = conn.id();
    drop(conn.into_payload());
    pool.change(|state, effects| {
        state.interrupts.remove(&id);
        state.pool.discard(id, reason, error, Instant::now(), effects);
    });
}

fn check_in(pool: &Pool, conn: PoolConnection<Box<Connection>>) {
    pool.change(|state, effects| state.pool.check_in(conn, Instant::now(), effects));
}

/// Reads an outstanding reply and checks the connection in.
async fn drain(pool: Arc<Pool>, mut conn: PoolConnection<Box<Connection>>) {
    let drained = tokio::time::timeout(DROPPED_REPLY_TIMEOUT, conn.payload.drain()).await;
    match drained {
        Ok(Ok(())) => check_in(&pool, conn),
        Ok(Err(error)) => {
            let generation = conn.generation();
            pool.observer.operation_failed(&conn.payload, generation, &error);
            discard(&pool, conn, ConnectionClosedReason::Error, Some(&error));
        }
        Err(_elapsed) => discard(&pool, conn, ConnectionClosedReason::Dropped, None),
    }
}

impl Drop for PooledConnection {
    fn drop(&mut self) {
        if let Some(by) = self.pinned_by {
            self.pool.pinned.of(by).fetch_sub(1, Ordering::Relaxed);
        }
        let Some(conn) = self.conn.take() else { return };
        if conn.payload.is_clean() {
            check_in(&self.pool, conn);
        } else if conn.payload.awaits_reply() {
            self.pool.establisher.spawn(drain(Arc::clone(&self.pool), conn));
        } else {
            discard(&self.pool, conn, ConnectionClosedReason::Error, None);
        }
    }
}

impl Deref for PooledConnection {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.conn().payload
    }
}

impl DerefMut for PooledConnection {
    fn deref_mut(&mut self) -> &mut Connection {
        &mut self.conn.as_mut().expect("present until it is dropped").payload
    }
}

impl fmt::Debug for PooledConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PooledConnection({} of {})", self.conn().id(), self.pool.address)
    }
}
