//! Encoded writes of a client's bulk write.

use std::{collections::BTreeMap, ops::Range};

use bson::{Bson, Document, RawDocument};
use serde::Serialize;

use super::ClientBulkBatch;
use crate::{
    Namespace,
    error::{Error, Result},
    operation::{
        insert::{self, IdOrigin},
        write::{Change, Verb, append_whole},
    },
    options::{UpdateModifications, WriteModel},
    sequence::{DocumentSequenceRef, Documents},
};

/// Offset of the namespace index (into `nsInfo`) in an operation: after the document's length, the
/// element type and the key (`insert`, `update` or `delete`, of the same length).
const NAMESPACE_INDEX_OFFSET: usize = 4 + 1 + "insert\0".len();

/// Writes of a bulk write, encoded.
///
/// The operations are in one buffer, from which batches are cut. Each batch has its own `nsInfo`,
/// so the namespace indexes are written when the batches are built.
#[derive(Debug, Default)]
pub(crate) struct Operations {
    bytes: Vec<u8>,
    pub(super) entries: Vec<OperationEntry>,
    /// Distinct namespaces of the writes.
    pub(super) namespaces: Vec<Namespace>,
    positions: BTreeMap<Namespace, usize>,
    /// Origin of the `_id` of the latest insert, used as prediction for the next.
    expected: IdOrigin,
}

/// Properties of an operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct OperationEntry {
    pub(super) verb: Verb,
    /// `true` if the operation can affect several documents.
    pub(super) multi: bool,
    /// Index of the collection in `nsInfo`.
    pub(super) namespace: usize,
    /// Size of the inserted document or of the update.
    pub(super) document_bytes: usize,
    /// End of the operation in the buffer.
    end: usize,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct UpdateOperation<'a, U> {
    update: i32,
    filter: &'a Document,
    update_mods: &'a U,
    multi: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    upsert: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    array_filters: Option<&'a [Bson]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    collation: Option<&'a Document>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a Bson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sort: Option<&'a Document>,
}

#[derive(Serialize)]
struct DeleteOperation<'a> {
    delete: i32,
    filter: &'a Document,
    multi: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    collation: Option<&'a Document>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a Bson>,
}

impl Operations {
    /// Encodes the models of a `bulk_write`.
    pub(crate) fn of_models(
        models: impl IntoIterator<Item = impl Into<WriteModel>>,
    ) -> Result<Self> {
        let mut operations = Self::default();
        for model in models {
            operations.push(&model.into())?;
        }
        if operations.entries.is_empty() {
            return Err(Error::invalid_argument("bulk_write requires at least one model"));
        }
        Ok(operations)
    }

