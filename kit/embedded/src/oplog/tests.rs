//! Oplogs that share a branch behave like independent ones.

use std::sync::Arc;

use bson::{DateTime, Document, Uuid};
use tokio::time::Instant;

use super::*;
use crate::{change::Change, namespace::Namespace, store::Store};

/// An oplog and its expected optimes.
#[derive(Clone, Default)]
struct CheckedOplog {
    oplog: Oplog,
    model: Vec<OpTime>,
    store: Store,
}

impl CheckedOplog {
    fn last(&self) -> OpTime {
        self.model.last().copied().unwrap_or_default()
    }

    /// Appends an entry that creates a collection, so that the data shows the number of entries.
    fn push(&mut self, term: i64, written: Instant) {
        let last = self.last().timestamp;
        let at = OpTime { term, timestamp: last.next(1) };
        let create = Change::CreateCollection {
            namespace: Namespace::new("t", format!("c{}", self.model.len())),
            uuid: Uuid::from_bytes([1; 16]),
            options: Document::new(),
        };
        let entry = Arc::new(OplogEntry {
            at,
            wall: DateTime::from_millis(0),
            changes: vec![create],
            record: None,
            step: None,
            before: Vec::new(),
        });
        self.store.apply(&entry).unwrap();
        self.oplog.push(entry, written, &self.store);
        self.model.push(at);
    }

    fn check(&self) {
        assert_eq!(self.oplog.last(), self.last());
        let times: Vec<OpTime> = self.oplog.entries().iter().map(|entry| entry.at).collect();
        assert_eq!(times, self.model);
        for (count, at) in self.model.iter().enumerate() {
            assert!(self.oplog.has(*at));
            let other = OpTime { term: at.term + 1, ..*at };
            assert!(!self.oplog.has(other));
            let data = self.oplog.snapshot(at.timestamp).unwrap();
            assert_eq!(data.collections("t").count(), count + 1);
            assert_eq!(self.oplog.after(at.timestamp).len(), self.model.len() - count - 1);
        }
    }
}

#[test]
fn oplogs_sharing_a_branch_are_independent() {
    let now = Instant::now();
    let mut random = 1_u64;
    let mut roll = |sides: usize| {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(random >> 33).unwrap() % sides
    };
    for _ in 0..100 {
        let mut logs = vec![CheckedOplog::default(); 3];
        for term in 0..60 {
            let (one, other) = (roll(3), roll(3));
            match roll(5) {
                0 => logs[one] = logs[other].clone(),
                1 if !logs[one].model.is_empty() => {
                    let kept = roll(logs[one].model.len()) + 1;
                    logs[one].model.truncate(kept);
                    let last = logs[one].last();
                    logs[one].store = logs[one].oplog.roll_back(last).unwrap();
                }
                2 => {
                    let common = logs[one].oplog.common_point(&logs[other].oplog).unwrap();
                    let mut both = logs[one].model.iter().zip(&logs[other].model);
                    let expected = both.by_ref().take_while(|(one, other)| one == other).last();
                    assert_eq!(common, expected.map(|(at, _)| *at).unwrap_or_default());
                }
                _ => logs[one].push(term, now),
            }
            logs.iter().for_each(CheckedOplog::check);
        }
    }
}

#[test]
fn old_entries_are_truncated_once_majority_committed() {
    let now = Instant::now();
    let mut late = CheckedOplog::default();
    for _ in 0..10 {
        late.push(1, now);
    }
    let mut pair = late.clone();
    for _ in 0..60_000 {
        let at = OpTime { term: 1, timestamp: pair.oplog.last().timestamp.next(1) };
        let changes = vec![Change::Noop(Document::new())];
        let wall = DateTime::from_millis(0);
        let entry = OplogEntry { at, wall, changes, record: None, step: None, before: Vec::new() };
        pair.oplog.push(Arc::new(entry), now, &pair.store);
    }
    assert_eq!(pair.oplog.entries().len(), 60_010);
    pair.oplog.trim(pair.oplog.last());
    assert_eq!(pair.oplog.entries().len(), 50_000);
    assert!(pair.oplog.has(pair.oplog.last()) && pair.oplog.has(pair.oplog.before()));
    assert!(!pair.oplog.has(late.last()));
    // An oplog that did not grow with the others has only its end left.
    assert!(late.oplog.has(late.last()));
    assert_eq!(late.oplog.entries().len(), 0);
    assert_eq!(late.oplog.before(), late.last());
    assert!(late.oplog.snapshot(late.last().timestamp).is_none());
    assert_eq!(pair.oplog.common_point(&late.oplog), None);
    late.push(2, now);
    assert_eq!(late.oplog.entries().len(), 1);
    let gone = MemberHistory::new(&pair.oplog, pair.oplog.last(), &Store::default())
        .after(late.model[0].timestamp);
    assert_eq!(gone.unwrap_err().code.number, 286);
}

#[test]
fn forked_oplog_truncates_independently() {
    let now = Instant::now();
    let push = |oplog: &mut Oplog, term| {
        let at = OpTime { term, timestamp: oplog.last().timestamp.next(1) };
        let document = Arc::new(bson::doc! { "_id": 1, "large": "x".repeat(1 << 16) });
        let namespace = Namespace::new("t", "c");
        let changes = vec![Change::Insert { namespace, document }];
        let wall = DateTime::from_millis(0);
        let entry = OplogEntry { at, wall, changes, record: None, step: None, before: Vec::new() };
        oplog.push(Arc::new(entry), now, &Store::default());
    };
    let mut one = Oplog::default();
    for _ in 0..3_000 {
        push(&mut one, 1);
        one.trim(one.last());
    }
    let shared = one.last();
    let mut other = one.clone();
    for _ in 0..3_000 {
        for (term, oplog) in [(1, &mut one), (2, &mut other)] {
            push(oplog, term);
            oplog.trim(oplog.last());
        }
    }
    assert!(one.has(shared) && other.has(shared));
    assert_eq!(one.common_point(&other), Some(shared));
    assert_eq!(one.entries().len(), other.entries().len());
    assert!(one.entries().len() < 4_200, "{}", one.entries().len());
}

#[test]
fn timestamp_increment_overflow_advances_second() {
    let last = OrderedTimestamp { time: 7, increment: u32::MAX };
    assert_eq!(last.next(7), OrderedTimestamp { time: 8, increment: 1 });
    assert_eq!(last.next(3), OrderedTimestamp { time: 8, increment: 1 });
    assert_eq!(last.next(9), OrderedTimestamp { time: 9, increment: 1 });
}
