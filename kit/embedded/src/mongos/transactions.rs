//! Transactions on a `mongos`: participating shards, commit and abort.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
};

use bson::{Bson, Document, doc};
use steadfast_query::{Code, Fault};

use super::{
    catalog::Catalog,
    cluster::{Cluster, locked},
    coordinator,
    operation::{MongosCommand, ShardCommandPurpose},
    preference::ReadPreference,
    shard::{is_retryable_error, is_unreachable, with_label},
};
use crate::{
    call::Call,
    namespace::Namespace,
    oplog::{SessionId, TransactionId},
};

/// Phase of a transaction on a `mongos`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MongosTransactionPhase {
    Open,
    /// Committed, or the outcome of the commit is not known yet.
    Committing,
    Aborted,
}

/// A shard that participates in a transaction.
#[derive(Clone, Debug)]
struct Participant {
    shard: String,
    wrote: bool,
}

/// A transaction on a `mongos`.
#[derive(Debug)]
struct MongosTransaction {
    number: i64,
    phase: MongosTransactionPhase,
    /// In the order in which they joined.
    participants: Vec<Participant>,
    /// Collections that it has accessed.
    accessed: BTreeSet<Namespace>,
    /// Catalog at the start of the transaction.
    began: Arc<Catalog>,
    /// Read concern for each shard that joins.
    read_concern: Option<Document>,
    /// Shard that stores the outcome: the first one that has written (`recoveryToken`).
    recovery_shard: Option<String>,
}

/// Newest transaction of each session.
#[derive(Debug, Default)]
pub(super) struct MongosTransactions {
    open: Mutex<BTreeMap<SessionId, MongosTransaction>>,
}

impl MongosTransactions {
    /// Starts or continues the transaction of a command. If an older transaction of the session is
    /// open, returns its number and participants.
    pub(super) fn enter(&self, op: &MongosCommand) -> Result<Option<(i64, Vec<String>)>, Fault> {
        let Some((session, arguments)) = op.call.session.clone().zip(op.call.transaction) else {
            return Ok(None);
        };
        let mut open = locked(&self.open);
        let known = open.get(&session);
        if let Some(newer) = known.filter(|it| it.number > arguments.number) {
            return Err(Fault::new(
                Code::TRANSACTION_TOO_OLD,
                format!(
                    "txnNumber {} is less than last txnNumber {} seen in session",
                    arguments.number, newer.number
                ),
            ));
        }
        if !arguments.starts {
            let known = known.filter(|it| it.number == arguments.number);
            return match known.map(|it| it.phase) {
                Some(MongosTransactionPhase::Open) => Ok(None),
                Some(MongosTransactionPhase::Committing) => Err(Fault::new(
                    Code::TRANSACTION_COMMITTED,
                    format!("Transaction {} has been committed.", arguments.number),
                )),
                Some(MongosTransactionPhase::Aborted) | None => {
                    Err(no_such_transaction(arguments.number))
                }
            };
        }
        if known.is_some_and(|it| it.number == arguments.number) {
            return Err(Fault::new(
                Code::named(117, "ConflictingOperationInProgress"),
                format!("txnNumber {} was already started in this session", arguments.number),
            ));
        }
        let transaction = MongosTransaction {
            number: arguments.number,
            phase: MongosTransactionPhase::Open,
            participants: Vec::new(),
            accessed: BTreeSet::new(),
            began: op.catalog(),
            read_concern: op.read_concern(),
            recovery_shard: None,
        };
        let older = open.insert(session.clone(), transaction);
        drop(open);
        let Some(older) = older else { return Ok(None) };
        remove_accesses_of(op.cluster(), &session, older.number, older.accessed);
        let shards = older.participants.into_iter().map(|it| it.shard).collect();
        Ok((older.phase == MongosTransactionPhase::Open).then_some((older.number, shards)))
    }

    /// Adds a shard to the participants. Returns `true` if it is new.
    pub(super) fn join(
        &self,
        op: &MongosCommand,
        shard: &str,
        command: &str,
    ) -> Result<bool, Fault> {
        if matches!(command, "commitTransaction" | "abortTransaction") {
            return Ok(false);
        }
        self.with(op, |transaction| {
            let wrote = is_write(command);
            if let Some(known) = transaction.participants.iter_mut().find(|it| it.shard == shard) {
                known.wrote |= wrote;
                return false;
            }
            transaction.participants.push(Participant { shard: shard.to_owned(), wrote });
            true
        })
    }

