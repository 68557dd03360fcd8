//! What a bulk write did that failed in part.

use serde::Serialize;

use crate::write_results::{BulkWriteResult, SummaryBulkWriteResult, VerboseBulkWriteResult};

/// What a bulk write did that failed in part.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum PartialBulkWriteResult {
    /// Of a [client](crate::Client::bulk_write).
    Summary(SummaryBulkWriteResult),
    /// Of a client, if it was asked for
    /// [`verbose_results`](crate::action::BulkWrite::verbose_results).
    Verbose(VerboseBulkWriteResult),
    /// Of a [collection](crate::Collection::bulk_write).
    Collection(BulkWriteResult),
}

impl PartialBulkWriteResult {
    /// How many documents were written, whichever it is.
    pub fn summary(&self) -> SummaryBulkWriteResult {
        let signed = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        match self {
            Self::Summary(summary) => summary.clone(),
            Self::Verbose(verbose) => verbose.summary.clone(),
            Self::Collection(result) => SummaryBulkWriteResult {
                acknowledged: true,
                inserted_count: signed(result.inserted_count),
                matched_count: signed(result.matched_count),
                modified_count: signed(result.modified_count),
                upserted_count: signed(result.upserted_count),
                deleted_count: signed(result.deleted_count),
            },
        }
    }

    /// What the bulk write of a collection did; none if it is a client's.
    pub fn of_collection(&self) -> Option<&BulkWriteResult> {
        match self {
            Self::Collection(result) => Some(result),
            Self::Summary(_) | Self::Verbose(_) => None,
        }
    }
}
