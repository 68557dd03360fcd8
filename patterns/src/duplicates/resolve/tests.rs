//! Choice among copies, also of several sources, and the number of documents held at a time.

use std::{cell::Cell, rc::Rc};

use bson::{Bson, Document, RawDocumentBuf, doc, oid::ObjectId};
use proptest::prelude::*;

use super::*;
use crate::duplicates::{key::Key, merge::Merge};

fn key() -> Key {
    Key::new(&["k".to_owned()], "datacenter").unwrap()
}

fn id(seconds: u8, rest: u8) -> ObjectId {
    ObjectId::from_bytes([0, 0, 0, seconds, 0, 0, 0, 0, 0, 0, 0, rest])
}

fn position(document: &Document) -> KeyPosition {
    key().position(&RawDocumentBuf::try_from(document).unwrap()).unwrap()
}

/// Classification of documents in this order.
fn resolve(keep: Keep, documents: &[Document]) -> Vec<Resolved<Bson>> {
    let mut resolver = Resolver::new(keep);
    for document in documents {
        resolver.offer(position(document), document.get("n").unwrap().clone());
    }
    resolver.finish();
    std::iter::from_fn(|| resolver.next()).collect()
}

fn chosen(n: i32) -> Resolved<Bson> {
    Resolved::Chosen(n.into())
}

fn surplus(n: i32) -> Resolved<Bson> {
    Resolved::Surplus(n.into())
}

fn not_a_copy(n: i32) -> Resolved<Bson> {
    Resolved::NotACopy(n.into())
}

#[test]
fn first_or_last_copy_of_each_event_is_returned() {
    let documents = [
        doc! { "n": 1, "_id": id(1, 1), "k": 1 },
        doc! { "n": 2, "_id": id(2, 0), "k": 1.0 },
        doc! { "n": 3, "_id": id(3, 0), "k": 1_i64 },
        doc! { "n": 4, "_id": id(1, 2), "k": 2 },
        doc! { "n": 5, "_id": id(1, 3), "k": "2" },
        doc! { "n": 6, "_id": id(1, 4), "k": "2" },
    ];
    assert_eq!(
        resolve(Keep::First, &documents),
        [chosen(1), surplus(2), surplus(3), chosen(4), chosen(5), surplus(6)]
    );
    assert_eq!(
        resolve(Keep::Last, &documents),
        [surplus(1), surplus(2), chosen(3), chosen(4), surplus(5), chosen(6)]
    );
}

#[test]
fn documents_that_are_not_copies_are_returned_between_copies() {
    let documents = [
        doc! { "n": 1, "_id": id(1, 1) },
        doc! { "n": 2, "_id": id(1, 2), "k": null },
        doc! { "n": 3, "_id": id(1, 3), "k": 1 },
        doc! { "n": 4, "_id": id(1, 4), "k": [1, 7] },
        doc! { "n": 5, "_id": "five", "k": 1 },
        doc! { "n": 6, "_id": id(1, 5), "k": 1 },
    ];
    assert_eq!(
        resolve(Keep::First, &documents),
        [not_a_copy(1), not_a_copy(2), chosen(3), not_a_copy(4), not_a_copy(5), surplus(6)]
    );
    assert_eq!(
        resolve(Keep::Last, &documents),
        [not_a_copy(1), not_a_copy(2), not_a_copy(4), not_a_copy(5), surplus(3), chosen(6)]
    );
}

/// A document that counts the existing ones.
struct TrackedDocument {
    document: Document,
    alive: Rc<Cell<usize>>,
    most: Rc<Cell<usize>>,
}

impl TrackedDocument {
    fn new(document: Document, alive: &Rc<Cell<usize>>, most: &Rc<Cell<usize>>) -> Self {
        alive.set(alive.get() + 1);
        most.set(most.get().max(alive.get()));
        Self { document, alive: Rc::clone(alive), most: Rc::clone(most) }
    }
}

impl Drop for TrackedDocument {
    fn drop(&mut self) {
        self.alive.set(self.alive.get() - 1);
        assert!(self.most.get() > 0);
    }
}

/// Reads sources as `Distinct` does, one document of each at a time. Returns the documents that are returned to
/// a reader, and the largest number held at a time.
fn read(keep: Keep, sources: Vec<Box<dyn Iterator<Item = Document>>>) -> (Vec<Document>, usize) {
    let (alive, most) = (Rc::default(), Rc::default());
    let mut sources = sources;
    let mut merge = Merge::of(sources.len());
    let mut resolver = Resolver::new(keep);
    let mut read = Vec::new();
    loop {
        while let Some(source) = merge.source_to_read() {
            let document = sources[source].next();
            let read = document.map(|it| (position(&it), TrackedDocument::new(it, &alive, &most)));
            merge.fill(source, read);
        }
        let next = merge.take();
        let ended = next.is_none();
        match next {
            Some(next) => resolver.offer(next.position, next.document),
            None => resolver.finish(),
        }
        while let Some(resolved) = resolver.next() {
            if let Resolved::Chosen(it) | Resolved::NotACopy(it) = resolved {
                read.push(it.document.clone());
            }
        }
        if ended {
            return (read, most.get());
        }
    }
}

