//! How files are kept in a GridFS bucket, found and read.

use std::time::Duration;

use bson::Document;
use steadfast_core::{
    concern::{ReadConcern, WriteConcern},
    selection::SelectionCriteria,
};

use super::{FindOneOptions, FindOptions};

options! {
    /// What a [`GridFsBucket`](crate::gridfs::GridFsBucket) is called, and its defaults.
    pub struct GridFsBucketOptions, GridFsBucketOptionsBuilder {
        /// Its name, with which those of its two collections begin. By default `fs`.
        bucket_name: String,
        /// How many bytes of a file go into a document. By default 255 KiB.
        chunk_size_bytes: u32,
        /// How durable writes must be; by default what the database says.
        write_concern: WriteConcern,
        /// What reads may see; by default what the database says.
        read_concern: ReadConcern,
        /// Which servers reads go to; by default what the database says.
        #[serde(rename = "readPreference", skip_serializing)]
        selection_criteria: SelectionCriteria,
    }
}

options! {
    /// How a file is uploaded.
    pub struct GridFsUploadOptions, GridFsUploadOptionsBuilder, with timeout {
        /// How many bytes of the file go into a document; by default what the bucket says.
        chunk_size_bytes: u32,
        /// What the application wants to note of the file.
        metadata: Document,
    }
}

options! {
    /// Which of the files with the same name is downloaded.
    pub struct GridFsDownloadByNameOptions, GridFsDownloadByNameOptionsBuilder, with timeout {
        /// Which revision: 0 is the oldest file with the name, 1 the second oldest and so on; -1 is
        /// the newest, -2 the second newest and so on. By default the newest.
        revision: i32,
    }
}

options! {
    /// How the files of a bucket are [found](crate::gridfs::GridFsBucket::find).
    pub struct GridFsFindOptions, GridFsFindOptionsBuilder, with timeout {
        /// Whether the server may sort on disk what does not fit into its memory.
        allow_disk_use: bool,
        /// How many files come at a time.
        batch_size: u32,
        /// How many files to return at most.
        limit: i64,
        /// How long the server may work on the query.
        #[serde(rename = "maxTimeMS", with = "crate::serde_helpers::millis")]
        max_time: Duration,
        /// Whether the server keeps the cursor however long nobody asks it for more.
        no_cursor_timeout: bool,
        /// How many files to leave out at the beginning.
        skip: u64,
        /// The order of the files.
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
    /// How a file of a bucket is [found](crate::gridfs::GridFsBucket::find_one).
    pub struct GridFsFindOneOptions, GridFsFindOneOptionsBuilder, with timeout {
        /// How long the server may work on the query.
        #[serde(rename = "maxTimeMS", with = "crate::serde_helpers::millis")]
        max_time: Duration,
        /// How many files to leave out at the beginning.
        skip: u64,
        /// Of several files, the first in this order is returned.
        sort: Document,
    }
}

impl From<GridFsFindOneOptions> for FindOneOptions {
    fn from(file: GridFsFindOneOptions) -> Self {
        let GridFsFindOneOptions { timeout, max_time, skip, sort } = file;
        Self { timeout, max_time, skip, sort, ..Self::default() }
    }
}
