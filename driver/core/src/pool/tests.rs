//! Rules of the pool, one by one.

mod clearing;
mod harness;

use std::time::Duration;

use super::*;
use crate::event::cmap::ConnectionCheckoutFailedReason as FailedReason;
use harness::*;

#[test]
fn most_recently_used_connection_is_checked_out_first() {
    let mut harness = PoolHarness::ready(&sizes(0, 3));
    let (first, second) = (harness.establish(), harness.establish());
    let second_id = second.id();
    let _ = harness.check_in(first);
    let _ = harness.check_in(second);
    assert_eq!(harness.take().0.id(), second_id);
}

#[test]
fn check_out_of_idle_connection_without_listener_does_not_allocate() {
    let mut harness = PoolHarness::ready(&sizes(0, 3));
    let conn = harness.establish();
    let mut fx = Fx::new();
    harness.pool.check_in(conn, harness.now, &mut fx);
    let CheckOutResult::Ready(conn) = harness.pool.check_out(harness.now, &mut fx) else {
        panic!()
    };
    harness.pool.check_in(conn, harness.now, &mut fx);
    assert_eq!((fx.len(), fx.capacity()), (0, 0));
}

#[test]
fn one_waiting_operation_never_causes_two_handshakes() {
    let mut harness = PoolHarness::ready(&sizes(0, 10));
    assert_eq!(harness.wait().1.connect.len(), 1);
    assert_eq!(harness.wait().1.connect.len(), 1);
    // `maxConnecting` is 2.
    assert_eq!(harness.wait().1.connect.len(), 0);
}

#[test]
fn new_connection_goes_to_the_first_waiter() {
    let mut harness = PoolHarness::ready(&sizes(0, 10));
    let (first, _) = harness.wait();
    let (_, effects) = harness.wait();
    let effects = harness.connected(effects.connect[0]);
    assert_eq!(effects.delivered[0].0, first);
}

#[test]
fn connection_of_a_cancelled_waiter_serves_the_next_one() {
    let mut harness = PoolHarness::ready(&sizes(0, 10));
    let (gone, effects) = harness.wait();
    let id = effects.connect[0];
    let mut fx = Fx::new();
    assert!(harness.pool.cancel(gone, WaitCancellation::Dropped, harness.now, &mut fx));
    assert!(!harness.pool.cancel(gone, WaitCancellation::Dropped, harness.now, &mut fx));
    let (next, effects) = harness.wait();
    assert!(effects.connect.is_empty(), "the one being made is enough");
    assert_eq!(harness.connected(id).delivered[0].0, next);
}

#[test]
fn awaited_connections_are_distinguished_from_min_pool_size() {
    let mut harness = PoolHarness::paused(&sizes(1, 10), false, false);
    let effects = harness.call(|pool, now, fx| pool.ready(now, fx));
    assert_eq!(effects.awaited, [false]);
    let (_, effects) = harness.wait();
    assert!(effects.connect.is_empty(), "the one being made is enough");
    let (_, effects) = harness.wait();
    assert_eq!(effects.awaited, [true]);
}

#[test]
fn preconnected_connections_serve_later_operations() {
    let mut harness = PoolHarness::ready(&sizes(0, 10));
    let effects = harness.call(|pool, now, fx| pool.preconnect(1, now, fx));
    let [id] = effects.connect[..] else { panic!("{effects:?}") };
    let effects = harness.call(|pool, now, fx| pool.preconnect(1, now, fx));
    assert!(effects.connect.is_empty(), "the one being made is enough");
    let (waiter, effects) = harness.wait();
    assert!(effects.connect.is_empty(), "the one being made is enough");
    let delivered = harness.connected(id).delivered;
    assert_eq!(delivered[0].0, waiter);
    let (_, conn) = delivered.into_iter().next().unwrap();
    let _ = harness.check_in(conn);
    let effects = harness.call(|pool, now, fx| pool.preconnect(1, now, fx));
    assert!(effects.connect.is_empty(), "the idle one is enough");
    // `maxConnecting` is 2.
    let effects = harness.call(|pool, now, fx| pool.preconnect(5, now, fx));
    assert_eq!(effects.connect.len(), 2);
}

