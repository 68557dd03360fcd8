//! Interruption of connections in use, after a failed heartbeat.

use std::{
    future::poll_fn,
    pin::pin,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Waker},
};

use crate::{
    error::{Error, NetworkFailure, Result},
    event::lock,
};

/// One-time signal that makes all pending and later reads of a connection fail.
#[derive(Debug, Default)]
pub(crate) struct Interrupt {
    tripped: AtomicBool,
    reader: Mutex<Option<Waker>>,
}

impl Interrupt {
    /// Makes the pending read and every later one fail.
    pub(crate) fn trip(&self) {
        self.tripped.store(true, Ordering::Release);
        if let Some(reader) = lock(&self.reader).take() {
            reader.wake();
        }
    }

    /// Returns the output of `work`, or the error as soon as the interrupt trips.
    ///
    /// Only work that is pending checks for a trip; most work completes at once.
    pub(super) async fn run<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let mut work = pin!(work);
        let mut waited = false;
        let done = poll_fn(|cx| match work.as_mut().poll(cx) {
            Poll::Ready(done) => Poll::Ready(done),
            Poll::Pending => {
                waited = true;
                self.poll(cx).map(Err)
            }
        })
        .await;
        if waited {
            // A stored waker would keep its task in memory while the connection is idle.
            drop(lock(&self.reader).take());
        }
        done
    }

    /// Returns the error if the interrupt was tripped; otherwise stores the waker.
    fn poll(&self, cx: &Context<'_>) -> Poll<Error> {
        if !self.tripped.load(Ordering::Acquire) {
            let mut reader = lock(&self.reader);
            if !reader.as_ref().is_some_and(|known| known.will_wake(cx.waker())) {
                *reader = Some(cx.waker().clone());
            }
        }
        // Checked again after storing the waker, so that no trip in between is missed.
        if self.tripped.load(Ordering::Acquire) {
            let text = "interrupted: a heartbeat of the server timed out";
            return Poll::Ready(Error::network(NetworkFailure::ClosedByClient, text));
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::{future::pending, sync::Arc, task::Wake};

    use super::*;

    #[tokio::test]
    async fn interrupt_wakes_a_pending_read() {
        let interrupt = Arc::new(Interrupt::default());
        let reader = tokio::spawn({
            let interrupt = Arc::clone(&interrupt);
            async move { interrupt.run(pending::<Result<()>>()).await }
        });
        tokio::task::yield_now().await;
        interrupt.trip();
        let error = reader.await.unwrap().unwrap_err();
        assert_eq!(error.network_failure(), Some(NetworkFailure::ClosedByClient));
    }

    #[test]
    fn finished_task_is_not_kept_in_memory() {
        struct Task;
        impl Wake for Task {
            fn wake(self: Arc<Self>) {}
        }
        let task = Arc::new(Task);
        let waker = Waker::from(Arc::clone(&task));
        let mut context = Context::from_waker(&waker);
        let interrupt = Interrupt::default();
        let mut polls = 0;
        let second_time = poll_fn(|_| {
            polls += 1;
            if polls == 2 { Poll::Ready(Result::Ok(())) } else { Poll::Pending }
        });
        let mut reading = pin!(interrupt.run(second_time));
        let before = Arc::strong_count(&task);
        assert!(reading.as_mut().poll(&mut context).is_pending());
        assert!(Arc::strong_count(&task) > before, "it is to be woken by a trip");
        assert!(reading.as_mut().poll(&mut context).is_ready());
        assert_eq!(Arc::strong_count(&task), before);
    }
}
