//! What reaches an application, and what reaches the data, while servers fail under load: each test
//! has a replica set of its own, and compares every answer with what was really applied.

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

/// On however busy a machine, only a test that hangs takes as long.
const BOUND: Duration = Duration::from_secs(900);

/// Runs no more than two tests at the same time: each of them keeps the machine busy, but for the time that
/// elections take.
async fn bounded<T>(test: impl Future<Output = T>) -> T {
    static TURNS: tokio::sync::Semaphore = tokio::sync::Semaphore::const_new(2);
    let _turn = TURNS.acquire().await.expect("it is never closed");
    tokio::time::timeout(BOUND, test).await.expect("it ends in time")
}

/// Returns true if a server that steps down reported that in `writeErrors` and without a label. Servers do so now and
/// then (seen on 6.0.5), and the specification forbids drivers to retry it.
fn is_unlabelled_step_down(error: &Error) -> bool {
    const PRIMARY_STEPPED_DOWN: i32 = 189;
    let ErrorKind::Write(WriteFailure::WriteError(statement)) = &*error.kind else { return false };
    statement.code == PRIMARY_STEPPED_DOWN && error.labels().is_empty()
}

/// Figures for whoever reads the output (`--nocapture`).
#[allow(clippy::print_stderr)]
fn report(line: &str) {
    eprintln!("{line}");
}
