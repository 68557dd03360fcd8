//! Outcomes of errors: the rows of the table in the documentation of `Outcome`.

use super::*;

struct Row {
    /// Number of the row in the table.
    number: u32,
    operation: &'static str,
    role: Role,
    options: &'static str,
    faults: &'static [Fault],
    outcome: Outcome,
}

const fn row(
    number: u32,
    operation: &'static str,
    faults: &'static [Fault],
    outcome: Outcome,
) -> Row {
    Row { number, operation, role: Role::Primary, options: "", faults, outcome }
}

const LOST: Fault = Fault::LostRequest;
const TIMED_OUT: Fault = Fault::NoReply;

const fn command_error(code: i32) -> Fault {
    Fault::CommandError(code, UNLABELLED)
}

use Outcome::{AppliedNotDurable, MaybeApplied, NotApplied};

const ROWS: &[Row] = &[
    row(3, "insert_one", &[Fault::ReplyToAnother], MaybeApplied),
    row(3, "update_many", &[LOST], MaybeApplied),
    row(3, "run_command", &[LOST], MaybeApplied),
    row(4, "insert_many", &[Fault::WriteError(1, 11000, UNLABELLED)], MaybeApplied),
    row(4, "bulk_write", &[Fault::WriteError(1, 11000, UNLABELLED)], MaybeApplied),
    row(5, "insert_one", &[Fault::CommandError(11600, &["NoWritesPerformed"])], NotApplied),
    row(5, "insert_many", &[Fault::CommandError(11600, &["NoWritesPerformed"])], NotApplied),
    row(5, "update_many", &[Fault::CommandError(11600, &["NoWritesPerformed"])], NotApplied),
    // pitfall 11
    row(7, "insert_one", &[Fault::WriteConcernError(64, UNLABELLED)], AppliedNotDurable),
    row(7, "insert_many", &[Fault::WriteConcernError(64, UNLABELLED)], AppliedNotDurable),
    row(
        7,
        "bulk_write",
        &[Fault::None, Fault::None, Fault::WriteConcernError(64, UNLABELLED)],
        AppliedNotDurable,
    ),
    row(7, "update_many", &[Fault::WriteConcernError(64, UNLABELLED)], AppliedNotDurable),
    row(7, "find_one_and_delete", &[Fault::WriteConcernError(64, UNLABELLED)], AppliedNotDurable),
    row(7, "drop", &[Fault::WriteConcernError(64, UNLABELLED)], AppliedNotDurable),
    row(10, "insert_one", &[Fault::WriteError(0, 11000, UNLABELLED)], NotApplied),
    row(10, "insert_many", &[Fault::WriteError(0, 11000, UNLABELLED)], NotApplied),
    // A write error of the retry determines the outcome of the first attempt, because the server first looks up the
    // `txnNumber`.
    row(10, "insert_one", &[LOST, Fault::WriteError(0, 11000, UNLABELLED)], NotApplied),
    row(10, "insert_many", &[LOST, Fault::WriteError(0, 11000, UNLABELLED)], NotApplied),
    row(10, "find_one_and_update", &[LOST, command_error(11000)], NotApplied),
    // Not for a write to several documents.
    row(10, "update_many", &[Fault::WriteError(0, 11000, UNLABELLED)], MaybeApplied),
    row(
        10,
        "bulk_write with update_many",
        &[Fault::WriteError(0, 11000, UNLABELLED)],
        MaybeApplied,
    ),
    row(12, "insert_one", &[command_error(13)], NotApplied),
    row(12, "insert_one", &[LOST, command_error(13)], MaybeApplied),
    row(12, "insert_many", &[LOST, Fault::WriteError(0, 13, UNLABELLED)], MaybeApplied),
    row(11, "insert_many", &[command_error(13)], MaybeApplied),
    row(11, "bulk_write", &[command_error(13)], MaybeApplied),
    row(11, "update_many", &[command_error(13)], MaybeApplied),
    row(11, "delete_many", &[command_error(9)], MaybeApplied),
    row(11, "aggregate with $merge", &[command_error(9)], MaybeApplied),
    row(11, "aggregate with $out", &[command_error(72)], MaybeApplied),
    row(11, "run_command", &[command_error(73)], MaybeApplied),
    row(11, "create_index", &[command_error(72)], MaybeApplied),
    row(11, "drop of a database", &[command_error(13)], MaybeApplied),
    row(11, "insert_many", &[command_error(2)], MaybeApplied),
    row(11, "update_many", &[command_error(2)], MaybeApplied),
    row(11, "delete_many", &[command_error(NOT_WRITABLE_PRIMARY)], MaybeApplied),
    // pitfall 10
    row(14, "insert_one", &[LOST, command_error(217)], MaybeApplied),
    row(14, "insert_one", &[LOST, command_error(225)], MaybeApplied),
    row(14, "insert_one", &[command_error(217)], MaybeApplied),
    row(14, "insert_one", &[command_error(11600)], MaybeApplied),
    row(14, "insert_one", &[command_error(50)], MaybeApplied),
    row(14, "insert_one", &[Fault::WriteError(0, 11601, UNLABELLED)], MaybeApplied),
    row(14, "insert_many", &[Fault::WriteError(0, 11601, UNLABELLED)], MaybeApplied),
    row(15, "insert_one", &[command_error(NOT_WRITABLE_PRIMARY)], NotApplied),
    row(15, "insert_one", &[command_error(2)], NotApplied),
    row(15, "insert_one", &[LOST, command_error(2)], MaybeApplied),
];

