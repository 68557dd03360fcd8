//! Events of commands, connection pools, server monitoring and retries.
//!
//! Handlers are set in [`ClientOptions`](crate::options::ClientOptions). They are called
//! synchronously, in the order of the events, and never while the driver holds a lock. A slow
//! handler delays the driver.
//!
//! ```no_run
//! # async fn run() -> steadfast::error::Result<()> {
//! use steadfast::{Client, event::{EventHandler, command::CommandEvent}, options::ClientOptions};
//!
//! let mut options = ClientOptions::parse("mongodb://localhost:27017").await?;
//! options.command_event_handler = Some(EventHandler::callback(|event| {
//!     if let CommandEvent::Failed(failed) = event {
//!         println!("{} failed: {}", failed.command_name, failed.failure);
//!     }
//! }));
//! let client = Client::with_options(options)?;
//! # Ok(()) }
//! ```

pub mod command;
mod handlers;
pub mod retry;
pub mod sdam;

use std::{
    collections::VecDeque,
    fmt,
    sync::{Arc, Mutex},
};

/// Connection monitoring and pooling (CMAP) events. See
/// [CMAP](https://github.com/mongodb/specifications/blob/master/source/connection-monitoring-and-pooling/connection-monitoring-and-pooling.md).
pub mod cmap {
    #[expect(deprecated, reason = "exported for applications that still implement it")]
    pub use super::handlers::CmapEventHandler;
    pub use steadfast_core::event::cmap::*;
}

/// Boxed future of an event handler.
type HandlerFuture = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

type AsyncCallback<T> = dyn Fn(T) -> HandlerFuture + Sync + Send;

/// Handler of events.
#[derive(Clone)]
#[non_exhaustive]
pub enum EventHandler<T> {
    /// Function called with each event.
    Callback(Arc<dyn Fn(T) + Sync + Send>),
    /// Function whose future runs in a new task for each event.
    AsyncCallback(Arc<AsyncCallback<T>>),
    /// Channel. Events are dropped while it is full.
    TokioMpsc(tokio::sync::mpsc::Sender<T>),
}

impl<T: Send + Sync + 'static> EventHandler<T> {
    /// Creates a handler that calls a function with each event.
    ///
    /// ```
    /// use steadfast::event::{EventHandler, sdam::SdamEvent};
    ///
    /// let handler = EventHandler::<SdamEvent>::callback(|event| println!("{event:?}"));
    /// ```
    pub fn callback(callback: impl Fn(T) + Send + Sync + 'static) -> Self {
        Self::Callback(Arc::new(callback))
    }

    /// Creates a handler that spawns the future of `callback` for each event.
    ///
    /// ```
    /// use steadfast::event::{EventHandler, cmap::CmapEvent};
    ///
    /// let handler = EventHandler::<CmapEvent>::async_callback(|event| {
    ///     Box::pin(async move { println!("{event:?}") })
    /// });
    /// ```
    pub fn async_callback(callback: impl Fn(T) -> HandlerFuture + Send + Sync + 'static) -> Self {
        Self::AsyncCallback(Arc::new(callback))
    }
}

impl<T> EventHandler<T> {
    pub(crate) fn handle(&self, event: T) {
        match self {
            Self::Callback(callback) => callback(event),
            Self::AsyncCallback(callback) => {
                if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                    runtime.spawn(callback(event));
                }
            }
            // Events for a full or closed channel are dropped.
            Self::TokioMpsc(sender) => drop(sender.try_send(event)),
        }
    }
}

impl<T> fmt::Debug for EventHandler<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EventHandler")
    }
}

/// Two handlers are equal if they share their function or channel.
impl<T> PartialEq for EventHandler<T> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Callback(one), Self::Callback(other)) => {
                std::ptr::addr_eq(Arc::as_ptr(one), Arc::as_ptr(other))
            }
            (Self::AsyncCallback(one), Self::AsyncCallback(other)) => {
                std::ptr::addr_eq(Arc::as_ptr(one), Arc::as_ptr(other))
            }
            (Self::TokioMpsc(one), Self::TokioMpsc(other)) => one.same_channel(other),
            (Self::Callback(_) | Self::AsyncCallback(_) | Self::TokioMpsc(_), _) => false,
        }
    }
}

impl<T> From<tokio::sync::mpsc::Sender<T>> for EventHandler<T> {
    fn from(sender: tokio::sync::mpsc::Sender<T>) -> Self {
        Self::TokioMpsc(sender)
    }
}

/// Event queue: delivers events in the order of the changes, without a lock held.
///
/// State changes add their events under the lock on the state; [`Outbox::deliver`] is called once
/// that lock is released. Only one thread delivers at a time; a second caller returns immediately.
pub(crate) struct Outbox<T> {
    handler: Option<EventHandler<T>>,
    log: Box<dyn Fn(&T) + Send + Sync>,
    is_logged: fn() -> bool,
    waiting: Mutex<Waiting<T>>,
}

#[derive(Clone, Debug)]
struct Waiting<T> {
    events: VecDeque<T>,
    delivering: bool,
}

