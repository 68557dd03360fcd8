//! What cursors do.

use std::{sync::atomic::Ordering, time::Duration};

use super::{Arguments, Done, Outcome, unknown};
use crate::unified::{
    entities::{SharedCursor, opened},
    run::Run,
    stop::Stop,
};

/// How long a server may take to forget a cursor.
const PATIENCE: Duration = Duration::from_secs(1);

pub(super) async fn call(
    run: &Run,
    shared: &SharedCursor,
    name: &str,
    arguments: Arguments,
) -> Done {
    if name == "close" && arguments.has("timeoutMS") {
        let lacking = "a time limit for closing a cursor, which happens when it is let go of";
        return Err(Stop::needs(lacking).into());
    }
    arguments.done()?;
    let mut held = shared.lock().await;
    let cursor = opened(&mut held)?;
    let found = match name {
        "iterateUntilDocumentOrError" => cursor.next(false).await??,
        "iterateOnce" => cursor.next(true).await??,
        "close" => {
            let open = cursor.has_next();
            *held = None;
            if open {
                await_kill(run).await;
            }
            return Ok(Outcome::Nothing);
        }
        _ => return Err(unknown("cursor", name)),
    };
    Ok(found.map_or(Outcome::Nothing, |document| Some(document).into()))
}

/// A cursor is closed by letting go of it; the server is then told in the background. A test that
/// looks at the events wants to see it.
async fn await_kill(run: &Run) {
    let journals: Vec<_> =
        run.entities.clients().into_iter().map(|entity| entity.journal).collect();
    let killed = || journals.iter().map(|journal| journal.killed_cursors()).sum::<usize>();
    let before = run.cursors_killed.load(Ordering::Relaxed);
    let told = async {
        while killed() <= before {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    // A cursor whose last batch has come is not killed: there is nothing to wait for, then.
    let _ = tokio::time::timeout(PATIENCE, told).await;
    run.cursors_killed.store(killed(), Ordering::Relaxed);
}
