//! `bulkWrite`: writes of all kinds to several collections in few commands, for servers from 8.0.
//!
//! The writes are encoded as they come ([`Operations`]), cut into batches once the server's limits
//! are known ([`plan`]), and sent batch by batch. What became of each is in a cursor; it is counted
//! together with what the reply says of all ([`Tally`]).

mod operations;
mod plan;
mod tally;

use std::sync::{Arc, LazyLock};

use bson::{RawBson, RawDocumentBuf, raw::cstr};

pub(crate) use self::{
    operations::Operations,
    plan::{Batch, plan},
    tally::Tally,
};
use super::{Concern, add_write_concern, write::Settings};
use crate::{
    Client,
    command::{Command, CommandKind, Target},
    error::{Error, Result},
    options::WriteConcern,
};

/// The database that the command runs on, whichever its collections are in.
static ADMIN: LazyLock<Arc<str>> = LazyLock::new(|| Arc::from("admin"));

/// The command that carries out a batch, but for its operations and their collections.
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
        command.field(cstr!("comment"), RawBson::try_from(comment.clone())?);
    }
    if let Some(variables) = settings.let_vars {
        command.field(cstr!("let"), RawDocumentBuf::try_from(variables)?);
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
    let concern = write_concern(client, settings).chosen();
    settings.in_transaction || concern.is_none_or(WriteConcern::is_acknowledged)
}

/// Refuses what cannot be had of a server that does not answer.
pub(crate) fn check_unanswered(settings: &Settings<'_>, verbose: bool) -> Result<()> {
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
