//! A `mongos`: targets commands to shards and merges their replies.
//!
//! The metadata of a cluster is a plain [`catalog`](catalog::Catalog): chunks, zones, primary
//! shards. All mongos share it, so none is ever stale. Most commands hold the lock of their
//! collection in shared mode. Chunk migrations, and writes that must read before they write, hold
//! it in exclusive mode.
//!
//! The balancer is on from the start, as in a real cluster. It moves chunks out of shards that
//! their zone does not allow, then from shards with many chunks to shards with few, one at a time,
//! whenever the catalog changes. Tests that need to see each migration stop it and call
//! [`balancer_step`](cluster::Cluster::balancer_step).

mod admin;
mod aggregate;
mod balancer;
mod bulk;
mod catalog;
mod chunks;
mod cluster;
mod config;
mod coordinator;
mod cursors;
mod ddl;
mod find_and_modify;
mod key;
mod migration;
mod multi_shard;
mod operation;
mod preference;
mod reads;
mod sessions;
mod shard;
mod single_document_write;
mod statements;
mod streams;
mod target;
#[cfg(test)]
mod tests;
mod transactions;
mod write_without_shard_key;
mod writes;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use bson::{Document, doc, oid::ObjectId};
use steadfast_query::{Code, Fault};
use tokio::sync::watch;

use self::{
    cluster::locked, cursors::ShardCursors, operation::MongosCommand, shard::with_label,
    statements::StatementKind, streams::ChangeStreams, transactions::MongosTransactions,
};
use super::{
    call::Call,
    command::{self, Handler, ReadContext, ServerInfo},
    cursor::Cursors,
    node::{ProcessState, check, check_transaction_end},
    oplog::MemberHistory,
    store::Store,
};
use blackpipe_base::codes;

pub(crate) use cluster::{Cluster, ClusterConfig};

/// A `mongos`.
#[derive(Debug)]
pub(crate) struct Mongos {
    pub(crate) cluster: Arc<Cluster>,
    server_info: ServerInfo,
    process: ObjectId,
    cursors: Mutex<Cursors>,
    shard_cursors: Mutex<ShardCursors>,
    streams: Mutex<ChangeStreams>,
    transactions: MongosTransactions,
    process_state: watch::Sender<ProcessState>,
    topology: watch::Sender<u64>,
}

impl Mongos {
    fn new(cluster: Arc<Cluster>, address: String) -> Arc<Self> {
        let env = cluster.environment();
        let server_info = ServerInfo {
            version: cluster.config.version.clone(),
            max_wire_version: cluster.config.max_wire_version,
            address,
            set_name: None,
            process_id: i32::try_from(std::process::id()).unwrap_or(1),
            started: env.now,
        };
        Arc::new(Self {
            process: env.object_id(),
            cluster,
            server_info,
            cursors: Mutex::default(),
            shard_cursors: Mutex::default(),
            streams: Mutex::default(),
            transactions: MongosTransactions::default(),
            process_state: watch::Sender::new(ProcessState::Running),
            topology: watch::Sender::new(0),
        })
    }

    /// Runs a command, including all waits, and returns the complete reply.
    ///
    /// The future can be dropped at any time. Writes done by then stay.
    pub(crate) async fn run(self: &Arc<Self>, call: Call) -> Document {
        let op = match MongosCommand::new(self.clone(), call) {
            Ok(op) => op,
            Err(fault) => return fault.to_reply(),
        };
        let outcome = self.execute(&op).await;
        self.finish(&op, outcome)
    }

    /// Reply to `hello` without the fields of a connection.
    pub(crate) fn hello(&self) -> Document {
        let counter = i64::try_from(*self.topology.borrow()).unwrap_or(i64::MAX);
        doc! {
            "isWritablePrimary": true,
            "msg": "isdbgrid",
            "topologyVersion": { "processId": self.process, "counter": counter },
            "maxBsonObjectSize": 16 * 1024 * 1024,
            "maxMessageSizeBytes": 48_000_000,
            "maxWriteBatchSize": 100_000,
            "localTime": self.cluster.clock.wall_time(Duration::ZERO),
            "logicalSessionTimeoutMinutes": 30,
            "maxWireVersion": self.server_info.max_wire_version,
            "minWireVersion": 0,
        }
    }

