//! Commits that fail: retries, outcomes and the state of the transaction.

use super::*;

#[tokio::test]
async fn a_commit_is_retried_with_majority_even_if_retry_writes_is_off() {
    let deployment = Deployment::primary();
    let observed = ObservedClient::new(&deployment, "retryWrites=false").await;
    let mut session = begin(&observed).await;
    insert(&observed, &mut session).await.unwrap();
    deployment.inject(&[Fault::LostReply]);
    commit(&mut session).await.unwrap();
    assert_eq!(observed.numbers("commitTransaction"), [1, 1].map(Some));
    assert_eq!(commit_concerns(&observed), [None, majority()]);
}

#[tokio::test]
async fn a_commit_with_lost_replies_is_maybe_applied_and_can_be_repeated() {
    let deployment = Deployment::primary();
    let observed = ObservedClient::new(&deployment, "").await;
    let mut session = observed.client.start_session().await.unwrap();
    let concern = WriteConcern::nodes(1).with_w_timeout(std::time::Duration::from_millis(500));
    session.start_transaction().write_concern(concern).await.unwrap();
    insert(&observed, &mut session).await.unwrap();
    deployment.inject(&[Fault::LostReply; 2]);
    let error = commit(&mut session).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::MaybeApplied, "{error:?}");
    for label in [UNKNOWN_TRANSACTION_COMMIT_RESULT, RETRYABLE_WRITE_ERROR] {
        assert!(error.contains_label(label), "{error:?}");
    }
    assert!(!error.contains_label(TRANSIENT_TRANSACTION_ERROR), "{error:?}");
    assert_eq!(error.attempts().len(), 2);
    assert_eq!(session.transaction_state(), TransactionState::Committed { empty: false });
    commit(&mut session).await.unwrap();
    let own = Some(doc! { "w": 1, "wtimeout": 500_i64 });
    let more = Some(doc! { "w": "majority", "wtimeout": 500_i64 });
    assert_eq!(commit_concerns(&observed), [own, more.clone(), more]);
}

#[tokio::test]
async fn later_commit_keeps_the_outcome_of_a_commit_with_a_lost_reply() {
    let deployment = Deployment::primary();
    let observed = ObservedClient::new(&deployment, "").await;
    let mut session = begin(&observed).await;
    insert(&observed, &mut session).await.unwrap();
    deployment.inject(&[Fault::LostReply; 2]);
    commit(&mut session).await.unwrap_err();
    drop(deployment);
    // The server does not respond, so only the time-out ends the selection.
    tokio::time::pause();
    for _ in 0..2 {
        let error = commit(&mut session).await.unwrap_err();
        assert!(error.contains_label(UNKNOWN_TRANSACTION_COMMIT_RESULT), "{error:?}");
        assert_eq!(error.outcome(), Outcome::MaybeApplied, "{error:?}");
    }
}

#[tokio::test]
async fn a_commit_without_a_server_is_not_sent() {
    let deployment = Deployment::primary();
    let observed = ObservedClient::new(&deployment, "").await;
    let mut session = begin(&observed).await;
    insert(&observed, &mut session).await.unwrap();
    drop(deployment);
    // The server does not respond, so only the time-out ends the selection.
    tokio::time::pause();
    observed.client.database("db").run_command(doc! { "ping": 1 }).await.unwrap_err();
    let error = commit(&mut session).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::NotSent, "{error:?}");
    assert!(error.contains_label(UNKNOWN_TRANSACTION_COMMIT_RESULT), "{error:?}");
}

#[tokio::test]
async fn no_such_transaction_settles_the_outcome_of_a_lost_commit() {
    let deployment = Deployment::primary();
    let observed = ObservedClient::new(&deployment, "").await;
    let mut session = begin(&observed).await;
    insert(&observed, &mut session).await.unwrap();
    deployment.inject(&[Fault::LostRequest, Fault::CommandError(NO_SUCH_TRANSACTION, TRANSIENT)]);
    let error = commit(&mut session).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::NotApplied, "{error:?}");
    assert!(error.contains_label(TRANSIENT_TRANSACTION_ERROR), "{error:?}");
    assert!(!error.contains_label(UNKNOWN_TRANSACTION_COMMIT_RESULT), "{error:?}");
}

