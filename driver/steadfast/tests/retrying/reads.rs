//! Retryable reads. A `getMore` is not retried.

use super::{
    common::{Server, Step},
    *,
};

/// Codes of retryable read errors, with or without labels.
const FAULTS: [Fault; 7] = [
    Fault::LostRequest,
    Fault::TruncatedRequest,
    Fault::LostReply,
    Fault::TruncatedReply,
    Fault::CommandError(NOT_WRITABLE_PRIMARY, UNLABELLED),
    Fault::CommandError(INTERRUPTED_AT_SHUTDOWN, UNLABELLED),
    // `ReadConcernMajorityNotAvailableYet`
    Fault::CommandError(134, UNLABELLED),
];

#[tokio::test]
async fn every_read_is_retried() {
    with_each(reads(), |read| async move {
        for fault in FAULTS {
            let at = format!("{} with {fault:?}", read.name);
            let (_deployment, observed, result) = run_with(&read, "", &[fault]).await;
            assert!(result.is_ok(), "{at}: {result:?}");
            assert_eq!(observed.numbers(read.command), [None, None], "{at}");
            let started = observed.started(read.command);
            assert_eq!(started[0].operation_id, started[1].operation_id, "{at}");
            assert_eq!(started[0].command.get("lsid"), started[1].command.get("lsid"), "{at}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_read_is_retried_after_a_failed_checkout() {
    with_each(reads(), |read| async move {
        let deployment = Deployment::primary();
        deployment.cut_handshakes(1);
        let observed = ObservedClient::new(&deployment, "").await;
        let result = observed.run(&read).await;
        assert!(result.is_ok(), "{}: {result:?}", read.name);
        assert_eq!(observed.started(read.command).len(), 1, "{}", read.name);
    })
    .await;
}

#[tokio::test]
async fn a_read_is_retried_only_once() {
    with_each(reads(), |read| async move {
        let faults = [Fault::LostReply, Fault::CommandError(NOT_WRITABLE_PRIMARY, UNLABELLED)];
        let (_deployment, observed, result) = run_with(&read, "", &faults).await;
        let error = result.expect_err(read.name);
        assert_eq!(observed.started(read.command).len(), 2, "{}", read.name);
        assert!(error.to_string().contains("at attempt 2"), "{}: {error:?}", read.name);
        assert_eq!(error.attempts().len(), 2, "{}", read.name);
        assert_eq!(error.outcome(), Outcome::NotApplied, "a read writes nothing");
        assert!(error.labels().is_empty(), "{}: {error:?}", read.name);
    })
    .await;
}

#[tokio::test]
async fn with_retry_reads_off_no_read_is_retried() {
    with_each(reads(), |read| async move {
        for fault in [Fault::LostReply, Fault::CommandError(NOT_WRITABLE_PRIMARY, UNLABELLED)] {
            let at = format!("{} with {fault:?}", read.name);
            let (_deployment, observed, result) =
                run_with(&read, "retryReads=false", &[fault]).await;
            assert!(result.is_err(), "{at}");
            assert_eq!(observed.started(read.command).len(), 1, "{at}");
        }
    })
    .await;
}

#[tokio::test]
async fn retry_writes_does_not_affect_reads() {
    let (_deployment, observed, result) =
        run_with(&reads()[0], "retryWrites=false", &[Fault::LostReply]).await;
    assert!(result.is_ok(), "{result:?}");
    assert_eq!(observed.started("find").len(), 2);
}

#[tokio::test]
async fn an_error_that_is_not_retryable_is_raised_at_once() {
    with_each(reads(), |read| async move {
        // The label `RetryableWriteError` has no effect on reads.
        let (_deployment, observed, result) =
            run_with(&read, "", &[Fault::CommandError(2, RETRYABLE)]).await;
        assert_eq!(result.expect_err(read.name).code(), Some(2));
        assert_eq!(observed.started(read.command).len(), 1, "{}", read.name);
    })
    .await;
}

#[tokio::test]
async fn get_more_is_not_retried_after_a_network_error() {
    // pitfall 30
    let batch = doc! { "id": 7_i64, "ns": "db.books", "firstBatch": [{ "_id": 1 }] };
    let server = Server::with_handler(Role::Primary, move |request| match request.name.as_str() {
        "find" => Some(vec![Step::Reply(doc! { "ok": 1, "cursor": batch.clone() })]),
        "getMore" => Some(vec![Step::HangUp]),
        _ => None,
    });
    let client = Client::with_uri_str(server.uri("")).await.unwrap();
    let books = client.database("db").collection::<Document>("books");
    let mut cursor = bounded(books.find(doc! {})).await.unwrap();
    assert!(bounded(cursor.advance()).await.unwrap());
    let error = bounded(cursor.advance()).await.unwrap_err();
    assert!(error.is_network_error(), "{error:?}");
    assert_eq!((error.attempts().len(), error.outcome()), (1, Outcome::NotApplied));
    assert_eq!(server.log().named("getMore").len(), 1);
}
