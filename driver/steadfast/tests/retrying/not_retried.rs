//! Commands that are sent only once.

use super::*;

/// Checks that the write was sent once, without a `txnNumber`, and that its error has no label
/// `RetryableWriteError`.
fn check_sent_once(at: &str, write: &Operation, observed: &ObservedClient, error: &Error) {
    assert_eq!(observed.numbers(write.command), [None], "{at}");
    assert!(!error.contains_label(RETRYABLE_WRITE_ERROR), "{at}: {error:?}");
    assert_eq!(error.attempts().len(), 1, "{at}: {error:?}");
    assert_eq!(error.outcome(), Outcome::MaybeApplied, "{at}: {error:?}");
}

#[tokio::test]
async fn writes_that_are_not_retryable_are_sent_once() {
    // pitfall 12
    with_each(other_writes(), |write| async move {
        for fault in [Fault::LostReply, Fault::LostRequest, Fault::TruncatedRequest] {
            let at = format!("{} with {fault:?}", write.name);
            let (_deployment, observed, result) = run_with(&write, "", &[fault]).await;
            let error = result.expect_err(&at);
            assert!(error.is_network_error(), "{at}: {error:?}");
            check_sent_once(&at, &write, &observed, &error);
        }
    })
    .await;
}

#[tokio::test]
async fn a_retryable_write_error_label_does_not_make_other_writes_retryable() {
    with_each(other_writes(), |write| async move {
        let fault = Fault::CommandError(NOT_WRITABLE_PRIMARY, RETRYABLE);
        let (_deployment, observed, result) = run_with(&write, "", &[fault]).await;
        let error = result.expect_err(write.name);
        assert_eq!(observed.numbers(write.command), [None], "{}", write.name);
        assert_eq!(error.code(), Some(NOT_WRITABLE_PRIMARY), "{}: {error:?}", write.name);
        // Some documents may have been written before the step-down.
        assert_eq!(error.outcome(), Outcome::MaybeApplied, "{}: {error:?}", write.name);
    })
    .await;
}

/// A failed checkout is an overload error, and nothing was sent.
#[tokio::test]
async fn a_failed_checkout_of_other_writes_is_retried_unless_retry_writes_is_off() {
    with_each(other_writes(), |write| async move {
        let deployment = Deployment::primary();
        deployment.cut_handshakes(1);
        let observed = ObservedClient::new(&deployment, "").await;
        observed.run(&write).await.expect(write.name);
        assert_eq!(observed.numbers(write.command), [None], "{}", write.name);

        let deployment = Deployment::primary();
        deployment.cut_handshakes(1);
        let observed = ObservedClient::new(&deployment, "retryWrites=false").await;
        let error = observed.run(&write).await.expect_err(write.name);
        assert_eq!(error.outcome(), Outcome::NotSent, "{}: {error:?}", write.name);
        let labelled = error.contains_label(RETRYABLE_WRITE_ERROR);
        assert!(!labelled, "{}: {error:?}", write.name);
        assert_eq!(error.attempts().len(), 1, "{}: {error:?}", write.name);
    })
    .await;
}

#[tokio::test]
async fn with_retry_writes_off_writes_have_no_retry_no_txn_number_and_no_label() {
    // pitfall 28
    with_each(retryable_writes(), |write| async move {
        for fault in [Fault::LostReply, Fault::LostRequest, Fault::TruncatedReply] {
            let at = format!("{} with {fault:?}", write.name);
            let (_deployment, observed, result) =
                run_with(&write, "retryWrites=false", &[fault]).await;
            check_sent_once(&at, &write, &observed, &result.expect_err(&at));
        }
        let rejected = Fault::CommandError(INTERRUPTED_AT_SHUTDOWN, RETRYABLE);
        let (deployment, observed, result) =
            run_with(&write, "retryWrites=false", &[rejected]).await;
        let error = result.expect_err(write.name);
        assert_eq!(observed.numbers(write.command), [None], "{}", write.name);
        assert!(error.contains_label(RETRYABLE_WRITE_ERROR), "the label of the server: {error:?}");
        assert!(deployment.applied().is_empty());
    })
    .await;
}

#[tokio::test]
async fn no_txn_number_is_sent_to_a_standalone_server() {
    // pitfall 14
    with_each(retryable_writes(), |write| async move {
        let deployment = Deployment::start(Role::Standalone);
        deployment.inject(&[Fault::LostReply]);
        let observed = ObservedClient::new(&deployment, "").await;
        let error = observed.run(&write).await.expect_err(write.name);
        check_sent_once(write.name, &write, &observed, &error);
    })
    .await;
}

#[tokio::test]
async fn no_txn_number_is_sent_to_a_standalone_server_with_sessions() {
    // pitfall 14
    let deployment = Deployment::start(Role::Standalone);
    deployment.set_hello_fields(doc! { "logicalSessionTimeoutMinutes": 30 });
    let observed = ObservedClient::new(&deployment, "").await;
    deployment.inject(&[Fault::LostReply]);
    let insert = write("insert_one");
    let error = observed.run(&insert).await.unwrap_err();
    check_sent_once(insert.name, &insert, &observed, &error);
    assert_eq!(observed.sessions("insert").len(), 1);
}

