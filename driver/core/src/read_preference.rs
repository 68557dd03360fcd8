//! Read preferences.
//!
//! [`crate::selection`] applies a [`ReadPreference`] to the servers. It serializes to the
//! `$readPreference` document of commands.

use std::{fmt, time::Duration};

use bson::{Bson, Document, doc};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

pub use crate::description::TagSet;

/// [Read preference](https://www.mongodb.com/docs/manual/core/read-preference/): members of a
/// replica set that a read may be sent to (`$readPreference`). Defaults to primary.
///
/// ```
/// use std::time::Duration;
/// use steadfast_core::read_preference::{ReadPreference, ReadPreferenceOptions};
///
/// let fresh = ReadPreferenceOptions::builder().max_staleness(Duration::from_secs(120)).build();
/// let preference = ReadPreference::secondary_preferred(fresh);
/// assert_eq!(preference.mode(), "secondaryPreferred");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadPreference {
    /// `primary`: the primary only.
    #[default]
    Primary,
    /// `secondary`: secondaries only.
    Secondary {
        /// Tag sets, maximum staleness and hedged reads for secondaries.
        options: Option<ReadPreferenceOptions>,
    },
    /// `primaryPreferred`: the primary, or a secondary if there is none.
    PrimaryPreferred {
        /// Tag sets, maximum staleness and hedged reads for secondaries.
        options: Option<ReadPreferenceOptions>,
    },
    /// `secondaryPreferred`: a secondary, or the primary if none is suitable.
    SecondaryPreferred {
        /// Tag sets, maximum staleness and hedged reads for secondaries.
        options: Option<ReadPreferenceOptions>,
    },
    /// `nearest`: any member within the latency window.
    Nearest {
        /// Tag sets, maximum staleness and hedged reads.
        options: Option<ReadPreferenceOptions>,
    },
}

/// Options of a read preference other than primary.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct ReadPreferenceOptions {
    /// Tag sets, tried in order (`tags`, `readPreferenceTags`). The first set that matches a member
    /// applies; an empty set matches every member. Defaults to no restriction.
    #[serde(alias = "tag_sets", alias = "tags", skip_serializing_if = "Option::is_none")]
    pub tag_sets: Option<Vec<TagSet>>,
    /// Maximum replication lag of a secondary, at least 90 seconds (`maxStalenessSeconds`).
    /// Defaults to no limit.
    #[serde(
        rename = "maxStalenessSeconds",
        with = "seconds",
        skip_serializing_if = "Option::is_none"
    )]
    pub max_staleness: Option<Duration>,
    /// Hedged reads (`hedge`). Defaults to the server's setting.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hedge: Option<HedgedReadOptions>,
}

/// Hedged reads: a mongos may send a read to two members of each shard and use the first reply.
///
/// Servers since version 8.0 ignore this option.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct HedgedReadOptions {
    /// Enables hedged reads (`enabled`).
    pub enabled: bool,
}

/// Error of an invalid read preference.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidReadPreference {
    /// The mode is unknown.
    #[error(
        "unknown read preference mode \"{0}\"; expected primary, primaryPreferred, secondary, \
         secondaryPreferred or nearest"
    )]
    UnknownMode(String),
    /// The mode primary has no options.
    #[error("read preference primary cannot be combined with {0}; use another mode")]
    PrimaryWithOption(&'static str),
    /// The number of seconds is neither positive nor -1.
    #[error("maxStalenessSeconds must be positive, or -1 for no limit, but is {0}")]
    MaxStaleness(i64),
}

impl ReadPreference {
    /// Creates the read preference `primary`: the primary only.
    pub fn primary() -> Self {
        Self::Primary
    }

    /// Creates the read preference `secondary`: secondaries only.
    pub fn secondary(options: impl Into<Option<ReadPreferenceOptions>>) -> Self {
        Self::Secondary { options: options.into() }
    }

    /// Creates the read preference `primaryPreferred`: the primary, or a secondary if there is
    /// none.
    pub fn primary_preferred(options: impl Into<Option<ReadPreferenceOptions>>) -> Self {
        Self::PrimaryPreferred { options: options.into() }
    }

    /// Creates the read preference `secondaryPreferred`: a secondary, or the primary if none is
    /// suitable.
    pub fn secondary_preferred(options: impl Into<Option<ReadPreferenceOptions>>) -> Self {
        Self::SecondaryPreferred { options: options.into() }
    }

    /// Creates the read preference `nearest`: any member within the latency window.
    pub fn nearest(options: impl Into<Option<ReadPreferenceOptions>>) -> Self {
        Self::Nearest { options: options.into() }
    }

    /// Creates a read preference from the name of its mode, without options. Letter case is
    /// ignored.
    ///
    /// # Errors
    ///
    /// [`InvalidReadPreference::UnknownMode`].
    pub fn from_mode(mode: &str) -> Result<Self, InvalidReadPreference> {
        Self::from_parts(mode, ReadPreferenceOptions::default())
    }

