//! Operations and options that a transaction rejects or overrides.

use steadfast::options::{
    CollectionOptions, ReadConcern, ReadPreference, SelectionCriteria, SessionOptions,
    TransactionOptions, WriteConcern,
};
use testbed::{Mongod, Options};

use super::*;

#[track_caller]
fn assert_message_contains(error: &Error, text: &str) {
    assert!(error.to_string().contains(text), "{error:?}");
}

#[tokio::test]
async fn calls_in_the_wrong_order_are_errors_without_effect() {
    testbed::require!(testbed::shared::servers());
    let client = client().await;
    let counters = counter(&client, "order").await;
    let mut session = client.start_session().await.unwrap();
    for error in [session.commit_transaction().await, session.abort_transaction().await] {
        assert_message_contains(&error.unwrap_err(), "no transaction started");
    }
    session.start_transaction().await.unwrap();
    let error = session.start_transaction().await.unwrap_err();
    assert!(matches!(&*error.kind, ErrorKind::Transaction { .. }), "{error:?}");
    assert_message_contains(&error, "transaction already in progress");
    assert_eq!(error.outcome(), Outcome::NotSent);
    counters.update_one(doc! {}, increment_n()).session(&mut session).await.unwrap();
    session.abort_transaction().await.unwrap();
    let error = session.abort_transaction().await.unwrap_err();
    assert_message_contains(&error, "cannot call abortTransaction twice");
    let error = session.commit_transaction().await.unwrap_err();
    assert_message_contains(&error, "Cannot call commitTransaction after calling abortTransaction");
    session.start_transaction().await.unwrap();
    session.commit_transaction().await.unwrap();
    let error = session.abort_transaction().await.unwrap_err();
    assert_message_contains(&error, "Cannot call abortTransaction after calling commitTransaction");
}

#[tokio::test]
async fn read_and_write_concerns_of_operations_in_a_transaction_are_rejected() {
    testbed::require!(testbed::shared::servers());
    let client = client().await;
    let counters = counter(&client, "concerns").await;
    let mut session = begin(&client).await;
    let one = counters.insert_one(doc! {}).write_concern(WriteConcern::majority());
    let error = one.session(&mut session).await.unwrap_err();
    assert!(error.is_invalid_argument(), "{error:?}");
    assert_message_contains(&error, "Cannot set write concern after starting a transaction");
    let many = counters.insert_many([doc! {}]).write_concern(WriteConcern::majority());
    let error = many.session(&mut session).await.unwrap_err();
    assert_message_contains(&error, "Cannot set write concern after starting a transaction");
    let find = counters.find_one(doc! {}).read_concern(ReadConcern::local());
    let error = find.session(&mut session).await.unwrap_err();
    assert_message_contains(&error, "Cannot set read concern after starting a transaction");
    let secondary = SelectionCriteria::from(ReadPreference::secondary(None));
    let find = counters.find_one(doc! {}).selection_criteria(secondary);
    let error = find.session(&mut session).await.unwrap_err();
    assert_message_contains(&error, "read preference in a transaction must be primary");
    // The driver rejects these itself, so the transaction remains usable.
    assert_eq!(session.transaction_state(), TransactionState::Starting);
    counters.insert_one(doc! {}).session(&mut session).await.unwrap();
    session.commit_transaction().await.unwrap();
}

#[tokio::test]
async fn collection_options_are_ignored_in_a_transaction() {
    testbed::require!(testbed::shared::servers());
    let client = client().await;
    let name = "overruled";
    counter(&client, name).await;
    let options = CollectionOptions::builder()
        .write_concern(WriteConcern::nodes(0))
        .read_concern(ReadConcern::linearizable())
        .selection_criteria(SelectionCriteria::from(ReadPreference::secondary(None)))
        .build();
    let database = client.database("transactions");
    let counters = database.collection_with_options::<Document>(name, options);
    let mut session = begin(&client).await;
    counters.insert_one(doc! { "_id": 1 }).session(&mut session).await.unwrap();
    counters.insert_many([doc! { "_id": 2 }]).session(&mut session).await.unwrap();
    assert!(counters.find_one(doc! { "_id": 2 }).session(&mut session).await.unwrap().is_some());
    let deleted = counters.delete_one(doc! { "_id": 2 }).session(&mut session).await.unwrap();
    assert_eq!(deleted.deleted_count, 1, "it is acknowledged");
    session.commit_transaction().await.unwrap();
    assert_eq!(database.collection::<Document>(name).count_documents(doc! {}).await.unwrap(), 2);
}

#[tokio::test]
async fn unacknowledged_write_concerns_are_rejected_in_transactions() {
    testbed::require!(testbed::shared::servers());
    let client = client().await;
    let unacknowledged = WriteConcern::nodes(0);
    let mut session = client.start_session().await.unwrap();
    let error =
        session.start_transaction().write_concern(unacknowledged.clone()).await.unwrap_err();
    assert_message_contains(&error, "transactions do not support unacknowledged write concerns");
    let options = TransactionOptions::builder().write_concern(unacknowledged).build();
    let options = SessionOptions::builder().default_transaction_options(options).build();
    let mut session = client.start_session().with_options(options).await.unwrap();
    assert!(session.start_transaction().await.is_err());
    // The innermost option applies.
    session.start_transaction().write_concern(WriteConcern::majority()).await.unwrap();
}

#[tokio::test]
async fn read_preference_in_a_transaction_must_be_primary() {
    testbed::require!(testbed::shared::servers());
    let client = client().await;
    let counters = counter(&client, "primary").await;
    let nearest = SelectionCriteria::from(ReadPreference::nearest(None));
    let mut session = client.start_session().await.unwrap();
    session.start_transaction().selection_criteria(nearest).await.unwrap();
    counters.update_one(doc! {}, increment_n()).session(&mut session).await.unwrap();
    let error = counters.find_one(doc! {}).session(&mut session).await.unwrap_err();
    assert_message_contains(&error, "read preference in a transaction must be primary");
    session.commit_transaction().await.unwrap();
    assert_eq!(count(&counters).await, 1);
}

#[tokio::test]
async fn a_snapshot_session_has_no_transactions() {
    testbed::require!(testbed::shared::servers());
    let client = client().await;
    let mut session = client.start_session().snapshot(true).await.unwrap();
    let error = session.start_transaction().await.unwrap_err();
    assert_message_contains(&error, "Transactions are not supported in snapshot sessions");
}

#[tokio::test]
async fn a_standalone_server_has_no_transactions() {
    testbed::require!(V6_0);
    let server = Mongod::standalone(Options::new()).expect("a server");
    let client = Client::with_uri_str(server.uri()).await.unwrap();
    let database = client.database("transactions");
    database.run_command(doc! { "ping": 1 }).await.unwrap();
    let mut session = client.start_session().await.unwrap();
    let error = session.start_transaction().await.unwrap_err();
    assert_message_contains(&error, "not supported by this deployment");
}
