//! Replication, commit point, rollback.

use super::*;
use crate::{change::UpdateForm, oplog::OrderedTimestamp};

#[test]
fn write_is_replicated_at_once() {
    let mut lab = TestState::new(3);
    let at = lab.insert(0, 1).unwrap();
    assert!(lab.acknowledged(0, at, WriteConcernW::Members(3)));
    assert!(lab.is_majority(0, at));
    for index in 0..3 {
        assert_eq!(lab.ids(index), [1]);
        assert_eq!(lab.state.member(index).commit, at);
    }
}

#[test]
fn write_concern_waits_for_held_member() {
    let mut lab = TestState::new(3);
    lab.state.hold_replication(2, true, lab.now);
    let at = lab.insert(0, 1).unwrap();
    assert!(lab.is_majority(0, at));
    assert!(lab.acknowledged(0, at, WriteConcernW::Members(2)));
    assert!(!lab.acknowledged(0, at, WriteConcernW::Members(3)));
    assert_eq!(lab.ids(2), [0; 0]);
    lab.state.hold_replication(2, false, lab.now);
    assert!(lab.acknowledged(0, at, WriteConcernW::Members(3)));
    assert_eq!(lab.ids(2), [1]);
}

#[test]
fn majority_read_omits_uncommitted_writes() {
    let mut lab = TestState::new(3);
    lab.state.hold_replication(1, true, lab.now);
    lab.state.hold_replication(2, true, lab.now);
    let before = lab.state.member(0).commit;
    let at = lab.insert(0, 1).unwrap();
    assert!(!lab.is_majority(0, at));
    assert!(lab.acknowledged(0, at, WriteConcernW::Members(1)));
    assert_eq!(lab.state.member(0).commit, before);
    let committed = lab.state.member(0).committed.collection(&namespace()).unwrap();
    assert_eq!(committed.len(), 0);
    lab.state.hold_replication(1, false, lab.now);
    assert!(lab.is_majority(0, at));
    let committed = lab.state.member(0).committed.collection(&namespace()).unwrap();
    assert_eq!(committed.len(), 1);
}

#[test]
fn replication_latency_delays_member() {
    let mut lab = TestState::new(3);
    lab.state.set_latency(2, milliseconds(50), lab.now);
    lab.insert(0, 1).unwrap();
    lab.advance_time(milliseconds(30));
    lab.insert(0, 2).unwrap();
    assert_eq!(lab.ids(2), [0; 0]);
    lab.advance_time(milliseconds(20));
    assert_eq!(lab.ids(2), [1]);
    lab.advance_time(milliseconds(29));
    assert_eq!(lab.ids(2), [1]);
    lab.advance_time(milliseconds(1));
    assert_eq!(lab.ids(2), [1, 2]);
    assert!(lab.state.is_replicated());
    assert_eq!(lab.state.next_deadline(), None);
}

#[test]
fn unreplicated_writes_are_rolled_back() {
    let mut lab = TestState::new(3);
    lab.insert(0, 1).unwrap();
    lab.state.partition(&[&[0], &[1, 2]], lab.now);
    let lost = lab.insert(0, 2).unwrap();
    assert!(!lab.is_majority(0, lost));
    lab.advance_time(TIMEOUT);
    assert_eq!(lab.state.primary(), Some(1));
    let kept = lab.insert(1, 3).unwrap();
    assert!(lab.is_majority(1, kept));
    assert_eq!(lab.ids(0), [1, 2]);
    lab.state.heal(lab.now);
    for index in 0..3 {
        assert_eq!(lab.ids(index), [1, 3]);
    }
    assert!(!lab.state.is_committed(lost));
    assert!(lab.state.is_committed(kept));
}

#[test]
fn rolled_back_retryable_write_can_be_executed_again() {
    let mut lab = TestState::new(3);
    let session = session(1);
    lab.state.partition(&[&[0], &[1, 2]], lab.now);
    lab.insert_as(0, 1, Some((&session, 5))).unwrap();
    assert!(lab.state.member(0).store().session(&session).is_some());
    lab.advance_time(TIMEOUT);
    lab.state.heal(lab.now);
    assert!(lab.state.member(0).store().session(&session).is_none());
    lab.insert_as(1, 1, Some((&session, 5))).unwrap();
    let executions = lab.state.executions();
    assert_eq!(executions.len(), 1);
    assert_eq!(executions[0].count, 1);
}

#[test]
fn session_record_survives_failover() {
    let mut lab = TestState::new(3);
    let session = session(1);
    lab.insert_as(0, 1, Some((&session, 5))).unwrap();
    lab.state.kill(0, lab.now);
    lab.advance_time(TIMEOUT);
    let mut direct = PrimaryWriter::new(&mut lab.state, 1, Some((&session, 5)), lab.now);
    assert_eq!(direct.recorded(0), Some(doc! { "n": 1 }));
    assert_eq!(direct.recorded(1), None);
    direct.apply_change(insertion(2), Some(Statement { id: 1, outcome: doc! {} })).unwrap();
    assert_eq!(direct.recorded(1), Some(doc! {}));
}

