//! Resume tokens of change streams.

use bson::{RawBson, RawBsonRef, RawDocument};
use serde::{Deserialize, Serialize};

/// Resume token: position in a change stream, opaque to drivers.
///
/// It can be serialized and stored, and passed to
/// [`resume_after`](crate::action::Watch::resume_after) or
/// [`start_after`](crate::action::Watch::start_after) later. See
/// [resume a change stream](https://www.mongodb.com/docs/manual/changeStreams/).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResumeToken(pub(crate) RawBson);

impl From<&RawDocument> for ResumeToken {
    fn from(token: &RawDocument) -> Self {
        Self(RawBson::Document(token.to_owned()))
    }
}

impl From<RawBsonRef<'_>> for ResumeToken {
    fn from(token: RawBsonRef<'_>) -> Self {
        Self(bson::to_raw_bson(token))
    }
}
