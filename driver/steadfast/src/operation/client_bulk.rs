//! `bulkWrite` (MongoDB 8.0 or later): writes of any kind to several collections in few commands.
//!
//! [`Operations`] encodes the writes. [`plan`] splits them into batches once the server's limits
//! are known, and [`ClientBulkTally`] adds up the replies and the items of their cursors.

mod operations;
mod plan;
mod tally;

use std::sync::{Arc, LazyLock};

use bson::raw::cstr;

pub(crate) use self::{
    operations::Operations,
    plan::{ClientBulkBatch, plan},
    tally::ClientBulkTally,
};
use super::{Concern, add_write_concern, write::Settings};
use crate::{
    Client,
    command::{Command, CommandKind, Target},
    error::{Error, Result},
    options::WriteConcern,
};

/// Database of the command, regardless of the collections.
static ADMIN: LazyLock<Arc<str>> = LazyLock::new(|| Arc::from("admin"));

/// Returns the command of a batch, without its operations and namespaces.
pub(crate) fn command(
    client: &Client,
    settings: &Settings<'_>,
    verbose: bool,
    has_multi: bool,
) -> Result<Command> {
    let kind = if has_multi { CommandKind::Write } else { CommandKind::RetryableWrite };
    let mut command = Command::new(cstr!("bulkWrite"), 1, &ADMIN, Target::Write, kind);
    command.field(cstr!("errorsOnly"), !verbose);
    command.field(cstr!("ordered"), settings.ordered);
    if let Some(bypass) = settings.bypass_document_validation {
        command.field(cstr!("bypassDocumentValidation"), bypass);
    }
    if let Some(comment) = settings.comment {
        command.field(cstr!("comment"), bson::to_raw_value(comment.clone())?);
    }
    if let Some(variables) = settings.let_vars {
        command.field(cstr!("let"), bson::to_raw_document(variables)?);
    }
    if !settings.in_transaction {
        add_write_concern(&mut command, write_concern(client, settings))?;
    }
    command.limit(settings.timeout, client.timeout());
    Ok(command)
}

fn write_concern<'w>(client: &'w Client, settings: &Settings<'w>) -> Concern<'w, WriteConcern> {
    Concern { own: settings.write_concern, inherited: client.write_concern() }
}

/// Returns `true` if the write concern requests a reply.
pub(crate) fn is_acknowledged(client: &Client, settings: &Settings<'_>) -> bool {
    let concern = write_concern(client, settings).effective();
    settings.in_transaction || concern.is_none_or(WriteConcern::is_acknowledged)
}

/// Returns an error for options that require replies.
pub(crate) fn check_unacknowledged(settings: &Settings<'_>, verbose: bool) -> Result<()> {
    let wanted = match (verbose, settings.ordered) {
        (true, _) => "verbose results",
        (false, true) => "ordered writes",
        (false, false) => return Ok(()),
    };
    Err(Error::invalid_argument(format!(
        "Cannot request unacknowledged write concern and {wanted}"
    )))
}

#[cfg(test)]
mod tests;
