//! Which documents a statement is about.

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

/// Which documents a statement is about.
#[derive(Clone, Debug)]
pub(in super::super) struct Query<'a> {
    pub(in super::super) filter: &'a Document,
    /// Which of several is the first.
    pub(in super::super) sort: Option<&'a Document>,
    pub(in super::super) hint: Hint,
    pub(in super::super) collation: Option<&'a Document>,
    /// The command's `let`.
    pub(in super::super) variables: Option<&'a Document>,
}

impl Query<'_> {
    /// What the statement's expressions and comparisons see.
    pub(in super::super) fn environment(
        &self,
        env: &Environment,
        collection: Option<&Collection>,
    ) -> Result<Environment, Fault> {
        scope(env, self.variables, self.collation, collection)
    }

    /// The documents that it means, at most so many.
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
        // One that is found by its `_id` is not sorted, whatever its arrays.
        if !matches!(way, Way::Id) {
            sort.try_sort(&mut documents, env)?;
        }
        documents.truncate(most);
        Ok(documents)
    }
}

/// The collection of this name, if it is there. A view cannot be written to.
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