    /// Read concern of the first command.
    pub(super) fn read_concern(&self, op: &MongosCommand) -> Option<Document> {
        self.with(op, |transaction| transaction.read_concern.clone()).ok().flatten()
    }

    /// Returns `true` if the transaction has accessed a collection.
    pub(super) fn has_accessed(&self, op: &MongosCommand, namespace: &Namespace) -> bool {
        self.with(op, |transaction| transaction.accessed.contains(namespace)).unwrap_or(false)
    }

    /// Records the access to a collection. Returns an error if chunks of the collection have moved
    /// since the transaction began.
    pub(super) fn record_access(
        &self,
        op: &MongosCommand,
        namespace: &Namespace,
    ) -> Result<(), Fault> {
        let now = op.catalog();
        let version =
            |catalog: &Catalog| catalog.collections.get(namespace).map(|it| (it.epoch, it.version));
        let moved = self.with(op, |transaction| version(&transaction.began) != version(&now))?;
        if moved {
            let fault = Fault::new(
                Code::SNAPSHOT_UNAVAILABLE,
                format!("chunks of {namespace} have moved since the transaction began"),
            );
            return Err(with_label(fault, "TransientTransactionError"));
        }
        let number = self.with(op, |transaction| {
            transaction.accessed.insert(namespace.clone());
            transaction.number
        })?;
        if let Some(session) = &op.call.session {
            op.cluster().record_access(namespace, session, number);
        }
        Ok(())
    }

    /// Returns `true` if the transaction is the newest of its session here.
    pub(super) fn is_current(&self, op: &MongosCommand) -> bool {
        self.with(op, |_| ()).is_ok()
    }

    /// Records that a command succeeded. The shard of the first write becomes the recovery shard.
    /// Returns `true`.
    pub(super) fn record_success(&self, op: &MongosCommand) -> bool {
        let _ = self.with(op, |transaction| {
            if transaction.recovery_shard.is_none() && !op.ends_transaction() {
                let first = transaction.participants.iter().find(|it| it.wrote);
                transaction.recovery_shard = first.map(|it| it.shard.clone());
            }
        });
        true
    }

    /// The `recoveryToken`, once the transaction has written.
    pub(super) fn recovery_token(&self, op: &MongosCommand) -> Document {
        let shard = self.with(op, |transaction| transaction.recovery_shard.clone());
        match shard {
            Ok(Some(shard)) => doc! { "recoveryShardId": shard },
            _ => Document::new(),
        }
    }

    /// Ends the transaction after an error. Returns the shards that must abort it.
    pub(super) fn fail(&self, op: &MongosCommand) -> Vec<String> {
        let ended = self.with(op, |transaction| match transaction.phase {
            MongosTransactionPhase::Open => {
                transaction.phase = MongosTransactionPhase::Aborted;
                transaction.participants.iter().map(|it| it.shard.clone()).collect()
            }
            MongosTransactionPhase::Committing | MongosTransactionPhase::Aborted => Vec::new(),
        });
        self.remove_accesses(op);
        ended.unwrap_or_default()
    }

    fn remove_accesses(&self, op: &MongosCommand) {
        let accessed = self.with(op, |transaction| {
            (transaction.number, std::mem::take(&mut transaction.accessed))
        });
        if let (Some(session), Ok((number, accessed))) = (&op.call.session, accessed) {
            remove_accesses_of(op.cluster(), session, number, accessed);
        }
    }

    /// Removes the transaction of a session that ends.
    pub(super) fn end(&self, cluster: &Cluster, session: &SessionId) {
        let ended = locked(&self.open).remove(session);
        if let Some(ended) = ended {
            remove_accesses_of(cluster, session, ended.number, ended.accessed);
        }
    }

    /// Removes all transactions, because the process has ended.
    pub(super) fn clear(&self, cluster: &Cluster) {
        let all = std::mem::take(&mut *locked(&self.open));
        for (session, ended) in all {
            remove_accesses_of(cluster, &session, ended.number, ended.accessed);
        }
    }

    /// Error of a commit without a recovery token, of a transaction that did not begin on this
    /// `mongos`.
    fn unknown_transaction(&self, op: &MongosCommand, number: i64) -> Fault {
        let open = locked(&self.open);
        match op.call.session.as_ref().and_then(|session| open.get(session)) {
            Some(newer) if newer.number > number => Fault::new(
                Code::TRANSACTION_TOO_OLD,
                format!(
                    "txnNumber {number} is less than last txnNumber {} seen in session",
                    newer.number
                ),
            ),
            _ => Fault::location(50940, "cannot commit with no participants"),
        }
    }

