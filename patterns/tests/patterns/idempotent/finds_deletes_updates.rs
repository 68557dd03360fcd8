//! Finds, deletes and updates that are sent again.

use steadfast::{bson::doc, error::Outcome};
use steadfast_patterns::idempotent::{self, DeleteOutcome};

use super::Stage;

#[tokio::test]
async fn a_lost_answer_is_asked_for_again() {
    for stage in Stage::each_embedded().await {
        stage.orders.insert_one(doc! { "_id": 1, "item": "kettle" }).await.unwrap();
        stage.lose_replies("find", 1);
        let found = idempotent::find_one(&stage.orders, doc! { "_id": 1 }).await.unwrap().unwrap();
        assert_eq!(found.get_str("item").unwrap(), "kettle");
        assert_eq!(stage.sent("find"), 2);
        stage.lose_replies("find", 2);
        idempotent::find_one(&stage.orders, doc! { "_id": 1 }).await.unwrap_err();
    }
}

#[tokio::test]
async fn a_deletion_says_whether_it_was_now_or_perhaps_before() {
    for stage in Stage::each_embedded().await {
        let delete = || idempotent::delete_one(&stage.orders, doc! { "_id": 1 });
        stage.orders.insert_one(doc! { "_id": 1 }).await.unwrap();
        stage.lose_replies("delete", 1);
        assert_eq!(delete().await.unwrap(), DeleteOutcome::Unknown);
        assert_eq!(delete().await.unwrap(), DeleteOutcome::NotFound);

        stage.orders.insert_one(doc! { "_id": 1 }).await.unwrap();
        stage.lose_requests("delete", 1);
        assert_eq!(delete().await.unwrap(), DeleteOutcome::Deleted);
        assert_eq!(stage.count(doc! {}).await, 0);
    }
}

#[tokio::test]
async fn a_deletion_that_the_server_recognises_itself_is_now() {
    let stage = Stage::embedded(true).await;
    stage.orders.insert_one(doc! { "_id": 1 }).await.unwrap();
    stage.lose_replies("delete", 1);
    let deletion = idempotent::delete_one(&stage.orders, doc! { "_id": 1 }).await.unwrap();
    assert_eq!(deletion, DeleteOutcome::Deleted);
}

#[tokio::test]
async fn a_unique_field_is_as_good_as_the_id() {
    let stage = Stage::embedded(false).await;
    stage.orders.insert_many([doc! { "email": "a" }, doc! { "email": "b" }]).await.unwrap();
    stage.lose_replies("delete", 1);
    let deletion =
        idempotent::delete_one(&stage.orders, doc! { "email": "a" }).unique(["email"]).await;
    assert_eq!(deletion.unwrap(), DeleteOutcome::Unknown);
    assert_eq!(stage.count(doc! {}).await, 1);
}

#[tokio::test]
async fn an_update_is_carried_out_however_often_it_is_sent() {
    for stage in Stage::each().await {
        let today = doc! { "_id": "2016-06-28" };
        let sunny = doc! { "$set": { "sunny": true }, "$addToSet": { "seen": "cloud" } };
        stage.lose_replies("update", 1);
        let update = idempotent::update_one(&stage.orders, today.clone(), sunny).upsert(true);
        let updated = update.await.unwrap();
        assert_eq!((updated.exact(), updated.in_doubt(), updated.attempts()), (None, true, 2));
        assert_eq!(updated.at_least().matched_count, 1, "the first has inserted it");
        let found = stage.orders.find_one(today.clone()).await.unwrap().unwrap();
        assert_eq!(found, doc! { "_id": "2016-06-28", "sunny": true, "seen": ["cloud"] });

        let rain = doc! { "$set": { "sunny": false } };
        let updated = idempotent::update_one(&stage.orders, today, rain).await.unwrap();
        assert_eq!(updated.exact().unwrap().modified_count, 1);
        assert_eq!(updated.attempts(), 1);
    }
}

#[tokio::test]
async fn a_failure_after_a_doubt_says_that_there_is_one() {
    let stage = Stage::embedded(false).await;
    stage.orders.insert_one(doc! { "_id": 1 }).await.unwrap();
    stage.lose_replies("update", 2);
    let set = doc! { "$set": { "x": 1 } };
    let error = idempotent::update_one(&stage.orders, doc! { "_id": 1 }, set).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::MaybeApplied);
}
