//! Random drops of futures: after a number of polls, or after a time.

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    task::Poll,
    time::Duration,
};

use blackpipe_base::rng;
use steadfast::error::{Error, Result};

/// Maximum time before a future is dropped, in microseconds.
const LONGEST_MICROS: u64 = 20_000;
/// Maximum number of polls before a future is dropped.
const MOST_POLLS: u64 = 14;
/// One of this number of futures is awaited to its end.
const AWAITED_ONE_IN: u64 = 8;

/// Random number generator with a seed.
#[derive(Debug)]
pub(super) struct DropRng {
    numbers: rng::Rng,
    /// Number of futures that were dropped.
    pub(super) dropped: u64,
}

impl DropRng {
    /// Creates the generator of a task.
    pub(super) fn new(seed: u64, task: u64) -> Self {
        let seed = seed ^ (task + 1).wrapping_mul(0xd134_2543_de82_ef95);
        Self { numbers: rng::Rng::new(seed), dropped: 0 }
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.numbers.below(bound)
    }

    pub(super) fn one_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }
}

/// Awaits a future for a random time or a random number of polls. `None` if it was dropped.
pub(super) async fn random_drop<F: Future>(rng: &mut DropRng, future: F) -> Option<F::Output> {
    let (awaited, by_polls) = (rng.one_in(AWAITED_ONE_IN), rng.one_in(2));
    let (polls, micros) = (1 + rng.below(MOST_POLLS), rng.below(LONGEST_MICROS));
    let output = if awaited {
        Some(future.await)
    } else if by_polls {
        drop_after(polls, future).await
    } else {
        tokio::time::timeout(Duration::from_micros(micros), future).await.ok()
    };
    if output.is_none() {
        rng.dropped += 1;
    }
    output
}

/// Polls a future at most this many times, then drops it.
async fn drop_after<F: Future>(polls: u64, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut left = polls;
    poll_fn(|cx| {
        left -= 1;
        match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            // Dropped right after the last poll, before a spawned task has run.
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// [`random_drop`] as a method of actions.
pub(super) trait RandomDrop<T>: IntoFuture<Output = Result<T>> + Sized {
    /// Runs the action like [`random_drop`]. A dropped action is a custom error.
    fn random_drop<'a>(
        self,
        rng: &'a mut DropRng,
    ) -> Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>
    where
        Self::IntoFuture: Send + 'a,
        T: Send,
    {
        let future = self.into_future();
        Box::pin(async move {
            random_drop(rng, future).await.unwrap_or_else(|| Err(Error::custom("dropped")))
        })
    }
}

impl<T, A: IntoFuture<Output = Result<T>>> RandomDrop<T> for A {}
