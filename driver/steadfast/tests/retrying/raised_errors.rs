//! The error that is raised after several failed attempts, or if no retry could be sent.

use super::*;

/// Runs an insert with these faults, and checks that the error of this attempt is raised.
async fn check_raised(faults: &[Fault], raised: usize, outcome: Outcome) {
    let insert = write("insert_one");
    let (_deployment, observed, result) = run_with(&insert, "", faults).await;
    let error = result.expect_err("it fails");
    assert_eq!(observed.started("insert").len(), faults.len(), "{faults:?}: {error:?}");
    if faults[raised].is_answered() {
        let said = format!("at attempt {}", raised + 1);
        assert!(error.to_string().contains(&said), "{faults:?}: {error:?}");
    } else {
        assert!(error.is_network_error(), "{faults:?}: {error:?}");
    }
    assert_eq!(error.outcome(), outcome, "{faults:?}: {error:?}");
}

#[tokio::test]
async fn the_second_error_is_raised_if_the_retry_was_sent() {
    let rejected = Fault::CommandError(13, UNLABELLED);
    check_raised(&[Fault::LostReply, rejected], 1, Outcome::MaybeApplied).await;
    let not_durable = Fault::WriteConcernError(64, UNLABELLED);
    check_raised(&[Fault::LostReply, not_durable], 1, Outcome::AppliedNotDurable).await;
    let duplicate = Fault::WriteError(0, 11000, UNLABELLED);
    check_raised(&[Fault::LostRequest, duplicate], 1, Outcome::NotApplied).await;
}

#[tokio::test]
async fn no_writes_performed_never_hides_an_error_that_may_have_written() {
    let nothing = Fault::CommandError(NOT_WRITABLE_PRIMARY, NO_WRITES_PERFORMED);
    check_raised(&[Fault::LostReply, nothing], 0, Outcome::MaybeApplied).await;
    check_raised(&[nothing, Fault::LostReply], 1, Outcome::MaybeApplied).await;
    check_raised(&[nothing, nothing], 0, Outcome::NotApplied).await;
    // Also if it is not retryable.
    let other = Fault::CommandError(13, &["NoWritesPerformed"]);
    check_raised(&[Fault::LostRequest, other], 0, Outcome::MaybeApplied).await;
}

#[tokio::test]
async fn the_first_error_is_raised_if_no_server_can_be_selected_for_the_retry() {
    let clock = Clock::stopped();
    for fault in [Fault::LostReply, Fault::CommandError(NOT_WRITABLE_PRIMARY, RETRYABLE)] {
        let deployment = Deployment::primary();
        deployment.inject(&[fault]);
        deployment.set_hello_fields_after_fault(doc! {
            "ismaster": false, "isWritablePrimary": false, "secondary": true, "primary": null,
        });
        let observed = ObservedClient::new(&deployment, "serverSelectionTimeoutMS=800").await;
        let insert = write("insert_one");
        let (ended, ()) = tokio::join!(observed.run(&insert), async {
            let failed = |event: &CommandEvent| matches!(event, CommandEvent::Failed(_));
            observed.commands.wait_for(1, failed).await;
            clock.pass(std::time::Duration::from_millis(800)).await;
        });
        let error = ended.unwrap_err();
        assert!(!error.is_server_selection_error(), "{error:?}");
        assert_eq!(error.attempts().len(), 1, "{error:?}");
        assert_eq!(error.code().is_some(), fault.is_answered(), "{error:?}");
        assert_eq!(observed.started("insert").len(), 1);
    }
}

#[tokio::test]
async fn the_first_error_is_raised_if_the_server_for_the_retry_has_no_sessions() {
    with_each(retryable_writes(), |write| async move {
        let deployment = Deployment::primary();
        deployment.inject(&[Fault::LostReply]);
        deployment.set_hello_fields_after_fault(doc! { "logicalSessionTimeoutMinutes": null });
        let observed = ObservedClient::new(&deployment, "").await;
        let error = observed.run(&write).await.expect_err(write.name);
        assert!(error.is_network_error(), "{}: {error:?}", write.name);
        assert_eq!(error.outcome(), Outcome::MaybeApplied, "{}", write.name);
        assert_eq!(error.attempts().len(), 1, "{}: it is not even tried", write.name);
        assert_eq!(observed.started(write.command).len(), 1, "{}", write.name);
        assert!(deployment.applied().values().all(|&times| times == 1), "{}", write.name);
    })
    .await;
}

#[tokio::test]
async fn the_first_error_is_raised_if_the_retry_gets_no_connection() {
    let deployment = Deployment::primary();
    let observed = ObservedClient::new(&deployment, "").await;
    observed.ping().await;
    deployment.inject(&[Fault::LostReply]);
    deployment.cut_handshakes_after_network_error();
    let error = observed.run(&write("insert_one")).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::MaybeApplied, "{error:?}");
    let [sent, unsent @ ..] = error.attempts() else { panic!("{error:?}") };
    assert!(sent.request_id.is_some(), "{error:?}");
    assert!(unsent.len() == 5 && unsent.iter().all(|it| it.request_id.is_none()), "{error:?}");
}

#[tokio::test]
async fn a_server_selection_error_has_no_attempts() {
    let deployment = Deployment::primary();
    deployment.set_hello_fields(
        doc! { "ismaster": false, "isWritablePrimary": false, "secondary": true },
    );
    let observed = ObservedClient::new(&deployment, "serverSelectionTimeoutMS=100").await;
    let error = observed.run(&write("insert_one")).await.unwrap_err();
    assert!(error.is_server_selection_error(), "{error:?}");
    assert_eq!((error.outcome(), error.attempts().len()), (Outcome::NotSent, 0));
    assert!(error.labels().is_empty(), "{error:?}");
}

#[tokio::test]
async fn the_error_of_a_storage_engine_without_transaction_numbers_is_explained() {
    with_each(retryable_writes(), |write| async move {
        let command = write.command;
        let server = common::Server::with_handler(Role::Primary, move |request| {
            let message = "Transaction numbers are only allowed on a replica set member or mongos";
            let error_reply = doc! { "ok": 0, "code": 20, "errmsg": message };
            (request.name == command).then(|| vec![common::Step::Reply(error_reply)])
        });
        let client = Client::with_uri_str(server.uri("")).await.unwrap();
        let books = client.database("db").collection("books");
        let error = bounded((write.run)(books)).await.expect_err(write.name);
        let text = error.to_string();
        assert!(text.contains("Please add retryWrites=false"), "{}: {text}", write.name);
        assert_eq!(error.code(), Some(20), "{}", write.name);
        assert_eq!(server.log().named(write.command).len(), 1, "{}", write.name);
    })
    .await;
}

#[tokio::test]
async fn other_errors_with_code_20_keep_their_message() {
    let fault = Fault::CommandError(20, UNLABELLED);
    let (_deployment, _watched, result) = run_with(&write("insert_one"), "", &[fault]).await;
    assert!(result.unwrap_err().to_string().contains("at attempt 1"));
}
