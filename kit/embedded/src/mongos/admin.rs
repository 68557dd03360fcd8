//! Sharding commands of a `mongos`: zones, chunks, balancer.

use bson::{Bson, Document, Uuid, doc};
use steadfast_query::{Code, Fault};

use super::{
    balancer::{Migration, MigrationReason},
    catalog::ShardedCollection,
    chunks::ChunkRange,
    config,
    key::{ShardKey, ShardKeyValue, compare_keys},
    multi_shard,
    operation::{MongosCommand, ShardCommandPurpose},
    reads::number,
};
use crate::{namespace::Namespace, stream::SHARD_COLLECTION};

/// Commands of a real `mongos` that are rejected here: the set of shards and shard keys cannot
/// change.
const UNSUPPORTED: &[&str] = &[
    "abortReshardCollection",
    "addShard",
    "cleanupReshardCollection",
    "clearJumboFlag",
    "commitReshardCollection",
    "configureCollectionBalancing",
    "moveCollection",
    "movePrimary",
    "refineCollectionShardKey",
    "removeShard",
    "reshardCollection",
    "setAllowMigrations",
    "transitionFromDedicatedConfigServer",
    "transitionToDedicatedConfigServer",
    "unshardCollection",
];

const SHARDING_COMMANDS: &[&str] = &[
    "addShardToZone",
    "balancerCollectionStatus",
    "balancerStart",
    "balancerStatus",
    "balancerStop",
    "enableSharding",
    "flushRouterConfig",
    "getShardMap",
    "isdbgrid",
    "listShards",
    "mergeChunks",
    "moveChunk",
    "moveRange",
    "removeShardFromZone",
    "shardCollection",
    "split",
    "updateZoneKeyRange",
];

/// Commands with the first wire version that has them.
const MIN_WIRE_VERSIONS: &[(&str, i32)] = &[("balancerCollectionStatus", 9), ("moveRange", 17)];

/// First wire version that shards collections without `enableSharding` (MongoDB 6.0).
const ENABLED_BY_DEFAULT: i32 = 17;

/// Returns `true` for a command of this module.
pub(super) fn is_sharding_command(name: &str) -> bool {
    SHARDING_COMMANDS.contains(&name) || UNSUPPORTED.contains(&name)
}

/// Runs a command of this module.
pub(super) async fn run(op: &MongosCommand) -> Result<Document, Fault> {
    let name = op.call.name.as_str();
    let wire_version = op.cluster().config.max_wire_version;
    if MIN_WIRE_VERSIONS.iter().any(|(newer, since)| *newer == name && wire_version < *since) {
        return Err(Fault::new(Code::COMMAND_NOT_FOUND, format!("no such command: '{name}'")));
    }
    if op.call.api_strict {
        return Err(Fault::new(
            Code::API_STRICT_ERROR,
            format!("Provided apiStrict:true, but the command {name} is not in API Version 1"),
        ));
    }
    if op.in_transaction() {
        return Err(Fault::new(
            Code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION,
            format!("Cannot run '{name}' in a multi-document transaction."),
        ));
    }
    if UNSUPPORTED.contains(&name) {
        return Err(Fault::new(
            Code::COMMAND_NOT_SUPPORTED,
            format!("{name} is not supported by an embedded cluster"),
        ));
    }
    if op.call.database != "admin" && !matches!(name, "isdbgrid" | "flushRouterConfig") {
        return Err(Fault::new(
            Code::UNAUTHORIZED,
            format!("{name} may only be run against the admin database."),
        ));
    }
    let cluster = op.cluster();
    match name {
        "isdbgrid" => Ok(doc! { "isdbgrid": 1, "hostname": &op.mongos.server_info().address }),
        "flushRouterConfig" => Ok(doc! { "flushed": true }),
        "listShards" => Ok(doc! { "shards": config::shards(cluster, &cluster.catalog()) }),
        "getShardMap" => {
            let map = cluster.shards().iter().map(|it| (it.name.clone(), it.host().into()));
            Ok(doc! { "map": map.collect::<Document>() })
        }
        "enableSharding" => enable_sharding(op),
        "shardCollection" => shard_collection(op).await,
        "addShardToZone" => {
            let (shard, zone) = (text(op, name)?, text(op, "zone")?);
            cluster.change(|catalog| catalog.add_to_zone(shard, zone))?;
            Ok(Document::new())
        }
        "removeShardFromZone" => {
            let (shard, zone) = (text(op, name)?, text(op, "zone")?);
            cluster.change(|catalog| catalog.remove_from_zone(shard, zone))?;
            Ok(Document::new())
        }
        "updateZoneKeyRange" => update_zone_key_range(op),
        "balancerStart" | "balancerStop" => {
            cluster.set_balancing(name == "balancerStart");
            Ok(Document::new())
        }
        "balancerStatus" => Ok(doc! {
            "mode": if cluster.is_balancing() { "full" } else { "off" },
            "inBalancerRound": false,
            "numBalancerRounds": 0_i64,
        }),
        "balancerCollectionStatus" => balancer_collection_status(op),
        "split" => split(op),
        "mergeChunks" => merge_chunks(op),
        "moveChunk" | "moveRange" => move_range(op).await,
        _ => Err(Fault::new(Code::COMMAND_NOT_FOUND, format!("no such command: '{name}'"))),
    }
}

