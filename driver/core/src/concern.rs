//! How durable a read's data or a write must be: read concern and write concern.
//!
//! Their serde form is what a server expects under `readConcern` and `writeConcern`.

use std::time::Duration;

use bson::{Document, doc};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Which data a read may return.
///
/// ```
/// use steadfast_core::concern::ReadConcern;
///
/// assert_eq!(ReadConcern::majority().level.as_str(), "majority");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ReadConcern {
    /// The level.
    pub level: ReadConcernLevel,
}

/// The levels of a [`ReadConcern`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadConcernLevel {
    /// The server's most recent data, which may yet be rolled back.
    Local,
    /// Data that a majority of the replica set has acknowledged.
    Majority,
    /// Reflects every majority-acknowledged write that ended before the read began.
    Linearizable,
    /// Like local, but a sharded cluster may also return orphaned documents.
    Available,
    /// Data of one point in time.
    Snapshot,
    /// A level this driver has no name for; sent as it is.
    Custom(String),
}

impl ReadConcern {
    /// Data that a majority of the replica set has acknowledged.
    pub fn majority() -> Self {
        ReadConcernLevel::Majority.into()
    }

    /// The server's most recent data.
    pub fn local() -> Self {
        ReadConcernLevel::Local.into()
    }

    /// Reflects every majority-acknowledged write that ended before the read began.
    pub fn linearizable() -> Self {
        ReadConcernLevel::Linearizable.into()
    }

    /// Whatever is available fastest.
    pub fn available() -> Self {
        ReadConcernLevel::Available.into()
    }

    /// Data of one point in time.
    pub fn snapshot() -> Self {
        ReadConcernLevel::Snapshot.into()
    }

    /// A level by its name.
    pub fn custom(level: impl AsRef<str>) -> Self {
        ReadConcernLevel::from(level.as_ref()).into()
    }

    /// The document that goes into a command.
    pub fn to_document(&self) -> Document {
        doc! { "level": self.level.as_str() }
    }
}

impl From<ReadConcernLevel> for ReadConcern {
    fn from(level: ReadConcernLevel) -> Self {
        Self { level }
    }
}

impl ReadConcernLevel {
    /// The level's name on the wire.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Local => "local",
            Self::Majority => "majority",
            Self::Linearizable => "linearizable",
            Self::Available => "available",
            Self::Snapshot => "snapshot",
            Self::Custom(name) => name,
        }
    }
}

impl From<&str> for ReadConcernLevel {
    fn from(name: &str) -> Self {
        match name {
            "local" => Self::Local,
            "majority" => Self::Majority,
            "linearizable" => Self::Linearizable,
            "available" => Self::Available,
            "snapshot" => Self::Snapshot,
            other => Self::Custom(other.to_owned()),
        }
    }
}

impl Serialize for ReadConcernLevel {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for ReadConcernLevel {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|name| Self::from(name.as_str()))
    }
}

/// When a write counts as done.
///
/// ```
/// use std::time::Duration;
/// use steadfast_core::concern::WriteConcern;
///
/// let concern = WriteConcern::majority().with_w_timeout(Duration::from_secs(5));
/// assert!(concern.is_acknowledged() && concern.validate().is_ok());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct WriteConcern {
    /// Which members must have it; the server's default if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub w: Option<Acknowledgment>,
    /// How long the server waits for them. Running out does not undo the write.
    #[serde(
        default,
        rename = "wtimeout",
        alias = "wtimeoutMS",
        skip_serializing_if = "Option::is_none",
        serialize_with = "write_millis",
        deserialize_with = "read_millis"
    )]
    pub w_timeout: Option<Duration>,
    /// Whether it must be in the on-disk journal, too.
    #[serde(default, rename = "j", alias = "journal", skip_serializing_if = "Option::is_none")]
    pub journal: Option<bool>,
}

/// Which members must have a write before it counts as done.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Acknowledgment {
    /// That many members; with none, the server does not even answer.
    Nodes(u32),
    /// A majority of the voting members.
    Majority,
    /// A mode that the replica set's configuration defines.
    Custom(String),
}

/// Why a write concern cannot be what was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidWriteConcern {
    /// Nobody waits for an answer that would report on the journal.
    #[error("a write concern of w: 0 cannot ask for journaling (j: true)")]
    UnacknowledgedJournal,
    /// There are no negative or fractional members, nor more than an int32 can count.
    #[error("a write concern's w must be a non-negative 32-bit integer or a mode's name")]
    InvalidW,
    /// Longer than the server can be told.
    #[error("a write concern's wtimeout must be a non-negative number of milliseconds")]
    InvalidTimeout,
}

