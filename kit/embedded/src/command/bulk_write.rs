//! `bulkWrite`: inserts, updates and deletes on several collections in one command.

use std::sync::Arc;

use bson::{Bson, Document, doc};
use steadfast_query::{Code, Fault};

use super::{
    WriteContext,
    arguments::{Arguments, only_on_admin, whole},
    delete, lock,
    select::Hint,
    update::{array_filters, check_update, outcome, reject_upsert_supplied},
    write::{
        WriteBatch, delete_statement::DeleteStatement, documents,
        insert_statement::InsertStatement, query::StatementQuery, reject_multi, retried_statements,
        update_statement::UpdateStatement,
    },
};
use crate::{
    call::WriteConcernW,
    cursor::{Cursor, CursorOwner, CursorSource, FoundDocuments},
    namespace::Namespace,
};

const FIELDS: &[&str] = &[
    "bypassDocumentValidation",
    "cursor",
    "errorsOnly",
    "let",
    "nsInfo",
    "ops",
    "ordered",
    "stmtId",
    "stmtIds",
];

const INSERT: &[&str] = &["document", "insert"];

const UPDATE: &[&str] = &[
    "arrayFilters",
    "collation",
    "constants",
    "filter",
    "hint",
    "multi",
    "sort",
    "update",
    "updateMods",
    "upsert",
    "upsertSupplied",
];

const DELETE: &[&str] = &["collation", "delete", "filter", "hint", "multi"];

/// First wire version with the command (MongoDB 8.0).
const MIN_WIRE_VERSION: i32 = 25;

/// Runs `bulkWrite`.
pub(crate) fn bulk_write(writing: &mut WriteContext<'_>) -> Result<Document, Fault> {
    let call = writing.call;
    if writing.server_info.max_wire_version < MIN_WIRE_VERSION {
        return Err(Fault::new(Code::COMMAND_NOT_FOUND, "no such command: 'bulkWrite'"));
    }
    let arguments = Arguments::of(call, "bulkWrite", FIELDS)?;
    only_on_admin(call)?;
    let operations = documents(&arguments, "ops")?;
    let namespaces = namespaces(&arguments)?;
    let batch = WriteBatch::read(&arguments, operations.len())?;
    let batch_size = arguments.batch_size()?;
    let errors_only = arguments.flag("errorsOnly")?.unwrap_or(false);
    let reader = BulkOperationParser {
        namespaces: &namespaces,
        variables: arguments.document("let")?,
        bypass_validation: batch.bypass_validation,
    };
    let operations = operations
        .into_iter()
        .enumerate()
        .map(|(at, fields)| reader.operation(at, fields))
        .collect::<Result<Vec<_>, _>>()?;
    let results =
        batch.run(writing, operations.len(), |writing, at, id| operations[at].run(writing, id))?;
    let summary = summary(&operations, &results);
    let items = match call.write_concern.w {
        // An unacknowledged command returns no rows.
        Some(WriteConcernW::Members(0)) => Vec::new(),
        _ => items(&operations, &results, errors_only),
    };
    let namespace = Namespace::new("admin", "$cmd.bulkWrite");
    let cursor = Cursor::new(
        namespace,
        CursorOwner::of(call),
        CursorSource::FoundDocuments(FoundDocuments::with_known_end(items)),
    );
    let mut reply = cursor.open(batch_size, &mut lock(writing.cursors), writing.env)?;
    reply.extend(summary);
    Ok(reply)
}

/// One operation of the command.
enum BulkOperation<'a> {
    Insert(InsertStatement<'a>),
    Update(UpdateStatement<'a>),
    Delete(DeleteStatement<'a>),
}

impl BulkOperation<'_> {
    fn run(&self, writing: &mut WriteContext<'_>, id: Option<i32>) -> Result<Document, Fault> {
        match self {
            Self::Insert(insert) => {
                insert.namespace.check_writable()?;
                insert.run(writing, id)
            }
            Self::Update(update) => {
                update.namespace.check_writable()?;
                Ok(outcome(&update.run(writing, id, outcome)?))
            }
            Self::Delete(delete) => {
                delete.namespace.check_writable()?;
                if delete.multi {
                    reject_multi(writing.call, "multi=true")?;
                }
                let deleted = delete.run(writing, id, |_| delete::outcome(1))?;
                Ok(delete::outcome(deleted.len()))
            }
        }
    }
}

/// Arguments that all operations share.
struct BulkOperationParser<'a> {
    namespaces: &'a [Namespace],
    variables: Option<&'a Document>,
    bypass_validation: bool,
}

