//! Batches that are rejected in part, in doubt, or written to another datacenter.

use std::collections::BTreeSet;

use steadfast::{IndexModel, error::Outcome, options::IndexOptions};
use steadfast_patterns::local_writes::{LocalWriteError, Receipt};

use super::*;

fn many(ids: std::ops::Range<i64>) -> Vec<Document> {
    ids.map(message).collect()
}

/// Returns the `_id`s of all documents of a collection.
async fn ids_in(collection: &Collection<Document>) -> BTreeSet<ObjectId> {
    let mut cursor = collection.find(doc! {}).await.unwrap();
    let mut ids = BTreeSet::new();
    while cursor.advance().await.unwrap() {
        ids.insert(cursor.deserialize_current().unwrap().get_object_id("_id").unwrap());
    }
    ids
}

fn ids_of(receipts: &[Receipt]) -> BTreeSet<ObjectId> {
    receipts.iter().map(Receipt::id).collect()
}

fn doubtful_in(receipts: &[Receipt], datacenter: &str) -> BTreeSet<ObjectId> {
    let copies = receipts.iter().flat_map(Receipt::may_also_be_in);
    copies.filter(|copy| copy.datacenter == datacenter).map(|copy| copy.id).collect()
}

fn receipts(results: Vec<Result<Receipt, LocalWriteError>>) -> Vec<Receipt> {
    results.into_iter().map(Result::unwrap).collect()
}

async fn make_unique(collection: &Collection<Document>) {
    let unique = IndexOptions::builder().unique(true).build();
    let index = IndexModel::builder().keys(doc! { "message_id": 1 }).options(unique).build();
    collection.create_index(index).await.unwrap();
}

#[tokio::test]
async fn insert_many_writes_to_the_nearest_datacenter_and_keeps_the_order() {
    let (pair, _clock) =
        TwoDatacenters::with(|builder| builder.acknowledged_within(TEST_TIMEOUT)).await;
    let documents = many(0..2500);
    let receipts = receipts(pair.writer.insert_many(&documents).await);
    assert_eq!(receipts.len(), 2500);
    assert_eq!(ids_in(&pair.at_alfa).await, ids_of(&receipts));
    for (id, receipt) in (0..).zip(&receipts).step_by(499) {
        assert_eq!(only_copy(&pair.at_alfa, id).await, written(receipt.id(), id, "alfa"));
    }
    assert_eq!(pair.writer.metrics().datacenter("alfa").unwrap().written, 2500);
    assert_eq!(pair.at_bravo.count_documents(doc! {}).await.unwrap(), 0);
}

#[tokio::test]
async fn insert_many_of_no_documents_writes_nothing() {
    let (pair, _clock) = TwoDatacenters::start().await;
    kill_all(&pair.alfa);
    assert!(pair.writer.insert_many(Vec::<Document>::new()).await.is_empty());
    assert!(pair.writer.insert_many([doc! { "_id": 1 }]).await.remove(0).is_err());
    assert_eq!(up(&pair.writer), [true, true]);
}

#[tokio::test]
async fn rejected_documents_of_a_batch_do_not_affect_the_others() {
    let (pair, _clock) = TwoDatacenters::start().await;
    make_unique(&pair.at_alfa).await;
    pair.writer.insert(&message(3)).await.unwrap();
    let mut documents = many(0..6);
    documents[1].insert("_id", 7);
    let results = pair.writer.insert_many(documents).await;
    assert_eq!(results.len(), 6);
    for (id, result) in (0..).zip(&results) {
        match (id, result) {
            (1, Err(LocalWriteError::Invalid(error))) => assert!(error.is_invalid_argument()),
            (3, Err(LocalWriteError::Rejected { attempts, .. })) => {
                let [rejection] = &attempts[..] else { panic!("{attempts:?}") };
                assert_eq!(rejection.datacenter, "alfa");
                assert!(rejection.error.is_duplicate_key_error(), "{rejection}");
                assert_eq!(rejection.outcome, Outcome::NotApplied);
            }
            (_, Ok(receipt)) => {
                assert_eq!(only_copy(&pair.at_alfa, id).await, written(receipt.id(), id, "alfa"));
                assert!(receipt.failed().is_empty());
            }
            (_, Err(error)) => panic!("{id}: {error}"),
        }
    }
    assert_eq!(up(&pair.writer), [true, true]);
    assert_eq!(pair.writer.metrics().rejected, 1);
    assert_eq!(pair.at_bravo.count_documents(doc! {}).await.unwrap(), 0);
}

#[tokio::test]
async fn batch_for_a_down_datacenter_goes_to_the_next() {
    let (pair, clock) = TwoDatacenters::start().await;
    kill_all(&pair.alfa);
    let results = past_limit(&clock, pair.writer.insert_many(many(0..1500)), async {}).await;
    let results = receipts(results);
    assert!(results.iter().all(|receipt| receipt.datacenter() == "bravo"));
    assert_eq!(ids_in(&pair.at_bravo).await, ids_of(&results));
    // The second batch goes straight to the datacenter that is up.
    assert!(results[..1000].iter().all(|receipt| receipt.failed().len() == 1));
    assert!(results[1000..].iter().all(|receipt| receipt.failed().is_empty()));
    let metrics = pair.writer.metrics();
    assert_eq!((metrics.switched, metrics.datacenter("alfa").unwrap().failed), (1000, 1000));

    restart_all(&pair.alfa);
    until_probed_up(&clock, &pair.writer).await;
    let results = receipts(pair.writer.insert_many(many(2000..2010)).await);
    assert!(results.iter().all(|receipt| receipt.datacenter() == "alfa"));
    // alfa has these documents, and the copies that the receipts list.
    let there = ids_in(&pair.at_alfa).await;
    assert!(ids_of(&results).is_subset(&there));
}

