//! Results of the batches of a client's bulk write.

use std::collections::BTreeMap;

use bson::{Bson, Document, RawDocument, RawDocumentBuf};
use serde::Deserialize;
use steadfast_core::address::ServerAddress;

use super::{ClientBulkBatch, Operations};
use crate::{
    command::Reply,
    error::{
        BulkWriteError, Error, ErrorKind, History, Outcome, PartialBulkWriteResult,
        RETRYABLE_WRITE_ERROR, Result, WriteConcernError, WriteError,
        command_error::{labels, parse},
    },
    operation::{bulk::BulkErrorDetails, write::Verb},
    results::{DeleteResult, InsertOneResult, UpdateResult, VerboseBulkWriteResult},
    serde_helpers::number,
};

/// Results of the batches with replies so far.
#[derive(Debug)]
pub(crate) struct ClientBulkTally {
    ordered: bool,
    verbose: bool,
    result: VerboseBulkWriteResult,
    write_errors: BTreeMap<usize, WriteError>,
    write_concern_errors: Vec<WriteConcernError>,
    labels: Vec<String>,
    error_reply: Option<(RawDocumentBuf, ServerAddress)>,
    history: Option<History>,
    /// `true` if a server replied to a batch.
    has_reply: bool,
    /// `true` if a batch was sent without acknowledgement (`w: 0`).
    sent_unacknowledged: bool,
    /// `true` if a server reported an executed write.
    any_executed: bool,
}

/// Counts of a reply, for all writes of a batch.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct BulkWriteCounts {
    #[serde(deserialize_with = "number::required")]
    n_errors: u64,
    #[serde(deserialize_with = "number::required")]
    n_inserted: u64,
    #[serde(deserialize_with = "number::required")]
    n_matched: u64,
    #[serde(deserialize_with = "number::required")]
    n_modified: u64,
    #[serde(deserialize_with = "number::required")]
    n_upserted: u64,
    #[serde(deserialize_with = "number::required")]
    n_deleted: u64,
    write_concern_error: Option<WriteConcernError>,
}

/// Result of one write, from the cursor of a reply.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct BulkWriteItem {
    #[serde(deserialize_with = "number::required")]
    ok: u64,
    /// Index in the batch.
    #[serde(deserialize_with = "number::required")]
    idx: u64,
    #[serde(default)]
    code: i32,
    code_name: Option<String>,
    #[serde(default)]
    errmsg: String,
    err_info: Option<Document>,
    key_pattern: Option<Document>,
    key_value: Option<Document>,
    #[serde(default, deserialize_with = "number::optional")]
    n: Option<u64>,
    #[serde(default, deserialize_with = "number::optional")]
    n_modified: Option<u64>,
    upserted: Option<UpsertedItem>,
}

/// Document inserted by an upsert.
#[derive(Debug, Deserialize)]
struct UpsertedItem {
    #[serde(rename = "_id")]
    id: Bson,
}

impl ClientBulkTally {
    pub(crate) fn new(ordered: bool, verbose: bool, acknowledged: bool) -> Self {
        let mut result = VerboseBulkWriteResult::default();
        result.summary.acknowledged = acknowledged;
        Self {
            ordered,
            verbose,
            result,
            write_errors: BTreeMap::new(),
            write_concern_errors: Vec::new(),
            labels: Vec::new(),
            error_reply: None,
            history: None,
            has_reply: false,
            sent_unacknowledged: false,
            any_executed: false,
        }
    }

    /// Records an unacknowledged batch.
    pub(crate) fn record_unacknowledged(&mut self) {
        self.sent_unacknowledged = true;
    }

    /// Adds the counts in the reply to a batch, without the items of its cursor.
    pub(crate) fn count(&mut self, batch: &ClientBulkBatch, reply: &Reply) -> Result<()> {
        if let Some(history) = &reply.history {
            self.history.get_or_insert_default().append(history);
        }
        if reply.labelled_retryable {
            self.labels.push(RETRYABLE_WRITE_ERROR.to_owned());
        }
        self.count_body(batch, reply.body(), &reply.server.address)
            .map_err(|error| reply.with_origin(error))
    }

