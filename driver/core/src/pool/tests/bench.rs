//! A pool on the bench: every call returns what it asked for.

use std::time::{Duration, Instant};

use super::super::*;

pub(super) type Fx = Vec<Effect<&'static str, &'static str>>;

/// A pool with its effects, and a clock that only moves when told.
pub(super) struct Bench {
    pub(super) pool: Pool<&'static str, &'static str>,
    pub(super) now: Instant,
}

/// Everything asked for by one call, sorted by kind.
#[derive(Debug, Default)]
pub(super) struct Asked {
    pub(super) connect: Vec<ConnectionId>,
    pub(super) abort: Vec<ConnectionId>,
    /// Which of `connect` an operation waits for.
    pub(super) awaited: Vec<bool>,
    pub(super) delivered: Vec<(WaiterId, Conn<&'static str>)>,
    pub(super) failed: Vec<(WaiterId, CheckOutError<&'static str>)>,
    pub(super) closed: Vec<(u32, ConnectionClosedReason)>,
    pub(super) interrupted: Vec<ConnectionId>,
    pub(super) woken: bool,
    pub(super) events: Vec<CmapEvent>,
}

impl From<Fx> for Asked {
    fn from(effects: Fx) -> Self {
        let mut asked = Self::default();
        for effect in effects {
            match effect {
                Effect::Emit(event) => asked.events.push(event),
                Effect::Connect { id, awaited, .. } => {
                    asked.connect.push(id);
                    asked.awaited.push(awaited);
                }
                Effect::Abort(id) => asked.abort.push(id),
                Effect::Deliver(waiter, conn) => asked.delivered.push((waiter, conn)),
                Effect::Fail(waiter, error) => asked.failed.push((waiter, error)),
                Effect::Close { id, reason, .. } => asked.closed.push((id.number(), reason)),
                Effect::Interrupt(id) => asked.interrupted.push(id),
                Effect::WakeMaintenance => asked.woken = true,
            }
        }
        asked
    }
}

pub(super) fn sizes(min: u32, max: u32) -> ConnectionPoolOptions {
    ConnectionPoolOptions {
        min_pool_size: Some(min),
        max_pool_size: Some(max),
        ..ConnectionPoolOptions::default()
    }
}

impl Bench {
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
        let mut bench = Self::paused(options, false, false);
        let _ = bench.act(|pool, now, fx| pool.ready(now, fx));
        bench
    }

    pub(super) fn act(
        &mut self,
        call: impl FnOnce(&mut Pool<&'static str, &'static str>, Instant, &mut Fx),
    ) -> Asked {
        let mut fx = Fx::new();
        call(&mut self.pool, self.now, &mut fx);
        fx.into()
    }

    pub(super) fn pass(&mut self, millis: u64) {
        self.now += Duration::from_millis(millis);
    }

    pub(super) fn check_out(&mut self) -> (CheckOut<&'static str, &'static str>, Asked) {
        let mut fx = Fx::new();
        let answer = self.pool.check_out(self.now, &mut fx);
        (answer, fx.into())
    }

    pub(super) fn wait(&mut self) -> (WaiterId, Asked) {
        match self.check_out() {
            (CheckOut::Wait(waiter), asked) => (waiter, asked),
            (other, _) => panic!("expected to wait, got {other:?}"),
        }
    }

    pub(super) fn take(&mut self) -> (Conn<&'static str>, Asked) {
        match self.check_out() {
            (CheckOut::Ready(conn), asked) => (conn, asked),
            (other, _) => panic!("expected a connection, got {other:?}"),
        }
    }

    pub(super) fn connected(&mut self, id: ConnectionId) -> Asked {
        self.act(|pool, now, fx| pool.connected(id, "socket", None, now, fx))
    }

    pub(super) fn connect_failed(&mut self, id: ConnectionId) -> Asked {
        self.act(|pool, now, fx| pool.connect_failed(id, "refused", now, fx))
    }

    pub(super) fn check_in(&mut self, conn: Conn<&'static str>) -> Asked {
        self.act(|pool, now, fx| pool.check_in(conn, now, fx))
    }

    pub(super) fn clear(&mut self, clear: Clear<&'static str>) -> Asked {
        self.act(|pool, now, fx| pool.clear(clear, now, fx))
    }

    pub(super) fn make_ready(&mut self) -> Asked {
        self.act(|pool, now, fx| pool.ready(now, fx))
    }

    /// Checks out a connection that has to be made first.
    pub(super) fn make(&mut self) -> Conn<&'static str> {
        let (_, asked) = self.wait();
        let mut asked = self.connected(asked.connect[0]);
        asked.delivered.pop().expect("delivered").1
    }
}
