//! `explain`: query plan and execution statistics of a command.

use bson::{Bson, Document, doc};
use steadfast_query::{Code, Fault, Filter};

use super::{
    super::{call::Call, namespace::Namespace},
    Reading, aggregate,
    arguments::Arguments,
    count::{self, number},
    distinct, find,
    scope::scope,
    select::{Hint, Selected, Way, select},
    sight::Sight,
};

/// Verbosity of `explain`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verbosity {
    QueryPlanner,
    ExecutionStats,
    AllPlansExecution,
}

/// Runs `explain`.
pub(crate) fn explain(reading: &Reading<'_>) -> Result<Document, Fault> {
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
    let inner = Reading { call: &call, ..*reading };
    match name.as_str() {
        "find" => find_command(&inner, verbosity),
        "count" => count_command(&inner, verbosity),
        "distinct" => distinct_command(&inner, verbosity),
        "aggregate" => {
            let mut request = aggregate::Request::read(&call)?;
            request.explains = true;
            aggregate(&inner, &request, verbosity)
        }
        "update" => written(&inner, "updates", "UPDATE", verbosity),
        "delete" => written(&inner, "deletes", "DELETE", verbosity),
        "findAndModify" | "findandmodify" => found_and_modified(&inner, verbosity),
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
struct Plan<'a> {
    namespace: Namespace,
    filter: &'a Document,
    way: Way<'a>,
    stages: Vec<Document>,
    selected: Selected,
}

fn find_command(reading: &Reading<'_>, verbosity: Verbosity) -> Result<Document, Fault> {
    let request = find::Request::read(reading.call)?;
    let sight = Sight::of(reading.store, &request.namespace, reading.env)?;
    let env = scope(reading.env, request.variables, request.collation, sight.collection())?;
    let filter = Filter::parse(&request.filter, &env)?;
    let way = request.way(&sight, &filter, &env)?;
    let selected = request.run(&sight, way, &filter, &env)?;
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
    let plan = Plan { namespace, filter: &request.filter, way, stages, selected };
    Ok(plan.reply(reading, verbosity))
}

fn count_command(reading: &Reading<'_>, verbosity: Verbosity) -> Result<Document, Fault> {
    let request = count::Request::read(reading.call)?;
    let sight = Sight::of(reading.store, &request.namespace, reading.env)?;
    let (way, mut selected) = request.run(reading, &sight)?;
    let counted = request.cut(selected.documents.len());
    selected.documents.clear();
    let stages = vec![doc! { "stage": "COUNT", "nCounted": number(counted) }];
    let namespace = request.namespace.clone();
    let plan = Plan { namespace, filter: &request.query, way, stages, selected };
    Ok(plan.reply(reading, verbosity))
}

fn distinct_command(reading: &Reading<'_>, verbosity: Verbosity) -> Result<Document, Fault> {
    let request = distinct::Request::read(reading)?;
    by_filter(reading, request.namespace, &request.query, &request.hint, Vec::new(), verbosity)
}

/// Explains an update or a delete by the documents that it would find.
fn written(
    reading: &Reading<'_>,
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
    by_filter(reading, namespace, &filter, &hint, vec![doc! { "stage": stage }], verbosity)
}

fn found_and_modified(reading: &Reading<'_>, verbosity: Verbosity) -> Result<Document, Fault> {
    let body = &reading.call.body;
    let namespace = Namespace::of_command(&reading.call.database, body.get(&reading.call.name))?;
    let filter = body.get_document("query").cloned().unwrap_or_default();
    let hint = Hint::read(body.get("hint"))?;
    let stage = if body.get_bool("remove").unwrap_or(false) { "DELETE" } else { "UPDATE" };
    by_filter(reading, namespace, &filter, &hint, vec![doc! { "stage": stage }], verbosity)
}

fn by_filter(
    reading: &Reading<'_>,
    namespace: Namespace,
    filter: &Document,
    hint: &Hint,
    stages: Vec<Document>,
    verbosity: Verbosity,
) -> Result<Document, Fault> {
    let sight = Sight::of(reading.store, &namespace, reading.env)?;
    let parsed = Filter::parse(filter, reading.env)?;
    let way = Way::choose(&sight, filter, &parsed, hint, reading.env)?;
    let selected = select(&sight, way, &parsed, reading.env, usize::MAX)?;
    let plan = Plan { namespace, filter, way, stages, selected };
    Ok(plan.reply(reading, verbosity))
}

/// Explains a pipeline: access path and the stages as given.
pub(super) fn aggregate(
    reading: &Reading<'_>,
    request: &aggregate::Request<'_>,
    verbosity: Verbosity,
) -> Result<Document, Fault> {
    let env = request.scope(reading.store, reading.env)?;
    steadfast_query::Pipeline::parse(&request.stages, &request.namespace.database, &env)?;
    let empty = Document::new();
    let filter = request.filter().unwrap_or(&empty);
    let sight = Sight::of(reading.store, &request.namespace, &env)?;
    let parsed = Filter::parse(filter, &env)?;
    let way = Way::choose(&sight, filter, &parsed, &request.hint, &env)?;
    let selected = select(&sight, way, &parsed, &env, usize::MAX)?;
    let namespace = request.namespace.clone();
    let plan = Plan { namespace, filter, way, stages: Vec::new(), selected };
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
    reply.extend(about(reading));
    Ok(reply)
}

impl Plan<'_> {
    fn reply(&self, reading: &Reading<'_>, verbosity: Verbosity) -> Document {
        let mut reply = doc! { "explainVersion": "1", "queryPlanner": self.planner() };
        if verbosity >= Verbosity::ExecutionStats {
            reply.insert("executionStats", self.statistics(verbosity));
        }
        reply.extend(about(reading));
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
        let keys = match self.way {
            Way::Nothing | Way::Scan { .. } => Bson::Int32(0),
            Way::Id | Way::Index(_) | Way::Range(..) => examined.clone(),
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
        let mut tree = match self.way {
            Way::Nothing => doc! { "stage": "EOF" },
            Way::Id => doc! { "stage": "IDHACK" },
            Way::Scan { backward } => {
                let mut scan = doc! { "stage": "COLLSCAN" };
                if !self.filter.is_empty() {
                    scan.insert("filter", self.filter.clone());
                }
                scan.insert("direction", if backward { "backward" } else { "forward" });
                scan
            }
            Way::Index(index) | Way::Range(index, _) => doc! {
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
fn about(reading: &Reading<'_>) -> Document {
    let about = reading.about;
    let (host, port) = about.address.rsplit_once(':').unwrap_or((&about.address, "27017"));
    let mut command = reading.call.body.clone();
    command.insert("$db", &reading.call.database);
    doc! {
        "command": command,
        "serverInfo": {
            "host": host,
            "port": port.parse::<i32>().unwrap_or_default(),
            "version": &about.version,
            "gitVersion": "blackpipe",
        },
    }
}
