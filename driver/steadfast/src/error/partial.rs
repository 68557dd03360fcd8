//! Partial results of bulk writes that failed.

use serde::Serialize;

use crate::write_results::{BulkWriteResult, SummaryBulkWriteResult, VerboseBulkWriteResult};

/// Partial result of a bulk write that failed.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum PartialBulkWriteResult {
    /// Numbers of documents written by a bulk write of a [client](crate::Client::bulk_write) or a
    /// [collection](crate::Collection::bulk_write).
    Summary(SummaryBulkWriteResult),
    /// Result of a client's bulk write with
    /// [`verbose_results`](crate::action::BulkWrite::verbose_results).
    Verbose(VerboseBulkWriteResult),
}

impl PartialBulkWriteResult {
    /// Returns the numbers of documents written, for any variant.
    pub fn summary(&self) -> SummaryBulkWriteResult {
        match self {
            Self::Summary(summary) => summary.clone(),
            Self::Verbose(verbose) => verbose.summary.clone(),
        }
    }
}

impl From<&BulkWriteResult> for PartialBulkWriteResult {
    fn from(result: &BulkWriteResult) -> Self {
        let signed = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        Self::Summary(SummaryBulkWriteResult {
            acknowledged: true,
            inserted_count: signed(result.inserted_count),
            matched_count: signed(result.matched_count),
            modified_count: signed(result.modified_count),
            upserted_count: signed(result.upserted_count),
            deleted_count: signed(result.deleted_count),
        })
    }
}
