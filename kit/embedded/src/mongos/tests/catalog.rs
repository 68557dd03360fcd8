//! The catalog alone: chunks cover the key space, every key has one owner, the balancer terminates
//! without zone violations, and filters target the shards of their documents.

use bson::{Bson, Document, Uuid, doc, oid::ObjectId};
use proptest::prelude::*;

use super::super::{
    balancer::Migration,
    catalog::{Catalog, ShardedCollection},
    chunks::{ChunkRange, Chunks},
    key::{ShardKey, compare_keys},
    statements::{StatementKind, StatementTarget, statement_target},
    target,
};
use crate::namespace::Namespace;

fn messages() -> Namespace {
    Namespace::new("log", "messages")
}

fn catalog(shards: &[&str]) -> Catalog {
    Catalog::new(shards.iter().map(|name| (*name).to_owned()))
}

fn sharded(key: &Document, chunks: Chunks) -> ShardedCollection {
    ShardedCollection {
        key: ShardKey::parse(key).unwrap(),
        unique: false,
        uuid: Uuid::from_bytes([7; 16]),
        epoch: ObjectId::from_bytes([7; 12]),
        chunks,
        version: 1,
        collation: None,
        no_balance: false,
    }
}

/// Zones of two datacenters with one shard each, then the sharded collection.
fn two_datacenters() -> Catalog {
    let mut catalog = catalog(&["shard0000", "shard0001"]);
    catalog.add_to_zone("shard0000", "alfa").unwrap();
    catalog.add_to_zone("shard0001", "bravo").unwrap();
    for zone in ["alfa", "bravo"] {
        let min = doc! { "datacenter": zone, "userid": Bson::MinKey };
        let max = doc! { "datacenter": zone, "userid": Bson::MaxKey };
        catalog.set_zone_range(&messages(), min, max, Some(zone)).unwrap();
    }
    add(&mut catalog, doc! { "datacenter": 1, "userid": 1 }, true);
    catalog
}

fn add(catalog: &mut Catalog, key: Document, empty: bool) {
    let parsed = ShardKey::parse(&key).unwrap();
    let primary = catalog.create_database("log", None).unwrap();
    let chunks = catalog.first_chunks(&messages(), &parsed, &primary, empty).unwrap();
    catalog.collections.insert(messages(), sharded(&key, chunks));
}

fn owner(catalog: &Catalog, document: &Document) -> String {
    catalog.collections[&messages()].owner(document).unwrap().to_owned()
}

fn assert_covered(sharded: &ShardedCollection) {
    let chunks: Vec<_> = sharded.chunks.iter().collect();
    assert_eq!(chunks[0].range.min, sharded.key.min_key());
    assert_eq!(chunks[chunks.len() - 1].range.max, sharded.key.max_key());
    for pair in chunks.windows(2) {
        assert_eq!(pair[0].range.max, pair[1].range.min, "no gap and no overlap");
    }
    for chunk in chunks {
        assert!(compare_keys(&chunk.range.min, &chunk.range.max).is_lt(), "no chunk is empty");
    }
}

#[test]
fn existing_zones_place_chunks_of_empty_collection() {
    let catalog = two_datacenters();
    assert_covered(&catalog.collections[&messages()]);
    assert_eq!(owner(&catalog, &doc! { "datacenter": "alfa", "userid": 1 }), "shard0000");
    assert_eq!(owner(&catalog, &doc! { "datacenter": "bravo", "userid": 1 }), "shard0001");
    assert_eq!(catalog.next_migration(), None);
}