    /// Creates a read preference from the name of its mode and its options.
    ///
    /// # Errors
    ///
    /// An error if the mode is unknown, or is primary and an option is set.
    pub fn from_parts(
        mode: &str,
        options: ReadPreferenceOptions,
    ) -> Result<Self, InvalidReadPreference> {
        let given = options.first_given();
        let options = given.is_some().then_some(options);
        match mode.to_ascii_lowercase().as_str() {
            "primary" => match given {
                Some(option) => Err(InvalidReadPreference::PrimaryWithOption(option)),
                None => Ok(Self::Primary),
            },
            "secondary" => Ok(Self::Secondary { options }),
            "primarypreferred" => Ok(Self::PrimaryPreferred { options }),
            "secondarypreferred" => Ok(Self::SecondaryPreferred { options }),
            "nearest" => Ok(Self::Nearest { options }),
            _ => Err(InvalidReadPreference::UnknownMode(mode.to_owned())),
        }
    }

    /// Sets the tag sets (`tags`).
    ///
    /// # Errors
    ///
    /// An error for the mode primary.
    pub fn with_tag_sets(self, tag_sets: Vec<TagSet>) -> Result<Self, InvalidReadPreference> {
        self.with(|options| options.tag_sets = Some(tag_sets))
    }

    /// Sets the maximum replication lag of a secondary (`maxStalenessSeconds`).
    ///
    /// # Errors
    ///
    /// An error for the mode primary.
    pub fn with_max_staleness(
        self,
        max_staleness: Duration,
    ) -> Result<Self, InvalidReadPreference> {
        self.with(|options| options.max_staleness = Some(max_staleness))
    }

    fn with(
        self,
        change: impl FnOnce(&mut ReadPreferenceOptions),
    ) -> Result<Self, InvalidReadPreference> {
        let mut options = self.options().cloned().unwrap_or_default();
        change(&mut options);
        Self::from_parts(self.mode(), options)
    }

    /// Returns the name of the mode, as used in commands and connection strings.
    pub fn mode(&self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Secondary { .. } => "secondary",
            Self::PrimaryPreferred { .. } => "primaryPreferred",
            Self::SecondaryPreferred { .. } => "secondaryPreferred",
            Self::Nearest { .. } => "nearest",
        }
    }

    /// Returns the options.
    pub fn options(&self) -> Option<&ReadPreferenceOptions> {
        match self {
            Self::Primary => None,
            Self::Secondary { options }
            | Self::PrimaryPreferred { options }
            | Self::SecondaryPreferred { options }
            | Self::Nearest { options } => options.as_ref(),
        }
    }

    /// Returns the tag sets. Empty if there are none.
    pub fn tag_sets(&self) -> &[TagSet] {
        self.options().and_then(|options| options.tag_sets.as_deref()).unwrap_or_default()
    }

    /// Returns the maximum replication lag of a secondary.
    pub fn max_staleness(&self) -> Option<Duration> {
        self.options().and_then(|options| options.max_staleness)
    }

    /// Returns the setting of hedged reads.
    pub fn hedge(&self) -> Option<HedgedReadOptions> {
        self.options().and_then(|options| options.hedge)
    }

    /// Returns the `$readPreference` document.
    pub fn to_document(&self) -> Document {
        let mut document = doc! { "mode": self.mode() };
        let Some(options) = self.options() else { return document };
        if let Some(tag_sets) = &options.tag_sets
            && !tag_sets.is_empty()
        {
            document.insert("tags", tag_sets.iter().map(tags_as_bson).collect::<Vec<_>>());
        }
        if let Some(max_staleness) = options.max_staleness {
            document.insert("maxStalenessSeconds", whole_seconds(max_staleness));
        }
        if let Some(hedge) = options.hedge {
            document.insert("hedge", doc! { "enabled": hedge.enabled });
        }
        document
    }
}

fn tags_as_bson(tags: &TagSet) -> Bson {
    tags.iter().map(|(name, value)| (name.clone(), Bson::from(value))).collect::<Document>().into()
}

/// Returns an int32, which servers of every version accept, or an int64 if necessary.
fn whole_seconds(duration: Duration) -> Bson {
    match i32::try_from(duration.as_secs()) {
        Ok(seconds) => Bson::Int32(seconds),
        Err(_) => Bson::Int64(i64::try_from(duration.as_secs()).unwrap_or(i64::MAX)),
    }
}

impl ReadPreferenceOptions {
    /// Returns a builder of options.
    pub fn builder() -> ReadPreferenceOptionsBuilder {
        ReadPreferenceOptionsBuilder::default()
    }

