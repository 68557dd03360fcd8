//! The time limit of a transaction: what shares it, and that it ends with the transaction.

use std::time::Duration;

use steadfast::options::{TimeoutMode, TransactionOptions};

use super::*;

const SOON: Duration = Duration::from_millis(100);
const MAX_TIME_EXPIRED: i32 = 50;
/// Longer than any test takes.
const LATER: Duration = Duration::from_secs(600);

async fn begin_within(watched: &Watched, timeout: Duration) -> ClientSession {
    let mut session = watched.client.start_session().await.unwrap();
    session.start_transaction().timeout(timeout).await.unwrap();
    session
}

/// Checks that what is done in the session has no time limit, and may have one of its own.
async fn assert_unlimited(watched: &Watched, session: &mut ClientSession, after: &str) {
    insert(watched, session).await.unwrap_or_else(|error| panic!("{after}: {error}"));
    let sent = watched.started("insert").pop().unwrap().command;
    assert!(!sent.contains_key("maxTimeMS"), "{after}: {sent}");
    let own = watched.books.insert_one(doc! {}).timeout(LATER).session(&mut *session);
    bounded(own).await.unwrap_or_else(|error| panic!("{after}: {error}"));
    bounded(watched.books.insert_many([doc! {}]).timeout(LATER).session(session))
        .await
        .unwrap_or_else(|error| panic!("{after}: {error}"));
}

#[tokio::test]
async fn the_time_limit_of_a_transaction_ends_with_it() {
    let deployment = Deployment::primary();
    let watched = Watched::new(&deployment, "").await;
    let mut session = begin_within(&watched, LATER).await;
    commit(&mut session).await.unwrap();
    assert_unlimited(&watched, &mut session, "an empty transaction was committed").await;

    session.start_transaction().timeout(LATER).await.unwrap();
    abort(&mut session).await;
    assert_unlimited(&watched, &mut session, "an empty transaction was aborted").await;

    session.start_transaction().timeout(LATER).await.unwrap();
    insert(&watched, &mut session).await.unwrap();
    commit(&mut session).await.unwrap();
    assert_unlimited(&watched, &mut session, "a transaction was committed").await;

    session.start_transaction().timeout(LATER).await.unwrap();
    insert(&watched, &mut session).await.unwrap();
    abort(&mut session).await;
    assert_unlimited(&watched, &mut session, "a transaction was aborted").await;

    session.start_transaction().timeout(LATER).await.unwrap();
    insert(&watched, &mut session).await.unwrap();
    deployment.suffer(&[Fault::Refused(NO_SUCH_TRANSACTION, TRANSIENT)]);
    commit(&mut session).await.unwrap_err();
    assert_unlimited(&watched, &mut session, "a transaction could not be committed").await;
}

#[tokio::test]
async fn the_time_limit_of_a_transaction_that_is_run_ends_with_it_however_it_ends() {
    let deployment = Deployment::primary();
    let watched = Watched::new(&deployment, "").await;
    let books = &watched.books;
    let mut session = watched.client.start_session().await.unwrap();
    let run = session.start_transaction().timeout(LATER);
    let run = run.and_run2(async |session: &mut ClientSession| {
        books.insert_one(doc! {}).session(session).await
    });
    bounded(run).await.unwrap();
    assert_unlimited(&watched, &mut session, "it was committed").await;

    let run = session.start_transaction().timeout(LATER);
    let run = run.and_run2(async |session: &mut ClientSession| {
        books.insert_one(doc! {}).session(session).await?;
        Err::<(), _>(Error::custom("enough"))
    });
    bounded(run).await.unwrap_err();
    assert_unlimited(&watched, &mut session, "the callback failed").await;

    let run = session.start_transaction().timeout(LATER);
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
    assert_unlimited(&watched, &mut session, "its future was dropped").await;
}

#[tokio::test]
async fn an_operation_of_a_transaction_waits_for_its_turn_in_its_own_time() {
    let deployment = Deployment::primary();
    let clock = Clock::stopped();
    let watched = Watched::new(&deployment, "").await;
    let mut session = begin(&watched).await;
    deployment.suffer(&[Fault::Silence]);
    {
        let forgotten = watched.books.insert_one(doc! {}).session(&mut session);
        let mut forgotten = Box::pin(forgotten.into_future());
        tokio::select! {
            ended = &mut forgotten => panic!("{ended:?}"),
            _ = deployment.server().wait_for(|log| log.named("insert").len() == 1) => {}
        }
    }
    let late = watched.books.insert_one(doc! {}).timeout(SOON).session(&mut session);
    // A forgotten one would be waited for much longer.
    let (ended, ()) = tokio::join!(bounded(late), clock.pass(SOON));
    let error = ended.unwrap_err();
    assert!(error.is_timeout(), "{error:?}");
    assert_eq!(error.outcome(), Outcome::NotSent, "{error:?}");
    assert_eq!(deployment.requests("insert").len(), 1);
}

