//! Invariants of a pool under random sequences of calls.
#![allow(clippy::cast_possible_truncation)]

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use proptest::prelude::*;

use super::*;

/// A random call; numbers select the connection or waiter.
#[derive(Clone, Copy, Debug)]
enum PoolStep {
    CheckOut,
    CheckIn(usize),
    Discard(usize),
    Cancel(usize),
    HandshakeCompleted(usize),
    Connected(usize),
    Failing(usize),
    Failed(usize),
    Clear { service: u8, interrupt: bool },
    Ready,
    Close,
    Maintain,
    AdvanceClock(u64),
}

fn step() -> impl Strategy<Value = PoolStep> {
    let one = any::<usize>();
    prop_oneof![
        8 => Just(PoolStep::CheckOut),
        5 => one.prop_map(PoolStep::CheckIn),
        1 => one.prop_map(PoolStep::Discard),
        2 => one.prop_map(PoolStep::Cancel),
        3 => one.prop_map(PoolStep::HandshakeCompleted),
        6 => one.prop_map(PoolStep::Connected),
        1 => one.prop_map(PoolStep::Failing),
        2 => one.prop_map(PoolStep::Failed),
        1 => (0u8..3, any::<bool>())
            .prop_map(|(service, interrupt)| PoolStep::Clear { service, interrupt }),
        2 => Just(PoolStep::Ready),
        1 => Just(PoolStep::Maintain),
        2 => (0u64..20).prop_map(PoolStep::AdvanceClock),
    ]
}

/// A pool and a model of its environment, which records all effects.
struct PoolModel {
    pool: Pool<u32, &'static str>,
    load_balanced: bool,
    now: Instant,
    max_size: usize,
    max_connecting: usize,
    establishing: Vec<ConnectionId>,
    held: Vec<PoolConnection<u32>>,
    waiting: BTreeSet<WaiterId>,
    created: BTreeSet<u32>,
    closed: BTreeSet<u32>,
    /// Closed sockets of established connections.
    sockets_closed: BTreeSet<u32>,
    started: usize,
    ended: usize,
    settled: BTreeMap<WaiterId, usize>,
}

impl PoolModel {
    fn new(options: &ConnectionPoolOptions, load_balanced: bool) -> Self {
        let mut fx = Vec::new();
        let pool = Pool::new(ServerAddress::default(), options, load_balanced, true, &mut fx);
        let count = |number: Option<u32>| number.unwrap() as usize;
        Self {
            pool,
            load_balanced,
            now: Instant::now(),
            max_size: match count(options.max_pool_size) {
                0 => usize::MAX,
                size => size,
            },
            max_connecting: count(options.max_connecting),
            establishing: Vec::new(),
            held: Vec::new(),
            waiting: BTreeSet::new(),
            created: BTreeSet::new(),
            closed: BTreeSet::new(),
            sockets_closed: BTreeSet::new(),
            started: 0,
            ended: 0,
            settled: BTreeMap::new(),
        }
    }

