//! Many writes in few commands: `insert_many` and `bulk_write`.
//!
//! The writes are encoded as they come, or held if they are bytes already ([`Statements`]). They are
//! cut into batches once the server's limits are known ([`plan`]), sent batch by batch, and counted
//! together again ([`Tally`]).

mod evidence;
mod held;
mod ids;
mod plan;
mod statements;
mod tally;

pub(crate) use self::{
    evidence::Evidence,
    ids::InsertedIds,
    plan::{Batch, plan},
    statements::Statements,
    tally::Tally,
};
use super::write::{Settings, head};
use crate::{
    collection::Handle,
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

/// The command that carries out a batch, which is `followed` by others or is the last, but for its
/// statements.
pub(crate) fn command(
    collection: &Handle,
    settings: &Settings<'_>,
    batch: &Batch,
    followed: bool,
) -> Result<Command> {
    let answered = WriteConcern::nodes(1);
    let mut settings = *settings;
    if settings.ordered && followed && !is_acknowledged(collection, &settings) {
        // Without an answer nobody would know whether the next batch may be sent, and it might
        // overtake this one on another connection.
        settings.write_concern = Some(&answered);
    }
    let kind = if batch.has_multi { CommandKind::Write } else { CommandKind::RetryableWrite };
    head(collection, batch.verb, &settings, kind)
}

/// Returns `true` if the write concern requests a reply.
pub(crate) fn is_acknowledged(collection: &Handle, settings: &Settings<'_>) -> bool {
    let concern = collection.write_concern(settings.write_concern).chosen();
    settings.in_transaction || concern.is_none_or(WriteConcern::is_acknowledged)
}

#[cfg(test)]
mod tests;
