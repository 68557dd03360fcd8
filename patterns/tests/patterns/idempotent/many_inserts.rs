//! Many documents are inserted, each once, whatever is lost on the way.

use std::collections::BTreeSet;

use blackpipe::proxy::{Reaction, Rule, WriteConcernError};
use steadfast::{
    IndexModel,
    bson::{Bson, Document, doc},
    error::{Error, ErrorKind, Outcome},
    options::IndexOptions,
};
use steadfast_patterns::idempotent::{self, InsertEvidence, InsertOutcome};

use super::Stage;

fn numbered(numbers: impl IntoIterator<Item = i32>) -> Vec<Document> {
    numbers.into_iter().map(|number| doc! { "_id": number }).collect()
}

async fn ids(stage: &Stage) -> BTreeSet<i32> {
    let found = stage.orders.distinct("_id", doc! {}).await.unwrap();
    found.iter().filter_map(Bson::as_i32).collect()
}

#[tokio::test]
async fn after_a_lost_reply_all_are_known_by_their_keys() {
    for stage in Stage::each().await {
        let items = ["kettle", "pot", "pan"].map(|item| doc! { "item": item });
        stage.lose_sending("insert");
        let done = idempotent::insert_many(&stage.orders, items).await.unwrap();
        assert_eq!(done.outcomes, vec![InsertOutcome::Present(InsertEvidence::DuplicateOfOwn); 3]);
        assert_eq!((done.inserted(), done.duplicates_of_own()), (3, 3));
        assert_eq!(stage.count(doc! { "_id": { "$in": done.ids } }).await, 3);
        assert_eq!(stage.count(doc! {}).await, 3);
    }
}

#[tokio::test]
async fn after_a_lost_request_all_are_inserted_by_the_second() {
    for stage in Stage::each_embedded().await {
        stage.lose_requests("insert", stage.attempts);
        let done = idempotent::insert_many(&stage.orders, numbered(0..3)).await.unwrap();
        assert_eq!(done.outcomes, vec![InsertOutcome::Present(InsertEvidence::Acknowledged); 3]);
        assert_eq!(stage.count(doc! {}).await, 3);
    }
}

#[tokio::test]
async fn only_those_that_were_sent_together_are_in_doubt_together() {
    for stage in Stage::each_embedded().await {
        // The second thousand is lost on the way back.
        stage.proxy.add(Rule::new(Reaction::lose_reply()).command("insert").nth(2));
        let done = idempotent::insert_many(&stage.orders, numbered(0..2500)).await.unwrap();
        assert_eq!(done.inserted(), 2500);
        assert_eq!(done.duplicates_of_own(), 1000);
        let by_key =
            |fate: &InsertOutcome| *fate == InsertOutcome::Present(InsertEvidence::DuplicateOfOwn);
        assert!(done.outcomes[1000..2000].iter().all(by_key));
        assert_eq!(stage.count(doc! {}).await, 2500);
    }
}

#[tokio::test]
async fn a_refused_document_keeps_none_of_the_others() {
    for stage in Stage::each_embedded().await {
        let unique = IndexOptions::builder().unique(true).build();
        let index = IndexModel::builder().keys(doc! { "email": 1 }).options(unique).build();
        stage.orders.create_index(index).await.unwrap();
        stage.orders.insert_one(doc! { "_id": -1, "email": 1005 }).await.unwrap();
        let documents = (0..1010).map(|number| doc! { "_id": number, "email": number });
        let documents: Vec<_> = documents.collect();
        let failure = idempotent::insert_many(&stage.orders, &documents).await.unwrap_err();

        assert!(
            matches!(&failure.documents.outcomes[1005], InsertOutcome::Rejected(error) if error.code == 11000)
        );
        assert_eq!(failure.documents.inserted(), 1009);
        let ErrorKind::InsertMany(error) = &*failure.error.kind else { panic!("{failure}") };
        let refused = error.write_errors.as_ref().unwrap();
        assert_eq!((refused.len(), refused[0].index), (1, 1005), "as the caller counts them");
        assert_eq!(refused[0].key_pattern, Some(doc! { "email": 1 }));
        assert_eq!(error.inserted_ids.len(), 1009);
        assert_eq!(Error::from(failure).code(), Some(11000));
        assert_eq!(stage.count(doc! {}).await, 1010);
    }
}

#[tokio::test]
async fn a_duplicate_at_the_first_sending_is_refused() {
    for stage in Stage::each_embedded().await {
        stage.orders.insert_one(doc! { "_id": 1 }).await.unwrap();
        let failure = idempotent::insert_many(&stage.orders, numbered(0..3)).await.unwrap_err();
        let [zero, one, two] = &failure.documents.outcomes[..] else { panic!() };
        assert_eq!([zero, two], [&InsertOutcome::Present(InsertEvidence::Acknowledged); 2]);
        assert!(matches!(one, InsertOutcome::Rejected(_)));
    }
}

