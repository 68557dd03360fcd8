//! Writes of several commands: each command has its own `txnNumber`, and an error contains the results of earlier
//! commands.

use std::error::Error as _;

use steadfast::{
    bson::{RawDocumentBuf, rawdoc},
    options::{InsertOneModel, UpdateOneModel, WriteModel},
};

use super::*;

/// Primary with `maxWriteBatchSize` 2.
async fn deployment_with_batches_of_two(faults: &[Fault]) -> (Deployment, ObservedClient) {
    let deployment = Deployment::primary();
    deployment.set_hello_fields(doc! { "maxWriteBatchSize": 2 });
    deployment.inject(faults);
    let observed = ObservedClient::new(&deployment, "").await;
    (deployment, observed)
}

fn documents(count: i32) -> Vec<Document> {
    (0..count).map(|n| doc! { "_id": n }).collect()
}

#[tokio::test]
async fn every_batch_has_the_next_txn_number_and_its_retry_the_same() {
    // pitfalls 4 and 6
    let (deployment, observed) = deployment_with_batches_of_two(&[
        Fault::None,
        Fault::LostReply,
        Fault::None,
        Fault::LostRequest,
    ])
    .await;
    let result = bounded(observed.books.insert_many(documents(6))).await.unwrap();
    assert_eq!(result.inserted_ids.len(), 6);
    assert_eq!(observed.numbers("insert"), [1, 2, 2, 3, 3].map(Some));
    let sessions = observed.sessions("insert");
    assert!(sessions.iter().all(|id| *id == sessions[0]), "{sessions:?}");
    let started = observed.started("insert");
    assert!(started.iter().all(|event| event.operation_id == started[0].operation_id));
    let applied = deployment.applied();
    assert!(applied.len() == 6 && applied.values().all(|&times| times == 1), "{applied:?}");
}

#[tokio::test]
async fn insert_many_error_lists_ids_inserted_before_a_network_error() {
    // pitfall 36
    for ordered in [true, false] {
        let (deployment, observed) =
            deployment_with_batches_of_two(&[Fault::None, Fault::LostRequest, Fault::LostRequest])
                .await;
        let insert = observed.books.insert_many(documents(5)).ordered(ordered);
        let error = bounded(insert).await.unwrap_err();
        let ErrorKind::InsertMany(partly) = &*error.kind else { panic!("{error:?}") };
        let mut inserted: Vec<_> = partly.inserted_ids.keys().copied().collect();
        inserted.sort_unstable();
        assert_eq!(inserted, [0, 1], "{error:?}");
        assert!(partly.write_errors.is_none() && partly.write_concern_error.is_none());
        assert!(error.is_network_error() && error.source().is_some(), "{error:?}");
        assert_eq!(error.outcome(), Outcome::MaybeApplied);
        assert_eq!(error.attempts().len(), 2, "{error:?}");
        assert!(error.contains_label(RETRYABLE_WRITE_ERROR), "{error:?}");
        assert_eq!(deployment.applied().len(), 2);
        assert_eq!(observed.numbers("insert"), [1, 2, 2].map(Some));
    }
}

#[tokio::test]
async fn bulk_write_error_has_the_partial_result_of_earlier_batches() {
    // pitfall 36
    let (deployment, observed) =
        deployment_with_batches_of_two(&[Fault::None, Fault::LostReply, Fault::LostReply]).await;
    let models: [WriteModel; 4] = [
        InsertOneModel::new(doc! { "_id": 1 }).into(),
        InsertOneModel::new(doc! { "_id": 2 }).into(),
        UpdateOneModel::new(doc! { "_id": 1 }, doc! { "$inc": { "x": 1 } }).into(),
        InsertOneModel::new(doc! { "_id": 3 }).into(),
    ];
    let error = bounded(observed.books.bulk_write(models)).await.unwrap_err();
    let ErrorKind::BulkWrite(partly) = &*error.kind else { panic!("{error:?}") };
    let result = partly.partial_result.as_ref().expect("two were inserted").summary();
    assert_eq!((result.inserted_count, result.modified_count), (2, 0), "{error:?}");
    assert_eq!(error.outcome(), Outcome::MaybeApplied);
    assert_eq!(error.attempts().len(), 2);
    assert_eq!(deployment.applied().len(), 3, "the update is applied, and its reply lost");
}

#[tokio::test]
async fn no_partial_result_is_returned_if_the_first_batch_had_no_reply() {
    // pitfall 36
    for faults in [[Fault::LostReply; 2], [Fault::LostRequest; 2]] {
        let (_deployment, observed) = deployment_with_batches_of_two(&faults).await;
        let error = bounded(observed.books.insert_many(documents(5))).await.unwrap_err();
        assert!(matches!(&*error.kind, ErrorKind::Io(_)), "{error:?}");
        assert_eq!((error.outcome(), error.attempts().len()), (Outcome::MaybeApplied, 2));
    }
}

