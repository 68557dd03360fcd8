//! Lanes: cases that are run at the same time are each in a lane of their own, and so are the embedded
//! deployments that they are run on.

use std::{
    cell::Cell,
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
};

thread_local! {
    static HERE: Cell<usize> = const { Cell::new(0) };
}

/// The lanes that are taken.
static TAKEN: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

/// The lane of this thread, until it is dropped.
pub(crate) struct Lane(usize);

impl Lane {
    /// Takes the first lane that is free for this thread.
    pub(crate) fn take() -> Self {
        let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        let free = (1..).find(|lane| !taken.contains(lane)).expect("there are more than threads");
        taken.insert(free);
        HERE.set(free);
        Self(free)
    }

    /// The number of this thread's lane; 0 if it has taken none.
    pub(crate) fn here() -> usize {
        HERE.get()
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        TAKEN.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.0);
        HERE.set(0);
    }
}
