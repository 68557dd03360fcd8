//! A server's connections: who gets one, who waits, when one is made and when one is closed.
//!
//! [`Pool`] is plain state, made to live behind one lock. It knows no socket and no clock: calls go
//! in with the time of day, [`Effect`]s come out. Its rules are those of MongoDB's specification
//! "Connection Monitoring and Pooling".
//!
//! # Who establishes connections
//!
//! Nobody connects inside a check-out. An operation that finds no idle connection joins a queue;
//! the pool asks for a connection ([`Effect::Connect`]) to be established by a task of its own, and
//! gives it, like every connection that comes back, to whoever is first in line. An operation that
//! is dropped or times out while it waits takes nothing with it: the connection made for it serves
//! the next, or lies idle. An operation that finds an idle connection costs a few assignments and,
//! unless somebody listens to events, no allocation.
//!
//! Connections are asked for while there are more waiting operations than connections being
//! established, within `max_connecting` and `max_pool_size`; and, when nobody waits, while there
//! are fewer than `min_pool_size`. So one waiting operation never causes two handshakes.
//!
//! When establishing one fails, the error goes to the first in line, as it would have done to the
//! operation that established the connection itself — unless enough others are being established
//! that each waiting operation can still have one. A failed connection is replaced at once only for
//! operations that still wait; to fill up to `min_pool_size`, not before the next
//! [`maintain`](Pool::maintain), so that a server that refuses connections is not stormed.
//!
//! # The order of things
//!
//! - An error on a connection is told to the topology first, which may [`clear`](Pool::clear) the
//!   pool, and the connection is given back or discarded after that. A failed handshake likewise:
//!   [`connect_failing`](Pool::connect_failing), then the topology, then
//!   [`connect_failed`](Pool::connect_failed). Whoever retries then finds the pool already cleared.
//! - Effects are performed in the order in which they were added. Where events are listened to,
//!   they are to be taken over before the pool's lock is released, so that their order is the
//!   order of what happened.
//!
//! # What always holds
//!
//! - Pending, idle and in-use connections together never exceed `max_pool_size`, pending ones never
//!   `max_connecting`. A connection counts as in use until it is checked in or discarded, also while
//!   a forgotten reply is still being read from it.
//! - While an operation waits, no connection is idle.
//! - No idle or pending connection is stale: clearing closes them at once, which frees their places
//!   for the operations that retry.
//! - After [`CheckOut::Wait`] exactly one [`Effect::Deliver`] or [`Effect::Fail`] follows, unless the
//!   waiter is cancelled.

mod announce;
mod conn;
mod effect;
mod establish;
mod lifecycle;
mod limits;
mod members;
#[cfg(test)]
mod properties;
mod services;
#[cfg(test)]
mod tests;
mod wait_queue;

use std::{fmt::Display, time::Instant};

pub use conn::{Conn, ConnectionId};
pub use effect::{Abandonment, CheckOut, CheckOutError, Clear, Effect};
pub use wait_queue::WaiterId;

use bson::oid::ObjectId;

use crate::{
    address::ServerAddress,
    event::cmap::{
        CmapEvent, ConnectionCheckoutStartedEvent, ConnectionClosedReason, ConnectionPoolOptions,
        PoolCreatedEvent,
    },
};
use announce::Announcer;
pub use limits::DEFAULT_MAX_POOL_SIZE;
use limits::Limits;
use members::{Members, Phase};
use services::Services;
use wait_queue::WaitQueue;

/// Counts the clearings of a pool; a connection of an earlier generation than its pool's is stale.
pub type Generation = u64;

/// The connections to one server. See the [module](self) for its rules.
///
/// `C` is the connection itself, whatever that is; `E` is why one could not be had.
#[derive(Debug)]
pub struct Pool<C, E> {
    announcer: Announcer,
    limits: Limits,
    state: State,
    generation: Generation,
    /// Behind a load balancer, generations are counted by service.
    services: Option<Services>,
    /// Why the pool was cleared last.
    cause: Option<E>,
    members: Members,
    /// The connection used last is on top, so that the others may grow old enough to be closed.
    idle: Vec<Idle<C>>,
    queue: WaitQueue,
}

