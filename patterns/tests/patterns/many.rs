//! Retries of deletes and updates of many documents, and their counts.

use blackpipe::proxy::{Reaction, Rule};
use steadfast::{
    bson::{Document, doc},
    error::Outcome,
    options::WriteConcern,
};
use steadfast_patterns::many;

use crate::idempotent::ProxiedCollection;

async fn fill(fixture: &ProxiedCollection, count: i32) {
    let documents = (0..count).map(|n| doc! { "_id": n, "late": false, "n": n });
    fixture.orders.insert_many(documents).await.unwrap();
}

fn late() -> Document {
    doc! { "$set": { "late": true } }
}

#[tokio::test]
async fn counts_without_an_attempt_in_doubt_are_exact() {
    let fixture = ProxiedCollection::embedded(true).await;
    fill(&fixture, 5).await;
    let updated = many::update_many(&fixture.orders, doc! { "n": { "$lt": 3 } }, late());
    let updated = updated.await.unwrap();
    assert_eq!(updated.exact().unwrap().matched_count, 3);
    let deleted = many::delete_many(&fixture.orders, doc! { "late": true }).await.unwrap();
    assert_eq!(deleted.exact().unwrap().deleted_count, 3);
    assert_eq!((deleted.attempts(), deleted.in_doubt()), (1, false));
}

#[tokio::test]
async fn counts_after_a_lost_reply_are_lower_bounds() {
    for fixture in ProxiedCollection::each().await {
        fill(&fixture, 5).await;
        fixture.lose_replies("update", 1);
        let updated = many::update_many(&fixture.orders, doc! {}, late()).await.unwrap();
        assert_eq!((updated.exact(), updated.in_doubt()), (None, true));
        let last = updated.at_least();
        assert_eq!((last.matched_count, last.modified_count), (5, 0));
        assert_eq!(fixture.count(doc! { "late": true }).await, 5);

        fixture.lose_replies("delete", 1);
        let deleted = many::delete_many(&fixture.orders, doc! { "late": true }).await.unwrap();
        assert_eq!((deleted.exact(), deleted.at_least().deleted_count), (None, 0));
        assert_eq!((deleted.attempts(), fixture.sent("delete")), (2, 2));
        assert_eq!(fixture.count(doc! {}).await, 0);
    }
}

#[tokio::test]
async fn retry_after_a_lost_request_writes_all_documents() {
    for fixture in ProxiedCollection::each_embedded().await {
        fill(&fixture, 5).await;
        fixture.lose_requests("update", 1);
        let updated = many::update_many(&fixture.orders, doc! {}, late()).await.unwrap();
        assert_eq!(updated.at_least().modified_count, 5);
        assert!(updated.in_doubt(), "the loss of the request is not known");
        fixture.lose_requests("delete", 1);
        let deleted = many::delete_many(&fixture.orders, doc! {}).await.unwrap();
        assert_eq!(deleted.at_least().deleted_count, 5);
    }
}

#[tokio::test]
async fn upsert_by_id_inserts_once() {
    for fixture in ProxiedCollection::each_embedded().await {
        fixture.lose_replies("update", 1);
        let filter = doc! { "_id": 1, "site": "alfa" };
        let upserted =
            many::update_many(&fixture.orders, filter, late()).upsert(true).await.unwrap();
        assert_eq!(upserted.at_least().matched_count, 1);
        let found = fixture.orders.find_one(doc! {}).await.unwrap().unwrap();
        assert_eq!(found, doc! { "_id": 1, "site": "alfa", "late": true });
        assert_eq!(fixture.count(doc! {}).await, 1);
    }
}

#[tokio::test]
async fn error_after_a_lost_reply_is_maybe_applied() {
    let fixture = ProxiedCollection::embedded(false).await;
    fill(&fixture, 2).await;
    fixture.lose_replies("delete", 1);
    fixture.proxy.add(Rule::new(Reaction::error(13)).command("delete").times(1));
    let error = many::delete_many(&fixture.orders, doc! {}).retries(5).await.unwrap_err();
    assert_eq!((error.code(), error.outcome()), (Some(13), Outcome::MaybeApplied));
    assert_eq!(fixture.sent("delete"), 2);
}

#[tokio::test]
async fn operations_on_many_documents_that_are_not_idempotent_are_rejected() {
    let fixture = ProxiedCollection::embedded(true).await;
    let raise = doc! { "$mul": { "price": 1.1 } };
    let error = many::update_many(&fixture.orders, doc! {}, raise).await.unwrap_err();
    assert!(error.is_invalid_argument());
    assert_eq!(
        error.to_string(),
        "invalid argument: this update_many cannot be retried safely, it is not idempotent: $mul of \
         \"price\" multiplies at each execution; find the documents and use a bulk_write of update_one by \
         _id with retryable writes, or steadfast_patterns::counter, or a transaction"
    );
    let upsert = many::update_many(&fixture.orders, doc! { "site": "alfa" }, late()).upsert(true);
    let message = upsert.await.unwrap_err().to_string();
    assert!(message.contains("may insert another document"), "{message}");
    let some = doc! { "$sampleRate": 0.1 };
    let message = many::delete_many(&fixture.orders, some).await.unwrap_err().to_string();
    assert!(message.contains("with $sampleRate"), "{message}");
    let unacknowledged =
        many::delete_many(&fixture.orders, doc! {}).write_concern(WriteConcern::nodes(0));
    assert!(unacknowledged.await.unwrap_err().is_invalid_argument());
    assert_eq!((fixture.sent("update"), fixture.sent("delete")), (0, 0));
}
