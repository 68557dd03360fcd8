//! Commits that fail: what is tried, and what is known of the transaction afterwards.

use super::*;

#[tokio::test]
async fn a_lost_commit_is_sent_again_with_a_majority_whatever_retry_writes_says() {
    let deployment = Deployment::primary();
    let watched = Watched::new(&deployment, "retryWrites=false").await;
    let mut session = begin(&watched).await;
    insert(&watched, &mut session).await.unwrap();
    deployment.suffer(&[Fault::LostReply]);
    commit(&mut session).await.unwrap();
    assert_eq!(watched.numbers("commitTransaction"), [1, 1].map(Some));
    assert_eq!(commit_concerns(&watched), [None, majority()]);
}

#[tokio::test]
async fn a_commit_whose_replies_are_lost_may_be_applied_and_can_be_asked_for_again() {
    let deployment = Deployment::primary();
    let watched = Watched::new(&deployment, "").await;
    let mut session = watched.client.start_session().await.unwrap();
    let concern = WriteConcern::nodes(1).with_w_timeout(std::time::Duration::from_millis(500));
    session.start_transaction().write_concern(concern).await.unwrap();
    insert(&watched, &mut session).await.unwrap();
    deployment.suffer(&[Fault::LostReply; 2]);
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
    assert_eq!(commit_concerns(&watched), [own, more.clone(), more]);
}

#[tokio::test]
async fn what_an_earlier_commit_may_have_done_is_not_forgotten_by_a_later_one() {
    let deployment = Deployment::primary();
    let watched = Watched::new(&deployment, "").await;
    let mut session = begin(&watched).await;
    insert(&watched, &mut session).await.unwrap();
    deployment.suffer(&[Fault::LostReply; 2]);
    commit(&mut session).await.unwrap_err();
    drop(deployment);
    // Nobody answers any more, so that there is nothing to wait for but time.
    tokio::time::pause();
    for _ in 0..2 {
        let error = commit(&mut session).await.unwrap_err();
        assert!(error.contains_label(UNKNOWN_TRANSACTION_COMMIT_RESULT), "{error:?}");
        assert_eq!(error.outcome(), Outcome::MaybeApplied, "{error:?}");
    }
}

#[tokio::test]
async fn a_commit_that_no_server_was_sent_is_not_applied() {
    let deployment = Deployment::primary();
    let watched = Watched::new(&deployment, "").await;
    let mut session = begin(&watched).await;
    insert(&watched, &mut session).await.unwrap();
    drop(deployment);
    // Nobody answers any more, so that there is nothing to wait for but time.
    tokio::time::pause();
    watched.client.database("db").run_command(doc! { "ping": 1 }).await.unwrap_err();
    let error = commit(&mut session).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::NotSent, "{error:?}");
    assert!(error.contains_label(UNKNOWN_TRANSACTION_COMMIT_RESULT), "{error:?}");
}

#[tokio::test]
async fn a_server_that_knows_the_transaction_to_be_gone_settles_it() {
    let deployment = Deployment::primary();
    let watched = Watched::new(&deployment, "").await;
    let mut session = begin(&watched).await;
    insert(&watched, &mut session).await.unwrap();
    deployment.suffer(&[Fault::LostRequest, Fault::Refused(NO_SUCH_TRANSACTION, TRANSIENT)]);
    let error = commit(&mut session).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::NotApplied, "{error:?}");
    assert!(error.contains_label(TRANSIENT_TRANSACTION_ERROR), "{error:?}");
    assert!(!error.contains_label(UNKNOWN_TRANSACTION_COMMIT_RESULT), "{error:?}");
}

#[tokio::test]
async fn a_commit_that_is_not_durable_is_labelled_unless_it_never_can_be() {
    for (code, labelled) in [(64, true), (91, true), (79, false), (100, false)] {
        let deployment = Deployment::primary();
        let watched = Watched::new(&deployment, "").await;
        let mut session = begin(&watched).await;
        insert(&watched, &mut session).await.unwrap();
        deployment.suffer(&[Fault::NotDurable(code, UNLABELLED)]);
        let error = commit(&mut session).await.unwrap_err();
        assert_eq!(error.code(), Some(code), "{error:?}");
        assert_eq!(error.outcome(), Outcome::AppliedNotDurable, "{error:?}");
        let found = error.contains_label(UNKNOWN_TRANSACTION_COMMIT_RESULT);
        assert_eq!(found, labelled, "{error:?}");
        assert_eq!(watched.started("commitTransaction").len(), 1);
        commit(&mut session).await.unwrap();
        assert_eq!(commit_concerns(&watched), [None, majority()]);
    }
}

#[tokio::test]
async fn a_commit_that_took_too_long_is_open() {
    let deployment = Deployment::primary();
    let watched = Watched::new(&deployment, "").await;
    let mut session = watched.client.start_session().await.unwrap();
    let limit = std::time::Duration::from_millis(60);
    session.start_transaction().max_commit_time(limit).await.unwrap();
    insert(&watched, &mut session).await.unwrap();
    deployment.suffer(&[Fault::Refused(50, UNLABELLED)]);
    let error = commit(&mut session).await.unwrap_err();
    assert!(error.contains_label(UNKNOWN_TRANSACTION_COMMIT_RESULT), "{error:?}");
    assert_eq!(error.outcome(), Outcome::MaybeApplied, "{error:?}");
    let sent = watched.started("commitTransaction").remove(0).command;
    assert_eq!(sent.get_i64("maxTimeMS").unwrap(), 60);
    assert!(!watched.started("insert")[0].command.contains_key("maxTimeMS"));
}

#[tokio::test]
async fn a_commit_whose_future_is_dropped_can_be_asked_for_again() {
    let deployment = Deployment::primary();
    let watched = Watched::new(&deployment, "").await;
    let mut session = begin(&watched).await;
    insert(&watched, &mut session).await.unwrap();
    deployment.suffer(&[Fault::HeldReply]);
    let sent = deployment.server().wait_for(|log| !log.named("commitTransaction").is_empty());
    tokio::select! {
        done = session.commit_transaction() => panic!("nobody answered: {done:?}"),
        _ = sent => {}
    }
    assert_eq!(session.transaction_state(), TransactionState::Committed { empty: false });
    assert!(bounded(session.abort_transaction()).await.is_err(), "it may be committed");
    commit(&mut session).await.unwrap();
    assert_eq!(commit_concerns(&watched), [None, majority()]);
}

#[tokio::test]
async fn what_a_dropped_commit_may_have_done_is_not_forgotten() {
    let deployment = Deployment::primary();
    let watched = Watched::new(&deployment, "").await;
    let mut session = begin(&watched).await;
    insert(&watched, &mut session).await.unwrap();
    deployment.suffer(&[Fault::HeldReply, Fault::Refused(NO_SUCH_TRANSACTION, TRANSIENT)]);
    let sent = deployment.server().wait_for(|log| !log.named("commitTransaction").is_empty());
    tokio::select! {
        done = session.commit_transaction() => panic!("nobody answered: {done:?}"),
        _ = sent => {}
    }
    // The first may still be carried out.
    let error = commit(&mut session).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::MaybeApplied, "{error:?}");
    drop(deployment);
    // Nobody answers any more, so that there is nothing to wait for but time.
    tokio::time::pause();
    let error = commit(&mut session).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::MaybeApplied, "{error:?}");
}
