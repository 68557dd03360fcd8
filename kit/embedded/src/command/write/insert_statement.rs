//! Execution of an insert statement, with implicit creation of the collection.

use std::sync::Arc;

use bson::{Bson, Document, Uuid};
use steadfast_query::{Environment, Fault, update::stored};

use super::{super::WriteContext, query::writable, statement, validation::Validator};
use crate::{
    change::{Change, Statement},
    namespace::Namespace,
    version_gate,
};

/// An insert statement.
#[derive(Debug)]
pub(in super::super) struct InsertStatement<'a> {
    pub(in super::super) namespace: &'a Namespace,
    pub(in super::super) document: &'a Document,
    /// Skips schema validation (`bypassDocumentValidation`).
    pub(in super::super) bypass_validation: bool,
}

impl InsertStatement<'_> {
    /// Executes the statement.
    pub(in super::super) fn run(
        &self,
        writing: &mut WriteContext<'_>,
        id: Option<i32>,
    ) -> Result<Document, Fault> {
        version_gate::check_insert(self.document, &writing.server_info.version)?;
        let document = stored(self.document.clone(), writing.env)?;
        let collection = writable(writing.changes.store(), self.namespace)?;
        if let Some(validator) = Validator::of(collection, self.bypass_validation, writing.env)? {
            validator.check(&document, None)?;
        }
        let outcome = bson::doc! { "n": 1 };
        let statement = statement(id, || outcome.clone());
        insert(writing, self.namespace, Arc::new(document), statement)?;
        Ok(outcome)
    }
}

/// Inserts a validated document. Creates a missing collection.
pub(super) fn insert(
    writing: &mut WriteContext<'_>,
    namespace: &Namespace,
    document: Arc<Document>,
    statement: Option<Statement>,
) -> Result<(), Fault> {
    let id = document.get("_id").unwrap_or(&Bson::Null);
    writing.changes.reserve(namespace, &[id])?;
    if writing.changes.store().collection(namespace).is_none() {
        let create = Change::CreateCollection {
            namespace: namespace.clone(),
            uuid: uuid(writing.env),
            options: Document::new(),
        };
        writing.changes.apply_change(create, None)?;
    }
    writing
        .changes
        .apply_change(Change::Insert { namespace: namespace.clone(), document }, statement)
}

/// A random UUID (version 4).
pub(in super::super) fn uuid(env: &Environment) -> Uuid {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&env.next_random().to_be_bytes());
    bytes[8..].copy_from_slice(&env.next_random().to_be_bytes());
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    Uuid::from_bytes(bytes)
}