impl<T> Waiting<T> {
    /// Begins delivery, unless another thread delivers or the queue is empty.
    fn begin(&mut self) -> bool {
        let begins = !self.delivering && !self.events.is_empty();
        self.delivering |= begins;
        begins
    }

    /// Takes the next event. An empty queue ends the delivery under the same lock, so that a later
    /// event is not lost.
    fn next(&mut self) -> Option<T> {
        let event = self.events.pop_front();
        self.delivering = event.is_some();
        event
    }
}

impl<T> Outbox<T> {
    /// Creates a queue. `log` emits the `tracing` event, and `is_logged` returns `true` if it is
    /// enabled.
    pub(crate) fn new(
        handler: Option<EventHandler<T>>,
        log: impl Fn(&T) + Send + Sync + 'static,
        is_logged: fn() -> bool,
    ) -> Self {
        let waiting = Waiting { events: VecDeque::new(), delivering: false };
        Self { handler, log: Box::new(log), is_logged, waiting: Mutex::new(waiting) }
    }

    /// Returns `true` if there is a handler, or if the `tracing` events are enabled.
    pub(crate) fn is_enabled(&self) -> bool {
        self.handler.is_some() || (self.is_logged)()
    }

    /// Adds an event. Called under the lock on the changed state.
    pub(crate) fn push(&self, event: T) {
        lock(&self.waiting).events.push_back(event);
    }

    /// Delivers the queued events. Called without a lock.
    pub(crate) fn deliver(&self) {
        if !lock(&self.waiting).begin() {
            return;
        }
        let mut turn = DeliveryTurn { outbox: self, over: false };
        while let Some(event) = turn.next() {
            (self.log)(&event);
            if let Some(handler) = &self.handler {
                handler.handle(event);
            }
        }
    }
}

/// Exclusive right to deliver.
struct DeliveryTurn<'a, T> {
    outbox: &'a Outbox<T>,
    over: bool,
}

impl<T> DeliveryTurn<'_, T> {
    /// Returns the next event. `None` ends the turn.
    fn next(&mut self) -> Option<T> {
        let event = lock(&self.outbox.waiting).next();
        self.over = event.is_none();
        event
    }
}

impl<T> Drop for DeliveryTurn<'_, T> {
    /// Releases the turn after a panic of a handler, so that later events are delivered.
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
        collections::VecDeque,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
        thread,
    };

    use super::{EventHandler, Outbox, Waiting};

    /// Next step of a simulated thread, which adds an event and then delivers.
    #[derive(Clone, Copy, PartialEq, Eq)]
    enum Step {
        Note,
        Begin,
        Next,
        Done,
    }

    /// Executes all interleavings of the steps. Returns their number.
    fn explore(waiting: &Waiting<()>, threads: [Step; 3], delivered: usize) -> usize {
        if threads == [Step::Done; 3] {
            assert_eq!((delivered, waiting.delivering), (3, false), "{waiting:?}");
            return 1;
        }
        let mut orders = 0;
        for (nth, step) in threads.into_iter().enumerate().filter(|it| it.1 != Step::Done) {
            let (mut waiting, mut threads, mut delivered) = (waiting.clone(), threads, delivered);
            threads[nth] = match step {
                Step::Note => {
                    waiting.events.push_back(());
                    Step::Begin
                }
                Step::Begin if waiting.begin() => {
                    assert!(!threads.contains(&Step::Next), "only one thread delivers at a time");
                    Step::Next
                }
                Step::Next if waiting.next().is_some() => {
                    delivered += 1;
                    Step::Next
                }
                Step::Begin | Step::Next | Step::Done => Step::Done,
            };
            orders += explore(&waiting, threads, delivered);
        }
        orders
    }

    #[test]
    fn no_interleaving_loses_an_event() {
        let waiting = Waiting { events: VecDeque::new(), delivering: false };
        assert!(explore(&waiting, [Step::Note; 3], 0) > 1000);
    }

    #[test]
    fn concurrent_deliveries_lose_no_event() {
        let delivered = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&delivered);
        let handler = EventHandler::callback(move |()| {
            count.fetch_add(1, Ordering::SeqCst);
        });
        let outbox = Outbox::new(Some(handler), |()| {}, || false);
        let (arrived, late) = (AtomicUsize::new(0), AtomicUsize::new(0));
        // A spin barrier: the two threads start each round as close together as possible.
        let meet = |expected: usize| {
            arrived.fetch_add(1, Ordering::SeqCst);
            while arrived.load(Ordering::SeqCst) < expected {
                thread::yield_now();
            }
        };
        let work = || {
            for round in 1..=10_000 {
                meet(4 * round - 2);
                outbox.push(());
                outbox.deliver();
                meet(4 * round);
                // Checked at the end: a panic here would block the other thread.
                late.fetch_add(2 * round - delivered.load(Ordering::SeqCst), Ordering::SeqCst);
            }
        };
        thread::scope(|scope| {
            scope.spawn(work);
            scope.spawn(work);
        });
        assert_eq!((late.into_inner(), delivered.load(Ordering::SeqCst)), (0, 20_000));
    }
}
