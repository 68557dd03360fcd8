//! Connection pool of one server: check-out, wait queue, establishing and closing of connections.
//!
//! [`Pool`] is plain state behind one lock, without sockets and clock: calls take the current time
//! and return [`PoolEffect`]s. It follows MongoDB's specification [Connection Monitoring and
//! Pooling].
//!
//! # Establishing connections
//!
//! A check-out never establishes a connection itself. An operation without an idle connection joins
//! the wait queue. The pool requests a connection ([`PoolEffect::Connect`]), which a separate task
//! establishes. Each new or returned connection goes to the first waiter. If a waiter is dropped or
//! times out, the connection requested for it serves the next waiter or becomes idle. A check-out
//! of an idle connection costs a few assignments and, without an event listener, no allocation.
//!
//! The pool requests connections while there are more waiters than connections being established,
//! within `maxConnecting` and `maxPoolSize`; and, without waiters, while there are fewer than
//! `minPoolSize`. One waiter therefore never causes two handshakes.
//!
//! If a connection cannot be established, the first waiter gets the error, unless enough other
//! connections are being established for all waiters. A failed connection is replaced at once only
//! for remaining waiters. To reach `minPoolSize`, it is replaced at the next
//! [`maintain`](Pool::maintain), so that an unreachable server is not flooded with connection
//! attempts.
//!
//! # Order of calls and effects
//!
//! - The topology processes an error of a connection first, and can [`clear`](Pool::clear) the
//!   pool; then the connection is checked in or discarded. The order for a failed handshake is
//!   [`connect_failing`](Pool::connect_failing), the topology,
//!   [`connect_failed`](Pool::connect_failed). A retry then finds a pool that is already cleared.
//! - Effects must be performed in their order. If events have a listener, take the effects before
//!   releasing the pool's lock, so that events are published in order.
//!
//! # Invariants
//!
//! - Pending, idle and in-use connections together never exceed `maxPoolSize`, pending ones never
//!   `maxConnecting`. A connection is in use until it is checked in or discarded, also while a
//!   pending reply is read from it.
//! - While an operation waits, no connection is idle.
//! - No idle or pending connection is stale: clearing the pool closes them at once, which makes
//!   room for the connections of retries.
//! - [`CheckOutResult::Wait`] is followed by exactly one [`PoolEffect::Deliver`] or
//!   [`PoolEffect::Fail`], unless the waiter is cancelled.
//!
//! [Connection Monitoring and Pooling]:
//! https://github.com/mongodb/specifications/blob/master/source/connection-monitoring-and-pooling/connection-monitoring-and-pooling.md
//!   waiter is cancelled.

mod conn;
mod effect;
mod establish;
mod lifecycle;
mod limits;
#[cfg(test)]
mod properties;
mod publisher;
mod records;
mod services;
#[cfg(test)]
mod tests;
mod wait_queue;

use std::{fmt::Display, time::Instant};

pub use conn::{ConnectionId, PoolConnection};
pub use effect::{CheckOutError, CheckOutResult, ClearRequest, PoolEffect, WaitCancellation};
pub use wait_queue::WaiterId;

use bson::oid::ObjectId;

use crate::{
    address::ServerAddress,
    event::cmap::{
        CmapEvent, ConnectionCheckoutStartedEvent, ConnectionClosedReason, ConnectionPoolOptions,
        PoolCreatedEvent,
    },
};
pub use limits::DEFAULT_MAX_POOL_SIZE;
use limits::PoolLimits;
use publisher::EventPublisher;
use records::{ConnectionRecords, ConnectionState};
use services::ServiceGenerations;
use wait_queue::WaitQueue;

/// Generation of a pool, incremented by each clearing. A connection of an earlier generation is
/// stale.
pub type Generation = u64;

/// Connection pool of one server. See the [module](self) for its rules.
///
/// `C` is the connection, `E` is the error of establishing one.
#[derive(Debug)]
pub struct Pool<C, E> {
    publisher: EventPublisher,
    limits: PoolLimits,
    state: PoolState,
    generation: Generation,
    /// Generations of the services behind a load balancer.
    services: Option<ServiceGenerations>,
    /// Error that caused the latest clearing.
    cause: Option<E>,
    records: ConnectionRecords,
    /// Stack with the most recently used connection on top, so that the others can reach
    /// `maxIdleTimeMS`.
    idle: Vec<Idle<C>>,
    queue: WaitQueue,
}

