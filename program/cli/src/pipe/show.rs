//! Lines of `--show`: text, or JSON documents like those of a record.

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

/// Maximum number of queued lines. Further lines are left out: a slow reader must not delay messages.
const QUEUE_LENGTH: usize = 1_000;
/// Time-out of the last lines: the reader may have stopped.
const FINISH_TIMEOUT: Duration = Duration::from_secs(1);

/// Writes lines to standard output, on a separate thread.
pub(super) struct EventPrinter {
    as_json: bool,
    lines: SyncSender<Option<String>>,
    left_out: Arc<AtomicU64>,
    /// Disconnected when the thread ends.
    written: Receiver<()>,
}

/// Sends events to an [`EventPrinter`].
pub(super) struct PrintSender {
    as_json: bool,
    began: Instant,
    lines: SyncSender<Option<String>>,
    left_out: Arc<AtomicU64>,
}

impl EventPrinter {
    pub(super) fn new(as_json: bool) -> Self {
        let (lines, queue) = sync_channel(QUEUE_LENGTH);
        let left_out = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&left_out);
        let (writing, written) = sync_channel(0);
        thread::spawn(move || {
            write(&queue, &counted, as_json);
            drop(writing);
        });
        Self { as_json, lines, left_out, written }
    }

    pub(super) fn sender(&self) -> PrintSender {
        let left_out = Arc::clone(&self.left_out);
        let lines = self.lines.clone();
        PrintSender { as_json: self.as_json, began: Instant::now(), lines, left_out }
    }

    /// Waits for the last lines, up to the time-out.
    pub(super) fn finish(self) {
        if self.lines.try_send(None).is_ok() {
            // No value is sent: the channel is disconnected, or the wait times out.
            let _ = self.written.recv_timeout(FINISH_TIMEOUT);
        }
    }
}

fn write(queue: &Receiver<Option<String>>, left_out: &AtomicU64, as_json: bool) {
    let mut out = io::stdout();
    while let Ok(Some(line)) = queue.recv() {
        let missed = left_out.swap(0, Ordering::Relaxed);
        let printed = match missed {
            0 => Ok(()),
            missed if as_json => {
                writeln!(out, "{}", json!({ "event": "leftOut", "lines": missed }))
            }
            missed => writeln!(out, "          … {missed} lines left out"),
        };
        // A closed standard output does not end the proxy.
        if printed.and_then(|()| writeln!(out, "{line}")).and_then(|()| out.flush()).is_err() {
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
            let again = if *is_retry { ", retry" } else { "" };
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
