//! Updates: operators, replacements, pipelines.

mod array_filters;
mod bits;
mod effect;
mod execution;
mod navigation;
mod operator;
mod pull;
mod push;
mod storage;
mod tree;
mod upsert;

use std::sync::Arc;

use bson::{Bson, Document};

use crate::{Code, Collections, Dialect, Environment, Fault, Filter, Pipeline};

use self::{array_filters::ArrayFilters, execution::Execution, tree::FieldUpdates};

pub use navigation::identical_documents;
pub use storage::stored;
pub(crate) use storage::{MAX_DOCUMENT_BYTES, size};

/// A parsed update.
#[derive(Clone, Debug)]
pub struct Update {
    kind: UpdateKind,
}

#[derive(Clone, Debug)]
enum UpdateKind {
    Operators {
        tree: FieldUpdates,
        filters: ArrayFilters,
        /// `true` if a path contains `$`, so the filter must provide the position.
        positional: bool,
    },
    Replacement(Document),
    Pipeline(Pipeline),
}

impl Update {
    /// Parses `u` of an update statement or `update` of a `findAndModify`.
    ///
    /// A document whose first field starts with `$` has update operators. Any other document is a
    /// replacement. An array is a pipeline.
    ///
    /// # Errors
    ///
    /// Fails for invalid updates, with the error codes of servers.
    pub fn parse(
        update: &Bson,
        array_filters: &[Document],
        env: &Environment,
    ) -> Result<Self, Fault> {
        let kind = match update {
            Bson::Document(document) => {
                let mut filters = ArrayFilters::parse(array_filters, env)?;
                if document.keys().next().is_some_and(|name| name.starts_with('$')) {
                    let tree = operator::parse(document, &mut filters, env)?;
                    let mut paths = document.values().filter_map(Bson::as_document);
                    let positional = paths
                        .any(|it| it.keys().any(|path| path.split('.').any(|part| part == "$")));
                    UpdateKind::Operators { tree, filters, positional }
                } else {
                    UpdateKind::Replacement(document.clone())
                }
            }
            Bson::Array(stages) => {
                if !array_filters.is_empty() {
                    return Err(Fault::failed_to_parse(
                        "arrayFilters may not be specified for pipeline-style updates",
                    ));
                }
                UpdateKind::Pipeline(parse_pipeline(stages, env)?)
            }
            _ => {
                return Err(Fault::failed_to_parse(
                    "Update argument must be either an object or an array",
                ));
            }
        };
        Ok(Self { kind })
    }

    /// Returns `true` for a replacement document.
    pub fn is_replacement(&self) -> bool {
        matches!(self.kind, UpdateKind::Replacement(_))
    }

    /// Returns `true` for a pipeline.
    pub fn is_pipeline(&self) -> bool {
        matches!(self.kind, UpdateKind::Pipeline(_))
    }

    /// Checks that the update can apply to several documents.
    ///
    /// # Errors
    ///
    /// Fails for replacements.
    pub fn check_multi(&self) -> Result<(), Fault> {
        if self.is_replacement() {
            return Err(Fault::failed_to_parse(
                "multi update is not supported for replacement-style update",
            ));
        }
        Ok(())
    }

    /// Applies the update to a document that the filter matched. `None` if nothing changes.
    ///
    /// Servers count some updates as changes although the result is equal, such as a `$rename` to
    /// an equal value. Then an equal document is returned.
    ///
    /// # Errors
    ///
    /// Fails like the update operators of a server, and if the result is too large.
    pub fn apply(
        &self,
        document: &Document,
        filter: &Filter,
        env: &Environment,
    ) -> Result<Option<Document>, Fault> {
        let changed = match &self.kind {
            UpdateKind::Operators { tree, filters, positional } => {
                let position = if *positional {
                    filter.matched(document, env)?.and_then(|matched| matched.position)
                } else {
                    None
                };
                let execution = Execution::new(document.clone(), filters, position, false, env);
                let (changed, is_changed) = execution.run(tree)?;
                is_changed.then_some(changed)
            }
            UpdateKind::Replacement(new) => {
                replaced(document, storage::with_timestamps(new.clone(), env), true, env.dialect)?
            }
            UpdateKind::Pipeline(pipeline) => {
                replaced(document, run(pipeline, document.clone(), env)?, false, env.dialect)?
            }
        };
        if let Some(changed) = &changed
            && size(changed) > MAX_DOCUMENT_BYTES
        {
            let message =
                format!("Resulting document after update is larger than {MAX_DOCUMENT_BYTES}");
            return Err(Fault::location(17419, message));
        }
        Ok(changed)
    }

