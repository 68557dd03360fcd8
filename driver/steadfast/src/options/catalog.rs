//! Options of databases and collections: defaults, creation, listing and dropping.

use std::time::Duration;

use bson::{Bson, Document, doc};
use serde::{Deserialize, Deserializer, Serialize};
use steadfast_core::{
    concern::{ReadConcern, WriteConcern},
    selection::SelectionCriteria,
};

use super::{Collation, TimeoutMode};

options! {
    /// Defaults for operations on a [`Database`](crate::Database). An option that is not set is
    /// inherited from the client.
    ///
    /// ```no_run
    /// # async fn run(client: steadfast::Client) -> steadfast::error::Result<()> {
    /// use steadfast::options::{DatabaseOptions, ReadConcern};
    ///
    /// let options = DatabaseOptions::builder().read_concern(ReadConcern::majority()).build();
    /// let library = client.database_with_options("library", options);
    /// # Ok(()) }
    /// ```
    pub struct DatabaseOptions, DatabaseOptionsBuilder {
        /// Read preference (`readPreference`), or a predicate that selects servers. Defaults to
        /// that of the client. See
        /// [read preference](https://www.mongodb.com/docs/manual/core/read-preference/).
        #[serde(rename = "readPreference", skip_serializing)]
        selection_criteria: SelectionCriteria,
        /// Default time-out of a whole call (`timeoutMS`). Zero means no limit. Defaults to the
        /// time-out of the client. See
        /// [client-side operations timeout](https://github.com/mongodb/specifications/blob/master/source/client-side-operations-timeout/client-side-operations-timeout.md).
        #[serde(rename = "timeoutMS", with = "crate::serde_helpers::millis")]
        timeout: Duration,
        /// Read concern (`readConcern`). Defaults to the read concern of the client. See
        /// [read concern](https://www.mongodb.com/docs/manual/reference/read-concern/).
        read_concern: ReadConcern,
        /// Write concern (`writeConcern`). Defaults to the write concern of the client. See
        /// [write concern](https://www.mongodb.com/docs/manual/reference/write-concern/).
        write_concern: WriteConcern,
    }
}

options! {
    /// Defaults for operations on a [`Collection`](crate::Collection). An option that is not set is
    /// inherited from the database.
    ///
    /// ```no_run
    /// # async fn run(database: steadfast::Database) -> steadfast::error::Result<()> {
    /// use steadfast::{Collection, bson::Document, options::{CollectionOptions, WriteConcern}};
    ///
    /// let options = CollectionOptions::builder().write_concern(WriteConcern::majority()).build();
    /// let books: Collection<Document> = database.collection_with_options("books", options);
    /// # Ok(()) }
    /// ```
    pub struct CollectionOptions, CollectionOptionsBuilder {
        /// Read preference (`readPreference`), or a predicate that selects servers. Defaults to
        /// that of the database. See
        /// [read preference](https://www.mongodb.com/docs/manual/core/read-preference/).
        #[serde(rename = "readPreference", skip_serializing)]
        selection_criteria: SelectionCriteria,
        /// Default time-out of a whole call (`timeoutMS`). Zero means no limit. Defaults to the
        /// time-out of the database. See
        /// [client-side operations timeout](https://github.com/mongodb/specifications/blob/master/source/client-side-operations-timeout/client-side-operations-timeout.md).
        #[serde(rename = "timeoutMS", with = "crate::serde_helpers::millis")]
        timeout: Duration,
        /// Read concern (`readConcern`). Defaults to the read concern of the database. See
        /// [read concern](https://www.mongodb.com/docs/manual/reference/read-concern/).
        read_concern: ReadConcern,
        /// Write concern (`writeConcern`). Defaults to the write concern of the database. See
        /// [write concern](https://www.mongodb.com/docs/manual/reference/write-concern/).
        write_concern: WriteConcern,
    }
}