    /// Returns `true` for commands that open or continue a change stream. Before 4.4 their errors
    /// have no label for resumable errors.
    pub(crate) fn uses_change_stream(&self, name: &str, body: &Document) -> bool {
        let has_error_labels = self.server_info.max_wire_version >= 9;
        has_error_labels
            && match name {
                "aggregate" => command::opens_change_stream(body),
                "getMore" => {
                    locked(&self.cursors).awaits_data(body.get_i64("getMore").unwrap_or(0))
                }
                _ => false,
            }
    }

    /// Counter of the topology version.
    pub(crate) fn topology(&self) -> watch::Receiver<u64> {
        self.topology.subscribe()
    }

    /// Process state.
    pub(crate) fn process_state(&self) -> watch::Receiver<ProcessState> {
        self.process_state.subscribe()
    }

    /// Sets the process state. A killed process loses its cursors and open transactions.
    pub(crate) fn set_process_state(&self, process_state: ProcessState) {
        if process_state == ProcessState::Killed {
            locked(&self.cursors).kill_all();
            *locked(&self.shard_cursors) = ShardCursors::default();
            self.transactions.clear(&self.cluster);
        }
        self.process_state.send_replace(process_state);
    }

    /// Static facts about the server.
    pub(crate) fn server_info(&self) -> &ServerInfo {
        &self.server_info
    }

    async fn execute(&self, op: &MongosCommand) -> Result<Document, Fault> {
        let ends = op.ends_transaction();
        if ends {
            check_transaction_end(&op.call)?;
        } else if let Some(command) = command::find(&op.call.name) {
            check(&op.call, command, true)?;
        }
        if !op.in_transaction() || ends {
            return dispatch(op).await;
        }
        match self.transactions.enter(op) {
            Ok(None) => {}
            Ok(Some((number, shards))) => transactions::abort_older(op, number, shards).await,
            Err(fault) => {
                let kind = StatementKind::of_command(&op.call.name);
                return match kind.filter(|_| fault.code == Code::TRANSACTION_COMMITTED) {
                    Some(kind) => writes::rejected_by_shard(op, kind, fault),
                    None => Err(fault),
                };
            }
        }
        let outcome = dispatch(op).await;
        let failed = match &outcome {
            Ok(reply) => reply.contains_key("writeErrors"),
            Err(_) => true,
        };
        if failed {
            let shards = self.transactions.fail(op);
            transactions::abort_on(op, shards).await;
        }
        outcome.map_err(|fault| {
            let transient = codes::is_transient_in_transaction(fault.code.number, false);
            if transient { with_label(fault, "TransientTransactionError") } else { fault }
        })
    }

    /// Adds `operationTime` and `$clusterTime`.
    pub(crate) fn add_cluster_times(&self, reply: &mut Document) {
        reply.insert("$clusterTime", self.cluster.cluster_time());
        reply.insert("operationTime", self.cluster.time());
    }

    /// Completes a reply with its generic fields.
    fn finish(&self, op: &MongosCommand, outcome: Result<Document, Fault>) -> Document {
        let has_token = op.in_transaction()
            && match &outcome {
                Ok(_) => self.transactions.record_success(op),
                Err(_) => op.ends_transaction() && self.transactions.is_current(op),
            };
        let mut reply = match outcome {
            Ok(mut reply) => {
                reply.remove("ok");
                let labels = reply.remove("errorLabels");
                reply.insert("ok", 1.0);
                if let Some(labels) = labels {
                    reply.insert("errorLabels", labels);
                }
                reply
            }
            Err(fault) => fault.to_reply(),
        };
        if has_token {
            reply.insert("recoveryToken", self.transactions.recovery_token(op));
        }
        let time = op.operation_time().unwrap_or_else(|| self.cluster.time());
        reply.insert("$clusterTime", self.cluster.cluster_time());
        reply.insert("operationTime", time);
        reply
    }
}