fn text<'a>(op: &'a MongosCommand, field: &str) -> Result<&'a str, Fault> {
    let name = &op.call.name;
    match op.call.body.get(field) {
        Some(Bson::String(text)) => Ok(text),
        Some(_) => Err(Fault::type_mismatch(format!(
            "BSON field '{name}.{field}' is the wrong type, expected type 'string'"
        ))),
        None => Err(Fault::location(
            40414,
            format!("BSON field '{name}.{field}' is missing but a required field"),
        )),
    }
}

fn document<'a>(op: &'a MongosCommand, field: &str) -> Result<&'a Document, Fault> {
    let name = &op.call.name;
    match op.call.body.get(field) {
        Some(Bson::Document(document)) => Ok(document),
        Some(_) => Err(Fault::type_mismatch(format!(
            "BSON field '{name}.{field}' is the wrong type, expected type 'object'"
        ))),
        None => Err(Fault::location(
            40414,
            format!("BSON field '{name}.{field}' is missing but a required field"),
        )),
    }
}

/// Namespace in the first argument, as `database.collection`.
fn full_name(op: &MongosCommand) -> Result<Namespace, Fault> {
    let full = text(op, &op.call.name)?;
    let (database, collection) = full.split_once('.').unwrap_or((full, ""));
    let namespace = Namespace::named(database, collection)?;
    if matches!(database, "admin" | "config" | "local") {
        return Err(Fault::new(
            Code::ILLEGAL_OPERATION,
            format!("collections of {database} cannot be sharded"),
        ));
    }
    Ok(namespace)
}

fn enable_sharding(op: &MongosCommand) -> Result<Document, Fault> {
    let database = text(op, "enableSharding")?;
    Namespace::named(database, "any")?;
    if matches!(database, "admin" | "local") {
        return Err(Fault::new(Code::INVALID_OPTIONS, format!("can't shard {database} database")));
    }
    let shard = op.call.body.get_str("primaryShard").ok();
    op.cluster().change(|catalog| {
        catalog.create_database(database, shard)?;
        catalog.enable_sharding(database);
        Ok(())
    })?;
    Ok(Document::new())
}

