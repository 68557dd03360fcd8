//! Commands that create, drop, list and measure collections and indexes.

use std::collections::BTreeSet;

use bson::{Bson, Document, doc};
use steadfast_query::{Code, Fault};

use super::{
    catalog::View,
    config,
    cursors::{list, remember},
    operation::{Operation, Purpose},
    reads::number,
    shard::is_absence,
    writes::refuse_config,
};
use crate::namespace::Namespace;

/// Runs `create`.
pub(super) async fn create(op: &Operation) -> Result<Document, Fault> {
    let namespace = op.namespace()?;
    refuse_config(&namespace)?;
    let _passed = op.pass(&namespace).await?;
    let home = op.cluster().database(&namespace.database)?;
    let mut reply = op.forward(&home).await?;
    // Shards use their own write concern.
    reply.remove("writeConcernError");
    if let Ok(on) = op.call.body.get_str("viewOn") {
        let pipeline = op.call.body.get_array("pipeline").map(Vec::as_slice).unwrap_or_default();
        let view = View {
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
pub(super) async fn drop_collection(op: &Operation) -> Result<Document, Fault> {
    let namespace = op.namespace()?;
    refuse_config(&namespace)?;
    let _alone = alone(op, &namespace).await?;
    let catalog = op.catalog();
    let home = op.home(&catalog);
    let sharded = catalog.collections.contains_key(&namespace);
    let reply = op.forward(&home).await;
    if sharded {
        let others = others(op, &home);
        for (_, answer) in op.ask_all(questions(&others, &op.call.body), Purpose::Repeat).await? {
            forgive(answer, Code::NAMESPACE_NOT_FOUND)?;
        }
    }
    op.cluster().change(|catalog| {
        catalog.drop_collection(&namespace);
        Ok(())
    })?;
    reply.map(|_| Document::new())
}

/// Runs `dropDatabase`.
pub(super) async fn drop_database(op: &Operation) -> Result<Document, Fault> {
    let database = op.call.database.clone();
    if matches!(database.as_str(), "admin" | "config") {
        return Err(Fault::new(
            Code::ILLEGAL_OPERATION,
            format!("Cannot drop '{database}' database while in a cluster"),
        ));
    }
    let home = op.home(&op.catalog());
    let others = others(op, &home);
    for (_, answer) in op.ask_all(questions(&others, &op.call.body), Purpose::Repeat).await? {
        answer?;
    }
    op.forward(&home).await?;
    op.cluster().change(|catalog| {
        catalog.drop_database(&database);
        Ok(())
    })?;
    Ok(Document::new())
}

/// Runs `createIndexes`.
pub(super) async fn create_indexes(op: &Operation) -> Result<Document, Fault> {
    let namespace = op.namespace()?;
    refuse_config(&namespace)?;
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
pub(super) async fn of_collection(op: &Operation) -> Result<Document, Fault> {
    let namespace = op.namespace()?;
    refuse_config(&namespace)?;
    on_collection(op, &namespace).await
}

async fn on_collection(op: &Operation, namespace: &Namespace) -> Result<Document, Fault> {
    let _passed = op.pass(namespace).await?;
    let home = op.cluster().database(&namespace.database)?;
    let catalog = op.catalog();
    let sharded = catalog.collections.get(namespace);
    let owners = sharded.map_or_else(|| BTreeSet::from([home]), |it| it.shards());
    if op.call.name == "collMod" {
        let answers = op.ask_each(&owners, &op.call.body, Purpose::Do).await?;
        if sharded.is_some() {
            let others = others(op, "").difference(&owners).cloned().collect();
            op.ask_each(&others, &op.call.body, Purpose::Repeat).await?;
        }
        return Ok(answers.into_iter().next().map(|(_, answer)| answer).unwrap_or_default());
    }
    let answers = op.ask_all(questions(&owners, &op.call.body), Purpose::Do).await?;
    if sharded.is_some() && answers.iter().all(|(_, answer)| answer.is_ok()) {
        let others = others(op, "").difference(&owners).cloned().collect();
        op.ask_each(&others, &op.call.body, Purpose::Repeat).await?;
    }
    let is_merged = owners.len() == 1 && (sharded.is_none() || op.call.name == "createIndexes");
    of_shards(op, answers, is_merged)
}

/// Reply of an index command, with the replies of shards in `raw`. With `is_merged`, the fields of
/// a single reply are also added at the top level.
fn of_shards(
    op: &Operation,
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
            Err(fault) if is_absence(&fault) => return Err(fault),
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
pub(super) async fn rename(op: &Operation) -> Result<Document, Fault> {
    let named = |field: &str| -> Result<Namespace, Fault> {
        let full = op.call.body.get_str(field).unwrap_or_default();
        let (database, collection) = full.split_once('.').unwrap_or((full, ""));
        Namespace::named(database, collection)
    };
    let (from, to) = (named("renameCollection")?, named("to")?);
    refuse_config(&from)?;
    refuse_config(&to)?;
    let _alone = alone(op, &from).await?;
    let catalog = op.catalog();
    if catalog.collections.contains_key(&to) {
        return Err(Fault::new(
            Code::COMMAND_NOT_SUPPORTED,
            "renameCollection to a sharded collection is not supported by an embedded cluster",
        ));
    }
    let home = catalog.primary(&from.database).map(str::to_owned);
    let Some(home) = home else {
        return Err(Fault::new(
            Code::NAMESPACE_NOT_FOUND,
            format!("Source collection {from} does not exist"),
        ));
    };
    if op.cluster().database(&to.database)? != home {
        return Err(Fault::new(
            Code::COMMAND_NOT_SUPPORTED,
            "Source and destination collections must be on the same shard",
        ));
    }
    let reply = op.forward(&home).await?;
    if catalog.collections.contains_key(&from) {
        let others = others(op, &home);
        op.ask_each(&others, &op.call.body, Purpose::Repeat).await?;
        op.cluster().change(|catalog| {
            catalog.rename_collection(&from, &to);
            Ok(())
        })?;
    }
    Ok(reply)
}

/// Runs a command that is supported for unsharded collections only.
pub(super) async fn if_unsharded(op: &Operation) -> Result<Document, Fault> {
    let catalog = op.catalog();
    if op.namespace().is_ok_and(|it| catalog.collections.contains_key(&it)) {
        return Err(super::cursors::refused(&op.call.name));
    }
    op.forward(&op.home(&catalog)).await
}

/// Runs `listCollections` or `listIndexes` on the primary shard of the database.
pub(super) async fn from_home(op: &Operation) -> Result<Document, Fault> {
    if op.call.name == "listCollections" && op.call.database == "config" {
        let names = config::COLLECTIONS
            .iter()
            .map(|name| {
                doc! { "name": *name, "type": "collection", "options": {}, "info": { "readOnly": false } }
            })
            .collect();
        return Ok(list("config.$cmd.listCollections", names));
    }
    remember(op, &op.home(&op.catalog()), &op.call.body).await
}

/// Runs `listDatabases` on all shards and merges the lists.
pub(super) async fn list_databases(op: &Operation) -> Result<Document, Fault> {
    let everywhere = others(op, "");
    let mut body = op.arguments();
    body.remove("nameOnly");
    let mut found: std::collections::BTreeMap<String, (i64, Document)> = Default::default();
    for (shard, mut reply) in op.ask_each(&everywhere, &body, Purpose::Do).await? {
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
pub(super) async fn database_statistics(op: &Operation) -> Result<Document, Fault> {
    let everywhere = others(op, "");
    let mut raw = Document::new();
    let mut total = doc! { "db": &op.call.database };
    for (shard, answer) in op.ask_each(&everywhere, &op.arguments(), Purpose::Do).await? {
        add_numbers(&mut total, &answer, &["ok", "avgObjSize", "scaleFactor"]);
        raw.insert(op.cluster().shard(&shard)?.host(), answer);
    }
    total.insert("raw", raw);
    Ok(total)
}

/// Runs `collStats` and adds up the statistics of the shards that have the collection.
pub(super) async fn collection_statistics(op: &Operation) -> Result<Document, Fault> {
    let namespace = op.namespace()?;
    let _passed = op.pass(&namespace).await?;
    let catalog = op.catalog();
    let sharded = catalog.collections.get(&namespace);
    let shards = match sharded {
        Some(sharded) => sharded.shards(),
        None => BTreeSet::from([op.home(&catalog)]),
    };
    let mut total = doc! { "sharded": sharded.is_some(), "ns": namespace.to_string() };
    let mut by_shard = Document::new();
    for (shard, answer) in op.ask_each(&shards, &op.arguments(), Purpose::Do).await? {
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

async fn alone(
    op: &Operation,
    namespace: &Namespace,
) -> Result<tokio::sync::OwnedRwLockWriteGuard<()>, Fault> {
    op.cluster().pass_alone(namespace, op.deadline).await
}

/// All shards except one.
fn others(op: &Operation, but: &str) -> BTreeSet<String> {
    let names = op.cluster().shards().iter().map(|shard| shard.name.clone());
    names.filter(|name| name != but).collect()
}

fn questions(shards: &BTreeSet<String>, body: &Document) -> Vec<(String, Document)> {
    shards.iter().map(|shard| (shard.clone(), body.clone())).collect()
}

fn forgive(answer: Result<Document, Fault>, code: Code) -> Result<(), Fault> {
    match answer {
        Err(fault) if fault.code != code => Err(fault),
        Ok(_) | Err(_) => Ok(()),
    }
}
