//! Life cycle of a pool: ready, cleared, maintained, closed.

use std::{fmt::Display, time::Instant};

use bson::oid::ObjectId;

use super::{
    CheckOutError, ClearRequest, Idle, Pool, PoolEffect, PoolState,
    records::{ConnectionRecord, ConnectionState},
};
use crate::event::cmap::{
    CmapEvent, ConnectionClosedReason, PoolClearedEvent, PoolClosedEvent, PoolReadyEvent,
};

impl<C, E: Clone + Display> Pool<C, E> {
    /// Marks the pool ready after a successful check of its server.
    pub fn ready(&mut self, now: Instant, effects: &mut Vec<PoolEffect<C, E>>) {
        if self.state != PoolState::Paused {
            return;
        }
        self.state = PoolState::Ready;
        self.cause = None;
        self.publisher.publish(effects, |address| CmapEvent::PoolReady(PoolReadyEvent { address }));
        self.populate(now, effects);
    }

    /// Clears the pool: makes all connections stale and pauses the pool. Behind a load balancer,
    /// clears the connections of one service and keeps the pool ready.
    ///
    /// Closes idle and pending connections now. Connections in use are closed when they are checked
    /// in, or interrupted if requested. Waiters get their error last, so that an immediate retry
    /// finds the places free.
    pub fn clear(
        &mut self,
        clear: ClearRequest<E>,
        now: Instant,
        effects: &mut Vec<PoolEffect<C, E>>,
    ) {
        if self.state == PoolState::Closed {
            return;
        }
        if self.services.is_some() {
            if let Some(service) = clear.service_id {
                self.clear_service(service, &clear, effects);
                self.connect_for_waiters(now, effects);
            }
            return;
        }
        let generation = clear.generation.unwrap_or(self.generation + 1);
        if generation <= self.generation {
            return;
        }
        self.generation = generation;
        // By the specification, clearing a paused pool publishes no event.
        if std::mem::replace(&mut self.state, PoolState::Paused) == PoolState::Ready {
            self.publish_cleared(None, clear.interrupt_in_use, effects);
        }
        self.close_idle(ConnectionClosedReason::Stale, |_| true, effects);
        self.abort_pending(ConnectionClosedReason::Stale, |_| true, effects);
        if clear.interrupt_in_use {
            self.interrupt(|_| true, effects);
        }
        self.cause = clear.cause;
        let error = CheckOutError::Cleared { cause: self.cause.clone() };
        self.fail_waiters(&error, now, effects);
    }

    /// Closes the pool for good. Connections in use are closed when they are checked in.
    pub fn close(&mut self, now: Instant, effects: &mut Vec<PoolEffect<C, E>>) {
        if self.state == PoolState::Closed {
            return;
        }
        self.state = PoolState::Closed;
        self.close_idle(ConnectionClosedReason::PoolClosed, |_| true, effects);
        self.abort_pending(ConnectionClosedReason::PoolClosed, |_| true, effects);
        // The tasks of these connections may be gone, so no report can be expected.
        for id in self.records.select(ConnectionState::Failing, |_| true) {
            self.remove_connection(id, ConnectionClosedReason::PoolClosed, None, effects);
        }
        self.queue.release_reserved();
        self.fail_waiters(&CheckOutError::Closed, now, effects);
        self.publisher
            .publish(effects, |address| CmapEvent::PoolClosed(PoolClosedEvent { address }));
    }

    /// Performs the work of the specification's background thread: closes connections idle for too
    /// long, then establishes connections up to `minPoolSize`.
    pub fn maintain(&mut self, now: Instant, effects: &mut Vec<PoolEffect<C, E>>) {
        // The oldest connections are at the bottom of the stack.
        let fresh = |idle: &Idle<C>| !self.limits.idled_too_long(idle.since, now);
        let expired = self.idle.iter().position(fresh).unwrap_or(self.idle.len());
        if expired > 0 {
            let kept = self.idle.split_off(expired);
            for Idle { conn, .. } in std::mem::replace(&mut self.idle, kept) {
                self.close_conn(conn, ConnectionClosedReason::Idle, effects);
            }
        }
        self.populate(now, effects);
    }

    /// Clears one service behind a load balancer. The pool stays ready and waiters stay in the
    /// queue, because the next connection can belong to another service.
    fn clear_service(
        &mut self,
        service: ObjectId,
        clear: &ClearRequest<E>,
        effects: &mut Vec<PoolEffect<C, E>>,
    ) {
        let advanced =
            self.services.as_mut().is_some_and(|all| all.advance(service, clear.generation));
        if !advanced {
            return;
        }
        self.publish_cleared(Some(service), clear.interrupt_in_use, effects);
        self.close_idle(ConnectionClosedReason::Stale, |id| id == Some(service), effects);
        self.abort_pending(ConnectionClosedReason::Stale, |id| id == Some(service), effects);
        if clear.interrupt_in_use {
            self.interrupt(|record| record.service_id == Some(service), effects);
        }
    }

    fn publish_cleared(
        &self,
        service_id: Option<ObjectId>,
        interrupt_in_use_connections: bool,
        effects: &mut Vec<PoolEffect<C, E>>,
    ) {
        self.publisher.publish(effects, |address| {
            CmapEvent::PoolCleared(PoolClearedEvent {
                address,
                service_id,
                interrupt_in_use_connections,
            })
        });
    }

    fn close_idle(
        &mut self,
        reason: ConnectionClosedReason,
        of_service: impl Fn(Option<ObjectId>) -> bool,
        effects: &mut Vec<PoolEffect<C, E>>,
    ) {
        for idle in std::mem::take(&mut self.idle) {
            if of_service(idle.conn.service_id) {
                self.close_conn(idle.conn, reason, effects);
            } else {
                self.idle.push(idle);
            }
        }
    }

    /// Aborts pending connections, which belong to a past generation.
    fn abort_pending(
        &mut self,
        reason: ConnectionClosedReason,
        of_service: impl Fn(Option<ObjectId>) -> bool,
        effects: &mut Vec<PoolEffect<C, E>>,
    ) {
        for id in
            self.records.select(ConnectionState::Pending, |record| of_service(record.service_id))
        {
            self.remove_connection(id, reason, None, effects);
            effects.push(PoolEffect::Abort(id));
        }
    }

    /// Interrupts stale connections in use. Behind a load balancer, only those of the cleared
    /// service.
    fn interrupt(
        &self,
        concerns: impl Fn(&ConnectionRecord) -> bool,
        effects: &mut Vec<PoolEffect<C, E>>,
    ) {
        let stale = |record: &ConnectionRecord| {
            concerns(record) && record.generation < self.generation(record.service_id)
        };
        effects.extend(
            self.records
                .select(ConnectionState::InUse, stale)
                .into_iter()
                .map(PoolEffect::Interrupt),
        );
    }

    fn fail_waiters(
        &mut self,
        error: &CheckOutError<E>,
        now: Instant,
        effects: &mut Vec<PoolEffect<C, E>>,
    ) {
        while let Some((waiter, since)) = self.queue.next() {
            let waited = now.saturating_duration_since(since);
            self.publisher.check_out_failed(effects, error, waited);
            effects.push(PoolEffect::Fail(waiter, error.clone()));
        }
    }
}
