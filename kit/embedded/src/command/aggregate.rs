//! `aggregate`: runs a pipeline over the documents of a collection.

use std::sync::Arc;

use bson::{Bson, Document};
use steadfast_query::{Code, Environment, Fault, Filter, Pipeline, pipeline::Destination};

use super::{
    super::{
        call::Call,
        cursor::{Cursor, CursorOwner, CursorSource, FIRST_BATCH, FoundDocuments},
        namespace::Namespace,
        oplog::SessionId,
        store::Store,
    },
    Handler, ReadContext, ServerInfo, WriteContext,
    arguments::{Arguments, whole},
    change_stream,
    environment::command_environment,
    explain, lock,
    merge::merge,
    out::out,
    resolved_namespace::{PipelineCollections, ResolvedNamespace},
    select::{AccessPath, Hint, select},
    server_stages,
};

const FIELDS: &[&str] = &[
    "allowDiskUse",
    "bypassDocumentValidation",
    "collation",
    "cursor",
    "explain",
    "hint",
    "let",
    "pipeline",
];

/// Chooses the handler. A pipeline that ends in `$out` or `$merge` writes, unless it is only
/// explained.
pub(crate) fn run(body: &Document) -> Handler {
    let is_explain = body.get("explain").is_some_and(|it| *it != Bson::Boolean(false));
    let last = body.get_array("pipeline").ok().and_then(|stages| stages.last());
    let stage = last.and_then(Bson::as_document).and_then(|it| it.keys().next());
    match stage.map(String::as_str) {
        Some("$out" | "$merge") if !is_explain => Handler::Write(write),
        _ => Handler::Read(read),
    }
}

fn read(reading: &ReadContext<'_>) -> Result<Document, Fault> {
    let request = AggregateCommand::read(reading.call)?;
    if let Some(options) = request.change_stream() {
        return change_stream::open(&request, options, reading);
    }
    if request.is_explain {
        return explain::aggregate(reading, &request, explain::Verbosity::QueryPlanner);
    }
    let (_, documents) = request.run(reading.store, reading.env, reading.server_info)?;
    request.open(documents, reading)
}

fn write(writing: &mut WriteContext<'_>) -> Result<Document, Fault> {
    let call = writing.call;
    let request = AggregateCommand::read(call)?;
    let store = writing.seen.unwrap_or_else(|| writing.changes.store());
    let (destination, documents) = request.run(store, writing.env, writing.server_info)?;
    match destination {
        // A pipeline without an output stage is not run by this handler.
        Destination::Cursor => {}
        Destination::Out { database, collection } => {
            let database = database.unwrap_or_else(|| call.database.clone());
            let to = Namespace::new(database, collection);
            out(writing, &to, documents, request.bypass_validation).map_err(with_running_prefix)?;
        }
        Destination::Merge(options) => {
            let env = request.scope(writing.changes.store(), writing.env)?;
            merge(writing, &options, documents, &env, request.bypass_validation)?;
        }
        _ => return Err(Fault::new(Code::NOT_IMPLEMENTED, "no such destination is known")),
    }
    let cursor = Cursor::new(
        request.namespace.clone(),
        CursorOwner::of(call),
        CursorSource::FoundDocuments(FoundDocuments::new(Vec::new())),
    );
    let batch_size = request.batch_size.unwrap_or(FIRST_BATCH);
    cursor.open(Some(batch_size), &mut lock(writing.cursors), writing.env)
}

/// Adds MongoDB's prefix to the error of a running stage.
pub(super) fn with_running_prefix(mut fault: Fault) -> Fault {
    // A write conflict is not reported to the client: the command waits and runs again.
    if fault.code != Code::WRITE_CONFLICT {
        fault.message =
            format!("PlanExecutor error during aggregation :: caused by :: {}", fault.message);
    }
    fault
}

/// Parsed arguments of `aggregate`.
pub(super) struct AggregateCommand<'a> {
    /// `$cmd.aggregate` if the pipeline reads no collection.
    pub(super) namespace: Namespace,
    /// `true` for `aggregate: 1`, on the database or the server.
    pub(super) collectionless: bool,
    pub(super) stages: Vec<Document>,
    pub(super) hint: Hint,
    pub(super) is_explain: bool,
    /// Skips schema validation of written documents (`bypassDocumentValidation`).
    bypass_validation: bool,
    variables: Option<&'a Document>,
    collation: Option<&'a Document>,
    pub(super) batch_size: Option<usize>,
    pub(super) session: Option<SessionId>,
}

