//! Each rule of the pool on its own.

mod bench;
mod clearing;

use std::time::Duration;

use super::*;
use crate::event::cmap::ConnectionCheckoutFailedReason as FailedReason;
use bench::*;

#[test]
fn the_connection_used_last_is_handed_out_first() {
    let mut bench = Bench::ready(&sizes(0, 3));
    let (first, second) = (bench.make(), bench.make());
    let second_id = second.id();
    let _ = bench.check_in(first);
    let _ = bench.check_in(second);
    assert_eq!(bench.take().0.id(), second_id);
}

#[test]
fn without_a_listener_the_common_path_asks_for_nothing_and_allocates_nothing() {
    let mut bench = Bench::ready(&sizes(0, 3));
    let conn = bench.make();
    let mut fx = Fx::new();
    bench.pool.check_in(conn, bench.now, &mut fx);
    let CheckOut::Ready(conn) = bench.pool.check_out(bench.now, &mut fx) else { panic!() };
    bench.pool.check_in(conn, bench.now, &mut fx);
    assert_eq!((fx.len(), fx.capacity()), (0, 0));
}

#[test]
fn one_waiting_operation_never_causes_two_handshakes() {
    let mut bench = Bench::ready(&sizes(0, 10));
    assert_eq!(bench.wait().1.connect.len(), 1);
    assert_eq!(bench.wait().1.connect.len(), 1);
    // max_connecting is 2.
    assert_eq!(bench.wait().1.connect.len(), 0);
}

#[test]
fn a_connection_goes_to_the_first_in_line_whoever_caused_it() {
    let mut bench = Bench::ready(&sizes(0, 10));
    let (first, _) = bench.wait();
    let (_, asked) = bench.wait();
    let asked = bench.connected(asked.connect[0]);
    assert_eq!(asked.delivered[0].0, first);
}

#[test]
fn a_connection_whose_waiter_is_gone_serves_the_next_or_lies_idle() {
    let mut bench = Bench::ready(&sizes(0, 10));
    let (gone, asked) = bench.wait();
    let id = asked.connect[0];
    let mut fx = Fx::new();
    assert!(bench.pool.cancel(gone, Abandonment::Dropped, bench.now, &mut fx));
    assert!(!bench.pool.cancel(gone, Abandonment::Dropped, bench.now, &mut fx));
    let (next, asked) = bench.wait();
    assert!(asked.connect.is_empty(), "the one being made is enough");
    assert_eq!(bench.connected(id).delivered[0].0, next);
}

#[test]
fn a_connection_for_an_operation_is_told_from_one_that_is_to_be_there_for_those_to_come() {
    let mut bench = Bench::paused(&sizes(1, 10), false, false);
    let asked = bench.act(|pool, now, fx| pool.ready(now, fx));
    assert_eq!(asked.awaited, [false]);
    let (_, asked) = bench.wait();
    assert!(asked.connect.is_empty(), "the one being made is enough");
    let (_, asked) = bench.wait();
    assert_eq!(asked.awaited, [true]);
}

#[test]
fn connections_for_operations_that_will_come_are_made_beforehand_and_serve_them() {
    let mut bench = Bench::ready(&sizes(0, 10));
    let asked = bench.act(|pool, now, fx| pool.expect(1, now, fx));
    let [id] = asked.connect[..] else { panic!("{asked:?}") };
    let asked = bench.act(|pool, now, fx| pool.expect(1, now, fx));
    assert!(asked.connect.is_empty(), "the one being made is enough");
    let (waiter, asked) = bench.wait();
    assert!(asked.connect.is_empty(), "the one being made is enough");
    let delivered = bench.connected(id).delivered;
    assert_eq!(delivered[0].0, waiter);
    let (_, conn) = delivered.into_iter().next().unwrap();
    let _ = bench.check_in(conn);
    let asked = bench.act(|pool, now, fx| pool.expect(1, now, fx));
    assert!(asked.connect.is_empty(), "the idle one is enough");
    // max_connecting is 2.
    let asked = bench.act(|pool, now, fx| pool.expect(5, now, fx));
    assert_eq!(asked.connect.len(), 2);
}

#[test]
fn a_paused_pool_makes_no_connection_whoever_is_expected() {
    let mut bench = Bench::paused(&sizes(0, 10), false, false);
    assert!(bench.act(|pool, now, fx| pool.expect(1, now, fx)).connect.is_empty());
}

#[test]
fn a_failed_handshake_fails_the_first_in_line_and_only_it() {
    let mut bench = Bench::ready(&sizes(0, 1));
    let (first, asked) = bench.wait();
    let (_second, _) = bench.wait();
    let asked = bench.connect_failed(asked.connect[0]);
    assert_eq!(asked.failed, [(first, CheckOutError::Connect("refused"))]);
    assert_eq!(asked.connect.len(), 1, "the second still waits and gets its own");
    assert_eq!(bench.pool.counts().total, 1);
}

#[test]
fn a_failed_handshake_fails_nobody_while_others_suffice() {
    let mut bench = Bench::ready(&sizes(0, 10));
    let (first, one) = bench.wait();
    let (_, two) = bench.wait();
    let _ = bench.act(|pool, now, fx| {
        pool.cancel(first, Abandonment::TimedOut, now, fx);
    });
    let asked = bench.connect_failed(one.connect[0]);
    assert!(asked.failed.is_empty() && asked.connect.is_empty());
    assert_eq!(bench.connect_failed(two.connect[0]).failed.len(), 1);
}

#[test]
fn a_failing_connections_waiter_may_still_leave() {
    let mut bench = Bench::ready(&sizes(0, 10));
    let (waiter, asked) = bench.wait();
    bench.pool.connect_failing(asked.connect[0]);
    let mut fx = Fx::new();
    assert!(bench.pool.cancel(waiter, Abandonment::Dropped, bench.now, &mut fx));
    assert!(bench.connect_failed(asked.connect[0]).failed.is_empty());
}

