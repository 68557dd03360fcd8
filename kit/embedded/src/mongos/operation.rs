//! A command in progress on a `mongos`, and its commands to shards.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

use bson::{Bson, Document, Timestamp, doc};
use steadfast_query::{Code, Collation, Environment, Fault};
use tokio::{sync::OwnedRwLockReadGuard, task::JoinSet, time::Instant};

use super::{
    Mongos,
    catalog::{Catalog, ShardedCollection},
    cluster::{Cluster, locked},
    preference::ReadPreference,
    shard::{SELECTION_TIMEOUT, ShardCommand, is_unreachable},
};
use crate::{
    call::Call,
    cursor::{Cursor, CursorOwner, CursorSource, FoundDocuments},
    namespace::Namespace,
    oplog::OrderedTimestamp,
};

/// Generic arguments. A `mongos` sends its own values to shards.
const GENERIC: &[&str] = &[
    "lsid",
    "txnNumber",
    "autocommit",
    "startTransaction",
    "readConcern",
    "writeConcern",
    "maxTimeMS",
    "recoveryToken",
    "$db",
    "$clusterTime",
    "$readPreference",
];

/// Purpose of a command to a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ShardCommandPurpose {
    /// Executes the client's command.
    Execute,
    /// Executes the same change on another shard. Change streams show only one of them.
    Duplicate,
    /// Reads before a write.
    Read,
}

impl ShardCommandPurpose {
    fn is_write(self) -> bool {
        matches!(self, Self::Execute | Self::Duplicate)
    }
}

/// A command in progress on a `mongos`.
#[derive(Debug)]
pub(super) struct MongosCommand {
    pub(super) mongos: Arc<Mongos>,
    pub(super) call: Call,
    pub(super) preference: ReadPreference,
    pub(super) deadline: Instant,
    /// Time of a snapshot read without `atClusterTime`.
    snapshot: Option<Timestamp>,
    newest_time: Mutex<Option<OrderedTimestamp>>,
}

impl MongosCommand {
    pub(super) fn new(mongos: Arc<Mongos>, call: Call) -> Result<Self, Fault> {
        let preference = ReadPreference::of(&call.body)?;
        let deadline = Instant::now() + call.max_time.unwrap_or(SELECTION_TIMEOUT);
        if let Some(time) = call.cluster_time {
            mongos.cluster.advance_cluster_time(time);
        }
        let concern = &call.read_concern;
        let snapshot = concern.level.as_deref() == Some("snapshot");
        let snapshot =
            (snapshot && concern.at_cluster_time.is_none()).then(|| mongos.cluster.time());
        Ok(Self { mongos, call, preference, deadline, snapshot, newest_time: Mutex::default() })
    }

    pub(super) fn cluster(&self) -> &Arc<Cluster> {
        &self.mongos.cluster
    }

    pub(super) fn catalog(&self) -> Arc<Catalog> {
        self.cluster().catalog()
    }

    /// Records the time of an event for `operationTime`.
    pub(super) fn record_time(&self, time: OrderedTimestamp) {
        let mut newest_time = locked(&self.newest_time);
        *newest_time = (*newest_time).max(Some(time));
        self.cluster().advance_cluster_time(time.into());
    }

    /// `operationTime` of the reply.
    pub(super) fn operation_time(&self) -> Option<Timestamp> {
        (*locked(&self.newest_time)).map(Timestamp::from)
    }

    /// Primary shard of the command's database. For a missing database any shard will do.
    pub(super) fn primary_shard(&self, catalog: &Catalog) -> String {
        let first = || catalog.shards().first().cloned().unwrap_or_default();
        catalog.primary(&self.call.database).map_or_else(first, str::to_owned)
    }

    /// Returns `true` for `commitTransaction` and `abortTransaction`.
    pub(super) fn ends_transaction(&self) -> bool {
        matches!(self.call.name.as_str(), "commitTransaction" | "abortTransaction")
    }

    /// Namespace in the first argument.
    pub(super) fn namespace(&self) -> Result<Namespace, Fault> {
        let argument = self.call.body.get(&self.call.name);
        match self.call.name.as_str() {
            "find" => Namespace::of_find(&self.call.database, argument),
            _ => Namespace::of_command(&self.call.database, argument),
        }
    }

