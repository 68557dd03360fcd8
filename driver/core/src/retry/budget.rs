//! The allowance that a client has for trying again while servers shed load: a token bucket.
//!
//! Turning a request away costs a server work, too. So a retry after an overload error is paid for
//! with a token, and tokens come back only from what succeeds: when nothing does, a client's
//! retries run dry and it tries each command once.
//!
//! | what happens                                                      | tokens |
//! |-------------------------------------------------------------------|--------|
//! | a command succeeds, by its first attempt or a later one           | + 0.1  |
//! | a retry is paid for                                               | − 1    |
//! | the attempt that was paid for ends in another overload error      | none: it is spent |
//! | … ends in success, or in an error of another sort                 | + 1    |
//! | … is given up before it was sent: no server, a dropped future, a panic | + 1 |
//! | … is sent, and its future is dropped before the reply              | none: the server had the work |
//!
//! Never below zero, never above the [capacity](Budget::CAPACITY).

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

/// What a retry costs, in tenths of a token: amounts are whole numbers, so that nothing is lost by
/// rounding.
const PRICE: u64 = 10;
/// What a success brings in, in tenths of a token.
const RETURN: u64 = 1;

/// A client's allowance for retries after overload errors; see the [module](self).
///
/// All of a client's commands share one. There is no lock, and while the bucket is full, which is
/// the rule, a success only reads it.
#[derive(Debug)]
pub struct Budget {
    /// In tenths of a token. It is the only one of the numbers that something is decided by, and
    /// nothing else is published through it, so that no ordering between them is needed.
    tenths: AtomicU64,
    capacity: u64,
    withdrawn: AtomicU64,
    refused: AtomicU64,
}

impl Default for Budget {
    fn default() -> Self {
        Self::new()
    }
}

impl Budget {
    /// How many tokens there are at first, and at most.
    pub const CAPACITY: u32 = 1000;

    /// A full bucket of the specification's size.
    pub fn new() -> Self {
        Self::with_capacity(Self::CAPACITY)
    }

    /// A full bucket of another size.
    pub fn with_capacity(tokens: u32) -> Self {
        let capacity = u64::from(tokens) * PRICE;
        Self {
            tenths: AtomicU64::new(capacity),
            capacity,
            withdrawn: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }
    }

    /// Takes a token out; none if there is no whole one.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use steadfast_core::retry::Budget;
    ///
    /// let budget = Arc::new(Budget::with_capacity(1));
    /// let token = budget.withdraw().expect("there is one");
    /// assert!(budget.withdraw().is_none());
    /// drop(token);
    /// assert!(budget.withdraw().is_some());
    /// ```
    pub fn withdraw(self: &Arc<Self>) -> Option<Withdrawal> {
        let taken = self.tenths.fetch_update(Relaxed, Relaxed, |tenths| tenths.checked_sub(PRICE));
        let counter = if taken.is_ok() { &self.withdrawn } else { &self.refused };
        counter.fetch_add(1, Relaxed);
        taken.ok().map(|_| Withdrawal { budget: Arc::clone(self), returned_on_drop: true })
    }

    /// A command succeeded.
    pub fn deposit(&self) {
        self.add(RETURN);
    }

    /// How many tokens there are at most.
    pub fn capacity(&self) -> u32 {
        u32::try_from(self.capacity / PRICE).unwrap_or(u32::MAX)
    }

    /// How many tokens are left, to a tenth.
    pub fn tokens_left(&self) -> f64 {
        // Exact: a capacity of `u32` tokens has far fewer tenths than 2^53.
        self.tenths.load(Relaxed) as f64 / PRICE as f64
    }

    /// How many retries were paid for so far, also if the token came back.
    pub fn withdrawn(&self) -> u64 {
        self.withdrawn.load(Relaxed)
    }

    /// How many retries were refused so far, because there was no token.
    pub fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    fn add(&self, tenths: u64) {
        // A full bucket is left alone: an error here says no more than that.
        let _ = self.tenths.fetch_update(Relaxed, Relaxed, |present| {
            (present < self.capacity).then(|| self.capacity.min(present + tenths))
        });
    }
}

/// A token that was taken out for one attempt. Dropped before the attempt is sent, it is returned.
#[derive(Debug)]
#[must_use = "a token that is dropped goes back"]
pub struct Withdrawal {
    budget: Arc<Budget>,
    returned_on_drop: bool,
}

impl Withdrawal {
    /// Uses it up: the attempt that it paid for met with an overload error again.
    pub fn spend(mut self) {
        self.returned_on_drop = false;
    }

    /// Returns it: the attempt that it paid for did not meet with an overload error.
    pub fn refund(mut self) {
        self.returned_on_drop = true;
    }

    /// The attempt is about to be sent: dropping the token no longer returns it.
    pub fn keep_if_dropped(&mut self) {
        self.returned_on_drop = false;
    }
}

impl Drop for Withdrawal {
    fn drop(&mut self) {
        if self.returned_on_drop {
            self.budget.add(PRICE);
        }
    }
}
