//! What the driver tells those who watch it: of commands and retries, of connection pools, of
//! servers.
//!
//! A handler is set in [`ClientOptions`](crate::options::ClientOptions). It is called in the course
//! of the driver's own work, in the order in which things happened, and never while the driver
//! holds a lock: it may take its time at the expense of that work, but it cannot block it for good.

pub mod command;
pub mod retry;

use std::{
    collections::VecDeque,
    fmt,
    pin::Pin,
    sync::{Arc, Mutex},
};

pub use steadfast_core::event::{cmap, sdam};

type AsyncCallback<T> = dyn Fn(T) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync;

/// Who is told of events.
#[derive(Clone)]
#[non_exhaustive]
pub enum EventHandler<T> {
    /// A function.
    Callback(Arc<dyn Fn(T) + Send + Sync>),
    /// A function whose future runs as a task of its own.
    AsyncCallback(Arc<AsyncCallback<T>>),
    /// A channel. Events are dropped while it is full.
    TokioMpsc(tokio::sync::mpsc::Sender<T>),
}

impl<T> EventHandler<T> {
    /// Calls `callback` with each event.
    pub fn callback(callback: impl Fn(T) + Send + Sync + 'static) -> Self {
        Self::Callback(Arc::new(callback))
    }

    /// Runs the future of `callback` for each event, as a task of its own.
    pub fn async_callback<F>(callback: impl Fn(T) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Self::AsyncCallback(Arc::new(move |event| Box::pin(callback(event))))
    }

    pub(crate) fn handle(&self, event: T) {
        match self {
            Self::Callback(callback) => callback(event),
            Self::AsyncCallback(callback) => {
                if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                    runtime.spawn(callback(event));
                }
            }
            // A full or closed channel is its owner's choice.
            Self::TokioMpsc(sender) => drop(sender.try_send(event)),
        }
    }
}

impl<T> fmt::Debug for EventHandler<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EventHandler")
    }
}

impl<T> From<tokio::sync::mpsc::Sender<T>> for EventHandler<T> {
    fn from(sender: tokio::sync::mpsc::Sender<T>) -> Self {
        Self::TokioMpsc(sender)
    }
}

/// Hands on events in the order in which they were noted, without a lock held.
///
/// State changes note their events while they hold the lock on the state, so that the order is
/// right; [`Outbox::deliver`] is called once that lock is free. Whoever comes while another
/// delivers leaves it to the other.
pub(crate) struct Outbox<T> {
    handler: Option<EventHandler<T>>,
    log: Box<dyn Fn(&T) + Send + Sync>,
    is_logged: fn() -> bool,
    waiting: Mutex<Waiting<T>>,
}

struct Waiting<T> {
    events: VecDeque<T>,
    delivering: bool,
}

impl<T> Outbox<T> {
    /// `log` writes an event as a `tracing` event, and `is_logged` tells whether anyone reads it.
    pub(crate) fn new(
        handler: Option<EventHandler<T>>,
        log: impl Fn(&T) + Send + Sync + 'static,
        is_logged: fn() -> bool,
    ) -> Self {
        let waiting = Waiting { events: VecDeque::new(), delivering: false };
        Self { handler, log: Box::new(log), is_logged, waiting: Mutex::new(waiting) }
    }

    /// Whether anybody would hear of an event.
    pub(crate) fn is_listening(&self) -> bool {
        self.handler.is_some() || (self.is_logged)()
    }

    /// Notes an event; to be called while the lock on what changed is held.
    pub(crate) fn note(&self, event: T) {
        lock(&self.waiting).events.push_back(event);
    }

    /// Hands on what was noted; to be called without a lock.
    pub(crate) fn deliver(&self) {
        let mut waiting = lock(&self.waiting);
        if waiting.delivering || waiting.events.is_empty() {
            return;
        }
        waiting.delivering = true;
        drop(waiting);
        let mut turn = Turn { outbox: self, over: false };
        while let Some(event) = turn.next() {
            (self.log)(&event);
            if let Some(handler) = &self.handler {
                handler.handle(event);
            }
        }
    }
}

/// The right to deliver, held by one at a time.
struct Turn<'a, T> {
    outbox: &'a Outbox<T>,
    over: bool,
}

impl<T> Turn<'_, T> {
    /// The next event. The turn ends under the same lock that shows there is none, so that whoever
    /// notes one later does not leave it to a deliverer that has looked for the last time.
    fn next(&mut self) -> Option<T> {
        let mut waiting = lock(&self.outbox.waiting);
        let event = waiting.events.pop_front();
        if event.is_none() {
            waiting.delivering = false;
            self.over = true;
        }
        event
    }
}

impl<T> Drop for Turn<'_, T> {
    /// A handler that panics must not silence all that come after it.
    fn drop(&mut self) {
        if !self.over {
            lock(&self.outbox.waiting).delivering = false;
        }
    }
}

/// Locks a mutex whose data stays valid even if a holder panicked.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Arc,
            atomic::{AtomicBool, AtomicUsize, Ordering},
        },
        thread,
        time::{Duration, Instant},
    };

    use super::{EventHandler, Outbox};

    #[test]
    fn no_event_is_left_behind_by_two_who_deliver_at_the_same_time() {
        let delivered = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&delivered);
        let handler = EventHandler::callback(move |()| {
            count.fetch_add(1, Ordering::SeqCst);
        });
        let outbox = Outbox::new(Some(handler), |()| {}, || false);
        let (arrived, late) = (AtomicUsize::new(0), AtomicUsize::new(0));
        // Not a barrier: the two are to come as close to each other as they can.
        let meet = |expected: usize| {
            arrived.fetch_add(1, Ordering::SeqCst);
            while arrived.load(Ordering::SeqCst) < expected {
                thread::yield_now();
            }
        };
        // On a busy machine each meeting may take the time that somebody else has the processor for.
        let (began, over) = (Instant::now(), AtomicBool::new(false));
        let work = |leads: bool| {
            for round in 1..=100_000 {
                if leads && began.elapsed() > Duration::from_secs(5) {
                    over.store(true, Ordering::SeqCst);
                }
                meet(4 * round - 2);
                if over.load(Ordering::SeqCst) {
                    break;
                }
                outbox.note(());
                outbox.deliver();
                meet(4 * round);
                // Told at the end: whoever panicked here would leave the other waiting.
                late.fetch_add(2 * round - delivered.load(Ordering::SeqCst), Ordering::SeqCst);
            }
        };
        thread::scope(|scope| {
            scope.spawn(|| work(true));
            scope.spawn(|| work(false));
        });
        assert_eq!(late.load(Ordering::SeqCst), 0);
    }
}
