//! Every retryable write with every fault: it is applied exactly once or not at all, the error has the correct
//! outcome, and every attempt is listed.

use super::*;

/// Expected result of an operation.
#[derive(Clone, Copy)]
enum Expected {
    /// The operation succeeds and is applied once.
    Success,
    /// The operation fails with the error of this attempt, counted from 0.
    Failure { raised: usize, applied: bool, outcome: Outcome, outcome_of_many: Outcome },
}

fn failure(raised: usize, applied: bool, outcome: Outcome) -> Expected {
    Expected::Failure { raised, applied, outcome, outcome_of_many: outcome }
}

/// Runs every retryable write with these faults.
async fn check_every_write(faults: &'static [Fault], expected: Expected) {
    with_each(retryable_writes(), move |write| async move {
        check_with_faults(&write, faults, expected).await;
    })
    .await;
}

async fn check_with_faults(write: &Operation, faults: &[Fault], expected: Expected) {
    let at = format!("{} with {faults:?}", write.name);
    let (deployment, observed, result) = run_with(write, "", faults).await;
    check_end(&at, write, faults, expected, &result);
    check_applied(&at, write, &deployment, expected);
    check_attempts(&at, write, &observed, faults, expected);
    check_transaction_ids(&at, &deployment, &observed);
}

fn check_end(
    at: &str,
    write: &Operation,
    faults: &[Fault],
    expected: Expected,
    result: &Result<()>,
) {
    let (raised, outcome) = match (expected, result) {
        (Expected::Success, Ok(())) => return,
        (Expected::Success, Err(error)) => panic!("{at}: expected success: {error:?}"),
        (Expected::Failure { .. }, Ok(())) => panic!("{at}: expected an error (pitfalls 1 and 2)"),
        (Expected::Failure { raised, outcome, .. }, Err(_)) if write.statements == 1 => {
            (raised, outcome)
        }
        (Expected::Failure { raised, outcome_of_many, .. }, Err(_)) => (raised, outcome_of_many),
    };
    let error = result.as_ref().unwrap_err();
    assert_eq!(error.outcome(), outcome, "{at}: {error:?}");
    assert_eq!(error.attempts().len(), faults.len(), "{at}: {:?}", error.attempts());
    if faults[raised].is_answered() {
        let said = format!("at attempt {}", raised + 1);
        assert!(error.to_string().contains(&said), "{at}: not the error {said}: {error:?}");
    } else {
        assert!(error.is_network_error(), "{at}: {error:?}");
    }
    assert!(error.contains_label(RETRYABLE_WRITE_ERROR), "{at}: {error:?}");
}

/// Checks that every statement was applied exactly once, or that none was applied.
fn check_applied(at: &str, write: &Operation, deployment: &Deployment, expected: Expected) {
    let applied = deployment.applied();
    let once = applied.values().all(|&times| times == 1);
    assert!(once, "{at}: applied more than once: {applied:?}");
    // A write concern error does not keep the later commands of a bulk write from being sent.
    let goes_on = match expected {
        Expected::Success => true,
        Expected::Failure { outcome, .. } => outcome == Outcome::AppliedNotDurable,
    };
    match expected {
        _ if goes_on && write.name == "bulk_write" => assert_eq!(applied.len(), 4, "{at}"),
        Expected::Success | Expected::Failure { applied: true, .. } => {
            assert_eq!(applied.len(), write.statements, "{at}: {applied:?}");
        }
        Expected::Failure { applied: false, .. } => {
            assert!(applied.is_empty(), "{at}: {applied:?}");
        }
    }
    assert_eq!(deployment.faults_left(), 0, "{at}: not retried");
}

/// Checks that the attempts share operation id and `txnNumber`, and that there is one request for each fault, and
/// one more if the operation succeeded.
fn check_attempts(
    at: &str,
    write: &Operation,
    observed: &ObservedClient,
    faults: &[Fault],
    expected: Expected,
) {
    let started = observed.started(write.command);
    let expected = faults.len() + usize::from(matches!(expected, Expected::Success));
    assert_eq!(started.len(), expected, "{at}: {started:?}");
    for (fault, pair) in faults.iter().zip(started.windows(2)) {
        let [before, after] = pair else { unreachable!("windows of two") };
        assert_eq!(before.operation_id, after.operation_id, "{at}");
        assert_ne!(before.request_id, after.request_id, "{at}");
        for field in ["lsid", "txnNumber"] {
            let values = (before.command.get(field), after.command.get(field));
            assert!(values.0.is_some(), "{at}: no {field}: {before:?}");
            assert_eq!(values.0, values.1, "{at}: another {field}");
        }
        // pitfall 35
        let times = (cluster_time(&before.command), cluster_time(&after.command));
        if fault.is_answered() {
            assert!(times.1 > times.0, "{at}: the old $clusterTime: {times:?}");
        }
    }
}

/// Checks that every started command, and every request at the server, has an `lsid` and a positive 64-bit
/// `txnNumber` as top-level fields.
fn check_transaction_ids(at: &str, deployment: &Deployment, observed: &ObservedClient) {
    let events = observed.all_started();
    let received = deployment.server().log();
    let mut compared = 0;
    for event in &events {
        let (id, number) = (event.command.get("lsid"), event.command.get("txnNumber"));
        assert!(matches!(id, Some(Bson::Document(_))), "{at}: no session: {event:?}");
        assert!(matches!(number, Some(Bson::Int64(1..))), "{at}: no positive int64: {event:?}");
        // A truncated request is not logged by the server.
        let mut same = received.requests.iter().filter(|request| request.id == event.request_id);
        if let Some(request) = same.next() {
            assert!(!request.has_duplicate_fields, "{at}: {request:?}");
            assert_eq!(
                (request.body.get("lsid"), request.body.get("txnNumber")),
                (id, number),
                "{at}"
            );
            compared += 1;
        }
    }
    assert!(!events.is_empty(), "{at}");
    assert_eq!(compared + received.cut, events.len(), "{at}: {received:?}");
}