    /// Returns the number of operations.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    fn push(&mut self, model: &WriteModel) -> Result<()> {
        let namespace = self.namespace_index(model)?;
        match model {
            WriteModel::InsertOne(model) => self.push_insert(namespace, &model.document),
            WriteModel::UpdateOne(model) => {
                let update = Self::update(&model.filter, &model.update, false);
                let update = UpdateOperation {
                    upsert: model.upsert,
                    array_filters: model.array_filters.as_deref(),
                    collation: model.collation.as_ref(),
                    hint: model.hint.as_ref(),
                    sort: model.sort.as_ref(),
                    ..update
                };
                self.push_update(namespace, &update, Change::Update)
            }
            WriteModel::UpdateMany(model) => {
                let update = Self::update(&model.filter, &model.update, true);
                let update = UpdateOperation {
                    upsert: model.upsert,
                    array_filters: model.array_filters.as_deref(),
                    collation: model.collation.as_ref(),
                    hint: model.hint.as_ref(),
                    ..update
                };
                self.push_update(namespace, &update, Change::Update)
            }
            WriteModel::ReplaceOne(model) => {
                let update = UpdateOperation {
                    update: 0,
                    filter: &model.filter,
                    update_mods: &model.replacement,
                    multi: false,
                    upsert: model.upsert,
                    array_filters: None,
                    collation: model.collation.as_ref(),
                    hint: model.hint.as_ref(),
                    sort: model.sort.as_ref(),
                };
                self.push_update(namespace, &update, Change::Replacement)
            }
            WriteModel::DeleteOne(model) => {
                let (collation, hint) = (model.collation.as_ref(), model.hint.as_ref());
                let filter = &model.filter;
                let delete = DeleteOperation { delete: 0, filter, multi: false, collation, hint };
                self.push_delete(namespace, &delete)
            }
            WriteModel::DeleteMany(model) => {
                let (collation, hint) = (model.collation.as_ref(), model.hint.as_ref());
                let filter = &model.filter;
                let delete = DeleteOperation { delete: 0, filter, multi: true, collation, hint };
                self.push_delete(namespace, &delete)
            }
        }
    }

    /// Returns an update without options.
    fn update<'a>(
        filter: &'a Document,
        update_mods: &'a UpdateModifications,
        multi: bool,
    ) -> UpdateOperation<'a, UpdateModifications> {
        UpdateOperation {
            update: 0,
            filter,
            update_mods,
            multi,
            upsert: None,
            array_filters: None,
            collation: None,
            hint: None,
            sort: None,
        }
    }

    /// Returns the index of the model's namespace.
    fn namespace_index(&mut self, model: &WriteModel) -> Result<usize> {
        let namespace = model.namespace().ok_or_else(|| {
            let index = self.entries.len();
            Error::invalid_argument(format!(
                "model {index} has no namespace; set it for Client::bulk_write"
            ))
        })?;
        if let Some(position) = self.positions.get(namespace) {
            return Ok(*position);
        }
        namespace.validate()?;
        let position = self.namespaces.len();
        self.namespaces.push(namespace.clone());
        self.positions.insert(namespace.clone(), position);
        Ok(position)
    }

    fn push_insert(&mut self, namespace: usize, document: &Document) -> Result<()> {
        let expected = self.expected;
        let (id, document_bytes) = append_whole(&mut self.bytes, |out| {
            let start = out.len();
            out.extend_from_slice(b"\0\0\0\0\x10insert\0\0\0\0\0\x03document\0");
            let document_start = out.len();
            let id = insert::append(document, out, expected)?;
            let document_bytes = out.len() - document_start;
            out.push(0);
            let length = i32::try_from(out.len() - start).map_err(|_| {
                Error::invalid_argument("the document exceeds the maximum length of BSON")
            })?;
            out[start..start + 4].copy_from_slice(&length.to_le_bytes());
            Ok((id, document_bytes))
        })?;
        self.expected = id.origin();
        self.close(Verb::Insert, false, namespace, document_bytes);
        Ok(())
    }

    fn push_update<U: Serialize>(
        &mut self,
        namespace: usize,
        update: &UpdateOperation<'_, U>,
        change: Change,
    ) -> Result<()> {
        let document_bytes = append_whole(&mut self.bytes, |out| {
            let start = out.len();
            bson::serialize_to_buffer(update, out)?;
            let Some(mods) = RawDocument::from_bytes(&out[start..])?.get("updateMods")? else {
                return Err(Error::invalid_argument(
                    "the update is empty; add an operator such as $set",
                ));
            };
            change.check(mods)?;
            Ok(mods.as_document().map_or(0, |document| document.as_bytes().len()))
        })?;
        self.close(Verb::Update, update.multi, namespace, document_bytes);
        Ok(())
    }

    fn push_delete(&mut self, namespace: usize, delete: &DeleteOperation<'_>) -> Result<()> {
        append_whole(&mut self.bytes, |out| Ok(bson::serialize_to_buffer(delete, out)?))?;
        self.close(Verb::Delete, delete.multi, namespace, 0);
        Ok(())
    }

    fn close(&mut self, verb: Verb, multi: bool, namespace: usize, document_bytes: usize) {
        let end = self.bytes.len();
        self.entries.push(OperationEntry { verb, multi, namespace, document_bytes, end });
    }

    fn start(&self, index: usize) -> usize {
        index.checked_sub(1).map_or(0, |before| self.entries[before].end)
    }

    /// Returns the size of an operation in bytes.
    pub(super) fn bytes_of(&self, index: usize) -> usize {
        self.entries[index].end - self.start(index)
    }

    /// Sets the namespace index of an operation.
    pub(super) fn set_namespace_index(&mut self, index: usize, namespace_index: i32) {
        let at = self.start(index) + NAMESPACE_INDEX_OFFSET;
        self.bytes[at..at + 4].copy_from_slice(&namespace_index.to_le_bytes());
    }

    /// Returns the operations of a batch, for any number of attempts.
    pub(crate) fn document_sequence<'a>(
        &'a self,
        batch: &'a ClientBulkBatch,
    ) -> DocumentSequenceRef<'a> {
        let Range { start, end } = batch.indexes;
        let documents = Documents::Whole(&self.bytes[self.start(start)..self.start(end)]);
        DocumentSequenceRef {
            identifier: bson::raw::cstr!("ops"),
            documents,
            ns_info: Some(&batch.namespaces),
        }
    }

    /// Returns the `_id` of an inserted document.
    pub(super) fn id(&self, index: usize) -> Bson {
        let operation = &self.bytes[self.start(index)..self.entries[index].end];
        // The document has an `_id` since it was encoded.
        let id = || {
            let operation = RawDocument::from_bytes(operation).ok()?;
            insert::id_of(operation.get_document("document").ok()?).ok().flatten()
        };
        id().unwrap_or(Bson::Null)
    }
}
