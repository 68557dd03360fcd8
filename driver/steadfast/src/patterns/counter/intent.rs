//! What is to be counted, as something that outlives the process that wanted it.

use bson::{Bson, DateTime, oid::ObjectId};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// One increment that is to happen once: which counter, by how much, and the token that stands for it.
///
/// Made by [`Counters::intend`](super::Counters::intend), carried out by
/// [`Counters::finish`](super::Counters::finish). Store it before that, with serde: whoever has it can
/// finish it, any number of times, also after a crash.
///
/// In BSON each `_id` stays what it is. In JSON most do; but one that is plain binary data, an infinity or
/// NaN is read back as something else, which is then refused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Intent {
    pub(super) id: Bson,
    pub(super) token: ObjectId,
    pub(super) by: i64,
    /// Before this, by the server's clock, step one is refused: the client's clock is wrong.
    pub(super) since: DateTime,
    /// From this on, by the server's clock, step one is refused: it is too late.
    pub(super) until: DateTime,
    #[serde(default)]
    pub(super) stage: Stage,
}

/// How far it is known to have come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) enum Stage {
    /// Nothing is known: step one is to be done, or was.
    #[default]
    Open,
    /// Step one was acknowledged and must never be sent again; step two leaves a tombstone.
    Begun,
    /// The same, and no other sending of step one is on its way, so that no tombstone is needed.
    BegunOnce,
}

impl Intent {
    /// The `_id` of the counter.
    pub fn id(&self) -> &Bson {
        &self.id
    }

    /// By how much it counts.
    pub fn by(&self) -> i64 {
        self.by
    }

    /// What stands for it in the counter's document.
    pub fn token(&self) -> ObjectId {
        self.token
    }

    /// Until when, by the server's clock, it can begin to be counted. After that it is either pending
    /// or counted, or it never will be.
    pub fn until(&self) -> DateTime {
        self.until
    }

    /// Refuses ids that no document can have, or that would match others.
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
