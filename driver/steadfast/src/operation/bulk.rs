//! `insert_many` and `bulk_write` of a collection: many writes in few commands.
//!
//! [`Statements`] encodes the writes, or keeps them if they are raw documents. [`plan`] splits them
//! into batches once the server's limits are known, and [`CollectionBulkTally`] adds up the
//! replies.

mod error_details;
mod ids;
mod plan;
mod raw_documents;
mod statements;
mod tally;

pub(crate) use self::{
    error_details::BulkErrorDetails,
    ids::InsertedIds,
    plan::{CollectionBulkBatch, plan},
    statements::Statements,
    tally::CollectionBulkTally,
};
use super::write::{Settings, head};
use crate::{
    collection::CollectionHandle,
    command::{Command, CommandKind},
    error::Result,
    options::{BulkWriteOptions, WriteConcern},
};

/// Returns the settings of all writes of a `bulk_write`.
pub(crate) fn settings(options: &BulkWriteOptions) -> Settings<'_> {
    Settings {
        ordered: options.ordered.unwrap_or(true),
        bypass_document_validation: options.bypass_document_validation,
        let_vars: options.let_vars.as_ref(),
        comment: options.comment.as_ref(),
        write_concern: options.write_concern.as_ref(),
        timeout: options.timeout,
        ..Settings::default()
    }
}

/// Returns the command of a batch, without its statements. `followed` is `true` unless it is the
/// last.
pub(crate) fn command(
    collection: &CollectionHandle,
    settings: &Settings<'_>,
    batch: &CollectionBulkBatch,
    followed: bool,
) -> Result<Command> {
    let acknowledged = WriteConcern::nodes(1);
    let mut settings = *settings;
    if settings.ordered && followed && !is_acknowledged(collection, &settings) {
        // Without a reply the driver could not decide on the next batch, which might overtake this
        // one on another connection.
        settings.write_concern = Some(&acknowledged);
    }
    let kind = if batch.has_multi { CommandKind::Write } else { CommandKind::RetryableWrite };
    head(collection, batch.verb, &settings, kind)
}

/// Returns `true` if the write concern requests a reply.
pub(crate) fn is_acknowledged(collection: &CollectionHandle, settings: &Settings<'_>) -> bool {
    let concern = collection.write_concern(settings.write_concern).effective();
    settings.in_transaction || concern.is_none_or(WriteConcern::is_acknowledged)
}

#[cfg(test)]
mod tests;
