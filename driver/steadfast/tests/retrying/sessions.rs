//! What retrying means for sessions and their numbers.

use super::*;

#[tokio::test]
async fn every_write_of_a_session_has_a_number_of_its_own() {
    // pitfalls 4 and 5
    let deployment = Deployment::primary();
    let watched = Watched::new(&deployment, "").await;
    for name in ["insert_one", "update_many", "update_one", "delete_many", "delete_one"] {
        watched.run(&write(name)).await.unwrap();
    }
    assert_eq!(watched.numbers("insert"), [Some(1)]);
    assert_eq!(watched.numbers("update"), [None, Some(2)]);
    assert_eq!(watched.numbers("delete"), [None, Some(3)]);
    let mut sessions = watched.sessions("insert");
    sessions.extend(watched.sessions("update"));
    sessions.extend(watched.sessions("delete"));
    assert!(sessions.iter().all(|id| *id == sessions[0]), "{sessions:?}");
}

#[tokio::test]
async fn a_number_is_not_used_again_after_a_write_that_failed() {
    // pitfalls 4 and 5
    let deployment = Deployment::primary();
    let watched = Watched::new(&deployment, "").await;
    deployment.suffer(&[Fault::Refused(HOST_UNREACHABLE, RETRYABLE); 2]);
    watched.run(&write("insert_one")).await.unwrap_err();
    deployment.suffer(&[Fault::Refused(2, UNLABELLED)]);
    watched.run(&write("insert_one")).await.unwrap_err();
    watched.run(&write("insert_one")).await.unwrap();
    assert_eq!(watched.numbers("insert"), [1, 1, 2, 3].map(Some));
    assert_eq!(deployment.applied().len(), 1);
}

#[tokio::test]
async fn a_session_whose_connection_broke_is_not_used_again() {
    // pitfall 17: not even if the retry succeeded.
    with_each(retryable_writes(), |write| async move {
        for faults in [&[Fault::LostReply][..], &[Fault::LostReply; 2]] {
            let (_deployment, watched, result) = run_with(&write, "", faults).await;
            assert_eq!(result.is_ok(), faults.len() == 1, "{}", write.name);
            let broken = watched.sessions(write.command)[0].clone();
            watched.run(&operations::write("insert_one")).await.unwrap();
            let next = watched.sessions("insert").last().unwrap().clone();
            assert_ne!(broken, next, "{}: a dirty session is used again", write.name);
        }
    })
    .await;
}

#[tokio::test]
async fn a_session_in_which_a_write_was_only_refused_is_used_again() {
    let deployment = Deployment::primary();
    let watched = Watched::new(&deployment, "").await;
    deployment.suffer(&[Fault::Refused(HOST_UNREACHABLE, RETRYABLE)]);
    watched.run(&write("insert_one")).await.unwrap();
    watched.run(&write("insert_one")).await.unwrap();
    let sessions = watched.sessions("insert");
    assert!(sessions.iter().all(|id| *id == sessions[0]), "{sessions:?}");
}

#[tokio::test]
async fn a_read_whose_connection_broke_costs_its_session_too() {
    // pitfall 17
    let deployment = Deployment::primary();
    let watched = Watched::new(&deployment, "").await;
    deployment.suffer(&[Fault::LostReply]);
    watched.run(&reads()[0]).await.unwrap();
    watched.run(&write("insert_one")).await.unwrap();
    assert_ne!(watched.sessions("find")[0], watched.sessions("insert")[0]);
    assert_eq!(watched.numbers("insert"), [Some(1)], "a new session begins anew");
}

#[tokio::test]
async fn a_session_of_the_applications_keeps_its_id_and_its_count_through_failures() {
    let deployment = Deployment::primary();
    let watched = Watched::new(&deployment, "").await;
    let mut session = bounded(watched.client.start_session()).await.unwrap();
    deployment.suffer(&[Fault::LostReply, Fault::None, Fault::LostRequest]);
    for n in 0..3 {
        let insert = watched.books.insert_one(doc! { "_id": n }).session(&mut session);
        bounded(insert).await.unwrap();
    }
    assert_eq!(watched.numbers("insert"), [1, 1, 2, 2, 3].map(Some));
    let ids = watched.sessions("insert");
    assert!(ids.iter().all(|id| id == session.id()), "{ids:?}");
    assert!(deployment.applied().values().all(|&times| times == 1));
    drop(session);
    watched.run(&write("insert_one")).await.unwrap();
    assert_ne!(watched.sessions("insert").last(), ids.last(), "pitfall 17");
}

#[tokio::test]
async fn a_session_that_was_never_begun_costs_nothing() {
    // pitfall 18: the first attempt got no connection, and so no session.
    let deployment = Deployment::primary();
    deployment.cut_handshakes(1);
    let watched = Watched::new(&deployment, "").await;
    watched.run(&write("insert_one")).await.unwrap();
    watched.run(&write("insert_one")).await.unwrap();
    assert_eq!(watched.numbers("insert"), [1, 2].map(Some));
    let sessions = watched.sessions("insert");
    assert_eq!(sessions[0], sessions[1]);
}

#[tokio::test]
async fn a_session_that_is_dirty_is_not_ended_at_shutdown() {
    // pitfall 17
    let deployment = Deployment::primary();
    let watched = Watched::new(&deployment, "").await;
    deployment.suffer(&[Fault::LostReply]);
    watched.run(&write("insert_one")).await.unwrap();
    watched.run(&write("update_one")).await.unwrap();
    let (dirty, clean) = (watched.sessions("insert")[0].clone(), watched.sessions("update"));
    // It waits for a second at most until they are ended.
    let _clock = Clock::stopped();
    bounded(watched.client.clone().shutdown()).await;
    let ended = deployment.requests("endSessions");
    let ended: Vec<_> =
        ended.iter().flat_map(|request| request.body.get_array("endSessions").unwrap()).collect();
    assert!(!ended.iter().any(|id| id.as_document() == Some(&dirty)), "{ended:?}");
    assert!(ended.iter().any(|id| id.as_document() == clean.first()), "{ended:?}");
}

#[tokio::test]
async fn a_write_whose_future_was_dropped_costs_its_session() {
    // pitfalls 22 and 38
    with_each(retryable_writes(), |write| async move {
        let deployment = Deployment::primary();
        let watched = Watched::new(&deployment, "").await;
        deployment.suffer(&[Fault::HeldReply]);
        let dropped = tokio::spawn((write.run)(watched.books.clone()));
        deployment.server().wait_for(|log| !log.named(write.command).is_empty()).await;
        dropped.abort();
        assert!(dropped.await.unwrap_err().is_cancelled());
        let lost = watched.sessions(write.command)[0].clone();
        watched.run(&operations::write("insert_one")).await.unwrap();
        assert_ne!(watched.sessions("insert").last(), Some(&lost), "{}", write.name);
        let failed = watched.commands.seen().into_iter().any(|event| {
            matches!(event, CommandEvent::Failed(failed) if failed.command_name == write.command)
        });
        assert!(failed, "{}: nobody is told of its end", write.name);
        deployment.gate.open();
    })
    .await;
}
