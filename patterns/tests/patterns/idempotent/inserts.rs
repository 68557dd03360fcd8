//! Inserts of one document with lost messages.

use std::time::Duration;

use blackpipe::proxy::{Direction, Reaction, Rule, WriteConcernError};
use serde::{Deserialize, Serialize};
use steadfast::{
    IndexModel,
    bson::{Bson, Document, doc, oid::ObjectId},
    error::{Error, Outcome},
    options::{Collation, IndexOptions},
};
use steadfast_patterns::idempotent::{self, InsertEvidence};

use super::ProxiedCollection;
use crate::clock::Clock;

fn kettle() -> Document {
    doc! { "item": "kettle" }
}

async fn make_unique(fixture: &ProxiedCollection, field: &str) {
    let unique = IndexOptions::builder().unique(true).build();
    let index = IndexModel::builder().keys(doc! { field: 1 }).options(unique).build();
    fixture.orders.create_index(index).await.unwrap();
}

#[tokio::test]
async fn insert_after_a_lost_reply_is_confirmed_by_a_duplicate_of_its_id() {
    for fixture in ProxiedCollection::each().await {
        fixture.lose_replies("insert", 1);
        let inserted = idempotent::insert_one(&fixture.orders, kettle()).await.unwrap();
        assert_eq!(inserted.evidence, InsertEvidence::DuplicateOfOwn);
        assert_eq!(fixture.sent("insert"), 2);
        assert_eq!(fixture.count(doc! {}).await, 1);
        assert_eq!(fixture.count(doc! { "_id": inserted.id }).await, 1);

        fixture.clear().await;
        let cut = Rule::new(Reaction::cut_reply_after(20)).command("insert").times(1);
        fixture.proxy.add(cut);
        let inserted =
            idempotent::insert_one(&fixture.orders, doc! { "_id": "mine" }).await.unwrap();
        assert_eq!(
            (inserted.id, inserted.evidence),
            (Bson::from("mine"), InsertEvidence::DuplicateOfOwn)
        );
        assert_eq!(fixture.count(doc! {}).await, 1);
    }
}

#[tokio::test]
async fn insert_after_a_lost_request_is_applied_by_the_retry() {
    for fixture in ProxiedCollection::each_embedded().await {
        fixture.lose_requests("insert", 1);
        let inserted = idempotent::insert_one(&fixture.orders, kettle()).await.unwrap();
        assert_eq!(inserted.evidence, InsertEvidence::Acknowledged);
        assert_eq!(fixture.sent("insert"), 2);
        assert_eq!(fixture.count(doc! { "_id": inserted.id }).await, 1);
    }
}

#[tokio::test]
async fn insert_without_a_fault_is_sent_once() {
    let fixture = ProxiedCollection::embedded(true).await;
    let inserted = idempotent::insert_one(&fixture.orders, kettle()).await.unwrap();
    assert_eq!(inserted.evidence, InsertEvidence::Acknowledged);
    assert!(matches!(inserted.id, Bson::ObjectId(_)));
    assert_eq!(fixture.sent("insert"), 1);
}

#[tokio::test]
async fn insert_after_a_lost_driver_retry_is_confirmed_by_the_next_attempt() {
    for fixture in [Some(ProxiedCollection::embedded(true).await), ProxiedCollection::real().await]
        .into_iter()
        .flatten()
    {
        // The retryable write of the driver resolves the first loss.
        fixture.lose_replies("insert", 1);
        let inserted = idempotent::insert_one(&fixture.orders, kettle()).await.unwrap();
        assert_eq!((inserted.evidence, fixture.sent("insert")), (InsertEvidence::Acknowledged, 2));

        fixture.clear().await;
        fixture.lose_replies("insert", 2);
        let inserted = idempotent::insert_one(&fixture.orders, kettle()).await.unwrap();
        assert_eq!(
            (inserted.evidence, fixture.sent("insert")),
            (InsertEvidence::DuplicateOfOwn, 3)
        );
        assert_eq!(fixture.count(doc! {}).await, 1);
    }
}

#[tokio::test]
async fn insert_through_mongos_is_confirmed_by_a_duplicate_of_its_id() {
    for (fixture, lost) in
        [(ProxiedCollection::sharded(false).await, 1), (ProxiedCollection::sharded(true).await, 2)]
    {
        fixture.lose_replies("insert", lost);
        let inserted = idempotent::insert_one(&fixture.orders, kettle()).await.unwrap();
        assert_eq!(inserted.evidence, InsertEvidence::DuplicateOfOwn);
        assert_eq!(fixture.count(doc! {}).await, 1);

        fixture.proxy.clear_rules();
        let again = doc! { "_id": inserted.id };
        let error = idempotent::insert_one(&fixture.orders, again).await.unwrap_err();
        assert!(error.is_duplicate_key_error(), "at the first attempt it is an error: {error}");
    }
}