#[tokio::test]
async fn a_write_concern_error_of_a_commit_is_labelled_unless_unsatisfiable() {
    for (code, labelled) in [(64, true), (91, true), (79, false), (100, false)] {
        let deployment = Deployment::primary();
        let observed = ObservedClient::new(&deployment, "").await;
        let mut session = begin(&observed).await;
        insert(&observed, &mut session).await.unwrap();
        deployment.inject(&[Fault::WriteConcernError(code, UNLABELLED)]);
        let error = commit(&mut session).await.unwrap_err();
        assert_eq!(error.code(), Some(code), "{error:?}");
        assert_eq!(error.outcome(), Outcome::AppliedNotDurable, "{error:?}");
        let found = error.contains_label(UNKNOWN_TRANSACTION_COMMIT_RESULT);
        assert_eq!(found, labelled, "{error:?}");
        assert_eq!(observed.started("commitTransaction").len(), 1);
        commit(&mut session).await.unwrap();
        assert_eq!(commit_concerns(&observed), [None, majority()]);
    }
}

#[tokio::test]
async fn a_commit_past_max_commit_time_has_an_unknown_result() {
    let deployment = Deployment::primary();
    let observed = ObservedClient::new(&deployment, "").await;
    let mut session = observed.client.start_session().await.unwrap();
    let limit = std::time::Duration::from_millis(60);
    session.start_transaction().max_commit_time(limit).await.unwrap();
    insert(&observed, &mut session).await.unwrap();
    deployment.inject(&[Fault::CommandError(50, UNLABELLED)]);
    let error = commit(&mut session).await.unwrap_err();
    assert!(error.contains_label(UNKNOWN_TRANSACTION_COMMIT_RESULT), "{error:?}");
    assert_eq!(error.outcome(), Outcome::MaybeApplied, "{error:?}");
    let sent = observed.started("commitTransaction").remove(0).command;
    assert_eq!(sent.get_i64("maxTimeMS").unwrap(), 60);
    assert!(!observed.started("insert")[0].command.contains_key("maxTimeMS"));
}

#[tokio::test]
async fn a_dropped_commit_can_be_repeated() {
    let deployment = Deployment::primary();
    let observed = ObservedClient::new(&deployment, "").await;
    let mut session = begin(&observed).await;
    insert(&observed, &mut session).await.unwrap();
    deployment.inject(&[Fault::HeldReply]);
    let sent = deployment.server().wait_for(|log| !log.named("commitTransaction").is_empty());
    tokio::select! {
        done = session.commit_transaction() => panic!("unexpected reply: {done:?}"),
        _ = sent => {}
    }
    assert_eq!(session.transaction_state(), TransactionState::Committed { empty: false });
    assert!(bounded(session.abort_transaction()).await.is_err(), "it may be committed");
    commit(&mut session).await.unwrap();
    assert_eq!(commit_concerns(&observed), [None, majority()]);
}

#[tokio::test]
async fn later_commit_keeps_the_outcome_of_a_dropped_commit() {
    let deployment = Deployment::primary();
    let observed = ObservedClient::new(&deployment, "").await;
    let mut session = begin(&observed).await;
    insert(&observed, &mut session).await.unwrap();
    deployment.inject(&[Fault::HeldReply, Fault::CommandError(NO_SUCH_TRANSACTION, TRANSIENT)]);
    let sent = deployment.server().wait_for(|log| !log.named("commitTransaction").is_empty());
    tokio::select! {
        done = session.commit_transaction() => panic!("unexpected reply: {done:?}"),
        _ = sent => {}
    }
    // The first attempt may still be executed.
    let error = commit(&mut session).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::MaybeApplied, "{error:?}");
    drop(deployment);
    // The server does not respond, so only the time-out ends the selection.
    tokio::time::pause();
    let error = commit(&mut session).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::MaybeApplied, "{error:?}");
}
