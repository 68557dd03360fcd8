//! One document is inserted once, whatever is lost on the way.

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

use super::Stage;
use crate::clock::Clock;

fn kettle() -> Document {
    doc! { "item": "kettle" }
}

async fn make_unique(stage: &Stage, field: &str) {
    let unique = IndexOptions::builder().unique(true).build();
    let index = IndexModel::builder().keys(doc! { field: 1 }).options(unique).build();
    stage.orders.create_index(index).await.unwrap();
}

#[tokio::test]
async fn after_a_lost_reply_a_document_is_known_by_its_key() {
    for stage in Stage::each().await {
        stage.lose_replies("insert", 1);
        let inserted = idempotent::insert_one(&stage.orders, kettle()).await.unwrap();
        assert_eq!(inserted.evidence, InsertEvidence::DuplicateOfOwn);
        assert_eq!(stage.sent("insert"), 2);
        assert_eq!(stage.count(doc! {}).await, 1);
        assert_eq!(stage.count(doc! { "_id": inserted.id }).await, 1);

        stage.clear().await;
        let cut = Rule::new(Reaction::cut_reply_after(20)).command("insert").times(1);
        stage.proxy.add(cut);
        let inserted = idempotent::insert_one(&stage.orders, doc! { "_id": "mine" }).await.unwrap();
        assert_eq!(
            (inserted.id, inserted.evidence),
            (Bson::from("mine"), InsertEvidence::DuplicateOfOwn)
        );
        assert_eq!(stage.count(doc! {}).await, 1);
    }
}

#[tokio::test]
async fn after_a_lost_request_it_is_inserted_by_the_second() {
    for stage in Stage::each_embedded().await {
        stage.lose_requests("insert", 1);
        let inserted = idempotent::insert_one(&stage.orders, kettle()).await.unwrap();
        assert_eq!(inserted.evidence, InsertEvidence::Acknowledged);
        assert_eq!(stage.sent("insert"), 2);
        assert_eq!(stage.count(doc! { "_id": inserted.id }).await, 1);
    }
}

#[tokio::test]
async fn without_a_fault_it_is_sent_once() {
    let stage = Stage::embedded(true).await;
    let inserted = idempotent::insert_one(&stage.orders, kettle()).await.unwrap();
    assert_eq!(inserted.evidence, InsertEvidence::Acknowledged);
    assert!(matches!(inserted.id, Bson::ObjectId(_)));
    assert_eq!(stage.sent("insert"), 1);
}

#[tokio::test]
async fn when_the_drivers_own_retry_is_lost_too_the_next_sending_tells() {
    for stage in [Some(Stage::embedded(true).await), Stage::real().await].into_iter().flatten() {
        // The driver recognises the first loss itself.
        stage.lose_replies("insert", 1);
        let inserted = idempotent::insert_one(&stage.orders, kettle()).await.unwrap();
        assert_eq!((inserted.evidence, stage.sent("insert")), (InsertEvidence::Acknowledged, 2));

        stage.clear().await;
        stage.lose_replies("insert", 2);
        let inserted = idempotent::insert_one(&stage.orders, kettle()).await.unwrap();
        assert_eq!((inserted.evidence, stage.sent("insert")), (InsertEvidence::DuplicateOfOwn, 3));
        assert_eq!(stage.count(doc! {}).await, 1);
    }
}

#[tokio::test]
async fn behind_a_router_it_is_known_by_its_key_too() {
    for (stage, lost) in [(Stage::sharded(false).await, 1), (Stage::sharded(true).await, 2)] {
        stage.lose_replies("insert", lost);
        let inserted = idempotent::insert_one(&stage.orders, kettle()).await.unwrap();
        assert_eq!(inserted.evidence, InsertEvidence::DuplicateOfOwn);
        assert_eq!(stage.count(doc! {}).await, 1);

        stage.proxy.clear_rules();
        let again = doc! { "_id": inserted.id };
        let error = idempotent::insert_one(&stage.orders, again).await.unwrap_err();
        assert!(error.is_duplicate_key_error(), "at the first sending it is an error: {error}");
    }
}

