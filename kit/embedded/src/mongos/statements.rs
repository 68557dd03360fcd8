//! Targeting of write statements, decided before any of them is sent.

use std::collections::BTreeSet;

use bson::{Bson, Document};
use steadfast_query::{Code, Fault};

use super::{
    catalog::ShardedCollection,
    reads::is_simple,
    target::{self, exact_key},
};

/// First wire version that finds the document of a write without a shard key (MongoDB 7.0).
const WRITES_WITHOUT_SHARD_KEY: i32 = 21;

/// Kind of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StatementKind {
    Insert,
    Update,
    Delete,
}

impl StatementKind {
    /// Kind of the statements of a command, if it has any.
    pub(super) fn of_command(name: &str) -> Option<Self> {
        [Self::Insert, Self::Update, Self::Delete].into_iter().find(|it| it.command() == name)
    }

    /// Field of the command that has the statements.
    pub(super) fn list(self) -> &'static str {
        match self {
            Self::Insert => "documents",
            Self::Update => "updates",
            Self::Delete => "deletes",
        }
    }

    pub(super) fn command(self) -> &'static str {
        match self {
            Self::Insert => "insert",
            Self::Update => "update",
            Self::Delete => "delete",
        }
    }
}

/// A statement of a command.
#[derive(Clone, Debug)]
pub(super) struct RoutedStatement {
    /// Index in the command.
    pub(super) index: usize,
    /// Statement id (`stmtId`).
    pub(super) id: i32,
    pub(super) body: Document,
}

/// Targets of a statement.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum StatementTarget {
    /// One shard.
    OneShard(String),
    /// Broadcast to these shards.
    Broadcast(BTreeSet<String>),
    /// The `mongos` must read first, to find the document or to detect an update of its shard key.
    ReadFirst(BTreeSet<String>),
}

/// Targets a statement of any kind.
pub(super) fn statement_target(
    kind: StatementKind,
    statement: &Document,
    sharded: &ShardedCollection,
    wire_version: i32,
) -> Result<StatementTarget, Fault> {
    match kind {
        StatementKind::Insert => {
            Ok(StatementTarget::OneShard(sharded.owner(statement)?.to_owned()))
        }
        StatementKind::Update => update_target(statement, sharded, wire_version),
        StatementKind::Delete => delete_target(statement, sharded, wire_version),
    }
}

fn update_target(
    update: &Document,
    sharded: &ShardedCollection,
    wire_version: i32,
) -> Result<StatementTarget, Fault> {
    let (filter, simple) = filter_of(update, sharded);
    let key = exact_key(&sharded.key, &filter, simple);
    let shards = target::shards(sharded, &filter, simple);
    let upsert = flag(update, "upsert");
    if flag(update, "multi") {
        if upsert && key.is_none() {
            return Err(upsert_without_shard_key(update));
        }
        let touches = may_change_shard_key(update.get("u"), &filter, sharded);
        return Ok(if touches { StatementTarget::ReadFirst(shards) } else { to(shards) });
    }
    if let Some(key) = &key {
        let shard = sharded.chunks.of(key).shard.clone();
        let touches = may_change_shard_key(update.get("u"), &filter, sharded);
        return Ok(if touches {
            StatementTarget::ReadFirst(shards)
        } else {
            StatementTarget::OneShard(shard)
        });
    }
    if wire_version >= WRITES_WITHOUT_SHARD_KEY {
        return Ok(StatementTarget::ReadFirst(shards));
    }
    if upsert {
        return Err(upsert_without_shard_key(update));
    }
    let touches = may_change_shard_key(update.get("u"), &filter, sharded);
    if let Some(Bson::Document(replacement)) = update.get("u")
        && !is_operators(replacement)
        && shards.len() > 1
    {
        let mut replacement = replacement.clone();
        if let (None, Some(id)) = (replacement.get("_id"), exact_id(&filter, simple)) {
            replacement.insert("_id", id);
        }
        return Ok(StatementTarget::OneShard(sharded.owner(&replacement)?.to_owned()));
    }
    if touches {
        return Ok(StatementTarget::ReadFirst(shards));
    }
    if shards.len() == 1 || exact_id(&filter, simple).is_some() {
        return Ok(to(shards));
    }
    Err(Fault::new(
        Code::INVALID_OPTIONS,
        format!(
            "A {{multi:false}} update on a sharded collection must contain an exact match on _id \
             (and have the collection default collation) or target a single shard (and have the \
             simple collation), but this update targeted {} shards. Update request: {}, shard key \
             pattern: {}",
            shards.len(),
            Bson::from(update),
            Bson::from(sharded.key.pattern())
        ),
    ))
}

