//! Changes of data, the content of oplog entries. Members that apply the same changes in the same
//! order hold the same data.

use std::sync::Arc;

use bson::{Bson, Document, Uuid};
use steadfast_query::Fault;

use super::{namespace::Namespace, store::Store};

/// One change of data. It states the result, not its computation, as oplog entries do.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Change {
    /// Inserts a document that has its `_id`.
    Insert { namespace: Namespace, document: Arc<Document> },
    /// Replaces the document with the same `_id`.
    Replace { namespace: Namespace, document: Arc<Document>, by: UpdateForm },
    /// Deletes the document with this `_id`.
    Delete { namespace: Namespace, id: Bson },
    /// Creates a collection with these options.
    CreateCollection { namespace: Namespace, uuid: Uuid, options: Document },
    /// Sets the options of a collection (`collMod`).
    ModifyCollection { namespace: Namespace, options: Document },
    /// Drops a collection and its indexes.
    DropCollection { namespace: Namespace },
    /// Renames a collection. A collection with the new name is dropped.
    RenameCollection { from: Namespace, to: Namespace },
    /// Creates an index by its specification, as `listIndexes` shows it.
    CreateIndex { namespace: Namespace, specification: Document },
    /// Sets the specification of an index (`collMod`).
    ModifyIndex { namespace: Namespace, name: String, specification: Document },
    /// Drops an index.
    DropIndex { namespace: Namespace, name: String },
    /// Drops a database and its views. Its collections have been dropped before.
    DropDatabase { database: String },
    /// No-op entry (`op: "n"`): the first entry of a new primary, `appendOplogNote`.
    Noop(Document),
}

impl Change {
    /// Namespace of the change and the `_id` of its document, if it has one.
    pub(crate) fn target(&self) -> Option<(&Namespace, Option<&Bson>)> {
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
            Self::DropDatabase { .. } | Self::Noop(_) => None,
        }
    }

    /// Database of the change.
    pub(crate) fn database(&self) -> Option<&str> {
        match self {
            Self::DropDatabase { database } => Some(database),
            _ => self.target().map(|(namespace, _)| namespace.database.as_str()),
        }
    }
}

/// Form of the update that produced a document. It decides how change streams show it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum UpdateForm {
    /// Replacement by a whole document.
    Replacement,
    /// Aggregation pipeline.
    Pipeline,
    /// Update operators on these fields.
    Operators(Arc<[UpdatedPath]>),
}

/// A field that an update operator names.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct UpdatedPath {
    pub(crate) path: Vec<String>,
    /// `true` if the operator may append to an array and changes nothing else in it (`$push`).
    pub(crate) appends: bool,
}

impl UpdateForm {
    /// The form of an update.
    pub(crate) fn of(update: &Bson) -> Self {
        let Bson::Document(update) = update else { return Self::Pipeline };
        if !update.keys().next().is_some_and(|name| name.starts_with('$')) {
            return Self::Replacement;
        }
        let touched = |path: &str, appends| UpdatedPath {
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

/// An executed statement of a retryable write: its statement id and its result. A retry of the
/// statement returns the recorded result.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Statement {
    pub(crate) id: i32,
    pub(crate) outcome: Document,
}

/// Changes data for a command. On a primary outside of a transaction each change is an oplog entry
/// at once. In a transaction the changes are buffered until it commits.
pub(crate) trait ChangeWriter {
    /// The data as the command sees it, including its own changes.
    fn store(&self) -> &Store;

    /// Declares all documents that a statement is about to insert, replace or delete, before its
    /// first change.
    ///
    /// Fails with `WriteConflict` if a transaction holds one of them. In a transaction that is the
    /// error of the statement. Outside of one the command must return the error at once, with
    /// nothing of this statement done. It is called again with the same [`BatchProgress`] when the
    /// transaction has ended.
    fn reserve(&mut self, namespace: &Namespace, ids: &[&Bson]) -> Result<(), Fault>;

    /// Applies one change, or fails without effect, for example with a duplicate key. For a
    /// retryable write the statement is recorded together with the change. Otherwise `statement` is
    /// ignored.
    fn apply_change(&mut self, change: Change, statement: Option<Statement>) -> Result<(), Fault>;

    /// Recorded result of a statement of this retryable write, if it was executed before.
    fn recorded(&self, statement: i32) -> Option<Document>;
}

/// Results of the statements that a command has executed before it had to wait, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct BatchProgress {
    pub(crate) done: Vec<Result<Document, Fault>>,
}
