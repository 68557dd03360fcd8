//! Commands that create, drop, list and measure collections and indexes.

use std::collections::BTreeSet;

use bson::{Bson, Document, doc};
use steadfast_query::{Code, Fault};

use super::{
    catalog::ViewDefinition,
    config,
    cursors::{cursor_reply, run_and_register},
    operation::{MongosCommand, ShardCommandPurpose},
    reads::number,
    shard::is_unreachable,
    writes::reject_catalog_write,
};
use crate::namespace::Namespace;

/// Runs `create`.
pub(super) async fn create(op: &MongosCommand) -> Result<Document, Fault> {
    let namespace = op.namespace()?;
    reject_catalog_write(&namespace)?;
    let _passed = op.lock_shared(&namespace).await?;
    let primary_shard = op.cluster().database(&namespace.database)?;
    let mut reply = op.forward(&primary_shard).await?;
    // Shards use their own write concern.
    reply.remove("writeConcernError");
    if let Ok(on) = op.call.body.get_str("viewOn") {
        let pipeline = op.call.body.get_array("pipeline").map(Vec::as_slice).unwrap_or_default();
        let view = ViewDefinition {
            on: Namespace::new(&namespace.database, on),
            pipeline: pipeline.iter().filter_map(Bson::as_document).cloned().collect(),
            collation: op.call.body.get_document("collation").ok().cloned(),
        };
        op.cluster().change(|catalog| {
            catalog.views.insert(namespace.clone(), view);
            Ok(())
        })?;
    }
    Ok(reply)
}

/// Runs `drop`.
pub(super) async fn drop_collection(op: &MongosCommand) -> Result<Document, Fault> {
    let namespace = op.namespace()?;
    reject_catalog_write(&namespace)?;
    let _alone = lock_exclusive(op, &namespace).await?;
    let catalog = op.catalog();
    let primary_shard = op.primary_shard(&catalog);
    let sharded = catalog.collections.contains_key(&namespace);
    let reply = op.forward(&primary_shard).await;
    if sharded {
        let others = others(op, &primary_shard);
        for (_, answer) in op
            .run_on_shards(commands(&others, &op.call.body), ShardCommandPurpose::Duplicate)
            .await?
        {
            ignore_code(answer, Code::NAMESPACE_NOT_FOUND)?;
        }
    }
    op.cluster().change(|catalog| {
        catalog.drop_collection(&namespace);
        Ok(())
    })?;
    reply.map(|_| Document::new())
}

/// Runs `dropDatabase`.
pub(super) async fn drop_database(op: &MongosCommand) -> Result<Document, Fault> {
    let database = op.call.database.clone();
    if matches!(database.as_str(), "admin" | "config") {
        return Err(Fault::new(
            Code::ILLEGAL_OPERATION,
            format!("Cannot drop '{database}' database while in a cluster"),
        ));
    }
    let primary_shard = op.primary_shard(&op.catalog());
    let others = others(op, &primary_shard);
    for (_, answer) in
        op.run_on_shards(commands(&others, &op.call.body), ShardCommandPurpose::Duplicate).await?
    {
        answer?;
    }
    op.forward(&primary_shard).await?;
    op.cluster().change(|catalog| {
        catalog.drop_database(&database);
        Ok(())
    })?;
    Ok(Document::new())
}

/// Runs `createIndexes`.
pub(super) async fn create_indexes(op: &MongosCommand) -> Result<Document, Fault> {
    let namespace = op.namespace()?;
    reject_catalog_write(&namespace)?;
    let catalog = op.catalog();
    if let Some(sharded) = catalog.collections.get(&namespace) {
        let specifications = op.call.body.get_array("indexes").cloned().unwrap_or_default();
        for specification in specifications.iter().filter_map(Bson::as_document) {
            let unique = specification.get_bool("unique").unwrap_or(false);
            let pattern = specification.get_document("key").cloned().unwrap_or_default();
            if unique && !sharded.key.is_prefix_of(&pattern) {
                let fault = Fault::new(
                    Code::CANNOT_CREATE_INDEX,
                    format!(
                        "cannot create unique index over {} with shard key pattern {}",
                        Bson::from(pattern),
                        Bson::from(sharded.key.pattern())
                    ),
                );
                let answers = sharded.shards().into_iter().map(|it| (it, Err(fault.clone())));
                return of_shards(op, answers.collect(), false);
            }
        }
    }
    on_collection(op, &namespace).await
}

/// Runs `dropIndexes`, `collMod` and other commands on a whole collection.
pub(super) async fn of_collection(op: &MongosCommand) -> Result<Document, Fault> {
    let namespace = op.namespace()?;
    reject_catalog_write(&namespace)?;
    on_collection(op, &namespace).await
}