fn delete_target(
    delete: &Document,
    sharded: &ShardedCollection,
    wire_version: i32,
) -> Result<StatementTarget, Fault> {
    let (filter, simple) = filter_of(delete, sharded);
    let shards = target::shards(sharded, &filter, simple);
    let all = !matches!(
        delete.get("limit"),
        Some(Bson::Int32(1) | Bson::Int64(1)) | Some(Bson::Double(1.0))
    );
    if all {
        return Ok(to(shards));
    }
    if let Some(key) = exact_key(&sharded.key, &filter, simple) {
        return Ok(StatementTarget::OneShard(sharded.chunks.of(&key).shard.clone()));
    }
    if wire_version >= WRITES_WITHOUT_SHARD_KEY {
        return Ok(StatementTarget::ReadFirst(shards));
    }
    if exact_id(&filter, simple).is_some() {
        return Ok(to(shards));
    }
    Err(Fault::new(
        Code::named(61, "ShardKeyNotFound"),
        format!(
            "A single delete on a sharded collection must contain an exact match on _id (and have \
             the collection default collation) or contain the shard key (and have the simple \
             collation). Delete request: {}, shard key pattern: {}",
            Bson::from(delete),
            Bson::from(sharded.key.pattern())
        ),
    ))
}

/// Targets a `findAndModify`. Its filter is `query`.
pub(super) fn find_and_modify_target(
    body: &Document,
    sharded: &ShardedCollection,
    wire_version: i32,
) -> Result<StatementTarget, Fault> {
    let filter = body.get_document("query").cloned().unwrap_or_default();
    let simple = is_simple(body.get_document("collation").ok(), sharded);
    let shards = target::shards(sharded, &filter, simple);
    let Some(key) = exact_key(&sharded.key, &filter, simple) else {
        if wire_version >= WRITES_WITHOUT_SHARD_KEY {
            return Ok(StatementTarget::ReadFirst(shards));
        }
        return Err(Fault::new(
            Code::named(61, "ShardKeyNotFound"),
            "Query for sharded findAndModify must contain the shard key",
        ));
    };
    let moves = !flag(body, "remove") && may_change_shard_key(body.get("update"), &filter, sharded);
    Ok(if moves {
        StatementTarget::ReadFirst(shards)
    } else {
        StatementTarget::OneShard(sharded.chunks.of(&key).shard.clone())
    })
}

fn to(shards: BTreeSet<String>) -> StatementTarget {
    match shards.first() {
        Some(only) if shards.len() == 1 => StatementTarget::OneShard(only.clone()),
        _ => StatementTarget::Broadcast(shards),
    }
}

/// Filter of a statement, and whether it has the simple collation.
pub(super) fn filter_of(statement: &Document, sharded: &ShardedCollection) -> (Document, bool) {
    let filter = statement.get_document("q").cloned().unwrap_or_default();
    (filter, is_simple(statement.get_document("collation").ok(), sharded))
}

/// Returns `true` if an update can change the shard key of a matching document.
pub(super) fn may_change_shard_key(
    update: Option<&Bson>,
    filter: &Document,
    sharded: &ShardedCollection,
) -> bool {
    let Some(Bson::Document(update)) = update else { return true };
    if is_operators(update) {
        return update.iter().any(|(operator, fields)| {
            fields.as_document().into_iter().flatten().any(|(path, value)| {
                let renamed = value.as_str().filter(|_| operator == "$rename");
                sharded.key.is_changed_by(path)
                    || renamed.is_some_and(|path| sharded.key.is_changed_by(path))
            })
        });
    }
    let mut replacement = update.clone();
    if let (None, Some(id)) = (replacement.get("_id"), exact_id(filter, true)) {
        replacement.insert("_id", id);
    }
    let old = exact_key(&sharded.key, filter, true);
    match (old, sharded.key.of(&replacement)) {
        (Some(old), Ok(new)) => super::key::compare_keys(&old, &new).is_ne(),
        _ => true,
    }
}

/// The `_id` that a filter requires.
fn exact_id(filter: &Document, simple: bool) -> Option<Bson> {
    let value = match filter.get("_id")? {
        Bson::Document(it) if is_operators(it) => it.get("$eq").filter(|_| it.len() == 1)?,
        value => value,
    };
    match value {
        Bson::RegularExpression(_) | Bson::Array(_) => None,
        Bson::String(_) | Bson::Document(_) if !simple => None,
        value => Some(value.clone()),
    }
}

pub(super) fn is_operators(document: &Document) -> bool {
    document.keys().next().is_some_and(|name| name.starts_with('$'))
}

pub(super) fn flag(document: &Document, field: &str) -> bool {
    match document.get(field) {
        Some(Bson::Boolean(flag)) => *flag,
        Some(Bson::Int32(number)) => *number != 0,
        Some(Bson::Int64(number)) => *number != 0,
        Some(Bson::Double(number)) => *number != 0.0,
        _ => false,
    }
}

fn upsert_without_shard_key(update: &Document) -> Fault {
    Fault::new(
        Code::named(61, "ShardKeyNotFound"),
        format!(
            "Failed to target upsert by query :: could not extract exact shard key. Update \
             request: {}",
            Bson::from(update)
        ),
    )
}
