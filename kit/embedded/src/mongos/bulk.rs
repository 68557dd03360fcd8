//! `bulkWrite` on a `mongos`: each operation is targeted like the statement that it contains.

use bson::{Bson, Document, doc};
use steadfast_query::{Code, Fault};

use super::{
    cursors::run_and_register,
    operation::{MongosCommand, ShardCommandPurpose},
    reads::number,
    statements::{RoutedStatement, StatementKind, flag},
    writes::{WriteTotals, merged_concern_error, reject_catalog_write, run},
};
use crate::{namespace::Namespace, version_gate};

/// First wire version with the command (MongoDB 8.0).
const MIN_WIRE_VERSION: i32 = 25;

/// Runs `bulkWrite`.
pub(super) async fn bulk_write(op: &MongosCommand) -> Result<Document, Fault> {
    if op.cluster().config.max_wire_version < MIN_WIRE_VERSION {
        return Err(Fault::new(Code::COMMAND_NOT_FOUND, "no such command: 'bulkWrite'"));
    }
    let namespaces = namespaces(op)?;
    let catalog = op.catalog();
    let mut homes = Vec::new();
    for namespace in &namespaces {
        reject_catalog_write(namespace)?;
        homes.push(op.cluster().database(&namespace.database)?);
    }
    let unsharded = !namespaces.iter().any(|it| catalog.collections.contains_key(it));
    let one_home = homes.windows(2).all(|pair| pair[0] == pair[1]);
    let mut reply = match homes.first() {
        Some(primary_shard) if unsharded && one_home => {
            let mut reply = run_and_register(op, primary_shard, &op.call.body).await?;
            if let Ok(error) = reply.get_document_mut("writeConcernError") {
                error.remove("codeName");
                error.remove("errInfo");
            }
            Ok(reply)
        }
        // A shard reports the error.
        None => op.forward(&op.primary_shard(&catalog)).await,
        Some(_) => one_by_one(op, &namespaces).await,
    }?;
    // `retriedStmtIds` is always present in replies of mongos 8.2.
    if version_gate::is_at_least(&op.cluster().config.version, version_gate::V8_2)
        && !reply.contains_key("retriedStmtIds")
    {
        reply.insert("retriedStmtIds", Bson::Array(Vec::new()));
    }
    Ok(reply)
}

fn namespaces(op: &MongosCommand) -> Result<Vec<Namespace>, Fault> {
    let Ok(list) = op.call.body.get_array("nsInfo") else { return Ok(Vec::new()) };
    list.iter()
        .filter_map(|it| it.as_document()?.get_str("ns").ok())
        .map(|full| {
            let (database, collection) = full.split_once('.').unwrap_or((full, ""));
            Namespace::named(database, collection)
        })
        .collect()
}

/// Results of the operations so far.
#[derive(Debug, Default)]
struct BulkTotals {
    errors: i32,
    inserted: i64,
    matched: i64,
    modified: i64,
    upserted: i64,
    deleted: i64,
    results: Vec<Document>,
    retried: Vec<Bson>,
    concern_errors: Vec<(String, Document)>,
}

async fn one_by_one(op: &MongosCommand, namespaces: &[Namespace]) -> Result<Document, Fault> {
    let ordered = op.call.body.get_bool("ordered").unwrap_or(true);
    let errors_only = op.call.body.get_bool("errorsOnly").unwrap_or(false);
    let list = op.call.body.get_array("ops").cloned().unwrap_or_default();
    let mut total = BulkTotals::default();
    for (index, item) in list.iter().enumerate() {
        let item = item.as_document().cloned().unwrap_or_default();
        let (kind, namespace, body) = read(&item, namespaces, op)?;
        let id = i32::try_from(index).unwrap_or(i32::MAX);
        let statement = RoutedStatement { index: 0, id: statement_id(op, index, id), body };
        let outcome = if op.catalog().collections.contains_key(&namespace) {
            run(op, kind, &namespace, vec![statement], true).await?
        } else {
            unsharded(op, kind, &namespace, &statement).await?
        };
        let failed = !outcome.errors.is_empty();
        total.add(id, kind, outcome, errors_only);
        if failed && ordered {
            break;
        }
    }
    Ok(total.into_reply())
}

async fn unsharded(
    op: &MongosCommand,
    kind: StatementKind,
    namespace: &Namespace,
    statement: &RoutedStatement,
) -> Result<WriteTotals, Fault> {
    let _passed = op.lock_shared(namespace).await?;
    let catalog = op.catalog();
    let primary_shard = op.cluster().database(&namespace.database)?;
    let one = std::slice::from_ref(statement);
    let body = super::writes::command(op, kind, &catalog, namespace, &primary_shard, one);
    let mut outcome = WriteTotals::default();
    outcome.add(
        &primary_shard,
        &op.run_on_shard(&primary_shard, &body, ShardCommandPurpose::Execute).await?,
        |place| place,
    );
    Ok(outcome)
}

