//! `aggregate`: shards run the leading `$match` stages, the `mongos` runs the rest on the merged
//! documents.

use std::{collections::BTreeMap, sync::Arc};

use bson::{Bson, Document, doc};
use steadfast_query::{Code, Collation, Collections, Fault, Pipeline};

use super::{
    catalog::{Catalog, ViewDefinition},
    config,
    cursors::{run_and_register, unsupported_over_shards},
    operation::{MongosCommand, ShardCommandPurpose},
    reads::{concerned, number, without_orphans},
    streams,
    writes::reject_catalog_write,
};
use crate::{command::opens_change_stream, cursor::FIRST_BATCH, namespace::Namespace};

/// Stages that read server state instead of documents.
const SERVER_STAGES: &[&str] = &[
    "$currentOp",
    "$listSessions",
    "$listLocalSessions",
    "$planCacheStats",
    "$changeStream",
    "$search",
    "$searchMeta",
    "$vectorSearch",
    "$geoNear",
];

/// Runs `aggregate`.
pub(super) async fn aggregate(op: &MongosCommand) -> Result<Document, Fault> {
    let stages = stages(&op.call.body)?;
    if opens_change_stream(&op.call.body) {
        return streams::open(op).await;
    }
    let Some(Bson::String(_)) = op.call.body.get("aggregate") else {
        return whole_database(op, &stages).await;
    };
    let namespace = op.namespace()?;
    let _passed = op.lock_shared(&namespace).await?;
    let catalog = op.catalog();
    let plan = PipelinePlan::of(&catalog, &namespace, stages)?;
    if let Some(shard) = plan.single_shard(op, &catalog) {
        let body = op.call.body.clone();
        return run_and_register(
            op,
            &shard,
            &without_orphans_stage(&catalog, &namespace, &shard, body),
        )
        .await;
    }
    let documents = run(op, &catalog, &plan).await?;
    finish(op, &namespace, documents)
}

/// Runs `aggregate: 1`: on cluster state, or on documents that the pipeline itself creates.
async fn whole_database(op: &MongosCommand, stages: &[Document]) -> Result<Document, Fault> {
    let catalog = op.catalog();
    let touches = used_namespaces(&op.call.database, stages);
    if touches.iter().any(|namespace| is_on_other_shard(&catalog, op, namespace)) {
        return Err(unsupported_over_shards("such a pipeline without a collection"));
    }
    run_and_register(op, &op.primary_shard(&catalog), &op.call.body).await
}

/// A pipeline and its input.
#[derive(Debug)]
struct PipelinePlan {
    /// Source collection. Views are resolved.
    namespace: Namespace,
    stages: Vec<Document>,
    collation: Option<Document>,
}

impl PipelinePlan {
    fn of(catalog: &Catalog, namespace: &Namespace, stages: Vec<Document>) -> Result<Self, Fault> {
        let mut plan = Self { namespace: namespace.clone(), stages, collation: None };
        // A view on an unsharded collection is resolved by its shard.
        if let Some(view) = sharded_view(catalog, namespace) {
            plan.stages.splice(0..0, view.pipeline);
            plan.namespace = view.on;
            plan.collation = view.collation;
        }
        if plan.stages.len() > 1000 {
            return Err(Fault::location(
                7_749_501,
                "Pipeline length must be no longer than 1000 stages",
            ));
        }
        Ok(plan)
    }

    /// The shard that can run the whole pipeline, if it has all collections that the pipeline reads
    /// and writes.
    fn single_shard(&self, op: &MongosCommand, catalog: &Catalog) -> Option<String> {
        if Namespace::new(&op.call.database, op.call.body.get_str("aggregate").ok()?)
            != self.namespace
            || config::is_catalog_collection(&self.namespace)
        {
            return None;
        }
        let shard = match catalog.collections.get(&self.namespace) {
            None => op.primary_shard(catalog),
            Some(sharded) => {
                let shards = concerned(op, sharded, leading_match(&self.stages).first().copied());
                let only = shards.first().filter(|_| shards.len() == 1)?;
                only.clone()
            }
        };
        let apart = |namespace: &Namespace| {
            config::is_catalog_collection(namespace)
                || catalog.collections.contains_key(namespace)
                || sharded_view(catalog, namespace).is_some()
                || catalog.primary(&namespace.database).is_some_and(|primary| primary != shard)
        };
        let others = used_namespaces(&op.call.database, &self.stages);
        (!others.iter().any(apart)).then_some(shard)
    }
}

