//! Making connections: how many at a time, and what their success or failure means to whom.

use std::{fmt::Display, time::Instant};

use bson::oid::ObjectId;

use super::{CheckOutError, Conn, ConnectionId, Effect, Generation, Phase, Pool, State};
use crate::event::cmap::{
    CmapEvent, ConnectionClosedReason, ConnectionCreatedEvent, ConnectionReadyEvent,
};

impl<C, E: Clone + Display> Pool<C, E> {
    /// The server answered the `hello` of a connection that is being established. Behind a load
    /// balancer, the connection is of the current generation of its service from now on: what
    /// clears the service while the connection authenticates makes it stale, too.
    pub fn handshake_completed(&mut self, id: ConnectionId, service_id: Option<ObjectId>) {
        if self.members.is(id, Phase::Pending) {
            self.join(id, service_id);
        }
    }

    fn join(&mut self, id: ConnectionId, service_id: Option<ObjectId>) {
        let Some(member) = self.members.get_mut(id).filter(|it| it.service_id.is_none()) else {
            return;
        };
        if let (Some(services), Some(service)) = (&mut self.services, service_id) {
            member.generation = services.join(service);
            member.service_id = Some(service);
        }
    }

    /// A connection asked for with [`Effect::Connect`] is established, handshake and authentication
    /// included. Behind a load balancer it has learnt which service it leads to.
    pub fn connected(
        &mut self,
        id: ConnectionId,
        payload: C,
        service_id: Option<ObjectId>,
        now: Instant,
        effects: &mut Vec<Effect<C, E>>,
    ) {
        let Some(conn) = self.enroll(id, payload, service_id, now, effects) else { return };
        self.hand_over(conn, now, effects);
        self.connect_for_waiters(now, effects);
        self.populate(now, effects);
    }

    /// A connection could not be established, and the topology is about to be told.
    ///
    /// Sets aside the operation that the error will go to, so that the clearing of the pool that may
    /// follow does not tell it something vaguer: a wrong password must be called that. Optional;
    /// without it, [`connect_failed`](Self::connect_failed) does the same.
    ///
    /// Returns the generation of the connection and the service that it leads to, if that is known;
    /// `None` if the connection was given up already.
    pub fn connect_failing(&mut self, id: ConnectionId) -> Option<(Generation, Option<ObjectId>)> {
        if !self.members.is(id, Phase::Pending) {
            return None;
        }
        self.members.enter(id, Phase::Failing);
        // Others being established may suffice for all that wait: then nobody has to fail.
        let to_be_told =
            if self.queue.len() > self.members.pending() { self.queue.call_aside() } else { None };
        let member = self.members.get_mut(id)?;
        member.to_be_told = to_be_told;
        Some((member.generation, member.service_id))
    }

    /// A connection could not be established, and the topology has been told.
    pub fn connect_failed(
        &mut self,
        id: ConnectionId,
        error: E,
        now: Instant,
        effects: &mut Vec<Effect<C, E>>,
    ) {
        self.connect_failing(id);
        if !self.members.is(id, Phase::Failing) {
            return;
        }
        let to_be_told = self.members.get(id).and_then(|member| member.to_be_told);
        self.strike_off(id, ConnectionClosedReason::Error, Some(&error), effects);
        if let Some(waiter) = to_be_told
            && let Some(since) = self.queue.dismiss(waiter)
        {
            let error = CheckOutError::Connect(error);
            let waited = now.saturating_duration_since(since);
            self.announcer.check_out_failed(effects, &error, waited);
            effects.push(Effect::Fail(waiter, error));
        }
        self.connect_for_waiters(now, effects);
    }

    /// Asks for connections while more operations wait than connections are on their way.
    pub(super) fn connect_for_waiters(&mut self, now: Instant, effects: &mut Vec<Effect<C, E>>) {
        while self.queue.len() > self.members.pending() && self.may_connect() {
            self.connect(true, now, effects);
        }
    }

    /// Asks for connections up to `min_pool_size`, once nobody is waiting for one.
    pub(super) fn populate(&mut self, now: Instant, effects: &mut Vec<Effect<C, E>>) {
        while self.queue.len() == 0
            && self.members.total() < self.limits.min_size
            && self.may_connect()
        {
            self.connect(false, now, effects);
        }
    }

    /// Asks for connections for operations that wait elsewhere and will come here soon, as far as those
    /// that there are do not suffice and as many as may be made at a time. If they do not come, the
    /// connections lie idle.
    pub fn expect(&mut self, operations: usize, now: Instant, effects: &mut Vec<Effect<C, E>>) {
        while self.idle.len() + self.members.pending() < self.queue.len() + operations
            && self.may_connect()
        {
            self.connect(true, now, effects);
        }
    }

    fn may_connect(&self) -> bool {
        self.state == State::Ready
            && self.members.total() < self.limits.max_size
            && self.members.establishing() < self.limits.max_connecting
    }

    fn connect(&mut self, awaited: bool, now: Instant, effects: &mut Vec<Effect<C, E>>) {
        let generation = self.generation;
        let id = self.members.create(generation, now);
        self.announcer.tell(effects, |address| {
            let connection_id = id.number();
            CmapEvent::ConnectionCreated(ConnectionCreatedEvent { address, connection_id })
        });
        effects.push(Effect::Connect { id, generation, awaited });
    }

    /// Makes an established connection one that can be handed out, unless it was given up.
    fn enroll(
        &mut self,
        id: ConnectionId,
        payload: C,
        service_id: Option<ObjectId>,
        now: Instant,
        effects: &mut Vec<Effect<C, E>>,
    ) -> Option<Conn<C>> {
        if !self.members.is(id, Phase::Pending) {
            // Its closing was announced when it was given up; only the socket is left.
            effects.push(Effect::Close { id, payload, reason: ConnectionClosedReason::Stale });
            return None;
        }
        self.join(id, service_id);
        let member = self.members.get(id)?;
        let duration = now.saturating_duration_since(member.created);
        let conn =
            Conn { id, generation: member.generation, service_id: member.service_id, payload };
        self.announcer.tell(effects, |address| {
            let connection_id = id.number();
            CmapEvent::ConnectionReady(ConnectionReadyEvent { address, connection_id, duration })
        });
        Some(conn)
    }
}