    /// Returns the name of an option that has an effect. No tag set and a single empty one both
    /// match every member.
    fn first_given(&self) -> Option<&'static str> {
        let names_tags = |sets: &Vec<TagSet>| !sets.is_empty() && *sets != [TagSet::new()];
        if self.tag_sets.as_ref().is_some_and(names_tags) {
            Some("tag sets")
        } else if self.max_staleness.is_some() {
            Some("maxStalenessSeconds")
        } else if self.hedge.is_some() {
            Some("hedge")
        } else {
            None
        }
    }
}

impl HedgedReadOptions {
    /// Returns a builder of options.
    pub fn builder() -> HedgedReadOptionsBuilder {
        HedgedReadOptionsBuilder(HedgedReadOptions { enabled: true })
    }
}

/// Builder of [`ReadPreferenceOptions`].
#[derive(Clone, Debug, Default)]
pub struct ReadPreferenceOptionsBuilder(ReadPreferenceOptions);

impl ReadPreferenceOptionsBuilder {
    /// Sets the tag sets, in order of preference (`tags`).
    #[must_use]
    pub fn tag_sets(mut self, tag_sets: impl Into<Option<Vec<TagSet>>>) -> Self {
        self.0.tag_sets = tag_sets.into();
        self
    }

    /// Sets the maximum replication lag of a secondary (`maxStalenessSeconds`).
    #[must_use]
    pub fn max_staleness(mut self, max_staleness: impl Into<Option<Duration>>) -> Self {
        self.0.max_staleness = max_staleness.into();
        self
    }

    /// Sets hedged reads (`hedge`).
    #[must_use]
    pub fn hedge(mut self, hedge: impl Into<Option<HedgedReadOptions>>) -> Self {
        self.0.hedge = hedge.into();
        self
    }

    /// Returns the options.
    pub fn build(self) -> ReadPreferenceOptions {
        self.0
    }
}

/// Builder of [`HedgedReadOptions`]. Hedged reads are enabled by default.
#[derive(Clone, Debug)]
pub struct HedgedReadOptionsBuilder(HedgedReadOptions);

impl HedgedReadOptionsBuilder {
    /// Enables hedged reads if `true` (`enabled`).
    #[must_use]
    pub fn enabled(mut self, enabled: bool) -> Self {
        self.0.enabled = enabled;
        self
    }

    /// Returns the options.
    pub fn build(self) -> HedgedReadOptions {
        self.0
    }
}

/// Parses `maxStalenessSeconds`. Returns `None` for -1, which means no limit.
///
/// # Errors
///
/// An error for zero and other negative numbers.
pub fn max_staleness_from_seconds(seconds: i64) -> Result<Option<Duration>, InvalidReadPreference> {
    match u64::try_from(seconds) {
        Ok(0) => Err(InvalidReadPreference::MaxStaleness(0)),
        Ok(seconds) => Ok(Some(Duration::from_secs(seconds))),
        Err(_) if seconds == -1 => Ok(None),
        Err(_) => Err(InvalidReadPreference::MaxStaleness(seconds)),
    }
}

/// Serde form of `maxStalenessSeconds` as an option of its own.
mod seconds {
    use super::*;

    pub(super) fn serialize<S: Serializer>(
        value: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        value.map(whole_seconds).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        let seconds = Option::<i64>::deserialize(deserializer)?;
        seconds.map_or(Ok(None), max_staleness_from_seconds).map_err(D::Error::custom)
    }
}

impl fmt::Display for ReadPreference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.mode())?;
        if !self.tag_sets().is_empty() {
            f.write_str(" with tags ")?;
            for (position, tags) in self.tag_sets().iter().enumerate() {
                f.write_str(if position > 0 { ", else " } else { "" })?;
                write_tags(f, tags)?;
            }
        }
        if let Some(max_staleness) = self.max_staleness() {
            write!(f, ", at most {} s stale", max_staleness.as_secs())?;
        }
        Ok(())
    }
}

fn write_tags(f: &mut fmt::Formatter<'_>, tags: &TagSet) -> fmt::Result {
    f.write_str("{")?;
    for (position, (name, value)) in tags.iter().enumerate() {
        write!(f, "{}{name}: {value}", if position > 0 { ", " } else { "" })?;
    }
    f.write_str("}")
}

impl Serialize for ReadPreference {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_document().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ReadPreference {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wire = WireReadPreference::deserialize(deserializer)?;
        let max_staleness = match wire.max_staleness_seconds {
            Some(seconds) => max_staleness_from_seconds(seconds).map_err(D::Error::custom)?,
            None => None,
        };
        let hedge = wire.hedge.map(|hedge| HedgedReadOptions { enabled: hedge.enabled });
        let options = ReadPreferenceOptions { tag_sets: wire.tags, max_staleness, hedge };
        Self::from_parts(&wire.mode, options).map_err(D::Error::custom)
    }
}

