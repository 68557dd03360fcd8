//! Read concern and write concern.
//!
//! They serialize to the documents of the command fields `readConcern` and `writeConcern`.

use std::time::Duration;

use bson::{Document, doc};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// [Read concern](https://www.mongodb.com/docs/manual/reference/read-concern/): consistency and
/// isolation of the data that a read returns (`readConcern`).
///
/// ```
/// use steadfast_core::concern::ReadConcern;
///
/// assert_eq!(ReadConcern::majority().level.as_str(), "majority");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ReadConcern {
    /// Level of the read concern (`level`).
    pub level: ReadConcernLevel,
}

/// Level of a [`ReadConcern`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadConcernLevel {
    /// `local`: the most recent data of the member, which can be rolled back. The server's default
    /// for reads.
    Local,
    /// `majority`: data acknowledged by a majority of the replica set.
    Majority,
    /// `linearizable`: all majority-acknowledged writes that completed before the read started.
    Linearizable,
    /// `available`: like `local`, but a sharded cluster can also return orphaned documents.
    Available,
    /// `snapshot`: majority-acknowledged data of a single point in time.
    Snapshot,
    /// Any other level, sent unchanged.
    Custom(String),
}

impl ReadConcern {
    /// Creates the read concern `majority`: data acknowledged by a majority of the replica set.
    pub fn majority() -> Self {
        ReadConcernLevel::Majority.into()
    }

    /// Creates the read concern `local`: the most recent data of the member.
    pub fn local() -> Self {
        ReadConcernLevel::Local.into()
    }

    /// Creates the read concern `linearizable`: all majority-acknowledged writes that completed
    /// before the read started.
    pub fn linearizable() -> Self {
        ReadConcernLevel::Linearizable.into()
    }

    /// Creates the read concern `available`: the lowest latency in a sharded cluster, with possible
    /// orphaned documents.
    pub fn available() -> Self {
        ReadConcernLevel::Available.into()
    }

    /// Creates the read concern `snapshot`: majority-acknowledged data of a single point in time.
    pub fn snapshot() -> Self {
        ReadConcernLevel::Snapshot.into()
    }

    /// Creates a read concern from the name of its level.
    pub fn custom(level: impl AsRef<str>) -> Self {
        ReadConcernLevel::from(level.as_ref()).into()
    }

    /// Returns the document of the command field `readConcern`.
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
    /// Returns the name used in commands and connection strings.
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

/// [Write concern](https://www.mongodb.com/docs/manual/reference/write-concern/): acknowledgment
/// that a write requires (`writeConcern`).
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
    /// Members that must acknowledge the write (`w`). Defaults to none: the server's default
    /// applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub w: Option<Acknowledgment>,
    /// Time-out of the server's wait for acknowledgment (`wtimeout`). Defaults to none. A write
    /// that times out is not undone.
    #[serde(
        default,
        rename = "wtimeout",
        alias = "wtimeoutMS",
        skip_serializing_if = "Option::is_none",
        serialize_with = "write_millis",
        deserialize_with = "read_millis"
    )]
    pub w_timeout: Option<Duration>,
    /// Requires the write to be in the on-disk journal (`j`). Defaults to none: the server's
    /// default applies.
    #[serde(default, rename = "j", alias = "journal", skip_serializing_if = "Option::is_none")]
    pub journal: Option<bool>,
}

/// Members that must acknowledge a write (`w`).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Acknowledgment {
    /// Number of members. With 0, the write is unacknowledged: the server sends no reply.
    Nodes(u32),
    /// Majority of the voting, data-bearing members (`majority`).
    Majority,
    /// Custom write concern of the replica set configuration (`settings.getLastErrorModes`).
    Custom(String),
}

/// Error of an invalid write concern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidWriteConcern {
    /// `w: 0` with `j: true`: an unacknowledged write cannot report on the journal.
    #[error("write concern w: 0 cannot be combined with j: true; remove one of them")]
    UnacknowledgedJournal,
    /// `w` is negative, fractional or exceeds an int32.
    #[error("write concern w must be an integer from 0 to 2147483647 or the name of a mode")]
    InvalidW,
    /// `wtimeout` exceeds an int64 of milliseconds, or is negative.
    #[error("write concern wtimeout must be from 0 to 9223372036854775807 ms")]
    InvalidTimeout,
}

