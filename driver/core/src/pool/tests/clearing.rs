//! Clearing and closing: what becomes of connections and of those who wait.

use super::{super::*, bench::*};

#[test]
fn the_error_of_the_handshake_is_not_lost_in_the_clearing_it_causes() {
    let mut bench = Bench::ready(&sizes(0, 10));
    let (first, asked) = bench.wait();
    let id = asked.connect[0];
    let (second, _) = bench.wait();
    bench.pool.connect_failing(id);
    let asked = bench.clear(Clear { cause: Some("auth failed"), ..Clear::default() });
    assert_eq!(asked.failed, [(second, CheckOutError::Cleared { cause: Some("auth failed") })]);
    let asked = bench.act(|pool, now, fx| pool.connect_failed(id, "auth failed", now, fx));
    assert_eq!(asked.failed, [(first, CheckOutError::Connect("auth failed"))]);
    assert_eq!(bench.pool.counts(), Counts::default());
}

// pitfall 25
#[test]
fn a_connection_that_comes_back_after_the_clearing_is_closed_not_reused() {
    let mut bench = Bench::ready(&sizes(0, 1));
    let conn = bench.make();
    let _ = bench.clear(Clear::default());
    let _ = bench.make_ready();
    let (_, asked) = bench.wait();
    assert!(asked.connect.is_empty(), "its place is still taken");
    let asked = bench.check_in(conn);
    assert_eq!(asked.closed, [(1, ConnectionClosedReason::Stale)]);
    assert!(asked.delivered.is_empty());
    assert_eq!(asked.connect.len(), 1);
}

// pitfall 26
#[test]
fn a_retry_after_a_clearing_gets_through_a_pool_of_one() {
    let mut bench = Bench::ready(&sizes(0, 1));
    let conn = bench.make();
    let _ = bench.clear(Clear::default());
    let _ = bench.make_ready();
    let (waiter, _) = bench.wait();
    let id = conn.id();
    let asked =
        bench.act(|pool, now, fx| pool.discard(id, ConnectionClosedReason::Error, None, now, fx));
    assert_eq!(bench.connected(asked.connect[0]).delivered[0].0, waiter);
    drop(conn);
}

// pitfall 26
#[test]
fn a_handshake_from_before_the_clearing_does_not_take_the_place_of_the_retry() {
    let mut bench = Bench::ready(&sizes(0, 1));
    let (waiter, asked) = bench.wait();
    let old = asked.connect[0];
    let asked = bench.clear(Clear::default());
    assert_eq!(asked.abort, [old]);
    assert_eq!(asked.failed[0].0, waiter);
    let _ = bench.make_ready();
    let (_, asked) = bench.wait();
    assert_eq!(asked.connect.len(), 1);
    // A report that comes too late only closes the socket.
    let late = bench.connected(old);
    assert_eq!(late.closed, [(1, ConnectionClosedReason::Stale)]);
    assert!(late.delivered.is_empty() && bench.connect_failed(old).failed.is_empty());
    assert_eq!(bench.pool.counts().pending, 1);
}

#[test]
fn a_clearing_the_pool_has_had_already_changes_nothing() {
    let mut bench = Bench::ready(&sizes(0, 2));
    let clear = |to| Clear { generation: Some(to), ..Clear::default() };
    let _ = bench.clear(clear(3));
    assert_eq!(bench.pool.generation(None), 3);
    let _ = bench.make_ready();
    let _ = bench.clear(clear(3));
    assert_eq!(bench.pool.state(), State::Ready);
    let _ = bench.clear(Clear::default());
    assert_eq!((bench.pool.state(), bench.pool.generation(None)), (State::Paused, 4));
}

#[test]
fn only_an_interrupting_clearing_interrupts_and_only_what_is_stale() {
    let mut bench = Bench::ready(&sizes(0, 3));
    let (first, second) = (bench.make(), bench.make());
    assert!(bench.clear(Clear::default()).interrupted.is_empty());
    let _ = bench.make_ready();
    let third = bench.make();
    let asked = bench.clear(Clear { interrupt_in_use: true, ..Clear::default() });
    assert_eq!(asked.interrupted, [first.id(), second.id(), third.id()]);
    assert_eq!(bench.pool.counts().in_use, 3, "until each is discarded");
}

