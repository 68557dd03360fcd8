//! The documents that a name stands for: those of a collection, or those that a view shows.

use std::{cell::RefCell, sync::Arc};

use bson::{Bson, Document};
use steadfast_query::{Code, Collections, Environment, Fault, Pipeline};

use super::super::{
    namespace::Namespace,
    store::{Collection, Store},
};

/// How many views may stand on each other.
const DEEPEST: usize = 20;

/// What a name stands for.
pub(crate) enum Sight<'a> {
    /// Nothing: it has no documents.
    Nothing,
    Collection(&'a Collection),
    /// A view, with the documents that it shows now.
    View(Vec<Arc<Document>>),
}

impl<'a> Sight<'a> {
    /// What this name stands for.
    pub(crate) fn of(
        store: &'a Store,
        namespace: &Namespace,
        env: &Environment,
    ) -> Result<Self, Fault> {
        Self::at_depth(store, namespace, env, 0)
    }

    fn at_depth(
        store: &'a Store,
        namespace: &Namespace,
        env: &Environment,
        depth: usize,
    ) -> Result<Self, Fault> {
        let Some(collection) = store.collection(namespace) else { return Ok(Self::Nothing) };
        if !collection.is_view() {
            return Ok(Self::Collection(collection));
        }
        if depth >= DEEPEST {
            return Err(Fault::new(
                Code::named(165, "ViewDepthLimitExceeded"),
                format!("View depth too deep; maximum is {DEEPEST}"),
            ));
        }
        let base = collection.options().get_str("viewOn").unwrap_or_default();
        let base = Namespace::new(&namespace.database, base);
        let documents = Self::at_depth(store, &base, env, depth + 1)?.into_documents();
        let stages = stages(collection.options().get_array("pipeline").ok());
        let pipeline = Pipeline::parse(&stages, &namespace.database, env)?;
        let shown = Lookup::new(store, env).run(&pipeline, documents)?;
        Ok(Self::View(shown.into_iter().map(Arc::new).collect()))
    }

    /// All its documents.
    pub(crate) fn into_documents(self) -> Vec<Arc<Document>> {
        match self {
            Self::Nothing => Vec::new(),
            Self::Collection(collection) => collection.documents().cloned().collect(),
            Self::View(documents) => documents,
        }
    }

    /// The collection, if it is one.
    pub(crate) fn collection(&self) -> Option<&'a Collection> {
        match self {
            Self::Nothing | Self::View(_) => None,
            Self::Collection(collection) => Some(collection),
        }
    }
}

/// The stages of a pipeline that was checked when it was stored.
fn stages(pipeline: Option<&Vec<Bson>>) -> Vec<Document> {
    pipeline.into_iter().flatten().filter_map(|it| it.as_document().cloned()).collect()
}

/// The collections that a pipeline reads beside its own.
pub(crate) struct Lookup<'a> {
    store: &'a Store,
    env: &'a Environment,
    /// Why a view could not be seen, which the pipeline has no way to say.
    fault: RefCell<Option<Fault>>,
}

impl<'a> Lookup<'a> {
    pub(crate) fn new(store: &'a Store, env: &'a Environment) -> Self {
        Self { store, env, fault: RefCell::new(None) }
    }

    /// Runs a pipeline on these documents.
    pub(crate) fn run(
        &self,
        pipeline: &Pipeline,
        documents: Vec<Arc<Document>>,
    ) -> Result<Vec<Document>, Fault> {
        let result = pipeline.run(documents, self, self.env);
        match self.fault.take() {
            Some(fault) => Err(fault),
            None => result,
        }
    }
}

impl Collections for Lookup<'_> {
    fn documents(&self, database: &str, collection: &str) -> Vec<Arc<Document>> {
        let namespace = Namespace::new(database, collection);
        match Sight::of(self.store, &namespace, self.env) {
            Ok(sight) => sight.into_documents(),
            Err(fault) => {
                self.fault.borrow_mut().get_or_insert(fault);
                Vec::new()
            }
        }
    }
}
