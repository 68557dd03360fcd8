//! Resume tokens of change streams.

use bson::{RawBson, RawBsonRef, RawDocument};
use serde::{Deserialize, Serialize};

/// A place in the stream of changes, for a stream to be taken up again after it.
///
/// Only servers can read what is in it. It can be stored, as it can be serialised, and given to
/// [`resume_after`](crate::action::Watch::resume_after) or
/// [`start_after`](crate::action::Watch::start_after) later.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResumeToken(pub(crate) RawBson);

impl From<&RawDocument> for ResumeToken {
    fn from(token: &RawDocument) -> Self {
        Self(RawBson::Document(token.to_owned()))
    }
}

impl From<RawBsonRef<'_>> for ResumeToken {
    fn from(token: RawBsonRef<'_>) -> Self {
        Self(token.into())
    }
}
