//! Which index a query is to use.

use bson::Document;
use serde::{Deserialize, Serialize};

/// The index that a query is to use.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum Hint {
    /// The index on these keys.
    Keys(Document),
    /// The index of this name.
    Name(String),
}
