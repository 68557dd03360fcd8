//! Reads on a `mongos`: targeted by their filter and merged.

use std::collections::BTreeSet;

use bson::{Bson, Document, doc};
use steadfast_query::{Code, Environment, Fault, Filter, Projection, Sort, value::compare};

use super::{
    aggregate,
    catalog::{Catalog, ShardedCollection},
    config,
    cursors::run_and_register,
    operation::{MongosCommand, ShardCommandPurpose},
    target,
};
use crate::{cursor::FIRST_BATCH, namespace::Namespace};

/// Runs `find`.
pub(super) async fn find(op: &MongosCommand) -> Result<Document, Fault> {
    let namespace = op.namespace()?;
    if config::is_catalog_collection(&namespace) {
        let documents = found(config::documents(op.cluster(), &namespace), &op.call.body, op)?;
        return open(op, &namespace, documents);
    }
    let _passed = op.lock_shared(&namespace).await?;
    let catalog = op.catalog();
    if let Some(view) = aggregate::sharded_view(&catalog, &namespace) {
        return aggregate::find_in_view(op, &namespace, &view).await;
    }
    let Some(sharded) = catalog.collections.get(&namespace) else {
        return run_and_register(op, &op.primary_shard(&catalog), &op.call.body).await;
    };
    let body = op.call.body.clone();
    let shards = concerned(op, sharded, body.get_document("filter").ok());
    if let (Some(only), 1) = (shards.first(), shards.len()) {
        let body = without_orphans(&catalog, &namespace, only, body, "filter");
        return run_and_register(op, only, &body).await;
    }
    let partial = body.get_bool("allowPartialResults").unwrap_or(false);
    let (documents, is_partial) = merged_find(op, &catalog, &namespace, &shards, partial).await?;
    let mut reply = open(op, &namespace, documents)?;
    if let (true, Ok(cursor)) = (is_partial, reply.get_document_mut("cursor")) {
        cursor.insert("partialResultsReturned", true);
    }
    Ok(reply)
}

/// Sorted documents of a `find` on several shards.
async fn merged_find(
    op: &MongosCommand,
    catalog: &Catalog,
    namespace: &Namespace,
    shards: &BTreeSet<String>,
    partial: bool,
) -> Result<(Vec<Document>, bool), Fault> {
    let mut body = op.arguments();
    reject_unsupported(&body, &["tailable", "awaitData"], "a cursor that waits for documents")?;
    let sorted = body.get_document("sort").is_ok_and(|sort| !sort.is_empty());
    let skip = number(&body, "skip");
    let limit = number(&body, "limit");
    for field in ["skip", "limit", "singleBatch", "allowPartialResults"] {
        body.remove(field);
    }
    if limit > 0 {
        body.insert("limit", limit.saturating_add(skip));
    }
    if sorted {
        // Projection comes last, because documents are sorted by their original fields.
        reject_unsupported(
            &body,
            &["returnKey", "showRecordId"],
            "with a sort over several shards",
        )?;
        body.remove("projection");
    }
    let commands = shards
        .iter()
        .map(|shard| {
            let body = without_orphans(catalog, namespace, shard, body.clone(), "filter");
            (shard.clone(), body)
        })
        .collect();
    let gathered = op.gather(commands, ShardCommandPurpose::Execute, partial).await?;
    let is_partial = gathered.partial;
    let mut documents = gathered.documents();
    let sharded = catalog.collections.get(namespace);
    let env = op.environment(sharded)?;
    if sorted {
        documents = ordered(documents, &op.call.body, &env)?;
    }
    let mut documents = window(documents, skip, limit);
    if sorted {
        documents = projected(documents, &op.call.body, &env)?;
    }
    Ok((documents, is_partial))
}

/// Runs `count`.
pub(super) async fn count(op: &MongosCommand) -> Result<Document, Fault> {
    let namespace = op.namespace()?;
    if config::is_catalog_collection(&namespace) {
        let documents = config::documents(op.cluster(), &namespace);
        let env = op.environment(None)?;
        let documents = matching(documents, op.call.body.get_document("query").ok(), &env)?;
        let counted = window(documents, skip_of(op), limit_of(op)).len();
        return Ok(doc! { "n": i32::try_from(counted).unwrap_or(i32::MAX) });
    }
    let _passed = op.lock_shared(&namespace).await?;
    let catalog = op.catalog();
    if let Some(view) = aggregate::sharded_view(&catalog, &namespace) {
        return aggregate::count_in_view(op, &namespace, &view).await;
    }
    let Some(sharded) = catalog.collections.get(&namespace) else {
        return op.forward(&op.primary_shard(&catalog)).await;
    };
    let mut body = op.arguments();
    let shards = concerned(op, sharded, body.get_document("query").ok());
    if shards.len() > 1 {
        body.remove("skip");
        body.remove("limit");
    }
    let commands = commands(&catalog, &namespace, &shards, &body, "query");
    let mut total = 0;
    for (_, answer) in op.run_on_shards(commands, ShardCommandPurpose::Execute).await? {
        total += number(&answer?, "n");
    }
    if shards.len() > 1 {
        total = total.saturating_sub(skip_of(op)).max(0);
        let limit = limit_of(op);
        total = if limit > 0 { total.min(limit) } else { total };
    }
    Ok(doc! { "n": i32::try_from(total).map_or(Bson::Int64(total), Bson::Int32) })
}

