//! `explain`: query plan and execution statistics of a command.

use bson::{Bson, Document, doc};
use steadfast_query::{Code, Fault, Filter};

use super::{
    super::{call::Call, namespace::Namespace},
    ReadContext, aggregate,
    arguments::Arguments,
    count::{self, number},
    distinct,
    environment::command_environment,
    find,
    resolved_namespace::ResolvedNamespace,
    select::{AccessPath, Hint, Selected, select},
};

/// Verbosity of `explain`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verbosity {
    QueryPlanner,
    ExecutionStats,
    AllPlansExecution,
}

/// Runs `explain`.
pub(crate) fn explain(reading: &ReadContext<'_>) -> Result<Document, Fault> {
    let arguments = Arguments::of(reading.call, "explain", &["verbosity"])?;
    let verbosity = match arguments.text("verbosity")? {
        Some("queryPlanner") => Verbosity::QueryPlanner,
        Some("executionStats") => Verbosity::ExecutionStats,
        None | Some("allPlansExecution") => Verbosity::AllPlansExecution,
        Some(other) => return Err(arguments.unlisted("verbosity", other)),
    };
    let command = arguments.required("explain", arguments.document("explain")?)?;
    let Some(name) = command.keys().next() else {
        return Err(Fault::failed_to_parse("explain command requires a nested object"));
    };
    let call = Call { name: name.clone(), body: command.clone(), ..reading.call.clone() };
    let inner = ReadContext { call: &call, ..*reading };
    match name.as_str() {
        "find" => find_command(&inner, verbosity),
        "count" => count_command(&inner, verbosity),
        "distinct" => distinct_command(&inner, verbosity),
        "aggregate" => {
            let mut request = aggregate::AggregateCommand::read(&call)?;
            request.is_explain = true;
            aggregate(&inner, &request, verbosity)
        }
        "update" => write_command(&inner, "updates", "UPDATE", verbosity),
        "delete" => write_command(&inner, "deletes", "DELETE", verbosity),
        "findAndModify" | "findandmodify" => find_and_modify_command(&inner, verbosity),
        other if super::find(other).is_some() => {
            Err(Fault::new(Code::ILLEGAL_OPERATION, format!("Cannot explain cmd: {other}")))
        }
        other => Err(Fault::new(
            Code::COMMAND_NOT_FOUND,
            format!("Explain failed due to unknown command: {other}"),
        )),
    }
}

/// Query plan of a command: access path and stages, from the innermost one.
struct QueryPlan<'a> {
    namespace: Namespace,
    filter: &'a Document,
    access_path: AccessPath<'a>,
    stages: Vec<Document>,
    selected: Selected,
}

fn find_command(reading: &ReadContext<'_>, verbosity: Verbosity) -> Result<Document, Fault> {
    let request = find::FindCommand::read(reading.call)?;
    let resolved = ResolvedNamespace::of(reading.store, &request.namespace, reading.env)?;
    let env = command_environment(
        reading.env,
        request.variables,
        request.collation,
        resolved.collection(),
    )?;
    let filter = Filter::parse(&request.filter, &env)?;
    let access_path = request.access_path(&resolved, &filter, &env)?;
    let selected = request.run(&resolved, access_path, &filter, &env)?;
    let mut stages = Vec::new();
    if let Some(sort) = request.sort {
        stages.push(doc! { "stage": "SORT", "sortPattern": sort.clone() });
    }
    if request.skip > 0 {
        stages.push(doc! { "stage": "SKIP", "skipAmount": number(request.skip) });
    }
    if let Some(limit) = request.limit {
        stages.push(doc! { "stage": "LIMIT", "limitAmount": number(limit) });
    }
    if let Some(projection) = request.projection {
        stages.push(doc! { "stage": "PROJECTION_DEFAULT", "transformBy": projection.clone() });
    }
    let namespace = request.namespace.clone();
    let plan = QueryPlan { namespace, filter: &request.filter, access_path, stages, selected };
    Ok(plan.reply(reading, verbosity))
}