    fn with<T>(
        &self,
        op: &MongosCommand,
        act: impl FnOnce(&mut MongosTransaction) -> T,
    ) -> Result<T, Fault> {
        let number = op.call.transaction.map_or(-1, |it| it.number);
        let mut open = locked(&self.open);
        let transaction = op.call.session.as_ref().and_then(|session| open.get_mut(session));
        match transaction.filter(|it| it.number == number) {
            Some(transaction) => Ok(act(transaction)),
            None => Err(no_such_transaction(number)),
        }
    }
}

fn remove_accesses_of(
    cluster: &Cluster,
    session: &SessionId,
    number: i64,
    accessed: BTreeSet<Namespace>,
) {
    for namespace in accessed {
        cluster.remove_access(&namespace, session, number);
    }
}

/// Runs `abortTransaction`.
pub(super) async fn abort(op: &MongosCommand) -> Result<Document, Fault> {
    let transactions = &op.mongos.transactions;
    let known = transactions.with(op, |it| (it.phase, it.participants.clone()));
    let shards: BTreeSet<String> = match known {
        Ok((MongosTransactionPhase::Committing, _)) => {
            let number = op.call.transaction.map_or(-1, |it| it.number);
            return Err(Fault::new(
                Code::TRANSACTION_COMMITTED,
                format!("Transaction {number} has been committed."),
            ));
        }
        Ok((MongosTransactionPhase::Aborted, _)) => {
            return Err(no_such_transaction(op.call.transaction.map_or(-1, |it| it.number)));
        }
        Ok((MongosTransactionPhase::Open, participants)) => {
            participants.into_iter().map(|it| it.shard).collect()
        }
        // It began on another mongos.
        Err(fault) => match recovery_shard(op) {
            Some(shard) => BTreeSet::from([shard]),
            None if op.call.body.contains_key("recoveryToken") => {
                let message = "the recovery token of an abort names no shard";
                return Err(Fault::location(8_027_900, message));
            }
            None => return Err(fault),
        },
    };
    let _ = transactions.fail(op);
    abort_on(op, shards).await;
    Ok(Document::new())
}

/// Aborts on these shards, ignoring errors. Unreachable shards abort when the transaction's
/// lifetime ends.
pub(super) async fn abort_on(op: &MongosCommand, shards: impl IntoIterator<Item = String>) {
    let body = doc! { "abortTransaction": 1 };
    let questions = shards.into_iter().map(|shard| (shard, body.clone())).collect();
    let _ = op.run_on_shards(questions, ShardCommandPurpose::Execute).await;
}

/// Aborts an older transaction of a session, ignoring errors.
pub(super) async fn abort_older(op: &MongosCommand, number: i64, shards: Vec<String>) {
    let lsid = op.call.body.get("lsid").cloned().unwrap_or(Bson::Null);
    for shard in shards {
        let body = doc! {
            "abortTransaction": 1, "lsid": lsid.clone(), "txnNumber": number, "autocommit": false,
            "$db": "admin",
        };
        let (Ok(shard), Ok(mut call)) =
            (op.cluster().shard(&shard), Call::read("abortTransaction", "admin", body))
        else {
            continue;
        };
        call.session.clone_from(&op.call.session);
        if let Some(primary) = shard.primary() {
            let _ = super::shard::run_on_member(&primary, call, op.deadline).await;
        }
    }
}