#[tokio::test]
async fn no_txn_number_is_sent_to_a_member_without_sessions() {
    let deployment = Deployment::primary();
    deployment.set_hello_fields(doc! { "logicalSessionTimeoutMinutes": null });
    let observed = ObservedClient::new(&deployment, "").await;
    deployment.inject(&[Fault::LostReply]);
    let insert = write("insert_one");
    let error = observed.run(&insert).await.unwrap_err();
    check_sent_once(insert.name, &insert, &observed, &error);
    assert!(!observed.started("insert")[0].command.contains_key("lsid"));
}

#[tokio::test]
async fn an_unacknowledged_write_has_neither_session_nor_txn_number() {
    // pitfall 19
    with_each(retryable_writes(), |write| async move {
        if write.name == "bulk_write" {
            return; // See the next test.
        }
        let (deployment, observed, result) = run_with(&write, "w=0", &[Fault::LostReply]).await;
        assert!(result.is_ok(), "{}: {result:?}", write.name);
        deployment.server().wait_for(|log| !log.named(write.command).is_empty()).await;
        assert_eq!(observed.started(write.command).len(), 1, "{}", write.name);
        let sent = deployment.requests(write.command);
        assert_eq!(sent.len(), 1, "{}", write.name);
        check_unacknowledged(write.name, &sent[0]);
    })
    .await;
}

fn check_unacknowledged(at: &str, request: &common::Request) {
    assert!(!request.expects_reply, "{at}: {request:?}");
    assert_eq!(request.body.get_document("writeConcern").unwrap(), &doc! { "w": 0 }, "{at}");
    for field in ["lsid", "txnNumber"] {
        assert!(!request.body.contains_key(field), "{at}: {request:?}");
    }
}

/// The reply of each command decides on the next command, so only the last can be unacknowledged.
#[tokio::test]
async fn an_ordered_unacknowledged_bulk_write_acknowledges_all_but_its_last_command() {
    let (deployment, _watched, result) =
        run_with(&write("bulk_write"), "w=0", &[Fault::LostReply]).await;
    assert!(result.is_ok(), "{result:?}");
    deployment.server().wait_for(|log| !log.named("insert").is_empty()).await;
    // The first command is acknowledged and therefore retried.
    let (updates, deletes) = (deployment.requests("update"), deployment.requests("delete"));
    assert_eq!((updates.len(), deletes.len()), (2, 1));
    for (number, requests) in [(1, updates), (2, deletes)] {
        for request in requests {
            assert!(request.expects_reply, "{request:?}");
            assert_eq!(request.body.get_document("writeConcern").unwrap(), &doc! { "w": 1 });
            assert_eq!(request.session_and_txn_number().map(|(_, number)| number), Some(number));
        }
    }
    let [last] = &deployment.requests("insert")[..] else { panic!("one insert") };
    check_unacknowledged("bulk_write", last);
    assert!(deployment.applied().values().all(|&times| times == 1));
}

#[tokio::test]
async fn an_error_without_a_retryable_label_is_raised_unchanged() {
    // pitfall 29
    with_each(retryable_writes(), |write| async move {
        let unlabelled = [
            Fault::CommandError(SHUTDOWN_IN_PROGRESS, UNLABELLED),
            Fault::CommandError(2, UNLABELLED),
            Fault::WriteConcernError(SHUTDOWN_IN_PROGRESS, UNLABELLED),
            Fault::WriteConcernError(64, UNLABELLED),
        ];
        for fault in unlabelled {
            let at = format!("{} with {fault:?}", write.name);
            let (_deployment, observed, result) = run_with(&write, "", &[fault]).await;
            let error = result.expect_err(&at);
            assert_eq!(observed.numbers(write.command), [Some(1)], "{at}");
            assert!(error.labels().is_empty(), "{at}: {error:?}");
            assert_eq!(error.attempts().len(), 1, "{at}: {error:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn each_command_of_a_bulk_write_is_retryable_by_itself() {
    // pitfall 12
    let (deployment, observed, result) = run_with(
        &Operation {
            name: "bulk_write of both kinds",
            command: "insert",
            statements: 1,
            run: |books| {
                Box::pin(async move {
                    use steadfast::options::{InsertOneModel, UpdateManyModel};
                    let many = UpdateManyModel::new(doc! {}, doc! { "$inc": { "x": 1 } });
                    let models = [InsertOneModel::new(doc! { "_id": 1 }).into(), many.into()];
                    books.bulk_write(models).await.map(drop)
                })
            },
        },
        "",
        &[Fault::LostReply, Fault::None, Fault::LostReply],
    )
    .await;
    let error = result.expect_err("the second command is not sent twice");
    assert_eq!(observed.numbers("insert"), [Some(1), Some(1)]);
    assert_eq!(observed.numbers("update"), [None]);
    assert_eq!(error.outcome(), Outcome::MaybeApplied, "{error:?}");
    assert!(deployment.applied().values().all(|&times| times == 1));
}