async fn shard_collection(op: &MongosCommand) -> Result<Document, Fault> {
    let namespace = full_name(op)?;
    let key = ShardKey::parse(document(op, "key")?)?;
    let unique = op.call.body.get_bool("unique").unwrap_or(false);
    check_options(op, &key, unique)?;
    let enabled = op.catalog().is_sharding_enabled(&namespace.database);
    if !enabled && op.cluster().config.max_wire_version < ENABLED_BY_DEFAULT {
        return Err(Fault::new(
            Code::ILLEGAL_OPERATION,
            format!("sharding not enabled for db {}", namespace.database),
        ));
    }
    let done = doc! { "collectionsharded": namespace.to_string() };
    let primary_shard = op.cluster().database(&namespace.database)?;
    let _alone = op.cluster().lock_exclusive(&namespace, op.deadline).await?;
    if let Some(known) = op.catalog().collections.get(&namespace) {
        if known.key == key && known.unique == unique {
            return Ok(done);
        }
        return Err(Fault::new(
            Code::named(23, "AlreadyInitialized"),
            format!(
                "sharding already enabled for collection {namespace} with options {{ key: {}, \
                 unique: {} }}",
                Bson::from(known.key.pattern()),
                known.unique
            ),
        ));
    }
    op.catalog().check_zones(&namespace, &key)?;
    let found = multi_shard::collection(op.cluster().shard(&primary_shard)?, &namespace)?;
    let empty = found.as_ref().is_none_or(|it| it.documents.is_empty());
    if let Some(found) = &found {
        found.check(&namespace, &key, unique, op.call.body.get_document("collation").ok())?;
    }
    make_collection(op, &namespace, &primary_shard, &key, unique).await?;
    for shard in op.cluster().shards().iter().filter(|shard| shard.name != primary_shard) {
        multi_shard::copy(&namespace, op.cluster().shard(&primary_shard)?, shard, |_| false)?;
    }
    let made = multi_shard::collection(op.cluster().shard(&primary_shard)?, &namespace)?;
    let epoch = op.cluster().environment().object_id();
    let uuid = made.as_ref().map_or_else(|| Uuid::from_bytes([0; 16]), |it| it.uuid);
    let since = multi_shard::append_noop(
        op.cluster().shard(&primary_shard)?,
        sharding(&namespace, uuid, &key, unique),
    )?;
    op.cluster().change(|catalog| {
        let chunks = catalog.first_chunks(&namespace, &key, &primary_shard, empty)?;
        catalog.shard_keys.insert(uuid.bytes(), (key.clone(), since.timestamp));
        let sharded = ShardedCollection {
            key,
            unique,
            uuid,
            epoch,
            chunks,
            version: 1,
            collation: made.and_then(|it| it.collation),
            no_balance: false,
        };
        catalog.collections.insert(namespace.clone(), sharded);
        Ok(())
    })?;
    Ok(done)
}

/// No-op entry from which change streams make a `shardCollection` event.
fn sharding(namespace: &Namespace, uuid: Uuid, key: &ShardKey, unique: bool) -> Document {
    let description = doc! {
        "shardKey": key.pattern(),
        "unique": unique,
        "presplitHashedZones": false,
        "capped": false,
    };
    doc! { SHARD_COLLECTION: namespace.to_string(), "uuid": uuid, "description": description }
}

