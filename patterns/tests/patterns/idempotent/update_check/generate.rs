//! Random documents and updates, with few names and values, so that they overlap.

use proptest::{collection::vec, prelude::*, sample::select};
use steadfast::bson::{Bson, Document, Timestamp, doc};

/// An update statement, and the document before it; `None` if the collection is empty.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) document: Option<Document>,
    pub(super) update: Document,
    pub(super) filter: Document,
    pub(super) array_filters: Vec<Document>,
    pub(super) upsert: bool,
}

pub(super) fn cases() -> impl Strategy<Value = Case> {
    let present = prop::option::weighted(0.9, document());
    (present, update(), filter(), vec(condition(), 2), any::<bool>()).prop_map(
        |(document, update, filter, conditions, upsert)| {
            let array_filters = array_filters(&update, conditions);
            Case { document, update, filter, array_filters, upsert }
        },
    )
}

/// Updates of array elements, selected by fields that the same update changes.
pub(super) fn cases_of_elements() -> impl Strategy<Value = Case> {
    let number = || (0..3_i32).prop_map(Bson::from);
    let inner = vec(fields(number(), 1..3), 0..3).prop_map(Bson::from);
    let element =
        (fields(number(), 1..3), prop::option::of(inner)).prop_map(|(mut element, inner)| {
            element.extend(inner.map(|inner| ("inner".to_owned(), inner)));
            element
        });
    let array = vec(element, 1..5).prop_map(|elements| doc! { "_id": 1, "list": elements });
    let which = || select(vec!["$[]", "$[e]", "$[e]", "$[f]"]);
    let path = prop_oneof![
        4 => (which(), names()).prop_map(|(which, name)| format!("list.{which}.{name}")),
        1 => (which(), which(), names()).prop_map(|(outer, inner, name)| {
            format!("list.{outer}.inner.{inner}.{name}")
        }),
    ];
    let operator = select(vec!["$set", "$set", "$min", "$max", "$unset"]);
    let update = vec((operator, path, number()), 1..4).prop_map(of_operations);
    (array, update, vec((names(), number()), 2)).prop_map(|(document, update, conditions)| {
        let conditions = conditions.into_iter().map(|(name, value)| doc! { name: value });
        let array_filters = array_filters(&update, conditions.collect());
        let filter = doc! { "_id": 1 };
        Case { document: Some(document), update, filter, array_filters, upsert: false }
    })
}

fn names() -> impl Strategy<Value = &'static str> {
    select(vec!["a", "b", "c", "d"])
}

fn scalar() -> impl Strategy<Value = Bson> {
    prop_oneof![
        4 => (-2..4_i32).prop_map(Bson::from),
        1 => (-1..3_i64).prop_map(Bson::from),
        1 => select(vec![0.0, -0.0, 1.0, 1.5, f64::NAN]).prop_map(Bson::from),
        1 => select(vec!["", "x", "y"]).prop_map(Bson::from),
        1 => Just(Bson::Null),
        1 => select(vec!["0", "-0", "1.0", "1.00", "NaN"]).prop_map(decimal),
        1 => any::<bool>().prop_map(Bson::from),
        1 => Just(Bson::Timestamp(Timestamp { time: 0, increment: 0 })),
    ]
}

fn decimal(digits: &str) -> Bson {
    Bson::Decimal128(digits.parse().unwrap())
}

fn value() -> impl Strategy<Value = Bson> {
    scalar().prop_recursive(3, 16, 3, |inner| {
        prop_oneof![
            3 => vec(inner.clone(), 0..4).prop_map(Bson::Array),
            3 => fields(inner, 0..3).prop_map(Bson::Document),
        ]
    })
}

/// A value of a document: most often an array of documents, for `$[name]`.
fn stored() -> impl Strategy<Value = Bson> {
    let number = || (-2..4_i32).prop_map(Bson::from).boxed();
    let inner = vec(fields(number(), 1..4), 0..3).prop_map(Bson::from);
    let element = fields(prop_oneof![4 => number(), 1 => inner, 1 => value()], 1..4);
    prop_oneof![
        3 => vec(element.clone(), 0..4).prop_map(Bson::from),
        1 => vec(scalar(), 0..4).prop_map(Bson::Array),
        2 => element.prop_map(Bson::from),
        2 => number(),
        1 => value(),
    ]
}

fn fields(
    values: impl Strategy<Value = Bson> + 'static,
    count: std::ops::Range<usize>,
) -> BoxedStrategy<Document> {
    let fields = vec((names(), values), count).prop_map(|fields| {
        fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    });
    fields.boxed()
}

