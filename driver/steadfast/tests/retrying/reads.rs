//! Reads are tried again, cursors are not moved twice.

use super::{
    common::{Server, Step},
    *,
};

/// After these a read is tried again; with labels or without makes no difference.
const FAULTS: [Fault; 7] = [
    Fault::LostRequest,
    Fault::PartOfRequest,
    Fault::LostReply,
    Fault::PartOfReply,
    Fault::Refused(NOT_WRITABLE_PRIMARY, UNLABELLED),
    Fault::Refused(INTERRUPTED_AT_SHUTDOWN, UNLABELLED),
    // `ReadConcernMajorityNotAvailableYet`
    Fault::Refused(134, UNLABELLED),
];

#[tokio::test]
async fn every_read_is_tried_again() {
    with_each(reads(), |read| async move {
        for fault in FAULTS {
            let at = format!("{} that suffers {fault:?}", read.name);
            let (_deployment, watched, result) = run_with(&read, "", &[fault]).await;
            assert!(result.is_ok(), "{at}: {result:?}");
            assert_eq!(watched.numbers(read.command), [None, None], "{at}");
            let started = watched.started(read.command);
            assert_eq!(started[0].operation_id, started[1].operation_id, "{at}");
            assert_eq!(started[0].command.get("lsid"), started[1].command.get("lsid"), "{at}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_check_out_that_fails_is_tried_again() {
    with_each(reads(), |read| async move {
        let deployment = Deployment::primary();
        deployment.cut_handshakes(1);
        let watched = Watched::new(&deployment, "").await;
        let result = watched.run(&read).await;
        assert!(result.is_ok(), "{}: {result:?}", read.name);
        assert_eq!(watched.started(read.command).len(), 1, "{}", read.name);
    })
    .await;
}

#[tokio::test]
async fn a_read_is_tried_once_again_and_no_more() {
    with_each(reads(), |read| async move {
        let faults = [Fault::LostReply, Fault::Refused(NOT_WRITABLE_PRIMARY, UNLABELLED)];
        let (_deployment, watched, result) = run_with(&read, "", &faults).await;
        let error = result.expect_err(read.name);
        assert_eq!(watched.started(read.command).len(), 2, "{}", read.name);
        assert!(error.to_string().contains("at attempt 2"), "{}: {error:?}", read.name);
        assert_eq!(error.attempts().len(), 2, "{}", read.name);
        assert_eq!(error.outcome(), Outcome::NotApplied, "a read writes nothing");
        assert!(error.labels().is_empty(), "{}: {error:?}", read.name);
    })
    .await;
}

#[tokio::test]
async fn with_retry_reads_off_no_read_is_tried_again() {
    with_each(reads(), |read| async move {
        for fault in [Fault::LostReply, Fault::Refused(NOT_WRITABLE_PRIMARY, UNLABELLED)] {
            let at = format!("{} that suffers {fault:?}", read.name);
            let (_deployment, watched, result) =
                run_with(&read, "retryReads=false", &[fault]).await;
            assert!(result.is_err(), "{at}");
            assert_eq!(watched.started(read.command).len(), 1, "{at}");
        }
    })
    .await;
}

#[tokio::test]
async fn retry_writes_has_no_say_in_reads() {
    let (_deployment, watched, result) =
        run_with(&reads()[0], "retryWrites=false", &[Fault::LostReply]).await;
    assert!(result.is_ok(), "{result:?}");
    assert_eq!(watched.started("find").len(), 2);
}

#[tokio::test]
async fn an_error_that_would_come_again_is_raised_at_once() {
    with_each(reads(), |read| async move {
        // A label for writes says nothing of reads.
        let (_deployment, watched, result) =
            run_with(&read, "", &[Fault::Refused(2, RETRYABLE)]).await;
        assert_eq!(result.expect_err(read.name).code(), Some(2));
        assert_eq!(watched.started(read.command).len(), 1, "{}", read.name);
    })
    .await;
}

#[tokio::test]
async fn a_cursor_is_not_moved_twice() {
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
