//! The commands on data: what each makes of its arguments and the data it sees.
//!
//! A command here is a plain function. Sessions, read and write concern, elections and the network are
//! around it, not in it.

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

/// What a command that reads is given.
pub(crate) struct Reading<'a> {
    pub(crate) call: &'a Call,
    pub(crate) env: &'a Environment,
    /// The data as this command may see it.
    pub(crate) store: &'a Store,
    /// What has been written, up to what most members have.
    pub(crate) history: &'a Histories,
    /// Where the member keeps what clients have not fetched yet.
    pub(crate) cursors: &'a Mutex<Cursors>,
    /// What the server tells of itself.
    pub(crate) about: &'a About,
}

/// What a command that changes data is given.
pub(crate) struct Writing<'a> {
    pub(crate) call: &'a Call,
    pub(crate) env: &'a Environment,
    pub(crate) changes: &'a mut dyn Changes,
    /// What it reads, if that is not what it changes: a secondary's data.
    pub(crate) seen: Option<&'a Store>,
    pub(crate) progress: &'a mut Progress,
    pub(crate) cursors: &'a Mutex<Cursors>,
    pub(crate) about: &'a About,
}

/// What a server tells of itself.
#[derive(Clone, Debug)]
pub(crate) struct About {
    /// `8.0.4`.
    pub(crate) version: String,
    pub(crate) max_wire_version: i32,
    /// `host:port`.
    pub(crate) address: String,
    pub(crate) set_name: Option<String>,
    pub(crate) process_id: i32,
    /// When it was started.
    pub(crate) started: bson::DateTime,
}

impl About {
    /// The version of its query language.
    pub(crate) fn dialect(&self) -> Dialect {
        dialect(self.max_wire_version)
    }
}

/// The version of the query language of servers with this wire version.
pub(crate) fn dialect(max_wire_version: i32) -> Dialect {
    if max_wire_version >= 27 { Dialect::V8_2 } else { Dialect::V6_0 }
}

/// How a command is run.
#[derive(Clone, Copy)]
pub(crate) enum Run {
    /// It reads: on a secondary, too, if the call allows it.
    Read(fn(&Reading<'_>) -> Result<Document, Fault>),
    /// It changes data: on a primary only.
    Write(fn(&mut Writing<'_>) -> Result<Document, Fault>),
}

/// A command of the table.
#[derive(Clone, Copy)]
pub(crate) struct Command {
    pub(crate) name: &'static str,
    /// Which way a call of it is run: `aggregate` writes if it ends in `$out`.
    pub(crate) run: fn(&Document) -> Run,
    /// Whether it may be a part of a transaction.
    pub(crate) in_transactions: bool,
    /// Whether `txnNumber` makes it a retryable write.
    pub(crate) retryable: bool,
    /// Whether it says something of the server alone, which any member answers at any time.
    pub(crate) anywhere: bool,
    /// Whether it is part of the stable API, version 1.
    pub(crate) stable: bool,
}

impl Command {
    /// One that may do nothing special yet.
    const fn new(name: &'static str, run: fn(&Document) -> Run) -> Self {
        Self { name, run, in_transactions: false, retryable: false, anywhere: false, stable: false }
    }

    /// The same, as a part of transactions, too.
    const fn in_transactions(self) -> Self {
        Self { in_transactions: true, ..self }
    }

    /// The same, as a retryable write if it has a `txnNumber`.
    const fn retryable(self) -> Self {
        Self { retryable: true, ..self }
    }

    /// The same, answered by any member at any time.
    const fn anywhere(self) -> Self {
        Self { anywhere: true, ..self }
    }

    /// The same, as a part of the stable API.
    const fn stable(self) -> Self {
        Self { stable: true, ..self }
    }
}

/// The cursors of a member. What a command that panicked left of them is as good as before.
fn lock(cursors: &Mutex<Cursors>) -> MutexGuard<'_, Cursors> {
    cursors.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether an `aggregate` opens a change stream.
pub(crate) fn opens_change_stream(body: &Document) -> bool {
    let first = body.get_array("pipeline").ok().and_then(|stages| stages.first());
    let first = first.and_then(bson::Bson::as_document);
    first.is_some_and(|stage| stage.len() == 1 && stage.contains_key("$changeStream"))
}

/// The command of this name, if it is known.
pub(crate) fn find(name: &str) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| command.name == name)
}

/// All commands, a line for each.
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

    // What the server tells of itself.
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