#[tokio::test]
async fn a_call_whose_time_is_over_is_not_sent_again() {
    let stage = Stage::embedded(false).await;
    stage.count(doc! {}).await;
    stage.proxy.add(Rule::new(Reaction::stall(Direction::Reply)).command("insert"));
    let (clock, limit) = (Clock::stopped(), Duration::from_millis(200));
    let inserting = idempotent::insert_one(&stage.orders, kettle()).retries(50);
    let (inserted, ()) = tokio::join!(inserting.timeout(limit).into_future(), async {
        while stage.sent("insert") == 0 {
            tokio::task::yield_now().await;
        }
        clock.pass(limit).await;
    });
    let error = inserted.unwrap_err();
    assert!(error.is_timeout(), "{error}");
    assert_eq!(error.outcome(), Outcome::MaybeApplied);
    assert_eq!(stage.sent("insert"), 1);
}

#[tokio::test]
async fn a_duplicate_at_the_first_sending_is_an_error() {
    for stage in Stage::each_embedded().await {
        stage.orders.insert_one(doc! { "_id": 1 }).await.unwrap();
        stage.proxy.clear_ledger();
        let error = idempotent::insert_one(&stage.orders, doc! { "_id": 1 }).await.unwrap_err();
        assert!(error.is_duplicate_key_error(), "{error}");
        assert_eq!(error.outcome(), Outcome::NotApplied);
        assert_eq!(stage.sent("insert"), 1);
    }
}

#[tokio::test]
async fn after_a_refusal_that_wrote_nothing_a_duplicate_is_an_error_still() {
    let stage = Stage::embedded(false).await;
    stage.orders.insert_one(doc! { "_id": 1 }).await.unwrap();
    stage.proxy.add(Rule::new(Reaction::error(10107)).command("insert").times(1));
    let error = idempotent::insert_one(&stage.orders, doc! { "_id": 1 }).await.unwrap_err();
    assert!(error.is_duplicate_key_error(), "{error}");
    assert_eq!(error.outcome(), Outcome::NotApplied);
}

#[tokio::test]
async fn a_duplicate_on_another_index_is_an_error_also_after_a_doubt() {
    for stage in Stage::each().await {
        make_unique(&stage, "email").await;
        stage.orders.insert_one(doc! { "email": "ian@example.com" }).await.unwrap();
        let again = doc! { "email": "ian@example.com" };
        for lose in [Stage::lose_replies, Stage::lose_requests] {
            lose(&stage, "insert", 1);
            let error = idempotent::insert_one(&stage.orders, &again).await.unwrap_err();
            assert!(error.is_duplicate_key_error(), "{error}");
            assert!(!error.outcome().is_certainly_not_applied(), "a sending was in doubt");
        }
        assert_eq!(stage.count(doc! {}).await, 1);
    }
}

#[tokio::test]
async fn a_string_of_a_collection_with_a_collation_is_not_taken_for_its_own() {
    let Some(stage) = Stage::real().await else { return };
    let database = stage.client.database("shop");
    let collation = Collation::builder().locale("en").build();
    database.create_collection("names").collation(collation).await.unwrap();
    let names = database.collection::<Document>("names");
    stage.lose_replies("insert", 2);
    let error = idempotent::insert_one(&names, doc! { "_id": "abc" }).await.unwrap_err();
    assert!(error.is_duplicate_key_error(), "{error}");
    assert_eq!(error.outcome(), Outcome::MaybeApplied);

    // What no collation has a say in is.
    stage.proxy.clear_rules();
    stage.lose_replies("insert", 2);
    let id = ObjectId::new();
    let inserted = idempotent::insert_one(&names, doc! { "_id": id }).await.unwrap();
    assert_eq!(inserted.evidence, InsertEvidence::DuplicateOfOwn);
}

#[tokio::test]
async fn retries_that_are_used_up_leave_a_doubt_and_say_so() {
    let stage = Stage::embedded(false).await;
    stage.lose_replies("insert", 2);
    let error = idempotent::insert_one(&stage.orders, kettle()).await.unwrap_err();
    assert!(error.is_network_error());
    assert_eq!(error.outcome(), Outcome::MaybeApplied);
    assert_eq!(error.attempts().len(), 2, "it tells of both");
    assert_eq!(stage.count(doc! {}).await, 1);

    stage.clear().await;
    stage.lose_replies("insert", 3);
    let inserting = idempotent::insert_one(&stage.orders, kettle()).retries(3);
    assert_eq!(inserting.await.unwrap().evidence, InsertEvidence::DuplicateOfOwn);

    stage.clear().await;
    stage.lose_replies("insert", 1);
    let error = idempotent::insert_one(&stage.orders, kettle()).retries(0).await.unwrap_err();
    assert_eq!((error.outcome(), stage.sent("insert")), (Outcome::MaybeApplied, 1));
}