    fn take(&mut self, step: PoolStep) {
        let mut fx = Vec::new();
        let now = self.now;
        match step {
            PoolStep::CheckOut => match self.pool.check_out(now, &mut fx) {
                CheckOutResult::Ready(conn) => self.hold(conn),
                CheckOutResult::Wait(waiter) => assert!(self.waiting.insert(waiter)),
                CheckOutResult::Failed(_) => assert_ne!(self.pool.state(), PoolState::Ready),
            },
            PoolStep::CheckIn(which) => {
                if let Some(conn) = pick(&mut self.held, which) {
                    self.pool.check_in(conn, now, &mut fx);
                }
            }
            PoolStep::Discard(which) => {
                if let Some(conn) = pick(&mut self.held, which) {
                    let reason = ConnectionClosedReason::Error;
                    self.pool.discard(conn.id(), reason, Some(&"broken"), now, &mut fx);
                }
            }
            PoolStep::Cancel(which) => {
                let mut waiters: Vec<_> = self.waiting.iter().copied().collect();
                if let Some(waiter) = pick(&mut waiters, which) {
                    assert!(self.pool.cancel(waiter, WaitCancellation::TimedOut, now, &mut fx));
                    self.waiting.remove(&waiter);
                }
            }
            PoolStep::HandshakeCompleted(which) => {
                if let Some(id) = pick(&mut self.establishing.clone(), which) {
                    let service = self.load_balanced.then(|| service(id.number()));
                    self.pool.handshake_completed(id, service);
                }
            }
            PoolStep::Connected(which) => {
                // A failing connection cannot be established afterwards.
                let failing = self.pool.records.select(ConnectionState::Failing, |_| true);
                let mut able = self.establishing.clone();
                able.retain(|id| !failing.contains(id));
                if let Some(id) = pick(&mut able, which) {
                    self.establishing.retain(|other| *other != id);
                    let service = self.load_balanced.then(|| service(id.number()));
                    self.pool.connected(id, id.number(), service, now, &mut fx);
                }
            }
            PoolStep::Failing(which) => {
                if let Some(id) = pick(&mut self.establishing.clone(), which) {
                    self.pool.connect_failing(id);
                }
            }
            PoolStep::Failed(which) => {
                if let Some(id) = pick(&mut self.establishing, which) {
                    self.pool.connect_failed(id, "refused", now, &mut fx);
                }
            }
            PoolStep::Clear { service: number, interrupt } => {
                let service_id = Some(service(number.into()));
                let clear = ClearRequest {
                    service_id,
                    interrupt_in_use: interrupt,
                    ..ClearRequest::default()
                };
                self.pool.clear(clear, now, &mut fx);
            }
            PoolStep::Ready => self.pool.ready(now, &mut fx),
            PoolStep::Close => self.pool.close(now, &mut fx),
            PoolStep::Maintain => self.pool.maintain(now, &mut fx),
            PoolStep::AdvanceClock(millis) => self.now += Duration::from_millis(millis),
        }
        for effect in fx {
            self.perform(effect);
        }
        self.examine();
    }

    fn perform(&mut self, effect: PoolEffect<u32, &'static str>) {
        match effect {
            PoolEffect::Emit(event) => self.note(&event),
            PoolEffect::Connect { id, .. } => {
                assert_eq!(self.pool.state(), PoolState::Ready);
                self.establishing.push(id);
            }
            // The task can notice too late and report anyway.
            PoolEffect::Abort(id) => assert!(self.closed.contains(&id.number())),
            PoolEffect::Deliver(waiter, conn) => {
                self.settle(waiter);
                self.hold(conn);
            }
            PoolEffect::Fail(waiter, _) => self.settle(waiter),
            PoolEffect::Close { payload, .. } => {
                assert!(self.closed.contains(&payload), "closed without an effect");
                assert!(self.sockets_closed.insert(payload), "a socket closed twice");
            }
            PoolEffect::Interrupt(id) => assert!(self.held.iter().any(|conn| conn.id() == id)),
            PoolEffect::WakeMaintenance => {}
        }
    }

    fn note(&mut self, event: &CmapEvent) {
        match event {
            CmapEvent::ConnectionCreated(event) => {
                assert!(self.created.insert(event.connection_id));
                assert_eq!(self.created.last(), Some(&event.connection_id), "numbers grow");
            }
            CmapEvent::ConnectionClosed(event) => {
                assert!(self.created.contains(&event.connection_id));
                assert!(self.closed.insert(event.connection_id), "closed twice");
            }
            CmapEvent::ConnectionCheckoutStarted(_) => self.started += 1,
            CmapEvent::ConnectionCheckoutFailed(_) | CmapEvent::ConnectionCheckedOut(_) => {
                self.ended += 1;
            }
            CmapEvent::PoolCreated(_)
            | CmapEvent::PoolReady(_)
            | CmapEvent::PoolCleared(_)
            | CmapEvent::PoolClosed(_)
            | CmapEvent::ConnectionReady(_)
            | CmapEvent::ConnectionCheckedIn(_) => {}
        }
    }