impl WriteConcern {
    /// Creates a write concern that requires acknowledgment by `count` members (`w`).
    pub fn nodes(count: u32) -> Self {
        Acknowledgment::Nodes(count).into()
    }

    /// Creates the write concern `w: "majority"`.
    pub fn majority() -> Self {
        Acknowledgment::Majority.into()
    }

    /// Creates a write concern from the name of a custom write concern (`w`).
    pub fn custom(mode: impl AsRef<str>) -> Self {
        Acknowledgment::from(mode.as_ref()).into()
    }

    /// Returns a builder of write concerns.
    pub fn builder() -> WriteConcernBuilder {
        WriteConcernBuilder::default()
    }

    /// Sets the time-out of the server's wait for acknowledgment (`wtimeout`).
    #[must_use]
    pub fn with_w_timeout(mut self, timeout: Duration) -> Self {
        self.w_timeout = Some(timeout);
        self
    }

    /// Requires the write to be in the on-disk journal if `true` (`j`).
    #[must_use]
    pub fn with_journal(mut self, journal: bool) -> Self {
        self.journal = Some(journal);
        self
    }

    /// Returns `true` if the server replies to the write, and `false` for `w: 0`.
    pub fn is_acknowledged(&self) -> bool {
        self.w != Some(Acknowledgment::Nodes(0)) || self.journal == Some(true)
    }

    /// Returns `true` if no field is set. The command then has no `writeConcern`, and the server's
    /// default applies.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Checks that the server would accept the write concern.
    ///
    /// # Errors
    ///
    /// The first invalid field or combination.
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

    /// Returns the document of the command field `writeConcern`.
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

/// Builder of [`WriteConcern`].
#[derive(Clone, Debug, Default)]
pub struct WriteConcernBuilder(WriteConcern);

impl WriteConcernBuilder {
    /// Sets the members that must acknowledge the write (`w`).
    #[must_use]
    pub fn w(mut self, w: impl Into<Option<Acknowledgment>>) -> Self {
        self.0.w = w.into();
        self
    }

    /// Sets the time-out of the server's wait for acknowledgment (`wtimeout`).
    #[must_use]
    pub fn w_timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.0.w_timeout = timeout.into();
        self
    }

    /// Requires the write to be in the on-disk journal if `true` (`j`).
    #[must_use]
    pub fn journal(mut self, journal: impl Into<Option<bool>>) -> Self {
        self.0.journal = journal.into();
        self
    }

    /// Returns the write concern.
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
        enum WireAcknowledgment {
            Count(i64),
            Mode(String),
        }
        match WireAcknowledgment::deserialize(deserializer)
            .map_err(|_| de::Error::custom(InvalidWriteConcern::InvalidW))?
        {
            WireAcknowledgment::Count(count) => Self::try_from(count).map_err(de::Error::custom),
            WireAcknowledgment::Mode(mode) => Ok(mode.into()),
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
    fn write_concern_round_trips_as_command_document() {
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
    fn majority_is_distinguished_from_custom_write_concerns() {
        assert_eq!(WriteConcern::majority().to_document(), doc! { "w": "majority" });
        assert_eq!(WriteConcern::custom("majority"), WriteConcern::majority());
        assert_eq!(Acknowledgment::from("dc"), Acknowledgment::Custom("dc".to_owned()));
    }

    #[test]
    fn unacknowledged_write_with_journal_is_rejected() {
        let concern = WriteConcern::nodes(0).with_journal(true);
        assert_eq!(concern.validate(), Err(InvalidWriteConcern::UnacknowledgedJournal));
        assert!(concern.is_acknowledged());
        assert!(!WriteConcern::nodes(0).is_acknowledged());
        assert!(WriteConcern::nodes(0).with_journal(false).validate().is_ok());
    }

    #[test]
    fn negative_and_oversized_numbers_are_rejected() {
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
    fn empty_write_concern_has_no_fields() {
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