fn check_options(op: &MongosCommand, key: &ShardKey, unique: bool) -> Result<(), Fault> {
    let invalid = |message: &str| Err(Fault::new(Code::INVALID_OPTIONS, message));
    if key.fields().iter().any(|field| field.hashed) && unique {
        return invalid("Hashed shard keys cannot be declared unique.");
    }
    if op.call.body.get_bool("presplitHashedZones").unwrap_or(false) {
        return invalid("presplitHashedZones is not supported by an embedded cluster");
    }
    if number(&op.call.body, "numInitialChunks") != 0 {
        return invalid("numInitialChunks is not supported by an embedded cluster");
    }
    if op.call.body.contains_key("timeseries") {
        return invalid("time series collections are not supported by an embedded cluster");
    }
    match op.call.body.get_document("collation") {
        Ok(collation) if !collation.get_str("locale").is_ok_and(|it| it == "simple") => {
            Err(Fault::bad_value("The collation for shardCollection must be {locale: 'simple'}"))
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Creates the collection and an index on the shard key, on the primary shard.
async fn make_collection(
    op: &MongosCommand,
    namespace: &Namespace,
    primary_shard: &str,
    key: &ShardKey,
    unique: bool,
) -> Result<(), Fault> {
    let pattern = key.pattern();
    let body = if pattern == doc! { "_id": 1 } {
        doc! { "create": &namespace.collection, "$db": &namespace.database }
    } else {
        let name: Vec<String> = pattern
            .iter()
            .map(|(path, kind)| match kind {
                Bson::String(kind) => format!("{path}_{kind}"),
                _ => format!("{path}_1"),
            })
            .collect();
        let mut index = doc! { "key": pattern, "name": name.join("_") };
        if unique {
            index.insert("unique", true);
        }
        doc! {
            "createIndexes": &namespace.collection,
            "indexes": [index],
            "$db": &namespace.database,
        }
    };
    match op.run_on_shard(primary_shard, &body, ShardCommandPurpose::Execute).await {
        Ok(_) => Ok(()),
        Err(fault) if fault.code == Code::NAMESPACE_EXISTS => Ok(()),
        Err(fault) => Err(fault),
    }
}

fn update_zone_key_range(op: &MongosCommand) -> Result<Document, Fault> {
    let namespace = full_name(op)?;
    let (min, max) = (document(op, "min")?.clone(), document(op, "max")?.clone());
    let zone = match op.call.body.get("zone") {
        Some(Bson::String(zone)) => Some(zone.as_str()),
        Some(Bson::Null) => None,
        _ => {
            return Err(Fault::type_mismatch(
                "\"zone\" had the wrong type. Expected string or null",
            ));
        }
    };
    op.cluster().change(|catalog| catalog.set_zone_range(&namespace, min, max, zone))?;
    Ok(Document::new())
}

fn balancer_collection_status(op: &MongosCommand) -> Result<Document, Fault> {
    let namespace = full_name(op)?;
    let mut catalog = (*op.catalog()).clone();
    catalog.sharded(&namespace)?;
    catalog.split_at_zones();
    let violation = if catalog.zone_violation(&namespace)?.is_some() {
        Some("zoneViolation")
    } else if catalog.imbalance(&namespace)?.is_some() {
        Some("chunksImbalance")
    } else {
        None
    };
    let mut reply = doc! { "chunkSize": 128.0, "balancerCompliant": violation.is_none() };
    if let Some(violation) = violation {
        reply.insert("firstComplianceViolation", violation);
    }
    Ok(reply)
}

fn split(op: &MongosCommand) -> Result<Document, Fault> {
    let namespace = full_name(op)?;
    let catalog = op.catalog();
    let sharded = catalog.sharded(&namespace)?;
    let point = match op.call.body.get_document("middle") {
        Ok(middle) if middle.len() == sharded.key.fields().len() => sharded.key.bound(middle)?,
        Ok(middle) => return Err(bad_key(middle)),
        Err(_) => {
            let chunk = selected_chunk_range(op, sharded)?;
            median(op, &namespace, sharded, &chunk)?
        }
    };
    op.cluster().change(|catalog| catalog.split(&namespace, &point))?;
    Ok(Document::new())
}

/// Range of the chunk that `find` or `bounds` selects.
fn selected_chunk_range(
    op: &MongosCommand,
    sharded: &ShardedCollection,
) -> Result<ChunkRange, Fault> {
    if let Ok(find) = op.call.body.get_document("find") {
        return Ok(sharded.chunks.of(&sharded.key.of(find)?).range.clone());
    }
    let Ok([Bson::Document(min), Bson::Document(max)]) =
        op.call.body.get_array("bounds").map(Vec::as_slice)
    else {
        return Err(Fault::bad_value("need to provide exactly one of find or bounds of a chunk"));
    };
    let (min, max) = (sharded.key.bound(min)?, sharded.key.bound(max)?);
    match sharded.chunk(&min, &max) {
        Some(chunk) => Ok(chunk.range.clone()),
        None => Err(Fault::bad_value("no chunk found with the provided bounds")),
    }
}

/// Median key of a chunk's documents.
fn median(
    op: &MongosCommand,
    namespace: &Namespace,
    sharded: &ShardedCollection,
    range: &ChunkRange,
) -> Result<ShardKeyValue, Fault> {
    let shard = op.cluster().shard(&sharded.chunks.of(&range.min).shard)?;
    let found = multi_shard::collection(shard, namespace)?;
    let documents = found.map(|it| it.documents).unwrap_or_default();
    let mut keys: Vec<ShardKeyValue> = documents
        .iter()
        .filter_map(|document| sharded.key.of(document).ok())
        .filter(|key| range.contains(key))
        .collect();
    keys.sort_by(|one, other| compare_keys(one, other));
    let middle = keys.get(keys.len() / 2).filter(|it| compare_keys(it, &range.min).is_gt());
    middle.cloned().ok_or_else(|| {
        Fault::new(
            Code::named(119, "CannotSplit"),
            "the chunk has too few different keys to be split in the middle",
        )
    })
}

fn merge_chunks(op: &MongosCommand) -> Result<Document, Fault> {
    let namespace = full_name(op)?;
    let Ok([Bson::Document(min), Bson::Document(max)]) =
        op.call.body.get_array("bounds").map(Vec::as_slice)
    else {
        return Err(Fault::bad_value("bounds must be an array of two documents"));
    };
    op.cluster().change(|catalog| {
        let sharded = catalog.sharded_mut(&namespace)?;
        let range = ChunkRange { min: sharded.key.bound(min)?, max: sharded.key.bound(max)? };
        sharded.chunks.merge(&range)
    })?;
    Ok(Document::new())
}

async fn move_range(op: &MongosCommand) -> Result<Document, Fault> {
    let namespace = full_name(op)?;
    let catalog = op.catalog();
    let sharded = catalog.sharded(&namespace)?;
    let (to, range) = if op.call.name == "moveChunk" {
        (text(op, "to")?, selected_chunk_range(op, sharded)?)
    } else {
        (text(op, "toShard")?, requested_range(op, sharded)?)
    };
    catalog.known(to)?;
    let from = sharded.chunks.of(&range.min).shard.clone();
    if from != to {
        let to = to.to_owned();
        let migration = Migration { namespace, range, from, to, reason: MigrationReason::Asked };
        op.cluster().migrate(migration).await?;
    }
    Ok(doc! { "millis": 0 })
}

/// Range of `moveRange`, limited to the chunk of its lower bound.
fn requested_range(op: &MongosCommand, sharded: &ShardedCollection) -> Result<ChunkRange, Fault> {
    let bound = |field: &str| match op.call.body.get_document(field) {
        Ok(bound) => sharded.key.bound(bound).map(Some),
        Err(_) => Ok(None),
    };
    let (min, max) = (bound("min")?, bound("max")?);
    let whole = match (&min, &max) {
        (Some(key), _) => sharded.chunks.of(key).range.clone(),
        (None, Some(max)) => {
            let ends = sharded.chunks.iter().find(|it| compare_keys(&it.range.max, max).is_ge());
            ends.map(|it| it.range.clone()).ok_or_else(|| Fault::bad_value("no such range"))?
        }
        (None, None) => return Err(Fault::bad_value("moveRange needs min, max, or both")),
    };
    let range = ChunkRange {
        min: min.unwrap_or_else(|| whole.min.clone()),
        max: max.unwrap_or_else(|| whole.max.clone()),
    };
    if !whole.covers(&range) || compare_keys(&range.min, &range.max).is_ge() {
        return Err(Fault::bad_value("the range is not within one chunk"));
    }
    Ok(range)
}

fn bad_key(key: &Document) -> Fault {
    Fault::bad_value(format!("{} is not a full shard key", Bson::from(key)))
}
