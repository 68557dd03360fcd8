//! Removal of buckets.

use std::time::Duration;

use crate::{
    error::{Outcome, Result},
    gridfs::GridFsBucket,
};

impl GridFsBucket {
    /// Drops the bucket with all its files.
    /// See [GridFS](https://www.mongodb.com/docs/manual/core/gridfs/).
    ///
    /// Succeeds without effect if the bucket does not exist.
    ///
    /// ```no_run
    /// # async fn run(bucket: steadfast::gridfs::GridFsBucket) -> steadfast::error::Result<()> {
    /// bucket.drop().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Collection::drop`](crate::Collection::drop). After an error, call it again.
    ///
    /// # Cancellation
    ///
    /// Dropping the future may leave files without chunks or chunks without files. Call the method again.
    pub fn drop(&self) -> Drop<'_> {
        Drop { bucket: self, timeout: None }
    }
}

/// Action that drops a bucket. See [`GridFsBucket::drop`].
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
        bucket.reset_indexes();
        let dropped = bucket.files_with_timeout()?.drop().await;
        dropped.map_err(|error| error.within_call(Outcome::NotSent, false))?;
        let dropped = async { bucket.chunks_with_timeout()?.drop().await }.await;
        dropped.map_err(|error| error.within_call(Outcome::MaybeApplied, true))
    }
}

awaitable!(['a] Drop<'a> => ());
