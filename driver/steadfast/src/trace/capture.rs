//! `tracing` subscriber of tests, which stores the log messages.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex},
};

use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};

/// Value of a field.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Text(String),
    Integer(i64),
    Double(f64),
    Boolean(bool),
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

/// Captured log message.
#[derive(Clone, Debug)]
pub(crate) struct Captured {
    pub(crate) target: &'static str,
    pub(crate) level: Level,
    pub(crate) fields: BTreeMap<&'static str, Value>,
}

impl Captured {
    /// Returns the text of a field. Panics if it is absent or not a text.
    pub(crate) fn text(&self, key: &str) -> &str {
        match &self.fields[key] {
            Value::Text(text) => text,
            other => panic!("{key} is {other:?}"),
        }
    }

    /// Returns the names of the fields, sorted.
    pub(crate) fn keys(&self) -> Vec<&'static str> {
        self.fields.keys().copied().collect()
    }
}

/// Returns the log messages of `work` at `level` and above.
pub(crate) fn capture(level: Level, work: impl FnOnce()) -> Vec<Captured> {
    let captured = Arc::new(Mutex::new(Vec::new()));
    let subscriber = Capture { level, captured: Arc::clone(&captured) };
    tracing::subscriber::with_default(subscriber, work);
    captured.lock().unwrap().clone()
}

/// Returns the only log message of `work`.
pub(crate) fn capture_one(work: impl FnOnce()) -> Captured {
    let mut captured = capture(Level::DEBUG, work);
    assert_eq!(captured.len(), 1, "{captured:?}");
    captured.remove(0)
}

struct Capture {
    level: Level,
    captured: Arc<Mutex<Vec<Captured>>>,
}

impl Subscriber for Capture {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.level && metadata.target().starts_with("steadfast::")
    }

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let metadata = event.metadata();
        self.captured.lock().unwrap().push(Captured {
            target: metadata.target(),
            level: *metadata.level(),
            fields: fields.0,
        });
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
struct Fields(BTreeMap<&'static str, Value>);

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.0.insert(field.name(), Value::Double(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.insert(field.name(), Value::Integer(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.insert(field.name(), Value::Integer(i64::try_from(value).unwrap()));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.insert(field.name(), Value::Boolean(value));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), Value::Text(value.to_owned()));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), Value::Text(format!("{value:?}")));
    }
}