impl WriteConcern {
    /// Acknowledged by that many members.
    pub fn nodes(count: u32) -> Self {
        Acknowledgment::Nodes(count).into()
    }

    /// Acknowledged by a majority of the voting members.
    pub fn majority() -> Self {
        Acknowledgment::Majority.into()
    }

    /// Acknowledged as a mode of the replica set's configuration says.
    pub fn custom(mode: impl AsRef<str>) -> Self {
        Acknowledgment::from(mode.as_ref()).into()
    }

    /// A write concern to be filled in field by field.
    pub fn builder() -> WriteConcernBuilder {
        WriteConcernBuilder::default()
    }

    /// The same with this limit on the server's waiting.
    #[must_use]
    pub fn with_w_timeout(mut self, timeout: Duration) -> Self {
        self.w_timeout = Some(timeout);
        self
    }

    /// The same with or without waiting for the journal.
    #[must_use]
    pub fn with_journal(mut self, journal: bool) -> Self {
        self.journal = Some(journal);
        self
    }

    /// Whether the server answers at all: not with `w: 0`.
    pub fn is_acknowledged(&self) -> bool {
        self.w != Some(Acknowledgment::Nodes(0)) || self.journal == Some(true)
    }

    /// Whether it says nothing, so that the server's default applies and nothing is sent.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Refuses what no server could obey.
    pub fn validate(&self) -> Result<(), InvalidWriteConcern> {
        let too_large = |count: u32| i32::try_from(count).is_err();
        match self.w {
            Some(Acknowledgment::Nodes(0)) if self.journal == Some(true) => {
                Err(InvalidWriteConcern::UnacknowledgedJournal)
            }
            Some(Acknowledgment::Nodes(count)) if too_large(count) => {
                Err(InvalidWriteConcern::InvalidW)
            }
            _ if self.w_timeout.is_some_and(|timeout| millis(timeout).is_none()) => {
                Err(InvalidWriteConcern::InvalidTimeout)
            }
            _ => Ok(()),
        }
    }

    /// The document that goes into a command.
    pub fn to_document(&self) -> Document {
        let mut document = Document::new();
        match &self.w {
            Some(Acknowledgment::Nodes(count)) => {
                document.insert("w", i32::try_from(*count).unwrap_or(i32::MAX));
            }
            Some(Acknowledgment::Majority) => {
                document.insert("w", "majority");
            }
            Some(Acknowledgment::Custom(mode)) => {
                document.insert("w", mode);
            }
            None => {}
        }
        if let Some(timeout) = self.w_timeout {
            document.insert("wtimeout", millis(timeout).unwrap_or(i64::MAX));
        }
        if let Some(journal) = self.journal {
            document.insert("j", journal);
        }
        document
    }
}

impl From<Acknowledgment> for WriteConcern {
    fn from(w: Acknowledgment) -> Self {
        Self { w: Some(w), ..Self::default() }
    }
}

/// Fills in a [`WriteConcern`].
#[derive(Clone, Debug, Default)]
pub struct WriteConcernBuilder(WriteConcern);

impl WriteConcernBuilder {
    /// Which members must have the write.
    #[must_use]
    pub fn w(mut self, w: impl Into<Option<Acknowledgment>>) -> Self {
        self.0.w = w.into();
        self
    }

    /// How long the server waits for them.
    #[must_use]
    pub fn w_timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.0.w_timeout = timeout.into();
        self
    }

    /// Whether the write must be in the journal.
    #[must_use]
    pub fn journal(mut self, journal: impl Into<Option<bool>>) -> Self {
        self.0.journal = journal.into();
        self
    }

    /// The finished write concern.
    pub fn build(self) -> WriteConcern {
        self.0
    }
}

impl From<u32> for Acknowledgment {
    fn from(count: u32) -> Self {
        Self::Nodes(count)
    }
}

impl From<&str> for Acknowledgment {
    fn from(mode: &str) -> Self {
        match mode {
            "majority" => Self::Majority,
            other => Self::Custom(other.to_owned()),
        }
    }
}

impl From<String> for Acknowledgment {
    fn from(mode: String) -> Self {
        Self::from(mode.as_str())
    }
}

impl TryFrom<i64> for Acknowledgment {
    type Error = InvalidWriteConcern;

    fn try_from(count: i64) -> Result<Self, InvalidWriteConcern> {
        let count = i32::try_from(count).ok().and_then(|count| u32::try_from(count).ok());
        count.map(Self::Nodes).ok_or(InvalidWriteConcern::InvalidW)
    }
}

