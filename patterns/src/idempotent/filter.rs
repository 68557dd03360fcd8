//! Analysis of filters: equalities, the pinned document, random operators.

use bson::{Bson, Document};

use steadfast::options::Collation;

/// Returns `true` if strings that differ can be equal with this collation.
pub(super) fn is_collated(collation: Option<&Collation>) -> bool {
    collation.is_some_and(|collation| collation.locale != "simple")
}

/// Returns the value that this field must equal: `{ field: value }` or `{ field: { $eq: value } }`, at the top
/// level or in an `$and`.
pub(super) fn equality<'f>(filter: &'f Document, field: &str) -> Option<&'f Bson> {
    if let Some(value) = filter.get(field).and_then(equal_to) {
        return Some(value);
    }
    let clauses = filter.get("$and")?.as_array()?;
    clauses.iter().filter_map(Bson::as_document).find_map(|clause| equality(clause, field))
}

/// Returns `true` if the filter matches at most one document, by its `_id`. With `collated`, several `_id`s may
/// be equal to one string.
pub(super) fn pins_id(filter: &Document, collated: bool) -> bool {
    equality(filter, "_id").is_some_and(|id| !collated || !has_text(id))
}

/// Returns `true` if the filter matches at most one document, provided that these fields are unique. Null does
/// not count: a unique index may leave out such documents.
pub(super) fn pins_unique(filter: &Document, fields: &[String], collated: bool) -> bool {
    let is_pin = |value: &Bson| *value != Bson::Null && !(collated && has_text(value));
    !fields.is_empty() && fields.iter().all(|field| equality(filter, field).is_some_and(is_pin))
}

/// Returns the paths of the filter if it has equalities only: such a filter matches the document that an upsert
/// inserts for it.
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

/// Returns an operator whose result may differ between two evaluations on the same document.
pub(super) fn random_operator(condition: &Document) -> Option<&'static str> {
    const RANDOM_OPERATORS: [&str; 5] =
        ["$rand", "$sampleRate", "$where", "$function", "$accumulator"];
    condition.iter().find_map(|(key, value)| {
        let here = RANDOM_OPERATORS.into_iter().find(|name| name == key);
        here.or_else(|| random_operator_in(value))
    })
}

fn random_operator_in(value: &Bson) -> Option<&'static str> {
    match value {
        Bson::Document(document) => random_operator(document),
        Bson::Array(values) => values.iter().find_map(random_operator_in),
        _ => None,
    }
}

/// Returns the value that a condition compares with for equality.
fn equal_to(condition: &Bson) -> Option<&Bson> {
    match condition {
        Bson::Document(document) if is_operators(document) => document.get("$eq"),
        // It matches several values.
        Bson::RegularExpression(_) => None,
        // A server may treat it as null, or reject it.
        Bson::Undefined => None,
        value => Some(value),
    }
}

fn is_operators(document: &Document) -> bool {
    document.keys().next().is_some_and(|key| key.starts_with('$'))
}

/// Returns `true` if the value contains strings, which a collation compares.
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
    fn equality_on_id_matches_at_most_one_document() {
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
    fn other_conditions_on_id_may_match_several_documents() {
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
    fn with_a_collation_several_string_ids_may_be_equal() {
        assert!(pins_id(&doc! { "_id": "a" }, false));
        assert!(!pins_id(&doc! { "_id": "a" }, true), "\"A\" may equal it");
        assert!(!pins_id(&doc! { "_id": { "name": "a" } }, true));
        assert!(pins_id(&doc! { "_id": ObjectId::new() }, true));
    }

    #[test]
    fn unique_fields_need_an_equality_other_than_null() {
        let fields = ["tenant".to_owned(), "email".to_owned()];
        let pinned = doc! { "tenant": 1, "email": "ian@example.com" };
        assert!(pins_unique(&pinned, &fields, false));
        assert!(!pins_unique(&doc! { "email": "ian@example.com" }, &fields, false));
        assert!(!pins_unique(&doc! { "tenant": 1, "email": null }, &fields, false));
        assert!(!pins_unique(&pinned, &[], false));
    }

    #[test]
    fn random_operators_are_found_at_any_depth() {
        assert_eq!(random_operator(&doc! { "$sampleRate": 0.5 }), Some("$sampleRate"));
        let deep = doc! { "$and": [{ "$expr": { "$lt": [{ "$rand": {} }, 0.5] } }] };
        assert_eq!(random_operator(&deep), Some("$rand"));
        assert_eq!(random_operator(&doc! { "state": "$rand", "at": { "$lt": 5 } }), None);
    }

    #[test]
    fn only_filters_of_equalities_match_the_upserted_document() {
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
