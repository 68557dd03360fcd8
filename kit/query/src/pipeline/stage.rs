//! Stages and their execution.

use std::sync::Arc;

use bson::{Bson, Document, doc};

use super::{
    Collections,
    bucket::BucketAuto,
    graph::GraphLookup,
    group::Group,
    lookup::{Lookup, UnionWith},
    redact::Redact,
    reshape::Reshape,
    unwind::Unwind,
};
use crate::{
    Environment, Expression, Fault, Filter, Sort, expression::check_depth, value::type_name,
};

/// A parsed stage. `$out` and `$merge` are no stages: they set the destination.
#[derive(Clone, Debug)]
pub(super) enum Stage {
    Match(Filter),
    Shape(Reshape),
    Replace(Expression),
    Group(Group),
    BucketAuto(BucketAuto),
    Sort(Sort),
    Limit(usize),
    Skip(usize),
    Sample(usize),
    Count(String),
    Unwind(Unwind),
    Lookup(Box<Lookup>),
    GraphLookup(Box<GraphLookup>),
    Union(UnionWith),
    Facet(Vec<(String, Vec<Stage>)>),
    Redact(Redact),
    Documents(Expression),
}

/// Inputs of running stages.
#[derive(Clone, Copy)]
pub(super) struct PipelineRun<'a> {
    pub(super) collections: &'a dyn Collections,
    pub(super) database: &'a str,
    pub(super) env: &'a Environment,
}

/// Stream of documents between stages.
pub(super) type DocumentStream<'a> = Box<dyn Iterator<Item = Result<Arc<Document>, Fault>> + 'a>;

/// Runs documents through all stages.
pub(super) fn run(
    stages: &[Stage],
    documents: Vec<Arc<Document>>,
    run: PipelineRun<'_>,
) -> Result<Vec<Arc<Document>>, Fault> {
    let rows: DocumentStream<'_> = Box::new(documents.into_iter().map(Ok));
    stages.iter().fold(rows, |rows, stage| stage.attach(rows, run)).collect()
}

impl Stage {
    /// Returns the output of the stage, computed on demand.
    fn attach<'a>(&'a self, rows: DocumentStream<'a>, run: PipelineRun<'a>) -> DocumentStream<'a> {
        let env = run.env;
        match self {
            Self::Match(filter) => kept(rows, move |it| filter.matches(it, env)),
            Self::Shape(shape) => mapped(rows, move |it| not_too_deep(shape.apply(it, env)?)),
            Self::Replace(replacement) => {
                mapped(rows, move |it| not_too_deep(replaced(replacement, it, env)?))
            }
            Self::Redact(redact) => {
                let redacted = move |row: Arc<Document>| redact.apply(&row, env);
                Box::new(rows.filter_map(move |row| {
                    row.and_then(redacted).map(|it| it.map(Arc::new)).transpose()
                }))
            }
            Self::Limit(count) => Box::new(rows.take(*count)),
            Self::Skip(count) => {
                // Errors are not skipped.
                let mut left = *count;
                Box::new(rows.filter(move |row| {
                    let skipped = left > 0 && row.is_ok();
                    left -= usize::from(skipped);
                    !skipped
                }))
            }
            Self::Unwind(unwind) => Box::new(rows.flat_map(move |row| match row {
                Ok(document) => unwind.apply(&document),
                Err(fault) => vec![Err(fault)],
            })),
            Self::Union(union) => Box::new(rows.chain(deferred(move || union.documents(run)))),
            Self::Lookup(lookup) => {
                let mut foreign = None;
                mapped(rows, move |it| {
                    let foreign = foreign.get_or_insert_with(|| lookup.foreign(run));
                    lookup.apply(it, foreign, run)
                })
            }
            Self::GraphLookup(graph) => {
                let mut foreign = None;
                mapped(rows, move |it| {
                    let foreign = foreign.get_or_insert_with(|| graph.foreign(run));
                    graph.apply(it, foreign, env)
                })
            }
            Self::Documents(documents) => deferred(move || given(documents, env)),
            Self::Sort(_)
            | Self::Sample(_)
            | Self::Count(_)
            | Self::Group(_)
            | Self::BucketAuto(_)
            | Self::Facet(_) => deferred(move || self.of_all(rows.collect::<Result<_, _>>()?, run)),
        }
    }

    /// Runs a blocking stage.
    fn of_all(
        &self,
        mut rows: Vec<Arc<Document>>,
        run: PipelineRun<'_>,
    ) -> Result<Vec<Arc<Document>>, Fault> {
        match self {
            Self::Sort(sort) => {
                sort.try_sort(&mut rows, run.env)?;
                Ok(rows)
            }
            Self::Sample(size) => Ok(sampled(rows, *size, run.env)),
            Self::Count(_) if rows.is_empty() => Ok(rows),
            Self::Count(name) => Ok(vec![Arc::new(doc! { name: counted(rows.len()) })]),
            Self::Group(group) => group.apply(&rows, run.env),
            Self::BucketAuto(buckets) => buckets.apply(rows, run.env),
            Self::Facet(facets) => {
                let mut facet = Document::new();
                for (name, stages) in facets {
                    let outcome = self::run(stages, rows.clone(), run)?;
                    facet.insert(name.as_str(), as_array(outcome));
                }
                Ok(vec![Arc::new(facet)])
            }
            Self::Match(_)
            | Self::Shape(_)
            | Self::Replace(_)
            | Self::Limit(_)
            | Self::Skip(_)
            | Self::Unwind(_)
            | Self::Lookup(_)
            | Self::GraphLookup(_)
            | Self::Union(_)
            | Self::Redact(_)
            | Self::Documents(_) => Ok(rows),
        }
    }
}

