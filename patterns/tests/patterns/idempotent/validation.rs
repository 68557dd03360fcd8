//! Calls that are rejected before anything is sent, and their messages.

use steadfast::{
    Client,
    bson::{Document, doc},
    error::{Error, RETRYABLE_WRITE_ERROR, SYSTEM_OVERLOADED_ERROR},
    options::{Collation, CollectionOptions, WriteConcern},
};
use steadfast_embedded::Deployment;
use steadfast_patterns::idempotent;

use super::ProxiedCollection;

/// Returns the message of an error before the first attempt.
fn rejection_message<T: std::fmt::Debug>(result: Result<T, impl Into<Error>>) -> String {
    let error: Error = result.map_err(Into::into).unwrap_err();
    assert!(error.is_invalid_argument(), "{error}");
    assert!(error.attempts().is_empty());
    error.to_string()
}

#[tokio::test]
async fn update_that_is_not_idempotent_is_rejected() {
    let fixture = ProxiedCollection::embedded(true).await;
    let counting = doc! { "$inc": { "counter": 1 } };
    let rejected = idempotent::update_one(&fixture.orders, doc! { "_id": 1 }, counting).await;
    assert_eq!(
        rejection_message(rejected),
        "invalid argument: this update_one cannot be retried safely, it is not idempotent: $inc of \
         \"counter\" adds at each execution; use Collection::update_one with retryable writes, or \
         steadfast_patterns::counter, or a transaction"
    );
    let take = doc! { "$set": { "state": "taken" } };
    let rejected = idempotent::update_one(&fixture.orders, doc! { "state": "new" }, take).await;
    let message = rejection_message(rejected);
    assert!(message.contains("the filter does not contain the _id"), "{message}");
    let rejected = idempotent::update_one(
        &fixture.orders,
        doc! { "_id": 1 },
        vec![doc! { "$set": { "n": { "$add": ["$n", 1] } } }],
    );
    assert!(rejection_message(rejected.await).contains("not known to be idempotent: a pipeline"));
    assert_eq!(fixture.sent("update"), 0);
}

#[tokio::test]
async fn delete_without_a_unique_filter_is_rejected() {
    let fixture = ProxiedCollection::embedded(true).await;
    let rejected = idempotent::delete_one(&fixture.orders, doc! { "state": "done" }).await;
    assert_eq!(
        rejection_message(rejected),
        "invalid argument: this delete_one cannot be retried safely: its filter does not contain the \
         _id, so a retry may delete a second document; add the _id, declare unique fields \
         (.unique([\"email\"])), or delete all documents that match (many::delete_many)"
    );
    let without_value =
        idempotent::delete_one(&fixture.orders, doc! { "email": null }).unique(["email"]);
    assert!(rejection_message(without_value.await).contains("unique fields [\"email\"]"));
    let collation = Collation::builder().locale("en").build();
    let by_name = idempotent::delete_one(&fixture.orders, doc! { "_id": "a" }).collation(collation);
    rejection_message(by_name.await);
    let random = doc! { "_id": 1, "$expr": { "$lt": [{ "$rand": {} }, 0.5] } };
    let message = rejection_message(idempotent::delete_one(&fixture.orders, random).await);
    assert!(message.contains("with $rand"), "{message}");
    assert_eq!(fixture.sent("delete"), 0);
}

#[tokio::test]
async fn unacknowledged_write_is_rejected() {
    let fixture = ProxiedCollection::embedded(true).await;
    let unacknowledged = WriteConcern::nodes(0);
    let options = CollectionOptions::builder().write_concern(unacknowledged.clone()).build();
    let orders = fixture.client.database("shop").collection_with_options("orders", options);
    let message = rejection_message(idempotent::insert_one::<Document>(&orders, doc! {}).await);
    assert!(message.contains("w: 0"), "{message}");
    rejection_message(idempotent::insert_many::<Document>(&orders, [doc! {}]).await);
    rejection_message(idempotent::delete_one(&orders, doc! { "_id": 1 }).await);
    let set = doc! { "$set": { "x": 1 } };
    rejection_message(idempotent::update_one(&orders, doc! { "_id": 1 }, set).await);
    let inserting = idempotent::insert_one(&fixture.orders, doc! {}).write_concern(unacknowledged);
    rejection_message(inserting.await);
    // The option of the call overrides that of the collection.
    let acknowledged = WriteConcern::nodes(1);
    idempotent::insert_one::<Document>(&orders, doc! {}).write_concern(acknowledged).await.unwrap();
}

#[tokio::test]
async fn ignore_existing_without_an_id_is_rejected() {
    let fixture = ProxiedCollection::embedded(true).await;
    let one = idempotent::insert_one(&fixture.orders, doc! {}).ignore_existing().await;
    assert_eq!(
        rejection_message(one),
        "invalid argument: the document has no _id: with ignore_existing, each document needs an _id that \
         is the same in every run"
    );
    let some = [doc! { "_id": 1 }, doc! { "x": 1 }];
    let many = idempotent::insert_many(&fixture.orders, some).ignore_existing().await;
    assert!(rejection_message(many).contains("document 1 has no _id"));
    assert_eq!(fixture.sent("insert"), 0);
}

#[tokio::test]
async fn insert_many_with_repeated_ids_is_rejected() {
    let fixture = ProxiedCollection::embedded(true).await;
    let twins = || [doc! { "_id": 1 }, doc! { "_id": 2 }, doc! { "_id": 1, "x": 1 }];
    let message = rejection_message(idempotent::insert_many(&fixture.orders, twins()).await);
    assert!(message.contains("documents 0 and 2 have the same _id, 1"), "{message}");
    assert_eq!(fixture.sent("insert"), 0);
    // The last document exists already, which is accepted.
    let inserting = idempotent::insert_many(&fixture.orders, twins()).ignore_existing();
    let done = inserting.await.unwrap();
    assert_eq!((done.inserted(), done.existing()), (2, 1));
}

/// Without retryable writes, so that the driver does not retry.
#[tokio::test]
async fn overload_error_is_not_retried_at_once() {
    let server = Deployment::replica_set(1).start();
    let uri = format!("{}&retryWrites=false", server.uri());
    let client = Client::with_uri_str(uri).await.unwrap();
    let orders = client.database("shop").collection::<Document>("orders");
    let overloaded = |labels: &[&str]| {
        let data =
            doc! { "failCommands": ["insert"], "errorCode": 10107, "errorLabels": labels.to_vec() };
        let mode = doc! { "times": 1 };
        let command = doc! { "configureFailPoint": "failCommand", "mode": mode, "data": data };
        server.faults().configure_fail_point(0, command).unwrap();
    };
    overloaded(&[RETRYABLE_WRITE_ERROR, SYSTEM_OVERLOADED_ERROR]);
    let error = idempotent::insert_one(&orders, doc! { "_id": 1 }).retries(3).await.unwrap_err();
    assert!(error.contains_label(SYSTEM_OVERLOADED_ERROR), "{error}");
    overloaded(&[RETRYABLE_WRITE_ERROR]);
    idempotent::insert_one(&orders, doc! { "_id": 2 }).retries(3).await.unwrap();
}
