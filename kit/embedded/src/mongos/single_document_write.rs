//! Write of one document that the `mongos` must find first: a statement of `update` or `delete`, or
//! a `findAndModify`.

use bson::{Bson, Document, doc};
use steadfast_query::{Collation, Environment, Fault, Filter, Update, update::stored};

use super::{
    catalog::{Catalog, ShardedCollection},
    operation::MongosCommand,
    statements::{
        RoutedStatement, StatementKind, StatementTarget, find_and_modify_target, flag,
        may_change_shard_key, statement_target,
    },
    writes::command,
};
use crate::namespace::Namespace;

/// A write of one document.
#[derive(Clone, Copy, Debug)]
pub(super) enum SingleDocumentWrite<'a> {
    Statement(StatementKind, &'a RoutedStatement),
    /// The client's `findAndModify`.
    Modify,
}

/// Execution plan after the document was found.
#[derive(Debug)]
pub(super) enum WritePlan {
    /// The shard of the document executes the write. Also if no document was found.
    Stay,
    /// The document moves to another shard.
    Move(Document),
    /// The upsert inserts this document.
    Insert(Document),
}

impl SingleDocumentWrite<'_> {
    fn body<'b>(&'b self, op: &'b MongosCommand) -> &'b Document {
        match self {
            Self::Statement(_, statement) => &statement.body,
            Self::Modify => &op.call.body,
        }
    }

    pub(super) fn filter(&self, op: &MongosCommand) -> Document {
        let field = match self {
            Self::Statement(..) => "q",
            Self::Modify => "query",
        };
        self.body(op).get_document(field).cloned().unwrap_or_default()
    }

    pub(super) fn statement_id(&self, op: &MongosCommand) -> i32 {
        match self {
            Self::Statement(_, statement) => statement.id,
            Self::Modify => op.call.body.get_i32("stmtId").unwrap_or(0),
        }
    }

    /// An option of the statement.
    pub(super) fn option<'b>(&'b self, op: &'b MongosCommand, field: &str) -> Option<&'b Bson> {
        self.body(op).get(field)
    }

    pub(super) fn is_multi(&self, op: &MongosCommand) -> bool {
        matches!(self, Self::Statement(StatementKind::Update, _)) && flag(self.body(op), "multi")
    }

    fn upserts(&self, op: &MongosCommand) -> bool {
        flag(self.body(op), "upsert")
    }

    /// The update. `None` for a delete.
    fn update<'b>(&'b self, op: &'b MongosCommand) -> Option<&'b Bson> {
        match self {
            Self::Statement(StatementKind::Delete | StatementKind::Insert, _) => None,
            Self::Statement(StatementKind::Update, statement) => statement.body.get("u"),
            Self::Modify => op.call.body.get("update"),
        }
    }

    /// Returns `true` if the exclusive lock is needed: the write can change the shard key or insert
    /// a document.
    pub(super) fn needs_exclusive_lock(
        &self,
        op: &MongosCommand,
        sharded: &ShardedCollection,
    ) -> bool {
        let update = self.update(op);
        update.is_some()
            && (self.upserts(op) || may_change_shard_key(update, &self.filter(op), sharded))
    }

    /// Targets the write.
    pub(super) fn statement_target(
        &self,
        op: &MongosCommand,
        sharded: &ShardedCollection,
    ) -> Result<StatementTarget, Fault> {
        let wire_version = op.cluster().config.max_wire_version;
        match self {
            Self::Statement(kind, statement) => {
                statement_target(*kind, &statement.body, sharded, wire_version)
            }
            Self::Modify => find_and_modify_target(&op.call.body, sharded, wire_version),
        }
    }

    /// The command for a shard, as the client sent it.
    pub(super) fn command(
        &self,
        op: &MongosCommand,
        catalog: &Catalog,
        namespace: &Namespace,
        shard: &str,
    ) -> Document {
        match self {
            Self::Statement(kind, statement) => {
                command(op, *kind, catalog, namespace, shard, std::slice::from_ref(*statement))
            }
            Self::Modify => op.call.body.clone(),
        }
    }

    /// The command for the shard of the document, restricted to its `_id`.
    pub(super) fn command_for(
        &self,
        op: &MongosCommand,
        catalog: &Catalog,
        namespace: &Namespace,
        shard: &str,
        id: &Bson,
    ) -> Document {
        let exact = doc! { "$and": [{ "_id": { "$eq": id.clone() } }, self.filter(op)] };
        match self {
            Self::Statement(kind, statement) => {
                let mut statement = (*statement).clone();
                statement.body.insert("q", exact);
                statement.body.remove("upsert");
                statement.body.remove("sort");
                command(op, *kind, catalog, namespace, shard, &[statement])
            }
            Self::Modify => {
                let mut body = op.call.body.clone();
                body.insert("query", exact);
                body.remove("upsert");
                body.remove("sort");
                body
            }
        }
    }

    /// The command that inserts the document of an upsert on its shard.
    pub(super) fn command_to_insert(
        &self,
        op: &MongosCommand,
        catalog: &Catalog,
        namespace: &Namespace,
        shard: &str,
        document: &Document,
    ) -> Document {
        let id = document.get("_id").cloned().unwrap_or(Bson::Null);
        let exact = doc! { "_id": { "$eq": id } };
        match self {
            Self::Statement(_, statement) => {
                let mut statement = (*statement).clone();
                statement.body = doc! { "q": exact, "u": document.clone(), "upsert": true };
                command(op, StatementKind::Update, catalog, namespace, shard, &[statement])
            }
            Self::Modify => {
                let mut body = op.call.body.clone();
                body.insert("query", exact);
                body.insert("update", document.clone());
                body.remove("sort");
                body.remove("arrayFilters");
                body
            }
        }
    }

    /// Result of the write for a document that moved.
    pub(super) fn outcome(
        &self,
        op: &MongosCommand,
        before: &Document,
        after: &Document,
    ) -> Document {
        match self {
            Self::Statement(..) => doc! { "n": 1, "nModified": 1 },
            Self::Modify => {
                let shown = if flag(&op.call.body, "new") { after } else { before };
                doc! {
                    "lastErrorObject": { "n": 1, "updatedExisting": true },
                    "value": shown.clone(),
                }
            }
        }
    }

    /// Decides how to execute the write for the document that was found.
    pub(super) fn plan(
        &self,
        op: &MongosCommand,
        sharded: &ShardedCollection,
        found: Option<(&str, &Document)>,
    ) -> Result<WritePlan, Fault> {
        let Some(update) = self.update(op) else { return Ok(WritePlan::Stay) };
        let env = self.environment(op, sharded)?;
        let filter = Filter::parse(&self.filter(op), &env)?;
        let update = Update::parse(update, &self.array_filters(op), &env)?;
        match found {
            None if !self.upserts(op) => Ok(WritePlan::Stay),
            None => Ok(WritePlan::Insert(stored(update.upserted(&filter, &env)?, &env)?)),
            Some((shard, document)) => {
                let Some(after) = update.apply(document, &filter, &env)? else {
                    return Ok(WritePlan::Stay);
                };
                let no_cursor_timeout = sharded.owner(&after)? == shard;
                Ok(if no_cursor_timeout { WritePlan::Stay } else { WritePlan::Move(after) })
            }
        }
    }

    fn array_filters(&self, op: &MongosCommand) -> Vec<Document> {
        match self.option(op, "arrayFilters") {
            Some(Bson::Array(filters)) => {
                filters.iter().filter_map(Bson::as_document).cloned().collect()
            }
            _ => Vec::new(),
        }
    }

    /// Returns `true` if the update changes the shard key of this document.
    pub(super) fn changes_key(
        &self,
        op: &MongosCommand,
        sharded: &ShardedCollection,
        document: &Document,
    ) -> Result<bool, Fault> {
        let Some(update) = self.update(op) else { return Ok(false) };
        let env = self.environment(op, sharded)?;
        let filter = Filter::parse(&self.filter(op), &env)?;
        let update = Update::parse(update, &self.array_filters(op), &env)?;
        let Some(after) = update.apply(document, &filter, &env)? else { return Ok(false) };
        let (before, after) = (sharded.key.of(document)?, sharded.key.of(&after)?);
        Ok(super::key::compare_keys(&before, &after).is_ne())
    }

    fn environment(
        &self,
        op: &MongosCommand,
        sharded: &ShardedCollection,
    ) -> Result<Environment, Fault> {
        let mut env = op.environment(Some(sharded))?;
        if let Some(Bson::Document(constants)) = self.option(op, "c") {
            env.variables.extend(constants.clone());
        }
        if let Some(Bson::Document(collation)) = self.option(op, "collation") {
            env.collation = Collation::parse(collation)?;
        }
        Ok(env)
    }
}
