//! The decision tables, row by row, and what holds whatever happens.

mod budget;
mod deciding;
mod labelling;
mod modelled_deployment;
mod outcomes;
mod overload;
mod properties;
mod raising;

use std::time::{Duration, Instant};

use super::*;
use crate::description::ServerType;

const MINUTE: Duration = Duration::from_secs(60);

const BOTH: RetrySettings = RetrySettings {
    retry_writes: true,
    retry_reads: true,
    max_adaptive_retries: None,
    overload_retargeting: None,
    server_selection_timeout: Duration::from_secs(30),
};
const NEITHER: RetrySettings = RetrySettings { retry_writes: false, retry_reads: false, ..BOTH };

const KINDS: [Kind; 6] = [
    Kind::Read,
    Kind::RecognisableWrite,
    Kind::Write,
    Kind::Generic,
    Kind::GetMore,
    Kind::EndTransaction,
];

/// A retry without a wait.
const AT_ONCE: Next = Next::Retry { wait: Duration::ZERO };

/// The longest waits.
fn unjittered() -> f64 {
    1.0
}

fn address(host: &str) -> ServerAddress {
    ServerAddress::parse(host).unwrap()
}

/// A server of MongoDB 6.0.
fn server(host: &str, server_type: ServerType) -> ServerFacts {
    ServerFacts {
        address: address(host).into(),
        server_type,
        max_wire_version: 17,
        logical_session_timeout: Some(30 * MINUTE),
    }
}

fn primary() -> ServerFacts {
    server("a", ServerType::RsPrimary)
}

fn router() -> ServerFacts {
    server("r", ServerType::Mongos)
}

fn standalone() -> ServerFacts {
    server("s", ServerType::Standalone)
}

/// The same as a server of MongoDB 4.2, which does not label its errors.
fn old(server: ServerFacts) -> ServerFacts {
    ServerFacts { max_wire_version: 8, ..server }
}

/// A write to one document.
fn write() -> Operation {
    Operation { one_document: true, ..Operation::new(Kind::RecognisableWrite) }
}

fn read() -> Operation {
    Operation::new(Kind::Read)
}

fn sending(cause: Cause<'_>) -> Failure<'_> {
    Failure { phase: Phase::Sending, cause, labels: Labels::default(), base_backoff: None }
}

fn before_sending(cause: Cause<'_>) -> Failure<'_> {
    Failure { phase: Phase::BeforeSending, cause, labels: Labels::default(), base_backoff: None }
}

fn labelled<'a>(failure: Failure<'a>, labels: &[&str]) -> Failure<'a> {
    Failure { labels: labels.iter().collect(), ..failure }
}

fn refused(code: i32) -> Failure<'static> {
    sending(Cause::Refused { code, message: "no" })
}

fn write_concern(code: i32) -> Failure<'static> {
    sending(Cause::WriteConcern { code })
}

fn broken() -> Failure<'static> {
    sending(Cause::Network { ended_by_us: false })
}

fn timed_out() -> Failure<'static> {
    sending(Cause::Network { ended_by_us: true })
}

fn pool_cleared() -> Failure<'static> {
    before_sending(Cause::PoolCleared)
}

fn start(settings: RetrySettings, operation: Operation, first: ServerFacts) -> Retry {
    let mut retry = Retry::new(settings, operation, &Arc::default());
    retry.server_selected(first).unwrap();
    retry
}

/// An operation whose attempts fail one after the other at the same server, until it gives up.
fn run(operation: Operation, at: &ServerFacts, failures: &[Failure<'_>]) -> GiveUp {
    run_with(RetrySettings::default(), operation, at, failures)
}

fn run_with(
    settings: RetrySettings,
    operation: Operation,
    at: &ServerFacts,
    failures: &[Failure<'_>],
) -> GiveUp {
    let now = Instant::now();
    let mut retry = Retry::new(settings, operation, &Arc::default());
    for (index, failure) in failures.iter().enumerate() {
        retry.server_selected(at.clone()).unwrap();
        if failure.phase == Phase::Sending {
            let _ = retry.begin_sending(now).unwrap();
        }
        match retry.on_failure(failure, now, unjittered).next {
            Next::Retry { .. } => {}
            Next::GiveUp(end) => {
                assert_eq!(index + 1, failures.len(), "gave up early");
                return end;
            }
        }
    }
    retry.no_server()
}

/// Whether a first attempt that fails so is followed by another.
fn is_retried(
    settings: RetrySettings,
    operation: Operation,
    at: ServerFacts,
    failure: &Failure<'_>,
) -> bool {
    let now = Instant::now();
    let mut retry = start(settings, operation, at);
    if failure.phase == Phase::Sending {
        let _ = retry.begin_sending(now).unwrap();
    }
    matches!(retry.on_failure(failure, now, unjittered).next, Next::Retry { .. })
}