#[test]
fn balancer_moves_existing_chunks_into_zones() {
    let mut catalog = two_datacenters();
    catalog.drop_collection(&messages());
    add(&mut catalog, doc! { "datacenter": 1, "userid": 1 }, false);
    assert_eq!(catalog.collections[&messages()].chunks.len(), 1);
    let min = doc! { "datacenter": "bravo", "userid": Bson::MinKey };
    let max = doc! { "datacenter": "bravo", "userid": Bson::MaxKey };
    catalog.set_zone_range(&messages(), min, max, Some("bravo")).unwrap();
    assert!(catalog.split_at_zones());
    let migration = catalog.next_migration().unwrap();
    assert_eq!((migration.from.as_str(), migration.to.as_str()), ("shard0000", "shard0001"));
    catalog.moved(&migration).unwrap();
    assert_covered(&catalog.collections[&messages()]);
    assert_eq!(owner(&catalog, &doc! { "datacenter": "bravo", "userid": 1 }), "shard0001");
}

#[test]
fn zone_ranges_must_not_overlap_and_need_a_shard() {
    let mut catalog = two_datacenters();
    let code = |catalog: &mut Catalog, min: &str, max: &str, zone: &str| {
        let (min, max) = (doc! { "datacenter": min }, doc! { "datacenter": max });
        catalog.set_zone_range(&messages(), min, max, Some(zone)).unwrap_err().code.number
    };
    assert_eq!(code(&mut catalog, "a", "b", "alfa"), 178);
    assert_eq!(code(&mut catalog, "x", "y", "nowhere"), 177);
    assert_eq!(code(&mut catalog, "y", "x", "alfa"), 9);
    assert_eq!(catalog.remove_from_zone("shard0000", "alfa").unwrap_err().code.number, 154);
    assert_eq!(catalog.add_to_zone("shard0009", "alfa").unwrap_err().code.number, 70);
}

#[test]
fn range_without_zone_is_removed() {
    let mut catalog = two_datacenters();
    let min = doc! { "datacenter": "alfa", "userid": Bson::MinKey };
    let max = doc! { "datacenter": "alfa", "userid": Bson::MaxKey };
    catalog.set_zone_range(&messages(), min, max, None).unwrap();
    assert_eq!(catalog.zones[&messages()].len(), 1);
    catalog.remove_from_zone("shard0000", "alfa").unwrap();
}

#[test]
fn hashed_chunks_are_spread_over_shards() {
    let mut catalog = catalog(&["a", "b", "c"]);
    add(&mut catalog, doc! { "_id": "hashed" }, true);
    let sharded = &catalog.collections[&messages()];
    assert_covered(sharded);
    assert_eq!(sharded.chunks.len(), 6);
    assert_eq!(sharded.shards().len(), 3);
    assert_eq!(catalog.next_migration(), None);
}

#[test]
fn missing_shard_key_field_is_null_and_array_is_rejected() {
    let key = ShardKey::parse(&doc! { "a.b": 1, "c": 1 }).unwrap();
    assert_eq!(key.of(&doc! { "a": { "b": 1 } }).unwrap(), vec![Bson::Int32(1), Bson::Null]);
    for document in [doc! { "a": [{ "b": 1 }] }, doc! { "c": [1] }] {
        assert_eq!(key.of(&document).unwrap_err().code.number, 61);
    }
}

#[test]
fn shard_key_pattern_is_ascending_with_one_hashed_field() {
    let twice = doc! { "a": "hashed", "b": "hashed" };
    for bad in [doc! {}, doc! { "a": -1 }, doc! { "a": "2d" }, twice] {
        assert!(ShardKey::parse(&bad).is_err(), "{bad}");
    }
}

#[test]
fn filter_targets_owning_shards() {
    let catalog = two_datacenters();
    let sharded = &catalog.collections[&messages()];
    let shards = |filter: Document| -> Vec<String> {
        target::shards(sharded, &filter, true).into_iter().collect()
    };
    assert_eq!(shards(doc! { "datacenter": "alfa", "userid": { "$lt": 9 } }), ["shard0000"]);
    assert_eq!(shards(doc! { "datacenter": "bravo", "userid": 5 }), ["shard0001"]);
    assert_eq!(shards(doc! { "datacenter": { "$in": ["alfa", "bravo"] } }).len(), 2);
    assert_eq!(shards(doc! { "userid": 5 }).len(), 2);
    let and = doc! { "$and": [{ "userid": 5 }, { "datacenter": "bravo" }] };
    assert_eq!(shards(and.clone()), ["shard0001"]);
    let both = target::shards(sharded, &and, false);
    assert_eq!(both.len(), 2, "under a collation, `BRAVO` may be meant");
    let pattern =
        bson::Regex { pattern: "alfa".try_into().unwrap(), options: "".try_into().unwrap() };
    assert_eq!(shards(doc! { "datacenter": pattern, "userid": 5 }).len(), 2);
}