/// Runs a pipeline on the `mongos`.
async fn run(
    op: &MongosCommand,
    catalog: &Catalog,
    plan: &PipelinePlan,
) -> Result<Vec<Document>, Fault> {
    let first = plan.stages.first().and_then(|stage| stage.keys().next()).map_or("", |it| it);
    if SERVER_STAGES.contains(&first) {
        return Err(unsupported_over_shards(first));
    }
    let (documents, rest) = if matches!(first, "$collStats" | "$indexStats") {
        (results_of_shards(op, catalog, plan).await?, &plan.stages[1..])
    } else {
        let matches = leading_match(&plan.stages);
        let filter = match matches.as_slice() {
            [] => Document::new(),
            [only] => (*only).clone(),
            multi_document => {
                doc! { "$and": multi_document.iter().map(|it| (*it).clone()).collect::<Vec<_>>() }
            }
        };
        (fetch_all(op, catalog, &plan.namespace, &filter).await?, &plan.stages[matches.len()..])
    };
    let mut others = FetchedCollections::default();
    let mut passed = Vec::new();
    for namespace in used_namespaces(&op.call.database, read_only(rest)) {
        if namespace != plan.namespace && !others.0.contains_key(&namespace) {
            passed.push(op.lock_shared(&namespace).await?);
        }
        let documents = fetch_all(op, catalog, &namespace, &Document::new()).await?;
        others.0.insert(namespace, documents.into_iter().map(Arc::new).collect());
    }
    let made = {
        let mut env = op.environment(catalog.collections.get(&plan.namespace))?;
        if let (Some(collation), None) = (&plan.collation, op.call.body.get("collation")) {
            env.collation = Collation::parse(collation)?;
        }
        let pipeline = Pipeline::parse(rest, &op.call.database, &env)?;
        pipeline.run(documents.into_iter().map(Arc::new).collect(), &others, &env)?
    };
    match rest.last() {
        Some(last) if read_only(rest).len() < rest.len() => {
            write_output(op, catalog, last, made).await
        }
        Some(_) | None => Ok(made),
    }
}

/// The stages before `$out` or `$merge`.
fn read_only(stages: &[Document]) -> &[Document] {
    match stages.split_last() {
        Some((last, rest)) if last.contains_key("$out") || last.contains_key("$merge") => rest,
        Some(_) | None => stages,
    }
}

/// Writes the result of a pipeline into an unsharded collection, by a pipeline on its shard.
async fn write_output(
    op: &MongosCommand,
    catalog: &Catalog,
    last: &Document,
    documents: Vec<Document>,
) -> Result<Vec<Document>, Fault> {
    let target = used_namespaces(&op.call.database, std::slice::from_ref(last)).into_iter().next();
    let target = target.ok_or_else(|| Fault::failed_to_parse("no collection to write to"))?;
    reject_catalog_write(&target)?;
    if catalog.collections.contains_key(&target) {
        return Err(unsupported_over_shards("$out or $merge into a sharded collection"));
    }
    let primary_shard = op.cluster().database(&target.database)?;
    let body = doc! {
        "aggregate": 1,
        // `$literal` keeps strings that look like field paths.
        "pipeline": [{ "$documents": { "$literal": documents } }, last.clone()],
        "cursor": {},
    };
    op.run_on_shard(&primary_shard, &body, ShardCommandPurpose::Execute).await.map(|_| Vec::new())
}

/// Results of a server stage on each shard that has chunks of the collection.
async fn results_of_shards(
    op: &MongosCommand,
    catalog: &Catalog,
    plan: &PipelinePlan,
) -> Result<Vec<Document>, Fault> {
    let shards = match catalog.collections.get(&plan.namespace) {
        Some(sharded) => sharded.shards(),
        None => [op.primary_shard(catalog)].into(),
    };
    let body = doc! {
        "aggregate": &plan.namespace.collection,
        "pipeline": [plan.stages[0].clone()],
        "cursor": {},
        "$db": &plan.namespace.database,
    };
    let commands = shards.into_iter().map(|shard| (shard, body.clone())).collect();
    let gathered = op.gather(commands, ShardCommandPurpose::Execute, false).await?;
    let shown = gathered.found.into_iter().flat_map(|(shard, documents)| {
        documents.into_iter().map(move |mut document| {
            document.insert("shard", &shard);
            document
        })
    });
    Ok(shown.collect())
}

