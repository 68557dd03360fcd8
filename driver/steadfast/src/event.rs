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

#[derive(Clone, Debug)]
struct Waiting<T> {
    events: VecDeque<T>,
    delivering: bool,
}

impl<T> Waiting<T> {
    /// Begins to deliver, unless another does or there is nothing to deliver.
    fn begin(&mut self) -> bool {
        let begins = !self.delivering && !self.events.is_empty();
        self.delivering |= begins;
        begins
    }

    /// Takes the next event. Finding none ends the delivery under the same lock, so that an event that is noted
    /// later is not left to a deliverer that has looked for the last time.
    fn next(&mut self) -> Option<T> {
        let event = self.events.pop_front();
        self.delivering = event.is_some();
        event
    }
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
        if !lock(&self.waiting).begin() {
            return;
        }
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
    /// The next event. The turn is over when there is none.
    fn next(&mut self) -> Option<T> {
        let event = lock(&self.outbox.waiting).next();
        self.over = event.is_none();
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
        collections::VecDeque,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
        thread,
    };

    use super::{EventHandler, Outbox, Waiting};

    /// The next thing that a thread does under the lock, which notes an event and then delivers.
    #[derive(Clone, Copy, PartialEq, Eq)]
    enum Step {
        Note,
        Begin,
        Next,
        Done,
    }

    /// Lets threads take their steps in every order from here on. Returns the number of orders.
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
                    assert!(!threads.contains(&Step::Next), "one delivers at a time");
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
    fn no_order_of_notes_and_deliveries_leaves_an_event_behind() {
        let waiting = Waiting { events: VecDeque::new(), delivering: false };
        assert!(explore(&waiting, [Step::Note; 3], 0) > 1000);
    }

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
        let work = || {
            for round in 1..=10_000 {
                meet(4 * round - 2);
                outbox.note(());
                outbox.deliver();
                meet(4 * round);
                // Told at the end: whoever panicked here would leave the other waiting.
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
