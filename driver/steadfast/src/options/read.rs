//! Options of reads: `find`, `aggregate`, `count` and `distinct`.

use std::time::Duration;

use bson::{Bson, Document};
use serde::{Deserialize, Serialize};
use steadfast_core::{
    concern::{ReadConcern, WriteConcern},
    selection::SelectionCriteria,
};

use super::Collation;

/// Index to use (`hint`).
/// See [`cursor.hint()`](https://www.mongodb.com/docs/manual/reference/method/cursor.hint/).
///
/// ```no_run
/// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
/// use steadfast::{bson::doc, options::Hint};
///
/// let by_title = books.find(doc! {}).hint(Hint::Name("title_1".to_owned())).await?;
/// let by_year = books.find(doc! {}).hint(Hint::Keys(doc! { "year": 1 })).await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum Hint {
    /// Key pattern of the index.
    Keys(Document),
    /// Name of the index.
    Name(String),
}

impl From<Hint> for Bson {
    fn from(hint: Hint) -> Self {
        match hint {
            Hint::Keys(keys) => Self::Document(keys),
            Hint::Name(name) => Self::String(name),
        }
    }
}

/// For setters of write models, whose hints are BSON values.
impl From<Hint> for Option<Bson> {
    fn from(hint: Hint) -> Self {
        Some(hint.into())
    }
}

/// Type of a cursor. See
/// [tailable cursors](https://www.mongodb.com/docs/manual/core/tailable-cursors/).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum CursorType {
    /// Ends after the last document.
    #[default]
    NonTailable,
    /// Stays open after the last document and returns documents that are inserted later
    /// (`tailable`). For capped collections.
    Tailable,
    /// Tailable cursor whose `getMore` waits on the server for new documents (`awaitData`).
    TailableAwait,
}

/// Scope of the time-out of a call that returns a cursor (`timeoutMode`). See
/// [client-side operations timeout](https://github.com/mongodb/specifications/blob/master/source/client-side-operations-timeout/client-side-operations-timeout.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum TimeoutMode {
    /// Whole life of the cursor (`cursorLifetime`): one deadline for the call and for all
    /// iterations. The default, except for tailable cursors, which do not support it.
    CursorLifetime,
    /// Each iteration (`iteration`): the call and each later step have the full time-out.
    Iteration,
}