#[test]
fn read_of_many_copies_holds_one_document_per_source_and_one_more() {
    let source = |datacenter: u8| -> Box<dyn Iterator<Item = Document>> {
        let document = move |n: i32| {
            let second = u8::try_from(n % 2).unwrap();
            doc! { "_id": id(second, datacenter), "k": n / 5, "n": n }
        };
        // Five copies of each event and source, in the order of their ids.
        let copies = (0..12_500).flat_map(move |n| {
            let mut copies: Vec<_> = (n * 5..n * 5 + 5).map(document).collect();
            copies.sort_by_key(|it| it.get_object_id("_id").unwrap());
            copies
        });
        Box::new(copies)
    };
    for keep in [Keep::First, Keep::Last] {
        let (read, most) = read(keep, (1..=4).map(source).collect());
        assert_eq!(read.len(), 12_500);
        assert!(most <= 4 + 2, "{most} documents at a time");
    }
}

fn some_documents() -> impl Strategy<Value = Vec<Document>> {
    let key = prop_oneof![
        (0..6).prop_map(Bson::Int32),
        (0..6).prop_map(|it| Bson::Double(f64::from(it) / 2.0)),
        "[ab]{0,1}".prop_map(Bson::String),
        Just(Bson::Null),
        Just(Bson::Array(vec![Bson::Int32(2), Bson::Int32(0)])),
    ];
    prop::collection::vec((key, 0u8..4, 0u8..3), 0..40).prop_map(|all| {
        let documents = all.into_iter().enumerate().map(|(n, (key, seconds, datacenter))| {
            let n = u8::try_from(n).unwrap();
            doc! { "_id": id(seconds, n), "k": key, "datacenter": i32::from(datacenter) }
        });
        documents.collect()
    })
}

/// Sort order of a server: an array is sorted by its least element.
fn sorted_by_key(mut documents: Vec<Document>) -> Vec<Document> {
    let sort_key = |document: &Document| match document.get("k").unwrap() {
        Bson::Array(_) => Bson::Int32(0),
        other => other.clone(),
    };
    documents.sort_by(|left, right| {
        let by_key = steadfast_value::compare(
            &sort_key(left),
            &sort_key(right),
            &steadfast_value::BinaryOrder,
        );
        let id = |it: &Document| it.get_object_id("_id").unwrap();
        by_key.then_with(|| id(left).cmp(&id(right)))
    });
    documents
}

proptest! {
    /// The distribution of copies over deployments does not change the result.
    #[test]
    fn every_event_is_returned_once_for_any_distribution_of_its_copies(documents in some_documents()) {
        for keep in [Keep::First, Keep::Last] {
            let parts: Vec<Box<dyn Iterator<Item = Document>>> = (0..3)
                .map(|datacenter| {
                    let of_it = |it: &&Document| it.get_i32("datacenter").unwrap() == datacenter;
                    let part: Vec<_> = documents.iter().filter(of_it).cloned().collect();
                    Box::new(sorted_by_key(part).into_iter()) as Box<dyn Iterator<Item = Document>>
                })
                .collect();
            let (read, _) = read(keep, parts);

            let mut expected: Vec<Document> = Vec::new();
            for document in &documents {
                let copy = |it: &&mut Document| match (position(it), position(document)) {
                    (KeyPosition::EventCopy(left), KeyPosition::EventCopy(right)) => left.event == right.event,
                    _ => false,
                };
                let id = document.get_object_id("_id").unwrap();
                match expected.iter_mut().find(copy) {
                    None => expected.push(document.clone()),
                    Some(it) => {
                        let other = it.get_object_id("_id").unwrap();
                        if (id < other) == (keep == Keep::First) {
                            *it = document.clone();
                        }
                    }
                }
            }
            let ids = |documents: &[Document]| {
                let mut ids: Vec<_> =
                    documents.iter().map(|it| it.get_object_id("_id").unwrap()).collect();
                ids.sort();
                ids
            };
            prop_assert_eq!(ids(&read), ids(&expected));
            let events = read.iter().filter_map(|it| match position(it) {
                KeyPosition::EventCopy(copy) => Some(copy.event),
                KeyPosition::WithoutAge(_) | KeyPosition::NotACopy(_) => None,
            });
            prop_assert!(events.is_sorted());
        }
    }
}
