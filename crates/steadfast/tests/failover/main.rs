//! What reaches an application, and what reaches the data, while servers fail under load: each test
//! has a replica set of its own, and compares every answer with what was really applied.

#![allow(missing_docs)]

mod books;
mod change_streams;
mod counters;
mod lossy_proxy;
mod lost_chunks;
mod lost_replies;
mod step_downs;
mod storm;

use std::{future::Future, time::Duration};

/// Runs a test within `bound`, and no two at the same time: each of them keeps the machine busy.
async fn alone<T>(bound: Duration, test: impl Future<Output = T>) -> T {
    static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
    let _turn = TURN.lock().await;
    tokio::time::timeout(bound, test).await.expect("it ends in time")
}

/// Figures for whoever reads the output (`--nocapture`).
#[allow(clippy::print_stderr)]
fn report(line: &str) {
    eprintln!("{line}");
}
