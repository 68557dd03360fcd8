//! Log messages of retries, with the number and the reason of the retry.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, OnceLock},
};

use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};

use super::*;

type LogLine = BTreeMap<&'static str, String>;

/// Subscriber that records the log messages of retries.
#[derive(Clone, Default)]
pub(crate) struct RetryLog(Arc<Mutex<Vec<LogLine>>>);

impl RetryLog {
    /// Returns the subscriber of all tests and threads. It is installed before the first message, because `tracing`
    /// may cache that a callsite has no subscriber.
    pub(crate) fn of_all() -> &'static Self {
        static LOG: OnceLock<RetryLog> = OnceLock::new();
        LOG.get_or_init(|| {
            let log = Self::default();
            tracing::subscriber::set_global_default(log.clone()).expect("the only subscriber");
            log
        })
    }

    /// Returns the messages of the operation that began with this command.
    fn about(&self, started: &CommandStartedEvent) -> Vec<LogLine> {
        let id = started.operation_id.to_string();
        let lines = self.0.lock().unwrap();
        lines.iter().filter(|line| line["operationId"] == id).cloned().collect()
    }
}

impl Subscriber for RetryLog {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "steadfast::retry"
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = LineVisitor::default();
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[derive(Default)]
struct LineVisitor(LogLine);

impl Visit for LineVisitor {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

#[tokio::test]
async fn a_retry_is_logged_with_its_number_and_its_reason() {
    let faults = [Fault::CommandError(INTERRUPTED_AT_SHUTDOWN, RETRYABLE), Fault::LostReply];
    let (_deployment, observed, result) = run_with(&write("insert_one"), "", &faults).await;
    result.expect_err("it fails twice");
    let lines = RetryLog::of_all().about(&observed.started("insert")[0]);
    assert_eq!(lines.len(), 1, "the second failure is raised: {lines:?}");
    assert_eq!((&*lines[0]["attempt"], &*lines[0]["operation"]), ("2", "insert"));
    assert!(lines[0]["reason"].contains("11600"), "{lines:?}");
}

#[tokio::test]
async fn a_retry_for_a_write_concern_error_is_logged_with_its_message() {
    let faults = [Fault::WriteConcernError(SHUTDOWN_IN_PROGRESS, RETRYABLE)];
    let (_deployment, observed, result) = run_with(&write("insert_one"), "", &faults).await;
    result.unwrap();
    let lines = RetryLog::of_all().about(&observed.started("insert")[0]);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0]["reason"].contains("at attempt 1"), "{lines:?}");
}

#[tokio::test]
async fn a_successful_first_attempt_is_not_logged() {
    let (_deployment, observed, result) = run_with(&write("insert_one"), "", &[]).await;
    result.unwrap();
    assert!(RetryLog::of_all().about(&observed.started("insert")[0]).is_empty());
}
