//! Which members of a replica set a read may go to, as the application asks for it.
//!
//! A [`ReadPreference`] is what the user wrote; [`crate::selection`] applies it. Its serde form is
//! the `$readPreference` document that routers and servers understand.

use std::{fmt, time::Duration};

use bson::{Bson, Document, doc};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

pub use crate::description::TagSet;

/// How reads are routed to the members of a replica set.
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
    /// The primary only.
    #[default]
    Primary,
    /// A secondary only.
    Secondary {
        /// Which secondaries.
        options: Option<ReadPreferenceOptions>,
    },
    /// The primary, or a secondary while there is none.
    PrimaryPreferred {
        /// Which secondaries.
        options: Option<ReadPreferenceOptions>,
    },
    /// A secondary, or the primary if none is suitable.
    SecondaryPreferred {
        /// Which secondaries.
        options: Option<ReadPreferenceOptions>,
    },
    /// The primary or a secondary, whichever is near.
    Nearest {
        /// Which members.
        options: Option<ReadPreferenceOptions>,
    },
}

/// Narrows a read preference other than primary.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadPreferenceOptions {
    /// Tags that a member must have. The sets are tried in order; the first that any member
    /// matches decides. An empty set matches every member.
    pub tag_sets: Option<Vec<TagSet>>,
    /// How far a secondary may lag behind the primary: at least 90 seconds.
    pub max_staleness: Option<Duration>,
    /// Whether a router may send the read to two members of each shard.
    pub hedge: Option<HedgedReadOptions>,
}

/// Whether a router may send a read to two members of each shard and use the first answer.
///
/// Servers from 8.0 on ignore it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HedgedReadOptions {
    /// Whether it may.
    pub enabled: bool,
}

/// Why a read preference cannot be what was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidReadPreference {
    /// There is no mode of that name.
    #[error(
        "unknown read preference mode \"{0}\": expected primary, primaryPreferred, secondary, \
         secondaryPreferred or nearest"
    )]
    UnknownMode(String),
    /// Options only make sense where a secondary could be chosen.
    #[error("read preference primary cannot be combined with {0}")]
    PrimaryWithOption(&'static str),
    /// Neither a positive number nor -1.
    #[error("maxStalenessSeconds must be a positive number, or -1 for no limit, but it is {0}")]
    MaxStaleness(i64),
}

impl ReadPreference {
    /// The primary only.
    pub fn primary() -> Self {
        Self::Primary
    }

    /// A secondary only.
    pub fn secondary(options: impl Into<Option<ReadPreferenceOptions>>) -> Self {
        Self::Secondary { options: options.into() }
    }

    /// The primary, or a secondary while there is none.
    pub fn primary_preferred(options: impl Into<Option<ReadPreferenceOptions>>) -> Self {
        Self::PrimaryPreferred { options: options.into() }
    }

    /// A secondary, or the primary if none is suitable.
    pub fn secondary_preferred(options: impl Into<Option<ReadPreferenceOptions>>) -> Self {
        Self::SecondaryPreferred { options: options.into() }
    }

    /// The primary or a secondary, whichever is near.
    pub fn nearest(options: impl Into<Option<ReadPreferenceOptions>>) -> Self {
        Self::Nearest { options: options.into() }
    }

    /// The preference of that mode, without options. Letter case does not matter.
    pub fn from_mode(mode: &str) -> Result<Self, InvalidReadPreference> {
        Self::from_parts(mode, ReadPreferenceOptions::default())
    }

    /// The preference of that mode with these options, which primary does not take.
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

    /// The same preference with these tag sets.
    pub fn with_tag_sets(self, tag_sets: Vec<TagSet>) -> Result<Self, InvalidReadPreference> {
        self.with(|options| options.tag_sets = Some(tag_sets))
    }

    /// The same preference with this limit on how stale a secondary may be.
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

    /// The mode's name, as on the wire and in a connection string.
    pub fn mode(&self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Secondary { .. } => "secondary",
            Self::PrimaryPreferred { .. } => "primaryPreferred",
            Self::SecondaryPreferred { .. } => "secondaryPreferred",
            Self::Nearest { .. } => "nearest",
        }
    }

    /// The options, if any were given.
    pub fn options(&self) -> Option<&ReadPreferenceOptions> {
        match self {
            Self::Primary => None,
            Self::Secondary { options }
            | Self::PrimaryPreferred { options }
            | Self::SecondaryPreferred { options }
            | Self::Nearest { options } => options.as_ref(),
        }
    }

    /// The tag sets asked for; empty if none were.
    pub fn tag_sets(&self) -> &[TagSet] {
        self.options().and_then(|options| options.tag_sets.as_deref()).unwrap_or_default()
    }

    /// How far a secondary may lag behind.
    pub fn max_staleness(&self) -> Option<Duration> {
        self.options().and_then(|options| options.max_staleness)
    }

    /// Whether reads may be hedged, if the application said so or not.
    pub fn hedge(&self) -> Option<HedgedReadOptions> {
        self.options().and_then(|options| options.hedge)
    }

    /// The `$readPreference` document.
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

/// Servers of every version take an int32, so a wider number is used only where it must be.
fn whole_seconds(duration: Duration) -> Bson {
    match i32::try_from(duration.as_secs()) {
        Ok(seconds) => Bson::Int32(seconds),
        Err(_) => Bson::Int64(i64::try_from(duration.as_secs()).unwrap_or(i64::MAX)),
    }
}

impl ReadPreferenceOptions {
    /// Options to be filled in one by one.
    pub fn builder() -> ReadPreferenceOptionsBuilder {
        ReadPreferenceOptionsBuilder::default()
    }

