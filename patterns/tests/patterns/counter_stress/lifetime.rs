//! Futures that are dropped at a random point.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::time::Sleep;

use crate::rng::Rng;

/// Lifetime of a client: the largest number of polls, and the longest time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lifetime {
    pub(super) polls: u64,
    pub(super) time: Duration,
}

impl Lifetime {
    pub(super) fn up_to(polls: u64, millis: u64, rng: &mut Rng) -> Self {
        Self { polls: 1 + rng.below(polls), time: rng.millis(50, millis) }
    }

    /// Returns the lifetime of one call: longer than a call takes on a busy machine, and often shorter than
    /// server selection takes after a failover.
    pub(super) fn for_one_call(rng: &mut Rng) -> Self {
        let is_short = rng.one_in(2);
        let time = if is_short { rng.millis(150, 500) } else { rng.millis(1_000, 2_000) };
        Self { polls: u64::MAX, time }
    }
}

/// Runs a future until it ends or its lifetime is over. Then it is dropped.
pub(super) fn limited<F: Future>(lifetime: Lifetime, future: F) -> Limited<F> {
    let end = Box::pin(tokio::time::sleep(lifetime.time));
    Limited { future: Some(Box::pin(future)), polls: lifetime.polls, end }
}

pub(super) struct Limited<F> {
    future: Option<Pin<Box<F>>>,
    polls: u64,
    end: Pin<Box<Sleep>>,
}

/// The lifetime was over.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Killed;

impl<F: Future> Future for Limited<F> {
    type Output = Result<F::Output, Killed>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if let Some(future) = &mut this.future
            && let Poll::Ready(done) = future.as_mut().poll(context)
        {
            this.future = None;
            return Poll::Ready(Ok(done));
        }
        // The future is pending.
        this.polls = this.polls.saturating_sub(1);
        if this.polls == 0 || this.end.as_mut().poll(context).is_ready() {
            this.future = None;
            return Poll::Ready(Err(Killed));
        }
        Poll::Pending
    }
}
