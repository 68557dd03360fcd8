//! Test harness of a pool: every call returns its effects by kind.

use std::time::{Duration, Instant};

use super::super::*;

pub(super) type Fx = Vec<PoolEffect<&'static str, &'static str>>;

/// A pool with a manual clock.
pub(super) struct PoolHarness {
    pub(super) pool: Pool<&'static str, &'static str>,
    pub(super) now: Instant,
}

/// Effects of one call, by kind.
#[derive(Debug, Default)]
pub(super) struct EffectsByKind {
    pub(super) connect: Vec<ConnectionId>,
    pub(super) abort: Vec<ConnectionId>,
    /// `awaited` of each entry of `connect`.
    pub(super) awaited: Vec<bool>,
    pub(super) delivered: Vec<(WaiterId, PoolConnection<&'static str>)>,
    pub(super) failed: Vec<(WaiterId, CheckOutError<&'static str>)>,
    pub(super) closed: Vec<(u32, ConnectionClosedReason)>,
    pub(super) interrupted: Vec<ConnectionId>,
    pub(super) woken: bool,
    pub(super) events: Vec<CmapEvent>,
}

impl From<Fx> for EffectsByKind {
    fn from(effects: Fx) -> Self {
        let mut by_kind = Self::default();
        for effect in effects {
            match effect {
                PoolEffect::Emit(event) => by_kind.events.push(event),
                PoolEffect::Connect { id, awaited, .. } => {
                    by_kind.connect.push(id);
                    by_kind.awaited.push(awaited);
                }
                PoolEffect::Abort(id) => by_kind.abort.push(id),
                PoolEffect::Deliver(waiter, conn) => by_kind.delivered.push((waiter, conn)),
                PoolEffect::Fail(waiter, error) => by_kind.failed.push((waiter, error)),
                PoolEffect::Close { id, reason, .. } => by_kind.closed.push((id.number(), reason)),
                PoolEffect::Interrupt(id) => by_kind.interrupted.push(id),
                PoolEffect::WakeMaintenance => by_kind.woken = true,
            }
        }
        by_kind
    }
}

pub(super) fn sizes(min: u32, max: u32) -> ConnectionPoolOptions {
    ConnectionPoolOptions {
        min_pool_size: Some(min),
        max_pool_size: Some(max),
        ..ConnectionPoolOptions::default()
    }
}

impl PoolHarness {
    pub(super) fn paused(
        options: &ConnectionPoolOptions,
        load_balanced: bool,
        listening: bool,
    ) -> Self {
        let mut fx = Fx::new();
        let address = ServerAddress::default();
        let pool = Pool::new(address, options, load_balanced, listening, &mut fx);
        Self { pool, now: Instant::now() }
    }

    pub(super) fn ready(options: &ConnectionPoolOptions) -> Self {
        let mut harness = Self::paused(options, false, false);
        let _ = harness.call(|pool, now, fx| pool.ready(now, fx));
        harness
    }

    pub(super) fn call(
        &mut self,
        action: impl FnOnce(&mut Pool<&'static str, &'static str>, Instant, &mut Fx),
    ) -> EffectsByKind {
        let mut fx = Fx::new();
        action(&mut self.pool, self.now, &mut fx);
        fx.into()
    }

    pub(super) fn advance(&mut self, millis: u64) {
        self.now += Duration::from_millis(millis);
    }

    pub(super) fn check_out(
        &mut self,
    ) -> (CheckOutResult<&'static str, &'static str>, EffectsByKind) {
        let mut fx = Fx::new();
        let answer = self.pool.check_out(self.now, &mut fx);
        (answer, fx.into())
    }

    pub(super) fn wait(&mut self) -> (WaiterId, EffectsByKind) {
        match self.check_out() {
            (CheckOutResult::Wait(waiter), effects) => (waiter, effects),
            (other, _) => panic!("expected to wait, got {other:?}"),
        }
    }

    pub(super) fn take(&mut self) -> (PoolConnection<&'static str>, EffectsByKind) {
        match self.check_out() {
            (CheckOutResult::Ready(conn), effects) => (conn, effects),
            (other, _) => panic!("expected a connection, got {other:?}"),
        }
    }

    pub(super) fn connected(&mut self, id: ConnectionId) -> EffectsByKind {
        self.call(|pool, now, fx| pool.connected(id, "socket", None, now, fx))
    }

    pub(super) fn connect_failed(&mut self, id: ConnectionId) -> EffectsByKind {
        self.call(|pool, now, fx| pool.connect_failed(id, "refused", now, fx))
    }

    pub(super) fn check_in(&mut self, conn: PoolConnection<&'static str>) -> EffectsByKind {
        self.call(|pool, now, fx| pool.check_in(conn, now, fx))
    }

    pub(super) fn clear(&mut self, clear: ClearRequest<&'static str>) -> EffectsByKind {
        self.call(|pool, now, fx| pool.clear(clear, now, fx))
    }

    pub(super) fn make_ready(&mut self) -> EffectsByKind {
        self.call(|pool, now, fx| pool.ready(now, fx))
    }

    /// Checks out a connection that must be established first.
    pub(super) fn establish(&mut self) -> PoolConnection<&'static str> {
        let (_, effects) = self.wait();
        let mut effects = self.connected(effects.connect[0]);
        effects.delivered.pop().expect("delivered").1
    }
}
