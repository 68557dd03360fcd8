//! `update`: runs update statements.

use bson::{Bson, Document, doc};
use steadfast_query::{Environment, Fault, Update};

use super::{
    WriteContext,
    arguments::Arguments,
    select::Hint,
    write::{
        WriteBatch, documents,
        query::StatementQuery,
        reply, sum,
        update_statement::{UpdateResult, UpdateStatement},
    },
};
use crate::namespace::Namespace;

const FIELDS: &[&str] = &[
    "bypassDocumentValidation",
    "isTimeseriesNamespace",
    "let",
    "ordered",
    "stmtId",
    "stmtIds",
    "updates",
];

const STATEMENT: &[&str] = &[
    "arrayFilters",
    "c",
    "collation",
    "hint",
    "multi",
    "q",
    "sort",
    "u",
    "upsert",
    "upsertSupplied",
];

/// First wire version whose `update` supports `sort` (MongoDB 8.0).
const SORT_SUPPORTED: i32 = 25;

/// Runs `update`.
pub(crate) fn update(writing: &mut WriteContext<'_>) -> Result<Document, Fault> {
    let call = writing.call;
    let arguments = Arguments::of(call, "update", FIELDS)?;
    let namespace = Namespace::of_command(&call.database, call.body.get(&call.name))?;
    let variables = arguments.document("let")?;
    let documents = documents(&arguments, "updates")?;
    let batch = WriteBatch::read(&arguments, documents.len())?;
    let sorts = writing.server_info.max_wire_version >= SORT_SUPPORTED;
    let statements = documents
        .into_iter()
        .map(|fields| read(fields, &namespace, variables, batch.bypass_validation, sorts))
        .collect::<Result<Vec<_>, _>>()?;
    namespace.check_writable()?;
    for statement in &statements {
        check_stages(statement.update, writing.env)?;
    }
    let results = batch.run(writing, statements.len(), |writing, at, id| {
        Ok(outcome(&statements[at].run(writing, id, outcome)?))
    })?;
    let mut reply = reply(&results);
    let upserted = upserted(&results);
    if !upserted.is_empty() {
        reply.insert("upserted", upserted);
    }
    reply.insert("nModified", sum(&results, "nModified"));
    Ok(reply)
}

/// Rejects a command with an unknown pipeline stage before anything is done.
pub(super) fn check_stages(update: &Bson, env: &Environment) -> Result<(), Fault> {
    const UNRECOGNIZED: i32 = 40324;
    let Bson::Array(_) = update else { return Ok(()) };
    match Update::parse(update, &[], env) {
        Err(fault) if fault.code.number == UNRECOGNIZED => Err(fault),
        _ => Ok(()),
    }
}

fn read<'a>(
    fields: &'a Document,
    namespace: &'a Namespace,
    variables: Option<&'a Document>,
    bypass_validation: bool,
    sorts: bool,
) -> Result<UpdateStatement<'a>, Fault> {
    let known = STATEMENT.iter().copied().filter(|field| sorts || *field != "sort");
    let known: Vec<&str> = known.collect();
    let arguments = Arguments::within(fields, "update.updates", &known)?;
    let update = arguments.required("u", arguments.raw("u"))?;
    check_update(update)?;
    let upsert = arguments.flag("upsert")?.unwrap_or(false);
    reject_upsert_supplied(&arguments, upsert)?;
    Ok(UpdateStatement {
        namespace,
        query: StatementQuery {
            filter: arguments.required("q", arguments.document("q")?)?,
            sort: arguments.document("sort")?,
            hint: Hint::read(arguments.raw("hint"))?,
            collation: arguments.document("collation")?,
            variables,
        },
        update,
        array_filters: array_filters(&arguments)?,
        constants: arguments.document("c")?,
        multi: arguments.flag("multi")?.unwrap_or(false),
        upsert,
        bypass_validation,
        error_prefix: "",
    })
}

/// Rejects updates that are neither document nor pipeline.
pub(super) fn check_update(update: &Bson) -> Result<(), Fault> {
    match update {
        Bson::Document(_) | Bson::Array(_) => Ok(()),
        _ => Err(Fault::failed_to_parse("Update argument must be either an object or an array")),
    }
}

/// Rejects `upsertSupplied`, which servers use among themselves.
pub(super) fn reject_upsert_supplied(arguments: &Arguments<'_>, upsert: bool) -> Result<(), Fault> {
    match (arguments.flag("upsertSupplied")?, upsert) {
        (Some(true), false) => Err(Fault::failed_to_parse(
            "cannot specify 'upsertSupplied: true' for a non-upsert operation",
        )),
        (Some(true), true) => {
            Err(Fault::failed_to_parse("the parameter 'upsertSupplied' is not supported"))
        }
        (Some(false) | None, _) => Ok(()),
    }
}

/// Parses `arrayFilters`.
pub(super) fn array_filters(arguments: &Arguments<'_>) -> Result<Vec<Document>, Fault> {
    match arguments.array("arrayFilters")? {
        None => Ok(Vec::new()),
        Some(_) => Ok(documents(arguments, "arrayFilters")?.into_iter().cloned().collect()),
    }
}

/// Result of an update statement.
pub(super) fn outcome(updated: &UpdateResult) -> Document {
    match &updated.upserted {
        Some(id) => doc! { "n": 1, "nModified": 0, "upserted": id.clone() },
        None => doc! {
            "n": i32::try_from(updated.matched).unwrap_or(i32::MAX),
            "nModified": i32::try_from(updated.modified).unwrap_or(i32::MAX),
        },
    }
}

/// Elements of `upserted`: the `_id` of each inserted document with the index of its statement.
fn upserted(results: &[Result<Document, Fault>]) -> Vec<Bson> {
    results
        .iter()
        .zip(0_i32..)
        .filter_map(|(result, at)| {
            let id = result.as_ref().ok()?.get("upserted")?.clone();
            Some(doc! { "index": at, "_id": id }.into())
        })
        .collect()
}
