//! Log messages of a test: captured, and compared with those that the test expects (`expectLogMessages`).
//!
//! A test runs on one thread with its own subscriber, so that log messages of concurrent tests are not captured. The
//! field `topologyId` identifies the client of a message.

mod editions;

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bson::{Bson, Document, oid::ObjectId};
use tracing::{
    Level, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};

use super::{
    matching::Matcher,
    schema::{
        Component, ExpectedLogMessage, ExpectedLogMessagesForClient, LogComponents, Severity,
    },
    test_error::{TestError, TestResult},
};

/// Captured log messages. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct CapturedLogs(Arc<Mutex<LogState>>);

#[derive(Debug, Default)]
struct LogState {
    messages: Vec<LogMessage>,
    closed: bool,
}

#[derive(Clone, Debug)]
struct LogMessage {
    component: Component,
    severity: Severity,
    data: Document,
}

impl CapturedLogs {
    /// Runs `work` and captures the log messages of this thread.
    pub(super) fn capture<R>(&self, work: impl FnOnce() -> R) -> R {
        tracing::subscriber::with_default(LogSubscriber(self.clone()), work)
    }

    /// Stops capturing.
    pub(super) fn close(&self) {
        self.lock().closed = true;
    }

    /// Fails unless the messages of a client are the expected ones, in order.
    pub(super) fn expect(
        &self,
        matcher: &Matcher<'_>,
        expected: &ExpectedLogMessagesForClient,
        (topology, components): (ObjectId, &LogComponents),
    ) -> TestResult<()> {
        let topology = Bson::String(topology.to_hex());
        let is_about = |message: &LogMessage| {
            message.data.get("topologyId") == Some(&topology)
                && components.includes(message.component, message.severity)
                && !expected.ignore_messages.iter().any(|it| it.compare(matcher, message).is_ok())
        };
        let messages: Vec<LogMessage> =
            self.lock().messages.iter().filter(|m| is_about(m)).cloned().collect();
        let wanted = editions::specification_edition(&expected.messages);
        for (at, wanted) in wanted.iter().enumerate() {
            let Some(message) = messages.get(at) else {
                let count = (expected.messages.len(), messages.len());
                return Err(TestError::failed(format!(
                    "expected {} messages, found {}: missing {wanted:?}; {}",
                    count.0,
                    count.1,
                    texts_of(&messages)
                )));
            };
            wanted.compare(matcher, message).map_err(|error| {
                error.within(format!("message {at} of {}", texts_of(&messages)))
            })?;
        }
        match messages.get(expected.messages.len()) {
            Some(extra) if !expected.ignore_extra_messages => Err(TestError::failed(format!(
                "unexpected message {extra:?} of {}",
                texts_of(&messages)
            ))),
            _ => Ok(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, LogState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn texts_of(messages: &[LogMessage]) -> String {
    let texts = messages.iter().map(|message| message.data.get_str("message").unwrap_or_default());
    format!("[{}]", texts.collect::<Vec<_>>().join(", "))
}

impl ExpectedLogMessage {
    fn compare(&self, matcher: &Matcher<'_>, message: &LogMessage) -> TestResult<()> {
        let found = (message.component, message.severity);
        if found != (self.component, self.level) {
            let wanted = (self.component, self.level);
            return Err(TestError::failed(format!("{found:?}, not {wanted:?}")));
        }
        matcher
            .root(&self.data, &message.data)
            .map_err(|error| error.within(format!("data {}", message.data)))?;
        let Some(redacted) = self.failure_is_redacted else { return Ok(()) };
        let failure = message.data.get_str("failure").map_err(|_| "there is no failure")?;
        // The driver's text for redacted values.
        if failure.contains("REDACTED") == redacted {
            return Ok(());
        }
        Err(TestError::failed(format!(
            "the failure must {}be redacted: {failure}",
            if redacted { "" } else { "not " }
        )))
    }
}

/// Captures log messages of the driver.
struct LogSubscriber(CapturedLogs);

impl Subscriber for LogSubscriber {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        !metadata.is_span() && component(metadata.target()).is_some()
    }

    fn event(&self, event: &tracing::Event<'_>) {
        let Some(component) = component(event.metadata().target()) else { return };
        let mut data = Document::new();
        event.record(&mut FieldRecorder(&mut data));
        let severity = severity(*event.metadata().level());
        let mut state = self.0.lock();
        if !state.closed {
            state.messages.push(LogMessage { component, severity, data });
        }
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

fn component(target: &str) -> Option<Component> {
    match target {
        "steadfast::command" => Some(Component::Command),
        "steadfast::topology" => Some(Component::Topology),
        "steadfast::server_selection" => Some(Component::ServerSelection),
        "steadfast::connection" => Some(Component::Connection),
        _ => None,
    }
}

fn severity(level: Level) -> Severity {
    match level {
        Level::ERROR => Severity::Error,
        Level::WARN => Severity::Warning,
        Level::INFO => Severity::Info,
        Level::DEBUG => Severity::Debug,
        Level::TRACE => Severity::Trace,
    }
}

/// Converts the fields of a message into a document.
struct FieldRecorder<'a>(&'a mut Document);

impl Visit for FieldRecorder<'_> {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.0.insert(field.name(), value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.insert(field.name(), value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.insert(field.name(), i64::try_from(value).unwrap_or(i64::MAX));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.insert(field.name(), value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}
