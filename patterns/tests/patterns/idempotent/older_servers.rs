//! Servers before 4.2, which say in words alone which key they have already.

use blackpipe::server::{ExpectedRequest, Role, Server, hang_up, insert, reply};
use steadfast::{
    Client, Collection,
    bson::{Document, doc},
    error::{Error, Outcome},
};
use steadfast_patterns::idempotent::{self, InsertEvidence, Inserted};

/// A server that hangs up on an insert, and refuses the next with these words.
async fn refused_in_words(words: &str) -> Result<Inserted, Error> {
    let server = Server::builder().role(Role::Primary).start();
    let inserts =
        || -> ExpectedRequest { insert("shop.orders").with(doc! { "documents": [{ "_id": 7 }] }) };
    server.expect(inserts().then(hang_up()));
    let message = format!("E11000 duplicate key error collection: {words}");
    let refusal = doc! { "index": 0, "code": 11000, "errmsg": message };
    server.expect(inserts().then(reply(doc! { "ok": 1, "n": 0, "writeErrors": [refusal] })));
    let client = Client::with_uri_str(server.uri("retryWrites=false")).await.unwrap();
    let orders: Collection<Document> = client.database("shop").collection("orders");
    let inserted = idempotent::insert_one(&orders, doc! { "_id": 7 }).await;
    server.finish();
    inserted
}

#[tokio::test]
async fn its_own_key_is_read_from_the_words() {
    let inserted = refused_in_words("shop.orders index: _id_ dup key: { : 7 }").await.unwrap();
    assert_eq!(inserted.evidence, InsertEvidence::DuplicateOfOwn);
}

#[tokio::test]
async fn words_that_may_mean_another_key_are_an_error() {
    for words in [
        "shop.orders index: email_1 dup key: { : 7 }",
        "shop.orders index: _id_ dup key: { : 8 }",
        "shop.orders index: _id_ dup key: { : 7.0 }",
        "shop.orders index: something else",
    ] {
        let error = refused_in_words(words).await.unwrap_err();
        assert!(error.is_duplicate_key_error(), "{words}: {error}");
        assert_eq!(error.outcome(), Outcome::MaybeApplied, "{words}");
    }
}
