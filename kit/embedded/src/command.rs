//! Commands on data.
//!
//! A command here is a plain function of its arguments and the data. Sessions, concerns, elections
//! and the network are handled by its callers.

mod aggregate;
pub(crate) mod arguments;
mod bulk_write;
mod change_stream;
mod collections;
mod count;
mod delete;
mod distinct;
mod explain;
mod find;
mod find_and_modify;
mod indexes;
mod info;
mod insert;
mod listing;
mod merge;
mod modify;
mod more;
mod out;
mod scope;
mod select;
mod server_stages;
mod sight;
mod statistics;
mod update;
mod write;

pub(crate) use more::{GetMore, cursors_to_kill, not_awaiting};

use std::sync::{Mutex, MutexGuard, PoisonError};

use bson::Document;
use steadfast_query::{Dialect, Environment, Fault};

use super::{
    call::Call,
    change::{Changes, Progress},
    cursor::Cursors,
    log::Histories,
    store::Store,
};

/// Input of a command that reads.
pub(crate) struct Reading<'a> {
    pub(crate) call: &'a Call,
    pub(crate) env: &'a Environment,
    /// Data that the command reads.
    pub(crate) store: &'a Store,
    /// Majority-committed oplog entries, for change streams.
    pub(crate) history: &'a Histories,
    /// Open cursors of the member.
    pub(crate) cursors: &'a Mutex<Cursors>,
    /// Static facts about the server.
    pub(crate) about: &'a About,
}

/// Input of a command that writes.
pub(crate) struct Writing<'a> {
    pub(crate) call: &'a Call,
    pub(crate) env: &'a Environment,
    pub(crate) changes: &'a mut dyn Changes,
    /// Data that it reads, if that differs from the data that it changes: `$out` on a secondary.
    pub(crate) seen: Option<&'a Store>,
    pub(crate) progress: &'a mut Progress,
    pub(crate) cursors: &'a Mutex<Cursors>,
    pub(crate) about: &'a About,
}

/// Static facts about a server.
#[derive(Clone, Debug)]
pub(crate) struct About {
    /// `8.0.4`.
    pub(crate) version: String,
    pub(crate) max_wire_version: i32,
    /// `host:port`.
    pub(crate) address: String,
    pub(crate) set_name: Option<String>,
    pub(crate) process_id: i32,
    /// Start time of the process.
    pub(crate) started: bson::DateTime,
}

impl About {
    /// Version of its query language.
    pub(crate) fn dialect(&self) -> Dialect {
        dialect(self.max_wire_version)
    }
}

/// Version of the query language of servers with this wire version.
pub(crate) fn dialect(max_wire_version: i32) -> Dialect {
    if max_wire_version >= 27 { Dialect::V8_2 } else { Dialect::V6_0 }
}

