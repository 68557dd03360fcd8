//! Operations of cursors.

use std::{sync::atomic::Ordering, time::Duration};

use super::{Arguments, CallResult, OperationResult, unknown};
use crate::unified::{
    entities::{SharedCursor, open_cursor},
    run::TestRun,
    test_error::TestError,
};

/// Limit for `killCursors` after a cursor was closed.
const KILL_TIMEOUT: Duration = Duration::from_secs(1);

pub(super) async fn call(
    run: &TestRun,
    shared: &SharedCursor,
    name: &str,
    arguments: Arguments,
) -> CallResult {
    if name == "close" && arguments.has("timeoutMS") {
        let feature = "a time limit for closing a cursor, which happens when it is dropped";
        return Err(TestError::needs(feature).into());
    }
    arguments.done()?;
    let mut held = shared.lock().await;
    let cursor = open_cursor(&mut held)?;
    let found = match name {
        "iterateUntilDocumentOrError" => cursor.next(false).await??,
        "iterateOnce" => cursor.next(true).await??,
        "close" => {
            let open = cursor.has_next();
            *held = None;
            if open {
                await_kill(run).await;
            }
            return Ok(OperationResult::Nothing);
        }
        _ => return Err(unknown("cursor", name)),
    };
    Ok(found.map_or(OperationResult::Nothing, |document| Some(document).into()))
}

/// Waits for `killCursors`, which the driver sends in the background when a cursor is dropped. Tests may expect its
/// events.
async fn await_kill(run: &TestRun) {
    let recorders: Vec<_> =
        run.entities.clients().into_iter().map(|entity| entity.recorder).collect();
    let killed = || recorders.iter().map(|recorder| recorder.ended_kill_cursors()).sum::<usize>();
    let before = run.cursors_killed.load(Ordering::Relaxed);
    let killed_one = async {
        while killed() <= before {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    // An exhausted cursor is not killed; then this waits until the time-out.
    let _ = tokio::time::timeout(KILL_TIMEOUT, killed_one).await;
    run.cursors_killed.store(killed(), Ordering::Relaxed);
}
