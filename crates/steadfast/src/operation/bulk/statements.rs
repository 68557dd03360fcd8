//! Writes, encoded and waiting to be sent.

use bson::Bson;
use serde::Serialize;

use super::Batch;
use crate::{
    error::{Error, Result},
    operation::{
        delete,
        insert::{self, IdOrigin},
        update,
        write::{Change, Verb},
    },
    options::WriteModel,
};

/// Any number of writes, as they will be sent.
///
/// The statements of each verb lie one after the other in one run of bytes, from which batches are
/// cut.
#[derive(Debug, Default)]
pub(crate) struct Statements {
    /// The verb of each write, by its index.
    pub(super) verbs: Vec<Verb>,
    inserts: Run,
    updates: Run,
    deletes: Run,
    /// The `_id`s of the inserts, in their order.
    ids: Vec<Bson>,
    /// How the last insert came by its `_id`; the next one is likely to be like it.
    last_id: IdOrigin,
    has_delete_hint: bool,
}

/// The statements of one verb.
#[derive(Debug, Default)]
pub(super) struct Run {
    bytes: Vec<u8>,
    pub(super) entries: Vec<Entry>,
}

/// Where a statement ends in the run, and what is known of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// Which write it is, as the caller counts them.
    pub(super) index: usize,
    end: usize,
    pub(super) multi: bool,
}

impl Run {
    fn close_statement(&mut self, index: usize, multi: bool) {
        self.entries.push(Entry { index, end: self.bytes.len(), multi });
    }

    fn start(&self, position: usize) -> usize {
        position.checked_sub(1).map_or(0, |before| self.entries[before].end)
    }

    /// How long the statement at `position` is.
    pub(super) fn length(&self, position: usize) -> usize {
        self.entries[position].end - self.start(position)
    }
}

impl Statements {
    /// The documents of an `insert_many`.
    pub(crate) fn of_documents<T: Serialize>(
        documents: impl IntoIterator<Item = impl std::borrow::Borrow<T>>,
    ) -> Result<Self> {
        let mut statements = Self::default();
        for document in documents {
            statements.push_insert(document.borrow())?;
        }
        statements.not_empty("insert_many needs at least one document")
    }

    /// The models of a `bulk_write`.
    pub(crate) fn of_models<T: Serialize>(
        models: impl IntoIterator<Item = WriteModel<T>>,
    ) -> Result<Self> {
        let mut statements = Self::default();
        for model in models {
            statements.push(&model)?;
        }
        statements.not_empty("bulk_write needs at least one model")
    }

    fn not_empty(self, complaint: &str) -> Result<Self> {
        if self.verbs.is_empty() { Err(Error::invalid_argument(complaint)) } else { Ok(self) }
    }

    /// The name of the command that the first of them goes with.
    pub(crate) fn first_command(&self) -> &'static str {
        self.verbs.first().map_or("bulkWrite", |verb| verb.name().as_str())
    }

    /// Whether a delete names an index, which servers before 4.4 refuse.
    pub(crate) fn has_delete_hint(&self) -> bool {
        self.has_delete_hint
    }

    fn push<T: Serialize>(&mut self, model: &WriteModel<T>) -> Result<()> {
        match model {
            WriteModel::InsertOne(model) => self.push_insert(&model.document),
            WriteModel::UpdateOne(model) => {
                let statement = update::Statement {
                    q: &model.filter,
                    u: &model.update,
                    multi: false,
                    upsert: model.upsert,
                    array_filters: model.array_filters.as_deref(),
                    collation: model.collation.as_ref(),
                    hint: model.hint.as_ref(),
                    sort: model.sort.as_ref(),
                };
                self.push_update(&statement, Change::Update)
            }
            WriteModel::UpdateMany(model) => {
                let statement = update::Statement {
                    q: &model.filter,
                    u: &model.update,
                    multi: true,
                    upsert: model.upsert,
                    array_filters: model.array_filters.as_deref(),
                    collation: model.collation.as_ref(),
                    hint: model.hint.as_ref(),
                    sort: None,
                };
                self.push_update(&statement, Change::Update)
            }
            WriteModel::ReplaceOne(model) => {
                let statement = update::Statement {
                    q: &model.filter,
                    u: &model.replacement,
                    multi: false,
                    upsert: model.upsert,
                    array_filters: None,
                    collation: model.collation.as_ref(),
                    hint: model.hint.as_ref(),
                    sort: model.sort.as_ref(),
                };
                self.push_update(&statement, Change::Replacement)
            }
            WriteModel::DeleteOne(model) => {
                let (collation, hint) = (model.collation.as_ref(), model.hint.as_ref());
                self.has_delete_hint |= hint.is_some();
                self.push_delete(
                    &delete::Statement::new(&model.filter, false, collation, hint),
                    false,
                )
            }
            WriteModel::DeleteMany(model) => {
                let (collation, hint) = (model.collation.as_ref(), model.hint.as_ref());
                self.has_delete_hint |= hint.is_some();
                self.push_delete(
                    &delete::Statement::new(&model.filter, true, collation, hint),
                    true,
                )
            }
        }
    }

    fn push_insert<T: Serialize>(&mut self, document: &T) -> Result<()> {
        let (id, origin) = insert::append(document, &mut self.inserts.bytes, self.last_id)?;
        self.ids.push(id);
        self.last_id = origin;
        self.inserts.close_statement(self.verbs.len(), false);
        self.verbs.push(Verb::Insert);
        Ok(())
    }

    fn push_update<U: Serialize>(
        &mut self,
        statement: &update::Statement<'_, U>,
        change: Change,
    ) -> Result<()> {
        update::append(statement, change, &mut self.updates.bytes)?;
        self.updates.close_statement(self.verbs.len(), statement.multi);
        self.verbs.push(Verb::Update);
        Ok(())
    }

    fn push_delete(&mut self, statement: &delete::Statement<'_>, multi: bool) -> Result<()> {
        statement.append(&mut self.deletes.bytes)?;
        self.deletes.close_statement(self.verbs.len(), multi);
        self.verbs.push(Verb::Delete);
        Ok(())
    }

    pub(super) fn run(&self, verb: Verb) -> &Run {
        match verb {
            Verb::Insert => &self.inserts,
            Verb::Update => &self.updates,
            Verb::Delete => &self.deletes,
        }
    }

    /// The bytes of a batch, to be sent. If the batch is all there is of its verb, they are moved
    /// and not copied, and cannot be taken again.
    pub(super) fn take(&mut self, batch: &Batch) -> Vec<u8> {
        let run = match batch.verb {
            Verb::Insert => &mut self.inserts,
            Verb::Update => &mut self.updates,
            Verb::Delete => &mut self.deletes,
        };
        if batch.positions == (0..run.entries.len()) {
            return std::mem::take(&mut run.bytes);
        }
        run.bytes[run.start(batch.positions.start)..run.start(batch.positions.end)].to_vec()
    }

    /// Which write the `nth` statement of a batch is, as the caller counts them.
    pub(super) fn index(&self, batch: &Batch, nth: usize) -> usize {
        self.run(batch.verb).entries[batch.positions.start + nth].index
    }

    /// The `_id` that the `nth` document of a batch of inserts has. It is given away.
    pub(super) fn take_id(&mut self, batch: &Batch, nth: usize) -> Bson {
        std::mem::replace(&mut self.ids[batch.positions.start + nth], Bson::Null)
    }
}