#[tokio::test]
async fn a_commit_that_timed_out_may_have_happened_and_can_be_asked_for_again() {
    let deployment = Deployment::primary();
    let clock = Clock::stopped();
    let watched = Watched::new(&deployment, "").await;
    let mut session = begin_within(&watched, SOON).await;
    insert(&watched, &mut session).await.unwrap();
    deployment.suffer(&[Fault::Silence]);
    let unanswered = deployment.silent(&clock, "commitTransaction", 1, SOON);
    let error = tokio::join!(commit(&mut session), unanswered).0.unwrap_err();
    assert!(error.is_timeout(), "{error:?}");
    assert!(error.contains_label(UNKNOWN_TRANSACTION_COMMIT_RESULT), "{error:?}");
    assert!(!error.contains_label(TRANSIENT_TRANSACTION_ERROR), "{error:?}");
    assert_eq!(error.outcome(), Outcome::MaybeApplied);
    commit(&mut session).await.unwrap();
    assert_eq!(deployment.requests("commitTransaction").len(), 2);
}

#[tokio::test]
async fn an_operation_that_timed_out_leaves_no_reply_for_the_next_behind_a_load_balancer() {
    let deployment = Deployment::start(Role::LoadBalanced);
    let clock = Clock::stopped();
    let watched = Watched::new(&deployment, "loadBalanced=true").await;
    let mut session = begin(&watched).await;
    insert(&watched, &mut session).await.unwrap();
    deployment.suffer(&[Fault::Silence]);
    let late = watched.books.insert_one(doc! {}).timeout(SOON).session(&mut session);
    let unanswered = deployment.silent(&clock, "insert", 2, SOON);
    let error = tokio::join!(bounded(late), unanswered).0.unwrap_err();
    assert!(error.is_timeout(), "{error:?}");
    assert!(error.contains_label(TRANSIENT_TRANSACTION_ERROR), "{error:?}");
    assert_eq!(error.outcome(), Outcome::MaybeApplied);
    abort(&mut session).await;
    session.start_transaction().await.unwrap();
    insert(&watched, &mut session).await.unwrap();
    commit(&mut session).await.unwrap();
    let log = deployment.server().log();
    let inserts = log.connections_of("insert");
    assert_eq!(inserts[0], inserts[1]);
    assert_ne!(inserts[1], inserts[2], "the reply that is due would be taken for another");
    watched.started("insert");
}

#[tokio::test]
async fn a_request_that_was_too_late_keeps_the_connection_of_a_transaction() {
    let deployment = Deployment::start(Role::LoadBalanced);
    let watched = Watched::new(&deployment, "loadBalanced=true").await;
    let mut session = begin(&watched).await;
    insert(&watched, &mut session).await.unwrap();
    let late =
        watched.books.insert_one(doc! {}).timeout(Duration::from_nanos(1)).session(&mut session);
    let error = bounded(late).await.unwrap_err();
    assert_eq!((error.is_timeout(), error.outcome()), (true, Outcome::NotSent), "{error:?}");
    insert(&watched, &mut session).await.unwrap();
    commit(&mut session).await.unwrap();
    let connections = deployment.server().log().connections_of("insert");
    assert_eq!(connections, [connections[0]; 2]);
}

#[tokio::test]
async fn a_commit_that_there_was_no_time_for_was_not_sent_and_can_be_asked_for_again() {
    let deployment = Deployment::primary();
    let watched = Watched::new(&deployment, "").await;
    let mut session = begin(&watched).await;
    insert(&watched, &mut session).await.unwrap();
    let late = session.commit_transaction().timeout(Duration::from_nanos(1));
    let error = bounded(late).await.unwrap_err();
    assert_eq!((error.is_timeout(), error.outcome()), (true, Outcome::NotSent), "{error:?}");
    assert_eq!(deployment.requests("commitTransaction").len(), 0);
    commit(&mut session).await.unwrap();
    assert_eq!(deployment.requests("commitTransaction").len(), 1);
}

#[tokio::test]
async fn a_cursor_in_a_transaction_does_not_outlive_its_time_limit() {
    let deployment = Deployment::primary();
    let clock = Clock::stopped();
    let watched = Watched::new(&deployment, "timeoutMS=600000").await;
    let mut session = begin_within(&watched, SOON).await;
    let find = watched.books.find(doc! {}).batch_size(1).timeout_mode(TimeoutMode::Iteration);
    let mut cursor = bounded(find.session(&mut session)).await.unwrap();
    assert!(bounded(cursor.advance(&mut session)).await.unwrap());
    clock.pass(SOON).await;
    let error = bounded(cursor.advance(&mut session)).await.unwrap_err();
    assert!(error.is_timeout(), "{error:?}");
    assert_eq!(deployment.requests("getMore").len(), 0);
}

