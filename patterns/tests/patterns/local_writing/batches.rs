//! Many documents at once: in part refused, in doubt, or all of them elsewhere.

use std::collections::BTreeSet;

use steadfast::{IndexModel, error::Outcome, options::IndexOptions};
use steadfast_patterns::local_writes::{LocalWriteError, Receipt};

use super::*;

fn many(ids: std::ops::Range<i64>) -> Vec<Document> {
    ids.map(message).collect()
}

/// The `_id`s of all documents of a collection.
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

fn receipts(answers: Vec<Result<Receipt, LocalWriteError>>) -> Vec<Receipt> {
    answers.into_iter().map(Result::unwrap).collect()
}

async fn make_unique(collection: &Collection<Document>) {
    let unique = IndexOptions::builder().unique(true).build();
    let index = IndexModel::builder().keys(doc! { "message_id": 1 }).options(unique).build();
    collection.create_index(index).await.unwrap();
}

#[tokio::test]
async fn many_documents_go_to_the_nearest_datacenter_and_are_answered_in_order() {
    let (pair, _clock) = Pair::with(|builder| builder.acknowledged_within(BOUND)).await;
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
async fn no_documents_are_no_work() {
    let (pair, _clock) = Pair::start().await;
    kill_all(&pair.alfa);
    assert!(pair.writer.insert_many(Vec::<Document>::new()).await.is_empty());
    assert!(pair.writer.insert_many([doc! { "_id": 1 }]).await.remove(0).is_err());
    assert_eq!(up(&pair.writer), [true, true]);
}

#[tokio::test]
async fn what_is_refused_keeps_nothing_else_back_and_marks_nothing_down() {
    let (pair, _clock) = Pair::start().await;
    make_unique(&pair.at_alfa).await;
    pair.writer.insert(&message(3)).await.unwrap();
    let mut documents = many(0..6);
    documents[1].insert("_id", 7);
    let answers = pair.writer.insert_many(documents).await;
    assert_eq!(answers.len(), 6);
    for (id, answer) in (0..).zip(&answers) {
        match (id, answer) {
            (1, Err(LocalWriteError::Invalid(error))) => assert!(error.is_invalid_argument()),
            (3, Err(LocalWriteError::Rejected { attempts, .. })) => {
                let [refusal] = &attempts[..] else { panic!("{attempts:?}") };
                assert_eq!(refusal.datacenter, "alfa");
                assert!(refusal.error.is_duplicate_key_error(), "{refusal}");
                assert_eq!(refusal.outcome, Outcome::NotApplied);
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
async fn a_dead_datacenters_documents_go_to_the_next() {
    let (pair, clock) = Pair::start().await;
    kill_all(&pair.alfa);
    let answers = late(&clock, pair.writer.insert_many(many(0..1500)), async {}).await;
    let answers = receipts(answers);
    assert!(answers.iter().all(|receipt| receipt.datacenter() == "bravo"));
    assert_eq!(ids_in(&pair.at_bravo).await, ids_of(&answers));
    // The second batch knows what the first has learned.
    assert!(answers[..1000].iter().all(|receipt| receipt.failed().len() == 1));
    assert!(answers[1000..].iter().all(|receipt| receipt.failed().is_empty()));
    let metrics = pair.writer.metrics();
    assert_eq!((metrics.switched, metrics.datacenter("alfa").unwrap().failed), (1000, 1000));

    restart_all(&pair.alfa);
    home(&clock, &pair.writer).await;
    let answers = receipts(pair.writer.insert_many(many(2000..2010)).await);
    assert!(answers.iter().all(|receipt| receipt.datacenter() == "alfa"));
    // What is in alfa now are these, and what receipts told of.
    let there = ids_in(&pair.at_alfa).await;
    assert!(ids_of(&answers).is_subset(&there));
}

#[tokio::test]
async fn each_receipt_tells_of_the_copy_that_a_late_acknowledgement_left() {
    let (pair, clock) = Pair::start().await;
    hold_majority(&pair.alfa);
    let there = until_written(&pair.at_alfa, 50);
    let answers = receipts(late(&clock, pair.writer.insert_many(many(0..50)), there).await);
    assert_eq!(ids_in(&pair.at_bravo).await, ids_of(&answers));
    assert_eq!(ids_in(&pair.at_alfa).await, doubtful_in(&answers, "alfa"));
    assert_eq!(pair.writer.metrics().datacenter("alfa").unwrap().in_doubt, 50);
}

#[tokio::test]
async fn what_is_not_durable_goes_on_and_what_was_refused_does_not() {
    let (pair, _clock) = Pair::start().await;
    make_unique(&pair.at_alfa).await;
    pair.writer.insert(&message(1)).await.unwrap();
    let concern = doc! {
        "failCommands": ["insert"],
        "writeConcernError": { "code": 64, "errmsg": "waiting for replication timed out" },
    };
    fail(&pair.alfa, doc! { "times": 1 }, &concern);
    let answers = pair.writer.insert_many(many(0..3)).await;
    for id in [0, 2] {
        let receipt = answers[id].as_ref().unwrap();
        let copy = &receipt.failed()[0];
        assert_eq!((receipt.datacenter(), copy.outcome), ("bravo", Outcome::AppliedNotDurable));
        let id = id as i64;
        assert_eq!(only_copy(&pair.at_alfa, id).await, written(copy.id, id, "alfa"));
        assert_eq!(only_copy(&pair.at_bravo, id).await, written(receipt.id(), id, "bravo"));
    }
    assert!(matches!(&answers[1], Err(LocalWriteError::Rejected { .. })), "{:?}", answers[1]);
    assert!(copies(&pair.at_bravo, 1).await.is_empty());
}

#[tokio::test]
async fn a_document_that_the_second_datacenter_refuses_may_be_in_the_first() {
    let (pair, clock) = Pair::start().await;
    make_unique(&pair.at_bravo).await;
    pair.at_bravo.insert_one(message(1)).await.unwrap();
    hold_majority(&pair.alfa);
    let there = until_written(&pair.at_alfa, 2);
    let answers = late(&clock, pair.writer.insert_many(many(0..2)), there).await;
    assert_eq!(answers[0].as_ref().unwrap().datacenter(), "bravo");
    let error = answers[1].as_ref().unwrap_err();
    let LocalWriteError::Rejected { attempts, .. } = error else { panic!("{error}") };
    let [copy, refusal] = &attempts[..] else { panic!("{attempts:?}") };
    assert_eq!(refusal.datacenter, "bravo");
    assert_eq!(error.may_be_in().map(|it| it.id).collect::<Vec<_>>(), [copy.id]);
    assert_eq!(only_copy(&pair.at_alfa, 1).await, written(copy.id, 1, "alfa"));
    assert_eq!(up(&pair.writer), [false, true]);
}

#[tokio::test]
async fn each_document_has_an_error_when_all_are_down() {
    let (pair, clock) = Pair::start().await;
    kill_all(&pair.alfa);
    kill_all(&pair.bravo);
    let write = pair.writer.insert_many(many(0..5));
    let answers = twice_late(&clock, &pair.writer, write, async {}).await;
    assert_eq!(answers.len(), 5);
    for answer in answers {
        let error = answer.unwrap_err();
        let LocalWriteError::AllDown { attempts, .. } = &error else { panic!("{error}") };
        let tried: Vec<_> = attempts.iter().map(|attempt| &*attempt.datacenter).collect();
        assert_eq!(tried, ["alfa", "bravo"]);
    }
    assert_eq!(pair.writer.metrics().all_down, 5);
}

#[tokio::test]
async fn large_documents_travel_a_few_at_a_time() {
    let (pair, _clock) = Pair::with(|builder| builder.acknowledged_within(BOUND)).await;
    let large = |id: i64, bytes: usize| doc! { "message_id": id, "text": "x".repeat(bytes) };
    // The third is refused, and by itself.
    let documents = [large(0, 3 << 20), large(1, 3 << 20), large(2, 17 << 20), large(3, 10)];
    let answers = within(pair.writer.insert_many(documents)).await;
    let took: Vec<_> = answers.iter().map(Result::is_ok).collect();
    assert_eq!(took, [true, true, false, true]);
    assert!(matches!(&answers[2], Err(LocalWriteError::Rejected { .. })), "{:?}", answers[2]);
    assert_eq!(up(&pair.writer), [true, true]);
}
