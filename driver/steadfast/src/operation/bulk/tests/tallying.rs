//! Results and errors of several batches.

use std::error::Error as _;

use bson::Bson;
use steadfast_core::address::ServerAddress;

use super::*;
use crate::{
    error::{BulkWriteError, Error, ErrorKind, InsertManyError},
    operation::fixture::raw,
    results::{BulkWriteResult, InsertManyResult},
};

fn server() -> ServerAddress {
    "a:1".parse().unwrap()
}

/// Adds up `replies`, one for each batch, until the operation would end.
fn tallied(models: Vec<WriteModel>, ordered: bool, count: usize, replies: &[Document]) -> Tallied {
    let statements = Statements::of_models(models).unwrap();
    let limits = WriteLimits { batch_count: count, ..limits() };
    let batches = planned(&statements, ordered, &limits).unwrap();
    let mut tally = CollectionBulkTally::default();
    for (batch, reply) in batches.iter().zip(replies) {
        let reply = raw(reply.clone());
        tally.count_body(&statements, batch, ordered, &reply, &server()).unwrap();
    }
    Tallied { tally, statements }
}

fn partial(error: &BulkWriteError) -> &BulkWriteResult {
    error.partial_collection_result.as_ref().unwrap()
}

/// Results of replies, and their writes.
struct Tallied {
    tally: CollectionBulkTally,
    statements: Statements<'static>,
}

impl Tallied {
    fn conclude_bulk_write(self, batch_error: Option<Error>) -> Result<BulkWriteResult> {
        self.tally.conclude_bulk_write(&self.statements, batch_error)
    }

    fn conclude_insert_many(self, batch_error: Option<Error>) -> Result<InsertManyResult> {
        self.tally.conclude_insert_many(InsertedIds::new(&self.statements), batch_error)
    }
}

fn inserts(count: i32) -> Vec<WriteModel> {
    (0..count).map(insert).collect()
}

fn bulk_error(error: &Error) -> &BulkWriteError {
    match &*error.kind {
        ErrorKind::BulkWrite(error) => error,
        other => panic!("{other:?}"),
    }
}

fn insert_error(error: &Error) -> &InsertManyError {
    match &*error.kind {
        ErrorKind::InsertMany(error) => error,
        other => panic!("{other:?}"),
    }
}

fn batch_error() -> Error {
    std::io::Error::from(std::io::ErrorKind::ConnectionReset).into()
}

#[tokio::test]
async fn counts_and_ids_of_batches_are_merged() {
    let models = vec![delete(0), update(1), insert(2), update_many(3), insert(4)];
    let replies = [
        doc! { "ok": 1, "n": 2 },
        doc! { "ok": 1, "n": 4, "nModified": 2, "upserted": [{ "index": 1, "_id": "up" }] },
        doc! { "ok": 1, "n": 1 },
    ];
    let result = tallied(models, false, 9, &replies).conclude_bulk_write(None).unwrap();
    assert_eq!((result.inserted_count, result.deleted_count), (2, 1));
    assert_eq!((result.matched_count, result.modified_count, result.upserted_count), (3, 2, 1));
    assert_eq!(result.inserted_ids, [(2, Bson::from(2)), (4, Bson::from(4))].into());
    assert_eq!(result.upserted_ids, [(3, Bson::from("up"))].into());
}

