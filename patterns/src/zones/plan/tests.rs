//! Plans for clusters of every kind.

use bson::{Bson, Document, doc};

use super::*;
use crate::zones::cluster::{Balancer, Chunk, CollectionIndex, CollectionState, Shard};

fn layout() -> Layout {
    Layout::new(
        "app.messages",
        ["datacenter", "userid"],
        [("alfa", vec!["shard0000"]), ("bravo", vec!["shard0001", "shard0002"])],
    )
    .unwrap()
}

fn shard(name: &str, zones: &[&str]) -> Shard {
    let zones = zones.iter().map(|&zone| zone.to_owned()).collect();
    Shard { name: name.to_owned(), zones, ..Shard::default() }
}

/// An empty cluster of 6.0 or later.
fn bare() -> Cluster {
    Cluster {
        shards: ["shard0000", "shard0001", "shard0002"].map(|name| shard(name, &[])).to_vec(),
        sharding_enabled: true,
        balancer: Balancer { on: true, window: None },
        ..Cluster::default()
    }
}

fn bound(datacenter: &str, userid: impl Into<Bson>) -> Document {
    doc! { "datacenter": datacenter, "userid": userid.into() }
}

fn range(collection: &str, min: Document, max: Document, zone: &str) -> ZoneRange {
    ZoneRange { collection: collection.to_owned(), min, max, zone: zone.to_owned() }
}

fn own_range(zone: &str) -> ZoneRange {
    let (min, max) = (bound(zone, Bson::MinKey), bound(zone, Bson::MaxKey));
    range("app.messages", min, max, zone)
}

fn collection(shard_key: Option<Document>, has_documents: bool) -> CollectionState {
    let id = CollectionIndex {
        name: "_id_".to_owned(),
        keys: doc! { "_id": 1 },
        ..CollectionIndex::default()
    };
    let indexes = vec![id];
    CollectionState {
        kind: Some(CollectionKind::Collection),
        shard_key,
        has_documents,
        indexes,
        ..CollectionState::default()
    }
}

/// A cluster to which the layout is applied.
fn ready() -> Cluster {
    let mut cluster = bare();
    cluster.shards = vec![
        shard("shard0000", &["alfa"]),
        shard("shard0001", &["bravo", "other"]),
        shard("shard0002", &["bravo"]),
    ];
    cluster.ranges = vec![own_range("alfa"), own_range("bravo")];
    cluster.collection = collection(Some(layout().key_pattern()), true);
    let end = doc! { "datacenter": Bson::MaxKey, "userid": Bson::MaxKey };
    let least = doc! { "datacenter": Bson::MinKey, "userid": Bson::MinKey };
    let points = [
        (least, "shard0002"),
        (bound("alfa", Bson::MinKey), "shard0000"),
        (bound("alfa", 500), "shard0000"),
        (bound("alfa", Bson::MaxKey), "shard0000"),
        (bound("bravo", Bson::MinKey), "shard0001"),
        (bound("bravo", Bson::MaxKey), "shard0000"),
        (end, ""),
    ];
    let chunks = points.windows(2).map(|pair| Chunk {
        min: pair[0].0.clone(),
        max: pair[1].0.clone(),
        shard: pair[0].1.to_owned(),
    });
    cluster.chunks = chunks.collect();
    cluster
}

fn commands(plan: &Plan) -> Vec<String> {
    plan.steps().iter().map(|step| step.command().keys().next().unwrap().clone()).collect()
}

fn planned(cluster: &Cluster) -> Plan {
    plan(&layout(), cluster).unwrap()
}

/// Message of the only contradiction.
fn contradiction(cluster: &Cluster) -> String {
    let contradictions = plan(&layout(), cluster).unwrap_err();
    assert_eq!(contradictions.iter().count(), 1, "{contradictions}");
    contradictions.to_string()
}