/// All matching documents of a collection, from all shards.
async fn fetch_all(
    op: &MongosCommand,
    catalog: &Catalog,
    namespace: &Namespace,
    filter: &Document,
) -> Result<Vec<Document>, Fault> {
    if config::is_catalog_collection(namespace) {
        let documents = config::documents(op.cluster(), namespace);
        let env = op.environment(None)?;
        let filter = steadfast_query::Filter::parse(filter, &env)?;
        let mut kept = Vec::new();
        for document in documents {
            if filter.matches(&document, &env)? {
                kept.push(document);
            }
        }
        return Ok(kept);
    }
    if sharded_view(catalog, namespace).is_some() {
        return Err(unsupported_over_shards("a view on a sharded collection within a pipeline"));
    }
    let mut body = doc! {
        "aggregate": &namespace.collection,
        "pipeline": [{ "$match": filter.clone() }],
        "cursor": {},
        "$db": &namespace.database,
    };
    for field in ["collation", "let", "hint", "comment"] {
        if let Some(value) = op.call.body.get(field) {
            body.insert(field, value.clone());
        }
    }
    let commands = match catalog.collections.get(namespace) {
        None => {
            let primary_shard = catalog.primary(&namespace.database).map(str::to_owned);
            vec![(primary_shard.unwrap_or_else(|| op.primary_shard(catalog)), body)]
        }
        Some(sharded) => concerned(op, sharded, Some(filter))
            .into_iter()
            .map(|shard| {
                let body = without_orphans_stage(catalog, namespace, &shard, body.clone());
                (shard, body)
            })
            .collect(),
    };
    Ok(op.gather(commands, ShardCommandPurpose::Execute, false).await?.documents())
}

fn finish(
    op: &MongosCommand,
    namespace: &Namespace,
    documents: Vec<Document>,
) -> Result<Document, Fault> {
    let cursor = op.call.body.get_document("cursor").ok();
    let batch_size = cursor
        .filter(|cursor| cursor.contains_key("batchSize"))
        .and_then(|cursor| usize::try_from(number(cursor, "batchSize")).ok());
    op.open(namespace, documents, batch_size.unwrap_or(FIRST_BATCH), false)
}

/// Runs `find` on a view over a sharded collection.
pub(super) async fn find_in_view(
    op: &MongosCommand,
    namespace: &Namespace,
    view: &ViewDefinition,
) -> Result<Document, Fault> {
    let body = &op.call.body;
    let mut stages = Vec::new();
    let mut add = |field: &str, stage: &str| {
        if let Some(value) = body.get(field)
            && !matches!(value, Bson::Document(it) if it.is_empty())
            && !matches!(value, Bson::Int32(0) | Bson::Int64(0))
        {
            stages.push(doc! { stage: value.clone() });
        }
    };
    add("filter", "$match");
    add("sort", "$sort");
    add("skip", "$skip");
    add("limit", "$limit");
    add("projection", "$project");
    let documents = through_view(op, view, stages).await?;
    let batch_size = body.get("batchSize").map(|_| number(body, "batchSize"));
    let batch_size = batch_size.and_then(|it| usize::try_from(it).ok()).unwrap_or(FIRST_BATCH);
    op.open(namespace, documents, batch_size, body.get_bool("singleBatch").unwrap_or(false))
}

/// Runs `count` on a view over a sharded collection.
pub(super) async fn count_in_view(
    op: &MongosCommand,
    _namespace: &Namespace,
    view: &ViewDefinition,
) -> Result<Document, Fault> {
    let mut stages = Vec::new();
    if let Ok(query) = op.call.body.get_document("query") {
        stages.push(doc! { "$match": query.clone() });
    }
    let documents = through_view(op, view, stages).await?;
    Ok(doc! { "n": i32::try_from(documents.len()).unwrap_or(i32::MAX) })
}

async fn through_view(
    op: &MongosCommand,
    view: &ViewDefinition,
    more: Vec<Document>,
) -> Result<Vec<Document>, Fault> {
    let catalog = op.catalog();
    let _passed = op.lock_shared(&view.on).await?;
    let stages = view.pipeline.iter().cloned().chain(more).collect();
    let plan =
        PipelinePlan { namespace: view.on.clone(), stages, collation: view.collation.clone() };
    run(op, &catalog, &plan).await
}

