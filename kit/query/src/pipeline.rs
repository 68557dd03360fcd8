//! Aggregation pipelines.
//!
//! A pipeline is parsed once. Stages pull documents one by one, so a `$limit` stops earlier stages.
//! Blocking stages such as `$sort` read all documents.

mod accumulator;
mod bucket;
mod graph;
mod group;
mod lookup;
mod merge;
mod options;
mod parse;
mod redact;
mod reshape;
mod stage;
mod unwind;

use std::sync::Arc;

use bson::Document;

use crate::{Code, Environment, Fault, Filter};

pub use merge::{Merge, WhenMatched, WhenNotMatched};

use parse::{PipelineContext, PipelineParser};
use stage::{PipelineRun, Stage};

/// Access to other collections, for `$lookup`, `$graphLookup` and `$unionWith`.
pub trait Collections {
    /// Returns all documents of a collection in natural order. Empty if the collection does not
    /// exist.
    fn documents(&self, database: &str, collection: &str) -> Vec<Arc<Document>>;
}

/// Destination of the resulting documents.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Destination {
    /// The client.
    Cursor,
    /// `$out`: replaces a collection.
    Out {
        /// Database, if it is named.
        database: Option<String>,
        /// Collection.
        collection: String,
    },
    /// `$merge`: merges into a collection.
    Merge(Box<Merge>),
}

/// A parsed pipeline.
#[derive(Clone, Debug)]
pub struct Pipeline {
    database: String,
    stages: Vec<Stage>,
    /// Names of the stages, for error messages.
    names: Vec<String>,
    destination: Destination,
}

impl Pipeline {
    /// Parses a pipeline.
    ///
    /// # Errors
    ///
    /// Fails for unknown stages and operators and for invalid arguments, with the error codes of
    /// servers.
    pub fn parse(stages: &[Document], database: &str, env: &Environment) -> Result<Self, Fault> {
        let mut parser = PipelineParser::new(database, env, PipelineContext::Top);
        parser.pipeline(stages)
    }

    /// Parses the pipeline of an update.
    ///
    /// # Errors
    ///
    /// Fails like [`parse`](Self::parse), and for stages that are not permitted in updates.
    pub fn parse_update(stages: &[Document], env: &Environment) -> Result<Self, Fault> {
        let pipeline = Self::parse(stages, "", &env.without_constant_folding())?;
        let allowed = ["$set", "$addFields", "$unset", "$project", "$replaceRoot", "$replaceWith"];
        match pipeline.names.iter().find(|it| !allowed.contains(&it.as_str())) {
            Some(name) => Err(Fault::new(
                Code::INVALID_OPTIONS,
                format!("{name} is not allowed to be used within an update"),
            )),
            None => Ok(pipeline),
        }
    }

    /// Returns the destination of the documents.
    pub fn destination(&self) -> Destination {
        self.destination.clone()
    }

    /// Returns the filter of a leading `$match`. Documents that do not match can be left out of
    /// [`run`](Self::run).
    pub fn leading_match(&self) -> Option<&Filter> {
        match self.stages.first() {
            Some(Stage::Match(filter)) => Some(filter),
            _ => None,
        }
    }

    /// Returns `true` if the pipeline reads a collection. A pipeline that starts with `$documents`
    /// does not.
    pub fn reads_collection(&self) -> bool {
        !matches!(self.stages.first(), Some(Stage::Documents(_)))
    }

    /// Returns the names of the stages in order.
    pub fn stage_names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// Runs the pipeline. Returns the documents for its [`destination`](Self::destination).
    ///
    /// # Errors
    ///
    /// Fails if a stage fails.
    pub fn run(
        &self,
        documents: Vec<Arc<Document>>,
        collections: &dyn Collections,
        env: &Environment,
    ) -> Result<Vec<Document>, Fault> {
        let run = PipelineRun { collections, database: &self.database, env };
        let rows = stage::run(&self.stages, documents, run)?;
        Ok(rows.into_iter().map(Arc::unwrap_or_clone).collect())
    }

    /// Applies an update pipeline to one document.
    ///
    /// # Errors
    ///
    /// Fails if a stage fails or leaves no document.
    pub fn apply_to(&self, document: &Document, env: &Environment) -> Result<Document, Fault> {
        let mut documents = self.run(vec![Arc::new(document.clone())], &NoCollections, env)?;
        documents.pop().ok_or_else(|| Fault::bad_value("the update leaves no document"))
    }
}

/// For pipelines that read no other collection.
struct NoCollections;

impl Collections for NoCollections {
    fn documents(&self, _database: &str, _collection: &str) -> Vec<Arc<Document>> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests;