fn document() -> impl Strategy<Value = Document> {
    fields(stored(), 1..5).prop_map(|fields| {
        let mut document = doc! { "_id": 1 };
        document.extend(fields);
        document
    })
}

/// A filter: most often on `_id`, sometimes with more conditions.
fn filter() -> impl Strategy<Value = Document> {
    let more = prop_oneof![
        8 => Just(doc! {}),
        1 => (names(), scalar()).prop_map(|(name, value)| doc! { name: value }),
        1 => (names(), scalar()).prop_map(|(name, value)| doc! { name: { "$gte": value } }),
        1 => names().prop_map(|name| doc! { format!("{name}.b"): 1 }),
    ];
    more.prop_map(|more| {
        let mut filter = doc! { "_id": 1 };
        filter.extend(more);
        filter
    })
}

fn path() -> impl Strategy<Value = String> {
    let part = || {
        prop_oneof![
            10 => names(),
            2 => select(vec!["0", "1"]),
            1 => Just("$"),
            4 => Just("$[]"),
            6 => select(vec!["$[e]", "$[e]", "$[f]"]),
        ]
    };
    let more = prop_oneof![
        6 => Just(vec![]),
        3 => part().prop_map(|part| vec![part]),
        3 => (part(), names()).prop_map(|(part, name)| vec![part, name]),
        1 => (part(), names(), part(), names()).prop_map(|(a, b, c, d)| vec![a, b, c, d]),
    ];
    (names(), more).prop_map(|(first, more)| {
        more.into_iter().fold(first.to_owned(), |path, part| format!("{path}.{part}"))
    })
}

/// An update: some operators with different paths, or sometimes a replacement.
fn update() -> impl Strategy<Value = Document> {
    prop_oneof![
        20 => vec(operation(), 1..4).prop_map(of_operations),
        1 => fields(value(), 0..3),
    ]
}

fn of_operations(operations: Vec<(&'static str, String, Bson)>) -> Document {
    let mut update = Document::new();
    for (operator, path, argument) in operations {
        let at = update.entry(operator.to_owned()).or_insert_with(|| doc! {}.into());
        at.as_document_mut().unwrap().insert(path, argument);
    }
    update
}

fn operation() -> impl Strategy<Value = (&'static str, String, Bson)> {
    let any_value =
        select(vec!["$set", "$set", "$setOnInsert", "$unset", "$min", "$max", "$addToSet"]);
    let with = |operator: &'static str, argument: BoxedStrategy<Bson>| {
        (Just(operator), path(), argument).boxed()
    };
    let numbers = || (1..4_i32).prop_map(Bson::from).boxed();
    let several = || vec(value(), 0..3).prop_map(Bson::Array);
    let each = several().prop_map(|values| Bson::from(doc! { "$each": values })).boxed();
    let bits = (select(vec!["and", "or", "and", "or", "xor"]), 0..8_i32);
    let bits = vec(bits, 1..3).prop_map(|operations| {
        let bits: Document =
            operations.into_iter().map(|(name, bits)| (name.to_owned(), bits.into())).collect();
        Bson::from(bits)
    });
    let pulled = prop_oneof![value(), condition().prop_map(Bson::from)].boxed();
    let new_name = path().prop_map(Bson::from).boxed();
    prop_oneof![
        12 => (any_value, path(), value()),
        2 => with("$addToSet", each),
        3 => with("$pull", pulled),
        2 => with("$pullAll", several().boxed()),
        2 => with("$bit", bits.boxed()),
        3 => with("$rename", new_name),
        1 => with("$inc", numbers()),
        1 => with("$push", value().boxed()),
        1 => with("$pop", Just(Bson::from(1)).boxed()),
    ]
}

/// A condition on an array element.
fn condition() -> impl Strategy<Value = Document> {
    let comparison = select(vec!["$eq", "$gte", "$lt", "$ne"]);
    prop_oneof![
        (comparison, scalar()).prop_map(|(how, value)| doc! { how: value }),
        (names(), scalar()).prop_map(|(name, value)| doc! { name: value }),
        (names(), scalar()).prop_map(|(name, value)| doc! { name: { "$gte": value } }),
    ]
}

/// Array filters for the identifiers in an update.
fn array_filters(update: &Document, conditions: Vec<Document>) -> Vec<Document> {
    let text = update.to_string();
    let used = ["e", "f"].into_iter().zip(conditions);
    let used = used.filter(|(name, _)| text.contains(&format!("$[{name}]")));
    used.map(|(name, condition)| {
        let operators = condition.keys().next().is_some_and(|key| key.starts_with('$'));
        if operators {
            return doc! { name: condition };
        }
        let within = condition.into_iter();
        within.map(|(field, value)| (format!("{name}.{field}"), value)).collect()
    })
    .collect()
}
