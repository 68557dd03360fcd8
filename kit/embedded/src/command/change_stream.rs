//! `$changeStream`: opens a change stream.

use bson::{Bson, Document};
use steadfast_query::{Code, Fault, Pipeline, value::type_name};

use super::{
    super::{
        call::Call,
        cursor::{AwaitDataSource, Cursor, CursorOwner, CursorSource, FIRST_BATCH},
        namespace::Namespace,
        stream::{
            ChangeStream, ChangeStreamOptions, ChangeStreamVersion, EventPoint, ImageMode,
            StreamPosition, StreamTarget, is_internal,
        },
    },
    ReadContext,
    aggregate::{AggregateCommand, with_running_prefix},
    arguments::Arguments,
    lock,
    server_stages::check_positions,
};

const FIELDS: &[&str] = &[
    "allChangesForCluster",
    "allowToRunOnConfigDB",
    "allowToRunOnSystemNS",
    "fullDocument",
    "fullDocumentBeforeChange",
    "resumeAfter",
    "showExpandedEvents",
    "showSystemEvents",
    "startAfter",
    "startAtOperationTime",
];

/// Stages that may follow `$changeStream`.
const ALLOWED: &[&str] = &[
    "$addFields",
    "$match",
    "$project",
    "$redact",
    "$replaceRoot",
    "$replaceWith",
    "$set",
    "$unset",
];

/// Opens a change stream and returns its first batch.
pub(super) fn open(
    request: &AggregateCommand<'_>,
    options: &Bson,
    reading: &ReadContext<'_>,
) -> Result<Document, Fault> {
    if reading.server_info.set_name.is_none() {
        return Err(Fault::location(
            40573,
            "The $changeStream stage is only supported on replica sets",
        ));
    }
    check_positions(request)?;
    check_call(reading.call)?;
    let Bson::Document(fields) = options else {
        return Err(Fault::location(
            6_188_500,
            format!("$changeStream must take a nested object but found: $changeStream: {options}"),
        ));
    };
    let arguments = Arguments::within(fields, "$changeStream", FIELDS)?;
    let version = ChangeStreamVersion { max_wire_version: reading.server_info.max_wire_version };
    let position = start(&arguments, reading)?;
    let options = ChangeStreamOptions {
        target: target(request, &arguments, reading)?,
        full: images(&arguments, "fullDocument", version)?,
        before: images(&arguments, "fullDocumentBeforeChange", version)?,
        expanded: since_6(&arguments, "showExpandedEvents", version)?,
        version,
    };
    since_6(&arguments, "showSystemEvents", version)?;
    let env = request.scope(reading.store, reading.env)?;
    let stages = following(&request.stages)?;
    let pipeline = Pipeline::parse(stages, &request.namespace.database, &env)?;
    if let Some(stage) = pipeline.stage_names().find(|stage| !ALLOWED.contains(stage)) {
        // A server has renamed these stages before it reports them.
        let stage = match stage {
            "$bucket" | "$count" | "$sortByCount" => "$group",
            stage => stage,
        };
        return Err(Fault::new(
            Code::ILLEGAL_OPERATION,
            format!("{stage} is not permitted in a $changeStream pipeline"),
        ));
    }
    let mut stream = ChangeStream::new(options, pipeline, env, position);
    stream.set_history(reading.history);
    let source = CursorSource::AwaitDataSource(Box::new(stream));
    let cursor = Cursor::new(request.namespace.clone(), CursorOwner::of(reading.call), source);
    let batch_size = request.batch_size.unwrap_or(FIRST_BATCH);
    let opened = cursor.open(Some(batch_size), &mut lock(reading.cursors), reading.env);
    opened.map_err(with_running_prefix)
}

/// Returns the stages after `$changeStream`. `$changeStreamSplitLargeEvent` at the end is omitted:
/// it does not change events that fit into a reply.
fn following(stages: &[Document]) -> Result<&[Document], Fault> {
    let stages = stages.get(1..).unwrap_or_default();
    let has = |stage: &Document, name: &str| stage.keys().next().is_some_and(|it| it == name);
    if let Some(name) =
        ["$out", "$merge"].iter().find(|name| stages.iter().any(|stage| has(stage, name)))
    {
        return Err(Fault::new(
            Code::ILLEGAL_OPERATION,
            format!("{name} is not permitted in a $changeStream pipeline"),
        ));
    }
    Ok(match stages.split_last() {
        Some((last, before)) if has(last, "$changeStreamSplitLargeEvent") => before,
        _ => stages,
    })
}

/// Rejects read concerns and other arguments that change streams do not support.
fn check_call(call: &Call) -> Result<(), Fault> {
    if call.in_transaction() {
        return Err(Fault::new(
            Code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION,
            "Operation not permitted in transaction :: caused by :: Aggregation stage $changeStream \
             cannot run within a multi-document transaction.",
        ));
    }
    match call.read_concern.level.as_deref() {
        None | Some("majority") => Ok(()),
        Some(level) => Err(Fault::new(
            Code::INVALID_OPTIONS,
            format!(
                "Command aggregate does not support {{ readConcern: {{ level: \"{level}\", \
                 provenance: \"clientSupplied\" }} }} :: caused by :: Aggregation stage \
                 $changeStream cannot run with a readConcern other than 'majority'. Current \
                 readConcern: {level}"
            ),
        )),
    }
}

