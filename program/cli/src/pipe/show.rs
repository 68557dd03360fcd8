//! What passes, as lines for people, or as the documents of a record.

use std::{
    io::{self, Write},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

use blackpipe::proxy::ProxyEvent;
use serde_json::json;

use super::record;

/// How many lines may wait. A printer that nobody reads must not hold up what passes, so that those
/// beyond it are left out.
const MOST_WAITING: usize = 1_000;
/// How long the last lines may take in the end: whoever started the program may have stopped reading.
const LAST_LINES: Duration = Duration::from_secs(1);

/// Writes lines to the standard output, on a thread of its own.
pub(super) struct EventPrinter {
    as_json: bool,
    lines: SyncSender<Option<String>>,
    left_out: Arc<AtomicU64>,
    /// Ends with the thread.
    written: Receiver<()>,
}

/// What notes events for a [`EventPrinter`].
pub(super) struct PrintSender {
    as_json: bool,
    began: Instant,
    lines: SyncSender<Option<String>>,
    left_out: Arc<AtomicU64>,
}

impl EventPrinter {
    pub(super) fn new(as_json: bool) -> Self {
        let (lines, coming) = sync_channel(MOST_WAITING);
        let left_out = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&left_out);
        let (writing, written) = sync_channel(0);
        thread::spawn(move || {
            write(&coming, &counted, as_json);
            drop(writing);
        });
        Self { as_json, lines, left_out, written }
    }

    pub(super) fn sender(&self) -> PrintSender {
        let left_out = Arc::clone(&self.left_out);
        let lines = self.lines.clone();
        PrintSender { as_json: self.as_json, began: Instant::now(), lines, left_out }
    }

    /// Lets the last lines be written, unless nobody reads them.
    pub(super) fn finish(self) {
        if self.lines.try_send(None).is_ok() {
            // Nothing is ever sent: it is the end that comes, or is too late.
            let _ = self.written.recv_timeout(LAST_LINES);
        }
    }
}

fn write(coming: &Receiver<Option<String>>, left_out: &AtomicU64, as_json: bool) {
    let mut out = io::stdout();
    while let Ok(Some(line)) = coming.recv() {
        let missed = left_out.swap(0, Ordering::Relaxed);
        let told = match missed {
            0 => Ok(()),
            missed if as_json => {
                writeln!(out, "{}", json!({ "event": "leftOut", "lines": missed }))
            }
            missed => writeln!(out, "          … {missed} lines left out"),
        };
        // A closed pipe is no reason to end.
        if told.and_then(|()| writeln!(out, "{line}")).and_then(|()| out.flush()).is_err() {
            return;
        }
    }
}

impl PrintSender {
    pub(super) fn note(&self, event: &ProxyEvent<'_>) {
        let line = match self.as_json {
            true => record::line(self.began, event),
            false => format!("{:9.3} {}", self.began.elapsed().as_secs_f64(), in_words(event)),
        };
        if self.lines.try_send(Some(line)).is_err() {
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn in_words(event: &ProxyEvent<'_>) -> String {
    match event {
        ProxyEvent::Connected { connection, server, client } => {
            format!("#{connection:<4} connected: {client}, for {server}")
        }
        ProxyEvent::Request { connection, message, is_retry, .. } => {
            let again = if *is_retry { ", sent before" } else { "" };
            let (command, namespace) = (message.command, message.namespace);
            format!("#{connection:<4} -> {command} {namespace}, {} bytes{again}", message.bytes)
        }
        ProxyEvent::Reply { connection, message, ok, code, micros, by_proxy, .. } => {
            let (bytes, command) = (message.bytes, message.command);
            let outcome = match (ok, code) {
                (true, _) => "ok".to_owned(),
                (false, Some(code)) => format!("error {code}"),
                (false, None) => "not ok".to_owned(),
            };
            let took = micros.map(|micros| format!(", {:.1} ms", micros as f64 / 1000.0));
            let by = if *by_proxy { ", by the pipe" } else { "" };
            let took = took.unwrap_or_default();
            format!("#{connection:<4} <- {command}: {outcome}, {bytes} bytes{took}{by}")
        }
        ProxyEvent::Fault { connection, rules, what, .. } => {
            format!("#{connection:<4} !! {what} ({})", rules.join(", "))
        }
        ProxyEvent::Closed { connection, why, .. } => format!("#{connection:<4} closed: {why}"),
        _ => String::new(),
    }
}
