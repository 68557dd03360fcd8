//! What a filter says for certain: that it matches one document at most, and always the same.

use bson::{Bson, Document};

use crate::options::Collation;

/// Whether an operation with this collation takes strings for equal that are not the same.
pub(super) fn is_collated(collation: Option<&Collation>) -> bool {
    collation.is_some_and(|collation| collation.locale != "simple")
}

/// The value that this field must equal, if the filter says so: `{ field: value }` or
/// `{ field: { $eq: value } }`, at the top or in an `$and`.
pub(super) fn equality<'f>(filter: &'f Document, field: &str) -> Option<&'f Bson> {
    if let Some(value) = filter.get(field).and_then(equal_to) {
        return Some(value);
    }
    let clauses = filter.get("$and")?.as_array()?;
    clauses.iter().filter_map(Bson::as_document).find_map(|clause| equality(clause, field))
}

/// Whether the filter matches one document at most, by its `_id`. `collated` says that the operation
/// compares strings in its own way, in which several `_id`s may be equal.
pub(super) fn pins_id(filter: &Document, collated: bool) -> bool {
    equality(filter, "_id").is_some_and(|id| !collated || !has_text(id))
}

/// Whether the filter matches one document at most, if these fields are unique. One that is null is no
/// pin: a unique index may leave such documents out.
pub(super) fn pins_unique(filter: &Document, fields: &[String], collated: bool) -> bool {
    let is_pin = |value: &Bson| *value != Bson::Null && !(collated && has_text(value));
    !fields.is_empty() && fields.iter().all(|field| equality(filter, field).is_some_and(is_pin))
}

/// The paths that the filter says the values of, if it says nothing else: then a document that an
/// upsert makes of it matches it.
pub(super) fn equalities_only(filter: &Document) -> Option<Vec<&str>> {
    let is_equality = |value: &Bson| match value {
        Bson::Document(document) if is_operators(document) => {
            document.len() == 1 && document.contains_key("$eq")
        }
        other => equal_to(other).is_some(),
    };
    filter
        .iter()
        .map(|(path, value)| {
            (!path.starts_with('$') && is_equality(value)).then_some(path.as_str())
        })
        .collect()
}

/// The operator by which a condition may say yes the one time and no the other, of the same document.
pub(super) fn chance(condition: &Document) -> Option<&'static str> {
    const BY_CHANCE: [&str; 5] = ["$rand", "$sampleRate", "$where", "$function", "$accumulator"];
    condition.iter().find_map(|(key, value)| {
        let here = BY_CHANCE.into_iter().find(|name| name == key);
        here.or_else(|| chance_within(value))
    })
}

fn chance_within(value: &Bson) -> Option<&'static str> {
    match value {
        Bson::Document(document) => chance(document),
        Bson::Array(values) => values.iter().find_map(chance_within),
        _ => None,
    }
}

/// What a condition demands a field to equal, if it does.
fn equal_to(condition: &Bson) -> Option<&Bson> {
    match condition {
        Bson::Document(document) if is_operators(document) => document.get("$eq"),
        // It matches all that look like it.
        Bson::RegularExpression(_) => None,
        // A server may take it for null, or refuse it.
        Bson::Undefined => None,
        value => Some(value),
    }
}

fn is_operators(document: &Document) -> bool {
    document.keys().next().is_some_and(|key| key.starts_with('$'))
}

/// Whether a collation has a say in what equals it.
fn has_text(value: &Bson) -> bool {
    match value {
        Bson::String(_) | Bson::Symbol(_) => true,
        Bson::Document(document) => document.values().any(has_text),
        Bson::Array(values) => values.iter().any(has_text),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use bson::{Regex, doc, oid::ObjectId};

    use super::*;

    #[test]
    fn an_equality_on_id_pins_one_document() {
        let id = ObjectId::new();
        for filter in [
            doc! { "_id": id },
            doc! { "_id": "2016-06-28", "pending": id },
            doc! { "_id": { "$eq": 5 } },
            doc! { "_id": { "user": 1, "day": 2 } },
            doc! { "state": "new", "$and": [{ "x": 1 }, { "_id": 1 }] },
        ] {
            assert!(pins_id(&filter, false), "{filter}");
        }
    }

    #[test]
    fn anything_else_on_id_may_match_several() {
        let pattern =
            Regex { pattern: "^2016".try_into().unwrap(), options: "".try_into().unwrap() };
        for filter in [
            doc! {},
            doc! { "state": "new" },
            doc! { "_id": { "$in": [1, 2] } },
            doc! { "_id": { "$gt": 1 } },
            doc! { "_id": pattern },
            doc! { "_id.user": 1 },
            doc! { "$or": [{ "_id": 1 }] },
        ] {
            assert!(!pins_id(&filter, false), "{filter}");
        }
    }

    #[test]
    fn a_collation_of_the_operations_own_makes_one_id_several() {
        assert!(pins_id(&doc! { "_id": "a" }, false));
        assert!(!pins_id(&doc! { "_id": "a" }, true), "\"A\" may equal it");
        assert!(!pins_id(&doc! { "_id": { "name": "a" } }, true));
        assert!(pins_id(&doc! { "_id": ObjectId::new() }, true));
    }

    #[test]
    fn all_unique_fields_must_be_there_and_not_null() {
        let fields = ["tenant".to_owned(), "email".to_owned()];
        let pinned = doc! { "tenant": 1, "email": "ian@example.com" };
        assert!(pins_unique(&pinned, &fields, false));
        assert!(!pins_unique(&doc! { "email": "ian@example.com" }, &fields, false));
        assert!(!pins_unique(&doc! { "tenant": 1, "email": null }, &fields, false));
        assert!(!pins_unique(&pinned, &[], false));
    }

    #[test]
    fn what_a_filter_leaves_to_chance_is_found_wherever_it_is() {
        assert_eq!(chance(&doc! { "$sampleRate": 0.5 }), Some("$sampleRate"));
        let deep = doc! { "$and": [{ "$expr": { "$lt": [{ "$rand": {} }, 0.5] } }] };
        assert_eq!(chance(&deep), Some("$rand"));
        assert_eq!(chance(&doc! { "state": "$rand", "at": { "$lt": 5 } }), None);
    }

    #[test]
    fn only_a_filter_of_equalities_is_matched_by_what_an_upsert_makes_of_it() {
        let filter = doc! { "_id": 1, "site.name": "alfa", "n": { "$eq": 3 }, "x": null };
        assert_eq!(equalities_only(&filter), Some(vec!["_id", "site.name", "n", "x"]));
        for filter in [
            doc! { "_id": 1, "n": { "$gt": 3 } },
            doc! { "_id": 1, "n": { "$eq": 3, "$gt": 2 } },
            doc! { "$and": [{ "_id": 1 }] },
        ] {
            assert_eq!(equalities_only(&filter), None, "{filter}");
        }
    }
}
