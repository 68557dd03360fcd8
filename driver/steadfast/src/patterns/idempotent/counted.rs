//! What an operation did that was perhaps sent more than once.

use crate::patterns::again::Sendings;

/// What an operation did that was perhaps sent more than once.
///
/// `R` is what the last sending said. If an earlier one was in doubt, it may have done a part of the work,
/// or all of it: then the last one tells only what was left to do.
#[derive(Clone, Debug, PartialEq)]
pub struct Counted<R> {
    last: R,
    in_doubt: bool,
    sendings: u32,
}

impl<R> Counted<R> {
    pub(in crate::patterns) fn new(last: R, sendings: &Sendings) -> Self {
        Self { last, in_doubt: sendings.in_doubt(), sendings: sendings.made() }
    }

    /// What was done, if that is certain: no earlier sending can have done any of it.
    pub fn exact(&self) -> Option<&R> {
        (!self.in_doubt).then_some(&self.last)
    }

    /// What was done at the least: what the last sending did.
    pub fn at_least(&self) -> &R {
        &self.last
    }

    /// Whether an earlier sending may have done something, too.
    pub fn in_doubt(&self) -> bool {
        self.in_doubt
    }

    /// How often it was sent. (What the driver repeats by itself, with the same transaction number, is
    /// one sending.)
    pub fn sendings(&self) -> u32 {
        self.sendings
    }
}
