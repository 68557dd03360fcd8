//! Encoded writes of a collection's bulk write.

use std::{borrow::Borrow, ops::Range};

use bson::{Bson, Document, RawDocument, ToStr, oid::ObjectId};
use serde::Serialize;

use super::{
    CollectionBulkBatch,
    raw_documents::{self, RawDocumentList},
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
    sequence::{DocumentSequenceRef, DocumentSource, Documents},
};

/// Writes of a bulk write, encoded.
///
/// The statements of each verb are in one buffer, from which batches are cut. [Raw
/// documents](RawDocumentList) stay where they are: their buffer has no bytes, but entries.
#[derive(Debug, Default)]
pub(crate) struct Statements<'a> {
    /// Writes by index.
    pub(super) writes: Vec<WriteProperties>,
    inserts: StatementBuffer,
    updates: StatementBuffer,
    deletes: StatementBuffer,
    /// Raw documents, if all inserts are.
    raw_documents: Option<Box<dyn RawDocumentList + 'a>>,
    /// Generated `_id` of each insert, to be sent before its fields. `None` if the document has an
    /// `_id`.
    generated_ids: Vec<Option<ObjectId>>,
    has_delete_hint: bool,
}

/// Properties of a write.
#[derive(Clone, Copy, Debug)]
pub(super) struct WriteProperties {
    pub(super) verb: Verb,
    /// `true` if the write can affect several documents.
    pub(super) multi: bool,
}

/// Statements of one verb.
#[derive(Debug, Default)]
pub(super) struct StatementBuffer {
    bytes: Vec<u8>,
    pub(super) entries: Vec<StatementEntry>,
}

/// Index of the write in the caller's order, and the end of its statement in the buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct StatementEntry {
    pub(super) index: usize,
    end: usize,
}

impl StatementBuffer {
    fn close_statement(&mut self, index: usize) {
        self.entries.push(StatementEntry { index, end: self.bytes.len() });
    }

    pub(super) fn start(&self, position: usize) -> usize {
        position.checked_sub(1).map_or(0, |before| self.entries[before].end)
    }

    /// Returns the range of the statement at `position` in the buffer.
    pub(super) fn range(&self, position: usize) -> Range<usize> {
        self.start(position)..self.entries[position].end
    }
}

/// Maximum capacity reserved from an iterator's size hint.
const MAX_RESERVED: usize = 100_000;

impl<'a> Statements<'a> {
    /// Encodes the documents of an `insert_many`.
    pub(crate) fn of_documents<T, D>(documents: impl IntoIterator<Item = D>) -> Result<Self>
    where
        T: Serialize + 'a,
        D: Borrow<T> + Send + Sync + 'a,
    {
        let mut documents = documents.into_iter();
        let count = documents.size_hint().0.min(MAX_RESERVED);
        let mut statements = Self::with_capacity(count);
        let mut raw_documents = raw_documents::RawDocuments::<T, D>::with_capacity(count);
        while let Some(document) = documents.next() {
            match raw::read(document.borrow(), |raw| statements.add_raw_insert(raw)) {
                Some(noted) => noted?,
                None => {
                    let mut statements = Self::with_capacity(count);
                    for document in raw_documents.iter().chain([document.borrow()]) {
                        statements.push_insert(document)?;
                    }
                    documents.try_for_each(|it| statements.push_insert(it.borrow()))?;
                    return Ok(statements);
                }
            }
            raw_documents.push(document);
        }
        statements.raw_documents = Some(Box::new(raw_documents));
        statements.not_empty("insert_many requires at least one document")
    }

    /// Encodes the models of a `bulk_write`.
    pub(crate) fn of_models<T: Serialize>(
        models: impl IntoIterator<Item = WriteModel<T>>,
    ) -> Result<Self> {
        let mut statements = Self::default();
        for model in models {
            statements.push(&model)?;
        }
        statements.not_empty("bulk_write requires at least one model")
    }

    /// Creates an empty list with capacity for `count` inserts.
    fn with_capacity(count: usize) -> Self {
        let mut none = Self::default();
        none.writes.reserve(count);
        none.inserts.entries.reserve(count);
        none.generated_ids.reserve(count);
        none
    }

    fn not_empty(self, complaint: &str) -> Result<Self> {
        if self.writes.is_empty() { Err(Error::invalid_argument(complaint)) } else { Ok(self) }
    }

