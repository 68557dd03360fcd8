//! Helpers of tests against scripted servers: the server, a stopped clock, a limit on waiting, a recorder of events.

#![allow(dead_code, unreachable_pub, unused_imports)]

mod clock;

use std::{sync::Arc, time::Duration};

pub use self::clock::Clock;
pub use blackpipe::server::{Gate, Request, Role, Server, ServerLog, Step};
use steadfast::event::EventHandler;
use tokio::sync::watch;

/// Returns `true` for the first request of a pooled connection. Connection 1 of these servers is the monitor's.
pub fn is_handshake_for_operations(request: &Request) -> bool {
    request.is_hello() && request.earlier_requests == 0 && request.connection > 1
}

/// Message with these header fields, valid or not.
pub fn message(length: i32, response_to: i32, op_code: i32, payload: &[u8]) -> Vec<u8> {
    let header = [length, 1, response_to, op_code].map(i32::to_le_bytes).concat();
    [&header, payload].concat()
}

/// Awaits a future with a time-out that only a hang exceeds.
pub async fn bounded<T>(work: impl IntoFuture<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), work).await.expect("it ends in time")
}

/// Change stream of untyped documents.
pub type DocumentChangeStream = steadfast::change_stream::ChangeStream<
    steadfast::change_stream::event::ChangeStreamEvent<steadfast::bson::Document>,
>;

/// Recorder of events, in the order of their delivery.
pub struct Recorder<T>(Arc<watch::Sender<Vec<T>>>);

impl<T: Clone + Send + Sync + 'static> Recorder<T> {
    pub fn new() -> Self {
        Self(Arc::new(watch::Sender::new(Vec::new())))
    }

    pub fn handler(&self) -> EventHandler<T> {
        let events = Arc::clone(&self.0);
        EventHandler::callback(move |event| events.send_modify(|seen| seen.push(event)))
    }

    pub fn seen(&self) -> Vec<T> {
        self.0.borrow().clone()
    }

    /// Waits for this number of matching events.
    pub async fn wait_for(&self, count: usize, kind: impl Fn(&T) -> bool) {
        self.wait_until(|seen| seen.iter().filter(|event| kind(event)).count() >= count).await;
    }

    /// Waits until the recorded events satisfy a condition.
    pub async fn wait_until(&self, done: impl Fn(&[T]) -> bool) {
        let mut events = self.0.subscribe();
        bounded(async { drop(events.wait_for(|seen| done(seen)).await.expect("it lives")) }).await;
    }
}