#[tokio::test]
async fn errors_have_the_indexes_of_the_models() {
    let dup = doc! { "index": 1, "code": 11000, "errmsg": "dup" };
    let replies =
        [doc! { "ok": 1, "n": 2 }, doc! { "ok": 1, "n": 1, "writeErrors": [dup.clone()] }];
    let error = tallied(inserts(6), false, 2, &replies).conclude_bulk_write(None).unwrap_err();
    let failed = bulk_error(&error);
    assert_eq!(failed.write_errors.keys().copied().collect::<Vec<_>>(), [3]);
    let partial = partial(failed);
    assert_eq!(partial.inserted_count, 3);
    assert_eq!(partial.inserted_ids.keys().copied().collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(error.server_address(), Some(&server()));
    assert!(error.server_response().is_some());
}

#[tokio::test]
async fn ordered_inserts_stop_at_the_first_write_error() {
    let reply =
        doc! { "ok": 1, "n": 1, "writeErrors": [{ "index": 1, "code": 11000, "errmsg": "" }] };
    let ids = |ordered| {
        let tally = tallied(inserts(4), ordered, 9, std::slice::from_ref(&reply));
        let error = tally.conclude_insert_many(None).unwrap_err();
        assert!(error.is_duplicate_key_error());
        let mut ids: Vec<_> = insert_error(&error).inserted_ids.keys().copied().collect();
        ids.sort_unstable();
        ids
    };
    assert_eq!(ids(true), [0]);
    assert_eq!(ids(false), [0, 2, 3]);
}

#[tokio::test]
async fn every_write_concern_error_is_kept() {
    // pitfall 3
    let unmet = |code: i32, label: &str| {
        doc! {
            "ok": 1, "n": 1, "writeConcernError": { "code": code, "errmsg": "" },
            "errorLabels": [label],
        }
    };
    let replies = [unmet(64, "One"), unmet(91, "Two"), doc! { "ok": 1, "n": 1 }];
    let error = tallied(inserts(3), true, 1, &replies).conclude_bulk_write(None).unwrap_err();
    let failed = bulk_error(&error);
    assert_eq!(failed.write_concern_errors.iter().map(|e| e.code).collect::<Vec<_>>(), [64, 91]);
    assert_eq!(partial(failed).inserted_count, 3);
    assert!(error.contains_label("One") && error.contains_label("Two"));

    let error = tallied(inserts(3), true, 1, &replies).conclude_insert_many(None).unwrap_err();
    assert_eq!(insert_error(&error).write_concern_error.as_ref().unwrap().code, 64);
    assert_eq!(insert_error(&error).inserted_ids.len(), 3);
}

#[tokio::test]
async fn write_errors_and_write_concern_errors_are_both_kept() {
    let reply = doc! {
        "ok": 1, "n": 1, "writeErrors": [{ "index": 1, "code": 121, "errmsg": "" }],
        "writeConcernError": { "code": 64, "errmsg": "" },
    };
    let error = tallied(inserts(2), true, 9, &[reply]).conclude_bulk_write(None).unwrap_err();
    let failed = bulk_error(&error);
    assert_eq!((failed.write_errors.len(), failed.write_concern_errors.len()), (1, 1));
}

#[tokio::test]
async fn no_partial_result_without_an_executed_write() {
    // pitfall 36
    let refused = |index: i32| doc! { "index": index, "code": 11000, "errmsg": "" };
    let first = doc! { "ok": 1, "n": 0, "writeErrors": [refused(0)] };
    let error = tallied(inserts(2), true, 9, &[first]).conclude_bulk_write(None).unwrap_err();
    assert_eq!(bulk_error(&error).partial_result, None);
    let both = doc! { "ok": 1, "n": 0, "writeErrors": [refused(0), refused(1)] };
    let error = tallied(inserts(2), false, 9, &[both]).conclude_bulk_write(None).unwrap_err();
    assert_eq!(bulk_error(&error).partial_result, None);

    let error = CollectionBulkTally::default()
        .conclude_bulk_write(&Statements::default(), Some(batch_error()))
        .unwrap_err();
    assert!(matches!(&*error.kind, ErrorKind::Io(_)), "{error:?}");
    let error = CollectionBulkTally::default()
        .conclude_insert_many(InsertedIds::new(&Statements::default()), Some(batch_error()))
        .unwrap_err();
    assert!(matches!(&*error.kind, ErrorKind::Io(_)), "{error:?}");
}

#[tokio::test]
async fn bulk_write_error_has_the_partial_result_before_a_network_error() {
    // pitfall 36
    let replies = [doc! { "ok": 1, "n": 2 }];
    let mut network = batch_error().with_server(&server());
    network.add_label("RetryableWriteError");
    let tally = tallied(inserts(4), true, 2, &replies);
    let error = tally.conclude_bulk_write(Some(network.clone())).unwrap_err();
    assert_eq!(partial(bulk_error(&error)).inserted_count, 2);
    assert!(bulk_error(&error).write_errors.is_empty());
    let source = error.source().unwrap().downcast_ref::<Error>().unwrap();
    assert!(source.is_network_error());
    assert!(error.contains_label("RetryableWriteError"));
    assert_eq!(error.server_address(), Some(&server()));

    let tally = tallied(inserts(4), true, 2, &replies);
    let error = tally.conclude_insert_many(Some(network)).unwrap_err();
    assert_eq!(insert_error(&error).inserted_ids.len(), 2);
    assert!(error.source().is_some());
}

#[tokio::test]
async fn write_without_a_match_counts_as_executed() {
    let replies = [
        doc! { "ok": 1, "n": 0, "nModified": 0 },
        doc! { "ok": 1, "n": 0, "writeErrors": [{ "index": 0, "code": 1, "errmsg": "" }] },
    ];
    let tally = tallied(vec![update(0), insert(1)], true, 9, &replies);
    let error = tally.conclude_bulk_write(None).unwrap_err();
    assert_eq!(*partial(bulk_error(&error)), BulkWriteResult::default());
}

#[tokio::test]
async fn unacknowledged_batch_has_inserted_ids_only() {
    let statements = Statements::of_models(inserts(2)).unwrap();
    let batches = planned(&statements, true, &limits()).unwrap();
    let mut tally = CollectionBulkTally::default();
    tally.count_unacknowledged(&batches[0]);
    let result = tally.conclude_bulk_write(&statements, None).unwrap();
    assert_eq!((result.inserted_count, result.inserted_ids.len()), (0, 2));
}

#[tokio::test]
async fn malformed_reply_is_an_error() {
    let statements = Statements::of_models(inserts(2)).unwrap();
    let batches = planned(&statements, true, &limits()).unwrap();
    let reply = raw(doc! { "ok": 1, "n": 2, "writeErrors": [{ "index": 2, "code": 1 }] });
    let mut tally = CollectionBulkTally::default();
    let counted = tally.count_body(&statements, &batches[0], true, &reply, &server());
    crate::operation::fixture::assert_invalid_response(counted);
}

#[tokio::test]
async fn ids_of_failed_inserts_are_removed() {
    let statements = Statements::of_models(inserts(1200)).unwrap();
    let batch = &planned(&statements, false, &limits()).unwrap()[0];
    let refused = doc! { "index": 3, "code": 11000, "errmsg": "" };
    let refused = doc! { "ok": 1, "n": 1199, "writeErrors": [refused] };
    for (reply, expected) in [(doc! { "ok": 1, "n": 1200 }, 1200), (refused, 1199)] {
        for rounds in 0..4 {
            let mut ids = InsertedIds::new(&statements);
            for _ in 0..rounds {
                ids.collect_some();
            }
            let mut tally = CollectionBulkTally::default();
            tally.count_body(&statements, batch, false, &raw(reply.clone()), &server()).unwrap();
            let inserted = match tally.conclude_insert_many(ids, None) {
                Ok(result) => result.inserted_ids,
                Err(error) => insert_error(&error).inserted_ids.clone(),
            };
            assert_eq!(inserted.len(), expected);
            assert_eq!(inserted.contains_key(&3), expected == 1200);
            assert!(inserted.iter().all(|(index, id)| id.as_i32() == i32::try_from(*index).ok()));
        }
    }
}
