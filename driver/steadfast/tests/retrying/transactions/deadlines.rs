//! Time-out of a transaction: it covers all operations of the transaction, and ends with it.

use std::time::Duration;

use steadfast::options::{TimeoutMode, TransactionOptions};

use super::*;

const TIMEOUT: Duration = Duration::from_millis(100);
const MAX_TIME_EXPIRED: i32 = 50;
/// Time-out that no test reaches.
const LONG_TIMEOUT: Duration = Duration::from_secs(600);

async fn begin_within(observed: &ObservedClient, timeout: Duration) -> ClientSession {
    let mut session = observed.client.start_session().await.unwrap();
    session.start_transaction().timeout(timeout).await.unwrap();
    session
}

/// Checks that operations of the session have no time-out, and can have their own.
async fn assert_unlimited(observed: &ObservedClient, session: &mut ClientSession, after: &str) {
    insert(observed, session).await.unwrap_or_else(|error| panic!("{after}: {error}"));
    let sent = observed.started("insert").pop().unwrap().command;
    assert!(!sent.contains_key("maxTimeMS"), "{after}: {sent}");
    let own = observed.books.insert_one(doc! {}).timeout(LONG_TIMEOUT).session(&mut *session);
    bounded(own).await.unwrap_or_else(|error| panic!("{after}: {error}"));
    bounded(observed.books.insert_many([doc! {}]).timeout(LONG_TIMEOUT).session(session))
        .await
        .unwrap_or_else(|error| panic!("{after}: {error}"));
}

#[tokio::test]
async fn the_timeout_of_a_transaction_ends_with_it() {
    let deployment = Deployment::primary();
    let observed = ObservedClient::new(&deployment, "").await;
    let mut session = begin_within(&observed, LONG_TIMEOUT).await;
    commit(&mut session).await.unwrap();
    assert_unlimited(&observed, &mut session, "an empty transaction was committed").await;

    session.start_transaction().timeout(LONG_TIMEOUT).await.unwrap();
    abort(&mut session).await;
    assert_unlimited(&observed, &mut session, "an empty transaction was aborted").await;

    session.start_transaction().timeout(LONG_TIMEOUT).await.unwrap();
    insert(&observed, &mut session).await.unwrap();
    commit(&mut session).await.unwrap();
    assert_unlimited(&observed, &mut session, "a transaction was committed").await;

    session.start_transaction().timeout(LONG_TIMEOUT).await.unwrap();
    insert(&observed, &mut session).await.unwrap();
    abort(&mut session).await;
    assert_unlimited(&observed, &mut session, "a transaction was aborted").await;

    session.start_transaction().timeout(LONG_TIMEOUT).await.unwrap();
    insert(&observed, &mut session).await.unwrap();
    deployment.inject(&[Fault::CommandError(NO_SUCH_TRANSACTION, TRANSIENT)]);
    commit(&mut session).await.unwrap_err();
    assert_unlimited(&observed, &mut session, "a transaction could not be committed").await;
}

#[tokio::test]
async fn the_timeout_of_and_run2_ends_with_its_transaction() {
    let deployment = Deployment::primary();
    let observed = ObservedClient::new(&deployment, "").await;
    let books = &observed.books;
    let mut session = observed.client.start_session().await.unwrap();
    let run = session.start_transaction().timeout(LONG_TIMEOUT);
    let run = run.and_run2(async |session: &mut ClientSession| {
        books.insert_one(doc! {}).session(session).await
    });
    bounded(run).await.unwrap();
    assert_unlimited(&observed, &mut session, "it was committed").await;

    let run = session.start_transaction().timeout(LONG_TIMEOUT);
    let run = run.and_run2(async |session: &mut ClientSession| {
        books.insert_one(doc! {}).session(session).await?;
        Err::<(), _>(Error::custom("enough"))
    });
    bounded(run).await.unwrap_err();
    assert_unlimited(&observed, &mut session, "the callback failed").await;

    let run = session.start_transaction().timeout(LONG_TIMEOUT);
    let mut run = Box::pin(run.and_run2(async |session: &mut ClientSession| {
        books.insert_one(doc! {}).session(session).await?;
        std::future::pending::<Result<()>>().await
    }));
    let sent = deployment.requests("insert").len() + 1;
    tokio::select! {
        ended = &mut run => panic!("{ended:?}"),
        _ = deployment.server().wait_for(|log| log.named("insert").len() >= sent) => {}
    }
    drop(run);
    abort(&mut session).await;
    assert_unlimited(&observed, &mut session, "its future was dropped").await;
}