#[test]
fn zones_and_ranges_come_before_the_collection_is_sharded() {
    let plan = planned(&bare());
    assert_eq!(
        commands(&plan),
        [
            "addShardToZone",
            "addShardToZone",
            "addShardToZone",
            "updateZoneKeyRange",
            "updateZoneKeyRange",
            "shardCollection"
        ]
    );
    let admin: Vec<_> = plan.steps().iter().map(Step::database).collect();
    assert_eq!(admin, ["admin"; 6]);
    assert_eq!(plan.steps()[2].command(), &doc! { "addShardToZone": "shard0002", "zone": "bravo" });
    assert_eq!(
        plan.steps()[3].command(),
        &doc! {
            "updateZoneKeyRange": "app.messages", "min": { "datacenter": "alfa", "userid": Bson::MinKey },
            "max": { "datacenter": "alfa", "userid": Bson::MaxKey }, "zone": "alfa",
        }
    );
    let key = doc! { "datacenter": 1, "userid": 1 };
    assert_eq!(plan.steps()[5].command(), &doc! { "shardCollection": "app.messages", "key": key });
    assert!(plan.steps()[5].reason().contains("created on the right shards"));
}

#[test]
fn before_6_0_sharding_is_enabled_first() {
    let cluster = Cluster { sharding_enabled: false, ..bare() };
    let plan = planned(&cluster);
    assert_eq!(plan.steps()[0].command(), &doc! { "enableSharding": "app" });
}

#[test]
fn applied_layout_needs_no_steps() {
    let plan = planned(&ready());
    assert!(plan.is_empty() && plan.notes().is_empty(), "{plan}");
    assert!(plan.to_string().contains("Nothing to do"));
}

#[test]
fn only_missing_steps_are_planned() {
    let mut cluster = ready();
    cluster.shards[2].zones.clear();
    cluster.ranges.remove(0);
    let plan = planned(&cluster);
    let done: Vec<_> = plan.steps().iter().map(ToString::to_string).collect();
    assert_eq!(done[0], "add shard0002 to zone bravo");
    assert!(done[1].starts_with("assign { datacenter: \"alfa\""), "{}", done[1]);
    assert_eq!(done.len(), 2);
}

#[test]
fn a_collection_with_documents_gets_its_index_first() {
    let mut cluster = bare();
    cluster.collection = collection(None, true);
    let plan = planned(&cluster);
    let [.., index, shard] = plan.steps() else { panic!("{plan}") };
    assert_eq!(index.database(), "app");
    let first = index.command().get_array("indexes").unwrap()[0].as_document().unwrap();
    assert_eq!(first, &doc! { "key": layout().key_pattern(), "name": "datacenter_1_userid_1" });
    assert!(shard.command().contains_key("shardCollection"));
    assert!(plan.notes()[0].contains("the balancer moves them"), "{plan}");
}

#[test]
fn an_index_that_begins_with_the_key_is_enough() {
    let mut cluster = bare();
    cluster.collection = collection(None, true);
    let keys = doc! { "datacenter": 1.0, "userid": 1_i64, "at": -1 };
    cluster.collection.indexes.push(CollectionIndex { keys, ..CollectionIndex::default() });
    assert!(!commands(&planned(&cluster)).contains(&"createIndexes".to_owned()));
    cluster.collection.indexes[1].special = true;
    assert!(commands(&planned(&cluster)).contains(&"createIndexes".to_owned()));
    cluster.collection.indexes[1] = CollectionIndex {
        keys: doc! { "datacenter": 1, "userid": -1 },
        ..CollectionIndex::default()
    };
    assert!(commands(&planned(&cluster)).contains(&"createIndexes".to_owned()));
}

#[test]
fn empty_collection_needs_no_index_step() {
    let mut cluster = bare();
    cluster.collection = collection(None, false);
    let plan = planned(&cluster);
    assert!(!commands(&plan).contains(&"createIndexes".to_owned()));
    assert!(!plan.notes().iter().any(|note| note.contains("balancer")), "{plan}");
}

#[test]
fn collection_with_a_collation_is_sharded_with_simple_collation() {
    let mut cluster = bare();
    cluster.collection = collection(None, true);
    cluster.collection.has_collation = true;
    let plan = planned(&cluster);
    let [.., index, shard] = plan.steps() else { panic!("{plan}") };
    assert!(index.in_shell().contains("collation: { locale: \"simple\" }"));
    assert!(shard.in_shell().contains("collation: { locale: \"simple\" }"));
}