impl<'a> AggregateCommand<'a> {
    pub(super) fn read(call: &'a Call) -> Result<Self, Fault> {
        let arguments = Arguments::of(call, "aggregate", FIELDS)?;
        arguments.without(&["explain"])?;
        let collectionless = match call.body.get(&call.name) {
            Some(Bson::String(_)) => false,
            Some(one) if whole(one) == Some(1) => true,
            _ => {
                return Err(Fault::failed_to_parse(
                    "Invalid command format: the 'aggregate' field must specify a collection name \
                     or 1",
                ));
            }
        };
        let namespace = match collectionless {
            true => Namespace::new(&call.database, "$cmd.aggregate"),
            false => Namespace::of_command(&call.database, call.body.get(&call.name))?,
        };
        let is_explain = arguments.boolean("explain")?;
        if !matches!(arguments.value("cursor"), None | Some(Bson::Document(_))) {
            return Err(Fault::type_mismatch("cursor field must be missing or an object"));
        }
        let stages = stages(&arguments)?;
        if arguments.value("cursor").is_none() && !is_explain {
            return Err(Fault::failed_to_parse(
                "The 'cursor' option is required, except for aggregate with the explain argument",
            ));
        }
        arguments.boolean("allowDiskUse")?;
        server_stages::check(call, &stages)?;
        Ok(Self {
            namespace,
            collectionless,
            stages,
            hint: Hint::read(arguments.value("hint"))?,
            is_explain,
            bypass_validation: arguments.boolean("bypassDocumentValidation")?,
            variables: arguments.document("let")?,
            collation: arguments.document("collation")?,
            batch_size: arguments.batch_size()?,
            session: call.session.clone(),
        })
    }

    /// Environment of its expressions.
    pub(super) fn scope(&self, store: &Store, env: &Environment) -> Result<Environment, Fault> {
        let collection = store.collection(&self.namespace);
        command_environment(env, self.variables, self.collation, collection)
    }

    /// Runs the stages. Returns the resulting documents and their destination.
    fn run(
        &self,
        store: &Store,
        env: &Environment,
        server_info: &ServerInfo,
    ) -> Result<(Destination, Vec<Document>), Fault> {
        let env = self.scope(store, env)?;
        let begun = server_stages::begin(self, store, &env, server_info)?;
        let rest = if begun.is_some() { &self.stages[1..] } else { &self.stages[..] };
        let pipeline = Pipeline::parse(rest, &self.namespace.database, &env)?;
        let documents = match begun {
            Some(documents) => documents.into_iter().map(Arc::new).collect(),
            None => self.documents(store, &env)?,
        };
        let made = PipelineCollections::new(store, &env).run(&pipeline, documents)?;
        Ok((pipeline.destination(), made))
    }

    /// Input documents of the first stage. A leading `$match` can use an index. Otherwise all
    /// documents are returned.
    fn documents(&self, store: &Store, env: &Environment) -> Result<Vec<Arc<Document>>, Fault> {
        if self.collectionless {
            return Ok(Vec::new());
        }
        let resolved = ResolvedNamespace::of(store, &self.namespace, env)?;
        if resolved.collection().is_none() {
            return Ok(resolved.into_documents());
        }
        let condition = self.filter().cloned().unwrap_or_default();
        let filter = Filter::parse(&condition, env)?;
        let access_path = AccessPath::choose(&resolved, &condition, &filter, &self.hint, env)?;
        Ok(select(&resolved, access_path, &filter, env, usize::MAX)?.documents)
    }

    /// Options of a leading `$changeStream`.
    fn change_stream(&self) -> Option<&Bson> {
        let first = self.stages.first().filter(|stage| stage.len() == 1)?;
        first.get("$changeStream")
    }

    /// Filter of a leading `$match`.
    pub(super) fn filter(&self) -> Option<&Document> {
        self.stages.first()?.get_document("$match").ok()
    }

    fn open(&self, documents: Vec<Document>, reading: &ReadContext<'_>) -> Result<Document, Fault> {
        let found = FoundDocuments::new(documents.into_iter().map(Arc::new).collect());
        let cursor = Cursor::new(
            self.namespace.clone(),
            CursorOwner::of(reading.call),
            CursorSource::FoundDocuments(found),
        );
        let batch_size = self.batch_size.unwrap_or(FIRST_BATCH);
        cursor.open(Some(batch_size), &mut lock(reading.cursors), reading.env)
    }
}

fn stages(arguments: &Arguments<'_>) -> Result<Vec<Document>, Fault> {
    let stages = match arguments.required("pipeline", arguments.value("pipeline"))? {
        Bson::Array(stages) => stages,
        _ => return Err(Fault::type_mismatch("'pipeline' option must be specified as an array")),
    };
    let stage = |stage: &Bson| match stage {
        Bson::Document(stage) => Ok(stage.clone()),
        _ => Err(Fault::type_mismatch("Each element of the 'pipeline' array must be an object")),
    };
    stages.iter().map(stage).collect()
}

/// Name of a stage. `None` if the document does not have exactly one field.
pub(super) fn stage_name(stage: &Document) -> Option<&str> {
    match stage.len() {
        1 => stage.keys().next().map(String::as_str),
        _ => None,
    }
}
