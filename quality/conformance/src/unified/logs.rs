//! The log messages of a test: caught on their way out, and held against what the test expects.
//!
//! A test runs on one thread with a subscriber of its own, so what it logs is told from what other
//! tests log at the same time; whose client a message is about, the message says by `topologyId`.

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
    stop::{Step, Stop},
};

/// The messages so far. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Logs(Arc<Mutex<Caught>>);

#[derive(Debug, Default)]
struct Caught {
    messages: Vec<Message>,
    closed: bool,
}

#[derive(Clone, Debug)]
struct Message {
    component: Component,
    severity: Severity,
    data: Document,
}

impl Logs {
    /// Runs `work` with all that is logged on this thread caught.
    pub(super) fn during<R>(&self, work: impl FnOnce() -> R) -> R {
        tracing::subscriber::with_default(Catch(self.clone()), work)
    }

    /// Keeps nothing from now on.
    pub(super) fn close(&self) {
        self.lock().closed = true;
    }

    /// Whether the messages about a client are those expected, one by one.
    pub(super) fn expect(
        &self,
        matcher: &Matcher<'_>,
        expected: &ExpectedLogMessagesForClient,
        (topology, components): (ObjectId, &LogComponents),
    ) -> Step<()> {
        let topology = Bson::String(topology.to_hex());
        let is_about = |message: &Message| {
            message.data.get("topologyId") == Some(&topology)
                && components.keeps(message.component, message.severity)
                && !expected.ignore_messages.iter().any(|other| other.is(matcher, message).is_ok())
        };
        let messages: Vec<Message> =
            self.lock().messages.iter().filter(|m| is_about(m)).cloned().collect();
        let wanted = editions::by_the_book(&expected.messages);
        for (at, wanted) in wanted.iter().enumerate() {
            let Some(message) = messages.get(at) else {
                let count = (expected.messages.len(), messages.len());
                return Err(Stop::failed(format!(
                    "expected {} messages, found {}: missing {wanted:?}; {}",
                    count.0,
                    count.1,
                    shown(&messages)
                )));
            };
            wanted
                .is(matcher, message)
                .map_err(|stop| stop.within(format!("message {at} of {}", shown(&messages))))?;
        }
        match messages.get(expected.messages.len()) {
            Some(extra) if !expected.ignore_extra_messages => {
                Err(Stop::failed(format!("unexpected message {extra:?} of {}", shown(&messages))))
            }
            _ => Ok(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Caught> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn shown(messages: &[Message]) -> String {
    let texts = messages.iter().map(|message| message.data.get_str("message").unwrap_or_default());
    format!("[{}]", texts.collect::<Vec<_>>().join(", "))
}

impl ExpectedLogMessage {
    fn is(&self, matcher: &Matcher<'_>, message: &Message) -> Step<()> {
        let found = (message.component, message.severity);
        if found != (self.component, self.level) {
            let wanted = (self.component, self.level);
            return Err(Stop::failed(format!("{found:?}, not {wanted:?}")));
        }
        matcher
            .root(&self.data, &message.data)
            .map_err(|stop| stop.within(format!("data {}", message.data)))?;
        let Some(redacted) = self.failure_is_redacted else { return Ok(()) };
        let failure = message.data.get_str("failure").map_err(|_| "there is no failure")?;
        // The driver's word for what it does not show.
        if failure.contains("REDACTED") == redacted {
            return Ok(());
        }
        Err(Stop::failed(format!(
            "the failure must {}be redacted: {failure}",
            if redacted { "" } else { "not " }
        )))
    }
}

/// Catches the driver's messages.
struct Catch(Logs);

impl Subscriber for Catch {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        !metadata.is_span() && component(metadata.target()).is_some()
    }

    fn event(&self, event: &tracing::Event<'_>) {
        let Some(component) = component(event.metadata().target()) else { return };
        let mut data = Document::new();
        event.record(&mut Fields(&mut data));
        let severity = severity(*event.metadata().level());
        let mut caught = self.0.lock();
        if !caught.closed {
            caught.messages.push(Message { component, severity, data });
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

/// Writes a message's fields into a document.
struct Fields<'a>(&'a mut Document);

impl Visit for Fields<'_> {
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
