//! What the time limit of a call that makes a cursor is for.

use serde::{Deserialize, Serialize};

/// What the time limit of a call that makes a cursor is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum TimeoutMode {
    /// For all of it: the call, and everything that is asked of the cursor later. The default,
    /// except for tailable cursors, which have no end.
    CursorLifetime,
    /// For each step: the call has as much time, and so has each step to the next document.
    Iteration,
}