#[tokio::test]
async fn what_is_known_by_its_key_must_be_as_durable_as_asked() {
    for stage in [Some(Stage::embedded(false).await), Stage::real().await].into_iter().flatten() {
        let refuse = |code| {
            let failure = Reaction::WriteConcernError(WriteConcernError::new(code));
            Rule::new(failure).command("insert").times(1)
        };
        // Replies are lost until the driver gives up; then the key is there, but not durable.
        stage.lose_sending("insert");
        stage.proxy.add(refuse(64));
        let error = idempotent::insert_one(&stage.orders, kettle()).await.unwrap_err();
        assert_eq!(error.outcome(), Outcome::AppliedNotDurable, "{error}");
        assert_eq!(error.code(), Some(64));

        // A failure that may pass: at the next sending it is durable.
        stage.clear().await;
        stage.lose_sending("insert");
        stage.proxy.add(refuse(91));
        let inserted = idempotent::insert_one(&stage.orders, kettle()).retries(2).await.unwrap();
        assert_eq!(inserted.evidence, InsertEvidence::DuplicateOfOwn);
        assert_eq!(stage.count(doc! {}).await, 1);
    }
}

#[tokio::test]
async fn a_refusal_that_passes_is_tried_again_and_another_is_not() {
    let stage = Stage::embedded(false).await;
    stage.proxy.add(Rule::new(Reaction::error(10107)).command("insert").times(1));
    let inserted = idempotent::insert_one(&stage.orders, kettle()).await.unwrap();
    assert_eq!((inserted.evidence, stage.sent("insert")), (InsertEvidence::Acknowledged, 2));

    stage.clear().await;
    stage.proxy.add(Rule::new(Reaction::error(13)).command("insert").times(1));
    let error = idempotent::insert_one(&stage.orders, kettle()).await.unwrap_err();
    assert_eq!((error.code(), stage.sent("insert")), (Some(13), 1));
}

#[tokio::test]
async fn a_second_run_adds_nothing_if_what_is_there_is_fine() {
    for stage in Stage::each_embedded().await {
        let line = doc! { "_id": "app.log:17", "text": "ready" };
        let insert = || idempotent::insert_one(&stage.orders, &line).ignore_existing();
        assert_eq!(insert().await.unwrap().evidence, InsertEvidence::Acknowledged);
        assert_eq!(insert().await.unwrap().evidence, InsertEvidence::PreExisting);
        assert_eq!(stage.count(doc! {}).await, 1);

        make_unique(&stage, "text").await;
        let other = doc! { "_id": "app.log:18", "text": "ready" };
        let inserting = idempotent::insert_one(&stage.orders, other).ignore_existing();
        assert!(inserting.await.unwrap_err().is_duplicate_key_error(), "of another index");
    }
}

#[tokio::test]
async fn documents_of_the_applications_own_types_get_their_id_once() {
    #[derive(Serialize, Deserialize)]
    struct Order {
        item: String,
    }

    let stage = Stage::embedded(false).await;
    let orders = stage.orders.clone_with_type::<Order>();
    stage.lose_replies("insert", 1);
    let order = Order { item: "kettle".to_owned() };
    let inserted = idempotent::insert_one(&orders, &order).await.unwrap();
    let found = idempotent::find_one(&orders, doc! { "_id": inserted.id }).await.unwrap();
    assert_eq!(found.unwrap().item, "kettle");
    assert_eq!(stage.count(doc! {}).await, 1);
}

#[tokio::test]
async fn an_insert_can_be_spawned_and_awaited_elsewhere() {
    let stage = Stage::embedded(false).await;
    let inserting = idempotent::insert_one(&stage.orders, kettle()).into_future();
    let inserted: Result<_, Error> = tokio::spawn(inserting).await.unwrap();
    assert_eq!(inserted.unwrap().evidence, InsertEvidence::Acknowledged);
}