#[test]
fn single_document_write_is_targeted_or_reads_first_since_7_0() {
    let catalog = two_datacenters();
    let sharded = &catalog.collections[&messages()];
    let by_key = doc! { "q": { "datacenter": "alfa", "userid": 1 }, "u": { "$set": { "a": 1 } } };
    let without = doc! { "q": { "message_id": 1 }, "u": { "$set": { "a": 1 } } };
    let by_id = doc! { "q": { "_id": 1 }, "u": { "$set": { "a": 1 } } };
    let go = |update: &Document, version| {
        statement_target(StatementKind::Update, update, sharded, version)
    };
    assert_eq!(go(&by_key, 17).unwrap(), StatementTarget::OneShard("shard0000".into()));
    assert_eq!(go(&without, 17).unwrap_err().code.number, 72);
    assert!(matches!(go(&without, 21).unwrap(), StatementTarget::ReadFirst(_)));
    assert!(matches!(go(&by_id, 17).unwrap(), StatementTarget::Broadcast(_)));
    let delete = doc! { "q": { "message_id": 1 }, "limit": 1 };
    assert_eq!(
        statement_target(StatementKind::Delete, &delete, sharded, 17).unwrap_err().code.number,
        61
    );
    assert!(matches!(
        statement_target(StatementKind::Delete, &delete, sharded, 21).unwrap(),
        StatementTarget::ReadFirst(_)
    ));
    let upsert = doc! { "q": { "a": 1 }, "u": { "$set": { "b": 1 } }, "upsert": true };
    assert_eq!(go(&upsert, 17).unwrap_err().code.number, 61);
}

#[test]
fn update_of_shard_key_field_reads_first() {
    let catalog = two_datacenters();
    let sharded = &catalog.collections[&messages()];
    let update = |u: Document| {
        let update = doc! { "q": { "datacenter": "alfa", "userid": 1 }, "u": u };
        statement_target(StatementKind::Update, &update, sharded, 25).unwrap()
    };
    assert!(matches!(
        update(doc! { "$set": { "datacenter": "bravo" } }),
        StatementTarget::ReadFirst(_)
    ));
    assert!(matches!(update(doc! { "$rename": { "x": "userid" } }), StatementTarget::ReadFirst(_)));
    assert!(matches!(
        update(doc! { "datacenter": "bravo", "userid": 1 }),
        StatementTarget::ReadFirst(_)
    ));
    assert_eq!(
        update(doc! { "datacenter": "alfa", "userid": 1, "x": 1 }),
        StatementTarget::OneShard("shard0000".into())
    );
    assert_eq!(
        update(doc! { "$set": { "user": 1 } }),
        StatementTarget::OneShard("shard0000".into())
    );
}

#[test]
fn merge_chunks_requires_one_shard() {
    let mut chunks = Chunks::whole(vec![Bson::MinKey], vec![Bson::MaxKey], "a");
    chunks.split_at(&[Bson::Int32(1)]);
    chunks.split_at(&[Bson::Int32(2)]);
    let range = |min: Bson, max: Bson| ChunkRange { min: vec![min], max: vec![max] };
    chunks.assign(&range(Bson::Int32(1), Bson::Int32(2)), "b");
    assert!(chunks.merge(&range(Bson::MinKey, Bson::MaxKey)).is_err());
    chunks.assign(&range(Bson::Int32(1), Bson::Int32(2)), "a");
    chunks.merge(&range(Bson::MinKey, Bson::MaxKey)).unwrap();
    assert_eq!(chunks.len(), 1);
}

