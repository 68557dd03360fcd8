//! Results and effects of a pool.

use bson::oid::ObjectId;

use super::{ConnectionId, Generation, PoolConnection, WaiterId};
use crate::event::cmap::{CmapEvent, ConnectionClosedReason};

/// Result of a check-out.
#[derive(Debug)]
#[must_use]
pub enum CheckOutResult<C, E> {
    /// An idle connection.
    Ready(PoolConnection<C>),
    /// A place in the wait queue. [`PoolEffect::Deliver`] or [`PoolEffect::Fail`] with this id
    /// follows.
    Wait(WaiterId),
    /// The check-out failed at once.
    Failed(CheckOutError<E>),
}

/// Error of a check-out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CheckOutError<E> {
    /// The pool is closed.
    #[error("attempted to check out a connection from closed connection pool")]
    Closed,
    /// The check-out timed out. The pool has no clock: the caller that cancels a waiter with
    /// [`WaitCancellation::TimedOut`] returns this error.
    #[error("timed out while checking out a connection from connection pool")]
    TimedOut,
    /// The pool is paused, after it was cleared or before the first check of its server. Always
    /// retryable; not an error of the server.
    #[error("the connection pool was cleared{}", because(.cause.as_ref()))]
    Cleared {
        /// The error that caused the clearing.
        cause: Option<E>,
    },
    /// The connection for this operation could not be established.
    #[error("{0}")]
    Connect(E),
}

fn because<E: std::fmt::Display>(cause: Option<&E>) -> String {
    cause
        .map(|cause| format!(" because another operation failed with: {cause}"))
        .unwrap_or_default()
}

/// Reason for removing a waiter from the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitCancellation {
    /// The check-out timed out.
    TimedOut,
    /// The future of the operation was dropped.
    Dropped,
}

/// Request to clear a pool.
#[derive(Clone, Debug)]
pub struct ClearRequest<E> {
    /// Id of the service to clear behind a load balancer. Ignored otherwise.
    pub service_id: Option<ObjectId>,
    /// Generation after the clearing, as counted by the topology. A generation that the pool has
    /// reached already has no effect. Defaults to the next generation.
    pub generation: Option<Generation>,
    /// Interrupts connections in use, too, because the server does not respond.
    pub interrupt_in_use: bool,
    /// Error that caused the clearing.
    pub cause: Option<E>,
}

// Not derived, because `E` need not implement `Default`.
impl<E> Default for ClearRequest<E> {
    fn default() -> Self {
        Self { service_id: None, generation: None, interrupt_in_use: false, cause: None }
    }
}

/// An effect that the pool requests. Effects must be performed in order.
#[derive(Debug)]
#[must_use]
pub enum PoolEffect<C, E> {
    /// Publish an event.
    Emit(CmapEvent),
    /// Establish a connection in a separate task, and report with
    /// [`connected`](super::Pool::connected) or [`connect_failed`](super::Pool::connect_failed).
    Connect {
        /// Id to report with.
        id: ConnectionId,
        /// Generation of the pool, for the error of a failure.
        generation: Generation,
        /// `true` if an operation waits for it; `false` if it serves `minPoolSize`.
        awaited: bool,
    },
    /// Stop establishing a connection. The pool has removed it already, and ignores a late report.
    Abort(ConnectionId),
    /// Deliver a connection to a waiter. If the waiter is gone, check the connection in again.
    Deliver(WaiterId, PoolConnection<C>),
    /// Deliver an error to a waiter.
    Fail(WaiterId, CheckOutError<E>),
    /// Close a connection that the pool has removed.
    Close {
        /// Id of the connection.
        id: ConnectionId,
        /// The connection.
        payload: C,
        /// Reason of closing it.
        reason: ConnectionClosedReason,
    },
    /// Make the operation on this connection fail now. It discards the connection afterwards.
    Interrupt(ConnectionId),
    /// Call [`maintain`](super::Pool::maintain) soon instead of at its next interval.
    WakeMaintenance,
}
