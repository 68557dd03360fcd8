//! Write batches: statements run one after the other, each with its own result.

pub(super) mod delete_statement;
pub(super) mod insert_statement;
pub(super) mod query;
pub(super) mod update_statement;
pub(super) mod validation;

use std::mem;

use bson::{Bson, Document, doc};
use steadfast_query::{Code, Fault, value::format_document};

use super::{WriteContext, arguments::Arguments};
use crate::{call::Call, change::Statement};

/// Maximum number of statements of a command (`maxWriteBatchSize`).
const MAX_WRITE_BATCH_SIZE: usize = 100_000;

/// Marks a recorded result that answers a retried statement.
const RETRIED: &str = "retriedStmtId";

/// Arguments that apply to all statements of a command.
#[derive(Debug)]
pub(super) struct WriteBatch {
    /// Stops at the first error (`ordered`).
    ordered: bool,
    /// Skips schema validation (`bypassDocumentValidation`).
    pub(super) bypass_validation: bool,
    ids: StatementIds,
}

/// Statement ids, which retries refer to.
#[derive(Debug)]
enum StatementIds {
    From(i32),
    Listed(Vec<i32>),
}

impl WriteBatch {
    /// Parses the arguments that `insert`, `update`, `delete` and `bulkWrite` share.
    pub(super) fn read(arguments: &Arguments<'_>, count: usize) -> Result<Self, Fault> {
        if count == 0 || count > MAX_WRITE_BATCH_SIZE {
            return Err(Fault::new(
                Code::INVALID_LENGTH,
                format!(
                    "Write batch sizes must be between 1 and {MAX_WRITE_BATCH_SIZE}. Got {count} \
                     operations."
                ),
            ));
        }
        Ok(Self {
            ordered: arguments.flag("ordered")?.unwrap_or(true),
            bypass_validation: arguments.boolean("bypassDocumentValidation")?,
            ids: StatementIds::read(arguments, count)?,
        })
    }

    /// Executes the remaining statements and returns the results of all. An error stops an ordered
    /// batch, and any batch in a transaction.
    pub(super) fn run(
        &self,
        writing: &mut WriteContext<'_>,
        count: usize,
        mut execute: impl FnMut(&mut WriteContext<'_>, usize, Option<i32>) -> Result<Document, Fault>,
    ) -> Result<Vec<Result<Document, Fault>>, Fault> {
        let on_record = is_retryable_write(writing.call);
        for at in writing.progress.done.len()..count {
            let id = self.ids.of(at);
            let result = match writing.changes.recorded(id) {
                Some(outcome) => Ok(retried(outcome, id)),
                None => execute(writing, at, on_record.then_some(id)),
            };
            if let Err(fault) = &result
                && ends_command(fault)
            {
                return Err(fault.clone());
            }
            let ends = result.is_err() && (self.ordered || in_transaction(writing.call));
            writing.progress.done.push(result);
            if ends {
                break;
            }
        }
        Ok(mem::take(&mut writing.progress.done))
    }
}

impl StatementIds {
    fn read(arguments: &Arguments<'_>, count: usize) -> Result<Self, Fault> {
        let first = arguments.integer("stmtId")?;
        let listed = arguments.array("stmtIds")?;
        match (first, listed) {
            (Some(_), Some(_)) => Err(Fault::new(
                Code::INVALID_OPTIONS,
                "May not specify both stmtId and stmtIds in write command.",
            )),
            (first, None) => Ok(Self::From(int(first.unwrap_or(0)))),
            (None, Some(ids)) if ids.len() != count => Err(Fault::new(
                Code::INVALID_LENGTH,
                format!(
                    "Number of statement ids must match the number of batch entries. Got {} \
                     statement ids but {count} operations.",
                    ids.len()
                ),
            )),
            (None, Some(ids)) => ids
                .iter()
                .enumerate()
                .map(|(at, id)| match super::arguments::whole(id) {
                    Some(id) => Ok(int(id)),
                    None => Err(arguments.mistyped(&format!("stmtIds.{at}"), id, "type 'int'")),
                })
                .collect::<Result<_, _>>()
                .map(Self::Listed),
        }
    }

