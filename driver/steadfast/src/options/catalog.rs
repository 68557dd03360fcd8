//! Options of databases and collections: their defaults, how they are created, listed and dropped.

use std::time::Duration;

use bson::{Bson, Document, doc};
use serde::{Deserialize, Deserializer, Serialize};
use steadfast_core::{
    concern::{ReadConcern, WriteConcern},
    selection::SelectionCriteria,
};

use super::{Collation, TimeoutMode};

options! {
    /// The defaults of a database; what is not set is as in the client.
    pub struct DatabaseOptions, DatabaseOptionsBuilder {
        /// Which servers reads go to.
        #[serde(rename = "readPreference", skip_serializing)]
        selection_criteria: SelectionCriteria,
        /// How long a call may take in all, unless the call itself says otherwise. Zero is without
        /// end.
        #[serde(rename = "timeoutMS", with = "crate::serde_helpers::millis")]
        timeout: Duration,
        /// What reads may see.
        read_concern: ReadConcern,
        /// How durable writes must be.
        write_concern: WriteConcern,
    }
}

options! {
    /// The defaults of a collection; what is not set is as in its database.
    pub struct CollectionOptions, CollectionOptionsBuilder {
        /// Which servers reads go to.
        #[serde(rename = "readPreference", skip_serializing)]
        selection_criteria: SelectionCriteria,
        /// How long a call may take in all, unless the call itself says otherwise. Zero is without
        /// end.
        #[serde(rename = "timeoutMS", with = "crate::serde_helpers::millis")]
        timeout: Duration,
        /// What reads may see.
        read_concern: ReadConcern,
        /// How durable writes must be.
        write_concern: WriteConcern,
    }
}

options! {
    /// How [`create_collection`](crate::Database::create_collection) makes a collection, and what
    /// [`list_collections`](crate::Database::list_collections) says it was made with.
    pub struct CreateCollectionOptions, CreateCollectionOptionsBuilder, with timeout {
        /// Whether the oldest documents make room for new ones once it is full.
        capped: bool,
        /// How large a capped collection may be, in bytes.
        #[serde(deserialize_with = "crate::serde_helpers::number::optional")]
        size: u64,
        /// How many documents a capped collection may have.
        #[serde(deserialize_with = "crate::serde_helpers::number::optional")]
        max: u64,
        /// Settings for the storage engine.
        storage_engine: Document,
        /// What every document must satisfy.
        validator: Document,
        /// Which writes are held to the validator.
        validation_level: ValidationLevel,
        /// What happens to documents that do not satisfy it.
        validation_action: ValidationAction,
        /// For a view: the collection or view that it shows.
        view_on: String,
        /// For a view: what is done to the documents that it shows.
        pipeline: Vec<Document>,
        /// How strings are compared unless an operation says otherwise.
        collation: Collation,
        /// How durable it must be; by default what the database says.
        #[serde(skip_serializing)]
        write_concern: WriteConcern,
        /// What indexes of the collection are made with unless they say otherwise.
        index_option_defaults: IndexOptionDefaults,
        /// Makes it a collection of measurements over time.
        timeseries: TimeseriesOptions,
        /// How old a measurement, or a document of a clustered collection, grows.
        #[serde(with = "crate::serde_helpers::seconds")]
        expire_after_seconds: Duration,
        /// Whether change streams can show documents as they were before and after a change.
        change_stream_pre_and_post_images: ChangeStreamPreAndPostImages,
        /// Keeps the documents in the order of their `_id`.
        #[serde(deserialize_with = "clustered_index_or_true")]
        clustered_index: ClusteredIndex,
        /// A note that shows in the server's logs and profiles.
        #[serde(skip_deserializing)]
        comment: Bson,
    }
}

/// Which writes are held to a collection's validator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum ValidationLevel {
    /// None.
    Off,
    /// Every insert and every update.
    Strict,
    /// Inserts, and updates of documents that satisfied it before.
    Moderate,
}

/// What happens to documents that do not satisfy a collection's validator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum ValidationAction {
    /// The write fails.
    Error,
    /// The server writes a line into its log.
    Warn,
    /// Both.
    ErrorAndLog,
}

/// The index that a clustered collection is kept in the order of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ClusteredIndex {
    /// Its key: `{ _id: 1 }`, as yet.
    pub key: Document,
    /// Whether no two documents may have the same: true, as yet.
    pub unique: bool,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The version of its format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub v: Option<i32>,
}

impl Default for ClusteredIndex {
    fn default() -> Self {
        Self { key: doc! { "_id": 1 }, unique: true, name: None, v: None }
    }
}

/// Servers say `true` of the clustered collections that are the buckets of measurements.
fn clustered_index_or_true<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<ClusteredIndex>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Either {
        Flag(bool),
        Index(ClusteredIndex),
    }
    Ok(match Option::deserialize(deserializer)? {
        None | Some(Either::Flag(false)) => None,
        Some(Either::Flag(true)) => Some(ClusteredIndex::default()),
        Some(Either::Index(index)) => Some(index),
    })
}

/// What indexes of a collection are made with unless they say otherwise.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct IndexOptionDefaults {
    /// Settings for the storage engine.
    pub storage_engine: Document,
}

impl IndexOptionDefaults {
    /// These settings for the storage engine.
    pub fn new(storage_engine: Document) -> Self {
        Self { storage_engine }
    }
}