options! {
    /// Options of [`create_collection`](crate::Database::create_collection), and of each entry that
    /// [`list_collections`](crate::Database::list_collections) returns. See the
    /// [`create`](https://www.mongodb.com/docs/manual/reference/command/create/) command.
    ///
    /// ```no_run
    /// # async fn run(database: steadfast::Database) -> steadfast::error::Result<()> {
    /// use steadfast::{bson::doc, options::CreateCollectionOptions};
    ///
    /// let schema = doc! { "$jsonSchema": { "required": ["title"] } };
    /// let options = CreateCollectionOptions::builder().validator(schema).build();
    /// database.create_collection("books").with_options(options).await?;
    /// # Ok(()) }
    /// ```
    pub struct CreateCollectionOptions, CreateCollectionOptionsBuilder, with timeout {
        /// Creates a capped collection (`capped`) if `true`: once it is full, new documents replace
        /// the oldest. Requires a `size`. Defaults to `false`.
        capped: bool,
        /// Maximum size of a capped collection in bytes (`size`). Required for a capped collection.
        #[serde(deserialize_with = "crate::serde_helpers::number::optional")]
        size: u64,
        /// Maximum number of documents in a capped collection (`max`). Defaults to no limit; `size`
        /// takes precedence.
        #[serde(deserialize_with = "crate::serde_helpers::number::optional")]
        max: u64,
        /// Configuration of the storage engine (`storageEngine`). Defaults to none.
        storage_engine: Document,
        /// Schema validation rules (`validator`), in the form of a filter. See
        /// [schema validation](https://www.mongodb.com/docs/manual/core/schema-validation/).
        /// Defaults to none.
        validator: Document,
        /// Writes that are validated (`validationLevel`). Defaults to
        /// [`Strict`](crate::options::ValidationLevel::Strict).
        validation_level: ValidationLevel,
        /// Action on documents that violate the `validator` (`validationAction`). Defaults to
        /// [`Error`](crate::options::ValidationAction::Error).
        validation_action: ValidationAction,
        /// Source collection or view of a view (`viewOn`). With it, a view is created instead of a
        /// collection. See [views](https://www.mongodb.com/docs/manual/core/views/).
        /// Defaults to none.
        view_on: String,
        /// Aggregation pipeline of a view (`pipeline`), applied to the source in `view_on`.
        /// Defaults to none.
        pipeline: Vec<Document>,
        /// Default collation of the collection or view (`collation`). Operations can override that
        /// of a collection. Defaults to binary comparison. See
        /// [collation](https://www.mongodb.com/docs/manual/reference/collation/).
        collation: Collation,
        /// Write concern (`writeConcern`). Defaults to the write concern of the database. See
        /// [write concern](https://www.mongodb.com/docs/manual/reference/write-concern/).
        #[serde(skip_serializing)]
        write_concern: WriteConcern,
        /// Default configuration of indexes of the collection (`indexOptionDefaults`).
        index_option_defaults: IndexOptionDefaults,
        /// Creates a time series collection with these options (`timeseries`). See
        /// [time series](https://www.mongodb.com/docs/manual/core/timeseries-collections/).
        /// Defaults to none.
        timeseries: TimeseriesOptions,
        /// Age at which documents of a time series or clustered collection expire
        /// (`expireAfterSeconds`), rounded down to whole seconds. Defaults to no expiry.
        #[serde(with = "crate::serde_helpers::seconds")]
        expire_after_seconds: Duration,
        /// Stores pre- and post-images for change streams (`changeStreamPreAndPostImages`).
        /// Disabled by default. See
        /// [change streams](https://www.mongodb.com/docs/manual/changeStreams/).
        change_stream_pre_and_post_images: ChangeStreamPreAndPostImages,
        /// Creates a clustered collection, stored in the order of this index (`clusteredIndex`).
        /// See [clustered collections](https://www.mongodb.com/docs/manual/core/clustered-collections/).
        /// Defaults to none.
        #[serde(deserialize_with = "clustered_index_or_true")]
        clustered_index: ClusteredIndex,
        /// Comment attached to the command (`comment`). It appears in the server's log, the
        /// profiler and `$currentOp`. Defaults to none.
        #[serde(skip_deserializing)]
        comment: Bson,
    }
}

/// Writes that are validated against the `validator` of a collection (`validationLevel`).
/// See [schema validation](https://www.mongodb.com/docs/manual/core/schema-validation/).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum ValidationLevel {
    /// No writes (`off`).
    Off,
    /// All inserts and updates (`strict`).
    Strict,
    /// All inserts, and updates of documents that are valid already (`moderate`).
    Moderate,
}