    /// Returns the document of an upsert, with `_id` first.
    ///
    /// It starts with the equality conditions of the filter. A replacement takes only `_id` from
    /// there.
    ///
    /// # Errors
    ///
    /// Fails like the update operators of a server, and if the filter has an `$expr`.
    pub fn upserted(&self, filter: &Filter, env: &Environment) -> Result<Document, Fault> {
        if filter.has_expression() {
            return Err(Fault::new(
                Code::named(224, "QueryFeatureNotAllowed"),
                "$expr is not allowed in the query predicate for an upsert",
            ));
        }
        let equalities = filter.equalities();
        let document = match &self.kind {
            UpdateKind::Operators { tree, filters, positional: _ } => {
                let initial = upsert::initial(equalities)?;
                Execution::new(initial, filters, None, true, env).run(tree)?.0
            }
            UpdateKind::Replacement(new) => {
                let initial = upsert::initial_id(equalities)?;
                complete_upsert(&initial, storage::with_timestamps(new.clone(), env))?
            }
            UpdateKind::Pipeline(pipeline) => {
                let initial = upsert::initial(equalities)?;
                let new = run(pipeline, initial.clone(), env)?;
                complete_upsert(&initial, new)?
            }
        };
        let document = storage::with_id_first(document, || env.object_id().into());
        storage::check_whole(&document, false)?;
        if size(&document) > MAX_DOCUMENT_BYTES {
            let message = format!("Document to upsert is larger than {MAX_DOCUMENT_BYTES}");
            return Err(Fault::location(17420, message));
        }
        Ok(document)
    }
}

/// Replaces a document; the new one keeps `_id`.
fn replaced(
    old: &Document,
    new: Document,
    is_replacement: bool,
    dialect: Dialect,
) -> Result<Option<Document>, Fault> {
    // Since 8.2, replacing a document that has only `_id` with an empty one changes nothing.
    let is_empty = dialect >= Dialect::V8_2 && new.is_empty() && old.len() == 1;
    if is_empty || navigation::identical_documents(old, &new) {
        return Ok(None);
    }
    let new = storage::with_id_first(new, || old.get("_id").cloned().unwrap_or(Bson::Null));
    // Pipelines may create field names that replacements may not.
    storage::check_whole(&new, is_replacement)?;
    storage::check_same_id(old.get("_id"), new.get("_id"))?;
    Ok(Some(new))
}

/// Completes the document of an upsert with the `_id` of the filter.
fn complete_upsert(initial: &Document, mut new: Document) -> Result<Document, Fault> {
    storage::check_same_id(initial.get("_id"), new.get("_id"))?;
    if let (Some(id), false) = (initial.get("_id"), new.contains_key("_id")) {
        new.insert("_id", id.clone());
    }
    Ok(new)
}

fn parse_pipeline(stages: &[Bson], env: &Environment) -> Result<Pipeline, Fault> {
    let stages: Option<Vec<Document>> =
        stages.iter().map(|stage| stage.as_document().cloned()).collect();
    let stages = stages.ok_or_else(|| {
        Fault::type_mismatch("Each element of the 'pipeline' array must be an object")
    })?;
    Pipeline::parse_update(&stages, env)
}

fn run(pipeline: &Pipeline, document: Document, env: &Environment) -> Result<Document, Fault> {
    let documents = pipeline.run(vec![Arc::new(document)], &EmptyCollections, env)?;
    // Each permitted stage returns one document per input.
    documents.into_iter().next().ok_or_else(|| {
        Fault::new(Code::INTERNAL_ERROR, "the pipeline of an update left no document")
    })
}

/// Pipelines of updates read no collections.
struct EmptyCollections;

impl Collections for EmptyCollections {
    fn documents(&self, _database: &str, _collection: &str) -> Vec<Arc<Document>> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests;