#[test]
fn snapshots_of_the_past_are_available() {
    let mut lab = TestState::new(3);
    let first = lab.insert(0, 1).unwrap();
    lab.insert(0, 2).unwrap();
    let then = lab.state.snapshot(0, Some(first.timestamp)).unwrap();
    assert_eq!(then.store.collection(&namespace()).unwrap().len(), 1);
    for id in 10..3000 {
        lab.insert(0, id).unwrap();
    }
    let fault = lab.state.snapshot(0, Some(first.timestamp)).unwrap_err();
    assert_eq!(fault.code.number, 239);
}

#[test]
fn stale_member_does_initial_sync() {
    let mut lab = TestState::new(3);
    lab.state.set_manual_elections(true, lab.now);
    lab.state.partition(&[&[0], &[1, 2]], lab.now);
    lab.insert(0, 1).unwrap();
    lab.state.elect(1, lab.now).unwrap();
    // More entries than are retained, on both sides.
    for id in 10..2500 {
        lab.insert(0, id).unwrap();
        lab.insert(1, -id).unwrap();
    }
    lab.state.heal(lab.now);
    assert!(lab.state.is_replicated());
    assert_eq!(lab.ids(0), lab.ids(1));
    assert_eq!(lab.ids(0).len(), 2490);
}

#[test]
fn optimes_increase_despite_clock_skew() {
    let mut lab = TestState::new(3);
    lab.state.set_skew(0, Duration::from_secs(3600));
    let ahead = lab.insert(0, 1).unwrap();
    lab.state.elect(1, lab.now).unwrap();
    let next = lab.insert(1, 2).unwrap();
    assert!(next.timestamp > ahead.timestamp);
    assert_eq!(next.timestamp.time, ahead.timestamp.time);
}

#[test]
fn client_cluster_time_advances_member_within_limit() {
    let mut lab = TestState::new(3);
    let soon = OrderedTimestamp { time: lab.state.second(0, lab.now) + 100, increment: 3 };
    lab.state.advance_cluster_time(0, soon, lab.now).unwrap();
    assert!(lab.insert(0, 1).unwrap().timestamp > soon);
    let absurd = OrderedTimestamp { time: u32::MAX - 5, increment: 1 };
    assert_eq!(lab.state.advance_cluster_time(0, absurd, lab.now).unwrap_err().code.number, 205);
}

#[test]
fn oplog_is_truncated_by_size() {
    let mut lab = TestState::new(3);
    let first = lab.insert(0, 1).unwrap();
    let large = "x".repeat(1 << 20);
    for _ in 0..300 {
        let document = Arc::new(doc! { "_id": 1, "large": &large });
        let change =
            Change::Replace { namespace: namespace(), document, by: UpdateForm::Replacement };
        lab.state.append(0, vec![change], None, lab.now).unwrap();
        lab.state.replicate(lab.now);
    }
    let oplog = &lab.state.member(0).oplog;
    assert!(!oplog.has(first));
    assert!((250..260).contains(&oplog.entries().len()), "{}", oplog.entries().len());
    lab.state.kill(2, lab.now);
    lab.insert(0, 2).unwrap();
    lab.state.restart(2, lab.now);
    assert!(lab.state.is_replicated());
}

#[test]
fn ttl_deletes_are_replicated() {
    let mut lab = TestState::new(3);
    let index = Change::CreateIndex {
        namespace: namespace(),
        specification: doc! {
            "v": 2, "key": { "at": 1 }, "name": "at_1", "expireAfterSeconds": 100,
        },
    };
    lab.state.append(0, vec![index], None, lab.now).unwrap();
    let today = lab.state.wall_time(0, lab.now);
    for (id, at) in [(1, Bson::DateTime(today)), (2, Bson::Null)] {
        let document = Arc::new(doc! { "_id": id, "at": at });
        let change = Change::Insert { namespace: namespace(), document };
        lab.state.append(0, vec![change], None, lab.now).unwrap();
    }
    lab.advance_time(Duration::from_secs(60));
    assert_eq!(lab.ids(2), [1, 2]);
    lab.advance_time(Duration::from_secs(60));
    for index in 0..3 {
        assert_eq!(lab.ids(index), [2]);
    }
    let dropped = Change::DropIndex { namespace: namespace(), name: String::from("at_1") };
    lab.state.append(0, vec![dropped], None, lab.now).unwrap();
    lab.advance_time(Duration::from_secs(60));
    assert_eq!(lab.state.next_deadline(), None);
}
