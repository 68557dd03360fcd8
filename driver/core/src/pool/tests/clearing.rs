//! Clearing and closing of a pool: connections and waiters.

use super::{super::*, harness::*};

#[test]
fn handshake_error_reaches_its_waiter_despite_the_clearing() {
    let mut harness = PoolHarness::ready(&sizes(0, 10));
    let (first, effects) = harness.wait();
    let id = effects.connect[0];
    let (second, _) = harness.wait();
    harness.pool.connect_failing(id);
    let effects =
        harness.clear(ClearRequest { cause: Some("auth failed"), ..ClearRequest::default() });
    assert_eq!(effects.failed, [(second, CheckOutError::Cleared { cause: Some("auth failed") })]);
    let effects = harness.call(|pool, now, fx| pool.connect_failed(id, "auth failed", now, fx));
    assert_eq!(effects.failed, [(first, CheckOutError::Connect("auth failed"))]);
    assert_eq!(harness.pool.counts(), PoolCounts::default());
}

// pitfall 25
#[test]
fn stale_connection_is_closed_on_check_in() {
    let mut harness = PoolHarness::ready(&sizes(0, 1));
    let conn = harness.establish();
    let _ = harness.clear(ClearRequest::default());
    let _ = harness.make_ready();
    let (_, effects) = harness.wait();
    assert!(effects.connect.is_empty(), "its place is still taken");
    let effects = harness.check_in(conn);
    assert_eq!(effects.closed, [(1, ConnectionClosedReason::Stale)]);
    assert!(effects.delivered.is_empty());
    assert_eq!(effects.connect.len(), 1);
}

// pitfall 26
#[test]
fn retry_after_clearing_succeeds_with_max_pool_size_one() {
    let mut harness = PoolHarness::ready(&sizes(0, 1));
    let conn = harness.establish();
    let _ = harness.clear(ClearRequest::default());
    let _ = harness.make_ready();
    let (waiter, _) = harness.wait();
    let id = conn.id();
    let effects = harness
        .call(|pool, now, fx| pool.discard(id, ConnectionClosedReason::Error, None, now, fx));
    assert_eq!(harness.connected(effects.connect[0]).delivered[0].0, waiter);
    drop(conn);
}

// pitfall 26
#[test]
fn stale_handshake_does_not_take_the_place_of_the_retry() {
    let mut harness = PoolHarness::ready(&sizes(0, 1));
    let (waiter, effects) = harness.wait();
    let old = effects.connect[0];
    let effects = harness.clear(ClearRequest::default());
    assert_eq!(effects.abort, [old]);
    assert_eq!(effects.failed[0].0, waiter);
    let _ = harness.make_ready();
    let (_, effects) = harness.wait();
    assert_eq!(effects.connect.len(), 1);
    // A late report only closes the socket.
    let late = harness.connected(old);
    assert_eq!(late.closed, [(1, ConnectionClosedReason::Stale)]);
    assert!(late.delivered.is_empty() && harness.connect_failed(old).failed.is_empty());
    assert_eq!(harness.pool.counts().pending, 1);
}

#[test]
fn repeated_clearing_of_a_generation_has_no_effect() {
    let mut harness = PoolHarness::ready(&sizes(0, 2));
    let clear = |to| ClearRequest { generation: Some(to), ..ClearRequest::default() };
    let _ = harness.clear(clear(3));
    assert_eq!(harness.pool.generation(None), 3);
    let _ = harness.make_ready();
    let _ = harness.clear(clear(3));
    assert_eq!(harness.pool.state(), PoolState::Ready);
    let _ = harness.clear(ClearRequest::default());
    assert_eq!((harness.pool.state(), harness.pool.generation(None)), (PoolState::Paused, 4));
}

#[test]
fn only_stale_connections_are_interrupted_and_only_on_request() {
    let mut harness = PoolHarness::ready(&sizes(0, 3));
    let (first, second) = (harness.establish(), harness.establish());
    assert!(harness.clear(ClearRequest::default()).interrupted.is_empty());
    let _ = harness.make_ready();
    let third = harness.establish();
    let effects = harness.clear(ClearRequest { interrupt_in_use: true, ..ClearRequest::default() });
    assert_eq!(effects.interrupted, [first.id(), second.id(), third.id()]);
    assert_eq!(harness.pool.counts().in_use, 3, "until each is discarded");
}