/// Action on documents that violate the `validator` of a collection (`validationAction`).
/// See [schema validation](https://www.mongodb.com/docs/manual/core/schema-validation/).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum ValidationAction {
    /// Rejects the write (`error`).
    Error,
    /// Accepts the write and logs the violation on the server (`warn`).
    Warn,
    /// Rejects the write and logs the violation on the server (`errorAndLog`). Requires MongoDB 8.1
    /// or later.
    ErrorAndLog,
}

/// Index of a clustered collection (`clusteredIndex`). The default is a unique index on `_id`, the
/// only one that servers support.
/// See [clustered collections](https://www.mongodb.com/docs/manual/core/clustered-collections/).
///
/// ```
/// use steadfast::{bson::doc, options::ClusteredIndex};
///
/// let mut index = ClusteredIndex::default();
/// index.name = Some("by_id".to_owned());
/// assert_eq!(index.key, doc! { "_id": 1 });
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ClusteredIndex {
    /// Key pattern (`key`). Servers support `{ _id: 1 }` only.
    pub key: Document,
    /// Rejects duplicate keys (`unique`). Servers support `true` only.
    pub unique: bool,
    /// Name of the index (`name`). Defaults to `_id_`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Version of the index format (`v`). Defaults to the server's latest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub v: Option<i32>,
}

impl Default for ClusteredIndex {
    fn default() -> Self {
        Self { key: doc! { "_id": 1 }, unique: true, name: None, v: None }
    }
}

/// Deserializes a clustered index. Servers report `true` for the bucket collections of time series.
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

/// Default configuration of the indexes of a collection (`indexOptionDefaults`).
///
/// ```
/// use steadfast::{bson::doc, options::IndexOptionDefaults};
///
/// let defaults = IndexOptionDefaults::new(doc! { "wiredTiger": {} });
/// assert!(defaults.storage_engine.contains_key("wiredTiger"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct IndexOptionDefaults {
    /// Configuration of the storage engine (`storageEngine`).
    pub storage_engine: Document,
}

impl IndexOptionDefaults {
    /// Creates defaults with this configuration of the storage engine.
    pub fn new(storage_engine: Document) -> Self {
        Self { storage_engine }
    }

    /// Returns a builder for [`IndexOptionDefaults`].
    pub fn builder() -> IndexOptionDefaultsBuilder {
        IndexOptionDefaultsBuilder(Self::default())
    }
}

/// Builder for [`IndexOptionDefaults`].
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct IndexOptionDefaultsBuilder(IndexOptionDefaults);

impl IndexOptionDefaultsBuilder {
    /// Sets the configuration of the storage engine (`storageEngine`). Required.
    pub fn storage_engine(mut self, value: impl Into<Document>) -> Self {
        self.0.storage_engine = value.into();
        self
    }

    /// Returns the defaults.
    pub fn build(self) -> IndexOptionDefaults {
        self.0
    }
}

/// Options of a time series collection (`timeseries`). See
/// [time series](https://www.mongodb.com/docs/manual/core/timeseries-collections/).
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
    /// Field with the date of a measurement (`timeField`).
    pub time_field: String,
    /// Field with the metadata of a measurement (`metaField`), such as the identifier of a sensor.
    /// It identifies a series and rarely changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta_field: Option<String>,
    /// Expected interval between measurements of one series (`granularity`). Defaults to
    /// [`Seconds`](TimeseriesGranularity::Seconds).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub granularity: Option<TimeseriesGranularity>,
    /// Maximum time between the measurements of one bucket (`bucketMaxSpanSeconds`). Requires an
    /// equal `bucket_rounding` and no `granularity`.
    #[serde(
        default,
        rename = "bucketMaxSpanSeconds",
        with = "crate::serde_helpers::seconds",
        skip_serializing_if = "Option::is_none"
    )]
    pub bucket_max_span: Option<Duration>,
    /// Interval to which the start of a new bucket is rounded down (`bucketRoundingSeconds`).
    /// Requires an equal `bucket_max_span`.
    #[serde(
        default,
        rename = "bucketRoundingSeconds",
        with = "crate::serde_helpers::seconds",
        skip_serializing_if = "Option::is_none"
    )]
    pub bucket_rounding: Option<Duration>,
}

