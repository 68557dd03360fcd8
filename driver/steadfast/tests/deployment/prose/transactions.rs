//! Prose tests of transactions and of the convenient API, and commits with lost replies.
//!
//! Tests of pinning to a mongos are in `mongos`. Omitted: the test of `PoolClearedError` (the tests of retrying use
//! scripted servers); the time-outs and the backoff of the convenient API, which are tested with a stopped clock.

use steadfast::{
    ClientSession,
    error::{Outcome, UNKNOWN_TRANSACTION_COMMIT_RESULT},
    options::{CollectionOptions, WriteConcern},
};

use super::*;

async fn prepared(observed: &ProseClient, name: &str) -> steadfast::Collection<Document> {
    let numbers = observed.collection(name);
    numbers.drop().await.unwrap();
    numbers.insert_one(doc! { "_id": 0 }).await.unwrap();
    numbers
}

#[tokio::test]
async fn prose_options_1_a_write_concern_is_not_inherited_inside_a_transaction() {
    testbed::require!(V6_0);
    let observed = ProseClient::new("transactions, options 1", |_| ()).await;
    let name = "transactions_options_1";
    let numbers = prepared(&observed, name).await;
    let options = CollectionOptions::builder().write_concern(WriteConcern::nodes(0)).build();
    let unacknowledged =
        observed.client.database("prose").collection_with_options::<Document>(name, options);
    let mut session = observed.client.start_session().await.unwrap();
    session.start_transaction().await.unwrap();
    unacknowledged.insert_one(doc! { "n": 1 }).session(&mut session).await.unwrap();
    session.commit_transaction().await.unwrap();
    assert!(numbers.find_one(doc! { "n": 1 }).await.unwrap().is_some());
}

#[tokio::test]
async fn prose_convenient_the_callback_raises_a_custom_error() {
    testbed::require!(V6_0);
    let observed = ProseClient::new("transactions, convenient 1", |_| ()).await;
    let numbers = prepared(&observed, "transactions_convenient_1").await;
    let mut session = observed.client.start_session().await.unwrap();
    let run = session.start_transaction().and_run2(async |session: &mut ClientSession| {
        numbers.insert_one(doc! {}).session(session).await?;
        Err::<(), _>(Error::custom(17))
    });
    assert_eq!(bounded(run).await.unwrap_err().get_custom(), Some(&17));
    assert_eq!(observed.started("commitTransaction"), 0);
    assert_eq!(observed.started("abortTransaction"), 1);
}

#[tokio::test]
async fn prose_convenient_the_callback_returns_a_value() {
    testbed::require!(V6_0);
    let observed = ProseClient::new("transactions, convenient 2", |_| ()).await;
    let numbers = prepared(&observed, "transactions_convenient_2").await;
    let mut session = observed.client.start_session().await.unwrap();
    let run = session.start_transaction().and_run2(async |session: &mut ClientSession| {
        numbers.insert_one(doc! {}).session(session).await?;
        Ok("Foo")
    });
    assert_eq!(bounded(run).await.unwrap(), "Foo");
}

#[tokio::test]
async fn a_commit_with_a_lost_reply_is_retried() {
    testbed::require!(V6_0);
    let app_name = "transactions, one lost commit";
    let observed = ProseClient::new(app_name, |_| ()).await;
    let numbers = prepared(&observed, "transactions_lost_once").await;
    let data = doc! { "failCommands": ["commitTransaction"], "closeConnection": true };
    let _point = FailPoint::on_primary(1, data, app_name).await;
    let mut session = observed.client.start_session().await.unwrap();
    session.start_transaction().await.unwrap();
    numbers.insert_one(doc! { "_id": 1 }).session(&mut session).await.unwrap();
    bounded(session.commit_transaction()).await.unwrap();
    assert_eq!(observed.started("commitTransaction"), 2);
    assert_eq!(numbers.count_documents(doc! {}).await.unwrap(), 2);
}

#[tokio::test]
async fn a_commit_that_is_lost_twice_has_an_unknown_result_until_it_is_repeated() {
    testbed::require!(V6_0);
    let app_name = "transactions, two lost commits";
    let observed = ProseClient::new(app_name, |_| ()).await;
    let numbers = prepared(&observed, "transactions_lost_twice").await;
    let data = doc! { "failCommands": ["commitTransaction"], "closeConnection": true };
    let _point = FailPoint::on_primary(2, data, app_name).await;
    let mut session = observed.client.start_session().await.unwrap();
    session.start_transaction().await.unwrap();
    numbers.insert_one(doc! { "_id": 1 }).session(&mut session).await.unwrap();
    let error = bounded(session.commit_transaction()).await.unwrap_err();
    assert!(error.contains_label(UNKNOWN_TRANSACTION_COMMIT_RESULT), "{error:?}");
    assert_eq!(error.outcome(), Outcome::MaybeApplied, "{error:?}");
    bounded(session.commit_transaction()).await.unwrap();
    assert_eq!(numbers.count_documents(doc! {}).await.unwrap(), 2);
}

#[tokio::test]
async fn and_run2_repeats_lost_commits_without_running_the_callback_again() {
    testbed::require!(V6_0);
    let app_name = "transactions, convenient lost commits";
    let observed = ProseClient::new(app_name, |_| ()).await;
    let numbers = prepared(&observed, "transactions_convenient_lost").await;
    let data = doc! { "failCommands": ["commitTransaction"], "closeConnection": true };
    let _point = FailPoint::on_primary(3, data, app_name).await;
    let mut runs = 0;
    let mut session = observed.client.start_session().await.unwrap();
    let run = session.start_transaction().and_run2(async |session: &mut ClientSession| {
        runs += 1;
        numbers.insert_one(doc! { "_id": 1 }).session(session).await
    });
    bounded(run).await.unwrap();
    assert_eq!((runs, observed.started("commitTransaction")), (1, 4));
    assert_eq!(numbers.count_documents(doc! {}).await.unwrap(), 2);
}

#[tokio::test]
async fn and_run2_runs_the_callback_again_after_a_lost_operation() {
    testbed::require!(V6_0);
    let app_name = "transactions, lost operation";
    let observed = ProseClient::new(app_name, |_| ()).await;
    let numbers = prepared(&observed, "transactions_lost_operation").await;
    let data = doc! { "failCommands": ["insert"], "closeConnection": true };
    let _point = FailPoint::on_primary(1, data, app_name).await;
    let mut runs = 0;
    let mut session = observed.client.start_session().await.unwrap();
    let run = session.start_transaction().and_run2(async |session: &mut ClientSession| {
        runs += 1;
        let update = doc! { "$inc": { "n": 1 } };
        numbers.update_one(doc! { "_id": 0 }, update).session(&mut *session).await?;
        numbers.insert_one(doc! { "_id": 1 }).session(session).await
    });
    bounded(run).await.unwrap();
    assert_eq!(runs, 2);
    let found = numbers.find_one(doc! { "_id": 0 }).await.unwrap().unwrap();
    assert_eq!(found.get_i32("n").unwrap(), 1);
}
