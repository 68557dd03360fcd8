//! Dropped futures in a transaction: no command leaves the transaction that it was built in, and no transaction
//! remains open on the server.
//!
//! The runtime has one thread, so the task of an operation runs only after the test has dropped its future.

use std::{pin::pin, time::Duration};

use futures_util::poll;

use super::{
    common::{Request, Server, Step},
    *,
};

/// Polls an operation once, so that the task of its command is spawned, then drops it.
async fn begin_and_drop<T>(operation: impl IntoFuture<Output = T>) {
    let mut operation = pin!(operation.into_future());
    assert!(poll!(operation.as_mut()).is_pending(), "the operation ended at its first poll");
}

async fn insert_and_drop(observed: &ObservedClient, session: &mut ClientSession) {
    begin_and_drop(observed.books.insert_one(doc! { "_id": "dropped" }).session(session)).await;
}

fn is_in_transaction(request: &Request) -> bool {
    request.body.get_bool("autocommit").is_ok_and(|autocommit| !autocommit)
}

/// Checks that every `insert` is part of a transaction.
#[track_caller]
fn assert_all_inserts_in_a_transaction(deployment: &Deployment) {
    for request in deployment.requests("insert") {
        assert!(is_in_transaction(&request), "{}", request.body);
    }
}

async fn wait_for_abort(deployment: &Deployment) {
    let aborted = |log: &common::ServerLog| !log.named("abortTransaction").is_empty();
    bounded(deployment.server().wait_for(aborted)).await;
}

#[tokio::test]
async fn a_command_spawned_before_the_session_is_dropped_stays_in_its_transaction() {
    let deployment = Deployment::primary();
    let observed = ObservedClient::new(&deployment, "").await;
    let mut session = begin(&observed).await;
    insert(&observed, &mut session).await.unwrap();
    insert_and_drop(&observed, &mut session).await;
    drop(session);
    wait_for_abort(&deployment).await;
    assert_all_inserts_in_a_transaction(&deployment);
}

#[tokio::test]
async fn first_command_spawned_before_the_session_is_dropped_starts_no_transaction() {
    let deployment = Deployment::primary();
    let observed = ObservedClient::new(&deployment, "").await;
    observed.ping().await;
    let mut session = begin(&observed).await;
    insert_and_drop(&observed, &mut session).await;
    drop(session);
    // The task of the dropped operation was spawned earlier, and needs at most this number of polls.
    for _ in 0..3 {
        observed.ping().await;
    }
    assert_eq!(deployment.requests("insert").len(), 0);
}

#[tokio::test]
async fn a_command_spawned_before_an_abort_is_not_sent_after_it() {
    let deployment = Deployment::primary();
    let observed = ObservedClient::new(&deployment, "").await;
    let mut session = begin(&observed).await;
    insert(&observed, &mut session).await.unwrap();
    insert_and_drop(&observed, &mut session).await;
    abort(&mut session).await;
    insert(&observed, &mut session).await.unwrap();
    let inserts = deployment.requests("insert");
    let outside: Vec<_> = inserts.iter().filter(|it| !is_in_transaction(it)).collect();
    assert_eq!(outside.len(), 1, "only the insert after the abort is outside: {outside:?}");
}

#[tokio::test]
async fn get_more_spawned_before_the_session_is_dropped_is_not_sent_outside_the_transaction() {
    let batch = |field: &str, documents: Vec<Document>| {
        let cursor = doc! { "id": 7_i64, "ns": "db.books", field: documents };
        Some(vec![Step::Reply(doc! { "ok": 1, "cursor": cursor })])
    };
    let handler = move |request: &Request| match request.name.as_str() {
        "find" => batch("firstBatch", vec![doc! { "_id": 1 }]),
        "getMore" => batch("nextBatch", vec![]),
        "abortTransaction" => Some(vec![Step::Reply(doc! { "ok": 1 })]),
        _ => None,
    };
    let server = Server::builder().role(Role::Primary).handler(handler).start();
    let client = Client::with_uri_str(server.uri("replicaSet=set")).await.unwrap();
    let books = client.database("db").collection::<Document>("books");
    let mut session = client.start_session().await.unwrap();
    session.start_transaction().await.unwrap();
    let mut cursor = books.find(doc! {}).batch_size(1).session(&mut session).await.unwrap();
    assert!(bounded(cursor.next(&mut session)).await.is_some());
    begin_and_drop(cursor.next(&mut session)).await;
    drop(session);
    let aborted = |log: &common::ServerLog| !log.named("abortTransaction").is_empty();
    let log = bounded(server.wait_for(aborted)).await;
    for request in log.named("getMore") {
        assert!(is_in_transaction(request), "{}", request.body);
    }
}

