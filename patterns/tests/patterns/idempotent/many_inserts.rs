//! Inserts of many documents with lost messages.

use std::collections::BTreeSet;

use blackpipe::proxy::{Reaction, Rule, WriteConcernError};
use steadfast::{
    IndexModel,
    bson::{Bson, Document, doc},
    error::{Error, ErrorKind, Outcome},
    options::IndexOptions,
};
use steadfast_patterns::idempotent::{self, InsertEvidence, InsertOutcome};

use super::ProxiedCollection;

fn numbered(numbers: impl IntoIterator<Item = i32>) -> Vec<Document> {
    numbers.into_iter().map(|number| doc! { "_id": number }).collect()
}

async fn ids(fixture: &ProxiedCollection) -> BTreeSet<i32> {
    let found = fixture.orders.distinct("_id", doc! {}).await.unwrap();
    found.iter().filter_map(Bson::as_i32).collect()
}

#[tokio::test]
async fn insert_many_after_a_lost_reply_is_confirmed_by_duplicates_of_its_ids() {
    for fixture in ProxiedCollection::each().await {
        let items = ["kettle", "pot", "pan"].map(|item| doc! { "item": item });
        fixture.lose_attempt("insert");
        let done = idempotent::insert_many(&fixture.orders, items).await.unwrap();
        assert_eq!(done.outcomes, vec![InsertOutcome::Present(InsertEvidence::DuplicateOfOwn); 3]);
        assert_eq!((done.inserted(), done.duplicates_of_own()), (3, 3));
        assert_eq!(fixture.count(doc! { "_id": { "$in": done.ids } }).await, 3);
        assert_eq!(fixture.count(doc! {}).await, 3);
    }
}

#[tokio::test]
async fn insert_many_after_a_lost_request_is_applied_by_the_retry() {
    for fixture in ProxiedCollection::each_embedded().await {
        fixture.lose_requests("insert", fixture.attempts);
        let done = idempotent::insert_many(&fixture.orders, numbered(0..3)).await.unwrap();
        assert_eq!(done.outcomes, vec![InsertOutcome::Present(InsertEvidence::Acknowledged); 3]);
        assert_eq!(fixture.count(doc! {}).await, 3);
    }
}

#[tokio::test]
async fn lost_reply_puts_only_its_own_batch_in_doubt() {
    for fixture in ProxiedCollection::each_embedded().await {
        // The reply to the second batch is lost.
        fixture.proxy.add(Rule::new(Reaction::lose_reply()).command("insert").nth(2));
        let done = idempotent::insert_many(&fixture.orders, numbered(0..2500)).await.unwrap();
        assert_eq!(done.inserted(), 2500);
        assert_eq!(done.duplicates_of_own(), 1000);
        let by_key =
            |fate: &InsertOutcome| *fate == InsertOutcome::Present(InsertEvidence::DuplicateOfOwn);
        assert!(done.outcomes[1000..2000].iter().all(by_key));
        assert_eq!(fixture.count(doc! {}).await, 2500);
    }
}

#[tokio::test]
async fn rejected_document_does_not_prevent_the_others() {
    for fixture in ProxiedCollection::each_embedded().await {
        let unique = IndexOptions::builder().unique(true).build();
        let index = IndexModel::builder().keys(doc! { "email": 1 }).options(unique).build();
        fixture.orders.create_index(index).await.unwrap();
        fixture.orders.insert_one(doc! { "_id": -1, "email": 1005 }).await.unwrap();
        let documents = (0..1010).map(|number| doc! { "_id": number, "email": number });
        let documents: Vec<_> = documents.collect();
        let failure = idempotent::insert_many(&fixture.orders, &documents).await.unwrap_err();

        assert!(
            matches!(&failure.documents.outcomes[1005], InsertOutcome::Rejected(error) if error.code == 11000)
        );
        assert_eq!(failure.documents.inserted(), 1009);
        let ErrorKind::InsertMany(error) = &*failure.error.kind else { panic!("{failure}") };
        let rejected = error.write_errors.as_ref().unwrap();
        assert_eq!((rejected.len(), rejected[0].index), (1, 1005), "as the caller counts them");
        assert_eq!(rejected[0].key_pattern, Some(doc! { "email": 1 }));
        assert_eq!(error.inserted_ids.len(), 1009);
        assert_eq!(Error::from(failure).code(), Some(11000));
        assert_eq!(fixture.count(doc! {}).await, 1010);
    }
}

#[tokio::test]
async fn insert_many_duplicate_key_at_the_first_attempt_is_an_error() {
    for fixture in ProxiedCollection::each_embedded().await {
        fixture.orders.insert_one(doc! { "_id": 1 }).await.unwrap();
        let failure = idempotent::insert_many(&fixture.orders, numbered(0..3)).await.unwrap_err();
        let [zero, one, two] = &failure.documents.outcomes[..] else { panic!() };
        assert_eq!([zero, two], [&InsertOutcome::Present(InsertEvidence::Acknowledged); 2]);
        assert!(matches!(one, InsertOutcome::Rejected(_)));
    }
}

