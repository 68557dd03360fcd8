//! Status of clusters that are not compliant.

use bson::{Bson, doc};

use super::*;
use crate::zones::cluster::{Chunk, CollectionKind, CollectionState, Shard, ZoneRange};

fn layout() -> Layout {
    Layout::new("app.m", ["dc", "id"], [("alfa", ["s0"]), ("bravo", ["s1"])]).unwrap()
}

/// A cluster in which all is applied, and all documents are on one shard.
fn unbalanced() -> Cluster {
    let layout = layout();
    let mut cluster = Cluster { sharding_enabled: true, ..Cluster::default() };
    for (shard, zone) in [("s0", "alfa"), ("s1", "bravo")] {
        cluster.shards.push(Shard {
            name: shard.to_owned(),
            zones: vec![zone.to_owned()],
            ..Shard::default()
        });
        cluster.ranges.push(ZoneRange {
            collection: "app.m".to_owned(),
            min: layout.min(zone),
            max: layout.max(zone),
            zone: zone.to_owned(),
        });
    }
    let shard_key = Some(layout.key_pattern());
    cluster.collection = CollectionState {
        kind: Some(CollectionKind::Collection),
        shard_key,
        ..CollectionState::default()
    };
    cluster.balancer.on = true;
    cluster.chunks = vec![Chunk {
        min: doc! { "dc": Bson::MinKey, "id": Bson::MinKey },
        max: doc! { "dc": Bson::MaxKey, "id": Bson::MaxKey },
        shard: "s1".to_owned(),
    }];
    cluster
}

fn violation() -> BalancerVerdict {
    BalancerVerdict::Violation("zoneViolation".to_owned())
}

#[test]
fn misplaced_chunks_without_a_blocker_are_being_moved() {
    let status = Status::of(&layout(), &unbalanced(), violation());
    assert!(!status.is_compliant());
    assert_eq!(status.blocker(), None);
    assert_eq!(status.misplaced.len(), 1);
    assert_eq!((status.shards[1].chunks, status.shards[1].misplaced), (1, 1));
    let text = status.to_string();
    assert!(text.contains("misplaced chunk"), "{text}");
    assert!(text.contains("violation: zoneViolation"), "{text}");
    assert!(text.ends_with("The balancer is moving chunks to their zones.\n"), "{text}");
}

#[test]
fn blockers_of_chunk_migrations_are_reported() {
    let mut cluster = unbalanced();
    cluster.balancer.on = false;
    let status = Status::of(&layout(), &cluster, violation());
    assert!(status.blocker().unwrap().contains("sh.startBalancer()"));
    assert!(status.to_string().contains("Balancer: off"), "{status}");
    let mut cluster = unbalanced();
    cluster.collection.balancing_disabled = true;
    let status = Status::of(&layout(), &cluster, violation());
    assert!(status.blocker().unwrap().contains("sh.enableBalancing"));
    let mut cluster = unbalanced();
    cluster.ranges.clear();
    let status = Status::of(&layout(), &cluster, BalancerVerdict::Compliant);
    assert!(status.blocker().unwrap().contains("not fully applied"));
    assert!(status.conclusion().contains("2 steps are left"), "{status}");
}

#[test]
fn zone_violation_of_the_balancer_is_not_compliant() {
    let mut cluster = unbalanced();
    cluster.chunks.clear();
    assert!(Status::of(&layout(), &cluster, BalancerVerdict::Compliant).is_compliant());
    assert!(!Status::of(&layout(), &cluster, violation()).is_compliant());
    let uneven = BalancerVerdict::Violation("chunksImbalance".to_owned());
    assert!(Status::of(&layout(), &cluster, uneven).is_compliant(), "that is not about zones");
}

#[test]
fn balancer_window_is_shown() {
    let mut cluster = unbalanced();
    cluster.balancer.window = Some(("23:00".to_owned(), "6:00".to_owned()));
    let text = Status::of(&layout(), &cluster, BalancerVerdict::TooOld).to_string();
    assert!(text.contains("Balancer: on, from 23:00 to 6:00 only; "), "{text}");
    assert!(text.contains("MongoDB before 4.4 cannot report violations"), "{text}");
}

#[test]
fn at_most_ten_misplaced_chunks_are_shown() {
    let mut cluster = unbalanced();
    cluster.chunks = vec![cluster.chunks[0].clone(); 25];
    let text = Status::of(&layout(), &cluster, violation()).to_string();
    assert!(text.contains("and 15 more\n"), "{text}");
}

#[test]
fn chunks_of_another_shard_key_are_not_misplaced() {
    let mut cluster = unbalanced();
    cluster.collection.shard_key = Some(doc! { "id": "hashed" });
    cluster.chunks[0].min = doc! { "id": Bson::MinKey };
    cluster.chunks[0].max = doc! { "id": Bson::MaxKey };
    let status = Status::of(&layout(), &cluster, BalancerVerdict::Compliant);
    assert!(status.misplaced.is_empty() && !status.is_compliant());
    assert!(status.conclusion().contains("is sharded already, by { id: \"hashed\" }"), "{status}");
}