/// State of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PoolState {
    /// Hands out and establishes no connections until the server is available. [`Pool::ready`]
    /// makes it ready.
    Paused,
    /// Hands out and establishes connections. [`Pool::clear`] pauses it.
    Ready,
    /// Closed for good.
    Closed,
}

/// Number of connections of a pool, by their state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolCounts {
    /// All connections.
    pub total: usize,
    /// Idle connections.
    pub available: usize,
    /// Connections being established.
    pub pending: usize,
    /// Connections in use: checked out and not checked in.
    pub in_use: usize,
    /// Waiting operations.
    pub waiting: usize,
}

#[derive(Debug)]
struct Idle<C> {
    conn: PoolConnection<C>,
    since: Instant,
}

impl<C, E: Clone + Display> Pool<C, E> {
    /// Creates a paused pool without connections.
    ///
    /// Events are created only if `listening`.
    pub fn new(
        address: ServerAddress,
        options: &ConnectionPoolOptions,
        load_balanced: bool,
        listening: bool,
        effects: &mut Vec<PoolEffect<C, E>>,
    ) -> Self {
        let pool = Self {
            publisher: EventPublisher::new(address, listening),
            limits: PoolLimits::of(options),
            state: PoolState::Paused,
            generation: 0,
            services: load_balanced.then(ServiceGenerations::default),
            cause: None,
            records: ConnectionRecords::default(),
            idle: Vec::new(),
            queue: WaitQueue::default(),
        };
        pool.publisher.publish(effects, |address| {
            CmapEvent::PoolCreated(PoolCreatedEvent { address, options: Some(options.clone()) })
        });
        pool
    }

    /// Checks out a connection: the most recently used idle one, or a place in the wait queue.
    pub fn check_out(
        &mut self,
        now: Instant,
        effects: &mut Vec<PoolEffect<C, E>>,
    ) -> CheckOutResult<C, E> {
        self.publisher.publish(effects, |address| {
            CmapEvent::ConnectionCheckoutStarted(ConnectionCheckoutStartedEvent { address })
        });
        let error = match self.state {
            PoolState::Ready => None,
            PoolState::Paused => Some(CheckOutError::Cleared { cause: self.cause.clone() }),
            PoolState::Closed => Some(CheckOutError::Closed),
        };
        if let Some(error) = error {
            self.publisher.check_out_failed(effects, &error, std::time::Duration::ZERO);
            return CheckOutResult::Failed(error);
        }
        while let Some(Idle { conn, since }) = self.idle.pop() {
            if !self.limits.idled_too_long(since, now) {
                self.records.set_state(conn.id, ConnectionState::InUse);
                self.publisher.checked_out(effects, conn.id, std::time::Duration::ZERO);
                return CheckOutResult::Ready(conn);
            }
            self.close_conn(conn, ConnectionClosedReason::Idle, effects);
        }
        let waiter = self.queue.join(now);
        self.connect_for_waiters(now, effects);
        CheckOutResult::Wait(waiter)
    }

    /// Checks in a connection. It goes to the first waiter, becomes idle, or is closed if the pool
    /// was cleared or closed in the meantime.
    ///
    /// No reply may be pending on the connection. [Discard](Self::discard) a connection that is
    /// broken or in the middle of a message.
    pub fn check_in(
        &mut self,
        conn: PoolConnection<C>,
        now: Instant,
        effects: &mut Vec<PoolEffect<C, E>>,
    ) {
        if !self.records.is(conn.id, ConnectionState::InUse) {
            // The connection belongs to another pool, or was discarded already.
            effects.push(PoolEffect::Close {
                id: conn.id,
                payload: conn.payload,
                reason: ConnectionClosedReason::Dropped,
            });
            return;
        }
        self.publisher.checked_in(effects, conn.id);
        let close_reason = if self.state == PoolState::Closed {
            Some(ConnectionClosedReason::PoolClosed)
        } else if conn.generation < self.generation(conn.service_id) {
            Some(ConnectionClosedReason::Stale)
        } else {
            None
        };
        match close_reason {
            None => self.deliver_or_idle(conn, now, effects),
            Some(reason) => {
                self.close_conn(conn, reason, effects);
                self.connect_for_waiters(now, effects);
            }
        }
    }

