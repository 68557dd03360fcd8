//! What is refused before anything is sent, and in which words.

use steadfast::{
    Client,
    bson::{Document, doc},
    error::{Error, RETRYABLE_WRITE_ERROR, SYSTEM_OVERLOADED_ERROR},
    options::{Collation, CollectionOptions, WriteConcern},
};
use steadfast_embedded::Deployment;
use steadfast_patterns::idempotent;

use super::Stage;

/// The words of a refusal, of which nothing was sent.
fn words<T: std::fmt::Debug>(result: Result<T, impl Into<Error>>) -> String {
    let error: Error = result.map_err(Into::into).unwrap_err();
    assert!(error.is_invalid_argument(), "{error}");
    assert!(error.attempts().is_empty());
    error.to_string()
}

#[tokio::test]
async fn an_update_that_would_do_more_the_second_time() {
    let stage = Stage::embedded(true).await;
    let counting = doc! { "$inc": { "counter": 1 } };
    let refused = idempotent::update_one(&stage.orders, doc! { "_id": 1 }, counting).await;
    assert_eq!(
        words(refused),
        "invalid argument: this update_one cannot be sent again safely, it is not idempotent: $inc of \
         \"counter\" adds each time that it is carried out; send it once, with the driver's retryable \
         writes (Collection::update_one), or count with steadfast_patterns::counter, or use a transaction"
    );
    let take = doc! { "$set": { "state": "taken" } };
    let refused = idempotent::update_one(&stage.orders, doc! { "state": "new" }, take).await;
    let said = words(refused);
    assert!(said.contains("the filter does not say which _id the document has"), "{said}");
    let refused = idempotent::update_one(
        &stage.orders,
        doc! { "_id": 1 },
        vec![doc! { "$set": { "n": { "$add": ["$n", 1] } } }],
    );
    assert!(words(refused.await).contains("not known to be idempotent: a pipeline"));
    assert_eq!(stage.sent("update"), 0);
}

#[tokio::test]
async fn a_deletion_that_might_take_a_second_document() {
    let stage = Stage::embedded(true).await;
    let refused = idempotent::delete_one(&stage.orders, doc! { "state": "done" }).await;
    assert_eq!(
        words(refused),
        "invalid argument: this delete_one cannot be sent again safely: its filter does not say which \
         _id the document has, so that a second document may be deleted the second time; say the _id, or \
         which fields are unique (.unique([\"email\"])), or delete all that match (many::delete_many)"
    );
    let nobody = idempotent::delete_one(&stage.orders, doc! { "email": null }).unique(["email"]);
    assert!(words(nobody.await).contains("unique fields [\"email\"]"));
    let collation = Collation::builder().locale("en").build();
    let by_name = idempotent::delete_one(&stage.orders, doc! { "_id": "a" }).collation(collation);
    words(by_name.await);
    let dice = doc! { "_id": 1, "$expr": { "$lt": [{ "$rand": {} }, 0.5] } };
    let said = words(idempotent::delete_one(&stage.orders, dice).await);
    assert!(said.contains("with $rand"), "{said}");
    assert_eq!(stage.sent("delete"), 0);
}

#[tokio::test]
async fn a_write_that_is_not_answered() {
    let stage = Stage::embedded(true).await;
    let unheard = WriteConcern::nodes(0);
    let options = CollectionOptions::builder().write_concern(unheard.clone()).build();
    let orders = stage.client.database("shop").collection_with_options("orders", options);
    let said = words(idempotent::insert_one::<Document>(&orders, doc! {}).await);
    assert!(said.contains("w: 0"), "{said}");
    words(idempotent::insert_many::<Document>(&orders, [doc! {}]).await);
    words(idempotent::delete_one(&orders, doc! { "_id": 1 }).await);
    let set = doc! { "$set": { "x": 1 } };
    words(idempotent::update_one(&orders, doc! { "_id": 1 }, set).await);
    let inserting = idempotent::insert_one(&stage.orders, doc! {}).write_concern(unheard);
    words(inserting.await);
    // What the call itself says counts.
    let heard = WriteConcern::nodes(1);
    idempotent::insert_one::<Document>(&orders, doc! {}).write_concern(heard).await.unwrap();
}

#[tokio::test]
async fn a_document_without_an_id_cannot_be_known_in_the_next_run() {
    let stage = Stage::embedded(true).await;
    let one = idempotent::insert_one(&stage.orders, doc! {}).ignore_existing().await;
    assert_eq!(
        words(one),
        "invalid argument: the document has no _id: to be recognised when it is there already, it needs \
         one that is the same in every run"
    );
    let some = [doc! { "_id": 1 }, doc! { "x": 1 }];
    let many = idempotent::insert_many(&stage.orders, some).ignore_existing().await;
    assert!(words(many).contains("document 1 has no _id"));
    assert_eq!(stage.sent("insert"), 0);
}

#[tokio::test]
async fn documents_that_could_not_be_told_by_their_ids() {
    let stage = Stage::embedded(true).await;
    let twins = || [doc! { "_id": 1 }, doc! { "_id": 2 }, doc! { "_id": 1, "x": 1 }];
    let said = words(idempotent::insert_many(&stage.orders, twins()).await);
    assert!(said.contains("documents 0 and 2 have the same _id, 1"), "{said}");
    assert_eq!(stage.sent("insert"), 0);
    // The second is there already, which is fine.
    let inserting = idempotent::insert_many(&stage.orders, twins()).ignore_existing();
    let done = inserting.await.unwrap();
    assert_eq!((done.inserted(), done.existing()), (2, 1));
}

/// Without retryable writes, so that no retry is the driver's.
#[tokio::test]
async fn an_overloaded_server_is_not_sent_retries() {
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