#[tokio::test]
async fn second_run_after_a_crash_inserts_nothing_twice() {
    for fixture in ProxiedCollection::each_embedded().await {
        idempotent::insert_many(&fixture.orders, numbered([0, 2, 3])).await.unwrap();
        fixture.lose_attempt("insert");
        let again = idempotent::insert_many(&fixture.orders, numbered(0..5)).ignore_existing();
        let done = again.await.unwrap();
        // The lost reply distinguished new documents from existing ones.
        assert_eq!((done.inserted(), done.existing()), (0, 5));
        let third = idempotent::insert_many(&fixture.orders, numbered(0..6)).ignore_existing();
        let done = third.await.unwrap();
        assert_eq!((done.inserted(), done.existing()), (1, 5));
        assert_eq!(ids(&fixture).await, (0..6).collect());
        assert_eq!(fixture.count(doc! {}).await, 6);
    }
}

#[tokio::test]
async fn insert_many_without_remaining_retries_reports_each_document() {
    let fixture = ProxiedCollection::embedded(false).await;
    fixture.proxy.add(Rule::new(Reaction::lose_reply()).command("insert").skip(1));
    let failure = idempotent::insert_many(&fixture.orders, numbered(0..2500)).await.unwrap_err();
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
    assert_eq!(fixture.sent("insert"), 3);
}

#[tokio::test]
async fn existing_documents_must_satisfy_the_write_concern() {
    let fixture = ProxiedCollection::embedded(false).await;
    let refuse = |code| {
        let failure = Reaction::WriteConcernError(WriteConcernError::new(code));
        Rule::new(failure).command("insert").times(1)
    };
    fixture.proxy.add(refuse(64));
    let failure = idempotent::insert_many(&fixture.orders, numbered(0..2)).await.unwrap_err();
    assert_eq!(
        failure.documents.outcomes,
        vec![InsertOutcome::NotDurable(InsertEvidence::Acknowledged); 2]
    );
    assert_eq!(failure.error.outcome(), Outcome::AppliedNotDurable);

    // A retryable write concern error: the documents are sent again, and their evidence is kept.
    fixture.clear().await;
    fixture.proxy.add(refuse(91));
    let done = idempotent::insert_many(&fixture.orders, numbered(0..2)).await.unwrap();
    assert_eq!(done.outcomes, vec![InsertOutcome::Present(InsertEvidence::Acknowledged); 2]);
    assert_eq!(fixture.sent("insert"), 2);
    assert_eq!(fixture.count(doc! {}).await, 2);
}

#[tokio::test]
async fn insert_many_of_no_documents_sends_nothing() {
    let fixture = ProxiedCollection::embedded(false).await;
    let done = idempotent::insert_many(&fixture.orders, Vec::<Document>::new()).await.unwrap();
    assert_eq!((done.ids.len(), fixture.sent("insert")), (0, 0));
}

#[tokio::test]
async fn equal_ids_of_different_types_are_rejected() {
    let fixture = ProxiedCollection::embedded(false).await;
    for (one, another) in [
        (Bson::Int32(1), Bson::Int64(1)),
        (Bson::Int32(1), Bson::Double(1.0)),
        (Bson::Double(0.0), Bson::Double(-0.0)),
        (Bson::Decimal128("1.0".parse().unwrap()), Bson::Decimal128("1.00".parse().unwrap())),
        (Bson::String("a".to_owned()), Bson::Symbol("a".to_owned())),
        (doc! { "a": 1 }.into(), doc! { "a": 1_i64 }.into()),
    ] {
        // Otherwise the second document would be reported as existing when only the first one does.
        fixture.lose_attempt("insert");
        let both = [doc! { "_id": &one, "n": 1 }, doc! { "_id": &another, "n": 2 }];
        let failure = idempotent::insert_many(&fixture.orders, both).await.unwrap_err();
        assert!(failure.error.is_invalid_argument(), "{one:?}, {another:?}: {failure}");
        fixture.clear().await;
    }
    let others = [doc! { "_id": 1 }, doc! { "_id": "1" }, doc! { "_id": 1.5 }, doc! {}, doc! {}];
    assert_eq!(idempotent::insert_many(&fixture.orders, others).await.unwrap().inserted(), 5);
}

#[tokio::test]
async fn too_large_document_is_reported_with_the_callers_index() {
    let fixture = ProxiedCollection::embedded(false).await;
    let mut documents = numbered(0..3);
    documents.insert(2, doc! { "_id": "large", "text": "x".repeat(17 << 20) });
    let failure = idempotent::insert_many(&fixture.orders, documents).await.unwrap_err();
    assert!(failure.to_string().contains("document 2 is "), "{failure}");
    assert_eq!(failure.documents.inserted(), 2);
    assert_eq!(
        failure.documents.outcomes[2..],
        [InsertOutcome::NotInserted, InsertOutcome::NotInserted]
    );
}
