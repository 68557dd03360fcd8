//! Writes of one document without its shard key, and updates that change it. The `mongos` finds the
//! document first, then writes it on its shard.

use std::{collections::BTreeSet, time::Duration};

use bson::{Bson, Document, doc};
use steadfast_query::{Code, Fault, Sort};
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard};

use super::{
    catalog::{Catalog, ShardedCollection},
    cluster::locked,
    coordinator,
    multi_shard::{self, DocumentMove},
    operation::{MongosCommand, ShardCommandPurpose},
    preference::ReadPreference,
    reads::{number, without_orphans},
    single_document_write::{SingleDocumentWrite, WritePlan},
    statements::{RoutedStatement, StatementKind, StatementTarget},
};
use crate::{change, namespace::Namespace, oplog::TransactionId};

/// Attempts to find a document that was changed or removed meanwhile.
const ATTEMPTS: usize = 20;

/// Wait before another attempt: a transaction may hold the document.
const RETRY_INTERVAL: Duration = Duration::from_millis(5);

/// Runs a statement of `update` or `delete`. Returns the shard that executed it.
pub(super) async fn statement(
    op: &MongosCommand,
    kind: StatementKind,
    namespace: &Namespace,
    statement: &RoutedStatement,
) -> Result<(String, Document), Fault> {
    run(op, namespace, SingleDocumentWrite::Statement(kind, statement)).await
}

/// Runs `findAndModify`.
pub(super) async fn modify(op: &MongosCommand, namespace: &Namespace) -> Result<Document, Fault> {
    let (_, mut reply) = run(op, namespace, SingleDocumentWrite::Modify).await?;
    reply.remove("retriedStmtId");
    Ok(reply)
}

async fn run(
    op: &MongosCommand,
    namespace: &Namespace,
    write: SingleDocumentWrite<'_>,
) -> Result<(String, Document), Fault> {
    let _passed = lock_collection(op, namespace, &write).await?;
    let catalog = op.catalog();
    let sharded = catalog.sharded(namespace)?;
    let shards = concerned(op, &write, sharded)?;
    if let Some(shard) = executed(op, &write) {
        if transaction_id(op).is_some_and(|id| locked(&op.cluster().converted).contains(&id)) {
            return Err(Fault::new(
                Code::named(217, "IncompleteTransactionHistory"),
                "Cannot retry a retryable write that has been converted into a transaction",
            ));
        }
        // The shard has executed it before and returns the recorded result.
        let body = write.command(op, &catalog, namespace, &shard);
        let reply = op.run_on_shard(&shard, &body, ShardCommandPurpose::Execute).await?;
        return Ok((shard, reply));
    }
    if write.is_multi(op) {
        return update_many(op, &catalog, namespace, write, &shards).await;
    }
    for _ in 0..ATTEMPTS {
        let found = find(op, &catalog, namespace, &write, &shards).await?;
        let found = found.as_ref().map(|(shard, document)| (shard.as_str(), document));
        let done = match (write.plan(op, sharded, found)?, found) {
            (WritePlan::Insert(document), _) => {
                let shard = sharded.owner(&document)?.to_owned();
                let body = write.command_to_insert(op, &catalog, namespace, &shard, &document);
                let reply = op.run_on_shard(&shard, &body, ShardCommandPurpose::Execute).await?;
                Some((shard, reply))
            }
            (WritePlan::Stay | WritePlan::Move(_), None) => {
                let shard = shards.first().cloned().unwrap_or_default();
                let body = write.command(op, &catalog, namespace, &shard);
                let reply = op.run_on_shard(&shard, &body, ShardCommandPurpose::Execute).await?;
                Some((shard, reply))
            }
            (WritePlan::Stay, Some((shard, document))) => {
                if op.call.transaction.is_none() && write.changes_key(op, sharded, document)? {
                    return Err(needs_a_transaction());
                }
                let id = document.get("_id").cloned().unwrap_or(Bson::Null);
                let body = write.command_for(op, &catalog, namespace, shard, &id);
                let reply = op.run_on_shard(shard, &body, ShardCommandPurpose::Execute).await?;
                did_something(&reply).then(|| (shard.to_owned(), reply))
            }
            (WritePlan::Move(after), Some((shard, before))) => {
                let to = sharded.owner(&after)?.to_owned();
                relocate(op, &catalog, namespace, write, (shard, &to), before, after).await?
            }
        };
        if let Some(done) = done {
            return Ok(done);
        }
        tokio::time::sleep(RETRY_INTERVAL).await;
    }
    Err(crate::transaction::write_conflict())
}

/// Guard of the collection lock.
enum CollectionGuard {
    Exclusive { _guard: OwnedRwLockWriteGuard<()> },
    Shared { _guard: Option<OwnedRwLockReadGuard<()>> },
}