fn count_command(reading: &ReadContext<'_>, verbosity: Verbosity) -> Result<Document, Fault> {
    let request = count::CountCommand::read(reading.call)?;
    let resolved = ResolvedNamespace::of(reading.store, &request.namespace, reading.env)?;
    let (access_path, mut selected) = request.run(reading, &resolved)?;
    let counted = request.apply_skip_and_limit(selected.documents.len());
    selected.documents.clear();
    let stages = vec![doc! { "stage": "COUNT", "nCounted": number(counted) }];
    let namespace = request.namespace.clone();
    let plan = QueryPlan { namespace, filter: &request.query, access_path, stages, selected };
    Ok(plan.reply(reading, verbosity))
}

fn distinct_command(reading: &ReadContext<'_>, verbosity: Verbosity) -> Result<Document, Fault> {
    let request = distinct::DistinctCommand::read(reading)?;
    explain_filter(reading, request.namespace, &request.query, &request.hint, Vec::new(), verbosity)
}

/// Explains an update or a delete by the documents that it would find.
fn write_command(
    reading: &ReadContext<'_>,
    statements: &str,
    stage: &str,
    verbosity: Verbosity,
) -> Result<Document, Fault> {
    let call = reading.call;
    let namespace = Namespace::of_command(&call.database, call.body.get(&call.name))?;
    let first = match call.body.get_array(statements).map(Vec::as_slice) {
        Ok([Bson::Document(statement)]) => statement,
        _ => {
            return Err(Fault::new(
                Code::INVALID_LENGTH,
                format!("explained write batches must be of size 1 in {statements}"),
            ));
        }
    };
    let filter = first.get_document("q").cloned().unwrap_or_default();
    let hint = Hint::read(first.get("hint"))?;
    explain_filter(reading, namespace, &filter, &hint, vec![doc! { "stage": stage }], verbosity)
}

fn find_and_modify_command(
    reading: &ReadContext<'_>,
    verbosity: Verbosity,
) -> Result<Document, Fault> {
    let body = &reading.call.body;
    let namespace = Namespace::of_command(&reading.call.database, body.get(&reading.call.name))?;
    let filter = body.get_document("query").cloned().unwrap_or_default();
    let hint = Hint::read(body.get("hint"))?;
    let stage = if body.get_bool("remove").unwrap_or(false) { "DELETE" } else { "UPDATE" };
    explain_filter(reading, namespace, &filter, &hint, vec![doc! { "stage": stage }], verbosity)
}

fn explain_filter(
    reading: &ReadContext<'_>,
    namespace: Namespace,
    filter: &Document,
    hint: &Hint,
    stages: Vec<Document>,
    verbosity: Verbosity,
) -> Result<Document, Fault> {
    let resolved = ResolvedNamespace::of(reading.store, &namespace, reading.env)?;
    let parsed = Filter::parse(filter, reading.env)?;
    let access_path = AccessPath::choose(&resolved, filter, &parsed, hint, reading.env)?;
    let selected = select(&resolved, access_path, &parsed, reading.env, usize::MAX)?;
    let plan = QueryPlan { namespace, filter, access_path, stages, selected };
    Ok(plan.reply(reading, verbosity))
}

/// Explains a pipeline: access path and the stages as given.
pub(super) fn aggregate(
    reading: &ReadContext<'_>,
    request: &aggregate::AggregateCommand<'_>,
    verbosity: Verbosity,
) -> Result<Document, Fault> {
    let env = request.scope(reading.store, reading.env)?;
    steadfast_query::Pipeline::parse(&request.stages, &request.namespace.database, &env)?;
    let empty = Document::new();
    let filter = request.filter().unwrap_or(&empty);
    let resolved = ResolvedNamespace::of(reading.store, &request.namespace, &env)?;
    let parsed = Filter::parse(filter, &env)?;
    let access_path = AccessPath::choose(&resolved, filter, &parsed, &request.hint, &env)?;
    let selected = select(&resolved, access_path, &parsed, &env, usize::MAX)?;
    let namespace = request.namespace.clone();
    let plan = QueryPlan { namespace, filter, access_path, stages: Vec::new(), selected };
    let rest = &request.stages[usize::from(request.filter().is_some())..];
    if rest.is_empty() {
        return Ok(plan.reply(reading, verbosity));
    }
    let mut cursor = doc! { "queryPlanner": plan.planner() };
    if verbosity >= Verbosity::ExecutionStats {
        cursor.insert("executionStats", plan.statistics(verbosity));
    }
    let mut stages = vec![Bson::Document(doc! { "$cursor": cursor })];
    stages.extend(rest.iter().cloned().map(Bson::Document));
    let mut reply = doc! { "explainVersion": "1", "stages": stages };
    reply.extend(server_info(reading));
    Ok(reply)
}