async fn check(row: &Row) {
    check_while(row, async |_: &Deployment| {}).await;
}

/// Like [`check`], with a change of the deployment during the operation.
async fn check_while(row: &Row, happens: impl AsyncFnOnce(&Deployment)) {
    let Row { number, operation, role, options, faults, outcome } = row;
    let at = format!("row {number}: {operation} with {faults:?} from {role:?}");
    let deployment = Deployment::start(*role);
    deployment.inject(faults);
    let observed = ObservedClient::new(&deployment, options).await;
    let operation = write(operation);
    let (ended, ()) = tokio::join!(observed.run(&operation), happens(&deployment));
    let error = ended.expect_err(&at);
    assert_eq!(error.outcome(), *outcome, "{at}: {error:?}");
    let failed = faults.iter().filter(|&&fault| fault != Fault::None).count();
    assert_eq!(error.attempts().len(), failed, "{at}: {:?}", error.attempts());
    let applied = deployment.applied();
    assert!(applied.values().all(|&times| times == 1), "{at}: {applied:?}");
    if outcome.is_certainly_not_applied() {
        assert!(applied.is_empty(), "{at}: {applied:?}");
    }
}

#[tokio::test]
async fn errors_have_the_outcomes_of_the_table() {
    let checks: Vec<_> = ROWS.iter().map(|row| tokio::spawn(check(row))).collect();
    for check in checks {
        check.await.expect("the row comes about");
    }
}

#[tokio::test]
async fn an_error_of_the_retry_does_not_settle_an_attempt_that_timed_out() {
    // The first attempt may be executed later, so an error reply to the retry does not determine its outcome.
    let row = Row {
        options: "socketTimeoutMS=200",
        ..row(10, "update_one", &[TIMED_OUT, Fault::WriteError(0, 11000, UNLABELLED)], MaybeApplied)
    };
    let clock = Clock::stopped();
    let limit = std::time::Duration::from_millis(200);
    check_while(&row, async |it: &Deployment| {
        it.expire_without_reply(&clock, "update", 1, limit).await;
    })
    .await;
}

#[tokio::test]
async fn an_error_through_mongos_does_not_settle_the_outcome() {
    let router = |number, faults, outcome| Row {
        role: Role::Mongos,
        ..row(number, "insert_one", faults, outcome)
    };
    check(&router(13, &[Fault::CommandError(NOT_WRITABLE_PRIMARY, UNLABELLED)], MaybeApplied))
        .await;
    check(&router(10, &[LOST, Fault::WriteError(0, 11000, UNLABELLED)], MaybeApplied)).await;
    check(&router(12, &[Fault::CommandError(13, UNLABELLED)], NotApplied)).await;
}
