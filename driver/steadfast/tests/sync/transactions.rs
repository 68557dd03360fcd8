//! Transactions of the blocking API.

use steadfast::{
    TransactionState,
    bson::{Document, doc},
    error::{Error, ErrorKind, Result, TRANSIENT_TRANSACTION_ERROR},
    options::WriteConcern,
    sync::{Client, ClientSession},
};

use super::{collection, replica_set};

fn ids(client: &Client) -> Vec<i32> {
    let cursor = collection(client).find(doc! {}).sort(doc! { "_id": 1 }).run().expect("found");
    let id = |document: Result<Document>| document.expect("read").get_i32("_id").expect("an id");
    cursor.map(id).collect()
}

#[test]
fn transaction_is_committed_or_aborted() {
    let (_deployment, client) = replica_set();
    let numbers = collection(&client);
    let mut session = client.start_session().run().expect("a session");
    session.start_transaction().write_concern(WriteConcern::majority()).run().expect("started");
    numbers.insert_one(doc! { "_id": 1 }).session(&mut session).run().expect("inserted");
    assert_eq!(session.transaction_state(), TransactionState::InProgress);
    assert_eq!(ids(&client), [0; 0]);
    session.commit_transaction().run().expect("committed");
    assert_eq!(ids(&client), [1]);

    session.start_transaction().run().expect("started");
    numbers.insert_one(doc! { "_id": 2 }).session(&mut session).run().expect("inserted");
    session.abort_transaction().run().expect("aborted");
    assert_eq!(ids(&client), [1]);
    let error = session.commit_transaction().run().expect_err("it is aborted");
    assert!(matches!(&*error.kind, ErrorKind::Transaction { .. }), "{error}");
}

#[test]
fn and_run_commits() {
    let (_deployment, client) = replica_set();
    let numbers = collection(&client);
    let mut session = client.start_session().run().expect("a session");
    let transaction = session.start_transaction().write_concern(WriteConcern::majority());
    let inserted = transaction.and_run(|session| {
        numbers.insert_one(doc! { "_id": 1 }).session(&mut *session).run()?;
        numbers.insert_one(doc! { "_id": 2 }).session(session).run()
    });
    assert_eq!(inserted.expect("committed").inserted_id.as_i32(), Some(2));
    assert_eq!(ids(&client), [1, 2]);
}

#[test]
fn and_run_aborts_after_an_error_of_the_callback() {
    let (_deployment, client) = replica_set();
    let numbers = collection(&client);
    let mut session = client.start_session().run().expect("a session");
    let mut calls = 0;
    let ended: Result<()> = session.start_transaction().and_run(|session| {
        calls += 1;
        numbers.insert_one(doc! { "_id": 1 }).session(session).run()?;
        Err(Error::custom("not enough"))
    });
    let error = ended.expect_err("the error of the callback");
    assert_eq!(error.get_custom::<&str>(), Some(&"not enough"));
    assert_eq!((calls, session.transaction_state()), (1, TransactionState::Aborted));
    assert_eq!(ids(&client), [0; 0]);
}

#[test]
fn and_run_repeats_the_transaction_after_a_transient_error() {
    let (deployment, client) = replica_set();
    let fail_point = doc! {
        "configureFailPoint": "failCommand",
        "mode": { "times": 1 },
        "data": {
            "failCommands": ["insert"],
            "errorCode": 112,
            "errorLabels": [TRANSIENT_TRANSACTION_ERROR],
        },
    };
    deployment.faults().configure_fail_point(0, fail_point).expect("configured");
    let numbers = collection(&client);
    let mut calls = 0;
    let insert = |session: &mut ClientSession| {
        calls += 1;
        numbers.insert_one(doc! { "_id": calls }).session(session).run()
    };
    let mut session = client.start_session().run().expect("a session");
    session.start_transaction().and_run(insert).expect("committed");
    assert_eq!((calls, ids(&client)), (2, vec![2]));
}

#[test]
fn panic_in_the_callback_aborts_the_transaction() {
    let (_deployment, client) = replica_set();
    let numbers = collection(&client);
    let mut session = client.start_session().run().expect("a session");
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        session.start_transaction().and_run(|session| -> Result<()> {
            numbers.insert_one(doc! { "_id": 1 }).session(session).run()?;
            panic!("in the callback")
        })
    }));
    assert!(panicked.is_err());
    assert_eq!(session.transaction_state(), TransactionState::Aborted);
    numbers.insert_one(doc! { "_id": 2 }).session(&mut session).run().expect("inserted");
    assert_eq!(ids(&client), [2]);
}