impl QueryPlan<'_> {
    fn reply(&self, reading: &ReadContext<'_>, verbosity: Verbosity) -> Document {
        let mut reply = doc! { "explainVersion": "1", "queryPlanner": self.planner() };
        if verbosity >= Verbosity::ExecutionStats {
            reply.insert("executionStats", self.statistics(verbosity));
        }
        reply.extend(server_info(reading));
        reply
    }

    fn planner(&self) -> Document {
        doc! {
            "namespace": self.namespace.to_string(),
            "indexFilterSet": false,
            "parsedQuery": self.filter.clone(),
            "winningPlan": self.tree(&Document::new()),
            "rejectedPlans": [],
        }
    }

    fn statistics(&self, verbosity: Verbosity) -> Document {
        let returned = number(self.selected.documents.len());
        let examined = number(self.selected.examined);
        let keys = match self.access_path {
            AccessPath::Empty | AccessPath::CollectionScan { .. } => Bson::Int32(0),
            AccessPath::IdLookup | AccessPath::IndexScan(_) | AccessPath::IndexRange(..) => {
                examined.clone()
            }
        };
        let leaf = doc! { "docsExamined": examined.clone() };
        let mut statistics = doc! {
            "executionSuccess": true,
            "nReturned": returned,
            "executionTimeMillis": 0,
            "totalKeysExamined": keys,
            "totalDocsExamined": examined,
            "executionStages": self.tree(&leaf),
        };
        if verbosity == Verbosity::AllPlansExecution {
            statistics.insert("allPlansExecution", Bson::Array(Vec::new()));
        }
        statistics
    }

    /// Nested stages of the plan. The innermost one carries the statistics.
    fn tree(&self, figures: &Document) -> Document {
        let mut tree = match self.access_path {
            AccessPath::Empty => doc! { "stage": "EOF" },
            AccessPath::IdLookup => doc! { "stage": "IDHACK" },
            AccessPath::CollectionScan { backward } => {
                let mut scan = doc! { "stage": "COLLSCAN" };
                if !self.filter.is_empty() {
                    scan.insert("filter", self.filter.clone());
                }
                scan.insert("direction", if backward { "backward" } else { "forward" });
                scan
            }
            AccessPath::IndexScan(index) | AccessPath::IndexRange(index, _) => doc! {
                "stage": "FETCH",
                "inputStage": {
                    "stage": "IXSCAN",
                    "keyPattern": index.pattern().clone(),
                    "indexName": index.name(),
                    "isUnique": index.unique(),
                    "isSparse": index.specification().get_bool("sparse").unwrap_or(false),
                    "isPartial": index.specification().contains_key("partialFilterExpression"),
                    "direction": "forward",
                },
            },
        };
        tree.extend(figures.clone());
        for stage in &self.stages {
            let mut outer = stage.clone();
            outer.insert("inputStage", tree);
            tree = outer;
        }
        tree
    }
}

/// Fields at the end of every explanation.
fn server_info(reading: &ReadContext<'_>) -> Document {
    let server_info = reading.server_info;
    let (host, port) =
        server_info.address.rsplit_once(':').unwrap_or((&server_info.address, "27017"));
    let mut command = reading.call.body.clone();
    command.insert("$db", &reading.call.database);
    doc! {
        "command": command,
        "serverInfo": {
            "host": host,
            "port": port.parse::<i32>().unwrap_or_default(),
            "version": &server_info.version,
            "gitVersion": "blackpipe",
        },
    }
}
