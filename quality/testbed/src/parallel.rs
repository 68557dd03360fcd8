//! Concurrent starts of several servers.

use std::thread;

use crate::{Result, TestbedError};

/// Runs each task on its own thread and returns the results in order, or the first error.
pub(crate) fn try_collect<T, F>(tasks: impl IntoIterator<Item = F>) -> Result<Vec<T>>
where
    F: FnOnce() -> Result<T> + Send,
    T: Send,
{
    thread::scope(|scope| {
        let tasks: Vec<_> = tasks.into_iter().map(|task| scope.spawn(task)).collect();
        tasks.into_iter().map(|task| task.join().unwrap_or_else(panicked)).collect()
    })
}

/// Runs two tasks at once and returns both results, or the first error.
pub(crate) fn both<A: Send, B>(
    first: impl FnOnce() -> Result<A> + Send,
    second: impl FnOnce() -> Result<B>,
) -> Result<(A, B)> {
    thread::scope(|scope| {
        let first = scope.spawn(first);
        let second = second();
        let first = first.join().unwrap_or_else(panicked);
        Ok((first?, second?))
    })
}

fn panicked<T>(_: Box<dyn std::any::Any + Send>) -> Result<T> {
    Err(TestbedError::new("the start of a server panicked"))
}
