//! Random changes: a store equals a plain list of documents.

use bson::{Bson, Document};
use proptest::prelude::*;

use super::*;
use crate::change::UpdateForm;

/// A change. Values come from small ranges, so that they collide.
#[derive(Clone, Debug)]
enum StoreStep {
    Insert(Document),
    Replace(usize, Document),
    Delete(usize),
    Index { field: &'static str, unique: bool },
    DropIndex(&'static str),
    Snapshot,
}

fn value() -> impl Strategy<Value = Bson> {
    let scalar = || {
        prop_oneof![
            (0..4).prop_map(Bson::Int32),
            (0..4).prop_map(|number| Bson::Double(f64::from(number))),
            "[ab]".prop_map(Bson::String),
            Just(Bson::Null),
        ]
    };
    prop_oneof![
        4 => scalar(),
        1 => prop::collection::vec(scalar(), 0..3).prop_map(Bson::Array),
        1 => scalar().prop_map(|inner| Bson::Document(doc! { "b": inner })),
    ]
}

fn fields() -> impl Strategy<Value = Document> {
    (prop::option::of(value()), prop::option::of(value())).prop_map(|(a, c)| {
        let fields = [("a", a), ("c", c)];
        fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    })
}

fn step() -> impl Strategy<Value = StoreStep> {
    let field = || prop_oneof![Just("a"), Just("c"), Just("a.b")];
    prop_oneof![
        6 => (0_i32..12, fields()).prop_map(|(id, fields)| StoreStep::Insert(with_id(id.into(), fields))),
        4 => (any::<usize>(), fields()).prop_map(|(which, fields)| StoreStep::Replace(which, fields)),
        3 => any::<usize>().prop_map(StoreStep::Delete),
        1 => (field(), any::<bool>()).prop_map(|(field, unique)| StoreStep::Index { field, unique }),
        1 => field().prop_map(StoreStep::DropIndex),
        1 => Just(StoreStep::Snapshot),
    ]
}

fn with_id(id: Bson, fields: Document) -> Document {
    let mut document = doc! { "_id": id };
    document.extend(fields);
    document
}

/// A list of documents, and index names with their uniqueness.
#[derive(Clone, Default)]
struct Model {
    documents: Vec<Document>,
    indexes: Vec<(&'static str, bool)>,
}

impl Model {
    /// Returns `true` if no unique index has a duplicate key.
    fn is_consistent(&self) -> bool {
        let ids = std::iter::once(&("_id", true));
        ids.chain(&self.indexes).filter(|(_, unique)| *unique).all(|(field, _)| {
            let mut seen: Vec<Bson> = Vec::new();
            self.documents.iter().all(|document| {
                let keys = naive_keys(document, field);
                let fresh = keys.iter().all(|key| !seen.iter().any(|other| equal(key, other)));
                seen.extend(keys);
                fresh
            })
        })
    }

    fn apply(&mut self, step: &StoreStep) -> Option<Change> {
        let count = self.documents.len();
        match step {
            StoreStep::Insert(document) => {
                self.documents.push(document.clone());
                Some(insert(document.clone()))
            }
            StoreStep::Replace(which, fields) if count > 0 => {
                let old = &mut self.documents[which % count];
                *old = with_id(old.get("_id").cloned().unwrap_or(Bson::Null), fields.clone());
                let document = Arc::new(old.clone());
                Some(Change::Replace {
                    namespace: namespace(),
                    document,
                    by: UpdateForm::Replacement,
                })
            }
            StoreStep::Delete(which) if count > 0 => {
                let old = self.documents.remove(which % count);
                let id = old.get("_id").cloned().unwrap_or(Bson::Null);
                Some(Change::Delete { namespace: namespace(), id })
            }
            StoreStep::Index { field, unique } => {
                if self.indexes.iter().any(|(known, _)| known == field) {
                    return None;
                }
                self.indexes.push((field, *unique));
                Some(index(
                    doc! { "v": 2, "key": { *field: 1 }, "name": *field, "unique": *unique },
                ))
            }
            StoreStep::DropIndex(field) => {
                let at = self.indexes.iter().position(|(known, _)| known == field)?;
                self.indexes.remove(at);
                Some(Change::DropIndex { namespace: namespace(), name: (*field).to_owned() })
            }
            StoreStep::Replace(..) | StoreStep::Delete(_) | StoreStep::Snapshot => None,
        }
    }
}

/// Keys of a document, for paths of at most two fields.
fn naive_keys(document: &Document, field: &str) -> Vec<Bson> {
    let (first, rest) = field.split_once('.').unwrap_or((field, ""));
    let inner = |value: &Bson| match value {
        Bson::Document(document) => document.get(rest).cloned().unwrap_or(Bson::Null),
        _ => Bson::Null,
    };
    match document.get(first) {
        Some(Bson::Array(elements)) if elements.is_empty() => {
            vec![if rest.is_empty() { Bson::Undefined } else { Bson::Null }]
        }
        Some(Bson::Array(elements)) if rest.is_empty() => elements.clone(),
        Some(Bson::Array(elements)) => elements.iter().map(inner).collect(),
        Some(value) if rest.is_empty() => vec![value.clone()],
        Some(value) => vec![inner(value)],
        None => vec![Bson::Null],
    }
}

fn equal(left: &Bson, right: &Bson) -> bool {
    steadfast_query::value::equal(left, right)
}

fn assert_same(store: &Store, model: &Model) {
    let collection = store.collection(&namespace()).expect("the collection exists");
    assert_eq!(documents(store), model.documents);
    assert_eq!(collection.len(), model.documents.len());
    let bytes: usize = model.documents.iter().map(size_of_document).sum();
    assert_eq!(collection.size(), bytes as u64);
    for document in &model.documents {
        let id = document.get("_id").expect("a document has an _id");
        assert_eq!(collection.by_id(id).map(|it| &**it), Some(document));
    }
    let fields: Vec<&str> =
        ["_id"].into_iter().chain(model.indexes.iter().map(|(field, _)| *field)).collect();
    for (index, field) in collection.indexes().iter().zip(fields) {
        let mut expected = 0;
        for document in &model.documents {
            let mut keys: Vec<Bson> = naive_keys(document, field);
            keys.sort_by(|left, right| {
                steadfast_query::value::compare(left, right, &steadfast_query::Collation::simple())
            });
            keys.dedup_by(|left, right| equal(left, right));
            expected += keys.len();
            for key in keys {
                let found = index
                    .positions()
                    .filter(|position| equal(&position.key.values()[0], &key))
                    .count();
                assert!(found > 0, "{field} has no {key} of {document}");
            }
        }
        assert_eq!(index.len(), expected, "{field}");
        assert!(index.positions().is_sorted());
    }
}

proptest! {
    #[test]
    fn store_equals_list_of_documents(
        steps in prop::collection::vec(step(), 0..60),
    ) {
        let mut store = store_with([]);
        let mut model = Model::default();
        let mut snapshots = Vec::new();
        for step in steps {
            if matches!(step, StoreStep::Snapshot) {
                snapshots.push((store.clone(), model.clone()));
            }
            let mut next = model.clone();
            let Some(change) = next.apply(&step) else { continue };
            let result = store.check_and_apply(&change);
            prop_assert_eq!(result.is_ok(), next.is_consistent(), "{:?}: {:?}", step, result);
            if result.is_ok() {
                model = next;
            }
            assert_same(&store, &model);
        }
        for (store, model) in &snapshots {
            assert_same(store, model);
        }
    }
}