impl TimeseriesOptions {
    /// Returns a builder for [`TimeseriesOptions`].
    pub fn builder() -> TimeseriesOptionsBuilder {
        TimeseriesOptionsBuilder::default()
    }
}

/// Builder for [`TimeseriesOptions`].
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct TimeseriesOptionsBuilder(TimeseriesOptions);

impl TimeseriesOptionsBuilder {
    /// Sets the field with the date of a measurement (`timeField`). Required.
    pub fn time_field(mut self, value: impl Into<String>) -> Self {
        self.0.time_field = value.into();
        self
    }

    /// Sets the field with the metadata of a measurement (`metaField`).
    pub fn meta_field(mut self, value: impl Into<Option<String>>) -> Self {
        self.0.meta_field = value.into();
        self
    }

    /// Sets the expected interval between measurements of one series (`granularity`).
    pub fn granularity(mut self, value: impl Into<Option<TimeseriesGranularity>>) -> Self {
        self.0.granularity = value.into();
        self
    }

    /// Sets the maximum time between the measurements of one bucket (`bucketMaxSpanSeconds`).
    pub fn bucket_max_span(mut self, value: impl Into<Option<Duration>>) -> Self {
        self.0.bucket_max_span = value.into();
        self
    }

    /// Sets the interval to which the start of a new bucket is rounded down
    /// (`bucketRoundingSeconds`).
    pub fn bucket_rounding(mut self, value: impl Into<Option<Duration>>) -> Self {
        self.0.bucket_rounding = value.into();
        self
    }

    /// Returns the options.
    pub fn build(self) -> TimeseriesOptions {
        self.0
    }
}

/// Expected interval between measurements of one series (`granularity`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum TimeseriesGranularity {
    /// Seconds (`seconds`).
    Seconds,
    /// Minutes (`minutes`).
    Minutes,
    /// Hours (`hours`).
    Hours,
}

/// Storage of pre- and post-images for change streams (`changeStreamPreAndPostImages`).
/// See
/// [pre- and post-images](https://www.mongodb.com/docs/manual/changeStreams/#change-streams-with-document-pre--and-post-images).
///
/// ```
/// use steadfast::options::ChangeStreamPreAndPostImages;
///
/// assert!(ChangeStreamPreAndPostImages::new(true).enabled);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ChangeStreamPreAndPostImages {
    /// Stores the images (`enabled`) if `true`.
    pub enabled: bool,
}

impl ChangeStreamPreAndPostImages {
    /// Creates the setting; `true` stores the images.
    pub fn new(enabled: bool) -> Self {
        Self { enabled }
    }

    /// Returns a builder for [`ChangeStreamPreAndPostImages`].
    pub fn builder() -> ChangeStreamPreAndPostImagesBuilder {
        ChangeStreamPreAndPostImagesBuilder(Self::default())
    }
}

/// Builder for [`ChangeStreamPreAndPostImages`].
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct ChangeStreamPreAndPostImagesBuilder(ChangeStreamPreAndPostImages);

impl ChangeStreamPreAndPostImagesBuilder {
    /// Stores pre- and post-images (`enabled`) if `true`. Required.
    pub fn enabled(mut self, value: impl Into<bool>) -> Self {
        self.0.enabled = value.into();
        self
    }

