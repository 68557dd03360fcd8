//! Stages that must be the first of a pipeline and read no documents: `$collStats`, `$indexStats`,
//! `$currentOp`, `$listSessions` and others.

use bson::{Binary, Bson, DateTime, Document, doc, spec::BinarySubtype};
use steadfast_query::{Code, Environment, Fault};

use super::{
    super::{
        call::Call,
        namespace::Namespace,
        oplog::SessionId,
        store::{Collection, Store},
    },
    ServerInfo,
    aggregate::{AggregateCommand, stage_name, with_running_prefix},
    arguments::{Arguments, truth},
    count::number,
    listing::is_a_view,
    statistics,
};

/// Runs the first stage if it is one of these. Elsewhere they are rejected.
pub(super) fn begin(
    request: &AggregateCommand<'_>,
    store: &Store,
    env: &Environment,
    server_info: &ServerInfo,
) -> Result<Option<Vec<Document>>, Fault> {
    check_positions(request)?;
    let Some(first) = request.stages.first() else { return Ok(None) };
    let collection = store.collection(&request.namespace);
    if collection.is_some_and(Collection::is_view)
        && matches!(stage_name(first), Some("$collStats" | "$indexStats" | "$planCacheStats"))
    {
        return Err(with_running_prefix(is_a_view(&request.namespace)));
    }
    let given = match (stage_name(first), first.values().next()) {
        (Some("$collStats"), Some(options)) => {
            vec![collection_statistics(request, options, collection, env, server_info)?]
        }
        (Some("$indexStats"), Some(options)) => {
            if *options != Bson::Document(Document::new()) {
                return Err(Fault::location(
                    28803,
                    "The $indexStats stage specification must be an empty object",
                ));
            }
            collection.map(|it| index_statistics(it, server_info)).unwrap_or_default()
        }
        // No query plan is cached.
        (Some("$planCacheStats"), Some(_)) => Vec::new(),
        (Some("$listLocalSessions" | "$listSessions"), Some(_)) => sessions(request, store, env),
        // Commands run one after the other, so no operation is in progress.
        (Some("$currentOp"), Some(_)) => Vec::new(),
        _ => return Ok(None),
    };
    Ok(Some(given))
}

/// Rejects stages that the command does not allow.
pub(super) fn check(call: &Call, stages: &[Document]) -> Result<(), Fault> {
    let is_strict = call.body.get("apiStrict").and_then(truth).unwrap_or(false);
    let in_transaction = call.transaction.is_some_and(|it| it.multi_document);
    let level = call.read_concern.level.as_deref();
    for stage in stages {
        let Some(name) = stage_name(stage) else { continue };
        let writes = matches!(name, "$out" | "$merge");
        if is_strict {
            check_stable(name, stage)?;
        }
        if in_transaction && (writes || is_unstable(name) || name == "$collStats") {
            let message = match writes {
                true => format!("{name} cannot be used in a transaction"),
                false => {
                    format!("Stage not supported inside of a multi-document transaction: {name}")
                }
            };
            return Err(Fault::new(Code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION, message));
        }
        if writes && level == Some("linearizable") {
            return Err(Fault::new(
                Code::INVALID_OPTIONS,
                format!(
                    "Command aggregate does not support {{ readConcern: {{ level: \"linearizable\", \
                     provenance: \"clientSupplied\" }} }} :: caused by :: {name} cannot be used with \
                     a 'linearizable' read concern level"
                ),
            ));
        }
    }
    Ok(())
}

/// Rejects stages outside of the stable API.
fn check_stable(name: &str, stage: &Document) -> Result<(), Fault> {
    if is_unstable(name) {
        return Err(Fault::new(
            Code::API_STRICT_ERROR,
            format!("{name} is not allowed with 'apiStrict: true' in API Version 1"),
        ));
    }
    let more_than_count =
        |options: &Document| options.keys().any(|option| option.as_str() != "count");
    if stage.get_document("$collStats").is_ok_and(more_than_count) {
        return Err(Fault::new(
            Code::API_STRICT_ERROR,
            "only the 'count' option to $collStats is supported in API Version 1",
        ));
    }
    Ok(())
}

fn is_unstable(name: &str) -> bool {
    matches!(
        name,
        "$currentOp" | "$indexStats" | "$listLocalSessions" | "$listSessions" | "$planCacheStats"
    )
}

