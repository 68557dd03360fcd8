//! Numbers of the workers that run cases concurrently. Each worker has its own embedded deployments.

use std::{
    cell::Cell,
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
};

thread_local! {
    static CURRENT: Cell<usize> = const { Cell::new(0) };
}

/// Numbers in use.
static RESERVED: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

/// Number of this thread, reserved until it is dropped.
pub(crate) struct WorkerSlot(usize);

impl WorkerSlot {
    /// Reserves the lowest free number for this thread.
    pub(crate) fn reserve() -> Self {
        let mut reserved = RESERVED.lock().unwrap_or_else(PoisonError::into_inner);
        let free = (1..)
            .find(|number| !reserved.contains(number))
            .expect("there are more numbers than threads");
        reserved.insert(free);
        CURRENT.set(free);
        Self(free)
    }

    /// Returns the number of this thread, or 0 if it has reserved none.
    pub(crate) fn current() -> usize {
        CURRENT.get()
    }
}

impl Drop for WorkerSlot {
    fn drop(&mut self) {
        RESERVED.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.0);
        CURRENT.set(0);
    }
}
