//! A life that ends in the middle of something.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::time::Sleep;

use crate::dice::Dice;

/// How long somebody lives: so often may they be polled, and so long at most. Whatever they wait for then,
/// they do not live to see it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lifetime {
    pub(super) polls: u64,
    pub(super) time: Duration,
}

impl Lifetime {
    pub(super) fn up_to(polls: u64, millis: u64, dice: &mut Dice) -> Self {
        Self { polls: 1 + dice.below(polls), time: dice.millis(50, millis) }
    }

    /// For one call: longer than it takes on a busy machine, and often less than a client takes to find a
    /// server again.
    pub(super) fn of_patience(dice: &mut Dice) -> Self {
        let is_short = dice.one_in(2);
        let time = if is_short { dice.millis(150, 500) } else { dice.millis(1_000, 2_000) };
        Self { polls: u64::MAX, time }
    }
}

/// Runs until it is done, or killed. What it holds is dropped then.
pub(super) fn mortal<F: Future>(lifetime: Lifetime, life: F) -> Mortal<F> {
    let end = Box::pin(tokio::time::sleep(lifetime.time));
    Mortal { life: Some(Box::pin(life)), polls: lifetime.polls, end }
}

pub(super) struct Mortal<F> {
    life: Option<Pin<Box<F>>>,
    polls: u64,
    end: Pin<Box<Sleep>>,
}

/// It was killed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Killed;

impl<F: Future> Future for Mortal<F> {
    type Output = Result<F::Output, Killed>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if let Some(life) = &mut this.life
            && let Poll::Ready(done) = life.as_mut().poll(context)
        {
            this.life = None;
            return Poll::Ready(Ok(done));
        }
        // It has begun to wait for something.
        this.polls = this.polls.saturating_sub(1);
        if this.polls == 0 || this.end.as_mut().poll(context).is_ready() {
            this.life = None;
            return Poll::Ready(Err(Killed));
        }
        Poll::Pending
    }
}
