//! Commands on data.
//!
//! A command here is a plain function of its arguments and the data. Sessions, concerns, elections
//! and the network are handled by its callers.

mod aggregate;
pub(crate) mod arguments;
mod bulk_write;
mod change_stream;
mod coll_mod;
mod collections;
mod count;
mod delete;
mod distinct;
mod environment;
mod explain;
mod find;
mod find_and_modify;
mod get_more;
mod indexes;
mod info;
mod insert;
mod listing;
mod merge;
mod out;
mod resolved_namespace;
mod select;
mod server_stages;
mod statistics;
mod update;
mod write;

pub(crate) use get_more::{GetMore, cursors_to_kill, not_awaiting};

use std::sync::{Mutex, MutexGuard, PoisonError};

use bson::Document;
use steadfast_query::{Dialect, Environment, Fault};

use super::{
    call::Call,
    change::{BatchProgress, ChangeWriter},
    cursor::Cursors,
    oplog::StreamHistory,
    store::Store,
};

/// Input of a command that reads.
pub(crate) struct ReadContext<'a> {
    pub(crate) call: &'a Call,
    pub(crate) env: &'a Environment,
    /// Data that the command reads.
    pub(crate) store: &'a Store,
    /// Majority-committed oplog entries, for change streams.
    pub(crate) history: &'a StreamHistory,
    /// Open cursors of the member.
    pub(crate) cursors: &'a Mutex<Cursors>,
    /// Static facts about the server.
    pub(crate) server_info: &'a ServerInfo,
}

/// Input of a command that writes.
pub(crate) struct WriteContext<'a> {
    pub(crate) call: &'a Call,
    pub(crate) env: &'a Environment,
    pub(crate) changes: &'a mut dyn ChangeWriter,
    /// Data that it reads, if that differs from the data that it changes: `$out` on a secondary.
    pub(crate) seen: Option<&'a Store>,
    pub(crate) progress: &'a mut BatchProgress,
    pub(crate) cursors: &'a Mutex<Cursors>,
    pub(crate) server_info: &'a ServerInfo,
}

