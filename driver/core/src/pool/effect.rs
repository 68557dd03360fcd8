//! What a pool answers, and what it asks for.

use bson::oid::ObjectId;

use super::{Conn, ConnectionId, Generation, WaiterId};
use crate::event::cmap::{CmapEvent, ConnectionClosedReason};

/// The answer to a request for a connection.
#[derive(Debug)]
#[must_use]
pub enum CheckOut<C, E> {
    /// Here it is.
    Ready(Conn<C>),
    /// None yet: [`Effect::Deliver`] or [`Effect::Fail`] with this name will follow.
    Wait(WaiterId),
    /// None, and no use in waiting.
    Failed(CheckOutError<E>),
}

/// Why an operation gets no connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CheckOutError<E> {
    /// The pool was closed for good.
    #[error("attempted to check out a connection from closed connection pool")]
    Closed,
    /// It waited for as long as it was allowed to. The pool keeps no time: whoever cancels a waiter
    /// for [`Abandonment::TimedOut`] returns this error in its place.
    #[error("timed out while checking out a connection from connection pool")]
    TimedOut,
    /// The pool was cleared and waits for its server to be seen again, or has never seen it.
    /// Always worth another try; says nothing new about the server.
    #[error("the connection pool was cleared{}", because(.cause.as_ref()))]
    Cleared {
        /// The error that made the topology clear the pool, if it named one.
        cause: Option<E>,
    },
    /// The connection that was to serve the operation could not be established.
    #[error("{0}")]
    Connect(E),
}

fn because<E: std::fmt::Display>(cause: Option<&E>) -> String {
    cause
        .map(|cause| format!(" because another operation failed with: {cause}"))
        .unwrap_or_default()
}

/// Why a waiting operation leaves the queue on its own account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Abandonment {
    /// It waited for as long as it was allowed to.
    TimedOut,
    /// Its future was dropped.
    Dropped,
}

/// How a pool is to be cleared.
#[derive(Clone, Debug)]
pub struct Clear<E> {
    /// Behind a load balancer, the service whose connections are cleared. Elsewhere it is ignored.
    pub service_id: Option<ObjectId>,
    /// The generation to clear up to, where the topology counts; a clearing that is not ahead of
    /// the pool is one that it has had already. Without it, the next one.
    pub generation: Option<Generation>,
    /// Whether operations in progress are interrupted, too: their server does not answer.
    pub interrupt_in_use: bool,
    /// What went wrong.
    pub cause: Option<E>,
}

// Written by hand, since `E` need not have a default.
impl<E> Default for Clear<E> {
    fn default() -> Self {
        Self { service_id: None, generation: None, interrupt_in_use: false, cause: None }
    }
}

/// Something the pool asks to have done. To be performed in order.
#[derive(Debug)]
#[must_use]
pub enum Effect<C, E> {
    /// Tell whoever listens.
    Emit(CmapEvent),
    /// Establish a connection in a task of its own, and report with
    /// [`connected`](super::Pool::connected) or [`connect_failed`](super::Pool::connect_failed).
    Connect {
        /// What to report under.
        id: ConnectionId,
        /// The pool's generation, for the error to name if it fails.
        generation: Generation,
        /// Whether an operation waits for it; else it is to be there for those to come.
        awaited: bool,
    },
    /// Give up establishing a connection. It is closed as far as the pool is concerned; a late
    /// report about it does no harm.
    Abort(ConnectionId),
    /// Give a waiting operation its connection. If it is gone, check the connection in again.
    Deliver(WaiterId, Conn<C>),
    /// Tell a waiting operation that it gets none.
    Fail(WaiterId, CheckOutError<E>),
    /// Close a connection that left the pool.
    Close {
        /// Its name.
        id: ConnectionId,
        /// The connection itself.
        payload: C,
        /// Why it is closed.
        reason: ConnectionClosedReason,
    },
    /// Make whatever happens on this connection in use fail now; it is to be discarded after that.
    Interrupt(ConnectionId),
    /// Call [`maintain`](super::Pool::maintain) soon instead of at its usual time.
    WakeMaintenance,
}
