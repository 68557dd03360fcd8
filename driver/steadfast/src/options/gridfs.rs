//! Options of GridFS buckets, uploads and downloads.

use std::time::Duration;

use bson::Document;
use steadfast_core::{
    concern::{ReadConcern, WriteConcern},
    selection::SelectionCriteria,
};

use super::{FindOneOptions, FindOptions};

options! {
    /// Options of a [`GridFsBucket`](crate::gridfs::GridFsBucket). See
    /// [GridFS](https://www.mongodb.com/docs/manual/core/gridfs/).
    ///
    /// ```no_run
    /// # async fn run(database: steadfast::Database) -> steadfast::error::Result<()> {
    /// use steadfast::options::GridFsBucketOptions;
    ///
    /// let options = GridFsBucketOptions::builder().bucket_name("scans".to_owned()).build();
    /// let bucket = database.gridfs_bucket(options);
    /// # Ok(()) }
    /// ```
    pub struct GridFsBucketOptions, GridFsBucketOptionsBuilder {
        /// Name of the bucket (`bucketName`), the prefix of the collections `<name>.files` and
        /// `<name>.chunks`. Defaults to `fs`.
        bucket_name: String,
        /// Size of a chunk in bytes (`chunkSizeBytes`). Defaults to 255 KiB.
        chunk_size_bytes: u32,
        /// Write concern (`writeConcern`). Defaults to the write concern of the database. See
        /// [write concern](https://www.mongodb.com/docs/manual/reference/write-concern/).
        write_concern: WriteConcern,
        /// Read concern (`readConcern`). Defaults to the read concern of the database. See
        /// [read concern](https://www.mongodb.com/docs/manual/reference/read-concern/).
        read_concern: ReadConcern,
        /// Read preference (`readPreference`), or a predicate that selects servers. Defaults to
        /// that of the database. See
        /// [read preference](https://www.mongodb.com/docs/manual/core/read-preference/).
        #[serde(rename = "readPreference", skip_serializing)]
        selection_criteria: SelectionCriteria,
    }
}

options! {
    /// Options of [`open_upload_stream`](crate::gridfs::GridFsBucket::open_upload_stream).
    /// See [GridFS](https://www.mongodb.com/docs/manual/core/gridfs/).
    ///
    /// ```no_run
    /// # async fn run(bucket: steadfast::gridfs::GridFsBucket) -> steadfast::error::Result<()> {
    /// use steadfast::{bson::doc, options::GridFsUploadOptions};
    ///
    /// let options = GridFsUploadOptions::builder().metadata(doc! { "type": "image/png" }).build();
    /// let upload = bucket.open_upload_stream("cover.png").with_options(options).await?;
    /// # Ok(()) }
    /// ```
    pub struct GridFsUploadOptions, GridFsUploadOptionsBuilder, with timeout {
        /// Size of a chunk of this file in bytes (`chunkSizeBytes`). Defaults to that of the
        /// bucket.
        chunk_size_bytes: u32,
        /// User data stored with the file (`metadata`). Defaults to none.
        metadata: Document,
    }
}

options! {
    /// Options of
    /// [`open_download_stream_by_name`](crate::gridfs::GridFsBucket::open_download_stream_by_name).
    /// See [GridFS](https://www.mongodb.com/docs/manual/core/gridfs/).
    ///
    /// ```no_run
    /// # async fn run(bucket: steadfast::gridfs::GridFsBucket) -> steadfast::error::Result<()> {
    /// use steadfast::options::GridFsDownloadByNameOptions;
    ///
    /// let oldest = GridFsDownloadByNameOptions::builder().revision(0).build();
    /// let download = bucket.open_download_stream_by_name("cover.png").with_options(oldest).await?;
    /// # Ok(()) }
    /// ```
    pub struct GridFsDownloadByNameOptions, GridFsDownloadByNameOptionsBuilder, with timeout {
        /// Revision of the file (`revision`): 0 is the oldest file with the name, 1 the second
        /// oldest; -1 is the newest, -2 the second newest. Defaults to -1.
        revision: i32,
    }
}