/// Checks the positions of stages that must come first or last.
pub(super) fn check_positions(request: &AggregateCommand<'_>) -> Result<(), Fault> {
    let Namespace { database, collection } = &request.namespace;
    let invalid = |message: String| Err(Fault::new(Code::INVALID_NAMESPACE, message));
    let names: Vec<&str> = request.stages.iter().filter_map(stage_name).collect();
    if let Some(name) = names.iter().skip(1).find(|name| is_first(name)) {
        return Err(Fault::location(
            40602,
            format!("{name} is only valid as the first stage in a pipeline"),
        ));
    }
    match (request.collectionless, names.first().copied()) {
        (true, None) if request.stages.is_empty() => {
            invalid(String::from("{aggregate: 1} is not valid for an empty pipeline."))
        }
        (collectionless, Some("$currentOp")) if !collectionless || database != "admin" => invalid(
            String::from("$currentOp must be run against the 'admin' database with {aggregate: 1}"),
        ),
        (_, Some("$listSessions")) if (database.as_str(), collection.as_str()) != SESSIONS => {
            invalid(String::from("$listSessions may only be run against config.system.sessions"))
        }
        (false, Some(name @ ("$documents" | "$listLocalSessions"))) => {
            invalid(format!("'{name}' can only be run with {{aggregate: 1}}"))
        }
        (true, Some(name))
            if !matches!(
                name,
                "$changeStream" | "$currentOp" | "$documents" | "$listLocalSessions"
            ) =>
        {
            invalid(format!(
                "{{aggregate: 1}} is not valid for '{name}'; a collection is required."
            ))
        }
        (_, _) => Ok(()),
    }
}

/// Namespace of `$listSessions`.
const SESSIONS: (&str, &str) = ("config", "system.sessions");

fn is_first(name: &str) -> bool {
    matches!(
        name,
        "$changeStream"
            | "$collStats"
            | "$currentOp"
            | "$documents"
            | "$indexStats"
            | "$listLocalSessions"
            | "$listSessions"
            | "$planCacheStats"
    )
}

fn collection_statistics(
    request: &AggregateCommand<'_>,
    options: &Bson,
    collection: Option<&Collection>,
    env: &Environment,
    server_info: &ServerInfo,
) -> Result<Document, Fault> {
    let Bson::Document(options) = options else {
        return Err(Fault::location(
            5447000,
            format!("$collStats must take a nested object but found: $collStats: {options}"),
        ));
    };
    let known = ["count", "latencyStats", "queryExecStats", "storageStats"];
    let arguments = Arguments::within(options, "$collStats", &known)?;
    for unknown in ["latencyStats", "queryExecStats"] {
        if arguments.value(unknown).is_some() {
            return Err(Fault::new(
                Code::NOT_IMPLEMENTED,
                format!("$collStats does not know the {unknown}"),
            ));
        }
    }
    let mut statistics = doc! {
        "ns": request.namespace.to_string(),
        "host": &server_info.address,
        "localTime": env.now,
    };
    if let Some(options) = arguments.document("storageStats")? {
        let scale = Arguments::within(options, "storageStats", &["scale"])?.integer("scale")?;
        let mut stored = statistics::of_collection(collection, scale.unwrap_or(1));
        stored.remove("ns");
        statistics.insert("storageStats", stored);
    }
    if arguments.document("count")?.is_some() {
        let Some(collection) = collection else {
            return Err(Fault::new(
                Code::NAMESPACE_NOT_FOUND,
                format!(
                    "PlanExecutor error during aggregation :: caused by :: Unable to retrieve \
                     count in $collStats stage :: caused by :: Collection [{}] not found.",
                    request.namespace
                ),
            ));
        };
        statistics.insert("count", number(collection.len()));
    }
    Ok(statistics)
}

fn index_statistics(collection: &Collection, server_info: &ServerInfo) -> Vec<Document> {
    let statistics = collection.indexes().iter().map(|index| {
        doc! {
            "name": index.name(),
            "key": index.pattern().clone(),
            "host": &server_info.address,
            // Accesses are not counted.
            "accesses": { "ops": 0_i64, "since": server_info.started },
            "spec": index.specification().clone(),
        }
    });
    statistics.collect()
}

/// Sessions with a record of a retryable write, and the session of the command.
fn sessions(request: &AggregateCommand<'_>, store: &Store, env: &Environment) -> Vec<Document> {
    let asking = request.session.iter().map(|id| (id, env.now));
    let others = store
        .sessions()
        .filter(|(id, _)| request.session.as_ref() != Some(id))
        .map(|(id, record)| (id, record.last_use()));
    asking.chain(others).map(|(id, last_use)| session(id, last_use)).collect()
}

fn session(session: &SessionId, last_use: DateTime) -> Document {
    let id = Binary { subtype: BinarySubtype::Uuid, bytes: session.id.clone() };
    let user = Binary { subtype: BinarySubtype::Generic, bytes: session.user.clone() };
    doc! { "_id": { "id": id, "uid": user }, "lastUse": last_use }
}
