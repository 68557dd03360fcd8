//! Deletes and updates of many documents that are sent again, and what their counts say.

use blackpipe::proxy::{Reaction, Rule};
use steadfast::{
    bson::{Document, doc},
    error::Outcome,
    options::WriteConcern,
};
use steadfast_patterns::many;

use crate::idempotent::Stage;

async fn fill(stage: &Stage, count: i32) {
    let documents = (0..count).map(|n| doc! { "_id": n, "late": false, "n": n });
    stage.orders.insert_many(documents).await.unwrap();
}

fn late() -> Document {
    doc! { "$set": { "late": true } }
}

#[tokio::test]
async fn without_a_doubt_the_counts_are_exact() {
    let stage = Stage::embedded(true).await;
    fill(&stage, 5).await;
    let updated = many::update_many(&stage.orders, doc! { "n": { "$lt": 3 } }, late());
    let updated = updated.await.unwrap();
    assert_eq!(updated.exact().unwrap().matched_count, 3);
    let deleted = many::delete_many(&stage.orders, doc! { "late": true }).await.unwrap();
    assert_eq!(deleted.exact().unwrap().deleted_count, 3);
    assert_eq!((deleted.attempts(), deleted.in_doubt()), (1, false));
}

#[tokio::test]
async fn after_a_lost_reply_the_counts_are_the_least() {
    for stage in Stage::each().await {
        fill(&stage, 5).await;
        stage.lose_replies("update", 1);
        let updated = many::update_many(&stage.orders, doc! {}, late()).await.unwrap();
        assert_eq!((updated.exact(), updated.in_doubt()), (None, true));
        let last = updated.at_least();
        assert_eq!((last.matched_count, last.modified_count), (5, 0));
        assert_eq!(stage.count(doc! { "late": true }).await, 5);

        stage.lose_replies("delete", 1);
        let deleted = many::delete_many(&stage.orders, doc! { "late": true }).await.unwrap();
        assert_eq!((deleted.exact(), deleted.at_least().deleted_count), (None, 0));
        assert_eq!((deleted.attempts(), stage.sent("delete")), (2, 2));
        assert_eq!(stage.count(doc! {}).await, 0);
    }
}

#[tokio::test]
async fn after_a_lost_request_the_second_does_it_all() {
    for stage in Stage::each_embedded().await {
        fill(&stage, 5).await;
        stage.lose_requests("update", 1);
        let updated = many::update_many(&stage.orders, doc! {}, late()).await.unwrap();
        assert_eq!(updated.at_least().modified_count, 5);
        assert!(updated.in_doubt(), "nobody knows that the first was lost");
        stage.lose_requests("delete", 1);
        let deleted = many::delete_many(&stage.orders, doc! {}).await.unwrap();
        assert_eq!(deleted.at_least().deleted_count, 5);
    }
}

#[tokio::test]
async fn an_upsert_that_is_pinned_inserts_once() {
    for stage in Stage::each_embedded().await {
        stage.lose_replies("update", 1);
        let filter = doc! { "_id": 1, "site": "alfa" };
        let upserted = many::update_many(&stage.orders, filter, late()).upsert(true).await.unwrap();
        assert_eq!(upserted.at_least().matched_count, 1);
        let found = stage.orders.find_one(doc! {}).await.unwrap().unwrap();
        assert_eq!(found, doc! { "_id": 1, "site": "alfa", "late": true });
        assert_eq!(stage.count(doc! {}).await, 1);
    }
}

#[tokio::test]
async fn another_failure_is_raised_with_the_doubt_that_was_before() {
    let stage = Stage::embedded(false).await;
    fill(&stage, 2).await;
    stage.lose_replies("delete", 1);
    stage.proxy.add(Rule::new(Reaction::error(13)).command("delete").times(1));
    let error = many::delete_many(&stage.orders, doc! {}).retries(5).await.unwrap_err();
    assert_eq!((error.code(), error.outcome()), (Some(13), Outcome::MaybeApplied));
    assert_eq!(stage.sent("delete"), 2);
}

#[tokio::test]
async fn what_cannot_be_sent_again_is_refused_with_what_to_do_instead() {
    let stage = Stage::embedded(true).await;
    let raise = doc! { "$mul": { "price": 1.1 } };
    let error = many::update_many(&stage.orders, doc! {}, raise).await.unwrap_err();
    assert!(error.is_invalid_argument());
    assert_eq!(
        error.to_string(),
        "invalid argument: this update_many cannot be sent again safely, it is not idempotent: $mul of \
         \"price\" multiplies each time that it is carried out; find the documents and write a \
         bulk_write of update_one by _id, which the server recognises when it is sent again, or count \
         with steadfast_patterns::counter, or use a transaction"
    );
    let upsert = many::update_many(&stage.orders, doc! { "site": "alfa" }, late()).upsert(true);
    let said = upsert.await.unwrap_err().to_string();
    assert!(said.contains("another document may be inserted"), "{said}");
    let some = doc! { "$sampleRate": 0.1 };
    let said = many::delete_many(&stage.orders, some).await.unwrap_err().to_string();
    assert!(said.contains("with $sampleRate"), "{said}");
    let unheard = many::delete_many(&stage.orders, doc! {}).write_concern(WriteConcern::nodes(0));
    assert!(unheard.await.unwrap_err().is_invalid_argument());
    assert_eq!((stage.sent("update"), stage.sent("delete")), (0, 0));
}