#[test]
fn notes_for_a_sharded_collection_mention_the_balancer() {
    let mut cluster = ready();
    cluster.ranges.clear();
    for chunk in &mut cluster.chunks {
        chunk.shard = "shard0000".to_owned();
    }
    let plan = planned(&cluster);
    assert_eq!(commands(&plan), ["updateZoneKeyRange", "updateZoneKeyRange"]);
    assert!(plan.notes()[0].contains("moves 1 of its 6 chunks"), "{plan}");
    cluster.balancer.on = false;
    cluster.collection.balancing_disabled = true;
    let notes = planned(&cluster).notes().join("\n");
    assert!(
        notes.contains("sh.startBalancer()") && notes.contains("sh.enableBalancing"),
        "{notes}"
    );
}

#[test]
fn unknown_shard_is_a_contradiction() {
    let mut cluster = bare();
    cluster.shards.remove(1);
    let message = contradiction(&cluster);
    assert!(message.contains("no shard shard0001, which the layout has in bravo"), "{message}");
    assert!(message.contains("has shard0000, shard0002"), "{message}");
}

#[test]
fn draining_shard_is_a_contradiction() {
    let mut cluster = bare();
    cluster.shards[0].draining = true;
    assert!(
        contradiction(&cluster)
            .contains("shard0000, which the layout has in alfa, is being removed")
    );
}

#[test]
fn shard_of_another_datacenter_in_the_zone_is_a_contradiction() {
    let mut cluster = ready();
    cluster.shards[1].zones.push("alfa".to_owned());
    let message = contradiction(&cluster);
    assert!(message.contains("sh.removeShardFromZone(\"shard0001\", \"alfa\")"), "{message}");
}

#[test]
fn other_shard_key_is_a_contradiction() {
    let keys = [
        doc! { "datacenter": 1 },
        doc! { "datacenter": 1, "userid": "hashed" },
        doc! { "userid": 1, "datacenter": 1 },
        doc! { "datacenter": 1, "userid": 1, "_id": 1 },
    ];
    for key in keys {
        let mut cluster = ready();
        cluster.collection.shard_key = Some(key.clone());
        let message = contradiction(&cluster);
        assert!(message.contains("is sharded already, by {"), "{message}");
        assert!(message.contains("not by { datacenter: 1, userid: 1 }"), "{message}");
    }
    let mut cluster = ready();
    cluster.collection.shard_key = Some(doc! { "datacenter": 1.0, "userid": 1_i64 });
    assert!(planned(&cluster).is_empty(), "the same in other types");
}

#[test]
fn overlapping_range_is_a_contradiction() {
    let least = doc! { "datacenter": Bson::MinKey, "userid": Bson::MinKey };
    let (min, max) = (bound("alfa", Bson::MinKey), bound("alfa", Bson::MaxKey));
    let ranges = [
        // The same, in another zone.
        (min.clone(), max.clone(), "bravo"),
        // A part, in another zone, and in the own.
        (min.clone(), bound("alfa", 5), "other"),
        (bound("alfa", 5), max.clone(), "alfa"),
        // More than it.
        (least, bound("am", Bson::MinKey), "other"),
    ];
    for (min, max, zone) in ranges {
        let mut cluster = bare();
        cluster.ranges = vec![range("app.messages", min, max, zone)];
        let message = contradiction(&cluster);
        assert!(message.contains("keys of alfa are assigned to zone"), "{message}");
        assert!(message.contains("sh.removeRangeFromZone(\"app.messages\", {"), "{message}");
    }
}

#[test]
fn ranges_of_other_collections_and_other_datacenters_are_left_alone() {
    let mut cluster = ready();
    let (min, max) = (bound("alfa", Bson::MinKey), bound("alfa", Bson::MaxKey));
    cluster.ranges.push(range("app.others", min, max, "bravo"));
    let (min, max) = (bound("charlie", Bson::MinKey), bound("charlie", Bson::MaxKey));
    cluster.ranges.push(range("app.messages", min, max, "charlie"));
    let plan = planned(&cluster);
    assert!(plan.is_empty());
    assert_eq!(plan.notes().len(), 1);
    assert!(plan.notes()[0].contains("zone charlie, which is not in the layout"), "{plan}");
}

#[test]
fn range_of_another_shard_key_is_a_contradiction() {
    let mut cluster = bare();
    let (min, max) = (doc! { "region": "a" }, doc! { "region": "b" });
    cluster.ranges = vec![range("app.messages", min, max, "other")];
    let message = contradiction(&cluster);
    assert!(message.contains("not of the shard key { datacenter: 1, userid: 1 }"), "{message}");
}