#[tokio::test]
async fn waiting_for_a_dropped_operation_counts_towards_the_timeout() {
    let deployment = Deployment::primary();
    let clock = Clock::stopped();
    let observed = ObservedClient::new(&deployment, "").await;
    let mut session = begin(&observed).await;
    deployment.inject(&[Fault::NoReply]);
    {
        let dropped = observed.books.insert_one(doc! {}).session(&mut session);
        let mut dropped = Box::pin(dropped.into_future());
        tokio::select! {
            ended = &mut dropped => panic!("{ended:?}"),
            _ = deployment.server().wait_for(|log| log.named("insert").len() == 1) => {}
        }
    }
    let late = observed.books.insert_one(doc! {}).timeout(TIMEOUT).session(&mut session);
    // The wait for a dropped operation would be much longer.
    let (ended, ()) = tokio::join!(bounded(late), clock.pass(TIMEOUT));
    let error = ended.unwrap_err();
    assert!(error.is_timeout(), "{error:?}");
    assert_eq!(error.outcome(), Outcome::NotSent, "{error:?}");
    assert_eq!(deployment.requests("insert").len(), 1);
}

#[tokio::test]
async fn a_commit_that_timed_out_is_maybe_applied_and_can_be_repeated() {
    let deployment = Deployment::primary();
    let clock = Clock::stopped();
    let observed = ObservedClient::new(&deployment, "").await;
    let mut session = begin_within(&observed, TIMEOUT).await;
    insert(&observed, &mut session).await.unwrap();
    deployment.inject(&[Fault::NoReply]);
    let unanswered = deployment.expire_without_reply(&clock, "commitTransaction", 1, TIMEOUT);
    let error = tokio::join!(commit(&mut session), unanswered).0.unwrap_err();
    assert!(error.is_timeout(), "{error:?}");
    assert!(error.contains_label(UNKNOWN_TRANSACTION_COMMIT_RESULT), "{error:?}");
    assert!(!error.contains_label(TRANSIENT_TRANSACTION_ERROR), "{error:?}");
    assert_eq!(error.outcome(), Outcome::MaybeApplied);
    commit(&mut session).await.unwrap();
    assert_eq!(deployment.requests("commitTransaction").len(), 2);
}

#[tokio::test]
async fn an_operation_that_timed_out_unpins_its_connection_behind_a_load_balancer() {
    let deployment = Deployment::start(Role::LoadBalanced);
    let clock = Clock::stopped();
    let observed = ObservedClient::new(&deployment, "loadBalanced=true").await;
    let mut session = begin(&observed).await;
    insert(&observed, &mut session).await.unwrap();
    deployment.inject(&[Fault::NoReply]);
    let late = observed.books.insert_one(doc! {}).timeout(TIMEOUT).session(&mut session);
    let unanswered = deployment.expire_without_reply(&clock, "insert", 2, TIMEOUT);
    let error = tokio::join!(bounded(late), unanswered).0.unwrap_err();
    assert!(error.is_timeout(), "{error:?}");
    assert!(error.contains_label(TRANSIENT_TRANSACTION_ERROR), "{error:?}");
    assert_eq!(error.outcome(), Outcome::MaybeApplied);
    abort(&mut session).await;
    session.start_transaction().await.unwrap();
    insert(&observed, &mut session).await.unwrap();
    commit(&mut session).await.unwrap();
    let log = deployment.server().log();
    let inserts = log.connections_of("insert");
    assert_eq!(inserts[0], inserts[1]);
    assert_ne!(inserts[1], inserts[2], "the next command uses another connection");
    observed.started("insert");
}