fn statement_id(op: &MongosCommand, index: usize, place: i32) -> i32 {
    match op.call.body.get_array("stmtIds") {
        Ok(ids) => ids.get(index).and_then(Bson::as_i32).unwrap_or(-1),
        Err(_) => op.call.body.get_i32("stmtId").unwrap_or(0).saturating_add(place),
    }
}

/// The operation as a statement of `insert`, `update` or `delete`.
fn read(
    item: &Document,
    namespaces: &[Namespace],
    op: &MongosCommand,
) -> Result<(StatementKind, Namespace, Document), Fault> {
    let (name, place) = match item.iter().next() {
        Some((name, _)) => (name.as_str(), number(item, name)),
        None => ("", 0),
    };
    let namespace = usize::try_from(place).ok().and_then(|place| namespaces.get(place)).cloned();
    let namespace = namespace
        .ok_or_else(|| Fault::bad_value("BulkWrite ops entry has an invalid nsInfo index"))?;
    let mut body = Document::new();
    let mut copy = |from: &str, to: &str| {
        if let Some(value) = item.get(from) {
            body.insert(to, value.clone());
        }
    };
    let kind = match name {
        "insert" => {
            let document = item.get_document("document").cloned().unwrap_or_default();
            if document.contains_key("_id") {
                return Ok((StatementKind::Insert, namespace, document));
            }
            let mut whole = doc! { "_id": op.cluster().environment().object_id() };
            whole.extend(document);
            return Ok((StatementKind::Insert, namespace, whole));
        }
        "update" => {
            copy("filter", "q");
            copy("updateMods", "u");
            copy("constants", "c");
            for field in ["multi", "upsert", "arrayFilters", "sort"] {
                copy(field, field);
            }
            StatementKind::Update
        }
        "delete" => {
            copy("filter", "q");
            StatementKind::Delete
        }
        other => return Err(Fault::bad_value(format!("Unrecognized bulkWrite op {other}"))),
    };
    copy("collation", "collation");
    copy("hint", "hint");
    if kind == StatementKind::Delete {
        body.insert("limit", if flag(item, "multi") { 0 } else { 1 });
    }
    Ok((kind, namespace, body))
}

impl BulkTotals {
    fn add(&mut self, index: i32, kind: StatementKind, outcome: WriteTotals, errors_only: bool) {
        self.concern_errors.extend(outcome.concern_errors);
        self.retried.extend(outcome.retried);
        if let Some(error) = outcome.errors.first() {
            self.errors += 1;
            let mut result = doc! {
                "ok": 0.0,
                "idx": index,
                "code": error.get("code").cloned().unwrap_or(Bson::Null),
                "errmsg": error.get("errmsg").cloned().unwrap_or(Bson::Null),
                "n": 0,
            };
            let more = error
                .iter()
                .filter(|(name, _)| !matches!(name.as_str(), "index" | "code" | "errmsg"));
            result.extend(more.map(|(name, value)| (name.clone(), value.clone())));
            self.results.push(result);
            return;
        }
        let n = i32::try_from(outcome.n).unwrap_or(i32::MAX);
        let mut result = doc! { "ok": 1.0, "idx": index, "n": n };
        match kind {
            StatementKind::Insert => self.inserted += outcome.n,
            StatementKind::Delete => self.deleted += outcome.n,
            StatementKind::Update => {
                let upserted = outcome.upserted.first();
                result.insert("nModified", i32::try_from(outcome.modified).unwrap_or(i32::MAX));
                if let Some(upserted) = upserted {
                    let id = upserted.get("_id").cloned().unwrap_or(Bson::Null);
                    result.insert("upserted", doc! { "_id": id });
                    self.upserted += 1;
                } else {
                    self.matched += outcome.n;
                }
                self.modified += outcome.modified;
            }
        }
        if !errors_only {
            self.results.push(result);
        }
    }

    fn into_reply(self) -> Document {
        let count = |count: i64| i32::try_from(count).unwrap_or(i32::MAX);
        let mut reply = doc! {
            "cursor": { "id": 0_i64, "firstBatch": self.results, "ns": "admin.$cmd.bulkWrite" },
            "nErrors": self.errors,
            "nInserted": count(self.inserted),
            "nMatched": count(self.matched),
            "nModified": count(self.modified),
            "nUpserted": count(self.upserted),
            "nDeleted": count(self.deleted),
        };
        if let Some(mut error) = merged_concern_error(&self.concern_errors) {
            error.remove("codeName");
            error.remove("errInfo");
            reply.insert("writeConcernError", error);
        }
        if !self.retried.is_empty() {
            reply.insert("retriedStmtIds", self.retried);
        }
        reply
    }
}