/// Locks the collection: in exclusive mode if the document can move to another shard or be inserted
/// twice. In a transaction the shards detect such conflicts. Waits for shards without a primary
/// before the lock is taken, so that other commands are not blocked meanwhile.
async fn lock_collection(
    op: &MongosCommand,
    namespace: &Namespace,
    write: &SingleDocumentWrite<'_>,
) -> Result<CollectionGuard, Fault> {
    let with_others = op.lock_shared(namespace).await?;
    let catalog = op.catalog();
    let sharded = catalog.sharded(namespace)?;
    if op.in_transaction() || !write.needs_exclusive_lock(op, sharded) {
        return Ok(CollectionGuard::Shared { _guard: with_others });
    }
    drop(with_others);
    for shard in concerned(op, write, sharded)? {
        op.cluster().shard(&shard)?.select(&ReadPreference::primary(), op.deadline).await?;
    }
    let alone = op.cluster().lock_exclusive(namespace, op.deadline).await?;
    Ok(CollectionGuard::Exclusive { _guard: alone })
}

fn concerned(
    op: &MongosCommand,
    write: &SingleDocumentWrite<'_>,
    sharded: &ShardedCollection,
) -> Result<BTreeSet<String>, Fault> {
    Ok(match write.statement_target(op, sharded)? {
        StatementTarget::OneShard(shard) => BTreeSet::from([shard]),
        StatementTarget::Broadcast(shards) | StatementTarget::ReadFirst(shards) => shards,
    })
}

/// The shard that has executed the statement before, if it is a retry.
fn executed(op: &MongosCommand, write: &SingleDocumentWrite<'_>) -> Option<String> {
    let (session, transaction) = op.call.session.as_ref().zip(op.call.transaction)?;
    if transaction.multi_document {
        return None;
    }
    multi_shard::recorded(op.cluster(), session, transaction.number, write.statement_id(op))
}

/// The matching document and its shard.
async fn find(
    op: &MongosCommand,
    catalog: &Catalog,
    namespace: &Namespace,
    write: &SingleDocumentWrite<'_>,
    shards: &BTreeSet<String>,
) -> Result<Option<(String, Document)>, Fault> {
    let mut body = doc! { "find": &namespace.collection, "filter": write.filter(op) };
    for field in ["sort", "collation", "hint"] {
        if let Some(value) = write.option(op, field) {
            body.insert(field, value.clone());
        }
    }
    if let Some(variables) = op.call.body.get("let") {
        body.insert("let", variables.clone());
    }
    body.insert("limit", 1);
    body.insert("$db", &namespace.database);
    let questions = shards
        .iter()
        .map(|shard| {
            (shard.clone(), without_orphans(catalog, namespace, shard, body.clone(), "filter"))
        })
        .collect();
    let gathered = op.gather(questions, ShardCommandPurpose::Read, false).await?;
    let mut candidates: Vec<(String, Document)> = gathered
        .found
        .into_iter()
        .flat_map(|(shard, documents)| documents.into_iter().map(move |it| (shard.clone(), it)))
        .collect();
    if let Some(Bson::Document(sort)) = write.option(op, "sort")
        && !sort.is_empty()
    {
        let sort = Sort::parse(sort)?;
        let collation = op.environment(catalog.collections.get(namespace))?.collation;
        candidates.sort_by(|one, other| sort.compare(&one.1, &other.1, &collation));
    }
    Ok(candidates.into_iter().next())
}

fn did_something(reply: &Document) -> bool {
    let matched = match reply.get_document("lastErrorObject") {
        Ok(last) => number(last, "n"),
        Err(_) => number(reply, "n"),
    };
    matched > 0 || reply.contains_key("writeErrors")
}

