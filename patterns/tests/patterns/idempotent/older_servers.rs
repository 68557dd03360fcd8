//! Servers before 4.2, which report a duplicate key in the message only.

use blackpipe::server::{ExpectedRequest, Role, Server, hang_up, insert, reply};
use steadfast::{
    Client, Collection,
    bson::{Document, doc},
    error::{Error, Outcome},
};
use steadfast_patterns::idempotent::{self, InsertEvidence, Inserted};

/// Inserts a document: the first reply is lost, the second is a duplicate key error with this message.
async fn insert_after_duplicate_key(words: &str) -> Result<Inserted, Error> {
    let server = Server::builder().role(Role::Primary).start();
    let inserts =
        || -> ExpectedRequest { insert("shop.orders").with(doc! { "documents": [{ "_id": 7 }] }) };
    server.expect(inserts().then(hang_up()));
    let message = format!("E11000 duplicate key error collection: {words}");
    let error = doc! { "index": 0, "code": 11000, "errmsg": message };
    server.expect(inserts().then(reply(doc! { "ok": 1, "n": 0, "writeErrors": [error] })));
    let client = Client::with_uri_str(server.uri("retryWrites=false")).await.unwrap();
    let orders: Collection<Document> = client.database("shop").collection("orders");
    let inserted = idempotent::insert_one(&orders, doc! { "_id": 7 }).await;
    server.finish();
    inserted
}

#[tokio::test]
async fn own_key_is_parsed_from_the_message() {
    let inserted =
        insert_after_duplicate_key("shop.orders index: _id_ dup key: { : 7 }").await.unwrap();
    assert_eq!(inserted.evidence, InsertEvidence::DuplicateOfOwn);
}

#[tokio::test]
async fn ambiguous_duplicate_key_message_is_an_error() {
    for words in [
        "shop.orders index: email_1 dup key: { : 7 }",
        "shop.orders index: _id_ dup key: { : 8 }",
        "shop.orders index: _id_ dup key: { : 7.0 }",
        "shop.orders index: something else",
    ] {
        let error = insert_after_duplicate_key(words).await.unwrap_err();
        assert!(error.is_duplicate_key_error(), "{words}: {error}");
        assert_eq!(error.outcome(), Outcome::MaybeApplied, "{words}");
    }
}