#[test]
fn paused_pool_does_not_preconnect() {
    let mut harness = PoolHarness::paused(&sizes(0, 10), false, false);
    assert!(harness.call(|pool, now, fx| pool.preconnect(1, now, fx)).connect.is_empty());
}

#[test]
fn failed_handshake_fails_only_the_first_waiter() {
    let mut harness = PoolHarness::ready(&sizes(0, 1));
    let (first, effects) = harness.wait();
    let (_second, _) = harness.wait();
    let effects = harness.connect_failed(effects.connect[0]);
    assert_eq!(effects.failed, [(first, CheckOutError::Connect("refused"))]);
    assert_eq!(effects.connect.len(), 1, "the second still waits and gets its own");
    assert_eq!(harness.pool.counts().total, 1);
}

#[test]
fn failed_handshake_fails_no_waiter_while_others_suffice() {
    let mut harness = PoolHarness::ready(&sizes(0, 10));
    let (first, one) = harness.wait();
    let (_, two) = harness.wait();
    let _ = harness.call(|pool, now, fx| {
        pool.cancel(first, WaitCancellation::TimedOut, now, fx);
    });
    let effects = harness.connect_failed(one.connect[0]);
    assert!(effects.failed.is_empty() && effects.connect.is_empty());
    assert_eq!(harness.connect_failed(two.connect[0]).failed.len(), 1);
}

#[test]
fn waiter_of_a_failing_connection_can_be_cancelled() {
    let mut harness = PoolHarness::ready(&sizes(0, 10));
    let (waiter, effects) = harness.wait();
    harness.pool.connect_failing(effects.connect[0]);
    let mut fx = Fx::new();
    assert!(harness.pool.cancel(waiter, WaitCancellation::Dropped, harness.now, &mut fx));
    assert!(harness.connect_failed(effects.connect[0]).failed.is_empty());
}

#[test]
fn connection_idle_beyond_max_idle_time_is_closed_on_check_out() {
    let options =
        ConnectionPoolOptions { max_idle_time: Some(Duration::from_millis(10)), ..sizes(0, 10) };
    let mut harness = PoolHarness::ready(&options);
    let conn = harness.establish();
    let _ = harness.check_in(conn);
    harness.advance(9);
    let conn = harness.take().0;
    let _ = harness.check_in(conn);
    harness.advance(10);
    let (_, effects) = harness.wait();
    assert_eq!(effects.closed, [(1, ConnectionClosedReason::Idle)]);
    assert_eq!(effects.connect.len(), 1);
}

#[test]
fn maintenance_closes_idle_connections_and_fills_min_pool_size() {
    let options =
        ConnectionPoolOptions { max_idle_time: Some(Duration::from_millis(10)), ..sizes(2, 10) };
    let mut harness = PoolHarness::ready(&options);
    let pending = harness.pool.records.select(ConnectionState::Pending, |_| true);
    let _ = harness.connected(pending[0]);
    harness.advance(6);
    let _ = harness.connected(pending[1]);
    assert_eq!(harness.pool.next_idle_expiry(), Some(harness.now + Duration::from_millis(4)));
    harness.advance(5);
    let effects = harness.call(|pool, now, fx| pool.maintain(now, fx));
    assert_eq!(effects.closed, [(1, ConnectionClosedReason::Idle)]);
    assert_eq!(effects.connect.len(), 1);
}

#[test]
fn failed_connections_for_min_pool_size_are_not_retried_immediately() {
    let mut harness = PoolHarness::paused(&sizes(2, 10), false, false);
    let effects = harness.make_ready();
    assert_eq!(effects.connect.len(), 2);
    for id in effects.connect {
        assert!(harness.connect_failed(id).connect.is_empty());
    }
    assert_eq!(harness.call(|pool, now, fx| pool.maintain(now, fx)).connect.len(), 2);
}