    /// The command without generic arguments. Its name is the first field.
    pub(super) fn arguments(&self) -> Document {
        without_generic_arguments(&self.call.body)
    }

    /// Read concern for shards. A snapshot has the same time on all of them.
    pub(super) fn read_concern(&self) -> Option<Document> {
        let mut concern = self.call.body.get_document("readConcern").ok()?.clone();
        if let (Some(at), false) = (self.snapshot, concern.contains_key("atClusterTime")) {
            concern.remove("afterClusterTime");
            concern.insert("atClusterTime", at);
        }
        Some(concern)
    }

    /// Time of a snapshot read.
    pub(super) fn snapshot(&self) -> Option<Timestamp> {
        self.call.read_concern.at_cluster_time.or(self.snapshot)
    }

    /// Returns `true` in a multi-document transaction.
    pub(super) fn in_transaction(&self) -> bool {
        self.call.transaction.is_some_and(|it| it.multi_document)
    }

    /// Returns `true` for a retryable write.
    pub(super) fn is_retryable_write(&self) -> bool {
        self.call.transaction.is_some_and(|it| !it.multi_document)
    }

    /// Environment of the command's expressions.
    pub(super) fn environment(
        &self,
        sharded: Option<&ShardedCollection>,
    ) -> Result<Environment, Fault> {
        let mut env = self.cluster().environment();
        if let Ok(variables) = self.call.body.get_document("let") {
            env.variables = variables.clone();
        }
        let collation = self.call.body.get_document("collation").ok();
        if let Some(collation) = collation.or(sharded.and_then(|it| it.collation.as_ref())) {
            env.collation = Collation::parse(collation)?;
        }
        Ok(env)
    }

    /// Creates a command for a shard. It runs on the command's database, unless its `$db` names
    /// another.
    pub(super) fn shard_command(
        &self,
        shard: &str,
        body: &Document,
        purpose: ShardCommandPurpose,
    ) -> Result<ShardCommand, Fault> {
        let mut full = without_generic_arguments(body);
        let name = full.keys().next().cloned().unwrap_or_default();
        let database = match name.as_str() {
            "commitTransaction" | "abortTransaction" => "admin",
            _ => body.get_str("$db").unwrap_or(&self.call.database),
        };
        let mut general = vec!["lsid"];
        let mut starts = true;
        match self.call.transaction {
            Some(it) if it.multi_document => {
                general.extend(["txnNumber", "autocommit"]);
                starts = self.mongos.transactions.join(self, shard, &name)?;
                if starts {
                    full.insert("startTransaction", true);
                }
            }
            Some(_) if purpose.is_write() => general.push("txnNumber"),
            Some(_) | None => {}
        }
        let concern = match self.in_transaction() {
            true => self.mongos.transactions.read_concern(self),
            false => self.read_concern(),
        };
        if let Some(concern) = concern.filter(|_| starts) {
            full.insert("readConcern", concern);
        }
        if purpose.is_write() {
            general.extend(["writeConcern", "$readPreference"]);
        }
        for field in general {
            if let Some(value) = self.call.body.get(field) {
                full.insert(field, value.clone());
            }
        }
        if self.call.max_time.is_some() && name != "getMore" {
            full.insert("maxTimeMS", self.remaining_ms());
        }
        full.insert("$db", database);
        full.insert("$clusterTime", self.cluster().cluster_time());
        let mut call = Call::read(name, database, full)?;
        call.session.clone_from(&self.call.session);
        call.hidden_from_change_streams = purpose == ShardCommandPurpose::Duplicate;
        Ok(self.to_shard_command(call, purpose))
    }

    fn to_shard_command(&self, call: Call, purpose: ShardCommandPurpose) -> ShardCommand {
        let reads = is_read(&call);
        let repeatable = match call.transaction {
            Some(it) if it.multi_document => {
                matches!(call.name.as_str(), "commitTransaction" | "abortTransaction")
            }
            Some(_) => true,
            None => reads,
        };
        let preference = match purpose {
            ShardCommandPurpose::Execute if reads => self.preference.clone(),
            ShardCommandPurpose::Execute
            | ShardCommandPurpose::Duplicate
            | ShardCommandPurpose::Read => ReadPreference::primary(),
        };
        ShardCommand { call, preference, deadline: self.deadline, repeatable }
    }