    /// Removes a connection in use from the pool. The caller closes the connection itself.
    ///
    /// Call this *after* the topology has processed `error`. Has no effect on a connection that is
    /// not in use.
    pub fn discard(
        &mut self,
        id: ConnectionId,
        reason: ConnectionClosedReason,
        error: Option<&E>,
        now: Instant,
        effects: &mut Vec<PoolEffect<C, E>>,
    ) {
        if !self.records.is(id, ConnectionState::InUse) {
            return;
        }
        self.publisher.checked_in(effects, id);
        self.remove_connection(id, reason, error, effects);
        self.connect_for_waiters(now, effects);
        if self.state == PoolState::Ready && self.records.total() < self.limits.min_size {
            effects.push(PoolEffect::WakeMaintenance);
        }
    }

    /// Removes a waiter from the queue.
    ///
    /// Returns `false` if the waiter was already served. The caller must then take its connection
    /// or error, and check in the connection.
    pub fn cancel(
        &mut self,
        waiter: WaiterId,
        why: WaitCancellation,
        now: Instant,
        effects: &mut Vec<PoolEffect<C, E>>,
    ) -> bool {
        let Some(since) = self.queue.leave(waiter) else { return false };
        let waited = now.saturating_duration_since(since);
        self.publisher.abandoned(effects, why, waited);
        true
    }

    /// Returns the state of the pool.
    pub fn state(&self) -> PoolState {
        self.state
    }

    /// Returns the generation of the pool or, behind a load balancer, of a service.
    pub fn generation(&self, service_id: Option<ObjectId>) -> Generation {
        match (&self.services, service_id) {
            (Some(services), Some(service)) => services.generation(service),
            (Some(_), None) | (None, _) => self.generation,
        }
    }

    /// Returns the number of connections by their state.
    pub fn counts(&self) -> PoolCounts {
        PoolCounts {
            total: self.records.total(),
            available: self.idle.len(),
            pending: self.records.establishing(),
            in_use: self.records.in_use(),
            waiting: self.queue.waiting(),
        }
    }

    /// Returns the time at which the oldest idle connection exceeds `maxIdleTimeMS`, so that
    /// [`maintain`](Self::maintain) closes it.
    pub fn next_idle_expiry(&self) -> Option<Instant> {
        let oldest = self.idle.first()?;
        oldest.since.checked_add(self.limits.max_idle_time?)
    }

    /// Delivers a usable connection to the first waiter, or makes it idle.
    fn deliver_or_idle(
        &mut self,
        conn: PoolConnection<C>,
        now: Instant,
        effects: &mut Vec<PoolEffect<C, E>>,
    ) {
        match self.queue.next() {
            Some((waiter, since)) => {
                self.records.set_state(conn.id, ConnectionState::InUse);
                let waited = now.saturating_duration_since(since);
                self.publisher.checked_out(effects, conn.id, waited);
                effects.push(PoolEffect::Deliver(waiter, conn));
            }
            None => {
                self.records.set_state(conn.id, ConnectionState::Idle);
                self.idle.push(Idle { conn, since: now });
            }
        }
    }

    fn close_conn(
        &mut self,
        conn: PoolConnection<C>,
        reason: ConnectionClosedReason,
        effects: &mut Vec<PoolEffect<C, E>>,
    ) {
        self.remove_connection(conn.id, reason, None, effects);
        effects.push(PoolEffect::Close { id: conn.id, payload: conn.payload, reason });
    }

    /// Removes a connection from the records of this pool.
    fn remove_connection(
        &mut self,
        id: ConnectionId,
        reason: ConnectionClosedReason,
        error: Option<&E>,
        effects: &mut Vec<PoolEffect<C, E>>,
    ) {
        let Some(record) = self.records.remove(id) else { return };
        if let (Some(services), Some(service)) = (&mut self.services, record.service_id) {
            services.leave(service);
        }
        self.publisher.closed(effects, id, reason, record.service_id, error);
    }
}
