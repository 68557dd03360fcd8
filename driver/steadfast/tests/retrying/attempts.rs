//! Attempts listed by an error.

use super::*;

#[tokio::test]
async fn an_error_lists_server_connection_and_request_of_each_attempt() {
    with_each(retryable_writes(), |write| async move {
        let faults = [Fault::LostReply, Fault::CommandError(INTERRUPTED_AT_SHUTDOWN, RETRYABLE)];
        let (deployment, observed, result) = run_with(&write, "", &faults).await;
        let error = result.expect_err(write.name);
        let started = observed.started(write.command);
        assert_eq!(error.attempts().len(), 2, "{}: {error:?}", write.name);
        for (attempt, event) in error.attempts().iter().zip(&started) {
            assert_eq!(attempt.server.to_string(), deployment.server().address());
            assert_eq!(attempt.connection, Some(event.connection.id), "{}", write.name);
            assert_eq!(attempt.request_id, Some(event.request_id), "{}", write.name);
            assert_eq!(attempt.labels, RETRYABLE, "{}", write.name);
            assert!(attempt.backoff.is_zero(), "{}", write.name);
        }
        assert_ne!(error.attempts()[0].connection, error.attempts()[1].connection);
    })
    .await;
}

#[tokio::test]
async fn an_attempt_without_a_connection_is_listed() {
    let deployment = Deployment::primary();
    deployment.cut_handshakes(1);
    deployment.inject(&[Fault::CommandError(13, UNLABELLED)]);
    let observed = ObservedClient::new(&deployment, "").await;
    let error = observed.run(&write("insert_one")).await.unwrap_err();
    let [unsent, rejected] = error.attempts() else { panic!("{error:?}") };
    assert_eq!((unsent.connection, unsent.request_id), (None, None));
    assert!(unsent.labels.iter().any(|label| label == RETRYABLE_WRITE_ERROR), "{unsent:?}");
    assert!(rejected.connection.is_some() && rejected.request_id.is_some());
    assert!(rejected.labels.is_empty());
    assert_eq!(error.code(), Some(13), "the error of the attempt that was sent: {error:?}");
    assert_eq!(error.outcome(), Outcome::NotApplied);
}

#[tokio::test]
async fn an_error_without_an_attempt_lists_none() {
    let deployment = Deployment::primary();
    let observed = ObservedClient::new(&deployment, "").await;
    let none: [Document; 0] = [];
    let error = bounded(observed.books.insert_many(none)).await.unwrap_err();
    assert!(error.is_invalid_argument(), "{error:?}");
    assert_eq!((error.outcome(), error.attempts().len()), (Outcome::NotSent, 0));
}
