//! Access paths: hints, index selection, and the scan that finds documents.

use std::{iter, sync::Arc};

use bson::{Bson, Document};
use steadfast_query::{Code, Collation, Environment, Fault, Filter, Sort};

use super::{
    super::store::{Collection, Index},
    resolved_namespace::ResolvedNamespace,
};

/// Index hint (`hint`).
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Hint {
    /// No hint.
    None,
    /// Collection scan (`$natural`).
    Natural { backward: bool },
    /// Index with this name.
    Name(String),
    /// Index with this key pattern.
    Pattern(Document),
}

impl Hint {
    /// Parses the option `hint`.
    pub(crate) fn read(value: Option<&Bson>) -> Result<Self, Fault> {
        match value {
            None => Ok(Self::None),
            Some(Bson::String(name)) => Ok(Self::Name(name.clone())),
            Some(Bson::Document(pattern)) if pattern.is_empty() => Ok(Self::None),
            Some(Bson::Document(pattern)) => {
                Ok(parse_natural(pattern).unwrap_or_else(|| Self::Pattern(pattern.clone())))
            }
            Some(_) => Err(Fault::failed_to_parse("Hint must be a string or an object")),
        }
    }
}

/// Parses `{$parse_natural: 1}` or `{$parse_natural: -1}`, of a hint or a sort.
pub(crate) fn parse_natural(pattern: &Document) -> Option<Hint> {
    let backward = match pattern.get("$natural")? {
        Bson::Int32(order) => *order < 0,
        Bson::Int64(order) => *order < 0,
        Bson::Double(order) => *order < 0.0,
        _ => return None,
    };
    Some(Hint::Natural { backward })
}

/// Access path to documents.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AccessPath<'a> {
    /// No documents.
    Empty,
    /// Scan of the whole collection.
    CollectionScan { backward: bool },
    /// Lookup by `_id`, the only condition of the filter.
    IdLookup,
    /// Scan of an index, in its order.
    IndexScan(&'a Index),
    /// Scan of an index between two keys.
    IndexRange(&'a Index, IndexBounds<'a>),
}

/// Index bounds of `find`: `min` is inclusive, `max` exclusive.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct IndexBounds<'a> {
    pub(crate) min: Option<&'a Document>,
    pub(crate) max: Option<&'a Document>,
}

impl<'a> AccessPath<'a> {
    /// Chooses the access path for a filter. Rejects a hint to a missing index.
    pub(crate) fn choose(
        resolved: &ResolvedNamespace<'a>,
        condition: &Document,
        filter: &Filter,
        hint: &Hint,
        env: &Environment,
    ) -> Result<Self, Fault> {
        let Some(collection) = resolved.collection() else {
            return Ok(match resolved {
                ResolvedNamespace::Missing => Self::Empty,
                ResolvedNamespace::Collection(_) | ResolvedNamespace::View(_) => {
                    Self::CollectionScan { backward: false }
                }
            });
        };
        match hint {
            Hint::Natural { backward } => Ok(Self::CollectionScan { backward: *backward }),
            Hint::Name(name) => {
                hinted_index(collection, |index| index.name() == name).map(Self::IndexScan)
            }
            Hint::Pattern(pattern) => {
                hinted_index(collection, |index| index.pattern() == pattern).map(Self::IndexScan)
            }
            Hint::None => {
                let id = condition.get("_id");
                let is_id = condition.len() == 1 && id.is_some_and(is_value);
                if is_id && has_collation(collection, env) {
                    return Ok(Self::IdLookup);
                }
                // Conditions on `_id` use its index. A clustered collection has no other order.
                let by_id = matches!(id, Some(Bson::Document(_)))
                    || collection.options().contains_key("clusteredIndex");
                let of_ids = collection.indexes().first().filter(|_| by_id);
                let index = collection
                    .searched(filter, env)
                    .or(of_ids)
                    .or_else(|| range_index(collection, condition, env));
                Ok(index.map_or(Self::CollectionScan { backward: false }, Self::IndexScan))
            }
        }
    }
}

impl<'a> IndexBounds<'a> {
    /// Restricts an access path to these bounds. The bounds must fit its index.
    pub(crate) fn within(
        self,
        access_path: AccessPath<'a>,
        hint: &Hint,
    ) -> Result<AccessPath<'a>, Fault> {
        let planner = |code: Code, why: &str| {
            let message = "error processing query: planner returned error :: caused by ::";
            Err(Fault::new(code, format!("{message} {why}")))
        };
        if self.min.is_none() && self.max.is_none() {
            return Ok(access_path);
        }
        let index = match (access_path, hint) {
            (_, Hint::Natural { .. }) => {
                let code = Code::named(291, "NoQueryExecutionPlans");
                return planner(code, "min and max are incompatible with $natural");
            }
            (_, Hint::None) => {
                return planner(
                    Code::location(51173),
                    "When using min()/max() a hint of which index to use must be provided",
                );
            }
            (AccessPath::IndexScan(index), _) => index,
            (other, _) => return Ok(other),
        };
        let fits = |key: &Document| key.keys().eq(index.pattern().keys());
        if ![self.min, self.max].into_iter().flatten().all(fits) {
            let why = "The index chosen is not compatible with min/max";
            return planner(Code::location(51174), why);
        }
        if let (Some(min), Some(max)) = (self.min, self.max)
            && !index.is_before(values(min), values(max))
        {
            return planner(
                Code::location(51175),
                "The value provided for min() does not come before the value provided for max() in \
                 the hinted index",
            );
        }
        Ok(AccessPath::IndexRange(index, self))
    }
}

