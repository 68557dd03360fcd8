//! Raw documents are sent without a copy, and each retry sends the same bytes.

use bson::{Bson, RawDocumentBuf, rawdoc};
use serde::{Serialize, Serializer};

use super::*;
use crate::{operation::fixture::raw, sequence::Documents};

fn raw_documents(count: i32) -> Vec<RawDocumentBuf> {
    (0..count)
        .map(|n| match n % 3 {
            0 => rawdoc! { "_id": n, "text": "x".repeat(100) },
            1 => rawdoc! { "n": n },
            _ => rawdoc! { "n": n, "_id": { "n": n } },
        })
        .collect()
}

fn only_batch(statements: &Statements<'_>) -> CollectionBulkBatch {
    let mut batches = planned(statements, true, &limits()).unwrap();
    assert_eq!(batches.len(), 1);
    batches.remove(0)
}

fn ids(statements: &Statements<'_>) -> Vec<(usize, Bson)> {
    statements.inserted_ids(0..statements.writes.len()).collect()
}

#[tokio::test]
async fn raw_documents_are_sent_unchanged_with_a_generated_id_first() {
    let documents = raw_documents(6);
    let statements = Statements::of_documents::<RawDocumentBuf, _>(&documents).unwrap();
    let batch = only_batch(&statements);
    let lent = statements.document_sequence(&batch).documents;
    assert!(matches!(lent, Documents::Scattered { .. }), "{lent:?}");

    let mut expected = Vec::new();
    for (document, (_, id)) in documents.iter().zip(ids(&statements)) {
        let mut whole = Document::new();
        if !matches!(document.get("_id"), Ok(Some(_))) {
            assert!(matches!(id, Bson::ObjectId(_)), "{id:?}");
            whole.insert("_id", &id);
        }
        whole.extend(Document::try_from(&**document).unwrap());
        assert_eq!(whole.get("_id"), Some(&id));
        expected.extend(raw(whole).into_bytes());
    }
    assert_eq!(lent.bytes(), expected.len());
    assert_eq!(lent.to_vec().unwrap(), expected);
    // A retry sends the same bytes.
    assert_eq!(lent.to_vec().unwrap(), expected);
}

#[tokio::test]
async fn pieces_of_any_size_add_up_to_the_sequence() {
    let documents = raw_documents(10);
    let statements = Statements::of_documents::<RawDocumentBuf, _>(documents).unwrap();
    let batch = only_batch(&statements);
    let lent = statements.document_sequence(&batch).documents;
    let Documents::Scattered { source, positions, .. } = &lent else { panic!("{lent:?}") };
    for enough in [1, 50, 130, 500, 100_000] {
        let (mut rest, mut whole) = (positions.clone(), Vec::new());
        while !rest.is_empty() {
            let mut piece = Vec::new();
            source.append(&mut rest, &mut piece, enough).unwrap();
            whole.extend(piece);
        }
        assert_eq!(whole, lent.to_vec().unwrap(), "{enough}");
    }
}

#[tokio::test]
async fn each_raw_document_is_in_one_batch() {
    let documents = raw_documents(10);
    let statements = Statements::of_documents::<RawDocumentBuf, _>(&documents).unwrap();
    let limits = WriteLimits { batch_count: 4, ..limits() };
    let batches = planned(&statements, true, &limits).unwrap();
    let sent: Vec<_> = batches.iter().flat_map(|batch| super::sent(&statements, batch)).collect();
    let sent: Vec<_> = sent.iter().map(|it| it.get("_id").unwrap().clone()).collect();
    let ids: Vec<_> = ids(&statements).into_iter().map(|(_, id)| id).collect();
    assert_eq!((sent, batches.len()), (ids, 3));
    assert_eq!(batches.iter().map(|batch| batch.bytes).sum::<usize>(), {
        let whole = only_batch(&statements);
        statements.document_sequence(&whole).documents.bytes()
    });
}

/// A raw document or another one.
#[derive(Serialize)]
#[serde(untagged)]
enum Either {
    Raw(RawDocumentBuf),
    Tree(Document),
}

#[tokio::test]
async fn one_serialized_document_makes_all_encoded() {
    let raw_and_not = [
        Either::Raw(rawdoc! { "_id": 1 }),
        Either::Tree(doc! { "_id": 2 }),
        Either::Raw(rawdoc! { "_id": 3 }),
    ];
    let statements = Statements::of_documents::<Either, _>(&raw_and_not).unwrap();
    let batch = only_batch(&statements);
    assert!(matches!(statements.document_sequence(&batch).documents, Documents::Whole(_)));
    assert_eq!(sent(&statements, &batch), [1, 2, 3].map(|n| doc! { "_id": n }));
    assert_eq!(
        ids(&statements),
        [(0, 1), (1, 2), (2, 3)].map(|(index, id)| (index, Bson::from(id)))
    );
}

#[tokio::test]
async fn malformed_raw_document_is_an_error() {
    let batch_error = RawDocumentBuf::from_bytes(b"\x08\0\0\0\x10a\0\0".to_vec()).unwrap();
    let error = Statements::of_documents::<RawDocumentBuf, _>([batch_error]).unwrap_err();
    assert!(!error.is_network_error(), "{error}");
}

/// Raw document that changes with each serialization.
struct Restless(std::sync::atomic::AtomicUsize);

impl Serialize for Restless {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let seen = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        rawdoc! { "seen": "x".repeat(seen) }.serialize(serializer)
    }
}

#[tokio::test]
async fn document_that_changes_after_planning_is_not_sent() {
    let restless = [Restless(0.into())];
    let statements = Statements::of_documents::<Restless, _>(&restless).unwrap();
    let batch = only_batch(&statements);
    let error = statements.document_sequence(&batch).documents.to_vec().unwrap_err();
    assert!(error.is_invalid_argument(), "{error}");
}