/// How a collection of measurements over time is kept.
///
/// ```
/// use steadfast::options::{TimeseriesGranularity, TimeseriesOptions};
///
/// let options = TimeseriesOptions::builder()
///     .time_field("at")
///     .meta_field("sensor".to_owned())
///     .granularity(TimeseriesGranularity::Minutes)
///     .build();
/// assert_eq!(options.time_field, "at");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct TimeseriesOptions {
    /// The field with the time of a measurement.
    pub time_field: String,
    /// The field with what was measured, which rarely changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta_field: Option<String>,
    /// How far apart measurements are, about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub granularity: Option<TimeseriesGranularity>,
    /// The longest time between measurements that are kept together.
    #[serde(
        default,
        rename = "bucketMaxSpanSeconds",
        with = "crate::serde_helpers::seconds",
        skip_serializing_if = "Option::is_none"
    )]
    pub bucket_max_span: Option<Duration>,
    /// To what times are rounded at which a new bucket of measurements begins.
    #[serde(
        default,
        rename = "bucketRoundingSeconds",
        with = "crate::serde_helpers::seconds",
        skip_serializing_if = "Option::is_none"
    )]
    pub bucket_rounding: Option<Duration>,
}

impl TimeseriesOptions {
    /// Begins to build [`TimeseriesOptions`].
    pub fn builder() -> TimeseriesOptionsBuilder {
        TimeseriesOptionsBuilder::default()
    }
}

/// Builds [`TimeseriesOptions`].
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct TimeseriesOptionsBuilder(TimeseriesOptions);

impl TimeseriesOptionsBuilder {
    /// The field with the time of a measurement.
    pub fn time_field(mut self, value: impl Into<String>) -> Self {
        self.0.time_field = value.into();
        self
    }

    /// The field with what was measured, which rarely changes.
    pub fn meta_field(mut self, value: impl Into<Option<String>>) -> Self {
        self.0.meta_field = value.into();
        self
    }

    /// How far apart measurements are, about.
    pub fn granularity(mut self, value: impl Into<Option<TimeseriesGranularity>>) -> Self {
        self.0.granularity = value.into();
        self
    }

    /// The longest time between measurements that are kept together.
    pub fn bucket_max_span(mut self, value: impl Into<Option<Duration>>) -> Self {
        self.0.bucket_max_span = value.into();
        self
    }

    /// To what times are rounded at which a new bucket of measurements begins.
    pub fn bucket_rounding(mut self, value: impl Into<Option<Duration>>) -> Self {
        self.0.bucket_rounding = value.into();
        self
    }

    /// The options as they were set.
    pub fn build(self) -> TimeseriesOptions {
        self.0
    }
}

/// How far apart measurements are, about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum TimeseriesGranularity {
    /// Seconds.
    Seconds,
    /// Minutes.
    Minutes,
    /// Hours.
    Hours,
}

/// Whether change streams can show documents as they were before and after a change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ChangeStreamPreAndPostImages {
    /// Whether they can.
    pub enabled: bool,
}

impl ChangeStreamPreAndPostImages {
    /// Whether they can.
    pub fn new(enabled: bool) -> Self {
        Self { enabled }
    }
}

#[cfg(test)]
mod tests {
    use bson::{deserialize_from_document, serialize_to_document};

    use super::*;

    #[test]
    fn what_a_server_says_of_a_collection_is_understood() {
        let options: CreateCollectionOptions = deserialize_from_document(doc! {
            "capped": true, "size": 4096.0, "max": 3_i64, "autoIndexId": true,
            "timeseries": { "timeField": "at", "granularity": "seconds", "bucketMaxSpanSeconds": 3600 },
            "expireAfterSeconds": 60_i64, "clusteredIndex": true,
        })
        .unwrap();
        assert_eq!((options.size, options.max), (Some(4096), Some(3)));
        assert_eq!(options.expire_after_seconds, Some(Duration::from_secs(60)));
        assert_eq!(options.clustered_index, Some(ClusteredIndex::default()));
        let timeseries = options.timeseries.unwrap();
        assert_eq!(timeseries.bucket_max_span, Some(Duration::from_secs(3600)));
    }

    #[test]
    fn durations_are_sent_as_whole_seconds() {
        let options = CreateCollectionOptions::builder()
            .expire_after_seconds(Duration::from_secs(90))
            .build();
        assert_eq!(serialize_to_document(&options).unwrap(), doc! { "expireAfterSeconds": 90 });
    }
}

options! {
    /// How [`list_databases`](crate::Client::list_databases) lists.
    pub struct ListDatabasesOptions, ListDatabasesOptionsBuilder, with timeout {
        /// Whether only databases are listed that the user may see.
        authorized_databases: bool,
        /// A note that shows in the server's logs and profiles.
        comment: Bson,
        /// Which databases to list.
        filter: Document,
    }
}

options! {
    /// How [`list_collections`](crate::Database::list_collections) lists.
    pub struct ListCollectionsOptions, ListCollectionsOptionsBuilder, with timeout {
        /// How many come at a time.
        #[serde(skip_serializing)]
        batch_size: u32,
        /// A note that shows in the server's logs and profiles.
        comment: Bson,
        /// Which collections to list.
        filter: Document,
        /// What the time limit is for: the cursor's whole life, or each step of it. Needs a
        /// `timeout`, be it this call's or inherited.
        #[serde(skip)]
        timeout_mode: TimeoutMode,
        /// Whether only collections are listed that the user may use; for users who may not list
        /// them all.
        authorized_collections: bool,
    }
}

options! {
    /// How a collection is [dropped](crate::Collection::drop).
    pub struct DropCollectionOptions, DropCollectionOptionsBuilder, with timeout {
        /// How durable it must be; by default what the collection says.
        #[serde(skip_serializing)]
        write_concern: WriteConcern,
    }
}

options! {
    /// How a database is [dropped](crate::Database::drop).
    pub struct DropDatabaseOptions, DropDatabaseOptionsBuilder, with timeout {
        /// How durable it must be; by default what the database says.
        #[serde(skip_serializing)]
        write_concern: WriteConcern,
    }
}