/// Moves a document whose shard key was updated to another shard: as part of the client's
/// transaction, or for a retryable write in a transaction of its own. Rejected for other writes,
/// because a lost reply would leave the result unknown.
async fn relocate(
    op: &MongosCommand,
    catalog: &Catalog,
    namespace: &Namespace,
    write: SingleDocumentWrite<'_>,
    (from, to): (&str, &str),
    before: &Document,
    after: Document,
) -> Result<Option<(String, Document)>, Fault> {
    check_alone_in_batch(op)?;
    let id = before.get("_id").cloned().unwrap_or(Bson::Null);
    if op.in_transaction() {
        let outcome = write.outcome(op, before, &after);
        let exact = doc! { "q": { "_id": { "$eq": id } }, "limit": 1 };
        let body = doc! {
            "delete": &namespace.collection, "deletes": [exact], "$db": &namespace.database,
        };
        if number(&op.run_on_shard(from, &body, ShardCommandPurpose::Execute).await?, "n") == 0 {
            return Err(crate::transaction::write_conflict());
        }
        let body = doc! {
            "insert": &namespace.collection, "documents": [after], "$db": &namespace.database,
        };
        op.run_on_shard(to, &body, ShardCommandPurpose::Execute).await.and_then(|reply| {
            let error = reply.get_array("writeErrors").ok().and_then(|all| all.first().cloned());
            match error.as_ref().and_then(Bson::as_document) {
                Some(error) => Err(super::shard::fault_of(error.clone())),
                None => Ok(()),
            }
        })?;
        return Ok(Some((to.to_owned(), outcome)));
    }
    let (Some(session), Some(transaction)) = (&op.call.session, op.call.transaction) else {
        return Err(needs_a_transaction());
    };
    let statement = change::Statement {
        id: write.statement_id(op),
        outcome: write.outcome(op, before, &after),
    };
    let (donor, recipient) = (op.cluster().shard(from)?, op.cluster().shard(to)?);
    op.cluster().wait_for_orphan_deletion(namespace, to, op.deadline).await?;
    let it = DocumentMove {
        namespace,
        from: donor,
        to: recipient,
        id: &id,
        before,
        after,
        session,
        number: transaction.number,
        statement,
    };
    let transaction = it.transaction();
    match multi_shard::prepare_move(it) {
        Ok(()) => {}
        Err(fault) if fault.code == Code::WRITE_CONFLICT => return Ok(None),
        Err(fault) => return Err(fault),
    }
    let shards = [to.to_owned(), from.to_owned()];
    let namespaces = BTreeSet::from([namespace.clone()]);
    match coordinator::commit(op, &transaction, &shards, namespaces).await {
        Ok(()) => {
            locked(&op.cluster().converted).extend(transaction_id(op));
        }
        Err(fault) if fault.code == Code::MAX_TIME_MS_EXPIRED => return Err(fault),
        // A shard lost its primary before its part was majority-committed. The document is
        // unchanged.
        Err(_) => return Ok(None),
    }
    // Reading the recorded result also waits for the write concern.
    let body = write.command(op, catalog, namespace, to);
    let mut reply = op.run_on_shard(to, &body, ShardCommandPurpose::Execute).await?;
    reply.remove("retriedStmtIds");
    Ok(Some((to.to_owned(), reply)))
}

fn transaction_id(op: &MongosCommand) -> Option<TransactionId> {
    let (session, transaction) = op.call.session.clone().zip(op.call.transaction)?;
    Some(TransactionId { session, number: transaction.number })
}

fn needs_a_transaction() -> Fault {
    Fault::new(
        Code::ILLEGAL_OPERATION,
        "Must run update to shard key field in a multi-statement transaction or with \
         retryWrites: true.",
    )
}

fn check_alone_in_batch(op: &MongosCommand) -> Result<(), Fault> {
    let multi_document = ["updates", "ops"]
        .iter()
        .any(|list| op.call.body.get_array(list).is_ok_and(|list| list.len() > 1));
    if multi_document {
        return Err(Fault::new(
            Code::INVALID_OPTIONS,
            "Document shard key value updates that cause the doc to move shards must be sent with \
             write batch of size 1",
        ));
    }
    Ok(())
}

/// Runs an update of many documents. Rejects it if it changes the shard key of one of them.
async fn update_many(
    op: &MongosCommand,
    catalog: &Catalog,
    namespace: &Namespace,
    write: SingleDocumentWrite<'_>,
    shards: &BTreeSet<String>,
) -> Result<(String, Document), Fault> {
    let sharded = catalog.sharded(namespace)?;
    let body = doc! {
        "find": &namespace.collection, "filter": write.filter(op), "$db": &namespace.database,
    };
    let questions = shards
        .iter()
        .map(|shard| {
            (shard.clone(), without_orphans(catalog, namespace, shard, body.clone(), "filter"))
        })
        .collect();
    for document in op.gather(questions, ShardCommandPurpose::Read, false).await?.documents() {
        if write.changes_key(op, sharded, &document)? {
            return Err(Fault::new(
                Code::INVALID_OPTIONS,
                "Multi-update operations are not allowed when updating the shard key field.",
            ));
        }
    }
    let mut total = doc! { "n": 0, "nModified": 0 };
    let mut last = String::new();
    for shard in shards {
        let body = write.command(op, catalog, namespace, shard);
        let reply = op.run_on_shard(shard, &body, ShardCommandPurpose::Execute).await?;
        for field in ["n", "nModified"] {
            total.insert(field, number(&total, field) + number(&reply, field));
        }
        for field in ["upserted", "writeErrors", "writeConcernError"] {
            if let Some(value) = reply.get(field) {
                total.insert(field, value.clone());
            }
        }
        last.clone_from(shard);
    }
    Ok((last, total))
}
