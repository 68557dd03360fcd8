//! What can be done to data. An entry of the log is made of changes; a member that applies the same
//! changes in the same order holds the same data.

use std::sync::Arc;

use bson::{Bson, Document, Uuid};
use steadfast_query::Fault;

use super::{namespace::Namespace, store::Store};

/// One change of data. It says what is there afterwards, not how it was computed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Change {
    /// A new document, which has its `_id`.
    Insert { namespace: Namespace, document: Arc<Document> },
    /// Another document takes the place of the one with the same `_id`.
    Replace { namespace: Namespace, document: Arc<Document>, by: Rewrite },
    /// The document with this `_id` goes.
    Delete { namespace: Namespace, id: Bson },
    /// A new collection, with the options that it was created with.
    CreateCollection { namespace: Namespace, uuid: Uuid, options: Document },
    /// Other options for a collection (`collMod`).
    ModifyCollection { namespace: Namespace, options: Document },
    /// A collection goes, and with it its indexes.
    DropCollection { namespace: Namespace },
    /// A collection gets another name; one that has it already goes.
    RenameCollection { from: Namespace, to: Namespace },
    /// A new index by its specification, as `listIndexes` shows it.
    CreateIndex { namespace: Namespace, specification: Document },
    /// Another specification for an index (`collMod`).
    ModifyIndex { namespace: Namespace, name: String, specification: Document },
    /// An index goes.
    DropIndex { namespace: Namespace, name: String },
    /// A database is gone, after all of its collections, and with it its views.
    DropDatabase { database: String },
    /// Nothing, but it moves the log on: a new primary's first entry, `appendOplogNote`.
    Note(Document),
}

impl Change {
    /// The collection that it is made in, and the `_id` of the document, if it is about one.
    pub(crate) fn touched(&self) -> Option<(&Namespace, Option<&Bson>)> {
        match self {
            Self::Insert { namespace, document } | Self::Replace { namespace, document, .. } => {
                Some((namespace, document.get("_id")))
            }
            Self::Delete { namespace, id } => Some((namespace, Some(id))),
            Self::CreateCollection { namespace, .. }
            | Self::ModifyCollection { namespace, .. }
            | Self::DropCollection { namespace }
            | Self::CreateIndex { namespace, .. }
            | Self::ModifyIndex { namespace, .. }
            | Self::DropIndex { namespace, .. } => Some((namespace, None)),
            Self::RenameCollection { from, .. } => Some((from, None)),
            Self::DropDatabase { .. } | Self::Note(_) => None,
        }
    }

    /// The database that it is made in.
    pub(crate) fn database(&self) -> Option<&str> {
        match self {
            Self::DropDatabase { database } => Some(database),
            _ => self.touched().map(|(namespace, _)| namespace.database.as_str()),
        }
    }
}

/// What made another document of one: change streams tell it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Rewrite {
    /// It is a document of its own.
    Whole,
    /// A pipeline.
    Pipeline,
    /// Operators on these fields.
    Operators(Arc<[Touched]>),
}

/// A field that an update names.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Touched {
    pub(crate) path: Vec<String>,
    /// Whether it may add elements at the end of an array, and does nothing else to it then.
    pub(crate) appends: bool,
}

impl Rewrite {
    /// That of an update as it is asked for.
    pub(crate) fn of(update: &Bson) -> Self {
        let Bson::Document(update) = update else { return Self::Pipeline };
        if !update.keys().next().is_some_and(|name| name.starts_with('$')) {
            return Self::Whole;
        }
        let touched = |path: &str, appends| Touched {
            path: path.split('.').map(str::to_owned).collect(),
            appends,
        };
        let mut all = Vec::new();
        for (operator, fields) in update {
            for (path, value) in fields.as_document().into_iter().flatten() {
                all.push(touched(path, operator == "$push"));
                if let ("$rename", Bson::String(to)) = (operator.as_str(), value) {
                    all.push(touched(to, false));
                }
            }
        }
        Self::Operators(all.into())
    }
}

/// A statement of a retryable write: which one of its command it is, and what its reply says of it.
/// If the same statement comes again, this is its result.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Statement {
    pub(crate) id: i32,
    pub(crate) outcome: Document,
}

/// The means of a command to change data: on a primary outside of a transaction each change is an
/// entry of the log at once; in a transaction they are kept until it commits.
pub(crate) trait Changes {
    /// The data as this command sees it, with the changes that it has made.
    fn store(&self) -> &Store;

    /// Says which documents a statement is about to insert, replace or delete, all of them, before it
    /// changes the first. Fails with `WriteConflict` if a transaction stands in the way: in a
    /// transaction that is the statement's error. Outside of one the command is to return the error
    /// as it is, at once, with nothing of this statement done; it is called again when the way is
    /// free, with the same [`Progress`].
    fn reserve(&mut self, namespace: &Namespace, ids: &[&Bson]) -> Result<(), Fault>;

    /// Makes one change, or none of it: a duplicate key is found here. The statement is put on record
    /// together with the change, if the call is a retryable write; else it is ignored.
    fn make(&mut self, change: Change, statement: Option<Statement>) -> Result<(), Fault>;

    /// What is on record of a statement of this retryable write, if it was executed before.
    fn recorded(&self, statement: i32) -> Option<Document>;
}

/// What a command of several statements has done before it had to wait: the replies of its statements
/// so far, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    pub(crate) done: Vec<Result<Document, Fault>>,
}