#[tokio::test]
async fn insert_is_not_retried_after_its_deadline() {
    let fixture = ProxiedCollection::embedded(false).await;
    fixture.count(doc! {}).await;
    fixture.proxy.add(Rule::new(Reaction::stall(Direction::Reply)).command("insert"));
    let (clock, limit) = (Clock::stopped(), Duration::from_millis(200));
    let inserting = idempotent::insert_one(&fixture.orders, kettle()).retries(50);
    let (inserted, ()) = tokio::join!(inserting.timeout(limit).into_future(), async {
        while fixture.sent("insert") == 0 {
            tokio::task::yield_now().await;
        }
        clock.pass(limit).await;
    });
    let error = inserted.unwrap_err();
    assert!(error.is_timeout(), "{error}");
    assert_eq!(error.outcome(), Outcome::MaybeApplied);
    assert_eq!(fixture.sent("insert"), 1);
}

#[tokio::test]
async fn duplicate_key_at_the_first_attempt_is_an_error() {
    for fixture in ProxiedCollection::each_embedded().await {
        fixture.orders.insert_one(doc! { "_id": 1 }).await.unwrap();
        fixture.proxy.clear_ledger();
        let error = idempotent::insert_one(&fixture.orders, doc! { "_id": 1 }).await.unwrap_err();
        assert!(error.is_duplicate_key_error(), "{error}");
        assert_eq!(error.outcome(), Outcome::NotApplied);
        assert_eq!(fixture.sent("insert"), 1);
    }
}

#[tokio::test]
async fn duplicate_key_after_an_attempt_that_wrote_nothing_is_an_error() {
    let fixture = ProxiedCollection::embedded(false).await;
    fixture.orders.insert_one(doc! { "_id": 1 }).await.unwrap();
    fixture.proxy.add(Rule::new(Reaction::error(10107)).command("insert").times(1));
    let error = idempotent::insert_one(&fixture.orders, doc! { "_id": 1 }).await.unwrap_err();
    assert!(error.is_duplicate_key_error(), "{error}");
    assert_eq!(error.outcome(), Outcome::NotApplied);
}

#[tokio::test]
async fn duplicate_in_another_index_after_an_attempt_in_doubt_is_an_error() {
    for fixture in ProxiedCollection::each().await {
        make_unique(&fixture, "email").await;
        fixture.orders.insert_one(doc! { "email": "ian@example.com" }).await.unwrap();
        let again = doc! { "email": "ian@example.com" };
        for lose in [ProxiedCollection::lose_replies, ProxiedCollection::lose_requests] {
            lose(&fixture, "insert", 1);
            let error = idempotent::insert_one(&fixture.orders, &again).await.unwrap_err();
            assert!(error.is_duplicate_key_error(), "{error}");
            assert!(!error.outcome().is_certainly_not_applied(), "an attempt was in doubt");
        }
        assert_eq!(fixture.count(doc! {}).await, 1);
    }
}

#[tokio::test]
async fn duplicate_string_id_with_a_collation_is_an_error() {
    let Some(fixture) = ProxiedCollection::real().await else { return };
    let database = fixture.client.database("shop");
    let collation = Collation::builder().locale("en").build();
    database.create_collection("names").collation(collation).await.unwrap();
    let names = database.collection::<Document>("names");
    fixture.lose_replies("insert", 2);
    let error = idempotent::insert_one(&names, doc! { "_id": "abc" }).await.unwrap_err();
    assert!(error.is_duplicate_key_error(), "{error}");
    assert_eq!(error.outcome(), Outcome::MaybeApplied);

    // A collation does not apply to an ObjectId.
    fixture.proxy.clear_rules();
    fixture.lose_replies("insert", 2);
    let id = ObjectId::new();
    let inserted = idempotent::insert_one(&names, doc! { "_id": id }).await.unwrap();
    assert_eq!(inserted.evidence, InsertEvidence::DuplicateOfOwn);
}

