//! `insert`: inserts documents.

use bson::Document;
use steadfast_query::Fault;

use super::{
    WriteContext,
    arguments::Arguments,
    write::{WriteBatch, documents, insert_statement::InsertStatement, reply},
};
use crate::namespace::Namespace;

const FIELDS: &[&str] = &[
    "bypassDocumentValidation",
    "documents",
    "isTimeseriesNamespace",
    "ordered",
    "stmtId",
    "stmtIds",
];

/// Runs `insert`.
pub(crate) fn insert(writing: &mut WriteContext<'_>) -> Result<Document, Fault> {
    let call = writing.call;
    let arguments = Arguments::of(call, "insert", FIELDS)?;
    let namespace = Namespace::of_command(&call.database, call.body.get(&call.name))?;
    let documents = documents(&arguments, "documents")?;
    let batch = WriteBatch::read(&arguments, documents.len())?;
    namespace.check_writable()?;
    let results = batch.run(writing, documents.len(), |writing, at, id| {
        let statement = InsertStatement {
            namespace: &namespace,
            document: documents[at],
            bypass_validation: batch.bypass_validation,
        };
        statement.run(writing, id)
    })?;
    Ok(reply(&results))
}