    pub(super) fn count_body(
        &mut self,
        batch: &ClientBulkBatch,
        body: &RawDocument,
        server: &ServerAddress,
    ) -> Result<()> {
        self.has_reply = true;
        let counts: BulkWriteCounts = parse(body)?;
        if counts.n_errors > 0 || counts.write_concern_error.is_some() {
            self.labels.extend(labels(body));
            self.error_reply = Some((body.to_owned(), server.clone()));
        }
        // In an ordered bulk write the index of the error determines whether writes before it were
        // executed.
        self.any_executed |= match counts.n_errors {
            0 => true,
            errors => !self.ordered && errors < batch.len() as u64,
        };
        let summary = &mut self.result.summary;
        summary.inserted_count += signed(counts.n_inserted);
        summary.matched_count += signed(counts.n_matched);
        summary.modified_count += signed(counts.n_modified);
        summary.upserted_count += signed(counts.n_upserted);
        summary.deleted_count += signed(counts.n_deleted);
        // Each batch can have its own write concern error; all are kept (pitfall 3).
        self.write_concern_errors.extend(counts.write_concern_error);
        Ok(())
    }

    /// Adds an item of a batch's cursor.
    pub(crate) fn count_item(
        &mut self,
        operations: &Operations,
        batch: &ClientBulkBatch,
        item: &RawDocument,
    ) -> Result<()> {
        let item: BulkWriteItem = parse(item)?;
        let index = usize::try_from(item.idx).ok().filter(|index| *index < batch.len());
        let Some(within) = index else {
            return Err(Error::invalid_response(format!(
                "the reply to {} writes contains an item with the index {}",
                batch.len(),
                item.idx
            )));
        };
        let index = batch.indexes.start + within;
        if item.ok == 1 {
            self.any_executed = true;
            if self.verbose {
                self.record_result(operations, index, item);
            }
            return Ok(());
        }
        self.any_executed |= self.ordered && within > 0;
        let BulkWriteItem { code, code_name, errmsg: message, key_pattern, key_value, .. } = item;
        let details = item.err_info;
        let error = WriteError { code, code_name, message, details, key_pattern, key_value };
        self.write_errors.insert(index, error);
        Ok(())
    }

    fn record_result(&mut self, operations: &Operations, index: usize, item: BulkWriteItem) {
        let count = item.n.unwrap_or_default();
        match operations.entries[index].verb {
            Verb::Insert => {
                let inserted_id = operations.id(index);
                self.result.insert_results.insert(index, InsertOneResult { inserted_id });
            }
            Verb::Update => {
                let updated = UpdateResult {
                    matched_count: count,
                    modified_count: item.n_modified.unwrap_or_default(),
                    upserted_id: item.upserted.map(|upserted| upserted.id),
                };
                self.result.update_results.insert(index, updated);
            }
            Verb::Delete => {
                let deleted = DeleteResult { deleted_count: count };
                self.result.delete_results.insert(index, deleted);
            }
        }
    }

    /// Returns `true` if there is a write error, which ends an ordered bulk write.
    pub(crate) fn has_write_errors(&self) -> bool {
        !self.write_errors.is_empty()
    }

    /// Returns the result of the `bulk_write`. `batch_error` is the error that ended it.
    ///
    /// An error before the first reply is returned unchanged. A later one is the source of an error
    /// with the partial result.
    pub(crate) fn conclude(self, batch_error: Option<Error>) -> Result<VerboseBulkWriteResult> {
        let has_errors = self.has_write_errors() || !self.write_concern_errors.is_empty();
        match batch_error {
            Some(batch_error) if !self.has_reply => {
                return Err(match self.sent_unacknowledged {
                    true => batch_error.within_call(Outcome::MaybeApplied, true),
                    false => batch_error,
                });
            }
            None if !has_errors => return Ok(self.result),
            _ => {}
        }
        let partial = match self.verbose {
            true => PartialBulkWriteResult::Verbose(self.result),
            false => PartialBulkWriteResult::Summary(self.result.summary),
        };
        let error = BulkWriteError {
            write_concern_errors: self.write_concern_errors,
            write_errors: self.write_errors.into_iter().collect(),
            partial_result: self.any_executed.then_some(partial),
            partial_collection_result: None,
        };
        let Self { labels, error_reply, history, .. } = self;
        Err(BulkErrorDetails { labels, error_reply, history, batch_error }
            .of(ErrorKind::BulkWrite(error)))
    }
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