/// A random operation on a catalog.
#[derive(Clone, Debug)]
enum CatalogOperation {
    Split(i32),
    Move(i32, i32, usize),
    Join(usize, usize),
    Zone(i32, i32, Option<usize>),
    Step,
}

fn catalog_operations() -> impl Strategy<Value = Vec<CatalogOperation>> {
    let act = prop_oneof![
        (-20..20).prop_map(CatalogOperation::Split),
        (-20..20, 1..10, 0..3_usize)
            .prop_map(|(min, width, shard)| CatalogOperation::Move(min, width, shard)),
        (0..3_usize, 0..2_usize).prop_map(|(shard, zone)| CatalogOperation::Join(shard, zone)),
        (-20..20, 1..10, proptest::option::of(0..2_usize))
            .prop_map(|(min, width, zone)| CatalogOperation::Zone(min, width, zone)),
        Just(CatalogOperation::Step),
    ];
    proptest::collection::vec(act, 0..40)
}

const SHARDS: [&str; 3] = ["a", "b", "c"];
const ZONES: [&str; 2] = ["red", "blue"];

fn step(catalog: &mut Catalog) -> Option<Migration> {
    catalog.split_at_zones();
    let migration = catalog.next_migration()?;
    catalog.moved(&migration).unwrap();
    Some(migration)
}

fn apply(catalog: &mut Catalog, act: &CatalogOperation) {
    match act {
        CatalogOperation::Split(at) => drop(catalog.split(&messages(), &[Bson::Int32(*at)])),
        CatalogOperation::Move(min, width, shard) => {
            let range =
                ChunkRange { min: vec![Bson::Int32(*min)], max: vec![Bson::Int32(min + width)] };
            catalog.sharded_mut(&messages()).unwrap().chunks.assign(&range, SHARDS[*shard]);
        }
        CatalogOperation::Join(shard, zone) => {
            catalog.add_to_zone(SHARDS[*shard], ZONES[*zone]).unwrap();
        }
        CatalogOperation::Zone(min, width, zone) => {
            let (min, max) = (doc! { "k": *min }, doc! { "k": min + width });
            let zone = zone.map(|zone| ZONES[zone]);
            // An overlap is rejected without effect.
            drop(catalog.set_zone_range(&messages(), min, max, zone));
        }
        CatalogOperation::Step => drop(step(catalog)),
    }
}

proptest! {
    #[test]
    fn random_catalog_operations_keep_invariants(
        catalog_operations in catalog_operations(),
        keys in proptest::collection::vec(-30..30_i32, 10),
    ) {
        let mut catalog = catalog(&SHARDS);
        add(&mut catalog, doc! { "k": 1 }, false);
        for act in &catalog_operations {
            apply(&mut catalog, act);
            assert_covered(&catalog.collections[&messages()]);
        }
        let mut steps = 0;
        while step(&mut catalog).is_some() {
            steps += 1;
            prop_assert!(steps < 500, "balancing ends");
        }
        let sharded = &catalog.collections[&messages()];
        assert_covered(sharded);
        prop_assert_eq!(catalog.zone_violation(&messages()).unwrap(), None);
        for key in keys {
            let key = [Bson::Int32(key)];
            let owners = sharded.chunks.iter().filter(|it| it.range.contains(&key)).count();
            prop_assert_eq!(owners, 1);
            let document = doc! { "k": key[0].clone() };
            let targeted = target::shards(sharded, &document, true);
            prop_assert_eq!(targeted.len(), 1);
            prop_assert!(targeted.contains(sharded.owner(&document).unwrap()));
            let above = target::shards(sharded, &doc! { "k": { "$gte": key[0].clone() } }, true);
            prop_assert!(above.contains(sharded.owner(&document).unwrap()));
        }
    }
}
