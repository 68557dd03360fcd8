//! How long something is waited for that must come: a time that only a hang exceeds.

use std::time::Duration;

const LONG_ENOUGH: Duration = Duration::from_secs(60);

/// What comes, if it comes in time.
pub(super) async fn asynchronous<T>(what: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(LONG_ENOUGH, what).await.ok()
}

/// Waits in a thread without a runtime.
pub(super) fn blocking<T>(what: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.expect("a runtime that does nothing but wait").block_on(what)
}
