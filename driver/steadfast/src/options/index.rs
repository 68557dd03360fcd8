//! Options of indexes and search indexes.

use std::time::Duration;

use bson::{Bson, Document};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use steadfast_core::concern::WriteConcern;

use super::{Collation, TimeoutMode};

options! {
    /// Options of an index in an [`IndexModel`](crate::IndexModel). See the
    /// [`createIndexes`](https://www.mongodb.com/docs/manual/reference/command/createIndexes/)
    /// command.
    ///
    /// ```
    /// use std::time::Duration;
    /// use steadfast::{IndexModel, bson::doc, options::IndexOptions};
    ///
    /// let options = IndexOptions::builder().expire_after(Duration::from_secs(3600)).build();
    /// let index = IndexModel::builder().keys(doc! { "lastUsed": 1 }).options(options).build();
    /// ```
    pub struct IndexOptions, IndexOptionsBuilder {
        /// Builds the index in the background (`background`) if `true`. Ignored since MongoDB 4.2.
        /// Defaults to `false`.
        background: bool,
        /// Age at which documents expire (`expireAfterSeconds`), rounded down to whole seconds.
        /// Makes the index a [TTL index](https://www.mongodb.com/docs/manual/core/index-ttl/) on a
        /// date field. Defaults to none.
        #[serde(rename = "expireAfterSeconds", with = "crate::serde_helpers::seconds")]
        expire_after: Duration,
        /// Name of the index (`name`). Defaults to the keys with their kinds, such as
        /// `title_1_year_-1`.
        name: String,
        /// Indexes only documents that contain the indexed field (`sparse`) if `true`. Defaults to
        /// `false`.
        sparse: bool,
        /// Configuration of the storage engine (`storageEngine`). Defaults to none.
        storage_engine: Document,
        /// Rejects documents with duplicate keys (`unique`) if `true`. Defaults to `false`.
        unique: bool,
        /// Version of the index format (`v`, the index version). Defaults to the server's latest.
        #[serde(rename = "v")]
        version: IndexVersion,
        /// Language of the documents in a text index (`default_language`). Defaults to `english`.
        #[serde(rename = "default_language")]
        default_language: String,
        /// Field that overrides the language of a document in a text index (`language_override`).
        /// Defaults to `language`.
        #[serde(rename = "language_override")]
        language_override: String,
        /// Version of the text index format (`textIndexVersion`). Defaults to the server's latest.
        text_index_version: TextIndexVersion,
        /// Relative weights of the fields of a text index (`weights`). Each defaults to 1.
        weights: Document,
        /// Version of the 2dsphere index format (`2dsphereIndexVersion`). Defaults to the server's
        /// latest.
        #[serde(rename = "2dsphereIndexVersion")]
        sphere_2d_index_version: Sphere2DIndexVersion,
        /// Precision of the coordinates of a 2d index (`bits`), from 1 to 32. Defaults to 26.
        #[serde(serialize_with = "small_count")]
        bits: u32,
        /// Upper bound of the coordinates of a 2d index (`max`). Defaults to 180.
        max: f64,
        /// Lower bound of the coordinates of a 2d index (`min`). Defaults to -180.
        min: f64,
        /// Bucket size of a geoHaystack index (`bucketSize`). Not supported since MongoDB 5.0.
        /// Defaults to none.
        #[serde(serialize_with = "small_count")]
        bucket_size: u32,
        /// Filter of a partial index (`partialFilterExpression`): only documents that match are
        /// indexed. See [partial indexes](https://www.mongodb.com/docs/manual/core/index-partial/).
        /// Defaults to none.
        partial_filter_expression: Document,
        /// Collation of the index (`collation`). Defaults to the collation of the collection. See
        /// [collation](https://www.mongodb.com/docs/manual/reference/collation/).
        collation: Collation,
        /// Fields that a wildcard index includes or excludes (`wildcardProjection`).
        /// Defaults to none.
        wildcard_projection: Document,
        /// Hides the index from the query planner (`hidden`) if `true`. Defaults to `false`. See
        /// [hidden indexes](https://www.mongodb.com/docs/manual/core/index-hidden/).
        hidden: bool,
        /// Marks the index of a clustered collection (`clustered`) if `true`. Reported by
        /// `listIndexes`, never sent. Defaults to `false`.
        #[serde(skip_serializing)]
        clustered: bool,
    }
}

