//! Waiting with a time-out that only a hang exceeds.

use std::time::Duration;

const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

/// Waits with the time-out. `None` if it expires.
pub(super) async fn with_timeout<T>(what: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(WAIT_TIMEOUT, what).await.ok()
}

/// Waits in a thread without a runtime.
pub(super) fn blocking<T>(what: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.expect("a runtime that does nothing but wait").block_on(what)
}
