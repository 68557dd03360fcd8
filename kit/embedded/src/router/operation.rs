//! A command in progress on a `mongos`, and its commands to shards.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

use bson::{Bson, Document, Timestamp, doc};
use steadfast_query::{Code, Collation, Environment, Fault};
use tokio::{sync::OwnedRwLockReadGuard, task::JoinSet, time::Instant};

use super::{
    Router,
    catalog::{Catalog, Sharded},
    cluster::{Cluster, locked},
    preference::Preference,
    shard::{Errand, PATIENCE, is_absence},
};
use crate::{
    call::Call,
    cursor::{Cursor, Found, Owner, Source},
    log::TimestampOrder,
    namespace::Namespace,
};

/// Generic arguments. A `mongos` sends its own values to shards.
const GENERAL: &[&str] = &[
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
pub(super) enum Purpose {
    /// Executes the client's command.
    Do,
    /// Executes the same change on another shard. Change streams show only one of them.
    Repeat,
    /// Reads before a write.
    Look,
}

impl Purpose {
    fn acts(self) -> bool {
        matches!(self, Self::Do | Self::Repeat)
    }
}

/// A command in progress on a `mongos`.
#[derive(Debug)]
pub(super) struct Operation {
    pub(super) router: Arc<Router>,
    pub(super) call: Call,
    pub(super) preference: Preference,
    pub(super) deadline: Instant,
    /// Time of a snapshot read without `atClusterTime`.
    snapshot: Option<Timestamp>,
    heard: Mutex<Option<TimestampOrder>>,
}

impl Operation {
    pub(super) fn new(router: Arc<Router>, call: Call) -> Result<Self, Fault> {
        let preference = Preference::of(&call.body)?;
        let deadline = Instant::now() + call.max_time.unwrap_or(PATIENCE);
        if let Some(time) = call.cluster_time {
            router.cluster.hear(time);
        }
        let concern = &call.read_concern;
        let snapshot = concern.level.as_deref() == Some("snapshot");
        let snapshot =
            (snapshot && concern.at_cluster_time.is_none()).then(|| router.cluster.time());
        Ok(Self { router, call, preference, deadline, snapshot, heard: Mutex::default() })
    }

    pub(super) fn cluster(&self) -> &Arc<Cluster> {
        &self.router.cluster
    }

    pub(super) fn catalog(&self) -> Arc<Catalog> {
        self.cluster().catalog()
    }

    /// Records the time of an event for `operationTime`.
    pub(super) fn note_time(&self, time: TimestampOrder) {
        let mut heard = locked(&self.heard);
        *heard = (*heard).max(Some(time));
        self.cluster().hear(time.into());
    }

    /// `operationTime` of the reply.
    pub(super) fn operation_time(&self) -> Option<Timestamp> {
        (*locked(&self.heard)).map(Timestamp::from)
    }

    /// Primary shard of the command's database. For a missing database any shard will do.
    pub(super) fn home(&self, catalog: &Catalog) -> String {
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
        own(&self.call.body)
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
        self.call.transaction.is_some_and(|it| it.several)
    }

    /// Returns `true` for a retryable write.
    pub(super) fn is_retryable_write(&self) -> bool {
        self.call.transaction.is_some_and(|it| !it.several)
    }

    /// Environment of the command's expressions.
    pub(super) fn environment(&self, sharded: Option<&Sharded>) -> Result<Environment, Fault> {
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
    pub(super) fn errand(
        &self,
        shard: &str,
        body: &Document,
        purpose: Purpose,
    ) -> Result<Errand, Fault> {
        let mut full = own(body);
        let name = full.keys().next().cloned().unwrap_or_default();
        let database = match name.as_str() {
            "commitTransaction" | "abortTransaction" => "admin",
            _ => body.get_str("$db").unwrap_or(&self.call.database),
        };
        let mut general = vec!["lsid"];
        let mut starts = true;
        match self.call.transaction {
            Some(it) if it.several => {
                general.extend(["txnNumber", "autocommit"]);
                starts = self.router.transactions.join(self, shard, &name)?;
                if starts {
                    full.insert("startTransaction", true);
                }
            }
            Some(_) if purpose.acts() => general.push("txnNumber"),
            Some(_) | None => {}
        }
        let concern = match self.in_transaction() {
            true => self.router.transactions.read_concern(self),
            false => self.read_concern(),
        };
        if let Some(concern) = concern.filter(|_| starts) {
            full.insert("readConcern", concern);
        }
        if purpose.acts() {
            general.extend(["writeConcern", "$readPreference"]);
        }
        for field in general {
            if let Some(value) = self.call.body.get(field) {
                full.insert(field, value.clone());
            }
        }
        if self.call.max_time.is_some() && name != "getMore" {
            full.insert("maxTimeMS", self.left());
        }
        full.insert("$db", database);
        full.insert("$clusterTime", self.cluster().cluster_time());
        let mut call = Call::read(name, database, full)?;
        call.session.clone_from(&self.call.session);
        call.repeats = purpose == Purpose::Repeat;
        Ok(self.addressed(call, purpose))
    }

    fn addressed(&self, call: Call, purpose: Purpose) -> Errand {
        let reads = is_read(&call);
        let repeatable = match call.transaction {
            Some(it) if it.several => {
                matches!(call.name.as_str(), "commitTransaction" | "abortTransaction")
            }
            Some(_) => true,
            None => reads,
        };
        let preference = match purpose {
            Purpose::Do if reads => self.preference.clone(),
            Purpose::Do | Purpose::Repeat | Purpose::Look => Preference::primary(),
        };
        Errand { call, preference, deadline: self.deadline, repeatable }
    }

    /// Milliseconds left of `maxTimeMS`.
    fn left(&self) -> i64 {
        let left = self.deadline.saturating_duration_since(Instant::now());
        i64::try_from(left.as_millis()).unwrap_or(i64::MAX).max(1)
    }

    /// Runs a command on one shard.
    pub(super) async fn ask(
        &self,
        shard: &str,
        body: &Document,
        purpose: Purpose,
    ) -> Result<Document, Fault> {
        let errand = self.errand(shard, body, purpose)?;
        let answer = self.cluster().shard(shard)?.run(errand).await;
        self.hear(answer)
    }

    /// Forwards the client's command to one shard.
    pub(super) async fn forward(&self, shard: &str) -> Result<Document, Fault> {
        self.ask(shard, &self.call.body, Purpose::Do).await
    }

    /// Runs commands on several shards concurrently. Replies are in the order of the commands.
    pub(super) async fn ask_all(
        &self,
        questions: Vec<(String, Document)>,
        purpose: Purpose,
    ) -> Result<Vec<(String, Result<Document, Fault>)>, Fault> {
        let mut running = JoinSet::new();
        for (place, (shard, body)) in questions.into_iter().enumerate() {
            let errand = self.errand(&shard, &body, purpose)?;
            let shard = self.cluster().shard(&shard)?.clone();
            running.spawn(async move { (place, shard.name.clone(), shard.run(errand).await) });
        }
        let mut answers = Vec::new();
        while let Some(answer) = running.join_next().await {
            let (place, shard, answer) = answer.map_err(broken)?;
            answers.push((place, shard, self.hear(answer)));
        }
        answers.sort_by_key(|(place, _, _)| *place);
        Ok(answers.into_iter().map(|(_, shard, answer)| (shard, answer)).collect())
    }

    /// Runs the same command on several shards. The first error is returned.
    pub(super) async fn ask_each(
        &self,
        shards: &BTreeSet<String>,
        body: &Document,
        purpose: Purpose,
    ) -> Result<Vec<(String, Document)>, Fault> {
        let questions = shards.iter().map(|shard| (shard.clone(), body.clone())).collect();
        let answers = self.ask_all(questions, purpose).await?;
        answers.into_iter().map(|(shard, answer)| Ok((shard, answer?))).collect()
    }

    /// Removes the times from a reply, because a `mongos` adds its own.
    pub(super) fn hear(&self, answer: Result<Document, Fault>) -> Result<Document, Fault> {
        let (mut answer, failed) = match answer {
            Ok(reply) => (reply, None),
            Err(mut fault) => {
                let details = std::mem::take(&mut fault.details);
                (details, Some(fault))
            }
        };
        if let Some(Bson::Timestamp(time)) = answer.remove("operationTime") {
            let mut heard = locked(&self.heard);
            *heard = (*heard).max(Some(time.into()));
        }
        if let Some(Bson::Document(time)) = answer.remove("$clusterTime")
            && let Ok(time) = time.get_timestamp("clusterTime")
        {
            self.cluster().hear(time);
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
        questions: Vec<(String, Document)>,
        purpose: Purpose,
        partial: bool,
    ) -> Result<Gathered, Fault> {
        let mut running = JoinSet::new();
        for (place, (shard, body)) in questions.into_iter().enumerate() {
            let errand = self.errand(&shard, &whole(body), purpose)?;
            let shard = self.cluster().shard(&shard)?.clone();
            running.spawn(async move { (place, shard.name.clone(), shard.drain(errand).await) });
        }
        let mut answers = Vec::new();
        while let Some(answer) = running.join_next().await {
            answers.push(answer.map_err(broken)?);
        }
        answers.sort_by_key(|(place, _, _)| *place);
        let mut gathered = Gathered::default();
        for (_, shard, answer) in answers {
            let (reply, documents) = match answer {
                Ok((reply, documents)) => (Ok(reply), documents),
                Err(fault) => (Err(fault), Vec::new()),
            };
            match self.hear(reply) {
                Ok(_) => gathered.found.push((shard, documents)),
                Err(fault) if partial && is_absence(&fault) => gathered.partial = true,
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
        let found = Found::all(documents.into_iter().map(Arc::new).collect());
        let cursor = Cursor::new(namespace.clone(), Owner::of(&self.call), Source::Found(found));
        let mut reply = if single {
            cursor.open_and_shut(batch_size)?
        } else {
            let env = self.cluster().environment();
            cursor.open(Some(batch_size), &mut locked(&self.router.cursors), &env)?
        };
        if let (Some(at), Ok(cursor)) = (self.snapshot(), reply.get_document_mut("cursor")) {
            cursor.insert("atClusterTime", at);
        }
        Ok(reply)
    }

    /// Locks the collection of the command in shared mode. A transaction does so once. Chunks do
    /// not move before it ends.
    pub(super) async fn pass(
        &self,
        namespace: &Namespace,
    ) -> Result<Option<OwnedRwLockReadGuard<()>>, Fault> {
        if !self.in_transaction() {
            return Ok(Some(self.cluster().pass(namespace).await));
        }
        if self.router.transactions.has_visited(self, namespace) {
            return Ok(None);
        }
        let guard = self.cluster().pass(namespace).await;
        self.router.transactions.visit(self, namespace)?;
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
pub(super) fn broken(error: tokio::task::JoinError) -> Fault {
    Fault::new(Code::INTERNAL_ERROR, error.to_string())
}

/// The command without generic arguments.
pub(super) fn own(body: &Document) -> Document {
    body.iter()
        .filter(|(name, _)| !GENERAL.contains(&name.as_str()))
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
