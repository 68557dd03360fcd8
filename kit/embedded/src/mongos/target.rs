//! Targeting: shards of a command, from the conditions of its filter on the shard key.
//!
//! Too many shards make a read slow, too few make it wrong. Conditions that are not understood here
//! target all shards.

use std::collections::BTreeSet;

use bson::{Bson, Document};
use steadfast_query::{Collation, value::compare};

use super::{
    catalog::ShardedCollection,
    key::{ShardKey, ShardKeyField, ShardKeyValue, hash_of},
};

/// Maximum number of `$in` combinations that are targeted one by one.
const MAX_COMBINATIONS: usize = 256;

/// Interval of values that a filter allows for a field, bounds included.
#[derive(Clone, Debug, PartialEq)]
struct Span {
    low: Bson,
    high: Bson,
}

impl Span {
    fn point(value: Bson) -> Self {
        Self { low: value.clone(), high: value }
    }

    fn all() -> Self {
        Self { low: Bson::MinKey, high: Bson::MaxKey }
    }

    fn is_point(&self) -> bool {
        compare(&self.low, &self.high, &Collation::simple()).is_eq()
    }

    /// Intersection. `None` if it is empty.
    fn and(&self, other: &Span) -> Option<Span> {
        let simple = Collation::simple();
        let low = if compare(&self.low, &other.low, &simple).is_ge() { self } else { other };
        let high = if compare(&self.high, &other.high, &simple).is_le() { self } else { other };
        let span = Span { low: low.low.clone(), high: high.high.clone() };
        compare(&span.low, &span.high, &simple).is_le().then_some(span)
    }
}

/// The whole shard key, if a filter requires a value for each of its fields.
pub(crate) fn exact_key(
    key: &ShardKey,
    filter: &Document,
    simple_collation: bool,
) -> Option<ShardKeyValue> {
    key.fields()
        .iter()
        .map(|field| match spans(field, filter, simple_collation).as_slice() {
            [span] if span.is_point() => Some(span.low.clone()),
            _ => None,
        })
        .collect()
}

/// Shards that may own matching documents.
pub(crate) fn shards(
    sharded: &ShardedCollection,
    filter: &Document,
    simple_collation: bool,
) -> BTreeSet<String> {
    let mut lows: Vec<(ShardKeyValue, ShardKeyValue)> = vec![(Vec::new(), Vec::new())];
    let mut ended = false;
    for field in sharded.key.fields() {
        // After a field with several values, later fields do not narrow a single range.
        let spans = if ended { vec![Span::all()] } else { spans(field, filter, simple_collation) };
        if lows.len() * spans.len() > MAX_COMBINATIONS {
            return sharded.shards();
        }
        ended |= spans.iter().any(|span| !span.is_point());
        lows = lows
            .iter()
            .flat_map(|(low, high)| {
                spans.iter().map(|span| {
                    let (mut low, mut high) = (low.clone(), high.clone());
                    low.push(span.low.clone());
                    high.push(span.high.clone());
                    (low, high)
                })
            })
            .collect();
    }
    let found: BTreeSet<String> = lows
        .iter()
        .flat_map(|(low, high)| sharded.chunks.between(low, high))
        .map(|chunk| chunk.shard.clone())
        .collect();
    if !found.is_empty() {
        return found;
    }
    // Nothing can match. One shard must still return the empty result.
    sharded.chunks.iter().take(1).map(|chunk| chunk.shard.clone()).collect()
}

/// Intervals that a filter allows for a field of the shard key.
fn spans(field: &ShardKeyField, filter: &Document, simple_collation: bool) -> Vec<Span> {
    let mut spans = vec![Span::all()];
    narrow(&mut spans, field, filter, simple_collation);
    spans
}

fn narrow(spans: &mut Vec<Span>, field: &ShardKeyField, filter: &Document, simple: bool) {
    for (path, condition) in filter {
        match (path.as_str(), condition) {
            ("$and", Bson::Array(parts)) => {
                for part in parts.iter().filter_map(Bson::as_document) {
                    narrow(spans, field, part, simple);
                }
            }
            (path, condition) if path == field.path => {
                for condition_spans in conditions(field, condition, simple) {
                    *spans = condition_spans
                        .iter()
                        .flat_map(|new| spans.iter().filter_map(|old| old.and(new)))
                        .collect();
                }
            }
            // `{a: {b: 1}}` requires a value of `a.b`.
            (path, Bson::Document(whole)) if !is_operators(whole) => {
                let rest = field.path.strip_prefix(path).and_then(|rest| rest.strip_prefix('.'));
                let Some(rest) = rest else { continue };
                let value = at(whole, rest).unwrap_or(Bson::Null);
                if let Some(point) = point(field, &value, simple) {
                    *spans = spans.iter().filter_map(|old| old.and(&point)).collect();
                }
            }
            _ => {}
        }
    }
}

/// Intervals of each operator in a condition. The value must be in one interval of each.
fn conditions(field: &ShardKeyField, condition: &Bson, simple: bool) -> Vec<Vec<Span>> {
    let one = |value: &Bson| point(field, value, simple).map(|it| vec![it]);
    let Bson::Document(operators) = condition else {
        return one(condition).into_iter().collect();
    };
    if !is_operators(operators) {
        return one(condition).into_iter().collect();
    }
    let mut condition_spans = Vec::new();
    for (operator, value) in operators {
        let spans = match (operator.as_str(), value) {
            ("$eq", value) => one(value),
            ("$in", Bson::Array(values)) => {
                values.iter().map(|value| point(field, value, simple)).collect::<Option<Vec<_>>>()
            }
            _ if field.hashed || !is_plain(value, simple) => None,
            ("$gt" | "$gte", low) => Some(vec![Span { low: low.clone(), high: Bson::MaxKey }]),
            ("$lt" | "$lte", high) => Some(vec![Span { low: Bson::MinKey, high: high.clone() }]),
            _ => None,
        };
        condition_spans.extend(spans);
    }
    condition_spans
}

fn point(field: &ShardKeyField, value: &Bson, simple: bool) -> Option<Span> {
    if !is_plain(value, simple) {
        return None;
    }
    Some(Span::point(if field.hashed { hash_of(value) } else { value.clone() }))
}

/// Returns `true` if equality with this value matches only this value. Regular expressions and
/// arrays match others, as do strings under a collation.
fn is_plain(value: &Bson, simple_collation: bool) -> bool {
    match value {
        Bson::RegularExpression(_) | Bson::Array(_) | Bson::Undefined => false,
        Bson::String(_) | Bson::Symbol(_) | Bson::Document(_) => simple_collation,
        _ => true,
    }
}

fn is_operators(document: &Document) -> bool {
    document.keys().next().is_some_and(|name| name.starts_with('$'))
}

fn at(document: &Document, path: &str) -> Option<Bson> {
    match path.split_once('.') {
        None => document.get(path).cloned(),
        Some((first, rest)) => at(document.get_document(first).ok()?, rest),
    }
}