/// Static facts about a server.
#[derive(Clone, Debug)]
pub(crate) struct ServerInfo {
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

impl ServerInfo {
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
pub(crate) enum Handler {
    /// Reads. Secondaries run it if the command allows that.
    Read(fn(&ReadContext<'_>) -> Result<Document, Fault>),
    /// Writes. Only a primary runs it.
    Write(fn(&mut WriteContext<'_>) -> Result<Document, Fault>),
}

/// A row of the command table.
#[derive(Clone, Copy)]
pub(crate) struct Command {
    pub(crate) name: &'static str,
    /// Handler for a command body. `aggregate` writes if it ends in `$out` or `$merge`.
    pub(crate) run: fn(&Document) -> Handler,
    /// `true` if it is allowed in a multi-document transaction.
    pub(crate) in_transactions: bool,
    /// `true` if `txnNumber` makes it a retryable write.
    pub(crate) retryable: bool,
    /// `true` if any member runs it in any state.
    pub(crate) on_any_member: bool,
    /// `true` if it is part of the stable API, version 1.
    pub(crate) stable: bool,
}

impl Command {
    /// A command with all flags `false`.
    const fn new(name: &'static str, run: fn(&Document) -> Handler) -> Self {
        Self {
            name,
            run,
            in_transactions: false,
            retryable: false,
            on_any_member: false,
            stable: false,
        }
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
    const fn on_any_member(self) -> Self {
        Self { on_any_member: true, ..self }
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
    Command::new("bulkWrite", |_| Handler::Write(bulk_write::bulk_write)).in_transactions().retryable().stable(),
    Command::new("delete", |_| Handler::Write(delete::delete)).in_transactions().retryable().stable(),
    Command::new("findAndModify", |_| Handler::Write(find_and_modify::find_and_modify)).in_transactions().retryable().stable(),
    Command::new("findandmodify", |_| Handler::Write(find_and_modify::find_and_modify)).in_transactions().retryable().stable(),
    Command::new("insert", |_| Handler::Write(insert::insert)).in_transactions().retryable().stable(),
    Command::new("update", |_| Handler::Write(update::update)).in_transactions().retryable().stable(),

    // Reads.
    Command::new("aggregate", aggregate::run).in_transactions().stable(),
    Command::new("count", |_| Handler::Read(count::count)).stable(),
    Command::new("distinct", |_| Handler::Read(distinct::distinct)).in_transactions(),
    Command::new("explain", |_| Handler::Read(explain::explain)).stable(),
    Command::new("find", |_| Handler::Read(find::find)).in_transactions().stable(),
    Command::new("getMore", |_| Handler::Read(get_more::get_more)).in_transactions().on_any_member().stable(),
    Command::new("killCursors", |_| Handler::Read(get_more::kill_cursors)).in_transactions().on_any_member().stable(),
    Command::new("mapReduce", |_| Handler::Read(info::unsupported)),
    Command::new("mapreduce", |_| Handler::Read(info::unsupported)),

    // Collections and indexes.
    Command::new("cloneCollectionAsCapped", |_| Handler::Read(info::unsupported)),
    Command::new("collMod", |_| Handler::Write(coll_mod::coll_mod)).stable(),
    Command::new("collStats", |_| Handler::Read(statistics::collection)),
    Command::new("compact", |_| Handler::Read(info::unsupported)),
    Command::new("convertToCapped", |_| Handler::Read(info::unsupported)),
    Command::new("create", |_| Handler::Write(collections::create)).in_transactions().stable(),
    Command::new("createIndexes", |_| Handler::Write(indexes::create)).in_transactions().stable(),
    Command::new("dataSize", |_| Handler::Read(statistics::data_size)),
    Command::new("dbHash", |_| Handler::Read(statistics::hash)).on_any_member(),
    Command::new("dbStats", |_| Handler::Read(statistics::database)),
    Command::new("deleteIndexes", |_| Handler::Write(indexes::drop)),
    Command::new("drop", |_| Handler::Write(collections::drop)).stable(),
    Command::new("dropDatabase", |_| Handler::Write(collections::drop_database)).stable(),
    Command::new("dropIndexes", |_| Handler::Write(indexes::drop)).stable(),
    Command::new("listCollections", |_| Handler::Read(listing::collections)).stable(),
    Command::new("listDatabases", |_| Handler::Read(listing::databases)).stable(),
    Command::new("listIndexes", |_| Handler::Read(listing::indexes)).stable(),
    Command::new("planCacheClear", |_| Handler::Read(info::plan_cache_clear)),
    Command::new("reIndex", |_| Handler::Read(info::unsupported)),
    Command::new("renameCollection", |_| Handler::Write(collections::rename)),
    Command::new("validate", |_| Handler::Read(statistics::validate)).on_any_member(),

    // Diagnostics.
    Command::new("buildInfo", |_| Handler::Read(info::build_info)).on_any_member(),
    Command::new("buildinfo", |_| Handler::Read(info::build_info)).on_any_member(),
    Command::new("currentOp", |_| Handler::Read(info::current_op)).on_any_member(),
    Command::new("fsync", |_| Handler::Read(info::unsupported)).on_any_member(),
    Command::new("getCmdLineOpts", |_| Handler::Read(info::get_cmd_line_opts)).on_any_member(),
    Command::new("getLog", |_| Handler::Read(info::get_log)).on_any_member(),
    Command::new("hostInfo", |_| Handler::Read(info::host_info)).on_any_member(),
    Command::new("killOp", |_| Handler::Read(info::kill_op)).on_any_member(),
    Command::new("listCommands", |_| Handler::Read(info::list_commands)).on_any_member(),
    Command::new("logRotate", |_| Handler::Read(info::unsupported)).on_any_member(),
    Command::new("ping", |_| Handler::Read(info::ping)).on_any_member().stable(),
    Command::new("profile", |_| Handler::Read(info::profile)).on_any_member(),
    Command::new("serverStatus", |_| Handler::Read(info::server_status)).on_any_member(),
    Command::new("testVersion2", |_| Handler::Read(info::test_version)).on_any_member(),
    Command::new("testVersions1And2", |_| Handler::Read(info::test_version)).on_any_member().stable(),
    Command::new("top", |_| Handler::Read(info::unsupported)).on_any_member(),
];

#[cfg(test)]
mod tests;