impl IndexOptions {
    /// Returns `true` for the index of a clustered collection (`clustered`).
    pub fn clustered(&self) -> Option<bool> {
        self.clustered
    }
}

/// Serializes a count as a 32-bit integer, the type that servers require here.
#[allow(clippy::ref_option)]
fn small_count<S: Serializer>(value: &Option<u32>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => version_number(*value, serializer),
        None => serializer.serialize_none(),
    }
}

fn version_number<S: Serializer>(number: u32, serializer: S) -> Result<S::Ok, S::Error> {
    match i32::try_from(number) {
        Ok(number) => serializer.serialize_i32(number),
        Err(_) => serializer.serialize_u32(number),
    }
}

/// Declares the versions of a format, which are sent as numbers.
macro_rules! versions {
    ($(#[$doc:meta])+ $kind:ident { $($(#[$variant_doc:meta])+ $variant:ident = $number:literal),+ $(,)? }) => {
        $(#[$doc])+
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum $kind {
            $($(#[$variant_doc])+ $variant,)+
            /// Version without a variant in this driver. Sent as is.
            Custom(u32),
        }

        impl Serialize for $kind {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                version_number(
                    match self {
                        $(Self::$variant => $number,)+
                        Self::Custom(number) => *number,
                    },
                    serializer,
                )
            }
        }

        impl<'de> Deserialize<'de> for $kind {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Ok(match u32::deserialize(deserializer)? {
                    $($number => Self::$variant,)+
                    number => Self::Custom(number),
                })
            }
        }
    };
}

versions! {
    /// Version of the index format (`v`).
    #[non_exhaustive]
    IndexVersion {
        /// Version 0, of MongoDB before 2.0. Not supported any more.
        V0 = 0,
        /// Version 1, of MongoDB before 3.4.
        V1 = 1,
        /// Version 2, the current one.
        V2 = 2,
    }
}

versions! {
    /// Version of the text index format (`textIndexVersion`).
    TextIndexVersion {
        /// Version 1, of MongoDB before 2.6.
        V1 = 1,
        /// Version 2, of MongoDB before 3.2.
        V2 = 2,
        /// Version 3, the current one.
        V3 = 3,
    }
}

versions! {
    /// Version of the 2dsphere index format (`2dsphereIndexVersion`).
    Sphere2DIndexVersion {
        /// Version 2, of MongoDB before 3.2.
        V2 = 2,
        /// Version 3, the current one.
        V3 = 3,
    }
}

options! {
    /// Options of [`create_index`](crate::Collection::create_index) and
    /// [`create_indexes`](crate::Collection::create_indexes). See the
    /// [`createIndexes`](https://www.mongodb.com/docs/manual/reference/command/createIndexes/)
    /// command.
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// use steadfast::{IndexModel, bson::doc, options::{CommitQuorum, CreateIndexOptions}};
    ///
    /// let by_title = IndexModel::builder().keys(doc! { "title": 1 }).build();
    /// let options = CreateIndexOptions::builder().commit_quorum(CommitQuorum::Majority).build();
    /// books.create_index(by_title).with_options(options).await?;
    /// # Ok(()) }
    /// ```
    pub struct CreateIndexOptions, CreateIndexOptionsBuilder, with timeout {
        /// Replica set members that must be ready before the index build is committed
        /// (`commitQuorum`). Defaults to
        /// [`VotingMembers`](crate::options::CommitQuorum::VotingMembers).
        commit_quorum: CommitQuorum,
        /// Limit on the server's processing time (`maxTimeMS`). Ignored if a `timeout`
        /// (`timeoutMS`) applies. Defaults to no limit.
        #[serde(rename = "maxTimeMS", with = "crate::serde_helpers::millis")]
        max_time: Duration,
        /// Write concern (`writeConcern`). Defaults to the write concern of the collection. See
        /// [write concern](https://www.mongodb.com/docs/manual/reference/write-concern/).
        #[serde(skip_serializing)]
        write_concern: WriteConcern,
        /// Comment attached to the command (`comment`). It appears in the server's log, the
        /// profiler and `$currentOp`. Defaults to none.
        comment: Bson,
    }
}

options! {
    /// Options of [`drop_index`](crate::Collection::drop_index) and
    /// [`drop_indexes`](crate::Collection::drop_indexes). See the
    /// [`dropIndexes`](https://www.mongodb.com/docs/manual/reference/command/dropIndexes/) command.
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// use std::time::Duration;
    /// use steadfast::options::DropIndexOptions;
    ///
    /// let options = DropIndexOptions::builder().max_time(Duration::from_secs(5)).build();
    /// books.drop_index("title_1").with_options(options).await?;
    /// # Ok(()) }
    /// ```
    pub struct DropIndexOptions, DropIndexOptionsBuilder, with timeout {
        /// Limit on the server's processing time (`maxTimeMS`). Ignored if a `timeout`
        /// (`timeoutMS`) applies. Defaults to no limit.
        #[serde(rename = "maxTimeMS", with = "crate::serde_helpers::millis")]
        max_time: Duration,
        /// Write concern (`writeConcern`). Defaults to the write concern of the collection. See
        /// [write concern](https://www.mongodb.com/docs/manual/reference/write-concern/).
        #[serde(skip_serializing)]
        write_concern: WriteConcern,
        /// Comment attached to the command (`comment`). It appears in the server's log, the
        /// profiler and `$currentOp`. Defaults to none.
        comment: Bson,
    }
}

options! {
    /// Options of [`list_indexes`](crate::Collection::list_indexes) and
    /// [`list_index_names`](crate::Collection::list_index_names). See the
    /// [`listIndexes`](https://www.mongodb.com/docs/manual/reference/command/listIndexes/) command.
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// use steadfast::options::ListIndexesOptions;
    ///
    /// let options = ListIndexesOptions::builder().batch_size(10).build();
    /// let indexes = books.list_indexes().with_options(options).await?;
    /// # Ok(()) }
    /// ```
    pub struct ListIndexesOptions, ListIndexesOptionsBuilder, with timeout {
        /// Limit on the server's processing time (`maxTimeMS`). Ignored if a `timeout`
        /// (`timeoutMS`) applies. Defaults to no limit.
        #[serde(rename = "maxTimeMS", with = "crate::serde_helpers::millis")]
        max_time: Duration,
        /// Scope of the time-out (`timeoutMode`): the whole life of the cursor, or each iteration.
        /// Requires a `timeout`, set here or inherited. Defaults to
        /// [`CursorLifetime`](crate::options::TimeoutMode::CursorLifetime).
        #[serde(skip)]
        timeout_mode: TimeoutMode,
        /// Number of entries per batch (`batchSize`). Defaults to the server's choice.
        #[serde(skip_serializing)]
        batch_size: u32,
        /// Comment attached to the command (`comment`). It appears in the server's log, the
        /// profiler and `$currentOp`. Defaults to none.
        comment: Bson,
    }
}

/// Replica set members that must be ready before an index build is committed (`commitQuorum`).
///
/// Requires MongoDB 4.4 or later.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CommitQuorum {
    /// Number of data-bearing voting members. With 0, the build does not wait for other members.
    Nodes(u32),
    /// All data-bearing voting members (`votingMembers`).
    VotingMembers,
    /// Majority of the data-bearing voting members (`majority`).
    Majority,
    /// Custom write concern defined in the configuration of the replica set.
    Custom(String),
}

impl Serialize for CommitQuorum {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Nodes(count) => match i32::try_from(*count) {
                Ok(count) => serializer.serialize_i32(count),
                Err(_) => serializer.serialize_u32(*count),
            },
            Self::VotingMembers => serializer.serialize_str("votingMembers"),
            Self::Majority => serializer.serialize_str("majority"),
            Self::Custom(mode) => serializer.serialize_str(mode),
        }
    }
}