fn skip_of(op: &MongosCommand) -> i64 {
    number(&op.call.body, "skip")
}

/// A negative limit means the same as the positive one.
fn limit_of(op: &MongosCommand) -> i64 {
    number(&op.call.body, "limit").saturating_abs()
}

/// Runs `distinct`.
pub(super) async fn distinct(op: &MongosCommand) -> Result<Document, Fault> {
    let namespace = op.namespace()?;
    if config::is_catalog_collection(&namespace) {
        return Err(Fault::new(
            Code::COMMAND_NOT_SUPPORTED,
            format!("distinct is not known for {namespace}; aggregate is"),
        ));
    }
    let _passed = op.lock_shared(&namespace).await?;
    let catalog = op.catalog();
    if aggregate::sharded_view(&catalog, &namespace).is_some() {
        return Err(Fault::new(
            Code::COMMAND_NOT_SUPPORTED_ON_VIEW,
            format!("distinct is not known for the view {namespace} on a sharded collection"),
        ));
    }
    let Some(sharded) = catalog.collections.get(&namespace) else {
        return op.forward(&op.primary_shard(&catalog)).await;
    };
    let body = op.arguments();
    let shards = concerned(op, sharded, body.get_document("query").ok());
    let commands = commands(&catalog, &namespace, &shards, &body, "query");
    let mut values: Vec<Bson> = Vec::new();
    for (_, answer) in op.run_on_shards(commands, ShardCommandPurpose::Execute).await? {
        if let Some(Bson::Array(found)) = answer?.remove("values") {
            values.extend(found);
        }
    }
    let collation = op.environment(Some(sharded))?.collation;
    values.sort_by(|left, right| compare(left, right, &collation));
    values.dedup_by(|left, right| compare(left, right, &collation).is_eq());
    Ok(doc! { "values": values })
}

/// Runs `explain` on each targeted shard.
pub(super) async fn explain(op: &MongosCommand) -> Result<Document, Fault> {
    let Ok(explained) = op.call.body.get_document("explain") else {
        return op.forward(&op.primary_shard(&op.catalog())).await;
    };
    let name = explained.iter().next().and_then(|(_, value)| value.as_str()).unwrap_or_default();
    let namespace = Namespace::new(&op.call.database, name);
    let catalog = op.catalog();
    let Some(sharded) = catalog.collections.get(&namespace) else {
        return op.forward(&op.primary_shard(&catalog)).await;
    };
    let filter = explained.get_document("filter").or_else(|_| explained.get_document("query"));
    let shards = concerned(op, sharded, filter.ok());
    let stage = if shards.len() == 1 { "SINGLE_SHARD" } else { "SHARD_MERGE" };
    let mut plans = Vec::new();
    for (shard, reply) in
        op.run_on_each(&shards, &op.arguments(), ShardCommandPurpose::Execute).await?
    {
        let host = op.cluster().shard(&shard)?.host();
        let mut plan = doc! { "shardName": shard, "connectionString": host };
        if let Ok(planner) = reply.get_document("queryPlanner") {
            plan.extend(planner.clone());
        }
        plans.push(plan);
    }
    Ok(doc! {
        "queryPlanner": { "winningPlan": { "stage": stage, "shards": plans } },
        "command": explained.clone(),
    })
}

/// Shards that a filter targets.
pub(super) fn concerned(
    op: &MongosCommand,
    sharded: &ShardedCollection,
    filter: Option<&Document>,
) -> BTreeSet<String> {
    let simple = is_simple(op.call.body.get_document("collation").ok(), sharded);
    target::shards(sharded, filter.unwrap_or(&Document::new()), simple)
}

/// Returns `true` for the simple collation.
pub(super) fn is_simple(collation: Option<&Document>, sharded: &ShardedCollection) -> bool {
    match collation.or(sharded.collation.as_ref()) {
        None => true,
        Some(collation) => collation.get_str("locale").is_ok_and(|it| it == "simple"),
    }
}