    fn of(&self, at: usize) -> i32 {
        match self {
            Self::From(first) => first.saturating_add(i32::try_from(at).unwrap_or(i32::MAX)),
            Self::Listed(ids) => ids.get(at).copied().unwrap_or(-1),
        }
    }
}

/// Reply of a write command: `n`, `writeErrors`, `retriedStmtIds`.
pub(super) fn reply(results: &[Result<Document, Fault>]) -> Document {
    let mut reply = doc! { "n": sum(results, "n") };
    let errors: Vec<Bson> = results
        .iter()
        .enumerate()
        .filter_map(|(at, result)| Some(write_error(at, result.as_ref().err()?).into()))
        .collect();
    if !errors.is_empty() {
        reply.insert("writeErrors", errors);
    }
    let again = retried_statements(results);
    if !again.is_empty() {
        reply.insert("retriedStmtIds", again);
    }
    reply
}

/// Ids of the statements that had been executed before (`retriedStmtIds`).
pub(super) fn retried_statements(results: &[Result<Document, Fault>]) -> Vec<Bson> {
    results.iter().filter_map(|result| result.as_ref().ok()?.get(RETRIED)).cloned().collect()
}

/// Sum of a field over all results.
pub(super) fn sum(results: &[Result<Document, Fault>], field: &str) -> i32 {
    let counted = results.iter().filter_map(|result| result.as_ref().ok()?.get_i32(field).ok());
    counted.fold(0, i32::saturating_add)
}

/// Element of `writeErrors`.
fn write_error(at: usize, fault: &Fault) -> Document {
    let mut error = doc! {
        "index": i32::try_from(at).unwrap_or(i32::MAX),
        "code": fault.code.number,
        "errmsg": &fault.message,
    };
    error.extend(fault.details.clone());
    error
}

/// Documents of an array argument. Rejects other elements.
pub(super) fn documents<'a>(
    arguments: &Arguments<'a>,
    field: &str,
) -> Result<Vec<&'a Document>, Fault> {
    let elements = arguments.required(field, arguments.array(field)?)?;
    elements
        .iter()
        .enumerate()
        .map(|(at, element)| match element {
            Bson::Document(document) => Ok(document),
            other => Err(arguments.mistyped(&format!("{field}.{at}"), other, "type 'object'")),
        })
        .collect()
}

/// Statement to record, if the command is a retryable write.
pub(super) fn statement(id: Option<i32>, outcome: impl FnOnce() -> Document) -> Option<Statement> {
    id.map(|id| Statement { id, outcome: outcome() })
}

/// Recorded result, marked as retried.
fn retried(mut outcome: Document, id: i32) -> Document {
    outcome.insert(RETRIED, id);
    outcome
}

/// Returns `true` for an error of the whole command, not of one statement: the command must wait,
/// or the server changes its state.
pub(super) fn ends_command(fault: &Fault) -> bool {
    COMMAND_ERRORS.contains(&fault.code)
}

const COMMAND_ERRORS: &[Code] = &[
    Code::WRITE_CONFLICT,
    Code::MAX_TIME_MS_EXPIRED,
    Code::EXCEEDED_TIME_LIMIT,
    Code::SHUTDOWN_IN_PROGRESS,
    Code::PRIMARY_STEPPED_DOWN,
    Code::NOT_WRITABLE_PRIMARY,
    Code::NOT_PRIMARY_NO_SECONDARY_OK,
    Code::NOT_PRIMARY_OR_SECONDARY,
    Code::INTERRUPTED,
    Code::INTERRUPTED_AT_SHUTDOWN,
    Code::INTERRUPTED_DUE_TO_REPL_STATE_CHANGE,
    Code::NO_SUCH_TRANSACTION,
    Code::TRANSACTION_TOO_OLD,
    Code::SNAPSHOT_TOO_OLD,
    Code::SNAPSHOT_UNAVAILABLE,
    Code::STALE_CONFIG,
];

/// Returns `true` for a retryable write.
pub(super) fn is_retryable_write(call: &Call) -> bool {
    call.transaction.is_some_and(|transaction| !transaction.multi_document)
}

fn in_transaction(call: &Call) -> bool {
    call.transaction.is_some_and(|transaction| transaction.multi_document)
}

/// Rejects a multi-document statement in a retryable write. Such a write has one record for each
/// statement.
pub(super) fn reject_multi(call: &Call, argument: &str) -> Result<(), Fault> {
    if !is_retryable_write(call) {
        return Ok(());
    }
    Err(Fault::new(
        Code::INVALID_OPTIONS,
        format!("Cannot use (or request) retryable writes with {argument}"),
    ))
}

fn int(number: i64) -> i32 {
    i32::try_from(number).unwrap_or(if number < 0 { i32::MIN } else { i32::MAX })
}

/// Error of a retry that differs from the write executed with its `txnNumber`.
pub(super) fn incompatible(command: &Document, removed: bool) -> Fault {
    Fault::location(
        if removed { 40606 } else { 40608 },
        format!(
            "findAndModify retry request: {} is not compatible with previous write in the \
             transaction",
            format_document(command)
        ),
    )
}

#[cfg(test)]
mod tests;
