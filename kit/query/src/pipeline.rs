//! Pipelines: what stages make of many documents.
//!
//! A pipeline is read once. Running it, each stage takes documents from the one before it as it needs
//! them, so that a `$limit` stops the work of those before it; what needs all of them, such as `$sort`,
//! takes all.

mod accumulator;
mod bucket;
mod graph;
mod group;
mod lookup;
mod merge;
mod options;
mod parse;
mod redact;
mod shape;
mod stage;
mod unwind;

use std::sync::Arc;

use bson::Document;

use crate::{Code, Environment, Fault, Filter};

pub use merge::{Merge, WhenMatched, WhenNotMatched};

use parse::{Parser, Place};
use stage::{Run, Stage};

/// What a pipeline can read beside its own documents.
pub trait Collections {
    /// All documents of a collection of this database, in natural order. None if there is none.
    fn documents(&self, database: &str, collection: &str) -> Vec<Arc<Document>>;
}

/// Where the documents go that a pipeline ends with.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Destination {
    /// To the client.
    Cursor,
    /// `$out`: they take the place of a collection.
    Out {
        /// The database, if it is named.
        database: Option<String>,
        /// The collection.
        collection: String,
    },
    /// `$merge`: they go into a collection, as its options say.
    Merge(Box<Merge>),
}

/// A pipeline, checked and ready.
#[derive(Clone, Debug)]
pub struct Pipeline {
    database: String,
    stages: Vec<Stage>,
    /// The stages as they were named, for what a server says of them.
    names: Vec<String>,
    destination: Destination,
}

impl Pipeline {
    /// Reads a pipeline. Stages and operators that are not known are refused.
    pub fn parse(stages: &[Document], database: &str, env: &Environment) -> Result<Self, Fault> {
        let mut parser = Parser::new(database, env, Place::Top);
        parser.pipeline(stages)
    }

    /// Reads the pipeline of an update: one that makes one document of another.
    pub fn parse_update(stages: &[Document], env: &Environment) -> Result<Self, Fault> {
        let pipeline = Self::parse(stages, "", &env.failing_late())?;
        let allowed = ["$set", "$addFields", "$unset", "$project", "$replaceRoot", "$replaceWith"];
        match pipeline.names.iter().find(|it| !allowed.contains(&it.as_str())) {
            Some(name) => Err(Fault::new(
                Code::INVALID_OPTIONS,
                format!("{name} is not allowed to be used within an update"),
            )),
            None => Ok(pipeline),
        }
    }

    /// Where the documents go.
    pub fn destination(&self) -> Destination {
        self.destination.clone()
    }

    /// The filter that it begins with: documents that do not match it need not be given to
    /// [`run`](Self::run).
    pub fn leading_match(&self) -> Option<&Filter> {
        match self.stages.first() {
            Some(Stage::Match(filter)) => Some(filter),
            _ => None,
        }
    }

    /// Whether its first stage reads the documents of a collection. `$documents` does not: it is for an
    /// aggregate of a database.
    pub fn reads_collection(&self) -> bool {
        !matches!(self.stages.first(), Some(Stage::Documents(_)))
    }

    /// The names of its stages, in order.
    pub fn stage_names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// Runs it. What `$out` and `$merge` write is what it gives; see [`destination`](Self::destination).
    pub fn run(
        &self,
        documents: Vec<Arc<Document>>,
        collections: &dyn Collections,
        env: &Environment,
    ) -> Result<Vec<Document>, Fault> {
        let run = Run { collections, database: &self.database, env };
        let rows = stage::run(&self.stages, documents, run)?;
        Ok(rows.into_iter().map(Arc::unwrap_or_clone).collect())
    }

    /// What it makes of one document, for a pipeline that [`parse_update`](Self::parse_update) reads.
    pub fn apply_to(&self, document: &Document, env: &Environment) -> Result<Document, Fault> {
        let mut documents = self.run(vec![Arc::new(document.clone())], &NoCollections, env)?;
        documents.pop().ok_or_else(|| Fault::bad_value("the update leaves no document"))
    }
}

/// For pipelines that read none.
struct NoCollections;

impl Collections for NoCollections {
    fn documents(&self, _database: &str, _collection: &str) -> Vec<Arc<Document>> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests;
