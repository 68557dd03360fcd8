//! Query of a write statement.

use std::sync::Arc;

use bson::Document;
use steadfast_query::{Code, Environment, Fault, Filter, Sort};

use super::super::{
    environment::command_environment,
    resolved_namespace::ResolvedNamespace,
    select::{AccessPath, Hint, select},
};
use crate::{
    namespace::Namespace,
    store::{Collection, Store},
};

/// Filter, sort, hint and collation of a write statement.
#[derive(Clone, Debug)]
pub(in super::super) struct StatementQuery<'a> {
    pub(in super::super) filter: &'a Document,
    /// Decides which of several matching documents comes first.
    pub(in super::super) sort: Option<&'a Document>,
    pub(in super::super) hint: Hint,
    pub(in super::super) collation: Option<&'a Document>,
    /// Variables of the command (`let`).
    pub(in super::super) variables: Option<&'a Document>,
}

impl StatementQuery<'_> {
    /// Environment of the statement's expressions.
    pub(in super::super) fn environment(
        &self,
        env: &Environment,
        collection: Option<&Collection>,
    ) -> Result<Environment, Fault> {
        command_environment(env, self.variables, self.collation, collection)
    }

    /// Finds at most `most` matching documents.
    pub(super) fn find(
        &self,
        collection: Option<&Collection>,
        filter: &Filter,
        env: &Environment,
        max_count: usize,
    ) -> Result<Vec<Arc<Document>>, Fault> {
        let Some(collection) = collection else { return Ok(Vec::new()) };
        let resolved = ResolvedNamespace::Collection(collection);
        let access_path = AccessPath::choose(&resolved, self.filter, filter, &self.hint, env)?;
        let Some(sort) = self.sort.filter(|sort| !sort.is_empty()) else {
            return Ok(select(&resolved, access_path, filter, env, max_count)?.documents);
        };
        let sort = Sort::parse(sort)?;
        let mut documents = select(&resolved, access_path, filter, env, usize::MAX)?.documents;
        // A document found by its `_id` is not sorted, so parallel arrays are no error.
        if !matches!(access_path, AccessPath::IdLookup) {
            sort.try_sort(&mut documents, env)?;
        }
        documents.truncate(max_count);
        Ok(documents)
    }
}

/// The collection, or `None` if it does not exist. Rejects views.
pub(super) fn writable<'a>(
    store: &'a Store,
    namespace: &Namespace,
) -> Result<Option<&'a Collection>, Fault> {
    match store.collection(namespace) {
        Some(collection) if collection.is_view() => Err(Fault::new(
            Code::COMMAND_NOT_SUPPORTED_ON_VIEW,
            format!("Namespace {namespace} is a view, not a collection"),
        )),
        other => Ok(other),
    }
}
