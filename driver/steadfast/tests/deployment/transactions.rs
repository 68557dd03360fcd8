//! Transactions on a real replica set: atomicity, isolation, conflicts and dropped futures.

mod convenient;
mod rules;

use std::time::Duration;

use steadfast::{
    Client, ClientSession, Collection, TransactionState,
    bson::{Document, doc},
    error::{Error, ErrorKind, Outcome, TRANSIENT_TRANSACTION_ERROR},
    options::ClientOptions,
};
use tokio::sync::oneshot;

use crate::common::bounded;

const WRITE_CONFLICT: i32 = 112;
const NO_SUCH_TRANSACTION: i32 = 251;

async fn client() -> Client {
    let uri = testbed::shared::uri().expect("a deployment");
    let options = ClientOptions::parse(uri).await.unwrap();
    Client::with_options(options).unwrap()
}

/// Creates a collection with one document, `{ _id: 0, n: 0 }`.
async fn counter(client: &Client, name: &str) -> Collection<Document> {
    let counters = client.database("transactions").collection::<Document>(name);
    counters.drop().await.unwrap();
    counters.insert_one(doc! { "_id": 0, "n": 0 }).await.unwrap();
    counters
}

fn increment_n() -> Document {
    doc! { "$inc": { "n": 1 } }
}

async fn count(counters: &Collection<Document>) -> i32 {
    let found = counters.find_one(doc! { "_id": 0 }).await.unwrap().expect("the document exists");
    found.get_i32("n").unwrap()
}

async fn begin(client: &Client) -> ClientSession {
    let mut session = client.start_session().await.unwrap();
    session.start_transaction().await.unwrap();
    session
}

#[tokio::test]
async fn a_transaction_is_visible_only_after_its_commit() {
    testbed::require!(testbed::shared::servers());
    let client = client().await;
    let counters = counter(&client, "committed").await;
    let others = counter(&client, "committed_too").await;
    let mut session = begin(&client).await;
    counters.update_one(doc! {}, increment_n()).session(&mut session).await.unwrap();
    others.insert_one(doc! { "_id": 1 }).session(&mut session).await.unwrap();
    let inside = counters.find_one(doc! {}).session(&mut session).await.unwrap().unwrap();
    assert_eq!(inside.get_i32("n").unwrap(), 1, "the transaction reads its own write");
    assert_eq!(count(&counters).await, 0, "not visible outside");
    session.commit_transaction().await.unwrap();
    assert_eq!(count(&counters).await, 1);
    assert_eq!(others.count_documents(doc! {}).await.unwrap(), 2);
    session.commit_transaction().await.unwrap();
    assert_eq!(count(&counters).await, 1, "a repeated commit has no effect");
}

#[tokio::test]
async fn an_aborted_transaction_has_no_effect() {
    testbed::require!(testbed::shared::servers());
    let client = client().await;
    let counters = counter(&client, "aborted").await;
    let mut session = begin(&client).await;
    counters.update_one(doc! {}, increment_n()).session(&mut session).await.unwrap();
    session.abort_transaction().await.unwrap();
    assert_eq!(count(&counters).await, 0);
    // The session remains usable.
    counters.update_one(doc! {}, increment_n()).session(&mut session).await.unwrap();
    assert_eq!(count(&counters).await, 1);
}

#[tokio::test]
async fn a_write_conflict_is_a_transient_transaction_error() {
    testbed::require!(testbed::shared::servers());
    let client = client().await;
    let counters = counter(&client, "conflict").await;
    let (mut one, mut other) = (begin(&client).await, begin(&client).await);
    counters.update_one(doc! {}, increment_n()).session(&mut one).await.unwrap();
    let error = counters.update_one(doc! {}, increment_n()).session(&mut other).await.unwrap_err();
    assert_eq!(error.code(), Some(WRITE_CONFLICT), "{error:?}");
    assert!(error.contains_label(TRANSIENT_TRANSACTION_ERROR), "{error:?}");
    assert_eq!(error.outcome(), Outcome::NotApplied, "{error:?}");
    one.commit_transaction().await.unwrap();
    // The server has aborted the transaction, so the commit fails.
    let error = other.commit_transaction().await.unwrap_err();
    assert_eq!(error.code(), Some(NO_SUCH_TRANSACTION), "{error:?}");
    assert_eq!(error.outcome(), Outcome::NotApplied, "{error:?}");
    assert_eq!(count(&counters).await, 1);
}

