//! What an update makes of a document.

mod array_filters;
mod bits;
mod effect;
mod execution;
mod operator;
mod place;
mod pull;
mod push;
mod storage;
mod tree;
mod upsert;

use std::sync::Arc;

use bson::{Bson, Document};

use crate::{Code, Collections, Dialect, Environment, Fault, Filter, Pipeline};

use self::{array_filters::ArrayFilters, execution::Execution, tree::Fields};

pub use place::identical_documents;
pub use storage::stored;
pub(crate) use storage::{MOST_BYTES, size};

/// An update, checked and ready: operators, a whole document, or a pipeline.
#[derive(Clone, Debug)]
pub struct Update {
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Operators {
        tree: Fields,
        filters: ArrayFilters,
        /// Whether some path has a `$`, so that the filter is asked which element matched.
        positional: bool,
    },
    Replacement(Document),
    Pipeline(Pipeline),
}

impl Update {
    /// Reads the `u` of an update statement or the `update` of a findAndModify.
    ///
    /// A document whose first field begins with `$` has operators; any other takes the place of the
    /// old one; an array is a pipeline.
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
                    Kind::Operators { tree, filters, positional }
                } else {
                    Kind::Replacement(document.clone())
                }
            }
            Bson::Array(stages) => {
                if !array_filters.is_empty() {
                    return Err(Fault::failed_to_parse(
                        "arrayFilters may not be specified for pipeline-style updates",
                    ));
                }
                Kind::Pipeline(parse_pipeline(stages, env)?)
            }
            _ => {
                return Err(Fault::failed_to_parse(
                    "Update argument must be either an object or an array",
                ));
            }
        };
        Ok(Self { kind })
    }

    /// Whether it is a whole document that takes the place of the old one.
    pub fn is_replacement(&self) -> bool {
        matches!(self.kind, Kind::Replacement(_))
    }

    /// Whether it is a pipeline.
    pub fn is_pipeline(&self) -> bool {
        matches!(self.kind, Kind::Pipeline(_))
    }

    /// Refuses a whole document for many.
    pub fn check_multi(&self) -> Result<(), Fault> {
        if self.is_replacement() {
            return Err(Fault::failed_to_parse(
                "multi update is not supported for replacement-style update",
            ));
        }
        Ok(())
    }

    /// What becomes of a document that this filter matched; `None` if nothing changes.
    ///
    /// A server counts some updates as changes that leave a document as it was, such as a `$rename`
    /// onto an equal value. Then an equal document comes back.
    pub fn apply(
        &self,
        document: &Document,
        filter: &Filter,
        env: &Environment,
    ) -> Result<Option<Document>, Fault> {
        let changed = match &self.kind {
            Kind::Operators { tree, filters, positional } => {
                let position = if *positional {
                    filter.matched(document, env)?.and_then(|matched| matched.position)
                } else {
                    None
                };
                let execution = Execution::new(document.clone(), filters, position, false, env);
                let (changed, is_changed) = execution.run(tree)?;
                is_changed.then_some(changed)
            }
            Kind::Replacement(new) => {
                replaced(document, storage::filled_in(new.clone(), env), true, env.dialect)?
            }
            Kind::Pipeline(pipeline) => {
                replaced(document, run(pipeline, document.clone(), env)?, false, env.dialect)?
            }
        };
        if let Some(changed) = &changed
            && size(changed) > MOST_BYTES
        {
            let message = format!("Resulting document after update is larger than {MOST_BYTES}");
            return Err(Fault::location(17419, message));
        }
        Ok(changed)
    }

    /// The document that an upsert inserts, `_id` first.
    ///
    /// It begins with what the filter says that fields equal; of a whole document, only `_id` comes
    /// from there.
    pub fn upserted(&self, filter: &Filter, env: &Environment) -> Result<Document, Fault> {
        if filter.has_expression() {
            return Err(Fault::new(
                Code::named(224, "QueryFeatureNotAllowed"),
                "$expr is not allowed in the query predicate for an upsert",
            ));
        }
        let equalities = filter.equalities();
        let document = match &self.kind {
            Kind::Operators { tree, filters, positional: _ } => {
                let begun = upsert::begun(equalities)?;
                Execution::new(begun, filters, None, true, env).run(tree)?.0
            }
            Kind::Replacement(new) => {
                let begun = upsert::begun_with_id(equalities)?;
                begun_again(&begun, storage::filled_in(new.clone(), env))?
            }
            Kind::Pipeline(pipeline) => {
                let begun = upsert::begun(equalities)?;
                let new = run(pipeline, begun.clone(), env)?;
                begun_again(&begun, new)?
            }
        };
        let document = storage::with_id_first(document, || env.object_id().into());
        storage::check_whole(&document, false)?;
        if size(&document) > MOST_BYTES {
            let message = format!("Document to upsert is larger than {MOST_BYTES}");
            return Err(Fault::location(17420, message));
        }
        Ok(document)
    }
}

/// A document that takes the place of another, which it has the `_id` of.
fn replaced(
    old: &Document,
    new: Document,
    is_replacement: bool,
    dialect: Dialect,
) -> Result<Option<Document>, Fault> {
    // Since 8.2, an empty document takes the place of one that has only its `_id` without a change.
    let is_empty = dialect >= Dialect::V8_2 && new.is_empty() && old.len() == 1;
    if is_empty || place::identical_documents(old, &new) {
        return Ok(None);
    }
    let new = storage::with_id_first(new, || old.get("_id").cloned().unwrap_or(Bson::Null));
    // What a pipeline makes may have names that a replacement may not.
    storage::check_whole(&new, is_replacement)?;
    storage::check_same_id(old.get("_id"), new.get("_id"))?;
    Ok(Some(new))
}

/// The same for a document that is new: it has the `_id` that the filter gave, if it gave one.
fn begun_again(begun: &Document, mut new: Document) -> Result<Document, Fault> {
    storage::check_same_id(begun.get("_id"), new.get("_id"))?;
    if let (Some(id), false) = (begun.get("_id"), new.contains_key("_id")) {
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
    let documents = pipeline.run(vec![Arc::new(document)], &Nothing, env)?;
    // Each of the stages that an update may have makes one document of one.
    documents.into_iter().next().ok_or_else(|| {
        Fault::new(Code::INTERNAL_ERROR, "the pipeline of an update left no document")
    })
}

/// A pipeline in an update reads no collections.
struct Nothing;

impl Collections for Nothing {
    fn documents(&self, _database: &str, _collection: &str) -> Vec<Arc<Document>> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests;