impl<'de> Deserialize<'de> for CommitQuorum {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum CountOrMode {
            Count(u32),
            Mode(String),
        }
        Ok(match CountOrMode::deserialize(deserializer)? {
            CountOrMode::Count(count) => Self::Nodes(count),
            CountOrMode::Mode(mode) => match mode.as_str() {
                "votingMembers" => Self::VotingMembers,
                "majority" => Self::Majority,
                _ => Self::Custom(mode),
            },
        })
    }
}

options! {
    /// Options of [`create_search_index`](crate::Collection::create_search_index) and
    /// [`create_search_indexes`](crate::Collection::create_search_indexes). See the
    /// [`createSearchIndexes`](https://www.mongodb.com/docs/manual/reference/command/createSearchIndexes/)
    /// command.
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// use std::time::Duration;
    /// use steadfast::{SearchIndexModel, bson::doc, options::CreateSearchIndexOptions};
    ///
    /// let definition = doc! { "mappings": { "dynamic": true } };
    /// let model = SearchIndexModel::builder().definition(definition).build();
    /// let options = CreateSearchIndexOptions::builder().timeout(Duration::from_secs(5)).build();
    /// books.create_search_index(model).with_options(options).await?;
    /// # Ok(()) }
    /// ```
    pub struct CreateSearchIndexOptions, CreateSearchIndexOptionsBuilder, with timeout {}
}