    /// Returns the setting.
    pub fn build(self) -> ChangeStreamPreAndPostImages {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use bson::{deserialize_from_document, serialize_to_document};

    use super::*;

    #[test]
    fn reported_collection_options_deserialize() {
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
    /// Options of [`list_databases`](crate::Client::list_databases) and
    /// [`list_database_names`](crate::Client::list_database_names). See the
    /// [`listDatabases`](https://www.mongodb.com/docs/manual/reference/command/listDatabases/)
    /// command.
    ///
    /// ```no_run
    /// # async fn run(client: steadfast::Client) -> steadfast::error::Result<()> {
    /// use steadfast::{bson::doc, options::ListDatabasesOptions};
    ///
    /// let options = ListDatabasesOptions::builder().filter(doc! { "name": "library" }).build();
    /// let databases = client.list_databases().with_options(options).await?;
    /// # Ok(()) }
    /// ```
    pub struct ListDatabasesOptions, ListDatabasesOptionsBuilder, with timeout {
        /// Lists only the databases that the user may access (`authorizedDatabases`) if `true`.
        /// Defaults to the server's choice, which depends on the user's privileges.
        authorized_databases: bool,
        /// Comment attached to the command (`comment`). It appears in the server's log, the
        /// profiler and `$currentOp`. Defaults to none.
        comment: Bson,
        /// Filter on the fields of each database entry (`filter`), such as `name`. Defaults to all
        /// databases.
        filter: Document,
    }
}

options! {
    /// Options of [`list_collections`](crate::Database::list_collections) and
    /// [`list_collection_names`](crate::Database::list_collection_names). See the
    /// [`listCollections`](https://www.mongodb.com/docs/manual/reference/command/listCollections/)
    /// command.
    ///
    /// ```no_run
    /// # async fn run(database: steadfast::Database) -> steadfast::error::Result<()> {
    /// use steadfast::{bson::doc, options::ListCollectionsOptions};
    ///
    /// let options = ListCollectionsOptions::builder().filter(doc! { "type": "view" }).build();
    /// let views = database.list_collection_names().with_options(options).await?;
    /// # Ok(()) }
    /// ```
    pub struct ListCollectionsOptions, ListCollectionsOptionsBuilder, with timeout {
        /// Number of entries per batch (`batchSize`). Defaults to the server's choice.
        #[serde(skip_serializing)]
        batch_size: u32,
        /// Comment attached to the command (`comment`). It appears in the server's log, the
        /// profiler and `$currentOp`. Defaults to none.
        comment: Bson,
        /// Filter on the fields of each collection entry (`filter`), such as `name`. Defaults to
        /// all collections.
        filter: Document,
        /// Scope of the time-out (`timeoutMode`): the whole life of the cursor, or each iteration.
        /// Requires a `timeout`, set here or inherited. Defaults to
        /// [`CursorLifetime`](crate::options::TimeoutMode::CursorLifetime).
        #[serde(skip)]
        timeout_mode: TimeoutMode,
        /// Lists only the collections that the user may access (`authorizedCollections`) if `true`,
        /// for users without the privilege `listCollections`. Has an effect on names only. Defaults
        /// to `false`.
        authorized_collections: bool,
    }
}

options! {
    /// Options of [`Collection::drop`](crate::Collection::drop). See the
    /// [`drop`](https://www.mongodb.com/docs/manual/reference/command/drop/) command.
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// use steadfast::options::{DropCollectionOptions, WriteConcern};
    ///
    /// let options = DropCollectionOptions::builder().write_concern(WriteConcern::majority()).build();
    /// books.drop().with_options(options).await?;
    /// # Ok(()) }
    /// ```
    pub struct DropCollectionOptions, DropCollectionOptionsBuilder, with timeout {
        /// Write concern (`writeConcern`). Defaults to the write concern of the collection. See
        /// [write concern](https://www.mongodb.com/docs/manual/reference/write-concern/).
        #[serde(skip_serializing)]
        write_concern: WriteConcern,
    }
}

options! {
    /// Options of [`Database::drop`](crate::Database::drop). See the
    /// [`dropDatabase`](https://www.mongodb.com/docs/manual/reference/command/dropDatabase/)
    /// command.
    ///
    /// ```no_run
    /// # async fn run(database: steadfast::Database) -> steadfast::error::Result<()> {
    /// use steadfast::options::{DropDatabaseOptions, WriteConcern};
    ///
    /// let options = DropDatabaseOptions::builder().write_concern(WriteConcern::majority()).build();
    /// database.drop().with_options(options).await?;
    /// # Ok(()) }
    /// ```
    pub struct DropDatabaseOptions, DropDatabaseOptionsBuilder, with timeout {
        /// Write concern (`writeConcern`). Defaults to the write concern of the database. See
        /// [write concern](https://www.mongodb.com/docs/manual/reference/write-concern/).
        #[serde(skip_serializing)]
        write_concern: WriteConcern,
    }
}