#[tokio::test]
async fn dropping_and_run_aborts_the_transaction_of_a_live_session() {
    let deployment = Deployment::primary();
    let observed = ObservedClient::new(&deployment, "").await;
    let mut session = observed.client.start_session().await.unwrap();
    {
        let mut run =
            pin!(session.start_transaction().and_run2(async |session: &mut ClientSession| {
                insert(&observed, session).await?;
                std::future::pending::<Result<()>>().await
            }));
        let inserted = |log: &common::ServerLog| !log.named("insert").is_empty();
        tokio::select! {
            _ = &mut run => unreachable!("its callback does not end"),
            _ = deployment.server().wait_for(inserted) => {}
        }
    }
    assert_eq!(session.transaction_state(), TransactionState::Aborted);
    // The next operation of the session waits for the abort, and is not part of the transaction.
    insert(&observed, &mut session).await.unwrap();
    assert_eq!(observed.numbers("abortTransaction"), [Some(1)]);
    let last = deployment.requests("insert").pop().unwrap();
    assert!(!last.body.contains_key("autocommit"), "{}", last.body);
}

fn is_start_of(event: &CommandEvent, name: &str) -> bool {
    matches!(event, CommandEvent::Started(it) if it.command_name == name)
}

fn is_end_of(event: &CommandEvent, name: &str) -> bool {
    match event {
        CommandEvent::Succeeded(it) => it.command_name == name,
        CommandEvent::Failed(it) => it.command_name == name,
        _ => false,
    }
}

#[tokio::test]
async fn the_abort_of_a_dropped_transaction_goes_to_its_mongos() {
    let (_deployment, observed) = two_mongos("").await;
    for round in 1..=10 {
        {
            // The session is dropped together with the future, as by a time-out around both.
            let mut run = pin!(async {
                let mut session = observed.client.start_session().await.unwrap();
                let run =
                    session.start_transaction().and_run2(async |session: &mut ClientSession| {
                        insert(&observed, session).await?;
                        std::future::pending::<Result<()>>().await
                    });
                run.await
            });
            tokio::select! {
                _ = &mut run => unreachable!("its callback does not end"),
                () = observed.commands.wait_for(round, |it| is_end_of(it, "insert")) => {}
            }
        }
        bounded(observed.commands.wait_for(round, |it| is_end_of(it, "abortTransaction"))).await;
        let to = |name| observed.started(name).pop().unwrap().connection.address;
        assert_eq!(to("abortTransaction"), to("insert"), "round {round}");
    }
}

#[tokio::test]
async fn abort_dropped_before_sending_is_sent_with_the_next_operation_of_the_session() {
    let deployment = Deployment::primary();
    let observed = ObservedClient::new(&deployment, "maxPoolSize=1").await;
    let mut session = begin(&observed).await;
    insert(&observed, &mut session).await.unwrap();
    let slow = tokio::spawn({
        let database = observed.client.database("db");
        async move { bounded(database.run_command(doc! { "slow": 1 })).await }
    });
    deployment.server().wait_for(|log| !log.named("slow").is_empty()).await;
    // The abort waits for the only connection.
    begin_and_drop(session.abort_transaction()).await;
    deployment.gate.open();
    slow.await.unwrap().unwrap_err();
    bounded(observed.books.find_one(doc! {}).session(&mut session)).await.unwrap();
    bounded(observed.commands.wait_for(1, |it| is_end_of(it, "abortTransaction"))).await;
    assert_eq!(observed.numbers("abortTransaction"), [Some(1)]);
    assert!(observed.commands.seen().iter().any(|it| is_start_of(it, "find")));
}

#[tokio::test]
async fn shutdown_waits_for_the_abort_of_a_dropped_session() {
    let deployment = Deployment::primary();
    let observed = ObservedClient::new(&deployment, "").await;
    let mut session = begin(&observed).await;
    insert(&observed, &mut session).await.unwrap();
    drop(session);
    bounded(observed.client.clone().shutdown()).await;
    assert_eq!(deployment.requests("abortTransaction").len(), 1);
}

const OVERLOADED: Fault = Fault::CommandError(462, &["SystemOverloadedError", "RetryableError"]);

/// Session whose commit an overloaded server rejected until the retries ended.
async fn with_rejected_commit(deployment: &Deployment, observed: &ObservedClient) -> ClientSession {
    let mut session = begin(observed).await;
    insert(observed, &mut session).await.unwrap();
    deployment.inject(&[OVERLOADED]);
    let error = commit(&mut session).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::NotApplied);
    session
}

