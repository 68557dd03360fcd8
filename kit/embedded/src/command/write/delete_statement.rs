//! Execution of a delete statement.

use std::sync::Arc;

use bson::{Bson, Document};
use steadfast_query::{Fault, Filter};

use super::{
    super::WriteContext,
    query::{StatementQuery, writable},
    statement,
};
use crate::{change::Change, namespace::Namespace};

/// A delete statement.
#[derive(Debug)]
pub(in super::super) struct DeleteStatement<'a> {
    pub(in super::super) namespace: &'a Namespace,
    pub(in super::super) query: StatementQuery<'a>,
    /// Deletes all matching documents (`limit: 0`), not only the first.
    pub(in super::super) multi: bool,
}

impl DeleteStatement<'_> {
    /// Executes the statement and returns the deleted documents. The recorded result is `outcome`
    /// of the first one.
    pub(in super::super) fn run(
        &self,
        writing: &mut WriteContext<'_>,
        id: Option<i32>,
        outcome: impl Fn(&Document) -> Document,
    ) -> Result<Vec<Arc<Document>>, Fault> {
        let collection = writable(writing.changes.store(), self.namespace)?;
        let env = self.query.environment(writing.env, collection)?;
        let filter = Filter::parse(self.query.filter, &env)?;
        let max_count = if self.multi { usize::MAX } else { 1 };
        let found = self.query.find(collection, &filter, &env, max_count)?;
        if found.is_empty() {
            return Ok(found);
        }
        let ids: Vec<&Bson> = found.iter().filter_map(|document| document.get("_id")).collect();
        writing.changes.reserve(self.namespace, &ids)?;
        for (document, document_id) in found.iter().zip(ids) {
            let change =
                Change::Delete { namespace: self.namespace.clone(), id: document_id.clone() };
            writing.changes.apply_change(change, statement(id, || outcome(document)))?;
        }
        Ok(found)
    }
}
