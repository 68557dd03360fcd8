//! Failovers under load. Each test has its own replica set and compares the reported outcomes with the data.

#![allow(missing_docs)]

mod change_streams;
mod counters;
mod increment_load;
mod lossy_proxy;
mod lost_chunks;
mod lost_replies;
mod marked_writes;
mod seeded;
mod sharded_change_streams;
mod step_downs;
mod write_record;

use std::{future::Future, time::Duration};

use steadfast::error::{Error, ErrorKind, WriteFailure};

/// Time that only a test that hangs exceeds, on a machine of any speed.
const BOUND: Duration = Duration::from_secs(900);

/// Runs at most two tests at a time: each uses the whole machine, except during elections.
async fn bounded<T>(test: impl Future<Output = T>) -> T {
    static PERMITS: tokio::sync::Semaphore = tokio::sync::Semaphore::const_new(2);
    let _turn = PERMITS.acquire().await.expect("an open semaphore");
    tokio::time::timeout(BOUND, test).await.expect("it ends in time")
}

/// Returns `true` if a server that steps down reported that in `writeErrors` without a label. Servers sometimes do
/// (observed with 6.0.5), and the specification forbids a retry.
fn is_unlabelled_step_down(error: &Error) -> bool {
    const PRIMARY_STEPPED_DOWN: i32 = 189;
    let ErrorKind::Write(WriteFailure::WriteError(statement)) = &*error.kind else { return false };
    statement.code == PRIMARY_STEPPED_DOWN && error.labels().is_empty()
}

/// Prints a figure (`--nocapture`).
#[allow(clippy::print_stderr)]
fn report(line: &str) {
    eprintln!("{line}");
}