impl Serialize for Acknowledgment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Nodes(count) => match i32::try_from(*count) {
                Ok(count) => serializer.serialize_i32(count),
                Err(_) => Err(serde::ser::Error::custom(InvalidWriteConcern::InvalidW)),
            },
            Self::Majority => serializer.serialize_str("majority"),
            Self::Custom(mode) => serializer.serialize_str(mode),
        }
    }
}

impl<'de> Deserialize<'de> for Acknowledgment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Count(i64),
            Mode(String),
        }
        match Written::deserialize(deserializer)
            .map_err(|_| de::Error::custom(InvalidWriteConcern::InvalidW))?
        {
            Written::Count(count) => Self::try_from(count).map_err(de::Error::custom),
            Written::Mode(mode) => Ok(mode.into()),
        }
    }
}

fn millis(duration: Duration) -> Option<i64> {
    i64::try_from(duration.as_millis()).ok()
}

fn write_millis<S: Serializer>(
    duration: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match duration.map(millis) {
        None => serializer.serialize_none(),
        Some(Some(millis)) => serializer.serialize_i64(millis),
        Some(None) => Err(serde::ser::Error::custom(InvalidWriteConcern::InvalidTimeout)),
    }
}

fn read_millis<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    match Option::<i64>::deserialize(deserializer)? {
        None => Ok(None),
        Some(millis) => match u64::try_from(millis) {
            Ok(millis) => Ok(Some(Duration::from_millis(millis))),
            Err(_) => Err(de::Error::custom(InvalidWriteConcern::InvalidTimeout)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_concern_is_the_document_a_server_expects() {
        let concern = WriteConcern::builder()
            .w(Acknowledgment::from(2))
            .w_timeout(Duration::from_millis(1500))
            .journal(true)
            .build();
        let document = doc! { "w": 2_i32, "wtimeout": 1500_i64, "j": true };
        assert_eq!(concern.to_document(), document);
        assert_eq!(bson::serialize_to_document(&concern).unwrap(), document);
        assert_eq!(bson::deserialize_from_document::<WriteConcern>(document).unwrap(), concern);
    }

    #[test]
    fn majority_is_a_word_and_other_words_are_modes() {
        assert_eq!(WriteConcern::majority().to_document(), doc! { "w": "majority" });
        assert_eq!(WriteConcern::custom("majority"), WriteConcern::majority());
        assert_eq!(Acknowledgment::from("dc"), Acknowledgment::Custom("dc".to_owned()));
    }

    #[test]
    fn unacknowledged_with_journal_is_refused() {
        let concern = WriteConcern::nodes(0).with_journal(true);
        assert_eq!(concern.validate(), Err(InvalidWriteConcern::UnacknowledgedJournal));
        assert!(concern.is_acknowledged());
        assert!(!WriteConcern::nodes(0).is_acknowledged());
        assert!(WriteConcern::nodes(0).with_journal(false).validate().is_ok());
    }

    #[test]
    fn negative_and_oversized_numbers_are_refused() {
        for document in [
            doc! { "w": -1 },
            doc! { "w": i64::MAX },
            doc! { "w": 1.5 },
            doc! { "w": true },
            doc! { "wtimeout": -1 },
        ] {
            let read = bson::deserialize_from_document::<WriteConcern>(document.clone());
            assert!(read.is_err(), "{document}");
        }
        assert!(WriteConcern::nodes(u32::MAX).validate().is_err());
        assert!(WriteConcern::default().with_w_timeout(Duration::MAX).validate().is_err());
    }

    #[test]
    fn an_empty_write_concern_says_nothing() {
        assert!(WriteConcern::default().is_empty());
        assert!(WriteConcern::default().is_acknowledged());
        assert!(WriteConcern::default().to_document().is_empty());
        assert!(!WriteConcern::default().with_journal(false).is_empty());
    }

    #[test]
    fn read_concern_levels_round_trip() {
        for level in ["local", "majority", "linearizable", "available", "snapshot", "novel"] {
            let concern = ReadConcern::custom(level);
            assert_eq!(concern.to_document(), doc! { "level": level });
            assert_eq!(bson::serialize_to_document(&concern).unwrap(), doc! { "level": level });
            let read: ReadConcern =
                bson::deserialize_from_document(doc! { "level": level }).unwrap();
            assert_eq!(read, concern);
        }
        assert_eq!(ReadConcern::custom("majority"), ReadConcern::majority());
    }
}