    /// Milliseconds left of `maxTimeMS`.
    fn remaining_ms(&self) -> i64 {
        let remaining_ms = self.deadline.saturating_duration_since(Instant::now());
        i64::try_from(remaining_ms.as_millis()).unwrap_or(i64::MAX).max(1)
    }

    /// Runs a command on one shard.
    pub(super) async fn run_on_shard(
        &self,
        shard: &str,
        body: &Document,
        purpose: ShardCommandPurpose,
    ) -> Result<Document, Fault> {
        let shard_command = self.shard_command(shard, body, purpose)?;
        let answer = self.cluster().shard(shard)?.run(shard_command).await;
        self.process_reply(answer)
    }

    /// Forwards the client's command to one shard.
    pub(super) async fn forward(&self, shard: &str) -> Result<Document, Fault> {
        self.run_on_shard(shard, &self.call.body, ShardCommandPurpose::Execute).await
    }

    /// Runs commands on several shards concurrently. Replies are in the order of the commands.
    pub(super) async fn run_on_shards(
        &self,
        commands: Vec<(String, Document)>,
        purpose: ShardCommandPurpose,
    ) -> Result<Vec<(String, Result<Document, Fault>)>, Fault> {
        let mut running = JoinSet::new();
        for (place, (shard, body)) in commands.into_iter().enumerate() {
            let shard_command = self.shard_command(&shard, &body, purpose)?;
            let shard = self.cluster().shard(&shard)?.clone();
            running
                .spawn(async move { (place, shard.name.clone(), shard.run(shard_command).await) });
        }
        let mut answers = Vec::new();
        while let Some(answer) = running.join_next().await {
            let (place, shard, answer) = answer.map_err(task_panicked)?;
            answers.push((place, shard, self.process_reply(answer)));
        }
        answers.sort_by_key(|(place, _, _)| *place);
        Ok(answers.into_iter().map(|(_, shard, answer)| (shard, answer)).collect())
    }

    /// Runs the same command on several shards. The first error is returned.
    pub(super) async fn run_on_each(
        &self,
        shards: &BTreeSet<String>,
        body: &Document,
        purpose: ShardCommandPurpose,
    ) -> Result<Vec<(String, Document)>, Fault> {
        let commands = shards.iter().map(|shard| (shard.clone(), body.clone())).collect();
        let answers = self.run_on_shards(commands, purpose).await?;
        answers.into_iter().map(|(shard, answer)| Ok((shard, answer?))).collect()
    }

    /// Removes the times from a reply, because a `mongos` adds its own.
    pub(super) fn process_reply(&self, answer: Result<Document, Fault>) -> Result<Document, Fault> {
        let (mut answer, failed) = match answer {
            Ok(reply) => (reply, None),
            Err(mut fault) => {
                let details = std::mem::take(&mut fault.details);
                (details, Some(fault))
            }
        };
        if let Some(Bson::Timestamp(time)) = answer.remove("operationTime") {
            let mut newest_time = locked(&self.newest_time);
            *newest_time = (*newest_time).max(Some(time.into()));
        }
        if let Some(Bson::Document(time)) = answer.remove("$clusterTime")
            && let Ok(time) = time.get_timestamp("clusterTime")
        {
            self.cluster().advance_cluster_time(time);
        }
        for field in ["electionId", "opTime", "topologyVersion", "lastCommittedOpTime"] {
            answer.remove(field);
        }
        match failed {
            None => Ok(answer),
            Some(fault) => Err(fault.with(answer)),
        }
    }

