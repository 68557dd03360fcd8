//! Writes of several commands: each has its own number, and what was done before a failure is told.

use std::error::Error as _;

use steadfast::{
    bson::{RawDocumentBuf, rawdoc},
    options::{InsertOneModel, UpdateOneModel, WriteModel},
};

use super::*;

/// A primary that takes two statements at a time.
async fn two_at_a_time(faults: &[Fault]) -> (Deployment, Watched) {
    let deployment = Deployment::primary();
    deployment.say(doc! { "maxWriteBatchSize": 2 });
    deployment.suffer(faults);
    let watched = Watched::new(&deployment, "").await;
    (deployment, watched)
}

fn documents(count: i32) -> Vec<Document> {
    (0..count).map(|n| doc! { "_id": n }).collect()
}

#[tokio::test]
async fn every_batch_has_the_next_number_and_keeps_it_when_it_is_retried() {
    // pitfalls 4 and 6
    let (deployment, watched) =
        two_at_a_time(&[Fault::None, Fault::LostReply, Fault::None, Fault::LostRequest]).await;
    let result = bounded(watched.books.insert_many(documents(6))).await.unwrap();
    assert_eq!(result.inserted_ids.len(), 6);
    assert_eq!(watched.numbers("insert"), [1, 2, 2, 3, 3].map(Some));
    let sessions = watched.sessions("insert");
    assert!(sessions.iter().all(|id| *id == sessions[0]), "{sessions:?}");
    let started = watched.started("insert");
    assert!(started.iter().all(|event| event.operation_id == started[0].operation_id));
    let applied = deployment.applied();
    assert!(applied.len() == 6 && applied.values().all(|&times| times == 1), "{applied:?}");
}

#[tokio::test]
async fn the_documents_inserted_before_the_network_broke_are_told() {
    // pitfall 36
    for ordered in [true, false] {
        let (deployment, watched) =
            two_at_a_time(&[Fault::None, Fault::LostRequest, Fault::LostRequest]).await;
        let insert = watched.books.insert_many(documents(5)).ordered(ordered);
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
        assert_eq!(watched.numbers("insert"), [1, 2, 2].map(Some));
    }
}

#[tokio::test]
async fn what_a_bulk_write_did_before_the_network_broke_is_told() {
    // pitfall 36
    let (deployment, watched) =
        two_at_a_time(&[Fault::None, Fault::LostReply, Fault::LostReply]).await;
    let models: [WriteModel; 4] = [
        InsertOneModel::new(doc! { "_id": 1 }).into(),
        InsertOneModel::new(doc! { "_id": 2 }).into(),
        UpdateOneModel::new(doc! { "_id": 1 }, doc! { "$inc": { "x": 1 } }).into(),
        InsertOneModel::new(doc! { "_id": 3 }).into(),
    ];
    let error = bounded(watched.books.bulk_write(models)).await.unwrap_err();
    let ErrorKind::BulkWrite(partly) = &*error.kind else { panic!("{error:?}") };
    let result = partly.partial_result.as_ref().expect("two were inserted").summary();
    assert_eq!((result.inserted_count, result.modified_count), (2, 0), "{error:?}");
    assert_eq!(error.outcome(), Outcome::MaybeApplied);
    assert_eq!(error.attempts().len(), 2);
    assert_eq!(deployment.applied().len(), 3, "the update too, but of that nobody heard");
}

#[tokio::test]
async fn nothing_is_claimed_if_the_first_batch_was_never_answered() {
    // pitfall 36
    for faults in [[Fault::LostReply; 2], [Fault::LostRequest; 2]] {
        let (_deployment, watched) = two_at_a_time(&faults).await;
        let error = bounded(watched.books.insert_many(documents(5))).await.unwrap_err();
        assert!(matches!(&*error.kind, ErrorKind::Io(_)), "{error:?}");
        assert_eq!((error.outcome(), error.attempts().len()), (Outcome::MaybeApplied, 2));
    }
}

