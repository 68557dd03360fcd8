//! Establishing of connections: concurrency limits, and the results of handshakes.

use std::{fmt::Display, time::Instant};

use bson::oid::ObjectId;

use super::{
    CheckOutError, ConnectionId, ConnectionState, Generation, Pool, PoolConnection, PoolEffect,
    PoolState,
};
use crate::event::cmap::{
    CmapEvent, ConnectionClosedReason, ConnectionCreatedEvent, ConnectionReadyEvent,
};

impl<C, E: Clone + Display> Pool<C, E> {
    /// Records the `hello` reply of a connection that is being established. Behind a load balancer,
    /// the connection gets the current generation of its service. A clearing of the service during
    /// authentication then makes it stale.
    pub fn handshake_completed(&mut self, id: ConnectionId, service_id: Option<ObjectId>) {
        if self.records.is(id, ConnectionState::Pending) {
            self.join(id, service_id);
        }
    }

    fn join(&mut self, id: ConnectionId, service_id: Option<ObjectId>) {
        let Some(record) = self.records.get_mut(id).filter(|it| it.service_id.is_none()) else {
            return;
        };
        if let (Some(services), Some(service)) = (&mut self.services, service_id) {
            record.generation = services.join(service);
            record.service_id = Some(service);
        }
    }

    /// Records a connection requested by [`PoolEffect::Connect`] as established, handshake and
    /// authentication included. Behind a load balancer, `service_id` is known.
    pub fn connected(
        &mut self,
        id: ConnectionId,
        payload: C,
        service_id: Option<ObjectId>,
        now: Instant,
        effects: &mut Vec<PoolEffect<C, E>>,
    ) {
        let Some(conn) = self.activate(id, payload, service_id, now, effects) else { return };
        self.deliver_or_idle(conn, now, effects);
        self.connect_for_waiters(now, effects);
        self.populate(now, effects);
    }

    /// Records that a connection could not be established, before the topology processes the error.
    ///
    /// Reserves the waiter that will get the error, so that a clearing of the pool does not give it
    /// a less specific one: a failed authentication must be reported as such. Optional; without
    /// this call, [`connect_failed`](Self::connect_failed) does the same.
    ///
    /// Returns the generation of the connection and its service, if known. Returns `None` if the
    /// connection was removed already.
    pub fn connect_failing(&mut self, id: ConnectionId) -> Option<(Generation, Option<ObjectId>)> {
        if !self.records.is(id, ConnectionState::Pending) {
            return None;
        }
        self.records.set_state(id, ConnectionState::Failing);
        // If the other connections being established suffice for all waiters, no waiter gets the
        // error.
        let error_waiter = if self.queue.len() > self.records.pending() {
            self.queue.reserve_first()
        } else {
            None
        };
        let record = self.records.get_mut(id)?;
        record.error_waiter = error_waiter;
        Some((record.generation, record.service_id))
    }

    /// Records that a connection could not be established, after the topology has processed the
    /// error.
    pub fn connect_failed(
        &mut self,
        id: ConnectionId,
        error: E,
        now: Instant,
        effects: &mut Vec<PoolEffect<C, E>>,
    ) {
        self.connect_failing(id);
        if !self.records.is(id, ConnectionState::Failing) {
            return;
        }
        let error_waiter = self.records.get(id).and_then(|record| record.error_waiter);
        self.remove_connection(id, ConnectionClosedReason::Error, Some(&error), effects);
        if let Some(waiter) = error_waiter
            && let Some(since) = self.queue.take_reserved(waiter)
        {
            let error = CheckOutError::Connect(error);
            let waited = now.saturating_duration_since(since);
            self.publisher.check_out_failed(effects, &error, waited);
            effects.push(PoolEffect::Fail(waiter, error));
        }
        self.connect_for_waiters(now, effects);
    }

    /// Requests connections while there are more waiters than connections being established.
    pub(super) fn connect_for_waiters(
        &mut self,
        now: Instant,
        effects: &mut Vec<PoolEffect<C, E>>,
    ) {
        while self.queue.len() > self.records.pending() && self.may_connect() {
            self.connect(true, now, effects);
        }
    }

    /// Requests connections up to `minPoolSize` while there are no waiters.
    pub(super) fn populate(&mut self, now: Instant, effects: &mut Vec<PoolEffect<C, E>>) {
        while self.queue.len() == 0
            && self.records.total() < self.limits.min_size
            && self.may_connect()
        {
            self.connect(false, now, effects);
        }
    }

    /// Requests connections for operations that wait for server selection and will arrive soon,
    /// within `maxConnecting`. If the operations do not arrive, the connections become idle.
    pub fn preconnect(
        &mut self,
        operations: usize,
        now: Instant,
        effects: &mut Vec<PoolEffect<C, E>>,
    ) {
        while self.idle.len() + self.records.pending() < self.queue.len() + operations
            && self.may_connect()
        {
            self.connect(true, now, effects);
        }
    }

    fn may_connect(&self) -> bool {
        self.state == PoolState::Ready
            && self.records.total() < self.limits.max_size
            && self.records.establishing() < self.limits.max_connecting
    }

    fn connect(&mut self, awaited: bool, now: Instant, effects: &mut Vec<PoolEffect<C, E>>) {
        let generation = self.generation;
        let id = self.records.create(generation, now);
        self.publisher.publish(effects, |address| {
            let connection_id = id.number();
            CmapEvent::ConnectionCreated(ConnectionCreatedEvent { address, connection_id })
        });
        effects.push(PoolEffect::Connect { id, generation, awaited });
    }

    /// Makes an established connection usable, unless it was removed in the meantime.
    fn activate(
        &mut self,
        id: ConnectionId,
        payload: C,
        service_id: Option<ObjectId>,
        now: Instant,
        effects: &mut Vec<PoolEffect<C, E>>,
    ) -> Option<PoolConnection<C>> {
        if !self.records.is(id, ConnectionState::Pending) {
            // The event was published when the connection was removed; only the socket remains.
            effects.push(PoolEffect::Close { id, payload, reason: ConnectionClosedReason::Stale });
            return None;
        }
        self.join(id, service_id);
        let record = self.records.get(id)?;
        let duration = now.saturating_duration_since(record.created);
        let conn = PoolConnection {
            id,
            generation: record.generation,
            service_id: record.service_id,
            payload,
        };
        self.publisher.publish(effects, |address| {
            let connection_id = id.number();
            CmapEvent::ConnectionReady(ConnectionReadyEvent { address, connection_id, duration })
        });
        Some(conn)
    }
}
