//! `delete`: runs delete statements.

use bson::{Bson, Document, doc};
use steadfast_query::{Fault, value};

use super::{
    WriteContext,
    arguments::Arguments,
    select::Hint,
    write::{
        WriteBatch, delete_statement::DeleteStatement, documents, query::StatementQuery,
        reject_multi, reply,
    },
};
use crate::namespace::Namespace;

const FIELDS: &[&str] =
    &["deletes", "isTimeseriesNamespace", "let", "ordered", "stmtId", "stmtIds"];

const STATEMENT: &[&str] = &["collation", "hint", "limit", "q"];

/// Runs `delete`.
pub(crate) fn delete(writing: &mut WriteContext<'_>) -> Result<Document, Fault> {
    let call = writing.call;
    let arguments = Arguments::of(call, "delete", FIELDS)?;
    let namespace = Namespace::of_command(&call.database, call.body.get(&call.name))?;
    let variables = arguments.document("let")?;
    let documents = documents(&arguments, "deletes")?;
    let batch = WriteBatch::read(&arguments, documents.len())?;
    let statements = documents
        .into_iter()
        .map(|fields| read(fields, &namespace, variables))
        .collect::<Result<Vec<_>, _>>()?;
    namespace.check_writable()?;
    let results = batch.run(writing, statements.len(), |writing, at, id| {
        let statement = &statements[at];
        if statement.multi {
            reject_multi(writing.call, "limit=0")?;
        }
        let deleted = statement.run(writing, id, |_| outcome(1))?;
        Ok(outcome(deleted.len()))
    })?;
    Ok(reply(&results))
}

fn read<'a>(
    fields: &'a Document,
    namespace: &'a Namespace,
    variables: Option<&'a Document>,
) -> Result<DeleteStatement<'a>, Fault> {
    let arguments = Arguments::within(fields, "delete.deletes", STATEMENT)?;
    let filter = arguments.required("q", arguments.document("q")?)?;
    Ok(DeleteStatement {
        namespace,
        query: StatementQuery {
            filter,
            sort: None,
            hint: Hint::read(arguments.raw("hint"))?,
            collation: arguments.document("collation")?,
            variables,
        },
        multi: is_multi(arguments.required("limit", arguments.raw("limit"))?)?,
    })
}

/// Returns `true` for `limit: 0`. A limit that is not a number counts as 0.
fn is_multi(limit: &Bson) -> Result<bool, Fault> {
    let is = |number| value::equal(limit, &Bson::Int32(number));
    match limit {
        Bson::Boolean(one) => Ok(!one),
        _ if !value::is_number(limit) || is(0) => Ok(true),
        _ if is(1) => Ok(false),
        other => Err(Fault::failed_to_parse(format!(
            "The limit field in delete objects must be 0 or 1. Got {}",
            value::format_value(other)
        ))),
    }
}

/// Result of a delete statement.
pub(super) fn outcome(count: usize) -> Document {
    doc! { "n": i32::try_from(count).unwrap_or(i32::MAX) }
}
