//! Resolution of a namespace to a collection or to the documents of a view.

use std::{cell::RefCell, sync::Arc};

use bson::{Bson, Document};
use steadfast_query::{Code, Collections, Environment, Fault, Pipeline};

use super::super::{
    namespace::Namespace,
    store::{Collection, Store},
};

/// Maximum depth of nested views.
const MAX_VIEW_DEPTH: usize = 20;

/// A resolved namespace.
pub(crate) enum ResolvedNamespace<'a> {
    /// Missing collection. It has no documents.
    Missing,
    Collection(&'a Collection),
    /// A view and its current documents.
    View(Vec<Arc<Document>>),
}

impl<'a> ResolvedNamespace<'a> {
    /// Resolves a namespace.
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
        let Some(collection) = store.collection(namespace) else { return Ok(Self::Missing) };
        if !collection.is_view() {
            return Ok(Self::Collection(collection));
        }
        if depth >= MAX_VIEW_DEPTH {
            return Err(Fault::new(
                Code::named(165, "ViewDepthLimitExceeded"),
                format!("View depth too deep; maximum is {MAX_VIEW_DEPTH}"),
            ));
        }
        let base = collection.options().get_str("viewOn").unwrap_or_default();
        let base = Namespace::new(&namespace.database, base);
        let documents = Self::at_depth(store, &base, env, depth + 1)?.into_documents();
        let stages = stages(collection.options().get_array("pipeline").ok());
        let pipeline = Pipeline::parse(&stages, &namespace.database, env)?;
        let shown = PipelineCollections::new(store, env).run(&pipeline, documents)?;
        Ok(Self::View(shown.into_iter().map(Arc::new).collect()))
    }

    /// All documents.
    pub(crate) fn into_documents(self) -> Vec<Arc<Document>> {
        match self {
            Self::Missing => Vec::new(),
            Self::Collection(collection) => collection.documents().cloned().collect(),
            Self::View(documents) => documents,
        }
    }

    /// The collection, unless the namespace is missing or a view.
    pub(crate) fn collection(&self) -> Option<&'a Collection> {
        match self {
            Self::Missing | Self::View(_) => None,
            Self::Collection(collection) => Some(collection),
        }
    }
}

/// Stages of a pipeline that was validated when it was stored.
fn stages(pipeline: Option<&Vec<Bson>>) -> Vec<Document> {
    pipeline.into_iter().flatten().filter_map(|it| it.as_document().cloned()).collect()
}

/// Collections that a pipeline reads with `$lookup`, `$graphLookup` or `$unionWith`.
pub(crate) struct PipelineCollections<'a> {
    store: &'a Store,
    env: &'a Environment,
    /// Error of a view, which the pipeline cannot return itself.
    fault: RefCell<Option<Fault>>,
}

impl<'a> PipelineCollections<'a> {
    pub(crate) fn new(store: &'a Store, env: &'a Environment) -> Self {
        Self { store, env, fault: RefCell::new(None) }
    }

    /// Runs a pipeline on documents.
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

impl Collections for PipelineCollections<'_> {
    fn documents(&self, database: &str, collection: &str) -> Vec<Arc<Document>> {
        let namespace = Namespace::new(database, collection);
        match ResolvedNamespace::of(self.store, &namespace, self.env) {
            Ok(resolved) => resolved.into_documents(),
            Err(fault) => {
                self.fault.borrow_mut().get_or_insert(fault);
                Vec::new()
            }
        }
    }
}