#[tokio::test]
async fn an_operation_that_was_not_sent_keeps_the_pinned_connection() {
    let deployment = Deployment::start(Role::LoadBalanced);
    let observed = ObservedClient::new(&deployment, "loadBalanced=true").await;
    let mut session = begin(&observed).await;
    insert(&observed, &mut session).await.unwrap();
    let late =
        observed.books.insert_one(doc! {}).timeout(Duration::from_nanos(1)).session(&mut session);
    let error = bounded(late).await.unwrap_err();
    assert_eq!((error.is_timeout(), error.outcome()), (true, Outcome::NotSent), "{error:?}");
    insert(&observed, &mut session).await.unwrap();
    commit(&mut session).await.unwrap();
    let connections = deployment.server().log().connections_of("insert");
    assert_eq!(connections, [connections[0]; 2]);
}

#[tokio::test]
async fn a_commit_past_its_deadline_is_not_sent_and_can_be_repeated() {
    let deployment = Deployment::primary();
    let observed = ObservedClient::new(&deployment, "").await;
    let mut session = begin(&observed).await;
    insert(&observed, &mut session).await.unwrap();
    let late = session.commit_transaction().timeout(Duration::from_nanos(1));
    let error = bounded(late).await.unwrap_err();
    assert_eq!((error.is_timeout(), error.outcome()), (true, Outcome::NotSent), "{error:?}");
    assert_eq!(deployment.requests("commitTransaction").len(), 0);
    commit(&mut session).await.unwrap();
    assert_eq!(deployment.requests("commitTransaction").len(), 1);
}

#[tokio::test]
async fn the_timeout_of_a_transaction_limits_its_cursors() {
    let deployment = Deployment::primary();
    let clock = Clock::stopped();
    let observed = ObservedClient::new(&deployment, "timeoutMS=600000").await;
    let mut session = begin_within(&observed, TIMEOUT).await;
    let find = observed.books.find(doc! {}).batch_size(1).timeout_mode(TimeoutMode::Iteration);
    let mut cursor = bounded(find.session(&mut session)).await.unwrap();
    assert!(bounded(cursor.advance(&mut session)).await.unwrap());
    clock.pass(TIMEOUT).await;
    let error = bounded(cursor.advance(&mut session)).await.unwrap_err();
    assert!(error.is_timeout(), "{error:?}");
    assert_eq!(deployment.requests("getMore").len(), 0);
}

#[tokio::test]
async fn transactions_have_the_timeout_of_the_default_transaction_options() {
    let deployment = Deployment::primary();
    let observed = ObservedClient::new(&deployment, "").await;
    let defaults = TransactionOptions::builder().timeout(LONG_TIMEOUT).build();
    let start = observed.client.start_session().default_transaction_options(defaults);
    let (mut session, books) = (start.await.unwrap(), &observed.books);
    session.start_transaction().await.unwrap();
    insert(&observed, &mut session).await.unwrap();
    commit(&mut session).await.unwrap();
    let run = session.start_transaction().and_run2(async |session: &mut ClientSession| {
        books.insert_one(doc! {}).session(session).await
    });
    bounded(run).await.unwrap();
    for name in ["insert", "commitTransaction"] {
        let sent = observed.started(name);
        assert_eq!(sent.len(), 2);
        assert!(sent.iter().all(|it| it.command.contains_key("maxTimeMS")), "{sent:?}");
    }
}

#[tokio::test]
async fn failed_start_transaction_keeps_the_timeout_of_the_transaction_in_progress() {
    let deployment = Deployment::primary();
    let observed = ObservedClient::new(&deployment, "").await;
    let mut session = begin_within(&observed, LONG_TIMEOUT).await;
    let run = session.start_transaction().timeout(LONG_TIMEOUT / 2);
    bounded(run.and_run2(async |_: &mut ClientSession| Ok(()))).await.unwrap_err();
    session.start_transaction().await.unwrap_err();
    insert(&observed, &mut session).await.unwrap();
    assert!(observed.started("insert")[0].command.contains_key("maxTimeMS"));
}

