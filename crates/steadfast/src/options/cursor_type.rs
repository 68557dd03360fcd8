//! Whether a cursor ends with the last document that is there.

use serde::{Deserialize, Serialize};

/// Whether a cursor ends with the last document that is there, or waits for others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum CursorType {
    /// It ends with the last document.
    #[default]
    NonTailable,
    /// It stays open and gives documents that are added later. For capped collections.
    Tailable,
    /// Like `Tailable`, and the server waits a while for a document before it says there is none.
    TailableAwait,
}
