//! `insert`, `update` and `delete`: targets statements, sends them in batches, and merges the
//! replies.

use std::collections::BTreeSet;

use bson::{Bson, Document, doc};
use steadfast_query::{Code, Fault};

use super::{
    catalog::Catalog,
    operation::{MongosCommand, ShardCommandPurpose},
    reads::{number, without_orphans},
    shard::is_unreachable,
    statements::{RoutedStatement, StatementKind, StatementTarget, flag, statement_target},
    write_without_shard_key,
};
use crate::namespace::Namespace;

/// Runs `insert`, `update` or `delete`.
pub(super) async fn write(op: &MongosCommand, kind: StatementKind) -> Result<Document, Fault> {
    let namespace = op.namespace()?;
    reject_catalog_write(&namespace)?;
    let passed = op.lock_shared(&namespace).await?;
    let primary_shard = op.cluster().database(&namespace.database)?;
    let catalog = op.catalog();
    if !catalog.collections.contains_key(&namespace) {
        let answer = op.forward(&primary_shard).await;
        return answer
            .map(|reply| with_own_concern_error(&primary_shard, reply))
            .or_else(|fault| rejected_by_shard(op, kind, fault));
    }
    let Some(statements) = read_statements(op, kind) else {
        // The shard reports the error.
        return op.forward(&primary_shard).await;
    };
    drop(passed);
    let ordered = op.call.body.get_bool("ordered").unwrap_or(true);
    let outcome = run(op, kind, &namespace, statements, ordered).await?;
    Ok(outcome.into_reply(kind))
}

/// Errors of a shard that a mongos reports in `writeErrors`.
const STATEMENT_ERRORS: [i32; 4] = [73, 217, 225, 256];

/// Reply to a command that a shard has rejected as a whole.
pub(super) fn rejected_by_shard(
    op: &MongosCommand,
    kind: StatementKind,
    fault: Fault,
) -> Result<Document, Fault> {
    if !STATEMENT_ERRORS.contains(&fault.code.number) {
        return Err(fault);
    }
    let is_ordered = op.call.body.get_bool("ordered").unwrap_or(true);
    let count = op.call.body.get_array(kind.list()).map_or(1, Vec::len);
    let mut outcome = WriteTotals::default();
    for index in 0..if is_ordered { 1 } else { count } {
        outcome.errors.push(write_error(index, &fault));
    }
    Ok(outcome.into_reply(kind))
}

fn write_error(index: usize, fault: &Fault) -> Document {
    let mut error = doc! {
        "index": i32::try_from(index).unwrap_or(i32::MAX),
        "code": fault.code.number,
        "errmsg": &fault.message,
    };
    error.extend(fault.details.clone());
    error.remove("codeName");
    error.remove("errorLabels");
    error
}

/// Runs statements on a sharded collection.
pub(super) async fn run(
    op: &MongosCommand,
    kind: StatementKind,
    namespace: &Namespace,
    statements: Vec<RoutedStatement>,
    ordered: bool,
) -> Result<WriteTotals, Fault> {
    let mut outcome = WriteTotals::default();
    let mut left = statements.into_iter().peekable();
    while left.peek().is_some() {
        let passed = op.lock_shared(namespace).await?;
        let catalog = op.catalog();
        let (batch, failed) = next_batch(op, kind, &catalog, namespace, &mut left, ordered)?;
        match batch {
            Some(RoutedBatch::OneShardEach(groups)) => {
                send(op, kind, &catalog, namespace, groups, &mut outcome, ordered).await?;
            }
            Some(RoutedBatch::Broadcast(statement, shards)) => {
                broadcast(op, kind, &catalog, namespace, &statement, &shards, &mut outcome).await?;
            }
            Some(RoutedBatch::ReadFirst(statement)) => {
                drop(passed);
                let looked =
                    write_without_shard_key::statement(op, kind, namespace, &statement).await;
                outcome.add_single(op, &statement, looked)?;
            }
            None => {}
        }
        if ordered && !outcome.errors.is_empty() {
            break;
        }
        if let Some((index, fault)) = failed {
            outcome.record_rejection(op, index, fault)?;
            if ordered {
                break;
            }
        }
    }
    Ok(outcome)
}