impl<'a> BulkOperationParser<'a> {
    fn operation(&self, at: usize, fields: &'a Document) -> Result<BulkOperation<'a>, Fault> {
        match fields.keys().next().map(String::as_str) {
            Some("insert") => self.insert(at, fields).map(BulkOperation::Insert),
            Some("update") => self.update(at, fields).map(BulkOperation::Update),
            Some("delete") => self.delete(at, fields).map(BulkOperation::Delete),
            Some(other) => {
                let message = format!("BSON field 'BulkWrite.{other}' is an unknown field.");
                Err(Fault::location(40415, message))
            }
            None => Err(Fault::failed_to_parse("Unknown bulkWrite operation: {}")),
        }
    }

    fn insert(&self, at: usize, fields: &'a Document) -> Result<InsertStatement<'a>, Fault> {
        let arguments = Arguments::within(fields, "insert", INSERT)?;
        Ok(InsertStatement {
            namespace: self.namespace(at, &arguments, "insert")?,
            document: arguments.required("document", arguments.document("document")?)?,
            bypass_validation: self.bypass_validation,
        })
    }

    fn update(&self, at: usize, fields: &'a Document) -> Result<UpdateStatement<'a>, Fault> {
        let arguments = Arguments::within(fields, "update", UPDATE)?;
        let update = arguments.required("updateMods", arguments.raw("updateMods"))?;
        check_update(update)?;
        let upsert = arguments.flag("upsert")?.unwrap_or(false);
        reject_upsert_supplied(&arguments, upsert)?;
        Ok(UpdateStatement {
            namespace: self.namespace(at, &arguments, "update")?,
            query: self.query(&arguments, arguments.document("sort")?)?,
            update,
            array_filters: array_filters(&arguments)?,
            constants: arguments.document("constants")?,
            multi: arguments.flag("multi")?.unwrap_or(false),
            upsert,
            bypass_validation: self.bypass_validation,
            error_prefix: "",
        })
    }

    fn delete(&self, at: usize, fields: &'a Document) -> Result<DeleteStatement<'a>, Fault> {
        let arguments = Arguments::within(fields, "delete", DELETE)?;
        Ok(DeleteStatement {
            namespace: self.namespace(at, &arguments, "delete")?,
            query: self.query(&arguments, None)?,
            multi: arguments.flag("multi")?.unwrap_or(false),
        })
    }

    fn query(
        &self,
        arguments: &Arguments<'a>,
        sort: Option<&'a Document>,
    ) -> Result<StatementQuery<'a>, Fault> {
        Ok(StatementQuery {
            filter: arguments.required("filter", arguments.document("filter")?)?,
            sort,
            hint: Hint::read(arguments.raw("hint"))?,
            collation: arguments.document("collation")?,
            variables: self.variables,
        })
    }

    /// Namespace of an operation, by its index into `nsInfo`.
    fn namespace(
        &self,
        at: usize,
        arguments: &Arguments<'a>,
        field: &str,
    ) -> Result<&'a Namespace, Fault> {
        let value = arguments.required(field, arguments.value(field))?;
        let index = whole(value).ok_or_else(|| arguments.mistyped(field, value, "type 'int'"))?;
        usize::try_from(index).ok().and_then(|index| self.namespaces.get(index)).ok_or_else(|| {
            Fault::bad_value(format!("BulkWrite ops entry {at} has an invalid nsInfo index."))
        })
    }
}

/// Namespaces of `nsInfo`.
fn namespaces(arguments: &Arguments<'_>) -> Result<Vec<Namespace>, Fault> {
    documents(arguments, "nsInfo")?
        .into_iter()
        .map(|fields| {
            let entry = Arguments::within(fields, "bulkWrite.nsInfo", &["ns"])?;
            let name = entry.required("ns", entry.text("ns")?)?;
            let (database, collection) = name.split_once('.').unwrap_or((name, ""));
            Namespace::named(database, collection)
        })
        .collect()
}

/// Rows of the reply's cursor: one per operation, or only errors with `errorsOnly`.
fn items(
    operations: &[BulkOperation<'_>],
    results: &[Result<Document, Fault>],
    errors_only: bool,
) -> Vec<Arc<Document>> {
    results
        .iter()
        .zip(operations)
        .zip(0_i32..)
        .filter(|((result, _), _)| !errors_only || result.is_err())
        .map(|((result, operation), at)| Arc::new(item(result, operation, at)))
        .collect()
}

fn item(result: &Result<Document, Fault>, operation: &BulkOperation<'_>, at: i32) -> Document {
    let is_update = matches!(operation, BulkOperation::Update(_));
    match result {
        Ok(outcome) => {
            let mut item = doc! { "ok": 1.0, "idx": at, "n": outcome.get_i32("n").unwrap_or(0) };
            if is_update {
                item.insert("nModified", outcome.get_i32("nModified").unwrap_or(0));
            }
            if let Some(id) = outcome.get("upserted") {
                item.insert("upserted", doc! { "_id": id.clone() });
            }
            item
        }
        Err(fault) => {
            let mut item = doc! {
                "ok": 0.0,
                "idx": at,
                "code": fault.code.number,
                "errmsg": &fault.message,
            };
            item.extend(fault.details.clone());
            item.insert("n", 0);
            if is_update {
                item.insert("nModified", 0);
            }
            item
        }
    }
}

/// Total counts of the reply, such as `nInserted`.
fn summary(operations: &[BulkOperation<'_>], results: &[Result<Document, Fault>]) -> Document {
    let (mut errors, mut inserted, mut matched) = (0_i32, 0_i32, 0_i32);
    let (mut modified, mut upserted, mut deleted) = (0_i32, 0_i32, 0_i32);
    for (operation, result) in operations.iter().zip(results) {
        let Ok(outcome) = result else {
            errors += 1;
            continue;
        };
        let count = outcome.get_i32("n").unwrap_or(0);
        match operation {
            BulkOperation::Insert(_) => inserted += count,
            BulkOperation::Delete(_) => deleted += count,
            BulkOperation::Update(_) if outcome.contains_key("upserted") => upserted += count,
            BulkOperation::Update(_) => {
                matched += count;
                modified += outcome.get_i32("nModified").unwrap_or(0);
            }
        }
    }
    let mut summary = doc! {
        "nErrors": errors,
        "nInserted": inserted,
        "nMatched": matched,
        "nModified": modified,
        "nUpserted": upserted,
        "nDeleted": deleted,
    };
    let again: Vec<Bson> = retried_statements(results);
    if !again.is_empty() {
        summary.insert("retriedStmtIds", again);
    }
    summary
}
