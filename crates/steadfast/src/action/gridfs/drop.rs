//! Dropping buckets.

use std::time::Duration;

use crate::{error::Result, gridfs::GridFsBucket};

impl GridFsBucket {
    /// Drops the bucket with all its files. It is no error if it is not there.
    pub fn drop(&self) -> Drop<'_> {
        Drop { bucket: self, timeout: None }
    }
}

/// Drops a bucket. See [`GridFsBucket::drop`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct Drop<'a> {
    bucket: &'a GridFsBucket,
    timeout: Option<Duration>,
}

timeout!(['a] Drop<'a>);

impl Drop<'_> {
    async fn execute(self) -> Result<()> {
        let bucket = self.bucket.timed(self.timeout);
        bucket.forget_indexes();
        bucket.files_in_time()?.drop().await?;
        bucket.chunks_in_time()?.drop().await
    }
}

awaitable!(['a] Drop<'a> => ());