/// The `$readPreference` document.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WireReadPreference {
    mode: String,
    #[serde(alias = "tagSets", alias = "tag_sets")]
    tags: Option<Vec<TagSet>>,
    max_staleness_seconds: Option<i64>,
    hedge: Option<WireHedge>,
}

#[derive(Deserialize)]
struct WireHedge {
    enabled: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(name: &str, value: &str) -> TagSet {
        TagSet::from([(name.to_owned(), value.to_owned())])
    }

    fn read(document: Document) -> Result<ReadPreference, bson::error::DeserializeError> {
        bson::deserialize_from_document(document)
    }

    #[test]
    fn modes_are_parsed_case_insensitively() {
        for mode in ["primary", "secondary", "primaryPreferred", "secondaryPreferred", "nearest"] {
            assert_eq!(ReadPreference::from_mode(mode).unwrap().mode(), mode);
            assert_eq!(ReadPreference::from_mode(&mode.to_uppercase()).unwrap().mode(), mode);
        }
        assert!(ReadPreference::from_mode("quickest").is_err());
        assert_eq!(ReadPreference::default(), ReadPreference::primary());
    }

    #[test]
    fn read_preference_round_trips_as_document() {
        let options = ReadPreferenceOptions::builder()
            .tag_sets(vec![tags("dc", "ny"), TagSet::new()])
            .max_staleness(Duration::from_secs(120))
            .hedge(HedgedReadOptions::builder().enabled(true).build())
            .build();
        let preference = ReadPreference::nearest(options);
        let document = doc! {
            "mode": "nearest",
            "tags": [{ "dc": "ny" }, {}],
            "maxStalenessSeconds": 120,
            "hedge": { "enabled": true },
        };
        assert_eq!(bson::serialize_to_document(&preference).unwrap(), document);
        assert_eq!(read(document).unwrap(), preference);
    }

    #[test]
    fn options_round_trip_without_their_mode() {
        let options = ReadPreferenceOptions::builder()
            .tag_sets(vec![tags("dc", "ny")])
            .max_staleness(Duration::from_secs(120))
            .hedge(HedgedReadOptions::builder().enabled(true).build())
            .build();
        let document = doc! {
            "tagSets": [{ "dc": "ny" }], "maxStalenessSeconds": 120, "hedge": { "enabled": true },
        };
        assert_eq!(bson::serialize_to_document(&options).unwrap(), document);
        let read = bson::deserialize_from_document::<ReadPreferenceOptions>;
        assert_eq!(read(document).unwrap(), options);
        assert_eq!(read(doc! {}).unwrap(), ReadPreferenceOptions::default());
        assert!(read(doc! { "maxStalenessSeconds": 0 }).is_err());
    }

    #[test]
    fn read_preference_without_options_has_only_a_mode() {
        for preference in [
            ReadPreference::Primary,
            ReadPreference::secondary(None),
            ReadPreference::secondary(ReadPreferenceOptions::default()),
        ] {
            assert_eq!(preference.to_document(), doc! { "mode": preference.mode() });
        }
    }

    #[test]
    fn primary_rejects_options() {
        let primary = ReadPreference::primary();
        assert!(primary.clone().with_tag_sets(vec![tags("a", "b")]).is_err());
        assert!(primary.clone().with_max_staleness(Duration::from_secs(90)).is_err());
        assert!(read(doc! { "mode": "primary", "hedge": { "enabled": true } }).is_err());
        // The empty tag set matches every member.
        assert_eq!(primary.clone().with_tag_sets(vec![TagSet::new()]), Ok(primary));
    }

    #[test]
    fn max_staleness_of_minus_one_means_no_limit() {
        let read = |seconds: i64| read(doc! { "mode": "nearest", "maxStalenessSeconds": seconds });
        assert_eq!(read(-1).unwrap().max_staleness(), None);
        assert_eq!(read(1).unwrap().max_staleness(), Some(Duration::from_secs(1)));
        for seconds in [0, -2, i64::MIN] {
            assert!(read(seconds).is_err(), "{seconds}");
        }
    }

    #[test]
    fn options_are_added_without_replacing_others() {
        let preference = ReadPreference::secondary(None)
            .with_tag_sets(vec![tags("dc", "ny")])
            .and_then(|preference| preference.with_max_staleness(Duration::from_secs(100)))
            .unwrap();
        assert_eq!(preference.to_string(), "secondary with tags {dc: ny}, at most 100 s stale");
    }

    #[test]
    fn max_staleness_beyond_int32_is_sent_as_int64() {
        let preference = ReadPreference::nearest(None);
        let document = preference.with_max_staleness(Duration::from_secs(1 << 40)).unwrap();
        assert_eq!(document.to_document().get_i64("maxStalenessSeconds").unwrap(), 1 << 40);
    }
}