#[tokio::test]
async fn a_transaction_whose_commit_was_rejected_is_aborted_with_its_session() {
    let deployment = Deployment::primary();
    let observed = ObservedClient::new(&deployment, "maxAdaptiveRetries=0").await;
    drop(with_rejected_commit(&deployment, &observed).await);
    bounded(observed.client.clone().shutdown()).await;
    assert_eq!(observed.numbers("abortTransaction"), [Some(1)]);
}

#[tokio::test]
async fn a_transaction_whose_commit_was_rejected_is_aborted_before_the_next_begins() {
    let deployment = Deployment::primary();
    let observed = ObservedClient::new(&deployment, "maxAdaptiveRetries=0").await;
    let mut session = with_rejected_commit(&deployment, &observed).await;
    session.start_transaction().await.unwrap();
    insert(&observed, &mut session).await.unwrap();
    commit(&mut session).await.unwrap();
    assert_eq!(observed.numbers("abortTransaction"), [Some(1)]);
    assert_eq!(observed.numbers("commitTransaction"), [Some(1), Some(2)]);
}

#[tokio::test]
async fn rejected_commit_can_be_repeated() {
    let deployment = Deployment::primary();
    let observed = ObservedClient::new(&deployment, "maxAdaptiveRetries=0").await;
    let mut session = with_rejected_commit(&deployment, &observed).await;
    commit(&mut session).await.unwrap();
    drop(session);
    bounded(observed.client.clone().shutdown()).await;
    assert_eq!(observed.numbers("commitTransaction"), [Some(1), Some(1)]);
    assert_eq!(observed.numbers("abortTransaction"), [], "it is committed");
}

#[tokio::test]
async fn rejected_abort_is_repeated_when_its_session_is_dropped() {
    let deployment = Deployment::primary();
    let observed = ObservedClient::new(&deployment, "maxAdaptiveRetries=0").await;
    let mut session = begin(&observed).await;
    insert(&observed, &mut session).await.unwrap();
    deployment.inject(&[OVERLOADED]);
    abort(&mut session).await;
    drop(session);
    bounded(observed.client.clone().shutdown()).await;
    assert_eq!(observed.numbers("abortTransaction"), [Some(1), Some(1)]);
}

#[tokio::test]
async fn a_transaction_that_the_server_has_aborted_is_not_aborted_again() {
    let deployment = Deployment::primary();
    let observed = ObservedClient::new(&deployment, "").await;
    let mut session = begin(&observed).await;
    insert(&observed, &mut session).await.unwrap();
    deployment.inject(&[Fault::CommandError(NO_SUCH_TRANSACTION, TRANSIENT)]);
    let error = commit(&mut session).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::NotApplied);
    drop(session);
    bounded(observed.client.clone().shutdown()).await;
    assert_eq!(observed.numbers("abortTransaction"), []);
}

#[tokio::test]
async fn a_background_abort_waits_for_a_connection_as_long_as_the_transaction_may_be_open() {
    let deployment = Deployment::primary();
    let clock = Clock::stopped();
    let observed = ObservedClient::new(&deployment, "maxPoolSize=1").await;
    let mut session = begin(&observed).await;
    insert(&observed, &mut session).await.unwrap();
    let slow = tokio::spawn({
        let database = observed.client.database("db");
        async move { bounded(database.run_command(doc! { "slow": 1 })).await }
    });
    deployment.server().wait_for(|log| !log.named("slow").is_empty()).await;
    drop(session);
    clock.pass(Duration::from_secs(20)).await;
    deployment.gate.open();
    slow.await.unwrap().unwrap_err();
    // The connection broke. A new one is established after the next heartbeat.
    let aborted = observed.commands.wait_for(1, |it| is_end_of(it, "abortTransaction"));
    clock.pass_until(Duration::from_millis(100), aborted).await;
}

#[tokio::test]
async fn shutdown_waits_five_seconds_for_an_abort_without_a_reply() {
    let deployment = Deployment::primary();
    let clock = Clock::stopped();
    let observed = ObservedClient::new(&deployment, "").await;
    let mut session = begin(&observed).await;
    insert(&observed, &mut session).await.unwrap();
    deployment.inject(&[Fault::NoReply]);
    drop(session);
    wait_for_abort(&deployment).await;
    let began = tokio::time::Instant::now();
    let shutdown = observed.client.clone().shutdown().into_future();
    clock.pass_until(Duration::from_secs(1), shutdown).await;
    let waited = began.elapsed().as_secs();
    assert!((5..=8).contains(&waited), "{waited} s");
    clock.pass(Duration::from_secs(60)).await;
    bounded(observed.commands.wait_for(1, |it| is_end_of(it, "abortTransaction"))).await;
}
