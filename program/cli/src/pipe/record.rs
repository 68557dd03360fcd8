//! Record of messages and faults, as JSON lines in a file.

use std::{
    fs::File,
    io::{self, BufWriter, Write},
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread::{self, JoinHandle},
    time::Instant,
};

use blackpipe::proxy::{MessageSummary, ProxyEvent};
use bson::{Bson, Document};
use serde_json::{Map, Value, json};

/// Maximum number of queued lines. The proxy waits while the queue is full.
const QUEUE_LENGTH: usize = 10_000;

/// Writes lines on a separate thread.
pub(super) struct EventRecorder {
    lines: SyncSender<Option<String>>,
    writing: JoinHandle<io::Result<()>>,
}

/// Sends events to an [`EventRecorder`].
pub(super) struct RecordSender {
    began: Instant,
    lines: SyncSender<Option<String>>,
}

impl EventRecorder {
    pub(super) fn to(file: File) -> Self {
        let (lines, queue) = sync_channel(QUEUE_LENGTH);
        Self { lines, writing: thread::spawn(move || write(file, &queue)) }
    }

    pub(super) fn sender(&self) -> RecordSender {
        RecordSender { began: Instant::now(), lines: self.lines.clone() }
    }

    /// Waits until everything is written.
    pub(super) fn finish(self) -> io::Result<()> {
        // The thread has ended already if the disk is full.
        let _ = self.lines.send(None);
        self.writing
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the recording thread panicked")))
    }
}

/// Writes lines until `None`. Flushes whenever the queue is empty.
fn write(file: File, queue: &Receiver<Option<String>>) -> io::Result<()> {
    let (mut file, mut begun) = (BufWriter::new(file), false);
    loop {
        let next = match queue.try_recv() {
            Ok(line) => Some(line),
            Err(_) => {
                file.flush()?;
                queue.recv().ok()
            }
        };
        // An earlier record is truncated when this one begins, or ends without a line.
        if !begun && next.is_some() && file.get_ref().metadata()?.is_file() {
            file.get_ref().set_len(0)?;
        }
        begun = true;
        match next.flatten() {
            Some(line) => writeln!(file, "{line}")?,
            None => return file.flush(),
        }
    }
}

impl RecordSender {
    pub(super) fn note(&self, event: &ProxyEvent<'_>) {
        // This fails only if the thread has ended; its error is reported at the end.
        let _ = self.lines.send(Some(line(self.began, event)));
    }
}

/// Formats an event with its time since the beginning.
pub(super) fn line(began: Instant, event: &ProxyEvent<'_>) -> String {
    let mut line = Map::new();
    let millis = began.elapsed().as_secs_f64() * 1000.0;
    line.insert("ms".to_owned(), json!((millis * 1000.0).round() / 1000.0));
    if let Value::Object(fields) = fields(event) {
        line.extend(fields);
    }
    Value::Object(line).to_string()
}

fn fields(event: &ProxyEvent<'_>) -> Value {
    match event {
        ProxyEvent::Connected { connection, server, client } => json!({
            "event": "connected", "connection": connection, "server": server,
            "client": client.to_string(),
        }),
        ProxyEvent::Request { connection, server, message, is_retry } => with_message(
            json!({
                "event": "request", "connection": connection, "server": server, "retry": is_retry,
            }),
            message,
        ),
        ProxyEvent::Reply { connection, server, message, ok, code, micros, by_proxy } => {
            with_message(
                json!({
                    "event": "reply", "connection": connection, "server": server, "ok": ok,
                    "code": code, "micros": micros, "byProxy": by_proxy,
                }),
                message,
            )
        }
        ProxyEvent::Fault { connection, server, rules, what } => json!({
            "event": "fault", "connection": connection, "server": server, "rules": rules,
            "what": what,
        }),
        ProxyEvent::Closed { connection, server, why } => json!({
            "event": "closed", "connection": connection, "server": server, "why": why,
        }),
        _ => json!({ "event": "other" }),
    }
}

fn with_message(mut fields: Value, message: &MessageSummary<'_>) -> Value {
    fields["command"] = json!(message.command);
    fields["namespace"] = json!(message.namespace);
    fields["bytes"] = json!(message.bytes);
    fields["requestId"] = json!(message.request_id);
    fields["responseTo"] = json!(message.response_to);
    fields["body"] = match message.body.and_then(|body| Document::try_from(body).ok()) {
        Some(body) => Bson::from(body).into_relaxed_extjson(),
        None => Value::Null,
    };
    fields
}
