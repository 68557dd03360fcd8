//! Writes, encoded and waiting to be sent.

use std::{borrow::Borrow, ops::Range};

use bson::{Bson, RawDocument, oid::ObjectId};
use serde::Serialize;

use super::{
    Batch,
    held::{self, Held},
};
use crate::{
    error::{Error, Result},
    operation::{
        delete,
        insert::{self, Id, IdOrigin, raw},
        update,
        write::{Change, Verb},
    },
    options::WriteModel,
    sequence::{DocumentSequenceRef, Documents, Source},
};

/// Any number of writes, as they will be sent.
///
/// The statements of each verb lie one after the other in one run of bytes, from which batches are
/// cut. Documents that are bytes already are [held](Held) where they are; their run is without
/// bytes, and counts them all the same.
#[derive(Debug, Default)]
pub(crate) struct Statements<'a> {
    /// Writes by index.
    pub(super) writes: Vec<Write>,
    inserts: Run,
    updates: Run,
    deletes: Run,
    /// The inserts, if all of them are bytes already.
    held: Option<Box<dyn Held + 'a>>,
    /// The `_id`s of the inserts, in their order, that go in front of them. Of the others it is in
    /// the document.
    generated_ids: Vec<Option<ObjectId>>,
    has_delete_hint: bool,
}

/// Properties of a write.
#[derive(Clone, Copy, Debug)]
pub(super) struct Write {
    pub(super) verb: Verb,
    /// `true` if the write can affect several documents.
    pub(super) multi: bool,
}

/// The statements of one verb.
#[derive(Debug, Default)]
pub(super) struct Run {
    bytes: Vec<u8>,
    pub(super) entries: Vec<Entry>,
}

/// Index of the write in the caller's order, and the end of its statement in the buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) index: usize,
    end: usize,
}

impl Run {
    fn close_statement(&mut self, index: usize) {
        self.entries.push(Entry { index, end: self.bytes.len() });
    }

    pub(super) fn start(&self, position: usize) -> usize {
        position.checked_sub(1).map_or(0, |before| self.entries[before].end)
    }

    /// Range of the statement at `position` in the buffer.
    pub(super) fn range(&self, position: usize) -> Range<usize> {
        self.start(position)..self.entries[position].end
    }
}

/// The most room that is made on an iterator's word alone.
const MOST_RESERVED: usize = 100_000;

impl<'a> Statements<'a> {
    /// The documents of an `insert_many`.
    pub(crate) fn of_documents<T, D>(documents: impl IntoIterator<Item = D>) -> Result<Self>
    where
        T: Serialize + 'a,
        D: Borrow<T> + Send + Sync + 'a,
    {
        let mut documents = documents.into_iter();
        let count = documents.size_hint().0.min(MOST_RESERVED);
        let mut statements = Self::with_room(count);
        let mut held = held::Documents::<T, D>::expecting(count);
        while let Some(document) = documents.next() {
            match raw::read(document.borrow(), |raw| statements.note_insert(raw)) {
                Some(noted) => noted?,
                None => {
                    let mut statements = Self::with_room(count);
                    for document in held.iter().chain([document.borrow()]) {
                        statements.push_insert(document)?;
                    }
                    documents.try_for_each(|it| statements.push_insert(it.borrow()))?;
                    return Ok(statements);
                }
            }
            held.push(document);
        }
        statements.held = Some(Box::new(held));
        statements.not_empty("insert_many requires at least one document")
    }

    /// The models of a `bulk_write`.
    pub(crate) fn of_models<T: Serialize>(
        models: impl IntoIterator<Item = WriteModel<T>>,
    ) -> Result<Self> {
        let mut statements = Self::default();
        for model in models {
            statements.push(&model)?;
        }
        statements.not_empty("bulk_write requires at least one model")
    }

    /// None yet, and room for so many inserts.
    fn with_room(count: usize) -> Self {
        let mut none = Self::default();
        none.writes.reserve(count);
        none.inserts.entries.reserve(count);
        none.generated_ids.reserve(count);
        none
    }

    fn not_empty(self, complaint: &str) -> Result<Self> {
        if self.writes.is_empty() { Err(Error::invalid_argument(complaint)) } else { Ok(self) }
    }

