//! Deadlines of calls on a bucket, shared by all their commands.

use std::time::Duration;

use bson::Document;

use super::{FilesCollectionDocument, GridFsBucket};
use crate::{
    Collection,
    deadline::{Deadline, TimeLimit},
    error::{Error, Result, TimeSpent},
};

impl GridFsBucket {
    /// Returns the bucket with the deadline of one call, from its own time-out or that of the
    /// database.
    pub(crate) fn timed(&self, own: Option<Duration>) -> Self {
        let limit = TimeLimit::of(own, self.files().timeout());
        let deadline = limit.map(|limit| Deadline::begin(limit.timeout));
        Self { deadline, ..self.clone() }
    }

    /// Returns the bucket with a new deadline of the same time-out.
    pub(super) fn renewed(&self) -> Self {
        Self { deadline: self.deadline.map(Deadline::renewed), ..self.clone() }
    }

    /// Returns the files collection with the remaining time as its time-out.
    pub(crate) fn files_with_timeout(&self) -> Result<Collection<FilesCollectionDocument>> {
        Ok(self.files().with_timeout(self.remaining()?))
    }

    /// Returns the chunks collection with the remaining time as its time-out.
    pub(crate) fn chunks_with_timeout(&self) -> Result<Collection<Document>> {
        Ok(self.chunks().with_timeout(self.remaining()?))
    }

    fn remaining(&self) -> Result<Option<Duration>> {
        let Some(deadline) = self.deadline else { return Ok(None) };
        match deadline.remaining() {
            // A time-out of zero would mean no limit.
            Some(remaining) if remaining.is_zero() => {
                let error = Error::deadline_exceeded(
                    "the deadline passed between two commands of the call",
                );
                Err(deadline.exceeded(error, TimeSpent::default()))
            }
            remaining => Ok(Some(remaining.unwrap_or(Duration::ZERO))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{operation::fixture::database_with, options::DatabaseOptions};

    fn bucket(timeout: Option<Duration>) -> GridFsBucket {
        database_with(DatabaseOptions::builder().timeout(timeout).build()).gridfs_bucket(None)
    }

    #[tokio::test(start_paused = true)]
    async fn commands_of_a_call_share_its_deadline() {
        const MS: Duration = Duration::from_millis(1);
        let files = bucket(Some(100 * MS)).timed(None);
        let remaining = |bucket: &GridFsBucket| bucket.files_with_timeout().unwrap().timeout();
        tokio::time::advance(30 * MS).await;
        assert_eq!(remaining(&files), Some(70 * MS));
        assert_eq!(files.chunks_with_timeout().unwrap().timeout(), Some(70 * MS));
        assert_eq!(remaining(&files.timed(Some(20 * MS))), Some(20 * MS));
        tokio::time::advance(70 * MS).await;
        let error = files.chunks_with_timeout().unwrap_err();
        assert!(error.is_timeout(), "{error}");
        assert_eq!(remaining(&files.renewed()), Some(100 * MS));
        assert_eq!(remaining(&bucket(None).timed(None)), None);
        assert_eq!(remaining(&bucket(Some(Duration::ZERO)).timed(None)), Some(Duration::ZERO));
    }
}
