//! Write of one document that the `mongos` must find first: a statement of `update` or `delete`, or
//! a `findAndModify`.

use bson::{Bson, Document, doc};
use steadfast_query::{Collation, Environment, Fault, Filter, Update, update::stored};

use super::{
    catalog::{Catalog, Sharded},
    operation::Operation,
    statements::{Kind, Statement, Way, flag, modify_way, moves, way},
    writes::command,
};
use crate::namespace::Namespace;

/// A write of one document.
#[derive(Clone, Copy, Debug)]
pub(super) enum Subject<'a> {
    Statement(Kind, &'a Statement),
    /// The client's `findAndModify`.
    Modify,
}

/// Execution plan after the document was found.
#[derive(Debug)]
pub(super) enum Plan {
    /// The shard of the document executes the write. Also if no document was found.
    Stay,
    /// The document moves to another shard.
    Move(Document),
    /// The upsert inserts this document.
    Insert(Document),
}

impl Subject<'_> {
    fn body<'b>(&'b self, op: &'b Operation) -> &'b Document {
        match self {
            Self::Statement(_, statement) => &statement.body,
            Self::Modify => &op.call.body,
        }
    }

    pub(super) fn filter(&self, op: &Operation) -> Document {
        let field = match self {
            Self::Statement(..) => "q",
            Self::Modify => "query",
        };
        self.body(op).get_document(field).cloned().unwrap_or_default()
    }

    pub(super) fn statement_id(&self, op: &Operation) -> i32 {
        match self {
            Self::Statement(_, statement) => statement.id,
            Self::Modify => op.call.body.get_i32("stmtId").unwrap_or(0),
        }
    }

    /// An option of the statement.
    pub(super) fn option<'b>(&'b self, op: &'b Operation, field: &str) -> Option<&'b Bson> {
        self.body(op).get(field)
    }

    pub(super) fn is_multi(&self, op: &Operation) -> bool {
        matches!(self, Self::Statement(Kind::Update, _)) && flag(self.body(op), "multi")
    }

    fn upserts(&self, op: &Operation) -> bool {
        flag(self.body(op), "upsert")
    }

    /// The update. `None` for a delete.
    fn update<'b>(&'b self, op: &'b Operation) -> Option<&'b Bson> {
        match self {
            Self::Statement(Kind::Delete | Kind::Insert, _) => None,
            Self::Statement(Kind::Update, statement) => statement.body.get("u"),
            Self::Modify => op.call.body.get("update"),
        }
    }

    /// Returns `true` if the exclusive lock is needed: the write can change the shard key or insert
    /// a document.
    pub(super) fn needs_to_be_alone(&self, op: &Operation, sharded: &Sharded) -> bool {
        let update = self.update(op);
        update.is_some() && (self.upserts(op) || moves(update, &self.filter(op), sharded))
    }

    /// Targets the write.
    pub(super) fn way(&self, op: &Operation, sharded: &Sharded) -> Result<Way, Fault> {
        let wire_version = op.cluster().config.max_wire_version;
        match self {
            Self::Statement(kind, statement) => way(*kind, &statement.body, sharded, wire_version),
            Self::Modify => modify_way(&op.call.body, sharded, wire_version),
        }
    }

    /// The command for a shard, as the client sent it.
    pub(super) fn command(
        &self,
        op: &Operation,
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
        op: &Operation,
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
        op: &Operation,
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
                command(op, Kind::Update, catalog, namespace, shard, &[statement])
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
    pub(super) fn outcome(&self, op: &Operation, before: &Document, after: &Document) -> Document {
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
        op: &Operation,
        sharded: &Sharded,
        found: Option<(&str, &Document)>,
    ) -> Result<Plan, Fault> {
        let Some(update) = self.update(op) else { return Ok(Plan::Stay) };
        let env = self.environment(op, sharded)?;
        let filter = Filter::parse(&self.filter(op), &env)?;
        let update = Update::parse(update, &self.array_filters(op), &env)?;
        match found {
            None if !self.upserts(op) => Ok(Plan::Stay),
            None => Ok(Plan::Insert(stored(update.upserted(&filter, &env)?, &env)?)),
            Some((shard, document)) => {
                let Some(after) = update.apply(document, &filter, &env)? else {
                    return Ok(Plan::Stay);
                };
                let stays = sharded.owner(&after)? == shard;
                Ok(if stays { Plan::Stay } else { Plan::Move(after) })
            }
        }
    }

    fn array_filters(&self, op: &Operation) -> Vec<Document> {
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
        op: &Operation,
        sharded: &Sharded,
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

    fn environment(&self, op: &Operation, sharded: &Sharded) -> Result<Environment, Fault> {
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