#[tokio::test]
async fn insert_without_remaining_retries_is_maybe_applied() {
    let fixture = ProxiedCollection::embedded(false).await;
    fixture.lose_replies("insert", 2);
    let error = idempotent::insert_one(&fixture.orders, kettle()).await.unwrap_err();
    assert!(error.is_network_error());
    assert_eq!(error.outcome(), Outcome::MaybeApplied);
    assert_eq!(error.attempts().len(), 2, "the error has both attempts");
    assert_eq!(fixture.count(doc! {}).await, 1);

    fixture.clear().await;
    fixture.lose_replies("insert", 3);
    let inserting = idempotent::insert_one(&fixture.orders, kettle()).retries(3);
    assert_eq!(inserting.await.unwrap().evidence, InsertEvidence::DuplicateOfOwn);

    fixture.clear().await;
    fixture.lose_replies("insert", 1);
    let error = idempotent::insert_one(&fixture.orders, kettle()).retries(0).await.unwrap_err();
    assert_eq!((error.outcome(), fixture.sent("insert")), (Outcome::MaybeApplied, 1));
}

#[tokio::test]
async fn insert_confirmed_by_its_id_must_satisfy_the_write_concern() {
    for fixture in [Some(ProxiedCollection::embedded(false).await), ProxiedCollection::real().await]
        .into_iter()
        .flatten()
    {
        let write_concern_error = |code| {
            let failure = Reaction::WriteConcernError(WriteConcernError::new(code));
            Rule::new(failure).command("insert").times(1)
        };
        // All attempts of the driver lose their reply. The document exists, but not with the write concern.
        fixture.lose_attempt("insert");
        fixture.proxy.add(write_concern_error(64));
        let error = idempotent::insert_one(&fixture.orders, kettle()).await.unwrap_err();
        assert_eq!(error.outcome(), Outcome::AppliedNotDurable, "{error}");
        assert_eq!(error.code(), Some(64));

        // A retryable write concern error: the next attempt satisfies it.
        fixture.clear().await;
        fixture.lose_attempt("insert");
        fixture.proxy.add(write_concern_error(91));
        let inserted = idempotent::insert_one(&fixture.orders, kettle()).retries(2).await.unwrap();
        assert_eq!(inserted.evidence, InsertEvidence::DuplicateOfOwn);
        assert_eq!(fixture.count(doc! {}).await, 1);
    }
}

#[tokio::test]
async fn insert_is_retried_after_retryable_errors_only() {
    let fixture = ProxiedCollection::embedded(false).await;
    fixture.proxy.add(Rule::new(Reaction::error(10107)).command("insert").times(1));
    let inserted = idempotent::insert_one(&fixture.orders, kettle()).await.unwrap();
    assert_eq!((inserted.evidence, fixture.sent("insert")), (InsertEvidence::Acknowledged, 2));

    fixture.clear().await;
    fixture.proxy.add(Rule::new(Reaction::error(13)).command("insert").times(1));
    let error = idempotent::insert_one(&fixture.orders, kettle()).await.unwrap_err();
    assert_eq!((error.code(), fixture.sent("insert")), (Some(13), 1));
}

#[tokio::test]
async fn second_run_with_ignore_existing_inserts_nothing() {
    for fixture in ProxiedCollection::each_embedded().await {
        let line = doc! { "_id": "app.log:17", "text": "ready" };
        let insert = || idempotent::insert_one(&fixture.orders, &line).ignore_existing();
        assert_eq!(insert().await.unwrap().evidence, InsertEvidence::Acknowledged);
        assert_eq!(insert().await.unwrap().evidence, InsertEvidence::PreExisting);
        assert_eq!(fixture.count(doc! {}).await, 1);

        make_unique(&fixture, "text").await;
        let other = doc! { "_id": "app.log:18", "text": "ready" };
        let inserting = idempotent::insert_one(&fixture.orders, other).ignore_existing();
        assert!(inserting.await.unwrap_err().is_duplicate_key_error(), "of another index");
    }
}

#[tokio::test]
async fn id_of_a_serialized_struct_is_generated_once() {
    #[derive(Serialize, Deserialize)]
    struct Order {
        item: String,
    }

    let fixture = ProxiedCollection::embedded(false).await;
    let orders = fixture.orders.clone_with_type::<Order>();
    fixture.lose_replies("insert", 1);
    let order = Order { item: "kettle".to_owned() };
    let inserted = idempotent::insert_one(&orders, &order).await.unwrap();
    let found = idempotent::find_one(&orders, doc! { "_id": inserted.id }).await.unwrap();
    assert_eq!(found.unwrap().item, "kettle");
    assert_eq!(fixture.count(doc! {}).await, 1);
}

#[tokio::test]
async fn insert_future_can_be_spawned() {
    let fixture = ProxiedCollection::embedded(false).await;
    let inserting = idempotent::insert_one(&fixture.orders, kettle()).into_future();
    let inserted: Result<_, Error> = tokio::spawn(inserting).await.unwrap();
    assert_eq!(inserted.unwrap().evidence, InsertEvidence::Acknowledged);
}