/// Statements that are sent together.
enum RoutedBatch {
    /// Statements that target one shard each, by shard.
    OneShardEach(Vec<(String, Vec<RoutedStatement>)>),
    Broadcast(RoutedStatement, BTreeSet<String>),
    ReadFirst(RoutedStatement),
}

type RejectedStatement = Option<(usize, Fault)>;

/// Takes as many statements as can be sent together. Ordered: consecutive statements for the same
/// shard. Unordered: all that target one shard each. A statement that cannot be targeted ends the
/// batch.
fn next_batch(
    op: &MongosCommand,
    kind: StatementKind,
    catalog: &Catalog,
    namespace: &Namespace,
    left: &mut std::iter::Peekable<impl Iterator<Item = RoutedStatement>>,
    ordered: bool,
) -> Result<(Option<RoutedBatch>, RejectedStatement), Fault> {
    let sharded = catalog.sharded(namespace)?;
    let wire_version = op.cluster().config.max_wire_version;
    let mut groups: Vec<(String, Vec<RoutedStatement>)> = Vec::new();
    while let Some(next) = left.peek() {
        let way = statement_target(kind, &next.body, sharded, wire_version);
        let shard = match way {
            Ok(StatementTarget::OneShard(shard)) => shard,
            _ if !groups.is_empty() => break,
            Err(fault) => {
                let index = next.index;
                left.next();
                return Ok((None, Some((index, fault))));
            }
            Ok(StatementTarget::Broadcast(shards)) => {
                return Ok((left.next().map(|next| RoutedBatch::Broadcast(next, shards)), None));
            }
            Ok(StatementTarget::ReadFirst(_)) => {
                return Ok((left.next().map(RoutedBatch::ReadFirst), None));
            }
        };
        let Some(group) = groups.iter_mut().find(|(it, _)| *it == shard) else {
            if ordered && !groups.is_empty() {
                break;
            }
            groups.push((shard, left.next().into_iter().collect()));
            continue;
        };
        group.1.extend(left.next());
    }
    Ok(((!groups.is_empty()).then_some(RoutedBatch::OneShardEach(groups)), None))
}

/// Sends each shard its statements.
async fn send(
    op: &MongosCommand,
    kind: StatementKind,
    catalog: &Catalog,
    namespace: &Namespace,
    groups: Vec<(String, Vec<RoutedStatement>)>,
    outcome: &mut WriteTotals,
    ordered: bool,
) -> Result<(), Fault> {
    for (shard, statements) in &groups {
        let inserts =
            |it: &RoutedStatement| kind == StatementKind::Insert || flag(&it.body, "upsert");
        if statements.iter().any(inserts) {
            op.cluster().wait_for_orphan_deletion(namespace, shard, op.deadline).await?;
        }
    }
    let questions = groups
        .iter()
        .map(|(shard, statements)| {
            (shard.clone(), command(op, kind, catalog, namespace, shard, statements))
        })
        .collect();
    let answers = op.run_on_shards(questions, ShardCommandPurpose::Execute).await?;
    for ((_, statements), (shard, answer)) in groups.iter().zip(answers) {
        match answer {
            Ok(reply) => outcome
                .add(&shard, &reply, |place| statements.get(place).map_or(place, |it| it.index)),
            Err(fault) => {
                let concerned = if ordered { &statements[..1] } else { &statements[..] };
                for statement in concerned {
                    outcome.record_rejection(op, statement.index, fault.clone())?;
                }
            }
        }
    }
    Ok(())
}