options! {
    /// Options of [`update_search_index`](crate::Collection::update_search_index). See the
    /// [`updateSearchIndex`](https://www.mongodb.com/docs/manual/reference/command/updateSearchIndex/)
    /// command.
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// use std::time::Duration;
    /// use steadfast::{bson::doc, options::UpdateSearchIndexOptions};
    ///
    /// let definition = doc! { "mappings": { "dynamic": false } };
    /// let options = UpdateSearchIndexOptions::builder().timeout(Duration::from_secs(5)).build();
    /// books.update_search_index("default", definition).with_options(options).await?;
    /// # Ok(()) }
    /// ```
    pub struct UpdateSearchIndexOptions, UpdateSearchIndexOptionsBuilder, with timeout {}
}

options! {
    /// Options of [`list_search_indexes`](crate::Collection::list_search_indexes). See the
    /// [`$listSearchIndexes`](https://www.mongodb.com/docs/manual/reference/operator/aggregation/listSearchIndexes/)
    /// stage.
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// use std::time::Duration;
    /// use steadfast::options::ListSearchIndexOptions;
    ///
    /// let options = ListSearchIndexOptions::builder().timeout(Duration::from_secs(5)).build();
    /// let indexes = books.list_search_indexes().with_options(options).await?;
    /// # Ok(()) }
    /// ```
    pub struct ListSearchIndexOptions, ListSearchIndexOptionsBuilder, with timeout {}
}

options! {
    /// Options of [`drop_search_index`](crate::Collection::drop_search_index). See the
    /// [`dropSearchIndex`](https://www.mongodb.com/docs/manual/reference/command/dropSearchIndex/)
    /// command.
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// use std::time::Duration;
    /// use steadfast::options::DropSearchIndexOptions;
    ///
    /// let options = DropSearchIndexOptions::builder().timeout(Duration::from_secs(5)).build();
    /// books.drop_search_index("default").with_options(options).await?;
    /// # Ok(()) }
    /// ```
    pub struct DropSearchIndexOptions, DropSearchIndexOptionsBuilder, with timeout {}
}