/// Function that runs a command.
#[derive(Clone, Copy)]
pub(crate) enum Run {
    /// Reads. Secondaries run it if the command allows that.
    Read(fn(&Reading<'_>) -> Result<Document, Fault>),
    /// Writes. Only a primary runs it.
    Write(fn(&mut Writing<'_>) -> Result<Document, Fault>),
}

/// A row of the command table.
#[derive(Clone, Copy)]
pub(crate) struct Command {
    pub(crate) name: &'static str,
    /// Handler for a command body. `aggregate` writes if it ends in `$out` or `$merge`.
    pub(crate) run: fn(&Document) -> Run,
    /// `true` if it is allowed in a multi-document transaction.
    pub(crate) in_transactions: bool,
    /// `true` if `txnNumber` makes it a retryable write.
    pub(crate) retryable: bool,
    /// `true` if any member runs it in any state.
    pub(crate) anywhere: bool,
    /// `true` if it is part of the stable API, version 1.
    pub(crate) stable: bool,
}

impl Command {
    /// A command with all flags `false`.
    const fn new(name: &'static str, run: fn(&Document) -> Run) -> Self {
        Self { name, run, in_transactions: false, retryable: false, anywhere: false, stable: false }
    }

    /// Allows it in transactions.
    const fn in_transactions(self) -> Self {
        Self { in_transactions: true, ..self }
    }

    /// Makes it retryable with `txnNumber`.
    const fn retryable(self) -> Self {
        Self { retryable: true, ..self }
    }

    /// Lets any member run it in any state.
    const fn anywhere(self) -> Self {
        Self { anywhere: true, ..self }
    }

    /// Adds it to the stable API.
    const fn stable(self) -> Self {
        Self { stable: true, ..self }
    }
}

/// Locks the cursors of a member. Cursors stay valid after a panic of another command.
fn lock(cursors: &Mutex<Cursors>) -> MutexGuard<'_, Cursors> {
    cursors.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns `true` for an `aggregate` that opens a change stream.
pub(crate) fn opens_change_stream(body: &Document) -> bool {
    let first = body.get_array("pipeline").ok().and_then(|stages| stages.first());
    let first = first.and_then(bson::Bson::as_document);
    first.is_some_and(|stage| stage.len() == 1 && stage.contains_key("$changeStream"))
}

/// Finds a command by its name.
pub(crate) fn find(name: &str) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| command.name == name)
}

/// All commands, one per line.
#[rustfmt::skip]
const COMMANDS: &[Command] = &[
    // Writes of documents.
    Command::new("bulkWrite", |_| Run::Write(bulk_write::bulk_write)).in_transactions().retryable().stable(),
    Command::new("delete", |_| Run::Write(delete::delete)).in_transactions().retryable().stable(),
    Command::new("findAndModify", |_| Run::Write(find_and_modify::find_and_modify)).in_transactions().retryable().stable(),
    Command::new("findandmodify", |_| Run::Write(find_and_modify::find_and_modify)).in_transactions().retryable().stable(),
    Command::new("insert", |_| Run::Write(insert::insert)).in_transactions().retryable().stable(),
    Command::new("update", |_| Run::Write(update::update)).in_transactions().retryable().stable(),

    // Reads.
    Command::new("aggregate", aggregate::run).in_transactions().stable(),
    Command::new("count", |_| Run::Read(count::count)).stable(),
    Command::new("distinct", |_| Run::Read(distinct::distinct)).in_transactions(),
    Command::new("explain", |_| Run::Read(explain::explain)).stable(),
    Command::new("find", |_| Run::Read(find::find)).in_transactions().stable(),
    Command::new("getMore", |_| Run::Read(more::get_more)).in_transactions().anywhere().stable(),
    Command::new("killCursors", |_| Run::Read(more::kill_cursors)).in_transactions().anywhere().stable(),
    Command::new("mapReduce", |_| Run::Read(info::refused)),
    Command::new("mapreduce", |_| Run::Read(info::refused)),

    // Collections and indexes.
    Command::new("cloneCollectionAsCapped", |_| Run::Read(info::refused)),
    Command::new("collMod", |_| Run::Write(modify::modify)).stable(),
    Command::new("collStats", |_| Run::Read(statistics::collection)),
    Command::new("compact", |_| Run::Read(info::refused)),
    Command::new("convertToCapped", |_| Run::Read(info::refused)),
    Command::new("create", |_| Run::Write(collections::create)).in_transactions().stable(),
    Command::new("createIndexes", |_| Run::Write(indexes::create)).in_transactions().stable(),
    Command::new("dataSize", |_| Run::Read(statistics::data_size)),
    Command::new("dbHash", |_| Run::Read(statistics::hash)).anywhere(),
    Command::new("dbStats", |_| Run::Read(statistics::database)),
    Command::new("deleteIndexes", |_| Run::Write(indexes::drop)),
    Command::new("drop", |_| Run::Write(collections::drop)).stable(),
    Command::new("dropDatabase", |_| Run::Write(collections::drop_database)).stable(),
    Command::new("dropIndexes", |_| Run::Write(indexes::drop)).stable(),
    Command::new("listCollections", |_| Run::Read(listing::collections)).stable(),
    Command::new("listDatabases", |_| Run::Read(listing::databases)).stable(),
    Command::new("listIndexes", |_| Run::Read(listing::indexes)).stable(),
    Command::new("planCacheClear", |_| Run::Read(info::clear_plans)),
    Command::new("reIndex", |_| Run::Read(info::refused)),
    Command::new("renameCollection", |_| Run::Write(collections::rename)),
    Command::new("validate", |_| Run::Read(statistics::validate)).anywhere(),

    // Diagnostics.
    Command::new("buildInfo", |_| Run::Read(info::build)).anywhere(),
    Command::new("buildinfo", |_| Run::Read(info::build)).anywhere(),
    Command::new("currentOp", |_| Run::Read(info::operations)).anywhere(),
    Command::new("fsync", |_| Run::Read(info::refused)).anywhere(),
    Command::new("getCmdLineOpts", |_| Run::Read(info::options)).anywhere(),
    Command::new("getLog", |_| Run::Read(info::log)).anywhere(),
    Command::new("hostInfo", |_| Run::Read(info::host)).anywhere(),
    Command::new("killOp", |_| Run::Read(info::kill)).anywhere(),
    Command::new("listCommands", |_| Run::Read(info::commands)).anywhere(),
    Command::new("logRotate", |_| Run::Read(info::refused)).anywhere(),
    Command::new("ping", |_| Run::Read(info::ping)).anywhere().stable(),
    Command::new("profile", |_| Run::Read(info::profile)).anywhere(),
    Command::new("serverStatus", |_| Run::Read(info::status)).anywhere(),
    Command::new("testVersion2", |_| Run::Read(info::nothing)).anywhere(),
    Command::new("testVersions1And2", |_| Run::Read(info::nothing)).anywhere().stable(),
    Command::new("top", |_| Run::Read(info::refused)).anywhere(),
];

#[cfg(test)]
mod tests;