/// First wire version with `checkMetadataConsistency` (MongoDB 7.0).
const METADATA_CHECK_SUPPORTED: i32 = 21;

/// Reply of `checkMetadataConsistency`. All shards share one catalog, so it is always consistent.
fn consistent_metadata(database: &str) -> Document {
    let namespace = format!("{database}.$cmd.aggregate");
    doc! { "cursor": { "firstBatch": [], "id": 0_i64, "ns": namespace } }
}

/// Runs a command by its name.
async fn dispatch(op: &MongosCommand) -> Result<Document, Fault> {
    let name = op.call.name.as_str();
    if admin::is_sharding_command(name) {
        return admin::run(op).await;
    }
    match name {
        "hello" | "isMaster" | "ismaster" => Ok(op.mongos.hello()),
        "insert" => writes::write(op, StatementKind::Insert).await,
        "update" => writes::write(op, StatementKind::Update).await,
        "delete" => writes::write(op, StatementKind::Delete).await,
        "findAndModify" | "findandmodify" => find_and_modify::find_and_modify(op).await,
        "bulkWrite" => bulk::bulk_write(op).await,
        "find" => reads::find(op).await,
        "count" => reads::count(op).await,
        "distinct" => reads::distinct(op).await,
        "explain" => reads::explain(op).await,
        "aggregate" => aggregate::aggregate(op).await,
        "getMore" => cursors::get_more(op).await,
        "killCursors" => cursors::kill(op).await,
        "create" => ddl::create(op).await,
        "drop" => ddl::drop_collection(op).await,
        "dropDatabase" => ddl::drop_database(op).await,
        "createIndexes" => ddl::create_indexes(op).await,
        "dropIndexes" | "deleteIndexes" | "collMod" => ddl::of_collection(op).await,
        "renameCollection" => ddl::rename(op).await,
        "validate" | "dataSize" | "planCacheClear" => ddl::if_unsharded(op).await,
        "listCollections" | "listIndexes" => ddl::on_primary_shard(op).await,
        "listDatabases" => ddl::list_databases(op).await,
        "checkMetadataConsistency"
            if op.cluster().config.max_wire_version >= METADATA_CHECK_SUPPORTED =>
        {
            Ok(consistent_metadata(&op.call.database))
        }
        "dbStats" | "dbstats" => ddl::database_statistics(op).await,
        "collStats" | "collstats" => ddl::collection_statistics(op).await,
        "commitTransaction" => transactions::commit(op).await,
        "abortTransaction" => transactions::abort(op).await,
        "startSession"
        | "endSessions"
        | "refreshSessions"
        | "killSessions"
        | "killAllSessions"
        | "killAllSessionsByPattern"
        | "appendOplogNote" => sessions::run(op).await,
        _ => diagnostic_command(op),
    }
}

/// Runs diagnostic commands of the `mongos` itself.
fn diagnostic_command(op: &MongosCommand) -> Result<Document, Fault> {
    let name = &op.call.name;
    let Some(command) = command::find(name) else {
        return Err(Fault::new(Code::COMMAND_NOT_FOUND, format!("no such command: '{name}'")));
    };
    match (command.run)(&op.call.body) {
        Handler::Read(run) if command.on_any_member => {
            let env = op.environment(None)?;
            let reading = ReadContext {
                call: &op.call,
                env: &env,
                store: &Store::default(),
                history: &MemberHistory::default().into(),
                cursors: &op.mongos.cursors,
                server_info: &op.mongos.server_info,
            };
            run(&reading)
        }
        Handler::Read(_) | Handler::Write(_) => Err(Fault::new(
            Code::COMMAND_NOT_SUPPORTED,
            format!("{name} is not supported through a router of an embedded cluster"),
        )),
    }
}