/// Broadcasts a statement to several shards and adds up the results.
async fn broadcast(
    op: &MongosCommand,
    kind: StatementKind,
    catalog: &Catalog,
    namespace: &Namespace,
    statement: &RoutedStatement,
    shards: &BTreeSet<String>,
    outcome: &mut WriteTotals,
) -> Result<(), Fault> {
    let one = std::slice::from_ref(statement);
    let questions = shards
        .iter()
        .map(|shard| (shard.clone(), command(op, kind, catalog, namespace, shard, one)))
        .collect();
    for (shard, answer) in op.run_on_shards(questions, ShardCommandPurpose::Execute).await? {
        match answer {
            Ok(reply) => outcome.add(&shard, &reply, |_| statement.index),
            Err(fault) => outcome.record_rejection(op, statement.index, fault)?,
        }
    }
    // A statement has one error, that of the first shard.
    outcome.errors.dedup_by_key(|error| number(error, "index"));
    Ok(())
}

/// The command with statements for a shard.
pub(super) fn command(
    op: &MongosCommand,
    kind: StatementKind,
    catalog: &Catalog,
    namespace: &Namespace,
    shard: &str,
    statements: &[RoutedStatement],
) -> Document {
    let mut body = doc! { kind.command(): &namespace.collection };
    if op.call.name == kind.command() {
        for (field, value) in op.arguments() {
            if field != kind.command() && field != kind.list() && field != "stmtId" {
                body.insert(field, value);
            }
        }
    } else {
        // A part of `bulkWrite`.
        for field in ["let", "bypassDocumentValidation", "comment"] {
            if let Some(value) = op.call.body.get(field) {
                body.insert(field, value.clone());
            }
        }
    }
    let bodies: Vec<Document> = statements
        .iter()
        .map(|statement| match kind {
            StatementKind::Insert => statement.body.clone(),
            StatementKind::Update | StatementKind::Delete => {
                without_orphans(catalog, namespace, shard, statement.body.clone(), "q")
            }
        })
        .collect();
    body.insert(kind.list(), bodies);
    if op.is_retryable_write() {
        body.insert("stmtIds", statements.iter().map(|it| it.id).collect::<Vec<_>>());
    } else {
        body.remove("stmtIds");
    }
    body.insert("$db", &namespace.database);
    body
}

/// Statements of a command. `None` if the command is invalid and a shard will reject it.
fn read_statements(op: &MongosCommand, kind: StatementKind) -> Option<Vec<RoutedStatement>> {
    let list = op.call.body.get_array(kind.list()).ok()?;
    if list.is_empty() {
        return None;
    }
    let first = number(&op.call.body, "stmtId");
    let ids = op.call.body.get_array("stmtIds").ok();
    let env = op.cluster().environment();
    list.iter()
        .enumerate()
        .map(|(index, body)| {
            let mut body = body.as_document()?.clone();
            if kind == StatementKind::Insert && !body.contains_key("_id") {
                let mut whole = doc! { "_id": env.object_id() };
                whole.extend(body);
                body = whole;
            }
            let place = i64::try_from(index).ok()?;
            let id = match ids {
                Some(ids) => ids.get(index).and_then(Bson::as_i32)?,
                None => i32::try_from(first.saturating_add(place)).ok()?,
            };
            Some(RoutedStatement { index, id, body })
        })
        .collect()
}

/// Rejects writes to collections that show the catalog.
pub(super) fn reject_catalog_write(namespace: &Namespace) -> Result<(), Fault> {
    if namespace.database == "config" {
        return Err(Fault::new(
            Code::ILLEGAL_OPERATION,
            format!("{namespace} is written by commands only"),
        ));
    }
    Ok(())
}

/// Results of the statements of a command.
#[derive(Debug, Default)]
pub(super) struct WriteTotals {
    pub(super) n: i64,
    pub(super) modified: i64,
    pub(super) upserted: Vec<Document>,
    pub(super) errors: Vec<Document>,
    pub(super) concern_errors: Vec<(String, Document)>,
    pub(super) retried: Vec<Bson>,
    executed: bool,
}

