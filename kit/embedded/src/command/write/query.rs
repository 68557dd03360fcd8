//! Query of a write statement.

use std::sync::Arc;

use bson::Document;
use steadfast_query::{Code, Environment, Fault, Filter, Sort};

use super::super::{
    scope::scope,
    select::{Hint, Way, select},
    sight::Sight,
};
use crate::{
    namespace::Namespace,
    store::{Collection, Store},
};

/// Filter, sort, hint and collation of a write statement.
#[derive(Clone, Debug)]
pub(in super::super) struct Query<'a> {
    pub(in super::super) filter: &'a Document,
    /// Decides which of several matching documents comes first.
    pub(in super::super) sort: Option<&'a Document>,
    pub(in super::super) hint: Hint,
    pub(in super::super) collation: Option<&'a Document>,
    /// Variables of the command (`let`).
    pub(in super::super) variables: Option<&'a Document>,
}

impl Query<'_> {
    /// Environment of the statement's expressions.
    pub(in super::super) fn environment(
        &self,
        env: &Environment,
        collection: Option<&Collection>,
    ) -> Result<Environment, Fault> {
        scope(env, self.variables, self.collation, collection)
    }

    /// Finds at most `most` matching documents.
    pub(super) fn find(
        &self,
        collection: Option<&Collection>,
        filter: &Filter,
        env: &Environment,
        most: usize,
    ) -> Result<Vec<Arc<Document>>, Fault> {
        let Some(collection) = collection else { return Ok(Vec::new()) };
        let sight = Sight::Collection(collection);
        let way = Way::choose(&sight, self.filter, filter, &self.hint, env)?;
        let Some(sort) = self.sort.filter(|sort| !sort.is_empty()) else {
            return Ok(select(&sight, way, filter, env, most)?.documents);
        };
        let sort = Sort::parse(sort)?;
        let mut documents = select(&sight, way, filter, env, usize::MAX)?.documents;
        // A document found by its `_id` is not sorted, so parallel arrays are no error.
        if !matches!(way, Way::Id) {
            sort.try_sort(&mut documents, env)?;
        }
        documents.truncate(most);
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
