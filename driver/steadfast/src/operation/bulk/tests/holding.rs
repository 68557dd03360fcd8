//! Documents that are bytes already are sent from where they are, and are the same each time.

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

fn only_batch(statements: &Statements<'_>) -> Batch {
    let mut batches = planned(statements, true, &limits()).unwrap();
    assert_eq!(batches.len(), 1);
    batches.remove(0)
}

fn ids(statements: &Statements<'_>) -> Vec<(usize, Bson)> {
    statements.inserted_ids(0..statements.writes.len()).collect()
}

#[tokio::test]
async fn they_are_sent_as_they_are_with_an_id_in_front_where_there_is_none() {
    let documents = raw_documents(6);
    let statements = Statements::of_documents::<RawDocumentBuf, _>(&documents).unwrap();
    let batch = only_batch(&statements);
    let lent = statements.lend(&batch).documents;
    assert!(matches!(lent, Documents::Scattered { .. }), "{lent:?}");

    let mut expected = Vec::new();
    for (document, (_, id)) in documents.iter().zip(ids(&statements)) {
        let mut whole = Document::new();
        if !matches!(document.get("_id"), Ok(Some(_))) {
            assert!(matches!(id, Bson::ObjectId(_)), "{id:?}");
            whole.insert("_id", &id);
        }
        whole.extend(Document::try_from(document).unwrap());
        assert_eq!(whole.get("_id"), Some(&id));
        expected.extend(raw(whole).into_bytes());
    }
    assert_eq!(lent.bytes(), expected.len());
    assert_eq!(lent.to_vec().unwrap(), expected);
    // A retry sends the same again.
    assert_eq!(lent.to_vec().unwrap(), expected);
}

#[tokio::test]
async fn pieces_of_any_size_are_the_whole() {
    let documents = raw_documents(10);
    let statements = Statements::of_documents::<RawDocumentBuf, _>(documents).unwrap();
    let batch = only_batch(&statements);
    let lent = statements.lend(&batch).documents;
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
async fn batches_of_them_hold_each_once() {
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
        statements.lend(&whole).documents.bytes()
    });
}

/// A document that is bytes, or not.
#[derive(Serialize)]
#[serde(untagged)]
enum Either {
    Raw(RawDocumentBuf),
    Tree(Document),
}

#[tokio::test]
async fn if_one_is_not_bytes_all_are_encoded() {
    let raw_and_not = [
        Either::Raw(rawdoc! { "_id": 1 }),
        Either::Tree(doc! { "_id": 2 }),
        Either::Raw(rawdoc! { "_id": 3 }),
    ];
    let statements = Statements::of_documents::<Either, _>(&raw_and_not).unwrap();
    let batch = only_batch(&statements);
    assert!(matches!(statements.lend(&batch).documents, Documents::Whole(_)));
    assert_eq!(sent(&statements, &batch), [1, 2, 3].map(|n| doc! { "_id": n }));
    assert_eq!(
        ids(&statements),
        [(0, 1), (1, 2), (2, 3)].map(|(index, id)| (index, Bson::from(id)))
    );
}

#[tokio::test]
async fn what_is_no_document_inside_is_refused() {
    let broken = RawDocumentBuf::from_bytes(b"\x08\0\0\0\x10a\0\0".to_vec()).unwrap();
    let error = Statements::of_documents::<RawDocumentBuf, _>([broken]).unwrap_err();
    assert!(!error.is_network_error(), "{error}");
}

/// A raw document that is another each time it is looked at.
struct Restless(std::sync::atomic::AtomicUsize);

impl Serialize for Restless {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let seen = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        rawdoc! { "seen": "x".repeat(seen) }.serialize(serializer)
    }
}

#[tokio::test]
async fn one_that_changes_after_its_length_was_told_is_not_sent() {
    let restless = [Restless(0.into())];
    let statements = Statements::of_documents::<Restless, _>(&restless).unwrap();
    let batch = only_batch(&statements);
    let error = statements.lend(&batch).documents.to_vec().unwrap_err();
    assert!(error.is_invalid_argument(), "{error}");
}