#[test]
fn an_idle_connection_grown_old_is_closed_instead_of_handed_out() {
    let options =
        ConnectionPoolOptions { max_idle_time: Some(Duration::from_millis(10)), ..sizes(0, 10) };
    let mut bench = Bench::ready(&options);
    let conn = bench.make();
    let _ = bench.check_in(conn);
    bench.pass(9);
    let conn = bench.take().0;
    let _ = bench.check_in(conn);
    bench.pass(10);
    let (_, asked) = bench.wait();
    assert_eq!(asked.closed, [(1, ConnectionClosedReason::Idle)]);
    assert_eq!(asked.connect.len(), 1);
}

#[test]
fn maintenance_closes_the_oldest_and_fills_up_to_the_minimum() {
    let options =
        ConnectionPoolOptions { max_idle_time: Some(Duration::from_millis(10)), ..sizes(2, 10) };
    let mut bench = Bench::ready(&options);
    let pending = bench.pool.members.select(Phase::Pending, |_| true);
    let _ = bench.connected(pending[0]);
    bench.pass(6);
    let _ = bench.connected(pending[1]);
    assert_eq!(bench.pool.next_idle_expiry(), Some(bench.now + Duration::from_millis(4)));
    bench.pass(5);
    let asked = bench.act(|pool, now, fx| pool.maintain(now, fx));
    assert_eq!(asked.closed, [(1, ConnectionClosedReason::Idle)]);
    assert_eq!(asked.connect.len(), 1);
}

#[test]
fn a_server_that_refuses_connections_is_not_stormed_to_reach_the_minimum() {
    let mut bench = Bench::paused(&sizes(2, 10), false, false);
    let asked = bench.make_ready();
    assert_eq!(asked.connect.len(), 2);
    for id in asked.connect {
        assert!(bench.connect_failed(id).connect.is_empty());
    }
    assert_eq!(bench.act(|pool, now, fx| pool.maintain(now, fx)).connect.len(), 2);
}

#[test]
fn the_minimum_is_filled_up_only_when_nobody_waits() {
    let mut bench = Bench::paused(&sizes(2, 10), false, false);
    let mut asked = bench.make_ready();
    let (waiter, _) = bench.wait();
    let _ = bench.connect_failed(asked.connect.remove(0));
    let maintained = bench.act(|pool, now, fx| pool.maintain(now, fx));
    assert!(maintained.connect.is_empty(), "one waits, and one is being made");
    let asked = bench.connected(asked.connect.remove(0));
    assert_eq!(asked.delivered[0].0, waiter);
    assert_eq!(asked.connect.len(), 1, "now the minimum is");
}

#[test]
fn a_pool_with_an_unlimited_size_has_no_limit() {
    let mut bench = Bench::ready(&sizes(0, 0));
    let held: Vec<_> = (0..500).map(|_| bench.make()).collect();
    assert_eq!(bench.pool.counts().in_use, held.len());
}

// pitfall 22
#[test]
fn a_discarded_connection_gives_its_place_back_once() {
    let mut bench = Bench::ready(&sizes(1, 1));
    let _ = bench.act(|pool, now, fx| pool.maintain(now, fx));
    let first = bench.pool.members.select(Phase::Pending, |_| true)[0];
    let _ = bench.connected(first);
    let (conn, _) = bench.take();
    let id = conn.id();
    let _socket = conn.into_payload();
    assert_eq!(bench.pool.counts().in_use, 1);
    let discard = |pool: &mut Pool<_, _>, now, fx: &mut Fx| {
        pool.discard(id, ConnectionClosedReason::Dropped, None, now, fx);
    };
    assert!(bench.act(discard).woken, "the minimum is to be filled up again");
    assert_eq!(bench.pool.counts(), Counts::default());
    assert!(!bench.act(discard).woken);
    assert_eq!(bench.pool.counts(), Counts::default());
}

#[test]
fn a_connection_checked_in_twice_or_to_the_wrong_pool_is_closed() {
    let (mut one, mut other) = (Bench::ready(&sizes(0, 2)), Bench::ready(&sizes(0, 2)));
    let stranger = other.make();
    let asked = one.check_in(stranger);
    assert_eq!(asked.closed, [(1, ConnectionClosedReason::Dropped)]);
    assert_eq!(one.pool.counts(), Counts::default());
}

#[test]
fn ten_thousand_abandoned_waiters_do_not_stand_in_the_way() {
    let mut bench = Bench::ready(&sizes(0, 1));
    let conn = bench.make();
    let gone: Vec<_> = (0..10_000).map(|_| bench.wait().0).collect();
    let (last, _) = bench.wait();
    for waiter in gone {
        let _ = bench.act(|pool, now, fx| {
            pool.cancel(waiter, Abandonment::Dropped, now, fx);
        });
    }
    assert_eq!(bench.check_in(conn).delivered[0].0, last);
}

#[test]
fn a_check_out_that_ends_early_says_why() {
    for (why, reason) in [
        (Abandonment::TimedOut, FailedReason::Timeout),
        (Abandonment::Dropped, FailedReason::Abandoned),
    ] {
        let mut bench = Bench::paused(&sizes(0, 1), false, true);
        let _ = bench.make_ready();
        let (waiter, _) = bench.wait();
        bench.pass(7);
        let asked = bench.act(|pool, now, fx| {
            pool.cancel(waiter, why, now, fx);
        });
        let [CmapEvent::ConnectionCheckoutFailed(event)] = &asked.events[..] else { panic!() };
        assert_eq!((event.reason, event.duration), (reason, Duration::from_millis(7)));
    }
}