fn values(key: &Document) -> Vec<Bson> {
    key.values().cloned().collect()
}

/// An index that has all documents and begins with a field that the filter restricts to a range.
fn range_index<'a>(
    collection: &'a Collection,
    condition: &Document,
    env: &Environment,
) -> Option<&'a Index> {
    let is_range = |condition: &Bson| {
        let is_end = |it: &String| matches!(it.as_str(), "$gt" | "$gte" | "$lt" | "$lte" | "$in");
        condition.as_document().is_some_and(|it| it.keys().any(is_end))
    };
    let is_whole = |it: &&Index| {
        let options = ["sparse", "partialFilterExpression", "hidden", "collation"];
        !options.iter().any(|option| it.specification().contains_key(option))
            && it.pattern().values().all(|order| !matches!(order, Bson::String(_)))
    };
    let begins = |it: &&Index| {
        let first = it.pattern().keys().next();
        first.and_then(|field| condition.get(field)).is_some_and(is_range)
    };
    let simple = env.collation == Collation::simple();
    collection.indexes().iter().filter(is_whole).find(begins).filter(|_| simple)
}

fn hinted_index(
    collection: &Collection,
    is_meant: impl Fn(&Index) -> bool,
) -> Result<&Index, Fault> {
    let is_hidden = |it: &Index| it.specification().get_bool("hidden").unwrap_or(false);
    collection.indexes().iter().find(|it| is_meant(it) && !is_hidden(it)).ok_or_else(|| {
        Fault::new(
            Code::BAD_VALUE,
            "error processing query: planner returned error :: caused by :: hint provided does not \
             correspond to an existing index",
        )
    })
}

/// Returns `true` if the command and the collection's indexes compare strings alike.
fn has_collation(collection: &Collection, env: &Environment) -> bool {
    let own = collection.options().get_document("collation").ok();
    let own = own.map_or(Ok(Collation::simple()), Collation::parse);
    own.is_ok_and(|own| own == env.collation)
}

/// Returns `true` for a value in a filter that must be equal.
fn is_value(value: &Bson) -> bool {
    match value {
        Bson::Document(it) => !it.keys().next().is_some_and(|key| key.starts_with('$')),
        Bson::RegularExpression(_) => false,
        _ => true,
    }
}

/// Selected documents and the number of examined ones.
#[derive(Debug, Default)]
pub(crate) struct Selected {
    pub(crate) documents: Vec<Arc<Document>>,
    /// Documents examined (`docsExamined`).
    pub(crate) examined: usize,
}

/// Selects at most `most` matching documents, in the order of the access path.
pub(crate) fn select(
    resolved: &ResolvedNamespace<'_>,
    access_path: AccessPath<'_>,
    filter: &Filter,
    env: &Environment,
    max_count: usize,
) -> Result<Selected, Fault> {
    let candidates: Box<dyn Iterator<Item = &Arc<Document>> + '_> = match (resolved, access_path) {
        (ResolvedNamespace::Missing, _) | (_, AccessPath::Empty) => Box::new(iter::empty()),
        (ResolvedNamespace::View(documents), _) => Box::new(documents.iter()),
        (
            ResolvedNamespace::Collection(collection),
            AccessPath::CollectionScan { backward: true },
        ) => Box::new(collection.documents().rev()),
        (
            ResolvedNamespace::Collection(collection),
            AccessPath::CollectionScan { backward: false } | AccessPath::IdLookup,
        ) => collection.candidates(filter, env),
        (ResolvedNamespace::Collection(collection), AccessPath::IndexScan(index)) => {
            match collection.searched(filter, env) {
                Some(_) => return select_by_equality(collection, index, filter, env, max_count),
                None => Box::new(collection.in_order(index, None, None)),
            }
        }
        (ResolvedNamespace::Collection(collection), AccessPath::IndexRange(index, range)) => {
            Box::new(collection.in_order(index, range.min.map(values), range.max.map(values)))
        }
    };
    let mut selected = Selected::default();
    for document in candidates {
        if selected.documents.len() == max_count {
            break;
        }
        selected.examined += 1;
        if filter.matches(document, env)? {
            selected.documents.push(Arc::clone(document));
        }
    }
    Ok(selected)
}

/// Selects documents by an equality lookup, sorted in the order of the index.
fn select_by_equality(
    collection: &Collection,
    index: &Index,
    filter: &Filter,
    env: &Environment,
    max_count: usize,
) -> Result<Selected, Fault> {
    let mut selected = Selected::default();
    for document in collection.candidates(filter, env) {
        selected.examined += 1;
        if index.holds(document)? && filter.matches(document, env)? {
            selected.documents.push(Arc::clone(document));
        }
    }
    // A hashed index has no sort order.
    if let Ok(sort) = Sort::parse(index.pattern()) {
        sort.sort(&mut selected.documents, env);
    }
    selected.documents.truncate(max_count);
    Ok(selected)
}
