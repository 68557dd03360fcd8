//! Retry budget of a client under overload: a token bucket.
//!
//! Rejecting a request costs a server work, too. A retry after an overload error therefore takes a
//! token, and only successful commands add tokens. Without successes, the bucket of a client
//! empties, and each command is attempted once.
//!
//! | event                                                             | tokens |
//! |-------------------------------------------------------------------|--------|
//! | a command succeeds, with its first attempt or a later one         | + 0.1  |
//! | a retry takes a token                                             | − 1    |
//! | its attempt fails with another overload error                     | none: the token is spent |
//! | … succeeds, or fails with an ordinary error                       | + 1    |
//! | … ends before it is sent: no server, a dropped future, a panic    | + 1    |
//! | … is sent, and its future is dropped before the reply             | none: the server had the work |
//!
//! The number of tokens is never below zero and never above the [capacity](RetryBudget::CAPACITY).

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

/// One token, in tenths. Amounts are integers, so that rounding loses nothing.
const TENTHS_PER_TOKEN: u64 = 10;
/// Deposit of a successful command, in tenths of a token.
const TENTHS_PER_SUCCESS: u64 = 1;

/// Token bucket for retries after overload errors. See the [module](self).
///
/// All commands of a client share one. There is no lock. While the bucket is full, which is the
/// normal case, a success only reads it.
#[derive(Debug)]
pub struct RetryBudget {
    /// Tokens left, in tenths. Relaxed ordering suffices: decisions depend on this number alone,
    /// and it publishes nothing else.
    tenths: AtomicU64,
    capacity: u64,
    withdrawn: AtomicU64,
    denied: AtomicU64,
}

impl Default for RetryBudget {
    fn default() -> Self {
        Self::new()
    }
}

impl RetryBudget {
    /// Initial and maximum number of tokens.
    pub const CAPACITY: u32 = 1000;

    /// Creates a full bucket with the specification's capacity.
    pub fn new() -> Self {
        Self::with_capacity(Self::CAPACITY)
    }

    /// Creates a full bucket with another capacity.
    pub fn with_capacity(tokens: u32) -> Self {
        let capacity = u64::from(tokens) * TENTHS_PER_TOKEN;
        Self {
            tenths: AtomicU64::new(capacity),
            capacity,
            withdrawn: AtomicU64::new(0),
            denied: AtomicU64::new(0),
        }
    }

    /// Takes a token. Returns `None` if there is less than one.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use steadfast_core::retry::RetryBudget;
    ///
    /// let budget = Arc::new(RetryBudget::with_capacity(1));
    /// let token = budget.withdraw().expect("there is one");
    /// assert!(budget.withdraw().is_none());
    /// drop(token);
    /// assert!(budget.withdraw().is_some());
    /// ```
    pub fn withdraw(self: &Arc<Self>) -> Option<RetryToken> {
        let taken = self
            .tenths
            .fetch_update(Relaxed, Relaxed, |tenths| tenths.checked_sub(TENTHS_PER_TOKEN));
        let counter = if taken.is_ok() { &self.withdrawn } else { &self.denied };
        counter.fetch_add(1, Relaxed);
        taken.ok().map(|_| RetryToken { budget: Arc::clone(self), returned_on_drop: true })
    }

    /// Adds a tenth of a token after a successful command.
    pub fn deposit(&self) {
        self.add(TENTHS_PER_SUCCESS);
    }

    /// Returns the maximum number of tokens.
    pub fn capacity(&self) -> u32 {
        u32::try_from(self.capacity / TENTHS_PER_TOKEN).unwrap_or(u32::MAX)
    }

    /// Returns the number of tokens left, to a tenth.
    pub fn tokens_left(&self) -> f64 {
        // Exact: a capacity of `u32` tokens has far fewer tenths than 2^53.
        self.tenths.load(Relaxed) as f64 / TENTHS_PER_TOKEN as f64
    }

    /// Returns the number of tokens taken so far, including those returned later.
    pub fn withdrawn(&self) -> u64 {
        self.withdrawn.load(Relaxed)
    }

    /// Returns the number of retries that found no token.
    pub fn denied(&self) -> u64 {
        self.denied.load(Relaxed)
    }

    fn add(&self, tenths: u64) {
        // An error only means that the bucket is full.
        let _ = self.tenths.fetch_update(Relaxed, Relaxed, |present| {
            (present < self.capacity).then(|| self.capacity.min(present + tenths))
        });
    }
}

/// A token taken for one attempt. It is returned if it is dropped before the attempt is sent.
#[derive(Debug)]
#[must_use = "a dropped token is returned to the budget"]
pub struct RetryToken {
    budget: Arc<RetryBudget>,
    returned_on_drop: bool,
}

impl RetryToken {
    /// Spends the token: the attempt failed with another overload error.
    pub fn spend(mut self) {
        self.returned_on_drop = false;
    }

    /// Returns the token: the attempt did not fail with an overload error.
    pub fn refund(mut self) {
        self.returned_on_drop = true;
    }

    /// Records that the attempt is about to be sent: dropping the token no longer returns it.
    pub fn mark_sent(&mut self) {
        self.returned_on_drop = false;
    }
}

impl Drop for RetryToken {
    fn drop(&mut self) {
        if self.returned_on_drop {
            self.budget.add(TENTHS_PER_TOKEN);
        }
    }
}