impl WriteTotals {
    /// Adds the reply of a shard. `index` maps a statement to its index in the client's command.
    pub(super) fn add(&mut self, shard: &str, reply: &Document, index: impl Fn(usize) -> usize) {
        self.executed = true;
        self.n += number(reply, "n");
        self.modified += number(reply, "nModified");
        let placed = |document: &Bson| {
            let mut document = document.as_document()?.clone();
            let place = usize::try_from(number(&document, "index")).ok()?;
            let place = i32::try_from(index(place)).ok()?;
            // Replacing the value keeps the first position of the field.
            document.insert("index", place);
            Some(document)
        };
        let list = |field| reply.get_array(field).map(Vec::as_slice).unwrap_or_default();
        self.upserted.extend(list("upserted").iter().filter_map(placed));
        self.errors.extend(list("writeErrors").iter().filter_map(placed));
        self.retried.extend(list("retriedStmtIds").iter().cloned());
        if let Ok(error) = reply.get_document("writeConcernError") {
            self.concern_errors.push((shard.to_owned(), error.clone()));
        }
    }

    /// Records an error of the whole command for a statement. The error is returned instead if
    /// nothing was executed or everything can be retried, so that the client retries the command.
    fn record_rejection(
        &mut self,
        op: &MongosCommand,
        index: usize,
        fault: Fault,
    ) -> Result<(), Fault> {
        let is_shards = is_unreachable(&fault);
        if op.in_transaction() || is_shards && (op.is_retryable_write() || !self.executed) {
            return Err(fault);
        }
        self.errors.push(write_error(index, &fault));
        Ok(())
    }

    fn add_single(
        &mut self,
        op: &MongosCommand,
        statement: &RoutedStatement,
        looked: Result<(String, Document), Fault>,
    ) -> Result<(), Fault> {
        match looked {
            Ok((shard, reply)) => {
                self.add(&shard, &reply, |_| statement.index);
                Ok(())
            }
            Err(fault) => self.record_rejection(op, statement.index, fault),
        }
    }

    /// Reply to the client's command.
    fn into_reply(mut self, kind: StatementKind) -> Document {
        let count = |count: i64| i32::try_from(count).map_or(Bson::Int64(count), Bson::Int32);
        let mut reply = doc! { "n": count(self.n) };
        if kind == StatementKind::Update {
            reply.insert("nModified", count(self.modified));
        }
        if !self.upserted.is_empty() {
            self.upserted.sort_by_key(|it| number(it, "index"));
            reply.insert("upserted", self.upserted);
        }
        if !self.errors.is_empty() {
            self.errors.sort_by_key(|it| number(it, "index"));
            reply.insert("writeErrors", self.errors);
        }
        if let Some(error) = merged_concern_error(&self.concern_errors) {
            reply.insert("writeConcernError", error);
        }
        if !self.retried.is_empty() {
            reply.insert("retriedStmtIds", self.retried);
        }
        reply
    }
}

/// Reply of the only shard, with the `writeConcernError` of a mongos.
fn with_own_concern_error(shard: &str, mut reply: Document) -> Document {
    if let Ok(error) = reply.get_document("writeConcernError") {
        let errors = [(shard.to_owned(), error.clone())];
        if let Some(error) = merged_concern_error(&errors) {
            reply.insert("writeConcernError", error);
        }
    }
    reply
}

/// Combines the write concern errors of several shards.
pub(super) fn merged_concern_error(errors: &[(String, Document)]) -> Option<Document> {
    match errors {
        [] => None,
        [(shard, only)] => {
            let mut only = only.clone();
            let message = only.get_str("errmsg").unwrap_or_default();
            let message = format!("{message} at {shard}");
            only.insert("errmsg", message);
            only.insert("errInfo", Document::new());
            Some(only)
        }
        [(_, first), ..] => {
            let messages: Vec<String> = errors
                .iter()
                .map(|(shard, error)| {
                    format!("{} at {shard}", error.get_str("errmsg").unwrap_or_default())
                })
                .collect();
            let mut merged = first.clone();
            merged.insert(
                "errmsg",
                format!("Multiple errors reported :: {}", messages.join(" :: and :: ")),
            );
            Some(merged)
        }
    }
}