async fn on_collection(op: &MongosCommand, namespace: &Namespace) -> Result<Document, Fault> {
    let _passed = op.lock_shared(namespace).await?;
    let primary_shard = op.cluster().database(&namespace.database)?;
    let catalog = op.catalog();
    let sharded = catalog.collections.get(namespace);
    let owners = sharded.map_or_else(|| BTreeSet::from([primary_shard]), |it| it.shards());
    if op.call.name == "collMod" {
        let answers = op.run_on_each(&owners, &op.call.body, ShardCommandPurpose::Execute).await?;
        if sharded.is_some() {
            let others = others(op, "").difference(&owners).cloned().collect();
            op.run_on_each(&others, &op.call.body, ShardCommandPurpose::Duplicate).await?;
        }
        return Ok(answers.into_iter().next().map(|(_, answer)| answer).unwrap_or_default());
    }
    let answers =
        op.run_on_shards(commands(&owners, &op.call.body), ShardCommandPurpose::Execute).await?;
    if sharded.is_some() && answers.iter().all(|(_, answer)| answer.is_ok()) {
        let others = others(op, "").difference(&owners).cloned().collect();
        op.run_on_each(&others, &op.call.body, ShardCommandPurpose::Duplicate).await?;
    }
    let is_merged = owners.len() == 1 && (sharded.is_none() || op.call.name == "createIndexes");
    of_shards(op, answers, is_merged)
}

/// Reply of an index command, with the replies of shards in `raw`. With `is_merged`, the fields of
/// a single reply are also added at the top level.
fn of_shards(
    op: &MongosCommand,
    answers: Vec<(String, Result<Document, Fault>)>,
    is_merged: bool,
) -> Result<Document, Fault> {
    let mut raw = Document::new();
    let mut failed = None;
    let mut reply = Document::new();
    for (shard, answer) in answers {
        let host = op.cluster().shard(&shard)?.host();
        match answer {
            Ok(answer) => {
                if is_merged {
                    reply.clone_from(&answer);
                } else if let Some(error) = answer.get("writeConcernError") {
                    reply.insert("writeConcernError", error.clone());
                }
                raw.insert(host, answer);
            }
            Err(fault) if is_unreachable(&fault) => return Err(fault),
            Err(fault) => {
                raw.insert(host, fault.to_reply());
                failed.get_or_insert(fault);
            }
        }
    }
    if let Some(mut fault) = failed {
        fault.details.insert("raw", raw);
        return Err(fault);
    }
    reply.insert("raw", raw);
    Ok(reply)
}

/// Runs `renameCollection` within a database.
pub(super) async fn rename(op: &MongosCommand) -> Result<Document, Fault> {
    let named = |field: &str| -> Result<Namespace, Fault> {
        let full = op.call.body.get_str(field).unwrap_or_default();
        let (database, collection) = full.split_once('.').unwrap_or((full, ""));
        Namespace::named(database, collection)
    };
    let (from, to) = (named("renameCollection")?, named("to")?);
    reject_catalog_write(&from)?;
    reject_catalog_write(&to)?;
    let _alone = lock_exclusive(op, &from).await?;
    let catalog = op.catalog();
    if catalog.collections.contains_key(&to) {
        return Err(Fault::new(
            Code::COMMAND_NOT_SUPPORTED,
            "renameCollection to a sharded collection is not supported by an embedded cluster",
        ));
    }
    let primary_shard = catalog.primary(&from.database).map(str::to_owned);
    let Some(primary_shard) = primary_shard else {
        return Err(Fault::new(
            Code::NAMESPACE_NOT_FOUND,
            format!("Source collection {from} does not exist"),
        ));
    };
    if op.cluster().database(&to.database)? != primary_shard {
        return Err(Fault::new(
            Code::COMMAND_NOT_SUPPORTED,
            "Source and destination collections must be on the same shard",
        ));
    }
    let reply = op.forward(&primary_shard).await?;
    if catalog.collections.contains_key(&from) {
        let others = others(op, &primary_shard);
        op.run_on_each(&others, &op.call.body, ShardCommandPurpose::Duplicate).await?;
        op.cluster().change(|catalog| {
            catalog.rename_collection(&from, &to);
            Ok(())
        })?;
    }
    Ok(reply)
}

/// Runs a command that is supported for unsharded collections only.
pub(super) async fn if_unsharded(op: &MongosCommand) -> Result<Document, Fault> {
    let catalog = op.catalog();
    if op.namespace().is_ok_and(|it| catalog.collections.contains_key(&it)) {
        return Err(super::cursors::unsupported_over_shards(&op.call.name));
    }
    op.forward(&op.primary_shard(&catalog)).await
}

/// Runs `listCollections` or `listIndexes` on the primary shard of the database.
pub(super) async fn on_primary_shard(op: &MongosCommand) -> Result<Document, Fault> {
    if op.call.name == "listCollections" && op.call.database == "config" {
        let names = config::COLLECTIONS
            .iter()
            .map(|name| {
                doc! { "name": *name, "type": "collection", "options": {}, "info": { "readOnly": false } }
            })
            .collect();
        return Ok(cursor_reply("config.$cmd.listCollections", names));
    }
    run_and_register(op, &op.primary_shard(&op.catalog()), &op.call.body).await
}