/// Which of its duties a pool performs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// Waits for its server to be seen; hands out and makes no connections. `ready` leads out of it.
    Paused,
    /// Hands out and makes connections. `clear` leads back to `Paused`.
    Ready,
    /// Does neither, for ever.
    Closed,
}

/// How many connections a pool has, by what they are doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// All of them.
    pub total: usize,
    /// Idle ones, ready to be handed out.
    pub available: usize,
    /// Those being established.
    pub pending: usize,
    /// Those handed out and not given back.
    pub in_use: usize,
    /// Operations waiting for one.
    pub waiting: usize,
}

#[derive(Debug)]
struct Idle<C> {
    conn: Conn<C>,
    since: Instant,
}

impl<C, E: Clone + Display> Pool<C, E> {
    /// A pool without connections, paused until its server has been seen.
    ///
    /// Events are made only if somebody is `listening`.
    pub fn new(
        address: ServerAddress,
        options: &ConnectionPoolOptions,
        load_balanced: bool,
        listening: bool,
        effects: &mut Vec<Effect<C, E>>,
    ) -> Self {
        let pool = Self {
            announcer: Announcer::new(address, listening),
            limits: Limits::of(options),
            state: State::Paused,
            generation: 0,
            services: load_balanced.then(Services::default),
            cause: None,
            members: Members::default(),
            idle: Vec::new(),
            queue: WaitQueue::default(),
        };
        pool.announcer.tell(effects, |address| {
            CmapEvent::PoolCreated(PoolCreatedEvent { address, options: Some(options.clone()) })
        });
        pool
    }

    /// Asks for a connection: the one used last, or a place in the queue.
    pub fn check_out(&mut self, now: Instant, effects: &mut Vec<Effect<C, E>>) -> CheckOut<C, E> {
        self.announcer.tell(effects, |address| {
            CmapEvent::ConnectionCheckoutStarted(ConnectionCheckoutStartedEvent { address })
        });
        let refusal = match self.state {
            State::Ready => None,
            State::Paused => Some(CheckOutError::Cleared { cause: self.cause.clone() }),
            State::Closed => Some(CheckOutError::Closed),
        };
        if let Some(error) = refusal {
            self.announcer.check_out_failed(effects, &error, std::time::Duration::ZERO);
            return CheckOut::Failed(error);
        }
        while let Some(Idle { conn, since }) = self.idle.pop() {
            if !self.limits.idled_too_long(since, now) {
                self.members.enter(conn.id, Phase::InUse);
                self.announcer.checked_out(effects, conn.id, std::time::Duration::ZERO);
                return CheckOut::Ready(conn);
            }
            self.close_conn(conn, ConnectionClosedReason::Idle, effects);
        }
        let waiter = self.queue.join(now);
        self.connect_for_waiters(now, effects);
        CheckOut::Wait(waiter)
    }

    /// Gives a connection back: to the first in line, or to lie idle, or to be closed if the pool
    /// was cleared or closed in the meantime.
    ///
    /// Only a connection on which nothing is left to be read may come back; one that is broken or
    /// in the middle of a message is to be [discarded](Self::discard).
    pub fn check_in(&mut self, conn: Conn<C>, now: Instant, effects: &mut Vec<Effect<C, E>>) {
        if !self.members.is(conn.id, Phase::InUse) {
            // Another pool's, or already given up: it has no place here to go back to.
            effects.push(Effect::Close {
                id: conn.id,
                payload: conn.payload,
                reason: ConnectionClosedReason::Dropped,
            });
            return;
        }
        self.announcer.checked_in(effects, conn.id);
        let unfit = if self.state == State::Closed {
            Some(ConnectionClosedReason::PoolClosed)
        } else if conn.generation < self.generation(conn.service_id) {
            Some(ConnectionClosedReason::Stale)
        } else {
            None
        };
        match unfit {
            None => self.hand_over(conn, now, effects),
            Some(reason) => {
                self.close_conn(conn, reason, effects);
                self.connect_for_waiters(now, effects);
            }
        }
    }