#[tokio::test]
async fn a_duplicate_key_error_is_not_a_transient_transaction_error() {
    testbed::require!(testbed::shared::servers());
    let client = client().await;
    let counters = counter(&client, "duplicate").await;
    let mut session = begin(&client).await;
    counters.insert_one(doc! { "_id": 1 }).session(&mut session).await.unwrap();
    let error = counters.insert_one(doc! { "_id": 0 }).session(&mut session).await.unwrap_err();
    assert!(error.is_duplicate_key_error(), "{error:?}");
    assert!(!error.contains_label(TRANSIENT_TRANSACTION_ERROR), "{error:?}");
    session.abort_transaction().await.unwrap();
    assert_eq!(counters.count_documents(doc! {}).await.unwrap(), 1);
}

#[tokio::test]
async fn cursors_of_a_transaction_read_its_snapshot() {
    testbed::require!(testbed::shared::servers());
    let client = client().await;
    let counters = counter(&client, "cursors").await;
    let more = (1..100).map(|id| doc! { "_id": id });
    counters.insert_many(more).await.unwrap();
    let mut session = begin(&client).await;
    let find = counters.find(doc! {}).sort(doc! { "_id": 1 }).batch_size(10);
    let mut cursor = find.session(&mut session).await.unwrap();
    counters.delete_many(doc! {}).await.unwrap();
    let mut found = 0;
    while let Some(document) = cursor.next(&mut session).await {
        assert_eq!(document.unwrap().get_i32("_id").unwrap(), found);
        found += 1;
    }
    assert_eq!(found, 100, "the transaction reads its snapshot");
    session.commit_transaction().await.unwrap();
    // A dropped operation does not end the transaction.
    counters.insert_many((0..100).map(|id| doc! { "_id": id })).await.unwrap();
    session.start_transaction().await.unwrap();
    let mut cursor = counters.find(doc! {}).batch_size(2).session(&mut session).await.unwrap();
    assert!(cursor.advance(&mut session).await.unwrap());
    drop(cursor);
    for id in 100..120 {
        counters.insert_one(doc! { "_id": id }).session(&mut session).await.unwrap();
    }
    session.commit_transaction().await.unwrap();
    assert_eq!(counters.count_documents(doc! {}).await.unwrap(), 120);
}

#[tokio::test]
async fn a_dropped_session_releases_its_locks() {
    testbed::require!(testbed::shared::servers());
    let client = client().await;
    let counters = counter(&client, "abandoned").await;
    let mut session = begin(&client).await;
    counters.update_one(doc! {}, increment_n()).session(&mut session).await.unwrap();
    drop(session);
    // A write outside a transaction waits until the document is unlocked.
    bounded(counters.update_one(doc! {}, increment_n())).await.unwrap();
    assert_eq!(count(&counters).await, 1);
}

#[tokio::test]
async fn commit_dropped_at_any_point_can_be_repeated() {
    testbed::require!(testbed::shared::servers());
    let client = client().await;
    let counters = counter(&client, "dropped").await;
    for round in 0..60 {
        let mut session = begin(&client).await;
        counters.update_one(doc! {}, increment_n()).session(&mut session).await.unwrap();
        let limit = Duration::from_micros(round * 40);
        if tokio::time::timeout(limit, session.commit_transaction()).await.is_err() {
            let state = session.transaction_state();
            assert!(
                matches!(state, TransactionState::Committed { .. } | TransactionState::InProgress),
                "{state:?}"
            );
            session.commit_transaction().await.unwrap();
        }
    }
    assert_eq!(count(&counters).await, 60);
}

#[tokio::test]
async fn transaction_with_dropped_operations_can_be_aborted() {
    testbed::require!(testbed::shared::servers());
    let client = client().await;
    let counters = counter(&client, "dropped_operations").await;
    for round in 0..60 {
        let mut session = begin(&client).await;
        let update = counters.update_one(doc! {}, increment_n()).session(&mut session);
        let limit = Duration::from_micros(round * 40);
        let _ = tokio::time::timeout(limit, update.into_future()).await;
        session.abort_transaction().await.unwrap();
    }
    bounded(counters.update_one(doc! {}, increment_n())).await.unwrap();
    assert_eq!(count(&counters).await, 1);
}