/// Runs `listDatabases` on all shards and merges the lists.
pub(super) async fn list_databases(op: &MongosCommand) -> Result<Document, Fault> {
    let everywhere = others(op, "");
    let mut body = op.arguments();
    body.remove("nameOnly");
    let mut found: std::collections::BTreeMap<String, (i64, Document)> = Default::default();
    for (shard, mut reply) in
        op.run_on_each(&everywhere, &body, ShardCommandPurpose::Execute).await?
    {
        let Some(Bson::Array(databases)) = reply.remove("databases") else { continue };
        for database in databases.iter().filter_map(Bson::as_document) {
            let name = database.get_str("name").unwrap_or_default().to_owned();
            if matches!(name.as_str(), "local" | "config" | "admin") {
                continue;
            }
            let entry = found.entry(name).or_default();
            entry.0 += number(database, "sizeOnDisk");
            entry.1.insert(&shard, number(database, "sizeOnDisk"));
        }
    }
    let name_only = op.call.body.get_bool("nameOnly").unwrap_or(false);
    let total: i64 = found.values().map(|(size, _)| size).sum();
    let databases: Vec<Document> = found
        .into_iter()
        .map(|(name, (size, shards))| {
            if name_only {
                return doc! { "name": name };
            }
            doc! { "name": name, "sizeOnDisk": size, "empty": false, "shards": shards }
        })
        .collect();
    if name_only {
        return Ok(doc! { "databases": databases });
    }
    Ok(doc! { "databases": databases, "totalSize": total, "totalSizeMb": total / 1_048_576 })
}

/// Runs `dbStats` and adds up the statistics of all shards.
pub(super) async fn database_statistics(op: &MongosCommand) -> Result<Document, Fault> {
    let everywhere = others(op, "");
    let mut raw = Document::new();
    let mut total = doc! { "db": &op.call.database };
    for (shard, answer) in
        op.run_on_each(&everywhere, &op.arguments(), ShardCommandPurpose::Execute).await?
    {
        add_numbers(&mut total, &answer, &["ok", "avgObjSize", "scaleFactor"]);
        raw.insert(op.cluster().shard(&shard)?.host(), answer);
    }
    total.insert("raw", raw);
    Ok(total)
}

/// Runs `collStats` and adds up the statistics of the shards that have the collection.
pub(super) async fn collection_statistics(op: &MongosCommand) -> Result<Document, Fault> {
    let namespace = op.namespace()?;
    let _passed = op.lock_shared(&namespace).await?;
    let catalog = op.catalog();
    let sharded = catalog.collections.get(&namespace);
    let shards = match sharded {
        Some(sharded) => sharded.shards(),
        None => BTreeSet::from([op.primary_shard(&catalog)]),
    };
    let mut total = doc! { "sharded": sharded.is_some(), "ns": namespace.to_string() };
    let mut by_shard = Document::new();
    for (shard, answer) in
        op.run_on_each(&shards, &op.arguments(), ShardCommandPurpose::Execute).await?
    {
        add_numbers(&mut total, &answer, &["ok", "avgObjSize", "nindexes", "scaleFactor"]);
        for field in ["nindexes", "scaleFactor", "capped"] {
            if let Some(value) = answer.get(field) {
                total.insert(field, value.clone());
            }
        }
        by_shard.insert(shard, answer);
    }
    let (size, count) = (number(&total, "size"), number(&total, "count"));
    if count > 0 {
        total.insert("avgObjSize", size / count);
    }
    let chunks = sharded.map_or(1, |it| it.chunks.len());
    total.insert("nchunks", i32::try_from(chunks).unwrap_or(i32::MAX));
    total.insert("shards", by_shard);
    Ok(total)
}

fn add_numbers(total: &mut Document, part: &Document, but: &[&str]) {
    for (field, value) in part {
        if but.contains(&field.as_str()) {
            continue;
        }
        if matches!(value, Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_)) {
            total.insert(field, number(total, field) + number(part, field));
        }
    }
}

async fn lock_exclusive(
    op: &MongosCommand,
    namespace: &Namespace,
) -> Result<tokio::sync::OwnedRwLockWriteGuard<()>, Fault> {
    op.cluster().lock_exclusive(namespace, op.deadline).await
}

/// All shards except one.
fn others(op: &MongosCommand, but: &str) -> BTreeSet<String> {
    let names = op.cluster().shards().iter().map(|shard| shard.name.clone());
    names.filter(|name| name != but).collect()
}

fn commands(shards: &BTreeSet<String>, body: &Document) -> Vec<(String, Document)> {
    shards.iter().map(|shard| (shard.clone(), body.clone())).collect()
}

fn ignore_code(answer: Result<Document, Fault>, code: Code) -> Result<(), Fault> {
    match answer {
        Err(fault) if fault.code != code => Err(fault),
        Ok(_) | Err(_) => Ok(()),
    }
}