#[tokio::test]
async fn write_without_a_failure_is_applied_once() {
    check_every_write(&[], Expected::Success).await;
}

#[tokio::test]
async fn a_lost_reply_is_not_applied_twice() {
    // pitfall 8
    check_every_write(&[Fault::LostReply], Expected::Success).await;
}

#[tokio::test]
async fn lost_request_is_retried_and_applied_once() {
    check_every_write(&[Fault::LostRequest], Expected::Success).await;
}

#[tokio::test]
async fn truncated_request_is_retried_and_applied_once() {
    check_every_write(&[Fault::TruncatedRequest], Expected::Success).await;
}

#[tokio::test]
async fn truncated_reply_is_not_applied_twice() {
    check_every_write(&[Fault::TruncatedReply], Expected::Success).await;
}

#[tokio::test]
async fn not_writable_primary_error_is_retried_and_applied_once() {
    check_every_write(&[Fault::CommandError(NOT_WRITABLE_PRIMARY, RETRYABLE)], Expected::Success)
        .await;
}

#[tokio::test]
async fn interrupted_at_shutdown_error_is_retried_and_applied_once() {
    check_every_write(
        &[Fault::CommandError(INTERRUPTED_AT_SHUTDOWN, RETRYABLE)],
        Expected::Success,
    )
    .await;
}

#[tokio::test]
async fn retryable_write_concern_error_is_not_applied_twice() {
    // pitfall 15
    check_every_write(
        &[Fault::WriteConcernError(SHUTDOWN_IN_PROGRESS, RETRYABLE)],
        Expected::Success,
    )
    .await;
}

#[tokio::test]
async fn two_lost_replies_are_not_applied_twice() {
    let expected = failure(1, true, Outcome::MaybeApplied);
    check_every_write(&[Fault::LostReply, Fault::LostReply], expected).await;
}

#[tokio::test]
async fn two_lost_requests_are_not_applied() {
    let expected = failure(1, false, Outcome::MaybeApplied);
    check_every_write(&[Fault::LostRequest, Fault::LostRequest], expected).await;
}

#[tokio::test]
async fn truncated_request_and_truncated_reply_are_applied_once() {
    let expected = failure(1, true, Outcome::MaybeApplied);
    check_every_write(&[Fault::TruncatedRequest, Fault::TruncatedReply], expected).await;
}

#[tokio::test]
async fn two_not_writable_primary_errors_are_not_applied() {
    let expected = Expected::Failure {
        raised: 1,
        applied: false,
        outcome: Outcome::NotApplied,
        outcome_of_many: Outcome::MaybeApplied,
    };
    check_every_write(&[Fault::CommandError(NOT_WRITABLE_PRIMARY, RETRYABLE); 2], expected).await;
}

#[tokio::test]
async fn two_interrupted_at_shutdown_errors_are_not_applied() {
    let expected = failure(1, false, Outcome::MaybeApplied);
    check_every_write(&[Fault::CommandError(INTERRUPTED_AT_SHUTDOWN, RETRYABLE); 2], expected)
        .await;
}

#[tokio::test]
async fn two_retryable_write_concern_errors_are_applied_once() {
    // pitfall 11
    let expected = failure(1, true, Outcome::AppliedNotDurable);
    check_every_write(&[Fault::WriteConcernError(SHUTDOWN_IN_PROGRESS, RETRYABLE); 2], expected)
        .await;
}

#[tokio::test]
async fn no_writes_performed_of_the_first_attempt_raises_the_second_error() {
    // pitfall 2
    let expected = failure(1, true, Outcome::AppliedNotDurable);
    let first = Fault::CommandError(NOT_WRITABLE_PRIMARY, NO_WRITES_PERFORMED);
    let second = Fault::WriteConcernError(SHUTDOWN_IN_PROGRESS, RETRYABLE);
    with_each(retryable_writes(), |write| async move {
        check_with_faults(&write, &[first, second], expected).await;
        let maybe = failure(1, true, Outcome::MaybeApplied);
        check_with_faults(&write, &[first, Fault::LostReply], maybe).await;
        check_with_faults(&write, &[first], Expected::Success).await;
    })
    .await;
}

#[tokio::test]
async fn no_writes_performed_of_the_retry_raises_the_first_error() {
    let last = Fault::CommandError(NOT_WRITABLE_PRIMARY, NO_WRITES_PERFORMED);
    with_each(retryable_writes(), |write| async move {
        let not_durable = Fault::WriteConcernError(SHUTDOWN_IN_PROGRESS, RETRYABLE);
        let expected = failure(0, true, Outcome::AppliedNotDurable);
        check_with_faults(&write, &[not_durable, last], expected).await;
        let maybe = failure(0, true, Outcome::MaybeApplied);
        check_with_faults(&write, &[Fault::LostReply, last], maybe).await;
    })
    .await;
}

#[tokio::test]
async fn no_writes_performed_of_both_attempts_raises_the_first_error() {
    // pitfall 1
    let expected = failure(0, false, Outcome::NotApplied);
    check_every_write(
        &[Fault::CommandError(NOT_WRITABLE_PRIMARY, NO_WRITES_PERFORMED); 2],
        expected,
    )
    .await;
}
