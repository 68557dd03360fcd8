//! How changes are watched.

use std::time::Duration;

use bson::{Bson, Timestamp};
use steadfast_core::{concern::ReadConcern, selection::SelectionCriteria};

use super::Collation;
use crate::{resume_token::ResumeToken, serde_helpers::words};

options! {
    /// How [`watch`](crate::Collection::watch) watches.
    pub struct ChangeStreamOptions, ChangeStreamOptionsBuilder, with timeout {
        /// Whether events of updates show the document as it is after the update. By default they
        /// tell only what changed.
        full_document: FullDocumentType,
        /// Whether events show the document as it was before the change. By default they do not.
        full_document_before_change: FullDocumentBeforeChangeType,
        /// Begins with what happened at this time or after it. Every reply of a server tells such a
        /// time.
        start_at_operation_time: Timestamp,
        /// Begins with what happened after the event of this token, also if that is the one that
        /// ended a stream: the collection was dropped or renamed.
        start_after: ResumeToken,
        /// How long the server waits for an event before it says there is none.
        #[serde(rename = "maxAwaitTimeMS", with = "crate::serde_helpers::millis", skip_serializing)]
        max_await_time: Duration,
        /// How many events come at a time.
        #[serde(skip_serializing)]
        batch_size: u32,
        /// How strings are compared.
        #[serde(skip_serializing)]
        collation: Collation,
        /// What the stream may see; by default what is watched says. Servers take majority only.
        #[serde(skip_serializing)]
        read_concern: ReadConcern,
        /// Which servers it may go to, also when it is resumed; by default what is watched says.
        #[serde(rename = "readPreference", skip_serializing)]
        selection_criteria: SelectionCriteria,
        /// Whether there are events also of what is done to collections and indexes: that they are
        /// made, dropped, changed. From server 6.0 on.
        show_expanded_events: bool,
        /// A note that shows in the server's logs and profiles.
        #[serde(skip_serializing)]
        comment: Bson,
    } by hand {
        /// Begins with what happened after the event of this token.
        resume_after: ResumeToken,
    }
}

/// Whether events of updates show the document as it is after the update.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FullDocumentType {
    /// As it is when the event is sent, which may be later than the update.
    UpdateLookup,
    /// As the update left it, if the server has kept that.
    WhenAvailable,
    /// As the update left it; it is an error if the server has not kept that.
    Required,
    /// What a newer server may know.
    Other(String),
}

words!(FullDocumentType {
    UpdateLookup = "updateLookup", WhenAvailable = "whenAvailable", Required = "required"
});

/// Whether events show the document as it was before the change.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FullDocumentBeforeChangeType {
    /// If the server has kept it.
    WhenAvailable,
    /// Always; it is an error if the server has not kept it.
    Required,
    /// No.
    Off,
    /// What a newer server may know.
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
    fn what_a_newer_server_may_know_is_passed_on() {
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