options! {
    /// Options of [`find`](crate::Collection::find). See the
    /// [`find`](https://www.mongodb.com/docs/manual/reference/command/find/) command.
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// use steadfast::{bson::doc, options::FindOptions};
    ///
    /// let options = FindOptions::builder().sort(doc! { "year": 1 }).limit(10).build();
    /// let cursor = books.find(doc! {}).with_options(options).await?;
    /// # Ok(()) }
    /// ```
    pub struct FindOptions, FindOptionsBuilder, with timeout {
        /// Allows the server to sort in temporary files (`allowDiskUse`) if `true`, once a sort
        /// exceeds 100 MB of memory. Defaults to the server's parameter `allowDiskUseByDefault`.
        allow_disk_use: bool,
        /// Returns partial results (`allowPartialResults`) instead of an error if `true` and shards
        /// of a sharded cluster are unavailable. Defaults to `false`.
        allow_partial_results: bool,
        /// Number of documents per batch (`batchSize`). Defaults to the server's choice: 101
        /// documents in the first batch, up to 16 MiB in each later one.
        #[serde(skip_serializing)]
        batch_size: u32,
        /// Comment attached to the command (`comment`). It appears in the server's log, the
        /// profiler and `$currentOp`. Defaults to none.
        comment: Bson,
        /// Type of the cursor (`tailable` and `awaitData`; `cursorType` in other drivers). Defaults
        /// to [`NonTailable`](crate::options::CursorType::NonTailable).
        #[serde(skip_serializing)]
        cursor_type: CursorType,
        /// Index to use (`hint`), by key pattern or by name. By default the query planner chooses.
        hint: Hint,
        /// Maximum number of documents to return (`limit`). A negative number returns its absolute
        /// value in a single batch (`singleBatch`). Zero means no limit. Defaults to no limit.
        #[serde(skip_serializing)]
        limit: i64,
        /// Exclusive upper bound of the index keys (`max`). Requires a `hint`. Defaults to none.
        max: Document,
        /// Maximum time that the server waits for new documents before it returns an empty batch
        /// (`maxAwaitTimeMS`, sent as `maxTimeMS` of each `getMore`). For cursors of type
        /// [`TailableAwait`](crate::options::CursorType::TailableAwait). Defaults to one second on
        /// the server.
        #[serde(rename = "maxAwaitTimeMS", with = "crate::serde_helpers::millis", skip_serializing)]
        max_await_time: Duration,
        /// Maximum number of documents or index keys to scan (`maxScan`). MongoDB 4.2 removed it;
        /// later servers return an error. Defaults to no limit.
        max_scan: u64,
        /// Limit on the server's processing time (`maxTimeMS`). Ignored if a `timeout`
        /// (`timeoutMS`) applies. Defaults to no limit.
        #[serde(rename = "maxTimeMS", with = "crate::serde_helpers::millis")]
        max_time: Duration,
        /// Inclusive lower bound of the index keys (`min`). Requires a `hint`. Defaults to none.
        min: Document,
        /// Disables the server's idle cursor timeout (`noCursorTimeout`) if `true`. Defaults to
        /// `false`: a server closes a cursor after 10 minutes without a `getMore`.
        no_cursor_timeout: bool,
        /// Fields to include or exclude (`projection`). Defaults to all fields.
        projection: Document,
        /// Read concern (`readConcern`). Defaults to the read concern of the collection. See
        /// [read concern](https://www.mongodb.com/docs/manual/reference/read-concern/).
        #[serde(skip_serializing)]
        read_concern: ReadConcern,
        /// Returns only the index keys (`returnKey`) if `true`. Defaults to `false`.
        return_key: bool,
        /// Read preference (`readPreference`), or a predicate that selects servers. Defaults to
        /// that of the collection. See
        /// [read preference](https://www.mongodb.com/docs/manual/core/read-preference/).
        #[serde(rename = "readPreference", skip_serializing)]
        selection_criteria: SelectionCriteria,
        /// Adds the record identifier of each document (`showRecordId`) as the field `$recordId` if
        /// `true`. Defaults to `false`.
        show_record_id: bool,
        /// Number of documents to skip (`skip`). Defaults to 0.
        skip: u64,
        /// Sort order of the documents (`sort`). Defaults to the order of the index or of storage.
        sort: Document,
        /// Collation for string comparison (`collation`). Defaults to the collation of the
        /// collection. See [collation](https://www.mongodb.com/docs/manual/reference/collation/).
        collation: Collation,
        /// Scope of the time-out (`timeoutMode`): the whole life of the cursor, or each iteration.
        /// Requires a `timeout`, set here or inherited. Defaults to
        /// [`CursorLifetime`](crate::options::TimeoutMode::CursorLifetime), for tailable cursors to
        /// [`Iteration`](crate::options::TimeoutMode::Iteration).
        #[serde(skip)]
        timeout_mode: TimeoutMode,
        /// Variables (`let`) for the filter, used there as `$$name`. Defaults to none.
        #[serde(rename = "let")]
        let_vars: Document,
    }
}

