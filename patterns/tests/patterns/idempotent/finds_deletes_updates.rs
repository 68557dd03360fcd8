//! Retries of finds, deletes and updates.

use steadfast::{bson::doc, error::Outcome};
use steadfast_patterns::idempotent::{self, DeleteOutcome};

use super::ProxiedCollection;

#[tokio::test]
async fn find_is_retried_after_a_lost_reply() {
    for fixture in ProxiedCollection::each_embedded().await {
        fixture.orders.insert_one(doc! { "_id": 1, "item": "kettle" }).await.unwrap();
        fixture.lose_replies("find", 1);
        let found =
            idempotent::find_one(&fixture.orders, doc! { "_id": 1 }).await.unwrap().unwrap();
        assert_eq!(found.get_str("item").unwrap(), "kettle");
        assert_eq!(fixture.sent("find"), 2);
        fixture.lose_replies("find", 2);
        idempotent::find_one(&fixture.orders, doc! { "_id": 1 }).await.unwrap_err();
    }
}

#[tokio::test]
async fn delete_after_a_lost_reply_has_an_unknown_outcome() {
    for fixture in ProxiedCollection::each_embedded().await {
        let delete = || idempotent::delete_one(&fixture.orders, doc! { "_id": 1 });
        fixture.orders.insert_one(doc! { "_id": 1 }).await.unwrap();
        fixture.lose_replies("delete", 1);
        assert_eq!(delete().await.unwrap(), DeleteOutcome::Unknown);
        assert_eq!(delete().await.unwrap(), DeleteOutcome::NotFound);

        fixture.orders.insert_one(doc! { "_id": 1 }).await.unwrap();
        fixture.lose_requests("delete", 1);
        assert_eq!(delete().await.unwrap(), DeleteOutcome::Deleted);
        assert_eq!(fixture.count(doc! {}).await, 0);
    }
}

#[tokio::test]
async fn delete_retried_by_the_driver_is_reported_as_deleted() {
    let fixture = ProxiedCollection::embedded(true).await;
    fixture.orders.insert_one(doc! { "_id": 1 }).await.unwrap();
    fixture.lose_replies("delete", 1);
    let deletion = idempotent::delete_one(&fixture.orders, doc! { "_id": 1 }).await.unwrap();
    assert_eq!(deletion, DeleteOutcome::Deleted);
}

#[tokio::test]
async fn delete_by_a_unique_field_is_retried() {
    let fixture = ProxiedCollection::embedded(false).await;
    fixture.orders.insert_many([doc! { "email": "a" }, doc! { "email": "b" }]).await.unwrap();
    fixture.lose_replies("delete", 1);
    let deletion =
        idempotent::delete_one(&fixture.orders, doc! { "email": "a" }).unique(["email"]).await;
    assert_eq!(deletion.unwrap(), DeleteOutcome::Unknown);
    assert_eq!(fixture.count(doc! {}).await, 1);
}

#[tokio::test]
async fn idempotent_update_is_retried_after_a_lost_message() {
    for fixture in ProxiedCollection::each().await {
        let today = doc! { "_id": "2016-06-28" };
        let sunny = doc! { "$set": { "sunny": true }, "$addToSet": { "seen": "cloud" } };
        fixture.lose_replies("update", 1);
        let update = idempotent::update_one(&fixture.orders, today.clone(), sunny).upsert(true);
        let updated = update.await.unwrap();
        assert_eq!((updated.exact(), updated.in_doubt(), updated.attempts()), (None, true, 2));
        assert_eq!(updated.at_least().matched_count, 1, "the first has inserted it");
        let found = fixture.orders.find_one(today.clone()).await.unwrap().unwrap();
        assert_eq!(found, doc! { "_id": "2016-06-28", "sunny": true, "seen": ["cloud"] });

        let rain = doc! { "$set": { "sunny": false } };
        let updated = idempotent::update_one(&fixture.orders, today, rain).await.unwrap();
        assert_eq!(updated.exact().unwrap().modified_count, 1);
        assert_eq!(updated.attempts(), 1);
    }
}

#[tokio::test]
async fn error_after_an_attempt_in_doubt_is_maybe_applied() {
    let fixture = ProxiedCollection::embedded(false).await;
    fixture.orders.insert_one(doc! { "_id": 1 }).await.unwrap();
    fixture.lose_replies("update", 2);
    let set = doc! { "$set": { "x": 1 } };
    let error = idempotent::update_one(&fixture.orders, doc! { "_id": 1 }, set).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::MaybeApplied);
}