#[tokio::test]
async fn a_batch_that_was_never_sent_leaves_what_was_done_before() {
    let deployment = Deployment::primary();
    deployment.say(doc! { "maxWriteBatchSize": 2 });
    let watched = Watched::new(&deployment, "").await;
    watched.ping().await;
    deployment.suffer(&[Fault::None, Fault::LostRequest]);
    deployment.cut_handshakes_after_network_error();
    let error = bounded(watched.books.insert_many(documents(3))).await.unwrap_err();
    let ErrorKind::InsertMany(partly) = &*error.kind else { panic!("{error:?}") };
    assert_eq!(partly.inserted_ids.len(), 2);
    let sent = error.attempts().iter().filter(|it| it.request_id.is_some());
    assert_eq!((sent.count(), error.attempts().len()), (1, 6));
}

#[tokio::test]
async fn a_write_concern_error_of_an_earlier_batch_is_not_forgotten() {
    // pitfall 3
    let not_durable = Fault::NotDurable(64, UNLABELLED);
    let (deployment, watched) = two_at_a_time(&[not_durable]).await;
    let error = bounded(watched.books.insert_many(documents(4))).await.unwrap_err();
    let ErrorKind::InsertMany(partly) = &*error.kind else { panic!("{error:?}") };
    assert_eq!(partly.inserted_ids.len(), 4);
    assert_eq!(partly.write_concern_error.as_ref().unwrap().code, 64);
    assert_eq!(error.outcome(), Outcome::AppliedNotDurable);
    assert_eq!(deployment.applied().len(), 4);
}

#[tokio::test]
async fn a_retried_batch_that_is_refused_by_statement_says_what_the_attempts_tell_together() {
    // The refusal says nothing of the attempt whose reply was lost.
    let (_deployment, watched) =
        two_at_a_time(&[Fault::LostRequest, Fault::Failed(0, 13, UNLABELLED)]).await;
    let error = bounded(watched.books.insert_many(documents(2))).await.unwrap_err();
    assert!(matches!(&*error.kind, ErrorKind::InsertMany(_)), "{error:?}");
    assert_eq!(error.outcome(), Outcome::MaybeApplied, "{error:?}");
    assert_eq!(error.attempts().len(), 2, "{error:?}");
}

#[tokio::test]
async fn the_attempts_at_all_batches_that_failed_are_told() {
    let duplicate = Fault::Failed(1, 11000, UNLABELLED);
    let (_deployment, watched) =
        two_at_a_time(&[duplicate, Fault::LostRequest, Fault::LostRequest]).await;
    let insert = watched.books.insert_many(documents(4)).ordered(false);
    let error = bounded(insert).await.unwrap_err();
    let ErrorKind::InsertMany(partly) = &*error.kind else { panic!("{error:?}") };
    assert_eq!(partly.inserted_ids.len(), 1, "{error:?}");
    assert_eq!(partly.write_errors.as_ref().unwrap()[0].index, 1);
    let told: Vec<_> = error.attempts().iter().map(|attempt| attempt.request_id).collect();
    let sent: Vec<_> = watched.started("insert").iter().map(|it| Some(it.request_id)).collect();
    assert_eq!(told, sent);
    assert_eq!(error.outcome(), Outcome::MaybeApplied);
}

#[tokio::test]
async fn a_large_batch_that_was_cut_is_sent_again_with_the_same_ids() {
    let deployment = Deployment::primary();
    let watched = Watched::new(&deployment, "").await;
    watched.ping().await;
    deployment.suffer(&[Fault::PartOfRequest]);
    let books = watched.books.clone_with_type::<RawDocumentBuf>();
    let documents: Vec<_> =
        (0..2_000).map(|n| rawdoc! { "n": n, "text": "x".repeat(500) }).collect();
    let result = bounded(books.insert_many(&documents)).await.unwrap();
    assert_eq!((watched.numbers("insert"), deployment.faults_left()), (vec![Some(1); 2], 0));
    let sent = watched.started("insert");
    let came = deployment.requests("insert");
    assert_eq!((sent.len(), came.len()), (2, 1), "what was cut never came in whole");
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
