//! Options of change streams.

use std::time::Duration;

use bson::{Bson, Timestamp};
use steadfast_core::{concern::ReadConcern, selection::SelectionCriteria};

use super::Collation;
use crate::{resume_token::ResumeToken, serde_helpers::words};

options! {
    /// Options of [`Collection::watch`](crate::Collection::watch),
    /// [`Database::watch`](crate::Database::watch) and [`Client::watch`](crate::Client::watch). See
    /// [`$changeStream`](https://www.mongodb.com/docs/manual/reference/operator/aggregation/changeStream/).
    ///
    /// ```no_run
    /// # async fn run(books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// use steadfast::options::{ChangeStreamOptions, FullDocumentType};
    ///
    /// let options = ChangeStreamOptions::builder().full_document(FullDocumentType::UpdateLookup).build();
    /// let changes = books.watch().with_options(options).await?;
    /// # Ok(()) }
    /// ```
    pub struct ChangeStreamOptions, ChangeStreamOptionsBuilder, with timeout {
        /// Post-image in update events (`fullDocument`). By default, an update event has only the
        /// changed fields.
        full_document: FullDocumentType,
        /// Pre-image in events (`fullDocumentBeforeChange`). Defaults to none. The collection has
        /// to be created with `changeStreamPreAndPostImages`.
        full_document_before_change: FullDocumentBeforeChangeType,
        /// Cluster time to start at (`startAtOperationTime`). Events at or after it are returned.
        /// Mutually exclusive with `resume_after` and `start_after`. Defaults to none.
        start_at_operation_time: Timestamp,
        /// Resume token of the event to start after (`startAfter`). Unlike `resume_after`, it also
        /// accepts the token of an invalidate event. Defaults to none.
        start_after: ResumeToken,
        /// Maximum time that the server waits for new events before it returns an empty batch
        /// (`maxAwaitTimeMS`, sent as `maxTimeMS` of each `getMore`). Defaults to one second on the
        /// server.
        #[serde(rename = "maxAwaitTimeMS", with = "crate::serde_helpers::millis", skip_serializing)]
        max_await_time: Duration,
        /// Number of events per batch (`batchSize`). Defaults to the server's choice.
        #[serde(skip_serializing)]
        batch_size: u32,
        /// Collation for string comparison in the pipeline (`collation`). Defaults to binary
        /// comparison, not to the collation of the collection. See
        /// [collation](https://www.mongodb.com/docs/manual/reference/collation/).
        #[serde(skip_serializing)]
        collation: Collation,
        /// Read concern (`readConcern`). Defaults to that of the collection, database or client.
        /// Servers support `majority` only. See
        /// [read concern](https://www.mongodb.com/docs/manual/reference/read-concern/).
        #[serde(skip_serializing)]
        read_concern: ReadConcern,
        /// Read preference (`readPreference`), or a predicate that selects servers, also for each
        /// resumption. Defaults to that of the collection, database or client. See
        /// [read preference](https://www.mongodb.com/docs/manual/core/read-preference/).
        #[serde(rename = "readPreference", skip_serializing)]
        selection_criteria: SelectionCriteria,
        /// Returns expanded events (`showExpandedEvents`) if `true`, such as the creation of
        /// collections and indexes. Requires MongoDB 6.0 or later. Defaults to `false`. See
        /// [expanded events](https://www.mongodb.com/docs/manual/reference/change-events/).
        show_expanded_events: bool,
        /// Comment attached to the command (`comment`). It appears in the server's log, the
        /// profiler and `$currentOp`. Defaults to none.
        #[serde(skip_serializing)]
        comment: Bson,
    } by hand {
        /// Resume token of the event to start after (`resumeAfter`). Mutually exclusive with
        /// `start_after` and `start_at_operation_time`. Defaults to none.
        resume_after: ResumeToken,
    }
}

/// Post-image in the update events of a change stream (`fullDocument`).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FullDocumentType {
    /// Current document at the time of the event's delivery (`updateLookup`). Later updates may be
    /// included.
    UpdateLookup,
    /// Post-image if the server has stored one (`whenAvailable`), otherwise none.
    WhenAvailable,
    /// Post-image (`required`). The change stream fails if the server has not stored one.
    Required,
    /// Value without a variant in this driver. Sent as is.
    Other(String),
}

words!(FullDocumentType {
    UpdateLookup = "updateLookup", WhenAvailable = "whenAvailable", Required = "required"
});

/// Pre-image in the events of a change stream (`fullDocumentBeforeChange`).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FullDocumentBeforeChangeType {
    /// Pre-image if the server has stored one (`whenAvailable`), otherwise none.
    WhenAvailable,
    /// Pre-image (`required`). The change stream fails if the server has not stored one.
    Required,
    /// No pre-image (`off`).
    Off,
    /// Value without a variant in this driver. Sent as is.
    Other(String),
}

words!(FullDocumentBeforeChangeType {
    WhenAvailable = "whenAvailable", Required = "required", Off = "off"
});

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    #[test]
    fn unknown_values_are_sent_unchanged() {
        let given = doc! {
            "fullDocument": "whenAvailable", "fullDocumentBeforeChange": "off",
            "resumeAfter": { "_data": "00" }, "showExpandedEvents": true,
        };
        let options: ChangeStreamOptions = bson::deserialize_from_document(given.clone()).unwrap();
        assert_eq!(options.full_document, Some(FullDocumentType::WhenAvailable));
        assert_eq!(options.full_document_before_change, Some(FullDocumentBeforeChangeType::Off));
        assert_eq!(bson::serialize_to_document(&options).unwrap().len(), given.len());

        let newer = doc! { "fullDocument": "dreamt", "fullDocumentBeforeChange": "foreseen" };
        let options: ChangeStreamOptions = bson::deserialize_from_document(newer.clone()).unwrap();
        assert_eq!(options.full_document, Some(FullDocumentType::Other("dreamt".to_owned())));
        assert_eq!(bson::serialize_to_document(&options).unwrap(), newer);
    }
}