options! {
    /// Options of [`find_one`](crate::Collection::find_one). See the
    /// [`find`](https://www.mongodb.com/docs/manual/reference/command/find/) command.
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// use steadfast::{bson::doc, options::FindOneOptions};
    ///
    /// let options = FindOneOptions::builder().sort(doc! { "year": -1 }).build();
    /// let newest = books.find_one(doc! {}).with_options(options).await?;
    /// # Ok(()) }
    /// ```
    pub struct FindOneOptions, FindOneOptionsBuilder, with timeout {
        /// Returns partial results (`allowPartialResults`) instead of an error if `true` and shards
        /// of a sharded cluster are unavailable. Defaults to `false`.
        allow_partial_results: bool,
        /// Collation for string comparison (`collation`). Defaults to the collation of the
        /// collection. See [collation](https://www.mongodb.com/docs/manual/reference/collation/).
        collation: Collation,
        /// Comment attached to the command (`comment`). It appears in the server's log, the
        /// profiler and `$currentOp`. Defaults to none.
        comment: Bson,
        /// Index to use (`hint`), by key pattern or by name. By default the query planner chooses.
        hint: Hint,
        /// Exclusive upper bound of the index keys (`max`). Requires a `hint`. Defaults to none.
        max: Document,
        /// Maximum number of documents or index keys to scan (`maxScan`). MongoDB 4.2 removed it;
        /// later servers return an error. Defaults to no limit.
        max_scan: u64,
        /// Limit on the server's processing time (`maxTimeMS`). Ignored if a `timeout`
        /// (`timeoutMS`) applies. Defaults to no limit.
        #[serde(rename = "maxTimeMS", with = "crate::serde_helpers::millis")]
        max_time: Duration,
        /// Inclusive lower bound of the index keys (`min`). Requires a `hint`. Defaults to none.
        min: Document,
        /// Fields to include or exclude (`projection`). Defaults to all fields.
        projection: Document,
        /// Read concern (`readConcern`). Defaults to the read concern of the collection. See
        /// [read concern](https://www.mongodb.com/docs/manual/reference/read-concern/).
        #[serde(skip_serializing)]
        read_concern: ReadConcern,
        /// Returns only the index keys (`returnKey`) if `true`. Defaults to `false`.
        return_key: bool,
        /// Read preference (`readPreference`), or a predicate that selects servers. Defaults to
        /// that of the collection. See
        /// [read preference](https://www.mongodb.com/docs/manual/core/read-preference/).
        #[serde(rename = "readPreference", skip_serializing)]
        selection_criteria: SelectionCriteria,
        /// Adds the record identifier of each document (`showRecordId`) as the field `$recordId` if
        /// `true`. Defaults to `false`.
        show_record_id: bool,
        /// Number of documents to skip (`skip`). Defaults to 0.
        skip: u64,
        /// Sort order (`sort`). The first document in this order is returned. Defaults to the order
        /// of the index or of storage.
        sort: Document,
        /// Variables (`let`) for the filter, used there as `$$name`. Defaults to none.
        #[serde(rename = "let")]
        let_vars: Document,
    }
}

impl From<FindOneOptions> for FindOptions {
    /// A limit of -1 returns one document in a single batch, so that no cursor stays open.
    fn from(one: FindOneOptions) -> Self {
        Self {
            allow_partial_results: one.allow_partial_results,
            collation: one.collation,
            comment: one.comment,
            hint: one.hint,
            limit: Some(-1),
            max: one.max,
            max_time: one.max_time,
            min: one.min,
            projection: one.projection,
            read_concern: one.read_concern,
            return_key: one.return_key,
            selection_criteria: one.selection_criteria,
            max_scan: one.max_scan,
            show_record_id: one.show_record_id,
            skip: one.skip,
            sort: one.sort,
            let_vars: one.let_vars,
            timeout: one.timeout,
            ..Self::default()
        }
    }
}