#[tokio::test]
async fn a_second_run_after_a_crash_adds_nothing_twice() {
    for stage in Stage::each_embedded().await {
        idempotent::insert_many(&stage.orders, numbered([0, 2, 3])).await.unwrap();
        stage.lose_sending("insert");
        let again = idempotent::insert_many(&stage.orders, numbered(0..5)).ignore_existing();
        let done = again.await.unwrap();
        // The reply that told the old from the new ones was lost.
        assert_eq!((done.inserted(), done.existing()), (0, 5));
        let third = idempotent::insert_many(&stage.orders, numbered(0..6)).ignore_existing();
        let done = third.await.unwrap();
        assert_eq!((done.inserted(), done.existing()), (1, 5));
        assert_eq!(ids(&stage).await, (0..6).collect());
        assert_eq!(stage.count(doc! {}).await, 6);
    }
}

#[tokio::test]
async fn when_retries_are_used_up_it_says_of_each_document_what_is_known() {
    let stage = Stage::embedded(false).await;
    stage.proxy.add(Rule::new(Reaction::lose_reply()).command("insert").skip(1));
    let failure = idempotent::insert_many(&stage.orders, numbered(0..2500)).await.unwrap_err();
    let outcomes = &failure.documents.outcomes;
    assert!(
        outcomes[..1000]
            .iter()
            .all(|fate| *fate == InsertOutcome::Present(InsertEvidence::Acknowledged))
    );
    assert!(outcomes[1000..2000].iter().all(|fate| *fate == InsertOutcome::InDoubt));
    assert!(outcomes[2000..].iter().all(|fate| *fate == InsertOutcome::NotInserted));
    assert_eq!(failure.error.outcome(), Outcome::MaybeApplied);
    assert!(failure.error.is_network_error());
    assert_eq!(stage.sent("insert"), 3);
}

#[tokio::test]
async fn what_is_there_must_be_as_durable_as_asked() {
    let stage = Stage::embedded(false).await;
    let refuse = |code| {
        let failure = Reaction::WriteConcernError(WriteConcernError::new(code));
        Rule::new(failure).command("insert").times(1)
    };
    stage.proxy.add(refuse(64));
    let failure = idempotent::insert_many(&stage.orders, numbered(0..2)).await.unwrap_err();
    assert_eq!(
        failure.documents.outcomes,
        vec![InsertOutcome::NotDurable(InsertEvidence::Acknowledged); 2]
    );
    assert_eq!(failure.error.outcome(), Outcome::AppliedNotDurable);

    // One that may pass: they are sent again, and what is known of them stays.
    stage.clear().await;
    stage.proxy.add(refuse(91));
    let done = idempotent::insert_many(&stage.orders, numbered(0..2)).await.unwrap();
    assert_eq!(done.outcomes, vec![InsertOutcome::Present(InsertEvidence::Acknowledged); 2]);
    assert_eq!(stage.sent("insert"), 2);
    assert_eq!(stage.count(doc! {}).await, 2);
}

#[tokio::test]
async fn no_documents_are_nothing_to_do() {
    let stage = Stage::embedded(false).await;
    let done = idempotent::insert_many(&stage.orders, Vec::<Document>::new()).await.unwrap();
    assert_eq!((done.ids.len(), stage.sent("insert")), (0, 0));
}

#[tokio::test]
async fn ids_that_are_the_same_to_a_server_are_refused_whatever_their_types() {
    let stage = Stage::embedded(false).await;
    for (one, another) in [
        (Bson::Int32(1), Bson::Int64(1)),
        (Bson::Int32(1), Bson::Double(1.0)),
        (Bson::Double(0.0), Bson::Double(-0.0)),
        (Bson::Decimal128("1.0".parse().unwrap()), Bson::Decimal128("1.00".parse().unwrap())),
        (Bson::String("a".to_owned()), Bson::Symbol("a".to_owned())),
        (doc! { "a": 1 }.into(), doc! { "a": 1_i64 }.into()),
    ] {
        // Otherwise the second would be taken to be there, when only the first is.
        stage.lose_sending("insert");
        let both = [doc! { "_id": &one, "n": 1 }, doc! { "_id": &another, "n": 2 }];
        let failure = idempotent::insert_many(&stage.orders, both).await.unwrap_err();
        assert!(failure.error.is_invalid_argument(), "{one:?}, {another:?}: {failure}");
        stage.clear().await;
    }
    let others = [doc! { "_id": 1 }, doc! { "_id": "1" }, doc! { "_id": 1.5 }, doc! {}, doc! {}];
    assert_eq!(idempotent::insert_many(&stage.orders, others).await.unwrap().inserted(), 5);
}

#[tokio::test]
async fn a_document_that_is_too_large_is_named_as_the_caller_counts() {
    let stage = Stage::embedded(false).await;
    let mut documents = numbered(0..3);
    documents.insert(2, doc! { "_id": "large", "text": "x".repeat(17 << 20) });
    let failure = idempotent::insert_many(&stage.orders, documents).await.unwrap_err();
    assert!(failure.to_string().contains("document 2 is "), "{failure}");
    assert_eq!(failure.documents.inserted(), 2);
    assert_eq!(
        failure.documents.outcomes[2..],
        [InsertOutcome::NotInserted, InsertOutcome::NotInserted]
    );
}