#[test]
fn a_paused_pool_refuses_and_names_the_cause() {
    let mut bench = Bench::ready(&sizes(0, 3));
    let _ = bench.clear(Clear { cause: Some("step-down"), ..Clear::default() });
    let CheckOut::Failed(error) = bench.check_out().0 else { panic!() };
    assert!(error.to_string().ends_with("another operation failed with: step-down"), "{error}");
}

#[test]
fn closing_ends_everything_but_what_is_in_use() {
    let mut bench = Bench::ready(&sizes(0, 3));
    let (used, idle) = (bench.make(), bench.make());
    let (waiter, asked) = bench.wait();
    let _ = bench.check_in(idle);
    let (aside, failing) = (bench.wait(), asked.connect[0]);
    bench.pool.connect_failing(failing);
    let asked = bench.act(|pool, now, fx| pool.close(now, fx));
    assert_eq!(asked.failed, [(aside.0, CheckOutError::Closed)], "{waiter:?} had been served");
    assert_eq!(bench.pool.counts(), Counts { total: 2, in_use: 2, ..Counts::default() });
    assert_eq!(bench.check_in(used).closed[0].1, ConnectionClosedReason::PoolClosed);
    assert!(matches!(bench.check_out().0, CheckOut::Failed(CheckOutError::Closed)));
    let _ = bench.make_ready();
    assert_eq!(bench.pool.state(), State::Closed);
}

#[test]
fn behind_a_load_balancer_only_the_failed_service_is_cleared() {
    let mut bench = Bench::paused(&sizes(0, 3), true, true);
    let _ = bench.make_ready();
    let services = [ObjectId::from_bytes([1; 12]), ObjectId::from_bytes([2; 12])];
    let mut conns: Vec<_> = services
        .iter()
        .map(|&service| {
            let (_, asked) = bench.wait();
            let id = asked.connect[0];
            let connected =
                bench.act(|pool, now, fx| pool.connected(id, "socket", Some(service), now, fx));
            connected.delivered.into_iter().next().expect("delivered").1
        })
        .collect();
    let other = conns.pop().expect("two");
    let failed = conns.pop().expect("one");
    let (waiter, _) = bench.wait();
    let asked = bench.clear(Clear { service_id: Some(services[0]), ..Clear::default() });
    assert!(asked.failed.is_empty());
    assert!(matches!(&asked.events[..], [CmapEvent::PoolCleared(event)]
        if event.service_id == Some(services[0])));
    assert_eq!(bench.pool.state(), State::Ready);
    assert_eq!(bench.check_in(failed).closed, [(1, ConnectionClosedReason::Stale)]);
    assert_eq!(bench.check_in(other).delivered[0].0, waiter);
    // The topology goes on counting where it was.
    assert_eq!(bench.pool.generation(Some(services[0])), 1);
    assert_eq!(bench.pool.generation(Some(services[1])), 0);
}

#[test]
fn connection_is_of_the_generation_that_its_service_had_when_the_handshake_ended() {
    let mut bench = Bench::paused(&sizes(0, 3), true, true);
    let _ = bench.make_ready();
    let service = Some(ObjectId::from_bytes([1; 12]));
    let clear = || Clear { service_id: service, ..Clear::default() };
    let ids: Vec<_> = (0..2).map(|_| bench.wait().1.connect[0]).collect();
    for id in &ids {
        bench.pool.handshake_completed(*id, service);
    }
    assert_eq!(bench.pool.connect_failing(ids[0]), Some((0, service)));
    // The other one is stale while it authenticates; whoever waits for it gets a new one.
    let asked = bench.clear(clear());
    assert_eq!((asked.abort.as_slice(), asked.connect.len()), (&ids[1..], 1));
    assert!(asked.failed.is_empty());
    assert_eq!(bench.pool.connect_failing(ids[1]), None);
    // Without a handshake, nothing is known of the service, and clearing it is no concern.
    let new = asked.connect[0];
    assert!(bench.clear(clear()).abort.is_empty());
    bench.pool.handshake_completed(new, service);
    assert_eq!(bench.pool.connect_failing(new), Some((2, service)));
}