#[test]
fn unique_index_without_the_shard_key_is_a_contradiction() {
    let mut cluster = bare();
    cluster.collection = collection(None, false);
    let index = |keys| CollectionIndex {
        name: "once".to_owned(),
        keys,
        unique: true,
        ..CollectionIndex::default()
    };
    cluster.collection.indexes.push(index(doc! { "datacenter": 1, "userid": 1, "n": 1 }));
    assert!(!planned(&cluster).is_empty(), "this one begins with the shard key");
    cluster.collection.indexes.push(index(doc! { "message_id": 1 }));
    let message = contradiction(&cluster);
    assert!(message.contains("the index once on { message_id: 1 } is unique"), "{message}");
}

#[test]
fn views_capped_and_time_series_collections_are_contradictions() {
    for (kind, what) in [
        (CollectionKind::View, "a view"),
        (CollectionKind::Capped, "capped"),
        (CollectionKind::TimeSeries, "time"),
    ] {
        let mut cluster = bare();
        cluster.collection.kind = Some(kind);
        assert!(contradiction(&cluster).contains(what));
    }
}

#[test]
fn all_contradictions_are_reported_together() {
    let mut cluster = ready();
    cluster.shards.remove(0);
    cluster.collection.shard_key = Some(doc! { "_id": "hashed" });
    let message = plan(&layout(), &cluster).unwrap_err().to_string();
    assert_eq!(message.lines().count(), 3, "{message}");
}

#[test]
fn removal_removes_ranges_and_shards_of_the_layout_only() {
    let plan = removal(&layout(), &ready());
    let done: Vec<_> = plan.steps().iter().map(ToString::to_string).collect();
    assert!(done[0].starts_with("remove { datacenter: \"alfa\""), "{plan}");
    assert!(done[1].starts_with("remove { datacenter: \"bravo\""), "{plan}");
    assert_eq!(
        done[2..],
        [
            "remove shard0000 from zone alfa",
            "remove shard0001 from zone bravo",
            "remove shard0002 from zone bravo"
        ]
    );
    assert_eq!(plan.steps()[0].command().get("zone"), Some(&Bson::Null));
    assert!(plan.notes()[0].contains("stays sharded, and no document is deleted"), "{plan}");
    let nothing = removal(&layout(), &bare());
    assert!(nothing.is_empty() && nothing.notes().is_empty());
    assert!(nothing.to_string().contains("no zone and no range of the layout exists"));
}

#[test]
fn zone_of_another_collection_keeps_its_shards() {
    let mut cluster = ready();
    cluster.ranges.push(range("app.others", doc! { "x": 1 }, doc! { "x": 2 }, "bravo"));
    let plan = removal(&layout(), &cluster);
    assert_eq!(plan.steps().len(), 3, "{plan}");
    assert!(plan.notes()[0].contains("the shards of zone bravo stay in it"), "{plan}");
    cluster.ranges[1].zone = "other".to_owned();
    let plan = removal(&layout(), &cluster);
    assert!(plan.notes()[0].contains("assigned to zone other, not by this layout"), "{plan}");
    assert!(!plan.steps().iter().any(|step| step.to_string().contains("bravo")), "{plan}");
}

#[test]
fn chunks_with_keys_of_another_datacenter_are_misplaced() {
    let layout = layout();
    let mut cluster = ready();
    assert_eq!(cluster.misplaced(&layout).count(), 0);
    cluster.chunks[1].shard = "shard0002".to_owned();
    cluster.chunks[3].shard = "shard0002".to_owned();
    let misplaced: Vec<_> = cluster.misplaced(&layout).collect();
    assert_eq!(
        misplaced,
        [(&cluster.chunks[1], "alfa")],
        "a chunk without keys of a datacenter can be on any shard"
    );
    // One chunk for all.
    cluster.chunks = vec![Chunk {
        min: doc! { "datacenter": Bson::MinKey, "userid": Bson::MinKey },
        max: doc! { "datacenter": Bson::MaxKey, "userid": Bson::MaxKey },
        shard: "shard0000".to_owned(),
    }];
    assert_eq!(cluster.misplaced(&layout).next().unwrap().1, "bravo");
}
