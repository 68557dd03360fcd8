//! Dropping buckets.

use crate::{error::Result, gridfs::GridFsBucket};

impl GridFsBucket {
    /// Drops the bucket with all its files. It is no error if it is not there.
    pub fn drop(&self) -> Drop<'_> {
        Drop { bucket: self }
    }
}

/// Drops a bucket. See [`GridFsBucket::drop`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct Drop<'a> {
    bucket: &'a GridFsBucket,
}

impl Drop<'_> {
    async fn execute(self) -> Result<()> {
        self.bucket.forget_indexes();
        self.bucket.files().drop().await?;
        self.bucket.chunks().drop().await
    }
}

awaitable!(['a] Drop<'a> => ());