options! {
    /// Options of [`GridFsBucket::find`](crate::gridfs::GridFsBucket::find).
    /// See [GridFS](https://www.mongodb.com/docs/manual/core/gridfs/).
    ///
    /// ```no_run
    /// # async fn run(bucket: steadfast::gridfs::GridFsBucket) -> steadfast::error::Result<()> {
    /// use steadfast::{bson::doc, options::GridFsFindOptions};
    ///
    /// let newest = GridFsFindOptions::builder().sort(doc! { "uploadDate": -1 }).limit(10).build();
    /// let files = bucket.find(doc! {}).with_options(newest).await?;
    /// # Ok(()) }
    /// ```
    pub struct GridFsFindOptions, GridFsFindOptionsBuilder, with timeout {
        /// Allows the server to sort in temporary files (`allowDiskUse`) if `true`, once a sort
        /// exceeds 100 MB of memory. Defaults to the server's parameter `allowDiskUseByDefault`.
        allow_disk_use: bool,
        /// Number of entries per batch (`batchSize`). Defaults to the server's choice.
        batch_size: u32,
        /// Maximum number of files to return (`limit`). Zero means no limit. Defaults to no limit.
        limit: i64,
        /// Limit on the server's processing time (`maxTimeMS`). Ignored if a `timeout`
        /// (`timeoutMS`) applies. Defaults to no limit.
        #[serde(rename = "maxTimeMS", with = "crate::serde_helpers::millis")]
        max_time: Duration,
        /// Disables the server's idle cursor timeout (`noCursorTimeout`) if `true`. Defaults to
        /// `false`: a server closes a cursor after 10 minutes without a `getMore`.
        no_cursor_timeout: bool,
        /// Number of files to skip (`skip`). Defaults to 0.
        skip: u64,
        /// Sort order of the files (`sort`). Defaults to the order of storage.
        sort: Document,
    }
}

impl From<GridFsFindOptions> for FindOptions {
    fn from(files: GridFsFindOptions) -> Self {
        Self {
            allow_disk_use: files.allow_disk_use,
            batch_size: files.batch_size,
            timeout: files.timeout,
            limit: files.limit,
            max_time: files.max_time,
            no_cursor_timeout: files.no_cursor_timeout,
            skip: files.skip,
            sort: files.sort,
            ..Self::default()
        }
    }
}

options! {
    /// Options of [`GridFsBucket::find_one`](crate::gridfs::GridFsBucket::find_one).
    /// See [GridFS](https://www.mongodb.com/docs/manual/core/gridfs/).
    ///
    /// ```no_run
    /// # async fn run(bucket: steadfast::gridfs::GridFsBucket) -> steadfast::error::Result<()> {
    /// use steadfast::{bson::doc, options::GridFsFindOneOptions};
    ///
    /// let newest = GridFsFindOneOptions::builder().sort(doc! { "uploadDate": -1 }).build();
    /// let file = bucket.find_one(doc! {}).with_options(newest).await?;
    /// # Ok(()) }
    /// ```
    pub struct GridFsFindOneOptions, GridFsFindOneOptionsBuilder, with timeout {
        /// Limit on the server's processing time (`maxTimeMS`). Ignored if a `timeout`
        /// (`timeoutMS`) applies. Defaults to no limit.
        #[serde(rename = "maxTimeMS", with = "crate::serde_helpers::millis")]
        max_time: Duration,
        /// Number of files to skip (`skip`). Defaults to 0.
        skip: u64,
        /// Sort order (`sort`). The first file in this order is returned. Defaults to the order of
        /// storage.
        sort: Document,
    }
}

impl From<GridFsFindOneOptions> for FindOneOptions {
    fn from(file: GridFsFindOneOptions) -> Self {
        let GridFsFindOneOptions { timeout, max_time, skip, sort } = file;
        Self { timeout, max_time, skip, sort, ..Self::default() }
    }
}
