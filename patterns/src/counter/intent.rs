//! Intents: increments that can be stored before they are made.

use bson::{Bson, DateTime, oid::ObjectId};
use serde::{Deserialize, Serialize};

use steadfast::error::{Error, Result};

/// An increment to be made once: the counter, the amount, and the token that identifies it.
///
/// [`Counters::intend`](super::Counters::intend) creates it, [`Counters::finish`](super::Counters::finish)
/// completes it. Store it in between, with serde: any process that reads it can finish it, any number of times,
/// also after a crash.
///
/// BSON keeps every `_id` unchanged. JSON keeps most; binary data, infinities and NaN are read back as another
/// type, which is rejected.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Intent {
    pub(super) id: Bson,
    pub(super) token: ObjectId,
    pub(super) by: i64,
    /// Start of the time window: before this, by the server's clock, step one matches nothing, because the
    /// client's clock is wrong.
    pub(super) since: DateTime,
    /// End of the time window: from this on, by the server's clock, step one matches nothing.
    pub(super) until: DateTime,
    #[serde(default)]
    pub(super) stage: IntentStage,
}

/// Known progress of an intent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) enum IntentStage {
    /// Nothing is known; step one may have been sent.
    #[default]
    Open,
    /// Step one was acknowledged and must not be sent again; step two leaves a tombstone.
    Begun,
    /// Step one was acknowledged, and no other one is in progress: no tombstone is needed.
    BegunOnce,
}

impl Intent {
    /// Returns the `_id` of the counter.
    pub fn id(&self) -> &Bson {
        &self.id
    }

    /// Returns the amount to add.
    pub fn by(&self) -> i64 {
        self.by
    }

    /// Returns the token that identifies it in the counter's document.
    pub fn token(&self) -> ObjectId {
        self.token
    }

    /// Returns the time, by the server's clock, until which step one can be executed. After that the token is
    /// pending or done, or never will be.
    pub fn until(&self) -> DateTime {
        self.until
    }

    /// Rejects values that cannot be an `_id`, or that would match other documents.
    pub(super) fn check(&self) -> Result<()> {
        let reason = match &self.id {
            Bson::Null | Bson::Undefined => "no value",
            Bson::Array(_) => "an array",
            Bson::RegularExpression(_) => "a regular expression",
            Bson::Document(document) if document.keys().any(|key| key.starts_with('$')) => {
                "a document with operators"
            }
            _ => return Ok(()),
        };
        Err(Error::invalid_argument(format!("the _id of a counter cannot be {reason}")))
    }
}