#[tokio::test]
async fn receipts_of_a_batch_list_the_copies_of_a_late_acknowledgement() {
    let (pair, clock) = TwoDatacenters::start().await;
    hold_majority(&pair.alfa);
    let there = until_written(&pair.at_alfa, 50);
    let results = receipts(past_limit(&clock, pair.writer.insert_many(many(0..50)), there).await);
    assert_eq!(ids_in(&pair.at_bravo).await, ids_of(&results));
    assert_eq!(ids_in(&pair.at_alfa).await, doubtful_in(&results, "alfa"));
    assert_eq!(pair.writer.metrics().datacenter("alfa").unwrap().in_doubt, 50);
}

#[tokio::test]
async fn documents_without_write_concern_go_to_the_next_and_rejected_ones_do_not() {
    let (pair, _clock) = TwoDatacenters::start().await;
    make_unique(&pair.at_alfa).await;
    pair.writer.insert(&message(1)).await.unwrap();
    let concern = doc! {
        "failCommands": ["insert"],
        "writeConcernError": { "code": 64, "errmsg": "waiting for replication timed out" },
    };
    fail(&pair.alfa, doc! { "times": 1 }, &concern);
    let results = pair.writer.insert_many(many(0..3)).await;
    for id in [0, 2] {
        let receipt = results[id].as_ref().unwrap();
        let copy = &receipt.failed()[0];
        assert_eq!((receipt.datacenter(), copy.outcome), ("bravo", Outcome::AppliedNotDurable));
        let id = id as i64;
        assert_eq!(only_copy(&pair.at_alfa, id).await, written(copy.id, id, "alfa"));
        assert_eq!(only_copy(&pair.at_bravo, id).await, written(receipt.id(), id, "bravo"));
    }
    assert!(matches!(&results[1], Err(LocalWriteError::Rejected { .. })), "{:?}", results[1]);
    assert!(copies(&pair.at_bravo, 1).await.is_empty());
}

#[tokio::test]
async fn document_rejected_by_the_second_datacenter_may_be_in_the_first() {
    let (pair, clock) = TwoDatacenters::start().await;
    make_unique(&pair.at_bravo).await;
    pair.at_bravo.insert_one(message(1)).await.unwrap();
    hold_majority(&pair.alfa);
    let there = until_written(&pair.at_alfa, 2);
    let results = past_limit(&clock, pair.writer.insert_many(many(0..2)), there).await;
    assert_eq!(results[0].as_ref().unwrap().datacenter(), "bravo");
    let error = results[1].as_ref().unwrap_err();
    let LocalWriteError::Rejected { attempts, .. } = error else { panic!("{error}") };
    let [copy, rejection] = &attempts[..] else { panic!("{attempts:?}") };
    assert_eq!(rejection.datacenter, "bravo");
    assert_eq!(error.may_be_in().map(|it| it.id).collect::<Vec<_>>(), [copy.id]);
    assert_eq!(only_copy(&pair.at_alfa, 1).await, written(copy.id, 1, "alfa"));
    assert_eq!(up(&pair.writer), [false, true]);
}

#[tokio::test]
async fn each_document_has_an_error_if_all_datacenters_are_down() {
    let (pair, clock) = TwoDatacenters::start().await;
    kill_all(&pair.alfa);
    kill_all(&pair.bravo);
    let write = pair.writer.insert_many(many(0..5));
    let results = past_both_limits(&clock, &pair.writer, write, async {}).await;
    assert_eq!(results.len(), 5);
    for result in results {
        let error = result.unwrap_err();
        let LocalWriteError::AllDown { attempts, .. } = &error else { panic!("{error}") };
        let tried: Vec<_> = attempts.iter().map(|attempt| &*attempt.datacenter).collect();
        assert_eq!(tried, ["alfa", "bravo"]);
    }
    assert_eq!(pair.writer.metrics().all_down, 5);
}

#[tokio::test]
async fn large_documents_are_sent_in_small_batches() {
    let (pair, _clock) =
        TwoDatacenters::with(|builder| builder.acknowledged_within(TEST_TIMEOUT)).await;
    let large = |id: i64, bytes: usize| doc! { "message_id": id, "text": "x".repeat(bytes) };
    // The third is rejected, and no other one.
    let documents = [large(0, 3 << 20), large(1, 3 << 20), large(2, 17 << 20), large(3, 10)];
    let results = in_time(pair.writer.insert_many(documents)).await;
    let took: Vec<_> = results.iter().map(Result::is_ok).collect();
    assert_eq!(took, [true, true, false, true]);
    assert!(matches!(&results[2], Err(LocalWriteError::Rejected { .. })), "{:?}", results[2]);
    assert_eq!(up(&pair.writer), [true, true]);
}