    /// The name of the command that the first of them goes with.
    pub(crate) fn first_command(&self) -> &'static str {
        self.writes.first().map_or("bulkWrite", |write| write.verb.name().as_str())
    }

    /// Returns `true` if a delete has a `hint`, which servers before 4.4 reject.
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
        let expected = match self.generated_ids.last() {
            Some(None) => IdOrigin::Given,
            Some(Some(_)) | None => IdOrigin::Generated,
        };
        let id = insert::append(document, &mut self.inserts.bytes, expected)?;
        self.close_insert(id, self.inserts.bytes.len());
        Ok(())
    }

    /// Counts a document in that is held.
    fn note_insert(&mut self, document: &RawDocument) -> Result<()> {
        let id = Id::of(document)?;
        let length = insert::length_of(document, id.origin());
        self.close_insert(id, self.inserts.start(self.inserts.entries.len()) + length);
        Ok(())
    }

    fn close_insert(&mut self, id: Id, end: usize) {
        self.generated_ids.push(match id {
            Id::Given(_) => None,
            Id::Generated(id) => Some(id),
        });
        self.inserts.entries.push(Entry { index: self.writes.len(), end });
        self.writes.push(Write { verb: Verb::Insert, multi: false });
    }

    fn push_update<U: Serialize>(
        &mut self,
        statement: &update::Statement<'_, U>,
        change: Change,
    ) -> Result<()> {
        update::append(statement, change, &mut self.updates.bytes)?;
        self.updates.close_statement(self.writes.len());
        self.writes.push(Write { verb: Verb::Update, multi: statement.multi });
        Ok(())
    }

    fn push_delete(&mut self, statement: &delete::Statement<'_>, multi: bool) -> Result<()> {
        statement.append(&mut self.deletes.bytes)?;
        self.deletes.close_statement(self.writes.len());
        self.writes.push(Write { verb: Verb::Delete, multi });
        Ok(())
    }

    pub(super) fn run(&self, verb: Verb) -> &Run {
        match verb {
            Verb::Insert => &self.inserts,
            Verb::Update => &self.updates,
            Verb::Delete => &self.deletes,
        }
    }

    /// The statements of a batch, to be sent as often as need be.
    pub(crate) fn lend(&self, batch: &Batch) -> DocumentSequenceRef<'_> {
        let (run, positions) = (self.run(batch.verb), batch.positions.clone());
        let range = run.start(positions.start)..run.start(positions.end);
        let documents = match (batch.verb, &self.held) {
            (Verb::Insert, Some(_)) => {
                Documents::Scattered { source: self, positions, bytes: range.len() }
            }
            (Verb::Insert | Verb::Update | Verb::Delete, _) => Documents::Whole(&run.bytes[range]),
        };
        DocumentSequenceRef { identifier: batch.verb.identifier(), documents, ns_info: None }
    }

    /// Index, in the caller's order, of the `nth` statement of a batch.
    pub(super) fn index(&self, batch: &Batch, nth: usize) -> usize {
        self.run(batch.verb).entries[batch.positions.start + nth].index
    }

    /// Number of inserts.
    pub(super) fn inserts(&self) -> usize {
        self.inserts.entries.len()
    }

    /// The inserts at `positions`: which writes they are, as the caller counts them, and their
    /// `_id`s.
    pub(super) fn inserted_ids(
        &self,
        positions: Range<usize>,
    ) -> impl Iterator<Item = (usize, Bson)> {
        positions.map(|position| (self.inserts.entries[position].index, self.id(position)))
    }

    fn id(&self, position: usize) -> Bson {
        if let Some(generated) = self.generated_ids[position] {
            return generated.into();
        }
        // It was found when the document was encoded, or noted.
        let mut id = None;
        let mut look = |document: &RawDocument| id = insert::id_of(document).ok().flatten();
        match &self.held {
            Some(held) => held.read(position, &mut look),
            None => {
                let bytes = &self.inserts.bytes[self.inserts.range(position)];
                if let Ok(document) = RawDocument::from_bytes(bytes) {
                    look(document);
                }
            }
        }
        id.unwrap_or(Bson::Null)
    }
}

impl Source for Statements<'_> {
    fn append(&self, positions: &mut Range<usize>, out: &mut Vec<u8>, enough: usize) -> Result<()> {
        let Some(held) = &self.held else { return Ok(()) };
        while out.len() < enough
            && let Some(position) = positions.next()
        {
            let end = out.len() + self.inserts.range(position).len();
            let generated = self.generated_ids[position];
            let mut appended = Ok(());
            held.read(position, &mut |raw| appended = insert::append_raw(raw, generated, out));
            appended?;
            // The length of the message was told to the server before.
            if out.len() != end {
                let changed = format!("document {position} changed while it was being sent");
                return Err(Error::invalid_argument(changed));
            }
        }
        Ok(())
    }
}