    /// Runs a read on several shards concurrently and fetches all documents. With `partial`,
    /// unreachable shards are skipped (`allowPartialResults`).
    pub(super) async fn gather(
        &self,
        commands: Vec<(String, Document)>,
        purpose: ShardCommandPurpose,
        partial: bool,
    ) -> Result<Gathered, Fault> {
        let mut running = JoinSet::new();
        for (place, (shard, body)) in commands.into_iter().enumerate() {
            let shard_command = self.shard_command(&shard, &whole(body), purpose)?;
            let shard = self.cluster().shard(&shard)?.clone();
            running.spawn(
                async move { (place, shard.name.clone(), shard.drain(shard_command).await) },
            );
        }
        let mut answers = Vec::new();
        while let Some(answer) = running.join_next().await {
            answers.push(answer.map_err(task_panicked)?);
        }
        answers.sort_by_key(|(place, _, _)| *place);
        let mut gathered = Gathered::default();
        for (_, shard, answer) in answers {
            let (reply, documents) = match answer {
                Ok((reply, documents)) => (Ok(reply), documents),
                Err(fault) => (Err(fault), Vec::new()),
            };
            match self.process_reply(reply) {
                Ok(_) => gathered.found.push((shard, documents)),
                Err(fault) if partial && is_unreachable(&fault) => gathered.partial = true,
                Err(fault) => return Err(fault),
            }
        }
        Ok(gathered)
    }

    /// Opens a cursor over merged documents and returns its first batch.
    pub(super) fn open(
        &self,
        namespace: &Namespace,
        documents: Vec<Document>,
        batch_size: usize,
        single: bool,
    ) -> Result<Document, Fault> {
        let found = FoundDocuments::with_known_end(documents.into_iter().map(Arc::new).collect());
        let cursor = Cursor::new(
            namespace.clone(),
            CursorOwner::of(&self.call),
            CursorSource::FoundDocuments(found),
        );
        let mut reply = if single {
            cursor.open_single_batch(batch_size)?
        } else {
            let env = self.cluster().environment();
            cursor.open(Some(batch_size), &mut locked(&self.mongos.cursors), &env)?
        };
        if let (Some(at), Ok(cursor)) = (self.snapshot(), reply.get_document_mut("cursor")) {
            cursor.insert("atClusterTime", at);
        }
        Ok(reply)
    }

    /// Locks the collection of the command in shared mode. A transaction does so once. Chunks do
    /// not move before it ends.
    pub(super) async fn lock_shared(
        &self,
        namespace: &Namespace,
    ) -> Result<Option<OwnedRwLockReadGuard<()>>, Fault> {
        if !self.in_transaction() {
            return Ok(Some(self.cluster().lock_shared(namespace).await));
        }
        if self.mongos.transactions.has_accessed(self, namespace) {
            return Ok(None);
        }
        let guard = self.cluster().lock_shared(namespace).await;
        self.mongos.transactions.record_access(self, namespace)?;
        Ok(Some(guard))
    }
}

/// Documents of a read on several shards.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    pub(super) found: Vec<(String, Vec<Document>)>,
    /// `true` if a shard was skipped.
    pub(super) partial: bool,
}

impl Gathered {
    /// Documents of all shards, one shard after the other.
    pub(super) fn documents(self) -> Vec<Document> {
        self.found.into_iter().flat_map(|(_, documents)| documents).collect()
    }
}

/// The read without limits on its batches.
fn whole(mut body: Document) -> Document {
    match body.keys().next().map(String::as_str) {
        Some("find") => {
            body.remove("singleBatch");
            body.insert("batchSize", i32::MAX);
        }
        _ => {
            body.insert("cursor", doc! { "batchSize": i32::MAX });
        }
    }
    body
}

/// Error of a task that panicked.
pub(super) fn task_panicked(error: tokio::task::JoinError) -> Fault {
    Fault::new(Code::INTERNAL_ERROR, error.to_string())
}

/// The command without generic arguments.
pub(super) fn without_generic_arguments(body: &Document) -> Document {
    body.iter()
        .filter(|(name, _)| !GENERIC.contains(&name.as_str()))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// Returns `true` for commands that only read.
fn is_read(call: &Call) -> bool {
    match call.name.as_str() {
        "aggregate" => !ends_in_write(&call.body),
        "find" | "count" | "distinct" | "getMore" | "explain" | "listCollections"
        | "listIndexes" | "listDatabases" | "dbStats" | "collStats" | "dataSize"
        | "killCursors" | "validate" => true,
        _ => false,
    }
}

/// Returns `true` if a pipeline ends in `$out` or `$merge`.
pub(super) fn ends_in_write(body: &Document) -> bool {
    let stages = body.get_array("pipeline").map(Vec::as_slice).unwrap_or_default();
    stages
        .last()
        .and_then(Bson::as_document)
        .is_some_and(|stage| stage.contains_key("$out") || stage.contains_key("$merge"))
}