#[tokio::test]
async fn transactions_have_the_time_limit_of_their_sessions_default_options() {
    let deployment = Deployment::primary();
    let watched = Watched::new(&deployment, "").await;
    let defaults = TransactionOptions::builder().timeout(LATER).build();
    let start = watched.client.start_session().default_transaction_options(defaults);
    let (mut session, books) = (start.await.unwrap(), &watched.books);
    session.start_transaction().await.unwrap();
    insert(&watched, &mut session).await.unwrap();
    commit(&mut session).await.unwrap();
    let run = session.start_transaction().and_run2(async |session: &mut ClientSession| {
        books.insert_one(doc! {}).session(session).await
    });
    bounded(run).await.unwrap();
    for name in ["insert", "commitTransaction"] {
        let sent = watched.started(name);
        assert_eq!(sent.len(), 2);
        assert!(sent.iter().all(|it| it.command.contains_key("maxTimeMS")), "{sent:?}");
    }
}

#[tokio::test]
async fn a_transaction_that_could_not_be_started_leaves_the_time_limit_of_the_one_in_progress() {
    let deployment = Deployment::primary();
    let watched = Watched::new(&deployment, "").await;
    let mut session = begin_within(&watched, LATER).await;
    let run = session.start_transaction().timeout(LATER / 2);
    bounded(run.and_run2(async |_: &mut ClientSession| Ok(()))).await.unwrap_err();
    session.start_transaction().await.unwrap_err();
    insert(&watched, &mut session).await.unwrap();
    assert!(watched.started("insert")[0].command.contains_key("maxTimeMS"));
}

#[tokio::test]
async fn when_there_is_no_time_to_run_it_again_the_error_says_what_became_of_the_last_try() {
    let deployment = Deployment::primary();
    let clock = Clock::stopped();
    let watched = Watched::new(&deployment, "").await;
    deployment.suffer(&[Fault::LostReply; 1000]);
    let (mut session, books) = (watched.client.start_session().await.unwrap(), &watched.books);
    let run = session.start_transaction().timeout(SOON);
    let run = run.and_run2(async |session: &mut ClientSession| {
        books.insert_many([doc! {}]).session(session).await
    });
    let (ended, ()) = tokio::join!(bounded(run), async {
        let failed = |event: &CommandEvent| matches!(event, CommandEvent::Failed(_));
        watched.commands.wait_for(1, failed).await;
        clock.pass(SOON).await;
    });
    let error = ended.unwrap_err();
    assert!(error.is_timeout(), "{error:?}");
    assert!(error.contains_label(TRANSIENT_TRANSACTION_ERROR), "{error:?}");
    assert_eq!(error.outcome(), Outcome::MaybeApplied, "{error:?}");
    assert!(!error.attempts().is_empty(), "{error:?}");
}

#[tokio::test]
async fn the_abort_of_a_dropped_session_has_time_of_its_own_after_a_forgotten_operation() {
    let deployment = Deployment::primary();
    let clock = Clock::stopped();
    let watched = Watched::new(&deployment, "timeoutMS=500").await;
    let mut session = begin(&watched).await;
    insert(&watched, &mut session).await.unwrap();
    deployment.suffer(&[Fault::Silence]);
    let forgotten = watched.books.insert_one(doc! {}).session(&mut session);
    let mut forgotten = Box::pin(forgotten.into_future());
    tokio::select! {
        ended = &mut forgotten => panic!("{ended:?}"),
        _ = deployment.server().wait_for(|log| log.named("insert").len() == 2) => {}
    }
    drop(forgotten);
    drop(session);
    // As long as a forgotten operation is waited for, which is longer than the client's limit.
    clock.pass(Duration::from_secs(3)).await;
    deployment.server().wait_for(|log| !log.named("abortTransaction").is_empty()).await;
}

#[tokio::test]
async fn a_commit_that_the_server_had_no_time_for_may_have_happened() {
    let deployment = Deployment::primary();
    let watched = Watched::new(&deployment, "").await;
    let mut session = begin_within(&watched, LATER).await;
    insert(&watched, &mut session).await.unwrap();
    deployment.suffer(&[Fault::Refused(MAX_TIME_EXPIRED, UNLABELLED)]);
    let error = commit(&mut session).await.unwrap_err();
    assert!(error.is_timeout(), "{error:?}");
    assert!(error.contains_label(UNKNOWN_TRANSACTION_COMMIT_RESULT), "{error:?}");
    assert_eq!(error.outcome(), Outcome::MaybeApplied);
    assert_eq!(deployment.requests("commitTransaction").len(), 1);
}