    /// Gives back only the place of a connection in use; the caller closes the connection itself.
    ///
    /// To be called *after* the topology has been told of `error`. Does nothing for a connection
    /// that is not in use.
    pub fn discard(
        &mut self,
        id: ConnectionId,
        reason: ConnectionClosedReason,
        error: Option<&E>,
        now: Instant,
        effects: &mut Vec<Effect<C, E>>,
    ) {
        if !self.members.is(id, Phase::InUse) {
            return;
        }
        self.announcer.checked_in(effects, id);
        self.strike_off(id, reason, error, effects);
        self.connect_for_waiters(now, effects);
        if self.state == State::Ready && self.members.total() < self.limits.min_size {
            effects.push(Effect::WakeMaintenance);
        }
    }

    /// Takes a waiter out of the queue.
    ///
    /// Returns whether it was still in it. If not, its connection or its error was on the way
    /// already, and the caller must take it and give the connection back.
    pub fn cancel(
        &mut self,
        waiter: WaiterId,
        why: Abandonment,
        now: Instant,
        effects: &mut Vec<Effect<C, E>>,
    ) -> bool {
        let Some(since) = self.queue.leave(waiter) else { return false };
        let waited = now.saturating_duration_since(since);
        self.announcer.abandoned(effects, why, waited);
        true
    }

    /// Whether the pool is paused, ready or closed.
    pub fn state(&self) -> State {
        self.state
    }

    /// The pool's generation, or, behind a load balancer, that of a service.
    pub fn generation(&self, service_id: Option<ObjectId>) -> Generation {
        match (&self.services, service_id) {
            (Some(services), Some(service)) => services.generation(service),
            (Some(_), None) | (None, _) => self.generation,
        }
    }

    /// How many connections there are, and of what kind.
    pub fn counts(&self) -> Counts {
        Counts {
            total: self.members.total(),
            available: self.idle.len(),
            pending: self.members.establishing(),
            in_use: self.members.in_use(),
            waiting: self.queue.waiting(),
        }
    }

    /// When the oldest idle connection will have been idle for too long: the time at which
    /// [`maintain`](Self::maintain) has something to do.
    pub fn next_idle_expiry(&self) -> Option<Instant> {
        let oldest = self.idle.first()?;
        oldest.since.checked_add(self.limits.max_idle_time?)
    }

    /// A usable connection goes to the first in line, or lies idle.
    fn hand_over(&mut self, conn: Conn<C>, now: Instant, effects: &mut Vec<Effect<C, E>>) {
        match self.queue.next() {
            Some((waiter, since)) => {
                self.members.enter(conn.id, Phase::InUse);
                let waited = now.saturating_duration_since(since);
                self.announcer.checked_out(effects, conn.id, waited);
                effects.push(Effect::Deliver(waiter, conn));
            }
            None => {
                self.members.enter(conn.id, Phase::Idle);
                self.idle.push(Idle { conn, since: now });
            }
        }
    }

    fn close_conn(
        &mut self,
        conn: Conn<C>,
        reason: ConnectionClosedReason,
        effects: &mut Vec<Effect<C, E>>,
    ) {
        self.strike_off(conn.id, reason, None, effects);
        effects.push(Effect::Close { id: conn.id, payload: conn.payload, reason });
    }

    /// A connection is no longer one of this pool's.
    fn strike_off(
        &mut self,
        id: ConnectionId,
        reason: ConnectionClosedReason,
        error: Option<&E>,
        effects: &mut Vec<Effect<C, E>>,
    ) {
        let Some(member) = self.members.remove(id) else { return };
        if let (Some(services), Some(service)) = (&mut self.services, member.service_id) {
            services.leave(service);
        }
        self.announcer.closed(effects, id, reason, member.service_id, error);
    }
}