#[tokio::test]
async fn and_run2_at_its_deadline_returns_the_outcome_of_the_last_run() {
    let deployment = Deployment::primary();
    let clock = Clock::stopped();
    let observed = ObservedClient::new(&deployment, "").await;
    deployment.inject(&[Fault::LostReply; 1000]);
    let (mut session, books) = (observed.client.start_session().await.unwrap(), &observed.books);
    let run = session.start_transaction().timeout(TIMEOUT);
    let run = run.and_run2(async |session: &mut ClientSession| {
        books.insert_many([doc! {}]).session(session).await
    });
    let (ended, ()) = tokio::join!(bounded(run), async {
        let failed = |event: &CommandEvent| matches!(event, CommandEvent::Failed(_));
        observed.commands.wait_for(1, failed).await;
        clock.pass(TIMEOUT).await;
    });
    let error = ended.unwrap_err();
    assert!(error.is_timeout(), "{error:?}");
    assert!(error.contains_label(TRANSIENT_TRANSACTION_ERROR), "{error:?}");
    assert_eq!(error.outcome(), Outcome::MaybeApplied, "{error:?}");
    assert!(!error.attempts().is_empty(), "{error:?}");
}

#[tokio::test]
async fn the_abort_of_a_dropped_session_has_its_own_timeout_after_a_dropped_operation() {
    let deployment = Deployment::primary();
    let clock = Clock::stopped();
    let observed = ObservedClient::new(&deployment, "timeoutMS=500").await;
    let mut session = begin(&observed).await;
    insert(&observed, &mut session).await.unwrap();
    deployment.inject(&[Fault::NoReply]);
    let dropped = observed.books.insert_one(doc! {}).session(&mut session);
    let mut dropped = Box::pin(dropped.into_future());
    tokio::select! {
        ended = &mut dropped => panic!("{ended:?}"),
        _ = deployment.server().wait_for(|log| log.named("insert").len() == 2) => {}
    }
    drop(dropped);
    drop(session);
    // Time that the driver waits for a dropped operation, which exceeds the time-out of the client.
    clock.pass(Duration::from_secs(3)).await;
    deployment.server().wait_for(|log| !log.named("abortTransaction").is_empty()).await;
}

#[tokio::test]
async fn a_commit_with_max_time_ms_expired_is_maybe_applied() {
    let deployment = Deployment::primary();
    let observed = ObservedClient::new(&deployment, "").await;
    let mut session = begin_within(&observed, LONG_TIMEOUT).await;
    insert(&observed, &mut session).await.unwrap();
    deployment.inject(&[Fault::CommandError(MAX_TIME_EXPIRED, UNLABELLED)]);
    let error = commit(&mut session).await.unwrap_err();
    assert!(error.is_timeout(), "{error:?}");
    assert!(error.contains_label(UNKNOWN_TRANSACTION_COMMIT_RESULT), "{error:?}");
    assert_eq!(error.outcome(), Outcome::MaybeApplied);
    assert_eq!(deployment.requests("commitTransaction").len(), 1);
}

#[tokio::test]
async fn an_overload_error_of_the_first_operation_is_retried_on_its_connection_within_the_timeout()
{
    const OVERLOADED: &[&str] = &["SystemOverloadedError", "RetryableError"];
    let deployment = Deployment::start(Role::LoadBalanced);
    let observed = ObservedClient::new(&deployment, "loadBalanced=true").await;
    deployment.inject(&[Fault::CommandError(462, OVERLOADED)]);
    let mut session = begin_within(&observed, LONG_TIMEOUT).await;
    insert(&observed, &mut session).await.unwrap();
    commit(&mut session).await.unwrap();
    let inserts = observed.started("insert");
    assert_eq!(inserts.len(), 2);
    for insert in &inserts {
        assert!(insert.command.contains_key("startTransaction"), "{}", insert.command);
        assert!(insert.command.contains_key("maxTimeMS"), "{}", insert.command);
    }
    let log = deployment.server().log();
    let connections = log.connections_of("insert");
    assert_eq!(connections, [connections[0]; 2]);
    assert_eq!(log.connections_of("commitTransaction"), connections[..1]);
    assert_eq!(observed.client.metrics().retry_tokens, 1000.0);
}