    /// Returns the command name of the first write.
    pub(crate) fn first_command(&self) -> &'static str {
        self.writes.first().map_or("bulkWrite", |write| write.verb.name().to_str())
    }

    /// Returns `true` if a delete has a `hint`, which servers before 4.4 reject.
    pub(crate) fn has_delete_hint(&self) -> bool {
        self.has_delete_hint
    }

    fn push<T: Serialize>(&mut self, model: &WriteModel<T>) -> Result<()> {
        match model {
            WriteModel::InsertOne(model) => self.push_insert(&model.document),
            WriteModel::UpdateOne(model) => {
                let statement = update::UpdateStatement {
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
                let statement = update::UpdateStatement {
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
                let statement = update::UpdateStatement {
                    q: &model.filter,
                    u: &model.replacement,
                    multi: false,
                    upsert: model.upsert,
                    array_filters: None::<&[Bson]>,
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
                    &delete::DeleteStatement::new(&model.filter, false, collation, hint),
                    false,
                )
            }
            WriteModel::DeleteMany(model) => {
                let (collation, hint) = (model.collation.as_ref(), model.hint.as_ref());
                self.has_delete_hint |= hint.is_some();
                self.push_delete(
                    &delete::DeleteStatement::new(&model.filter, true, collation, hint),
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

    /// Adds a raw document, which is not copied.
    fn add_raw_insert(&mut self, document: &RawDocument) -> Result<()> {
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
        self.inserts.entries.push(StatementEntry { index: self.writes.len(), end });
        self.writes.push(WriteProperties { verb: Verb::Insert, multi: false });
    }

    fn push_update(
        &mut self,
        statement: &update::UpdateStatement<'_, impl Serialize, impl Serialize, Document, Bson>,
        change: Change,
    ) -> Result<()> {
        update::append(statement, change, &mut self.updates.bytes)?;
        self.updates.close_statement(self.writes.len());
        self.writes.push(WriteProperties { verb: Verb::Update, multi: statement.multi });
        Ok(())
    }

    fn push_delete(
        &mut self,
        statement: &delete::DeleteStatement<'_, Document, Bson>,
        multi: bool,
    ) -> Result<()> {
        statement.append(&mut self.deletes.bytes)?;
        self.deletes.close_statement(self.writes.len());
        self.writes.push(WriteProperties { verb: Verb::Delete, multi });
        Ok(())
    }

    pub(super) fn buffer(&self, verb: Verb) -> &StatementBuffer {
        match verb {
            Verb::Insert => &self.inserts,
            Verb::Update => &self.updates,
            Verb::Delete => &self.deletes,
        }
    }

    /// Returns the statements of a batch, for any number of attempts.
    pub(crate) fn document_sequence(&self, batch: &CollectionBulkBatch) -> DocumentSequenceRef<'_> {
        let (buffer, positions) = (self.buffer(batch.verb), batch.positions.clone());
        let range = buffer.start(positions.start)..buffer.start(positions.end);
        let documents = match (batch.verb, &self.raw_documents) {
            (Verb::Insert, Some(_)) => {
                Documents::Scattered { source: self, positions, bytes: range.len() }
            }
            (Verb::Insert | Verb::Update | Verb::Delete, _) => {
                Documents::Whole(&buffer.bytes[range])
            }
        };
        DocumentSequenceRef { identifier: batch.verb.identifier(), documents, ns_info: None }
    }

    /// Returns the caller's index of the `nth` statement of a batch.
    pub(super) fn index(&self, batch: &CollectionBulkBatch, nth: usize) -> usize {
        self.buffer(batch.verb).entries[batch.positions.start + nth].index
    }

    /// Returns the number of inserts.
    pub(super) fn inserts(&self) -> usize {
        self.inserts.entries.len()
    }

    /// Returns the caller's indexes and the `_id`s of the inserts at `positions`.
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
        // The document was checked when it was added.
        let mut id = None;
        let mut look = |document: &RawDocument| id = insert::id_of(document).ok().flatten();
        match &self.raw_documents {
            Some(raw_documents) => raw_documents.read(position, &mut look),
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

impl DocumentSource for Statements<'_> {
    fn append(&self, positions: &mut Range<usize>, out: &mut Vec<u8>, enough: usize) -> Result<()> {
        let Some(raw_documents) = &self.raw_documents else { return Ok(()) };
        while out.len() < enough
            && let Some(position) = positions.next()
        {
            let end = out.len() + self.inserts.range(position).len();
            let generated = self.generated_ids[position];
            let mut appended = Ok(());
            raw_documents
                .read(position, &mut |raw| appended = insert::append_raw(raw, generated, out));
            appended?;
            // The message length, already sent, includes the previous length.
            if out.len() != end {
                let changed = format!("raw document {position} changed while it was being sent");
                return Err(Error::invalid_argument(changed));
            }
        }
        Ok(())
    }
}
