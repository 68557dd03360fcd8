//! Sessions and transaction numbers of retries.

use super::*;

#[tokio::test]
async fn every_retryable_write_of_a_session_has_a_new_txn_number() {
    // pitfalls 4 and 5
    let deployment = Deployment::primary();
    let observed = ObservedClient::new(&deployment, "").await;
    for name in ["insert_one", "update_many", "update_one", "delete_many", "delete_one"] {
        observed.run(&write(name)).await.unwrap();
    }
    assert_eq!(observed.numbers("insert"), [Some(1)]);
    assert_eq!(observed.numbers("update"), [None, Some(2)]);
    assert_eq!(observed.numbers("delete"), [None, Some(3)]);
    let mut sessions = observed.sessions("insert");
    sessions.extend(observed.sessions("update"));
    sessions.extend(observed.sessions("delete"));
    assert!(sessions.iter().all(|id| *id == sessions[0]), "{sessions:?}");
}

#[tokio::test]
async fn a_txn_number_is_not_reused_after_a_failed_write() {
    // pitfalls 4 and 5
    let deployment = Deployment::primary();
    let observed = ObservedClient::new(&deployment, "").await;
    deployment.inject(&[Fault::CommandError(HOST_UNREACHABLE, RETRYABLE); 2]);
    observed.run(&write("insert_one")).await.unwrap_err();
    deployment.inject(&[Fault::CommandError(2, UNLABELLED)]);
    observed.run(&write("insert_one")).await.unwrap_err();
    observed.run(&write("insert_one")).await.unwrap();
    assert_eq!(observed.numbers("insert"), [1, 1, 2, 3].map(Some));
    assert_eq!(deployment.applied().len(), 1);
}

#[tokio::test]
async fn a_session_is_discarded_after_a_network_error() {
    // pitfall 17: also if the retry succeeded.
    with_each(retryable_writes(), |write| async move {
        for faults in [&[Fault::LostReply][..], &[Fault::LostReply; 2]] {
            let (_deployment, observed, result) = run_with(&write, "", faults).await;
            assert_eq!(result.is_ok(), faults.len() == 1, "{}", write.name);
            let broken = observed.sessions(write.command)[0].clone();
            observed.run(&operations::write("insert_one")).await.unwrap();
            let next = observed.sessions("insert").last().unwrap().clone();
            assert_ne!(broken, next, "{}: a dirty session is used again", write.name);
        }
    })
    .await;
}

#[tokio::test]
async fn a_session_is_reused_after_a_command_error() {
    let deployment = Deployment::primary();
    let observed = ObservedClient::new(&deployment, "").await;
    deployment.inject(&[Fault::CommandError(HOST_UNREACHABLE, RETRYABLE)]);
    observed.run(&write("insert_one")).await.unwrap();
    observed.run(&write("insert_one")).await.unwrap();
    let sessions = observed.sessions("insert");
    assert!(sessions.iter().all(|id| *id == sessions[0]), "{sessions:?}");
}

#[tokio::test]
async fn a_session_is_discarded_after_a_network_error_of_a_read() {
    // pitfall 17
    let deployment = Deployment::primary();
    let observed = ObservedClient::new(&deployment, "").await;
    deployment.inject(&[Fault::LostReply]);
    observed.run(&reads()[0]).await.unwrap();
    observed.run(&write("insert_one")).await.unwrap();
    assert_ne!(observed.sessions("find")[0], observed.sessions("insert")[0]);
    assert_eq!(observed.numbers("insert"), [Some(1)], "a new session starts with 1");
}

#[tokio::test]
async fn an_explicit_session_keeps_its_id_and_txn_number_through_failures() {
    let deployment = Deployment::primary();
    let observed = ObservedClient::new(&deployment, "").await;
    let mut session = bounded(observed.client.start_session()).await.unwrap();
    deployment.inject(&[Fault::LostReply, Fault::None, Fault::LostRequest]);
    for n in 0..3 {
        let insert = observed.books.insert_one(doc! { "_id": n }).session(&mut session);
        bounded(insert).await.unwrap();
    }
    assert_eq!(observed.numbers("insert"), [1, 1, 2, 2, 3].map(Some));
    let ids = observed.sessions("insert");
    assert!(ids.iter().all(|id| id == session.id()), "{ids:?}");
    assert!(deployment.applied().values().all(|&times| times == 1));
    drop(session);
    observed.run(&write("insert_one")).await.unwrap();
    assert_ne!(observed.sessions("insert").last(), ids.last(), "pitfall 17");
}

#[tokio::test]
async fn a_failed_checkout_discards_no_session() {
    // pitfall 18: the first attempt had no connection, and therefore no session.
    let deployment = Deployment::primary();
    deployment.cut_handshakes(1);
    let observed = ObservedClient::new(&deployment, "").await;
    observed.run(&write("insert_one")).await.unwrap();
    observed.run(&write("insert_one")).await.unwrap();
    assert_eq!(observed.numbers("insert"), [1, 2].map(Some));
    let sessions = observed.sessions("insert");
    assert_eq!(sessions[0], sessions[1]);
}

#[tokio::test]
async fn a_dirty_session_is_not_ended_at_shutdown() {
    // pitfall 17
    let deployment = Deployment::primary();
    let observed = ObservedClient::new(&deployment, "").await;
    deployment.inject(&[Fault::LostReply]);
    observed.run(&write("insert_one")).await.unwrap();
    observed.run(&write("update_one")).await.unwrap();
    let (dirty, clean) = (observed.sessions("insert")[0].clone(), observed.sessions("update"));
    // A shutdown waits at most one second for `endSessions`.
    let _clock = Clock::stopped();
    bounded(observed.client.clone().shutdown()).await;
    let ended = deployment.requests("endSessions");
    let ended: Vec<_> =
        ended.iter().flat_map(|request| request.body.get_array("endSessions").unwrap()).collect();
    assert!(!ended.iter().any(|id| id.as_document() == Some(&dirty)), "{ended:?}");
    assert!(ended.iter().any(|id| id.as_document() == clean.first()), "{ended:?}");
}

#[tokio::test]
async fn a_dropped_write_discards_its_session() {
    // pitfalls 22 and 38
    with_each(retryable_writes(), |write| async move {
        let deployment = Deployment::primary();
        let observed = ObservedClient::new(&deployment, "").await;
        deployment.inject(&[Fault::HeldReply]);
        let dropped = tokio::spawn((write.run)(observed.books.clone()));
        deployment.server().wait_for(|log| !log.named(write.command).is_empty()).await;
        dropped.abort();
        assert!(dropped.await.unwrap_err().is_cancelled());
        let lost = observed.sessions(write.command)[0].clone();
        observed.run(&operations::write("insert_one")).await.unwrap();
        assert_ne!(observed.sessions("insert").last(), Some(&lost), "{}", write.name);
        let failed = observed.commands.seen().into_iter().any(|event| {
            matches!(event, CommandEvent::Failed(failed) if failed.command_name == write.command)
        });
        assert!(failed, "{}: no command failed event", write.name);
        deployment.gate.open();
    })
    .await;
}