    fn settle(&mut self, waiter: WaiterId) {
        assert!(self.waiting.remove(&waiter), "an effect for an unknown waiter");
        *self.settled.entry(waiter).or_default() += 1;
        assert_eq!(self.settled[&waiter], 1);
    }

    fn hold(&mut self, conn: PoolConnection<u32>) {
        let current = self.pool.generation(conn.service_id());
        assert_eq!(conn.generation(), current, "a stale connection");
        assert_eq!(conn.service_id().is_some(), self.load_balanced);
        assert_eq!(self.pool.state(), PoolState::Ready);
        assert!(!self.closed.contains(&conn.payload), "a closed connection");
        assert!(self.held.iter().all(|held| held.id() != conn.id()), "handed out twice");
        self.held.push(conn);
    }

    fn examine(&self) {
        let counts = self.pool.counts();
        assert_eq!(counts.total, counts.available + counts.in_use + counts.pending);
        assert_eq!(counts.total, self.created.len() - self.closed.len());
        assert_eq!(counts.in_use, self.held.len());
        assert_eq!(counts.waiting, self.waiting.len());
        assert!(counts.total <= self.max_size);
        assert!(counts.pending <= self.max_connecting);
        assert_eq!(self.started, self.ended + self.waiting.len());
        let in_line = self.pool.queue.len();
        assert!(
            in_line == 0 || counts.available == 0,
            "an operation waits although a connection is idle"
        );
        if in_line > self.pool.records.pending() {
            assert!(
                counts.total == self.max_size || counts.pending == self.max_connecting,
                "someone waits though a connection could be made"
            );
        }
        if self.pool.state() != PoolState::Ready {
            assert_eq!((in_line, counts.available), (0, 0));
        }
        for Idle { conn, .. } in &self.pool.idle {
            assert_eq!(conn.generation, self.pool.generation(conn.service_id), "idle but stale");
        }
        let stale =
            |it: &records::ConnectionRecord| it.generation != self.pool.generation(it.service_id);
        let pending = self.pool.records.select(ConnectionState::Pending, stale);
        assert!(pending.is_empty(), "pending but stale: {pending:?}");
    }
}

/// Returns one of three services in turn.
fn service(number: u32) -> ObjectId {
    ObjectId::from_bytes([(number % 3) as u8; 12])
}

fn pick<T>(from: &mut Vec<T>, which: usize) -> Option<T> {
    (!from.is_empty()).then(|| from.remove(which % from.len()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn pool_invariants_hold_after_every_step(
        steps in proptest::collection::vec(step(), 1..150),
        (max_size, min_size) in (0u32..5, 0u32..4),
        max_connecting in 1u32..4,
        max_idle in 0u64..30,
        load_balanced in any::<bool>(),
    ) {
        let mut model = PoolModel::new(&ConnectionPoolOptions {
            max_pool_size: Some(max_size),
            min_pool_size: Some(min_size),
            max_connecting: Some(max_connecting),
            max_idle_time: Some(Duration::from_millis(max_idle)),
            ..ConnectionPoolOptions::default()
        }, load_balanced);
        model.take(PoolStep::Ready);
        for step in steps {
            model.take(step);
        }
        // At the end, no place, waiter or socket is left.
        model.take(PoolStep::Close);
        while !model.held.is_empty() {
            model.take(PoolStep::CheckIn(0));
        }
        while !model.establishing.is_empty() {
            model.take(PoolStep::Connected(0));
        }
        prop_assert_eq!(model.pool.counts(), PoolCounts::default());
        prop_assert_eq!(&model.created, &model.closed);
        prop_assert_eq!(model.started, model.ended);
    }
}