fn kept<'a>(
    rows: DocumentStream<'a>,
    keeps: impl Fn(&Document) -> Result<bool, Fault> + 'a,
) -> DocumentStream<'a> {
    Box::new(rows.filter_map(move |row| match row {
        Ok(document) => match keeps(&document) {
            Ok(true) => Some(Ok(document)),
            Ok(false) => None,
            Err(fault) => Some(Err(fault)),
        },
        Err(fault) => Some(Err(fault)),
    }))
}

fn mapped<'a>(
    rows: DocumentStream<'a>,
    mut map: impl FnMut(&Document) -> Result<Document, Fault> + 'a,
) -> DocumentStream<'a> {
    Box::new(rows.map(move |row| map(&*row?).map(Arc::new)))
}

/// Checks the nesting depth, which each stage can increase.
fn not_too_deep(document: Document) -> Result<Document, Fault> {
    check_depth(&document)?;
    Ok(document)
}

/// Creates documents on demand.
fn deferred<'a>(
    make: impl FnOnce() -> Result<Vec<Arc<Document>>, Fault> + 'a,
) -> DocumentStream<'a> {
    let rows = std::iter::once_with(make).flat_map(|made| match made {
        Ok(rows) => rows.into_iter().map(Ok).collect(),
        Err(fault) => vec![Err(fault)],
    });
    Box::new(rows)
}

/// Converts documents to an array.
pub(super) fn as_array(documents: Vec<Arc<Document>>) -> Bson {
    let document = |it| Bson::Document(Arc::unwrap_or_clone(it));
    Bson::Array(documents.into_iter().map(document).collect())
}

/// Converts a count to an int if it fits, else a long.
pub(super) fn counted(count: usize) -> Bson {
    i32::try_from(count)
        .map_or_else(|_| Bson::Int64(i64::try_from(count).unwrap_or(i64::MAX)), Bson::Int32)
}

fn replaced(
    replacement: &Expression,
    document: &Document,
    env: &Environment,
) -> Result<Document, Fault> {
    match replacement.evaluate(document, env)? {
        Some(Bson::Document(replaced)) => Ok(replaced),
        other => {
            let found = other.as_ref().map_or("missing", type_name);
            Err(Fault::location(
                40228,
                format!(
                    "'newRoot' expression  must evaluate to an object, but resulting value was of \
                     type: '{found}'"
                ),
            ))
        }
    }
}

fn given(documents: &Expression, env: &Environment) -> Result<Vec<Arc<Document>>, Fault> {
    let invalid = || {
        let message = "'$documents' requires an array of documents";
        Fault::location(5_858_203, message)
    };
    match documents.evaluate(&Document::new(), env)? {
        Some(Bson::Array(array)) => array
            .into_iter()
            .map(|it| match it {
                Bson::Document(document) => Ok(Arc::new(document)),
                _ => Err(Fault::location(40228, "'$documents' elements must be objects")),
            })
            .collect(),
        _ => Err(invalid()),
    }
}

/// Selects documents at random, each at most once.
fn sampled(mut rows: Vec<Arc<Document>>, size: usize, env: &Environment) -> Vec<Arc<Document>> {
    let size = size.min(rows.len());
    for place in 0..size {
        let left = u64::try_from(rows.len() - place).unwrap_or(1);
        let chosen = usize::try_from(env.next_random() % left).unwrap_or(0);
        rows.swap(place, place + chosen);
    }
    rows.truncate(size);
    rows
}