/// Runs `commitTransaction`.
pub(super) async fn commit(op: &MongosCommand) -> Result<Document, Fault> {
    if op.call.transaction.is_none() {
        let message = "commitTransaction can only be run within a context of a session";
        return Err(Fault::new(Code::INVALID_OPTIONS, message));
    }
    let transactions = &op.mongos.transactions;
    let known = transactions.with(op, |transaction| {
        if transaction.phase == MongosTransactionPhase::Open {
            transaction.phase = MongosTransactionPhase::Committing;
        }
        (transaction.phase, transaction.participants.clone())
    });
    let number = op.call.transaction.map_or(-1, |it| it.number);
    let (phase, participants) = match known {
        Ok(known) => known,
        Err(fault) => match recovery_shard(op) {
            Some(shard) => return recover(op, &shard).await,
            None if op.call.body.contains_key("recoveryToken") => return Err(fault),
            None => return Err(transactions.unknown_transaction(op, number)),
        },
    };
    if phase == MongosTransactionPhase::Aborted {
        return Err(no_such_transaction(number));
    }
    let (writers, readers): (Vec<_>, Vec<_>) = participants.into_iter().partition(|it| it.wrote);
    let names = |list: Vec<Participant>| list.into_iter().map(|it| it.shard).collect::<Vec<_>>();
    let committed = commit_on(op, names(writers), names(readers)).await;
    match committed {
        // A shard without a reply may have committed. The client retries.
        Err(fault) if is_unreachable(&fault) => Err(with_label(fault, "RetryableWriteError")),
        Err(fault) => {
            let _ = transactions
                .with(op, |transaction| transaction.phase = MongosTransactionPhase::Aborted);
            transactions.remove_accesses(op);
            Err(fault)
        }
        Ok(reply) => {
            transactions.remove_accesses(op);
            Ok(reply)
        }
    }
}

/// Commits on read-only participants first, because the transaction can still abort without harm. A
/// single writer then commits alone. Several writers commit in two phases.
async fn commit_on(
    op: &MongosCommand,
    writers: Vec<String>,
    readers: Vec<String>,
) -> Result<Document, Fault> {
    let body = doc! { "commitTransaction": 1 };
    for shard in readers {
        let done = op.run_on_shard(&shard, &body, ShardCommandPurpose::Execute).await;
        if let Err(fault) = done {
            abort_on(op, writers).await;
            return Err(fault);
        }
    }
    let multi_document = writers.len() > 1;
    if multi_document {
        for shard in &writers {
            op.cluster().shard(shard)?.select(&ReadPreference::primary(), op.deadline).await?;
        }
        if let Some(id) = transaction_id(op) {
            let accessed = op.mongos.transactions.with(op, |it| it.accessed.clone());
            coordinator::commit(op, &id, &writers, accessed.unwrap_or_default()).await?;
        }
    }
    let mut reply = Document::new();
    for shard in writers {
        let answer = match op.run_on_shard(&shard, &body, ShardCommandPurpose::Execute).await {
            // Two-phase commit, after the session has already started another transaction.
            Err(fault) if multi_document && fault.code == Code::TRANSACTION_TOO_OLD => continue,
            answer => answer?,
        };
        if let Some(error) = answer.get("writeConcernError") {
            reply.insert("writeConcernError", error.clone());
        }
    }
    Ok(reply)
}

/// Recovers the outcome of a transaction of another `mongos`. An uncommitted transaction is
/// aborted.
async fn recover(op: &MongosCommand, shard: &str) -> Result<Document, Fault> {
    let number = op.call.transaction.map_or(-1, |it| it.number);
    if let Some(id) = transaction_id(op)
        && let Some(outcome) = coordinator::join(op, &id).await
    {
        outcome?;
    }
    match op
        .run_on_shard(shard, &doc! { "abortTransaction": 1 }, ShardCommandPurpose::Execute)
        .await
    {
        Err(fault) if fault.code == Code::TRANSACTION_COMMITTED => {
            op.run_on_shard(shard, &doc! { "commitTransaction": 1 }, ShardCommandPurpose::Execute)
                .await
        }
        Err(fault) if is_retryable_error(&fault) => Err(fault),
        Ok(_) | Err(_) => Err(with_label(no_such_transaction(number), "TransientTransactionError")),
    }
}

fn transaction_id(op: &MongosCommand) -> Option<TransactionId> {
    let (session, transaction) = op.call.session.clone().zip(op.call.transaction)?;
    Some(TransactionId { session, number: transaction.number })
}

fn recovery_shard(op: &MongosCommand) -> Option<String> {
    let token = op.call.body.get_document("recoveryToken").ok()?;
    token.get_str("recoveryShardId").ok().map(str::to_owned)
}

fn is_write(command: &str) -> bool {
    matches!(
        command,
        "insert"
            | "update"
            | "delete"
            | "findAndModify"
            | "findandmodify"
            | "bulkWrite"
            | "create"
            | "createIndexes"
    )
}

fn no_such_transaction(number: i64) -> Fault {
    let fault = Fault::new(
        Code::NO_SUCH_TRANSACTION,
        format!("cannot continue txnNumber {number}: no such transaction is open on this router"),
    );
    with_label(fault, "TransientTransactionError")
}