#[tokio::test]
async fn an_overloaded_first_operation_is_tried_again_on_its_connection_in_the_transactions_time() {
    const OVERLOADED: &[&str] = &["SystemOverloadedError", "RetryableError"];
    let deployment = Deployment::start(Role::LoadBalanced);
    let watched = Watched::new(&deployment, "loadBalanced=true").await;
    deployment.suffer(&[Fault::Refused(462, OVERLOADED)]);
    let mut session = begin_within(&watched, LATER).await;
    insert(&watched, &mut session).await.unwrap();
    commit(&mut session).await.unwrap();
    let inserts = watched.started("insert");
    assert_eq!(inserts.len(), 2);
    for insert in &inserts {
        assert!(insert.command.contains_key("startTransaction"), "{}", insert.command);
        assert!(insert.command.contains_key("maxTimeMS"), "{}", insert.command);
    }
    let log = deployment.server().log();
    let connections = log.connections_of("insert");
    assert_eq!(connections, [connections[0]; 2]);
    assert_eq!(log.connections_of("commitTransaction"), connections[..1]);
    assert_eq!(watched.client.metrics().retry_tokens, 1000.0);
}

#[tokio::test]
async fn a_late_batch_in_a_transaction_behind_a_load_balancer_is_not_taken_for_another_reply() {
    let deployment = Deployment::start(Role::LoadBalanced);
    let clock = Clock::stopped();
    let watched = Watched::new(&deployment, "loadBalanced=true").await;
    let mut session = begin_within(&watched, SOON).await;
    let find = watched.books.find(doc! {}).batch_size(1).session(&mut session);
    let mut cursor = bounded(find).await.unwrap();
    assert!(bounded(cursor.advance(&mut session)).await.unwrap());
    deployment.suffer(&[Fault::Silence]);
    let late = bounded(cursor.advance(&mut session));
    let unanswered = deployment.silent(&clock, "getMore", 1, SOON);
    let error = tokio::join!(late, unanswered).0.unwrap_err();
    assert!(error.is_timeout(), "{error:?}");
    assert!(error.contains_label(TRANSIENT_TRANSACTION_ERROR), "{error:?}");
    assert!(!session.is_pinned());
    abort(&mut session).await;
    watched.ping().await;
    let log = deployment.server().log();
    let home = log.connections_of("find")[0];
    assert_eq!(log.connections_of("getMore"), [home]);
    assert!(!log.connections_of("abortTransaction").contains(&home));
    assert!(!log.connections_of("ping").contains(&home));
}

#[tokio::test]
async fn a_transaction_whose_callback_took_all_the_time_is_aborted() {
    let deployment = Deployment::primary();
    let clock = Clock::stopped();
    let watched = Watched::new(&deployment, "").await;
    let (mut session, books) = (watched.client.start_session().await.unwrap(), &watched.books);
    let run = session.start_transaction().timeout(SOON);
    let run = run.and_run2(async |session: &mut ClientSession| {
        let inserted = books.insert_one(doc! {}).session(session).await;
        clock.pass(SOON).await;
        inserted
    });
    let error = bounded(run).await.unwrap_err();
    assert_eq!((error.is_timeout(), error.outcome()), (true, Outcome::NotApplied), "{error:?}");
    let aborted = |log: &common::ServerLog| !log.named("abortTransaction").is_empty();
    bounded(deployment.server().wait_for(aborted)).await;
    assert_eq!(deployment.requests("commitTransaction").len(), 0);
}

#[tokio::test]
async fn a_transaction_on_a_silent_server_ends_by_its_deadline() {
    let deployment = Deployment::primary();
    let clock = Clock::stopped();
    let watched = Watched::new(&deployment, "").await;
    watched.ping().await;
    let limit = Duration::from_secs(1);
    deployment.suffer(&[Fault::Silence, Fault::Silence]);
    let mut session = watched.client.start_session().await.unwrap();
    let run = session.start_transaction().timeout(limit);
    let run = run.and_run2(async |session: &mut ClientSession| insert(&watched, session).await);
    let (ended, ()) = tokio::join!(bounded(run), deployment.silent(&clock, "insert", 1, limit));
    let error = ended.unwrap_err();
    assert!(error.is_timeout(), "{error:?}");
    // The abort is not answered either, and the call does not wait for it.
    let aborted = |log: &common::ServerLog| !log.named("abortTransaction").is_empty();
    bounded(deployment.server().wait_for(aborted)).await;
}
