//! Making whatever happens on a connection fail now, from outside.

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

/// Trips once, and wakes whoever waits for bytes on the connection it belongs to.
#[derive(Debug, Default)]
pub(crate) struct Interrupt {
    tripped: AtomicBool,
    reader: Mutex<Option<Waker>>,
}

impl Interrupt {
    /// Makes the read under way, and every later one, fail.
    pub(crate) fn trip(&self) {
        self.tripped.store(true, Ordering::Release);
        if let Some(reader) = lock(&self.reader).take() {
            reader.wake();
        }
    }

    /// Returns the output of `work`, or the error as soon as the interrupt trips.
    ///
    /// Only work that is pending checks for a trip; most work completes at once.
    pub(super) async fn or<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
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
            // A waker keeps its whole task in memory, for as long as the connection lies idle.
            drop(lock(&self.reader).take());
        }
        done
    }

    /// Ready with the error once tripped; until then the caller will be woken.
    fn poll(&self, cx: &Context<'_>) -> Poll<Error> {
        if !self.tripped.load(Ordering::Acquire) {
            let mut reader = lock(&self.reader);
            if !reader.as_ref().is_some_and(|known| known.will_wake(cx.waker())) {
                *reader = Some(cx.waker().clone());
            }
        }
        // Asked again after leaving the waker behind, so that no trip falls between the two.
        if self.tripped.load(Ordering::Acquire) {
            let text = "interrupted: the server was found not to answer";
            return Poll::Ready(Error::network(NetworkFailure::ClosedByUs, text));
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::{future::pending, sync::Arc, task::Wake};

    use super::*;

    #[tokio::test]
    async fn a_waiting_reader_is_woken() {
        let interrupt = Arc::new(Interrupt::default());
        let reader = tokio::spawn({
            let interrupt = Arc::clone(&interrupt);
            async move { interrupt.or(pending::<Result<()>>()).await }
        });
        tokio::task::yield_now().await;
        interrupt.trip();
        let error = reader.await.unwrap().unwrap_err();
        assert_eq!(error.network_failure(), Some(NetworkFailure::ClosedByUs));
    }

    #[test]
    fn a_task_that_waited_is_not_kept_in_memory_when_it_is_done() {
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
        let mut reading = pin!(interrupt.or(second_time));
        let before = Arc::strong_count(&task);
        assert!(reading.as_mut().poll(&mut context).is_pending());
        assert!(Arc::strong_count(&task) > before, "it is to be woken by a trip");
        assert!(reading.as_mut().poll(&mut context).is_ready());
        assert_eq!(Arc::strong_count(&task), before);
    }
}