#[tokio::test]
async fn a_batch_that_was_not_sent_keeps_the_partial_result() {
    let deployment = Deployment::primary();
    deployment.set_hello_fields(doc! { "maxWriteBatchSize": 2 });
    let observed = ObservedClient::new(&deployment, "").await;
    observed.ping().await;
    deployment.inject(&[Fault::None, Fault::LostRequest]);
    deployment.cut_handshakes_after_network_error();
    let error = bounded(observed.books.insert_many(documents(3))).await.unwrap_err();
    let ErrorKind::InsertMany(partly) = &*error.kind else { panic!("{error:?}") };
    assert_eq!(partly.inserted_ids.len(), 2);
    let sent = error.attempts().iter().filter(|it| it.request_id.is_some());
    assert_eq!((sent.count(), error.attempts().len()), (1, 6));
}

#[tokio::test]
async fn a_write_concern_error_of_an_earlier_batch_is_kept() {
    // pitfall 3
    let not_durable = Fault::WriteConcernError(64, UNLABELLED);
    let (deployment, observed) = deployment_with_batches_of_two(&[not_durable]).await;
    let error = bounded(observed.books.insert_many(documents(4))).await.unwrap_err();
    let ErrorKind::InsertMany(partly) = &*error.kind else { panic!("{error:?}") };
    assert_eq!(partly.inserted_ids.len(), 4);
    assert_eq!(partly.write_concern_error.as_ref().unwrap().code, 64);
    assert_eq!(error.outcome(), Outcome::AppliedNotDurable);
    assert_eq!(deployment.applied().len(), 4);
}

#[tokio::test]
async fn a_write_error_of_a_retried_batch_has_the_outcome_of_all_attempts() {
    // The write error does not determine the outcome of the attempt whose reply was lost.
    let (_deployment, observed) =
        deployment_with_batches_of_two(&[Fault::LostRequest, Fault::WriteError(0, 13, UNLABELLED)])
            .await;
    let error = bounded(observed.books.insert_many(documents(2))).await.unwrap_err();
    assert!(matches!(&*error.kind, ErrorKind::InsertMany(_)), "{error:?}");
    assert_eq!(error.outcome(), Outcome::MaybeApplied, "{error:?}");
    assert_eq!(error.attempts().len(), 2, "{error:?}");
}

#[tokio::test]
async fn an_error_lists_the_attempts_of_all_failed_batches() {
    let duplicate = Fault::WriteError(1, 11000, UNLABELLED);
    let (_deployment, observed) =
        deployment_with_batches_of_two(&[duplicate, Fault::LostRequest, Fault::LostRequest]).await;
    let insert = observed.books.insert_many(documents(4)).ordered(false);
    let error = bounded(insert).await.unwrap_err();
    let ErrorKind::InsertMany(partly) = &*error.kind else { panic!("{error:?}") };
    assert_eq!(partly.inserted_ids.len(), 1, "{error:?}");
    assert_eq!(partly.write_errors.as_ref().unwrap()[0].index, 1);
    let listed: Vec<_> = error.attempts().iter().map(|attempt| attempt.request_id).collect();
    let sent: Vec<_> = observed.started("insert").iter().map(|it| Some(it.request_id)).collect();
    assert_eq!(listed, sent);
    assert_eq!(error.outcome(), Outcome::MaybeApplied);
}

#[tokio::test]
async fn a_truncated_large_batch_is_retried_with_the_same_ids() {
    let deployment = Deployment::primary();
    let observed = ObservedClient::new(&deployment, "").await;
    observed.ping().await;
    deployment.inject(&[Fault::TruncatedRequest]);
    let books = observed.books.clone_with_type::<RawDocumentBuf>();
    let documents: Vec<_> =
        (0..2_000).map(|n| rawdoc! { "n": n, "text": "x".repeat(500) }).collect();
    let result = bounded(books.insert_many(&documents)).await.unwrap();
    assert_eq!((observed.numbers("insert"), deployment.faults_left()), (vec![Some(1); 2], 0));
    let sent = observed.started("insert");
    let came = deployment.requests("insert");
    assert_eq!((sent.len(), came.len()), (2, 1), "the truncated request is not logged");
    let came = came[0].body.get_array("documents").unwrap();
    for sent in &sent {
        assert!(sent.command.get_array("documents").unwrap() == came);
    }
    let ids = came.iter().map(|document| document.as_document().unwrap().get("_id").unwrap());
    assert!(ids.enumerate().all(|(index, id)| result.inserted_ids[&index] == *id));
    assert_eq!(result.inserted_ids.len(), 2_000);
    let applied = deployment.applied();
    assert!(applied.len() == 2_000 && applied.values().all(|&times| times == 1));
}