fn target(
    request: &AggregateCommand<'_>,
    arguments: &Arguments<'_>,
    reading: &ReadContext<'_>,
) -> Result<StreamTarget, Fault> {
    let namespace = &request.namespace;
    let Namespace { database, collection } = namespace;
    if flag(arguments, "allChangesForCluster")? {
        if database != "admin" || !request.collectionless {
            return Err(Fault::new(
                Code::INVALID_OPTIONS,
                format!(
                    "A $changeStream with 'allChangesForCluster:true' may only be opened on the \
                     'admin' database, and with no collection name; found {namespace}"
                ),
            ));
        }
        return Ok(StreamTarget::Cluster);
    }
    let internal = |what: String| {
        let message = format!("$changeStream may not be opened on the internal {what}");
        Err(Fault::new(Code::INVALID_NAMESPACE, message))
    };
    if is_internal(database) {
        return internal(format!("{database} database"));
    }
    if request.collectionless {
        return Ok(StreamTarget::Database(database.clone()));
    }
    if collection.starts_with("system.") {
        return internal(format!("{namespace} collection"));
    }
    if reading.store.collection(namespace).is_some_and(|it| it.is_view()) {
        return Err(Fault::new(
            Code::COMMAND_NOT_SUPPORTED_ON_VIEW,
            format!("Namespace {namespace} is a view, not a collection"),
        ));
    }
    Ok(StreamTarget::Collection(namespace.clone()))
}

/// Start position. Defaults to the end of the committed oplog.
fn start(arguments: &Arguments<'_>, reading: &ReadContext<'_>) -> Result<StreamPosition, Fault> {
    let resume_after = arguments.document("resumeAfter")?.map(StreamPosition::read).transpose()?;
    let start_after = arguments.document("startAfter")?.map(StreamPosition::read).transpose()?;
    let time = match arguments.value("startAtOperationTime") {
        None => None,
        Some(Bson::Timestamp(time)) => Some(StreamPosition::start((*time).into())),
        Some(other) => {
            return Err(arguments.mistyped("startAtOperationTime", other, "type 'timestamp'"));
        }
    };
    if resume_after.is_some() && start_after.is_some() {
        return Err(Fault::location(
            50865,
            "Do not specify both 'resumeAfter' and 'startAfter' in a $changeStream stage",
        ));
    }
    if time.is_some() && (resume_after.is_some() || start_after.is_some()) {
        return Err(Fault::location(
            40674,
            "Only one type of resume option is allowed, but multiple were found",
        ));
    }
    if let Some(StreamPosition { point: EventPoint::Invalidate(_), .. }) = resume_after {
        return Err(Fault::new(
            Code::named(260, "InvalidResumeToken"),
            "Attempting to resume a change stream using 'resumeAfter' is not allowed from an \
             invalidate notification",
        ));
    }
    let newest = || {
        let mut at = reading.history.last();
        at.increment = at.increment.saturating_add(1);
        StreamPosition::start(at)
    };
    Ok(resume_after.or(start_after).or(time).unwrap_or_else(newest))
}

fn images(
    arguments: &Arguments<'_>,
    field: &str,
    version: ChangeStreamVersion,
) -> Result<ImageMode, Fault> {
    let Some(word) = arguments.text(field)? else { return Ok(ImageMode::Off) };
    let is_after = field == "fullDocument";
    if !is_after && !version.has_wall_time() {
        return Err(unknown(field));
    }
    match word {
        "default" if is_after => Ok(ImageMode::Off),
        "updateLookup" if is_after => Ok(ImageMode::Lookup),
        "off" if !is_after => Ok(ImageMode::Off),
        "whenAvailable" if version.has_wall_time() => Ok(ImageMode::WhenAvailable),
        "required" if version.has_wall_time() => Ok(ImageMode::Required),
        word => Err(arguments.unlisted(field, word)),
    }
}

fn since_6(
    arguments: &Arguments<'_>,
    field: &str,
    version: ChangeStreamVersion,
) -> Result<bool, Fault> {
    if arguments.value(field).is_some() && !version.has_wall_time() {
        return Err(unknown(field));
    }
    flag(arguments, field)
}

fn unknown(field: &str) -> Fault {
    Fault::location(40415, format!("BSON field '$changeStream.{field}' is an unknown field."))
}

fn flag(arguments: &Arguments<'_>, field: &str) -> Result<bool, Fault> {
    match arguments.value(field) {
        None => Ok(false),
        Some(Bson::Boolean(flag)) => Ok(*flag),
        Some(other) => Err(Fault::type_mismatch(format!(
            "Field '{field}' should be a boolean value, but found: {}",
            type_name(other)
        ))),
    }
}
