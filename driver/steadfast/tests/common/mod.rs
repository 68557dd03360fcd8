//! What tests against a scripted server share: the server itself, a limit on waiting, events as they
//! come.

#![allow(dead_code, unreachable_pub, unused_imports)]

mod clock;

use std::{sync::Arc, time::Duration};

pub use self::clock::Clock;
pub use blackpipe::server::{Gate, Request, Role, Server, ServerLog, Step};
use steadfast::event::EventHandler;
use tokio::sync::watch;

/// Whether a request is the first of a connection that is not a monitor's. The first connection of
/// all is the monitor's, and a server that plays here never has two.
pub fn is_handshake_for_operations(request: &Request) -> bool {
    request.is_hello() && request.earlier_requests == 0 && request.connection > 1
}

/// A message whose header is made of these numbers, whatever they mean.
pub fn message(length: i32, response_to: i32, op_code: i32, payload: &[u8]) -> Vec<u8> {
    let header = [length, 1, response_to, op_code].map(i32::to_le_bytes).concat();
    [&header, payload].concat()
}

/// What is to come, which must come within a time that only a hang exceeds.
pub async fn bounded<T>(work: impl IntoFuture<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), work).await.expect("it ends in time")
}

/// Events, as they come.
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

    /// Waits until so many events of a kind have come.
    pub async fn wait_for(&self, count: usize, kind: impl Fn(&T) -> bool) {
        self.wait_until(|seen| seen.iter().filter(|event| kind(event)).count() >= count).await;
    }

    /// Waits until the events are as they should be.
    pub async fn wait_until(&self, done: impl Fn(&[T]) -> bool) {
        let mut events = self.0.subscribe();
        bounded(async { drop(events.wait_for(|seen| done(seen)).await.expect("it lives")) }).await;
    }
}