options! {
    /// Options of [`Collection::aggregate`](crate::Collection::aggregate) and
    /// [`Database::aggregate`](crate::Database::aggregate). See the
    /// [`aggregate`](https://www.mongodb.com/docs/manual/reference/command/aggregate/) command.
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// use steadfast::{bson::doc, options::AggregateOptions};
    ///
    /// let stage = doc! { "$sortByCount": "$author" };
    /// let options = AggregateOptions::builder().allow_disk_use(true).build();
    /// let cursor = books.aggregate([stage]).with_options(options).await?;
    /// # Ok(()) }
    /// ```
    pub struct AggregateOptions, AggregateOptionsBuilder, with timeout {
        /// Allows stages to write temporary files (`allowDiskUse`) if `true`, once they exceed 100
        /// MB of memory. Defaults to the server's parameter `allowDiskUseByDefault`.
        allow_disk_use: bool,
        /// Number of documents per batch (`batchSize`). Defaults to the server's choice: 101
        /// documents in the first batch, up to 16 MiB in each later one.
        #[serde(skip_serializing)]
        batch_size: u32,
        /// Skips schema validation (`bypassDocumentValidation`) by `$out` and `$merge` if `true`.
        /// Defaults to `false`.
        bypass_document_validation: bool,
        /// Collation for string comparison (`collation`). Defaults to the collation of the
        /// collection. See [collation](https://www.mongodb.com/docs/manual/reference/collation/).
        collation: Collation,
        /// Comment attached to the command (`comment`). It appears in the server's log, the
        /// profiler and `$currentOp`. Defaults to none.
        comment: Bson,
        /// Index to use (`hint`), by key pattern or by name. By default the query planner chooses.
        hint: Hint,
        /// Maximum time that the server waits for new documents before it returns an empty batch
        /// (`maxAwaitTimeMS`, sent as `maxTimeMS` of each `getMore`). For pipelines that begin with
        /// `$changeStream`. Defaults to one second on the server.
        #[serde(rename = "maxAwaitTimeMS", with = "crate::serde_helpers::millis", skip_serializing)]
        max_await_time: Duration,
        /// Limit on the server's processing time (`maxTimeMS`). Ignored if a `timeout`
        /// (`timeoutMS`) applies. Defaults to no limit.
        #[serde(rename = "maxTimeMS", with = "crate::serde_helpers::millis")]
        max_time: Duration,
        /// Read concern (`readConcern`). Defaults to the read concern of the collection or
        /// database. See
        /// [read concern](https://www.mongodb.com/docs/manual/reference/read-concern/).
        #[serde(skip_serializing)]
        read_concern: ReadConcern,
        /// Read preference (`readPreference`), or a predicate that selects servers. Defaults to
        /// that of the collection or database. See
        /// [read preference](https://www.mongodb.com/docs/manual/core/read-preference/).
        #[serde(rename = "readPreference", skip_serializing)]
        selection_criteria: SelectionCriteria,
        /// Write concern (`writeConcern`) of `$out` and `$merge`. Defaults to the write concern of
        /// the collection or database. See
        /// [write concern](https://www.mongodb.com/docs/manual/reference/write-concern/).
        #[serde(skip_serializing)]
        write_concern: WriteConcern,
        /// Scope of the time-out (`timeoutMode`): the whole life of the cursor, or each iteration.
        /// Requires a `timeout`, set here or inherited. Defaults to
        /// [`CursorLifetime`](crate::options::TimeoutMode::CursorLifetime).
        #[serde(skip)]
        timeout_mode: TimeoutMode,
        /// Variables (`let`) for the pipeline, used there as `$$name`. Defaults to none.
        #[serde(rename = "let")]
        let_vars: Document,
    }
}

options! {
    /// Options of [`count_documents`](crate::Collection::count_documents).
    /// See [`$group`](https://www.mongodb.com/docs/manual/reference/operator/aggregation/group/).
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// use steadfast::{bson::doc, options::CountOptions};
    ///
    /// let options = CountOptions::builder().limit(1000).build();
    /// let count = books.count_documents(doc! { "year": 1949 }).with_options(options).await?;
    /// # Ok(()) }
    /// ```
    pub struct CountOptions, CountOptionsBuilder, with timeout {
        /// Index to use (`hint`), by key pattern or by name. By default the query planner chooses.
        hint: Hint,
        /// Maximum number of documents to count (`limit`). Defaults to no limit.
        #[serde(skip_serializing)]
        limit: u64,
        /// Limit on the server's processing time (`maxTimeMS`). Ignored if a `timeout`
        /// (`timeoutMS`) applies. Defaults to no limit.
        #[serde(rename = "maxTimeMS", with = "crate::serde_helpers::millis")]
        max_time: Duration,
        /// Number of documents to skip before counting (`skip`). Defaults to 0.
        #[serde(skip_serializing)]
        skip: u64,
        /// Collation for string comparison (`collation`). Defaults to the collation of the
        /// collection. See [collation](https://www.mongodb.com/docs/manual/reference/collation/).
        collation: Collation,
        /// Read preference (`readPreference`), or a predicate that selects servers. Defaults to
        /// that of the collection. See
        /// [read preference](https://www.mongodb.com/docs/manual/core/read-preference/).
        #[serde(rename = "readPreference", skip_serializing)]
        selection_criteria: SelectionCriteria,
        /// Read concern (`readConcern`). Defaults to the read concern of the collection. See
        /// [read concern](https://www.mongodb.com/docs/manual/reference/read-concern/).
        #[serde(skip_serializing)]
        read_concern: ReadConcern,
        /// Comment attached to the command (`comment`). It appears in the server's log, the
        /// profiler and `$currentOp`. Defaults to none.
        comment: Bson,
    }
}