/// The command for each shard, with a filter that excludes orphaned documents.
fn commands(
    catalog: &Catalog,
    namespace: &Namespace,
    shards: &BTreeSet<String>,
    body: &Document,
    filter: &str,
) -> Vec<(String, Document)> {
    let one = |shard: &String| {
        (shard.clone(), without_orphans(catalog, namespace, shard, body.clone(), filter))
    };
    shards.iter().map(one).collect()
}

/// Adds a filter that excludes the orphaned documents of a shard.
pub(super) fn without_orphans(
    catalog: &Catalog,
    namespace: &Namespace,
    shard: &str,
    mut body: Document,
    field: &str,
) -> Document {
    let Some(orphans) = catalog.orphans.get(&(namespace.clone(), shard.to_owned())) else {
        return body;
    };
    let filter = body.get_document(field).cloned().unwrap_or_default();
    body.insert(field, doc! { "$and": [filter, { "_id": { "$nin": orphans.clone() } }] });
    body
}

/// Filters, sorts, cuts and projects documents like `find`.
fn found(
    documents: Vec<Document>,
    body: &Document,
    op: &MongosCommand,
) -> Result<Vec<Document>, Fault> {
    let env = op.environment(None)?;
    let documents = matching(documents, body.get_document("filter").ok(), &env)?;
    let documents = ordered(documents, body, &env)?;
    projected(window(documents, number(body, "skip"), number(body, "limit")), body, &env)
}

fn matching(
    documents: Vec<Document>,
    filter: Option<&Document>,
    env: &Environment,
) -> Result<Vec<Document>, Fault> {
    let filter = Filter::parse(filter.unwrap_or(&Document::new()), env)?;
    let mut kept = Vec::new();
    for document in documents {
        if filter.matches(&document, env)? {
            kept.push(document);
        }
    }
    Ok(kept)
}

fn ordered(
    documents: Vec<Document>,
    body: &Document,
    env: &Environment,
) -> Result<Vec<Document>, Fault> {
    let Ok(sort) = body.get_document("sort") else { return Ok(documents) };
    if sort.is_empty() {
        return Ok(documents);
    }
    let sort = Sort::parse(sort)?;
    let mut documents: Vec<std::sync::Arc<Document>> =
        documents.into_iter().map(std::sync::Arc::new).collect();
    sort.try_sort(&mut documents, env)?;
    Ok(documents.into_iter().map(std::sync::Arc::unwrap_or_clone).collect())
}

fn projected(
    documents: Vec<Document>,
    body: &Document,
    env: &Environment,
) -> Result<Vec<Document>, Fault> {
    let Ok(projection) = body.get_document("projection") else { return Ok(documents) };
    if projection.is_empty() {
        return Ok(documents);
    }
    let empty = Document::new();
    let filter = Filter::parse(body.get_document("filter").unwrap_or(&empty), env)?;
    let projection = Projection::parse(projection, env)?;
    documents.iter().map(|document| projection.apply(document, &filter, env)).collect()
}

/// Applies `skip` and `limit`. A limit of 0 is none.
fn window(documents: Vec<Document>, skip: i64, limit: i64) -> Vec<Document> {
    let skip = usize::try_from(skip).unwrap_or(0);
    let limit = usize::try_from(limit).ok().filter(|limit| *limit > 0).unwrap_or(usize::MAX);
    documents.into_iter().skip(skip).take(limit).collect()
}

fn open(
    op: &MongosCommand,
    namespace: &Namespace,
    documents: Vec<Document>,
) -> Result<Document, Fault> {
    let body = &op.call.body;
    let batch_size = match body.get("batchSize") {
        None => FIRST_BATCH,
        Some(_) => usize::try_from(number(body, "batchSize")).unwrap_or(FIRST_BATCH),
    };
    let single = body.get_bool("singleBatch").unwrap_or(false);
    op.open(namespace, documents, batch_size, single)
}

/// Number in a field of a command. 0 if it is missing.
pub(super) fn number(body: &Document, field: &str) -> i64 {
    match body.get(field) {
        Some(Bson::Int32(number)) => i64::from(*number),
        Some(Bson::Int64(number)) => *number,
        #[expect(clippy::cast_possible_truncation)] // saturates, as on a server
        Some(Bson::Double(number)) => *number as i64,
        _ => 0,
    }
}

/// Rejects arguments that are not supported over several shards.
fn reject_unsupported(body: &Document, fields: &[&str], why: &str) -> Result<(), Fault> {
    for field in fields {
        if body.get_bool(field).unwrap_or(false) {
            return Err(Fault::new(
                Code::COMMAND_NOT_SUPPORTED,
                format!("{field} is not known on a sharded collection: {why}"),
            ));
        }
    }
    Ok(())
}