    /// The name of an option that says something. Neither no tag set nor the single empty one does:
    /// both match every member.
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
    /// Options to be filled in one by one.
    pub fn builder() -> HedgedReadOptionsBuilder {
        HedgedReadOptionsBuilder(HedgedReadOptions { enabled: true })
    }
}

/// Fills in [`ReadPreferenceOptions`].
#[derive(Clone, Debug, Default)]
pub struct ReadPreferenceOptionsBuilder(ReadPreferenceOptions);

impl ReadPreferenceOptionsBuilder {
    /// Tags that a member must have, in order of preference.
    #[must_use]
    pub fn tag_sets(mut self, tag_sets: impl Into<Option<Vec<TagSet>>>) -> Self {
        self.0.tag_sets = tag_sets.into();
        self
    }

    /// How far a secondary may lag behind the primary.
    #[must_use]
    pub fn max_staleness(mut self, max_staleness: impl Into<Option<Duration>>) -> Self {
        self.0.max_staleness = max_staleness.into();
        self
    }

    /// Whether a router may hedge reads.
    #[must_use]
    pub fn hedge(mut self, hedge: impl Into<Option<HedgedReadOptions>>) -> Self {
        self.0.hedge = hedge.into();
        self
    }

    /// The finished options.
    pub fn build(self) -> ReadPreferenceOptions {
        self.0
    }
}

/// Fills in [`HedgedReadOptions`]; hedging is enabled unless told otherwise.
#[derive(Clone, Debug)]
pub struct HedgedReadOptionsBuilder(HedgedReadOptions);

impl HedgedReadOptionsBuilder {
    /// Whether a router may hedge reads.
    #[must_use]
    pub fn enabled(mut self, enabled: bool) -> Self {
        self.0.enabled = enabled;
        self
    }

    /// The finished options.
    pub fn build(self) -> HedgedReadOptions {
        self.0
    }
}

/// `maxStalenessSeconds` as a connection string or a document gives it: -1 means no limit.
pub fn max_staleness_from_seconds(seconds: i64) -> Result<Option<Duration>, InvalidReadPreference> {
    match u64::try_from(seconds) {
        Ok(0) => Err(InvalidReadPreference::MaxStaleness(0)),
        Ok(seconds) => Ok(Some(Duration::from_secs(seconds))),
        Err(_) if seconds == -1 => Ok(None),
        Err(_) => Err(InvalidReadPreference::MaxStaleness(seconds)),
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
        let wire = WireForm::deserialize(deserializer)?;
        let max_staleness = match wire.max_staleness_seconds {
            Some(seconds) => max_staleness_from_seconds(seconds).map_err(D::Error::custom)?,
            None => None,
        };
        let hedge = wire.hedge.map(|hedge| HedgedReadOptions { enabled: hedge.enabled });
        let options = ReadPreferenceOptions { tag_sets: wire.tags, max_staleness, hedge };
        Self::from_parts(&wire.mode, options).map_err(D::Error::custom)
    }
}

/// The `$readPreference` document, field by field.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WireForm {
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

    fn read(document: Document) -> Result<ReadPreference, bson::error::Error> {
        bson::deserialize_from_document(document)
    }

    #[test]
    fn every_mode_is_read_whatever_its_case() {
        for mode in ["primary", "secondary", "primaryPreferred", "secondaryPreferred", "nearest"] {
            assert_eq!(ReadPreference::from_mode(mode).unwrap().mode(), mode);
            assert_eq!(ReadPreference::from_mode(&mode.to_uppercase()).unwrap().mode(), mode);
        }
        assert!(ReadPreference::from_mode("quickest").is_err());
        assert_eq!(ReadPreference::default(), ReadPreference::primary());
    }

    #[test]
    fn a_full_preference_becomes_the_document_and_back() {
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
    fn a_bare_preference_names_only_its_mode() {
        for preference in [
            ReadPreference::Primary,
            ReadPreference::secondary(None),
            ReadPreference::secondary(ReadPreferenceOptions::default()),
        ] {
            assert_eq!(preference.to_document(), doc! { "mode": preference.mode() });
        }
    }

    #[test]
    fn primary_takes_no_options() {
        let primary = ReadPreference::primary();
        assert!(primary.clone().with_tag_sets(vec![tags("a", "b")]).is_err());
        assert!(primary.clone().with_max_staleness(Duration::from_secs(90)).is_err());
        assert!(read(doc! { "mode": "primary", "hedge": { "enabled": true } }).is_err());
        // The empty tag set asks for nothing.
        assert_eq!(primary.clone().with_tag_sets(vec![TagSet::new()]), Ok(primary));
    }

    #[test]
    fn minus_one_second_of_staleness_is_no_limit() {
        let read = |seconds: i64| read(doc! { "mode": "nearest", "maxStalenessSeconds": seconds });
        assert_eq!(read(-1).unwrap().max_staleness(), None);
        assert_eq!(read(1).unwrap().max_staleness(), Some(Duration::from_secs(1)));
        for seconds in [0, -2, i64::MIN] {
            assert!(read(seconds).is_err(), "{seconds}");
        }
    }

    #[test]
    fn options_are_added_without_losing_the_others() {
        let preference = ReadPreference::secondary(None)
            .with_tag_sets(vec![tags("dc", "ny")])
            .and_then(|preference| preference.with_max_staleness(Duration::from_secs(100)))
            .unwrap();
        assert_eq!(preference.to_string(), "secondary with tags {dc: ny}, at most 100 s stale");
    }

    #[test]
    fn a_staleness_beyond_32_bits_is_sent_whole() {
        let preference = ReadPreference::nearest(None);
        let document = preference.with_max_staleness(Duration::from_secs(1 << 40)).unwrap();
        assert_eq!(document.to_document().get_i64("maxStalenessSeconds").unwrap(), 1 << 40);
    }
}