options! {
    /// Options of [`estimated_document_count`](crate::Collection::estimated_document_count). See
    /// the [`count`](https://www.mongodb.com/docs/manual/reference/command/count/) command.
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// use std::time::Duration;
    /// use steadfast::options::EstimatedDocumentCountOptions;
    ///
    /// let options = EstimatedDocumentCountOptions::builder().max_time(Duration::from_secs(1)).build();
    /// let count = books.estimated_document_count().with_options(options).await?;
    /// # Ok(()) }
    /// ```
    pub struct EstimatedDocumentCountOptions, EstimatedDocumentCountOptionsBuilder, with timeout {
        /// Limit on the server's processing time (`maxTimeMS`). Ignored if a `timeout`
        /// (`timeoutMS`) applies. Defaults to no limit.
        #[serde(rename = "maxTimeMS", with = "crate::serde_helpers::millis")]
        max_time: Duration,
        /// Read preference (`readPreference`), or a predicate that selects servers. Defaults to
        /// that of the collection. See
        /// [read preference](https://www.mongodb.com/docs/manual/core/read-preference/).
        #[serde(rename = "readPreference", skip_serializing)]
        selection_criteria: SelectionCriteria,
        /// Read concern (`readConcern`). Defaults to the read concern of the collection. See
        /// [read concern](https://www.mongodb.com/docs/manual/reference/read-concern/).
        #[serde(skip_serializing)]
        read_concern: ReadConcern,
        /// Comment attached to the command (`comment`). It appears in the server's log, the
        /// profiler and `$currentOp`. Defaults to none.
        comment: Bson,
    }
}

options! {
    /// Options of [`distinct`](crate::Collection::distinct). See the
    /// [`distinct`](https://www.mongodb.com/docs/manual/reference/command/distinct/) command.
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// use steadfast::{bson::doc, options::{Collation, DistinctOptions}};
    ///
    /// let english = Collation::builder().locale("en").build();
    /// let options = DistinctOptions::builder().collation(english).build();
    /// let authors = books.distinct("author", doc! {}).with_options(options).await?;
    /// # Ok(()) }
    /// ```
    pub struct DistinctOptions, DistinctOptionsBuilder, with timeout {
        /// Limit on the server's processing time (`maxTimeMS`). Ignored if a `timeout`
        /// (`timeoutMS`) applies. Defaults to no limit.
        #[serde(rename = "maxTimeMS", with = "crate::serde_helpers::millis")]
        max_time: Duration,
        /// Read preference (`readPreference`), or a predicate that selects servers. Defaults to
        /// that of the collection. See
        /// [read preference](https://www.mongodb.com/docs/manual/core/read-preference/).
        #[serde(rename = "readPreference", skip_serializing)]
        selection_criteria: SelectionCriteria,
        /// Read concern (`readConcern`). Defaults to the read concern of the collection. See
        /// [read concern](https://www.mongodb.com/docs/manual/reference/read-concern/).
        #[serde(skip_serializing)]
        read_concern: ReadConcern,
        /// Collation for string comparison (`collation`). Defaults to the collation of the
        /// collection. See [collation](https://www.mongodb.com/docs/manual/reference/collation/).
        collation: Collation,
        /// Comment attached to the command (`comment`). It appears in the server's log, the
        /// profiler and `$currentOp`. Defaults to none.
        comment: Bson,
        /// Index to use (`hint`), by key pattern or by name. By default the query planner chooses.
        /// Requires MongoDB 7.1 or later.
        hint: Hint,
    }
}
