//! The decision tables, row by row, and their invariants.

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

const KINDS: [CommandKind; 6] = [
    CommandKind::Read,
    CommandKind::RetryableWrite,
    CommandKind::Write,
    CommandKind::Generic,
    CommandKind::GetMore,
    CommandKind::EndTransaction,
];

/// An immediate retry.
const AT_ONCE: NextStep = NextStep::Retry { wait: Duration::ZERO };

/// Jitter of the longest backoffs.
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

fn mongos() -> ServerFacts {
    server("r", ServerType::Mongos)
}

fn standalone() -> ServerFacts {
    server("s", ServerType::Standalone)
}

/// The same server with MongoDB 4.2, which does not add `RetryableWriteError`.
fn old(server: ServerFacts) -> ServerFacts {
    ServerFacts { max_wire_version: 8, ..server }
}

/// A retryable write of one document.
fn write() -> CommandFacts {
    CommandFacts { single_document: true, ..CommandFacts::new(CommandKind::RetryableWrite) }
}

fn read() -> CommandFacts {
    CommandFacts::new(CommandKind::Read)
}

fn sent(cause: FailureCause<'_>) -> AttemptFailure<'_> {
    AttemptFailure {
        phase: AttemptPhase::Sent,
        cause,
        labels: ErrorLabels::default(),
        base_backoff: None,
    }
}

fn before_send(cause: FailureCause<'_>) -> AttemptFailure<'_> {
    AttemptFailure {
        phase: AttemptPhase::BeforeSend,
        cause,
        labels: ErrorLabels::default(),
        base_backoff: None,
    }
}

fn labelled<'a>(failure: AttemptFailure<'a>, labels: &[&str]) -> AttemptFailure<'a> {
    AttemptFailure { labels: labels.iter().collect(), ..failure }
}

fn command_error(code: i32) -> AttemptFailure<'static> {
    sent(FailureCause::CommandError { code, message: "no" })
}

fn write_concern(code: i32) -> AttemptFailure<'static> {
    sent(FailureCause::WriteConcern { code })
}

fn broken() -> AttemptFailure<'static> {
    sent(FailureCause::Network { aborted_by_client: false })
}

fn timed_out() -> AttemptFailure<'static> {
    sent(FailureCause::Network { aborted_by_client: true })
}

fn pool_cleared() -> AttemptFailure<'static> {
    before_send(FailureCause::PoolCleared)
}

fn start(settings: RetrySettings, operation: CommandFacts, first: ServerFacts) -> Retry {
    let mut retry = Retry::new(settings, operation, &Arc::default());
    retry.server_selected(first).unwrap();
    retry
}

/// Fails the attempts of a command one after another on one server, until it gives up.
fn run(operation: CommandFacts, at: &ServerFacts, failures: &[AttemptFailure<'_>]) -> GiveUp {
    run_with(RetrySettings::default(), operation, at, failures)
}

fn run_with(
    settings: RetrySettings,
    operation: CommandFacts,
    at: &ServerFacts,
    failures: &[AttemptFailure<'_>],
) -> GiveUp {
    let now = Instant::now();
    let mut retry = Retry::new(settings, operation, &Arc::default());
    for (index, failure) in failures.iter().enumerate() {
        retry.server_selected(at.clone()).unwrap();
        if failure.phase == AttemptPhase::Sent {
            let _ = retry.begin_send(now).unwrap();
        }
        match retry.on_failure(failure, now, unjittered).next {
            NextStep::Retry { .. } => {}
            NextStep::GiveUp(end) => {
                assert_eq!(index + 1, failures.len(), "gave up early");
                return end;
            }
        }
    }
    retry.no_server()
}

/// Returns `true` if a first attempt with this failure is retried.
fn is_retried(
    settings: RetrySettings,
    operation: CommandFacts,
    at: ServerFacts,
    failure: &AttemptFailure<'_>,
) -> bool {
    let now = Instant::now();
    let mut retry = start(settings, operation, at);
    if failure.phase == AttemptPhase::Sent {
        let _ = retry.begin_send(now).unwrap();
    }
    matches!(retry.on_failure(failure, now, unjittered).next, NextStep::Retry { .. })
}