#[tokio::test]
async fn a_get_more_that_timed_out_unpins_the_connection_of_its_transaction() {
    let deployment = Deployment::start(Role::LoadBalanced);
    let clock = Clock::stopped();
    let observed = ObservedClient::new(&deployment, "loadBalanced=true").await;
    let mut session = begin_within(&observed, TIMEOUT).await;
    let find = observed.books.find(doc! {}).batch_size(1).session(&mut session);
    let mut cursor = bounded(find).await.unwrap();
    assert!(bounded(cursor.advance(&mut session)).await.unwrap());
    deployment.inject(&[Fault::NoReply]);
    let late = bounded(cursor.advance(&mut session));
    let unanswered = deployment.expire_without_reply(&clock, "getMore", 1, TIMEOUT);
    let error = tokio::join!(late, unanswered).0.unwrap_err();
    assert!(error.is_timeout(), "{error:?}");
    assert!(error.contains_label(TRANSIENT_TRANSACTION_ERROR), "{error:?}");
    assert!(!session.is_pinned());
    abort(&mut session).await;
    observed.ping().await;
    let log = deployment.server().log();
    let pinned = log.connections_of("find")[0];
    assert_eq!(log.connections_of("getMore"), [pinned]);
    assert!(!log.connections_of("abortTransaction").contains(&pinned));
    assert!(!log.connections_of("ping").contains(&pinned));
}

#[tokio::test]
async fn and_run2_aborts_after_a_callback_past_the_deadline() {
    let deployment = Deployment::primary();
    let clock = Clock::stopped();
    let observed = ObservedClient::new(&deployment, "").await;
    let (mut session, books) = (observed.client.start_session().await.unwrap(), &observed.books);
    let run = session.start_transaction().timeout(TIMEOUT);
    let run = run.and_run2(async |session: &mut ClientSession| {
        let inserted = books.insert_one(doc! {}).session(session).await;
        clock.pass(TIMEOUT).await;
        inserted
    });
    let error = bounded(run).await.unwrap_err();
    assert_eq!((error.is_timeout(), error.outcome()), (true, Outcome::NotApplied), "{error:?}");
    let aborted = |log: &common::ServerLog| !log.named("abortTransaction").is_empty();
    bounded(deployment.server().wait_for(aborted)).await;
    assert_eq!(deployment.requests("commitTransaction").len(), 0);
}

#[tokio::test]
async fn and_run2_on_a_silent_server_ends_at_its_deadline() {
    let deployment = Deployment::primary();
    let clock = Clock::stopped();
    let observed = ObservedClient::new(&deployment, "").await;
    observed.ping().await;
    let limit = Duration::from_secs(1);
    deployment.inject(&[Fault::NoReply, Fault::NoReply]);
    let mut session = observed.client.start_session().await.unwrap();
    let run = session.start_transaction().timeout(limit);
    let run = run.and_run2(async |session: &mut ClientSession| insert(&observed, session).await);
    let (ended, ()) =
        tokio::join!(bounded(run), deployment.expire_without_reply(&clock, "insert", 1, limit));
    let error = ended.unwrap_err();
    assert!(error.is_timeout(), "{error:?}");
    // The abort gets no reply, and the call does not wait for it.
    let aborted = |log: &common::ServerLog| !log.named("abortTransaction").is_empty();
    bounded(deployment.server().wait_for(aborted)).await;
}
