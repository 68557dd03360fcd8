//! Properties of all updates.

use bson::{Bson, Document, doc};
use proptest::prelude::*;

use crate::{
    Filter, Update,
    update::{size, stored},
};

use super::{applied, env, identical_documents};

fn scalar() -> impl Strategy<Value = Bson> {
    prop_oneof![
        any::<i32>().prop_map(Bson::Int32),
        any::<i64>().prop_map(Bson::Int64),
        any::<f64>().prop_map(Bson::Double),
        "[a-c]{0,3}".prop_map(Bson::String),
        any::<bool>().prop_map(Bson::Boolean),
        Just(Bson::Null),
        Just(Bson::MinKey),
    ]
}

fn value() -> impl Strategy<Value = Bson> {
    scalar().prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Bson::Array),
            prop::collection::vec((name(), inner), 0..4)
                .prop_map(|fields| Bson::Document(fields.into_iter().collect())),
        ]
    })
}

fn name() -> impl Strategy<Value = String> {
    "[abc012]".prop_map(String::from)
}

fn document() -> impl Strategy<Value = Document> {
    prop::collection::vec((name(), value()), 0..5).prop_map(|fields| {
        let mut document = doc! { "_id": 1 };
        document.extend(fields.into_iter().collect::<Document>());
        document
    })
}

fn path() -> impl Strategy<Value = String> {
    prop::collection::vec(prop_oneof![9 => name(), 1 => Just("$[]".to_owned())], 1..4)
        .prop_map(|parts| parts.join("."))
}

fn operator() -> impl Strategy<Value = (String, String, Bson)> {
    let name = prop::sample::select(vec![
        "$set",
        "$unset",
        "$inc",
        "$mul",
        "$min",
        "$max",
        "$push",
        "$addToSet",
        "$pop",
        "$pull",
        "$pullAll",
        "$rename",
        "$bit",
    ]);
    (name, path(), value(), path()).prop_map(|(operator, path, value, other)| {
        let argument = match operator {
            "$pop" => Bson::Int32(1),
            "$pullAll" => Bson::Array(vec![value]),
            "$rename" => Bson::String(other),
            "$bit" => doc! { "xor": 5 }.into(),
            "$inc" | "$mul" => Bson::Int32(3),
            _ => value,
        };
        (operator.to_owned(), path, argument)
    })
}

fn update(operators: &[(String, String, Bson)]) -> Document {
    let mut update = Document::new();
    for (operator, path, argument) in operators {
        let paths = update.entry(operator.to_owned()).or_insert(Bson::Document(Document::new()));
        if let Bson::Document(paths) = paths {
            paths.insert(path.clone(), argument.clone());
        }
    }
    update
}

proptest! {
    /// A value that was set is present, and setting it again is no change.
    #[test]
    fn set_is_idempotent(document in document(), name in name(), value in value()) {
        let set = doc! { "$set": { name.as_str(): value.clone() } };
        let after = applied(&document, set.clone()).unwrap().unwrap_or(document);
        let (there, expected) = (doc! { "": after[&name].clone() }, doc! { "": value });
        prop_assert!(identical_documents(&there, &expected));
        prop_assert!(applied(&after, set).unwrap().is_none());
    }

    /// The written order of operators does not matter.
    #[test]
    fn written_order_of_operators_does_not_matter(
        document in document(),
        operators in prop::collection::vec(operator(), 1..4),
    ) {
        let forwards = applied(&document, update(&operators));
        let mut operators = update(&operators)
            .into_iter()
            .flat_map(|(operator, paths)| {
                let paths = paths.as_document().cloned().unwrap_or_default();
                paths.into_iter().map(move |(path, it)| (operator.clone(), path, it))
            })
            .collect::<Vec<_>>();
        operators.reverse();
        let backwards = applied(&document, update(&operators));
        match (forwards, backwards) {
            (Ok(Some(left)), Ok(Some(right))) => prop_assert!(identical_documents(&left, &right)),
            (Ok(None), Ok(None)) => {}
            // Of two errors, the first in the text is reported.
            (Err(_), Err(_)) => {}
            (left, right) => prop_assert!(false, "{left:?} but {right:?}"),
        }
    }

    /// No update changes `_id`.
    #[test]
    fn updates_never_change_the_id(
        document in document(),
        operators in prop::collection::vec(operator(), 1..4),
    ) {
        if let Ok(Some(after)) = applied(&document, update(&operators)) {
            prop_assert_eq!(after.get("_id"), document.get("_id"));
            prop_assert!(stored(after, &env()).is_ok());
        }
    }

    /// Upserts create documents that can be stored.
    #[test]
    fn upserted_documents_can_be_stored(
        filter in document(),
        operators in prop::collection::vec(operator(), 1..4),
    ) {
        let env = env();
        let Ok(filter) = Filter::parse(&filter, &env) else { return Ok(()) };
        let Ok(update) = Update::parse(&update(&operators).into(), &[], &env) else { return Ok(()) };
        if let Ok(document) = update.upserted(&filter, &env) {
            prop_assert_eq!(document.keys().next().map(String::as_str), Some("_id"));
            let again = stored(document.clone(), &env).unwrap();
            prop_assert!(identical_documents(&document, &again));
        }
    }

    /// The computed size equals the encoded size.
    #[test]
    fn computed_size_equals_encoded_size(document in document()) {
        prop_assert_eq!(size(&document), bson::document_to_vec(&document).unwrap().len());
    }
}