#[test]
fn min_pool_size_is_filled_only_without_waiters() {
    let mut harness = PoolHarness::paused(&sizes(2, 10), false, false);
    let mut effects = harness.make_ready();
    let (waiter, _) = harness.wait();
    let _ = harness.connect_failed(effects.connect.remove(0));
    let maintained = harness.call(|pool, now, fx| pool.maintain(now, fx));
    assert!(maintained.connect.is_empty(), "one waits, and one is being made");
    let effects = harness.connected(effects.connect.remove(0));
    assert_eq!(effects.delivered[0].0, waiter);
    assert_eq!(effects.connect.len(), 1, "now the minimum is");
}

#[test]
fn max_pool_size_zero_means_no_limit() {
    let mut harness = PoolHarness::ready(&sizes(0, 0));
    let held: Vec<_> = (0..500).map(|_| harness.establish()).collect();
    assert_eq!(harness.pool.counts().in_use, held.len());
}

// pitfall 22
#[test]
fn discarded_connection_frees_its_place_once() {
    let mut harness = PoolHarness::ready(&sizes(1, 1));
    let _ = harness.call(|pool, now, fx| pool.maintain(now, fx));
    let first = harness.pool.records.select(ConnectionState::Pending, |_| true)[0];
    let _ = harness.connected(first);
    let (conn, _) = harness.take();
    let id = conn.id();
    let _socket = conn.into_payload();
    assert_eq!(harness.pool.counts().in_use, 1);
    let discard = |pool: &mut Pool<_, _>, now, fx: &mut Fx| {
        pool.discard(id, ConnectionClosedReason::Dropped, None, now, fx);
    };
    assert!(harness.call(discard).woken, "the minimum is to be filled up again");
    assert_eq!(harness.pool.counts(), PoolCounts::default());
    assert!(!harness.call(discard).woken);
    assert_eq!(harness.pool.counts(), PoolCounts::default());
}

#[test]
fn connection_of_another_pool_is_closed_on_check_in() {
    let (mut one, mut other) = (PoolHarness::ready(&sizes(0, 2)), PoolHarness::ready(&sizes(0, 2)));
    let stranger = other.establish();
    let effects = one.check_in(stranger);
    assert_eq!(effects.closed, [(1, ConnectionClosedReason::Dropped)]);
    assert_eq!(one.pool.counts(), PoolCounts::default());
}

#[test]
fn cancelled_waiters_do_not_block_the_queue() {
    let mut harness = PoolHarness::ready(&sizes(0, 1));
    let conn = harness.establish();
    let gone: Vec<_> = (0..10_000).map(|_| harness.wait().0).collect();
    let (last, _) = harness.wait();
    for waiter in gone {
        let _ = harness.call(|pool, now, fx| {
            pool.cancel(waiter, WaitCancellation::Dropped, now, fx);
        });
    }
    assert_eq!(harness.check_in(conn).delivered[0].0, last);
}

#[test]
fn cancelled_check_out_reports_its_reason() {
    for (why, reason) in [
        (WaitCancellation::TimedOut, FailedReason::Timeout),
        (WaitCancellation::Dropped, FailedReason::Abandoned),
    ] {
        let mut harness = PoolHarness::paused(&sizes(0, 1), false, true);
        let _ = harness.make_ready();
        let (waiter, _) = harness.wait();
        harness.advance(7);
        let effects = harness.call(|pool, now, fx| {
            pool.cancel(waiter, why, now, fx);
        });
        let [CmapEvent::ConnectionCheckoutFailed(event)] = &effects.events[..] else { panic!() };
        assert_eq!((event.reason, event.duration), (reason, Duration::from_millis(7)));
    }
}
