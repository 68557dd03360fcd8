//! What happens to a pool as a whole: ready, cleared, tidied, closed.

use std::{fmt::Display, time::Instant};

use bson::oid::ObjectId;

use super::{
    CheckOutError, Clear, Effect, Idle, Pool, State,
    members::{Member, Phase},
};
use crate::event::cmap::{
    CmapEvent, ConnectionClosedReason, PoolClearedEvent, PoolClosedEvent, PoolReadyEvent,
};

impl<C, E: Clone + Display> Pool<C, E> {
    /// The server was seen: connections may be made and handed out.
    pub fn ready(&mut self, now: Instant, effects: &mut Vec<Effect<C, E>>) {
        if self.state != State::Paused {
            return;
        }
        self.state = State::Ready;
        self.cause = None;
        self.announcer.tell(effects, |address| CmapEvent::PoolReady(PoolReadyEvent { address }));
        self.populate(now, effects);
    }

    /// Declares all connections unfit and pauses the pool; behind a load balancer, only the
    /// connections of one service, and the pool goes on.
    ///
    /// Idle connections and those being established are closed now, in-use ones when they come
    /// back, or now if asked for. Every waiting operation is told, last, so that one that retries at
    /// once finds the places free.
    pub fn clear(&mut self, clear: Clear<E>, now: Instant, effects: &mut Vec<Effect<C, E>>) {
        if self.state == State::Closed {
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
        // The specification: no second event while the pool is paused.
        if std::mem::replace(&mut self.state, State::Paused) == State::Ready {
            self.tell_cleared(None, clear.interrupt_in_use, effects);
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

    /// Closes the pool for good. Connections in use are closed when they come back.
    pub fn close(&mut self, now: Instant, effects: &mut Vec<Effect<C, E>>) {
        if self.state == State::Closed {
            return;
        }
        self.state = State::Closed;
        self.close_idle(ConnectionClosedReason::PoolClosed, |_| true, effects);
        self.abort_pending(ConnectionClosedReason::PoolClosed, |_| true, effects);
        // Nobody may be left to report on those that are failing.
        for id in self.members.select(Phase::Failing, |_| true) {
            self.strike_off(id, ConnectionClosedReason::PoolClosed, None, effects);
        }
        self.queue.recall_aside();
        self.fail_waiters(&CheckOutError::Closed, now, effects);
        self.announcer.tell(effects, |address| CmapEvent::PoolClosed(PoolClosedEvent { address }));
    }

    /// The work of the specification's background thread, to be done now and then: closes what has
    /// been idle for too long, then fills up to `min_pool_size`.
    pub fn maintain(&mut self, now: Instant, effects: &mut Vec<Effect<C, E>>) {
        // The oldest lie at the bottom of the stack.
        let fresh = |idle: &Idle<C>| !self.limits.idled_too_long(idle.since, now);
        let perished = self.idle.iter().position(fresh).unwrap_or(self.idle.len());
        if perished > 0 {
            let kept = self.idle.split_off(perished);
            for Idle { conn, .. } in std::mem::replace(&mut self.idle, kept) {
                self.close_conn(conn, ConnectionClosedReason::Idle, effects);
            }
        }
        self.populate(now, effects);
    }

    /// Behind a load balancer the pool is never paused, and nobody who waits is sent away: the next
    /// connection may well lead to another service.
    fn clear_service(
        &mut self,
        service: ObjectId,
        clear: &Clear<E>,
        effects: &mut Vec<Effect<C, E>>,
    ) {
        let advanced =
            self.services.as_mut().is_some_and(|all| all.advance(service, clear.generation));
        if !advanced {
            return;
        }
        self.tell_cleared(Some(service), clear.interrupt_in_use, effects);
        self.close_idle(ConnectionClosedReason::Stale, |id| id == Some(service), effects);
        self.abort_pending(ConnectionClosedReason::Stale, |id| id == Some(service), effects);
        if clear.interrupt_in_use {
            self.interrupt(|member| member.service_id == Some(service), effects);
        }
    }

    fn tell_cleared(
        &self,
        service_id: Option<ObjectId>,
        interrupt_in_use_connections: bool,
        effects: &mut Vec<Effect<C, E>>,
    ) {
        self.announcer.tell(effects, |address| {
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
        effects: &mut Vec<Effect<C, E>>,
    ) {
        for idle in std::mem::take(&mut self.idle) {
            if of_service(idle.conn.service_id) {
                self.close_conn(idle.conn, reason, effects);
            } else {
                self.idle.push(idle);
            }
        }
    }

    /// Connections still being established in a past generation can serve nobody any more.
    fn abort_pending(
        &mut self,
        reason: ConnectionClosedReason,
        of_service: impl Fn(Option<ObjectId>) -> bool,
        effects: &mut Vec<Effect<C, E>>,
    ) {
        for id in self.members.select(Phase::Pending, |member| of_service(member.service_id)) {
            self.strike_off(id, reason, None, effects);
            effects.push(Effect::Abort(id));
        }
    }

    /// Interrupts those in use that are stale; none can be of the new generation yet, but behind a
    /// load balancer another service's are not concerned.
    fn interrupt(&self, concerns: impl Fn(&Member) -> bool, effects: &mut Vec<Effect<C, E>>) {
        let stale = |member: &Member| {
            concerns(member) && member.generation < self.generation(member.service_id)
        };
        effects.extend(self.members.select(Phase::InUse, stale).into_iter().map(Effect::Interrupt));
    }

    fn fail_waiters(
        &mut self,
        error: &CheckOutError<E>,
        now: Instant,
        effects: &mut Vec<Effect<C, E>>,
    ) {
        while let Some((waiter, since)) = self.queue.next() {
            let waited = now.saturating_duration_since(since);
            self.announcer.check_out_failed(effects, error, waited);
            effects.push(Effect::Fail(waiter, error.clone()));
        }
    }
}