/// Resolves a view, if its source is a sharded collection.
pub(super) fn sharded_view(catalog: &Catalog, namespace: &Namespace) -> Option<ViewDefinition> {
    let mut view = catalog.views.get(namespace)?.clone();
    // Nested views, up to the maximum depth.
    for _ in 0..20 {
        if catalog.collections.contains_key(&view.on) {
            return Some(view);
        }
        let below = catalog.views.get(&view.on)?;
        view.pipeline.splice(0..0, below.pipeline.iter().cloned());
        view.on = below.on.clone();
    }
    None
}

/// Filters of the leading `$match` stages.
fn leading_match(stages: &[Document]) -> Vec<&Document> {
    stages.iter().map_while(|stage| stage.get_document("$match").ok()).collect()
}

/// Namespaces that stages read besides their input, and those that they write.
fn used_namespaces(database: &str, stages: &[Document]) -> Vec<Namespace> {
    let mut found = Vec::new();
    for (name, value) in stages.iter().flatten() {
        add_used_namespaces(database, name, value, &mut found);
    }
    found
}

fn add_used_namespaces(database: &str, name: &str, value: &Bson, found: &mut Vec<Namespace>) {
    let named = |value: Option<&Bson>| match value {
        Some(Bson::String(collection)) => Some(Namespace::new(database, collection)),
        Some(Bson::Document(it)) => {
            Some(Namespace::new(it.get_str("db").unwrap_or(database), it.get_str("coll").ok()?))
        }
        _ => None,
    };
    let inner = |pipeline: Option<&Bson>| -> Vec<Namespace> {
        let stages = pipeline.and_then(Bson::as_array).map(Vec::as_slice).unwrap_or_default();
        let stages: Vec<Document> = stages.iter().filter_map(Bson::as_document).cloned().collect();
        used_namespaces(database, &stages)
    };
    match (name, value) {
        ("$lookup" | "$graphLookup", Bson::Document(it)) => {
            found.extend(named(it.get("from")));
            found.extend(inner(it.get("pipeline")));
        }
        ("$unionWith", Bson::Document(it)) => {
            found.extend(named(it.get("coll")));
            found.extend(inner(it.get("pipeline")));
        }
        ("$unionWith" | "$out", value) => found.extend(named(Some(value))),
        ("$merge", Bson::Document(it)) => found.extend(named(it.get("into"))),
        ("$merge", value) => found.extend(named(Some(value))),
        ("$facet", Bson::Document(facets)) => {
            for pipeline in facets.iter().map(|(_, pipeline)| pipeline) {
                found.extend(inner(Some(pipeline)));
            }
        }
        _ => {}
    }
}

fn is_on_other_shard(catalog: &Catalog, op: &MongosCommand, namespace: &Namespace) -> bool {
    catalog.collections.contains_key(namespace)
        || catalog.primary(&namespace.database).is_some_and(|it| it != op.primary_shard(catalog))
}

/// Adds a filter that excludes the orphaned documents of a shard.
fn without_orphans_stage(
    catalog: &Catalog,
    namespace: &Namespace,
    shard: &str,
    mut body: Document,
) -> Document {
    let only = without_orphans(catalog, namespace, shard, Document::new(), "$match");
    if let (false, Ok(stages)) = (only.is_empty(), body.get_array_mut("pipeline")) {
        stages.insert(0, Bson::Document(only));
    }
    body
}

fn stages(body: &Document) -> Result<Vec<Document>, Fault> {
    let wrong = || Fault::type_mismatch("'pipeline' option must be specified as an array");
    let stages = body.get_array("pipeline").map_err(|_| wrong())?;
    stages
        .iter()
        .map(|stage| match stage {
            Bson::Document(stage) => Ok(stage.clone()),
            _ => Err(Fault::new(
                Code::TYPE_MISMATCH,
                "Each element of the 'pipeline' array must be an object",
            )),
        })
        .collect()
}

/// Collections that were read from shards for `$lookup` and similar stages.
#[derive(Debug, Default)]
struct FetchedCollections(BTreeMap<Namespace, Vec<Arc<Document>>>);

impl Collections for FetchedCollections {
    fn documents(&self, database: &str, collection: &str) -> Vec<Arc<Document>> {
        self.0.get(&Namespace::new(database, collection)).cloned().unwrap_or_default()
    }
}
