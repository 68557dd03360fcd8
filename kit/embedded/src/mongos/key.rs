//! Shard keys: patterns, key values and their order.

use std::cmp::Ordering;

use bson::{Bson, Document};
use steadfast_query::{Code, Collation, Fault, value::compare};

/// Values of a shard key, in the order of its fields.
pub(crate) type ShardKeyValue = Vec<Bson>;

/// Compares two keys field by field.
pub(crate) fn compare_keys(left: &[Bson], right: &[Bson]) -> Ordering {
    let simple = Collation::simple();
    left.iter()
        .zip(right)
        .map(|(left, right)| compare(left, right, &simple))
        .find(|order| order.is_ne())
        .unwrap_or(Ordering::Equal)
}

/// A field of a shard key.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ShardKeyField {
    /// Dotted path.
    pub(crate) path: String,
    /// `true` for a hashed field.
    pub(crate) hashed: bool,
}

/// Shard key pattern, such as `{datacenter: 1, userid: 1}` or `{_id: "hashed"}`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ShardKey {
    fields: Vec<ShardKeyField>,
}

impl ShardKey {
    /// Parses a pattern.
    pub(crate) fn parse(pattern: &Document) -> Result<Self, Fault> {
        let rejected = |why: &str| {
            Fault::bad_value(format!(
                "Unsupported shard key pattern {}. {why}",
                Bson::from(pattern)
            ))
        };
        if pattern.is_empty() {
            return Err(Fault::bad_value("Shard key pattern is empty"));
        }
        let mut fields = Vec::with_capacity(pattern.len());
        for (path, kind) in pattern {
            if path.is_empty()
                || path.split('.').any(|part| part.is_empty() || part.starts_with('$'))
            {
                return Err(rejected("Field names must not be empty or start with '$'."));
            }
            let hashed = match kind {
                Bson::String(kind) if kind == "hashed" => true,
                Bson::Int32(1) | Bson::Int64(1) => false,
                Bson::Double(kind) if *kind == 1.0 => false,
                _ => {
                    return Err(rejected(
                        "Pattern must either be a single hashed field, or a list of ascending \
                         fields.",
                    ));
                }
            };
            fields.push(ShardKeyField { path: path.clone(), hashed });
        }
        if fields.iter().filter(|field| field.hashed).count() > 1 {
            return Err(rejected("There can be at most one hashed field."));
        }
        Ok(Self { fields })
    }

    pub(crate) fn fields(&self) -> &[ShardKeyField] {
        &self.fields
    }

    /// The pattern as a document.
    pub(crate) fn pattern(&self) -> Document {
        self.fields
            .iter()
            .map(|field| {
                let kind = if field.hashed { Bson::from("hashed") } else { Bson::Int32(1) };
                (field.path.clone(), kind)
            })
            .collect()
    }

    /// Returns `true` if the first field is hashed, so that hashes partition the whole key space.
    pub(crate) fn starts_with_hashed(&self) -> bool {
        self.fields[0].hashed
    }

    /// The least key (`MinKey`).
    pub(crate) fn min_key(&self) -> ShardKeyValue {
        vec![Bson::MinKey; self.fields.len()]
    }

    /// The greatest key (`MaxKey`).
    pub(crate) fn max_key(&self) -> ShardKeyValue {
        vec![Bson::MaxKey; self.fields.len()]
    }

    /// Key of a document. A missing field counts as null.
    pub(crate) fn of(&self, document: &Document) -> Result<ShardKeyValue, Fault> {
        self.fields
            .iter()
            .map(|field| {
                let value = value_at(document, &field.path)?.unwrap_or(Bson::Null);
                Ok(if field.hashed { hash_of(&value) } else { value })
            })
            .collect()
    }

    /// Parses a bound. The bound has the fields of the key in their order, or a prefix of them.
    /// Missing fields are `MinKey`.
    pub(crate) fn bound(&self, bound: &Document) -> Result<ShardKeyValue, Fault> {
        let mut key = self.min_key();
        if bound.is_empty() || bound.len() > self.fields.len() {
            return Err(self.bad_bound(bound));
        }
        for (place, (name, value)) in bound.iter().enumerate() {
            if *name != self.fields[place].path {
                return Err(self.bad_bound(bound));
            }
            key[place] = value.clone();
        }
        Ok(key)
    }

    fn bad_bound(&self, bound: &Document) -> Fault {
        Fault::new(
            Code::named(61, "ShardKeyNotFound"),
            format!(
                "shard key bounds {} are not valid for shard key pattern {}",
                Bson::from(bound),
                Bson::from(self.pattern())
            ),
        )
    }

    /// Key as a document, as `config.chunks` shows it.
    pub(crate) fn document(&self, key: &[Bson]) -> Document {
        self.fields
            .iter()
            .zip(key)
            .map(|(field, value)| (field.path.clone(), value.clone()))
            .collect()
    }

    /// Returns `true` if a change at this path can change the key.
    pub(crate) fn is_changed_by(&self, path: &str) -> bool {
        self.fields.iter().any(|field| {
            field.path == path
                || field.path.strip_prefix(path).is_some_and(|rest| rest.starts_with('.'))
                || path.strip_prefix(&field.path).is_some_and(|rest| rest.starts_with('.'))
        })
    }

    /// Returns `true` if the pattern of an index starts with the shard key. A unique index must, so
    /// that shards can enforce it.
    pub(crate) fn is_prefix_of(&self, pattern: &Document) -> bool {
        pattern.len() >= self.fields.len()
            && self.fields.iter().zip(pattern.keys()).all(|(field, name)| field.path == *name)
    }
}

/// Hash of a value in a hashed field.
pub(crate) fn hash_of(value: &Bson) -> Bson {
    Bson::Int64(steadfast_query::index::hashed(value))
}

/// Value at a dotted path of a document. Arrays are not allowed in a shard key.
fn value_at(document: &Document, path: &str) -> Result<Option<Bson>, Fault> {
    let mut parts = path.split('.');
    let mut value = parts.next().and_then(|name| document.get(name));
    for part in parts {
        value = match value {
            Some(Bson::Document(inner)) => inner.get(part),
            Some(Bson::Array(_)) => return Err(array_in_key()),
            _ => None,
        };
    }
    match value {
        Some(Bson::Array(_)) => Err(array_in_key()),
        value => Ok(value.cloned()),
    }
}

fn array_in_key() -> Fault {
    Fault::new(
        Code::named(61, "ShardKeyNotFound"),
        "Shard key cannot contain array values or array descendants.",
    )
}