#[test]
fn check_out_of_a_paused_pool_names_the_cause() {
    let mut harness = PoolHarness::ready(&sizes(0, 3));
    let _ = harness.clear(ClearRequest { cause: Some("step-down"), ..ClearRequest::default() });
    let CheckOutResult::Failed(error) = harness.check_out().0 else { panic!() };
    assert!(error.to_string().ends_with("another operation failed with: step-down"), "{error}");
}

#[test]
fn closing_keeps_only_connections_in_use() {
    let mut harness = PoolHarness::ready(&sizes(0, 3));
    let (used, idle) = (harness.establish(), harness.establish());
    let (waiter, effects) = harness.wait();
    let _ = harness.check_in(idle);
    let (aside, failing) = (harness.wait(), effects.connect[0]);
    harness.pool.connect_failing(failing);
    let effects = harness.call(|pool, now, fx| pool.close(now, fx));
    assert_eq!(effects.failed, [(aside.0, CheckOutError::Closed)], "{waiter:?} had been served");
    assert_eq!(harness.pool.counts(), PoolCounts { total: 2, in_use: 2, ..PoolCounts::default() });
    assert_eq!(harness.check_in(used).closed[0].1, ConnectionClosedReason::PoolClosed);
    assert!(matches!(harness.check_out().0, CheckOutResult::Failed(CheckOutError::Closed)));
    let _ = harness.make_ready();
    assert_eq!(harness.pool.state(), PoolState::Closed);
}

#[test]
fn load_balanced_pool_clears_only_the_failed_service() {
    let mut harness = PoolHarness::paused(&sizes(0, 3), true, true);
    let _ = harness.make_ready();
    let services = [ObjectId::from_bytes([1; 12]), ObjectId::from_bytes([2; 12])];
    let mut conns: Vec<_> = services
        .iter()
        .map(|&service| {
            let (_, effects) = harness.wait();
            let id = effects.connect[0];
            let connected =
                harness.call(|pool, now, fx| pool.connected(id, "socket", Some(service), now, fx));
            connected.delivered.into_iter().next().expect("delivered").1
        })
        .collect();
    let other = conns.pop().expect("two");
    let failed = conns.pop().expect("one");
    let (waiter, _) = harness.wait();
    let effects =
        harness.clear(ClearRequest { service_id: Some(services[0]), ..ClearRequest::default() });
    assert!(effects.failed.is_empty());
    assert!(matches!(&effects.events[..], [CmapEvent::PoolCleared(event)]
        if event.service_id == Some(services[0])));
    assert_eq!(harness.pool.state(), PoolState::Ready);
    assert_eq!(harness.check_in(failed).closed, [(1, ConnectionClosedReason::Stale)]);
    assert_eq!(harness.check_in(other).delivered[0].0, waiter);
    // The generation of the service continues from its last value.
    assert_eq!(harness.pool.generation(Some(services[0])), 1);
    assert_eq!(harness.pool.generation(Some(services[1])), 0);
}

#[test]
fn connection_gets_the_service_generation_at_the_end_of_its_handshake() {
    let mut harness = PoolHarness::paused(&sizes(0, 3), true, true);
    let _ = harness.make_ready();
    let service = Some(ObjectId::from_bytes([1; 12]));
    let clear = || ClearRequest { service_id: service, ..ClearRequest::default() };
    let ids: Vec<_> = (0..2).map(|_| harness.wait().1.connect[0]).collect();
    for id in &ids {
        harness.pool.handshake_completed(*id, service);
    }
    assert_eq!(harness.pool.connect_failing(ids[0]), Some((0, service)));
    // The other connection is stale while it authenticates; its waiter gets a new one.
    let effects = harness.clear(clear());
    assert_eq!((effects.abort.as_slice(), effects.connect.len()), (&ids[1..], 1));
    assert!(effects.failed.is_empty());
    assert_eq!(harness.pool.connect_failing(ids[1]), None);
    // Before the handshake, the service is unknown, and clearing it has no effect.
    let new = effects.connect[0];
    assert!(harness.clear(clear()).abort.is_empty());
    harness.pool.handshake_completed(new, service);
    assert_eq!(harness.pool.connect_failing(new), Some((2, service)));
}
