//! Counting together what the batches of a client's bulk write did.

use std::collections::BTreeMap;

use bson::{Bson, Document, RawDocument, RawDocumentBuf};
use serde::Deserialize;
use steadfast_core::address::ServerAddress;

use super::{Batch, Operations};
use crate::{
    command::Reply,
    error::{
        BulkWriteError, Error, ErrorKind, History, Outcome, PartialBulkWriteResult,
        RETRYABLE_WRITE_ERROR, Result, WriteConcernError, WriteError,
        command_error::{labels, parse},
    },
    operation::{bulk::Evidence, write::Verb},
    results::{DeleteResult, InsertOneResult, UpdateResult, VerboseBulkWriteResult},
    serde_helpers::number,
};

/// Results of the batches with replies so far.
#[derive(Debug)]
pub(crate) struct Tally {
    ordered: bool,
    verbose: bool,
    result: VerboseBulkWriteResult,
    write_errors: BTreeMap<usize, WriteError>,
    write_concern_errors: Vec<WriteConcernError>,
    labels: Vec<String>,
    told: Option<(RawDocumentBuf, ServerAddress)>,
    history: Option<History>,
    /// `true` if a server replied to a batch.
    answered: bool,
    /// `true` if a batch was sent without acknowledgement (`w: 0`).
    sent_unacknowledged: bool,
    /// `true` if a server reported an executed write.
    carried_out: bool,
}

/// Counts of a reply, for all writes of a batch.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Counts {
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
struct Item {
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
    upserted: Option<Upserted>,
}

/// The document that an upsert inserted.
#[derive(Debug, Deserialize)]
struct Upserted {
    #[serde(rename = "_id")]
    id: Bson,
}

impl Tally {
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
            told: None,
            history: None,
            answered: false,
            sent_unacknowledged: false,
            carried_out: false,
        }
    }

    /// Notes that a batch was sent whose reply is not awaited.
    pub(crate) fn note_unacknowledged(&mut self) {
        self.sent_unacknowledged = true;
    }

    /// Counts in the reply to a batch, but for what its cursor says of single writes.
    pub(crate) fn count(&mut self, batch: &Batch, reply: &Reply) -> Result<()> {
        if let Some(history) = &reply.history {
            self.history.get_or_insert_default().append(history);
        }
        if reply.labelled_retryable {
            self.labels.push(RETRYABLE_WRITE_ERROR.to_owned());
        }
        self.count_body(batch, reply.body(), &reply.server.address)
            .map_err(|error| reply.blame(error))
    }

    pub(super) fn count_body(
        &mut self,
        batch: &Batch,
        body: &RawDocument,
        server: &ServerAddress,
    ) -> Result<()> {
        self.answered = true;
        let counts: Counts = parse(body)?;
        if counts.n_errors > 0 || counts.write_concern_error.is_some() {
            self.labels.extend(labels(body));
            self.told = Some((body.to_owned(), server.clone()));
        }
        // In order, only the place of the error tells whether there was any before it.
        self.carried_out |= match counts.n_errors {
            0 => true,
            errors => !self.ordered && errors < batch.len() as u64,
        };
        let summary = &mut self.result.summary;
        summary.inserted_count += signed(counts.n_inserted);
        summary.matched_count += signed(counts.n_matched);
        summary.modified_count += signed(counts.n_modified);
        summary.upserted_count += signed(counts.n_upserted);
        summary.deleted_count += signed(counts.n_deleted);
        // Each batch may have its own, and none may hide another (pitfall 3).
        self.write_concern_errors.extend(counts.write_concern_error);
        Ok(())
    }

    /// Counts in what a batch's cursor says of one write.
    pub(crate) fn count_item(
        &mut self,
        operations: &Operations,
        batch: &Batch,
        item: &RawDocument,
    ) -> Result<()> {
        let item: Item = parse(item)?;
        let index = usize::try_from(item.idx).ok().filter(|index| *index < batch.len());
        let Some(within) = index else {
            return Err(Error::invalid_response(format!(
                "the reply to {} writes tells of one with the index {}",
                batch.len(),
                item.idx
            )));
        };
        let index = batch.indexes.start + within;
        if item.ok == 1 {
            self.carried_out = true;
            if self.verbose {
                self.note_result(operations, index, item);
            }
            return Ok(());
        }
        self.carried_out |= self.ordered && within > 0;
        let Item { code, code_name, errmsg: message, key_pattern, key_value, .. } = item;
        let details = item.err_info;
        let error = WriteError { code, code_name, message, details, key_pattern, key_value };
        self.write_errors.insert(index, error);
        Ok(())
    }

    fn note_result(&mut self, operations: &Operations, index: usize, item: Item) {
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

    /// Returns `true` if there is a write error, after which an ordered operation sends nothing
    /// more.
    pub(crate) fn has_write_errors(&self) -> bool {
        !self.write_errors.is_empty()
    }

    /// Returns the result of the `bulk_write`. `broken` is the error that ended it.
    ///
    /// An error before the first reply is returned unchanged. A later one is the source of an error
    /// with the partial result.
    pub(crate) fn conclude(self, broken: Option<Error>) -> Result<VerboseBulkWriteResult> {
        let has_errors = self.has_write_errors() || !self.write_concern_errors.is_empty();
        match broken {
            Some(broken) if !self.answered => {
                return Err(match self.sent_unacknowledged {
                    true => broken.within_call(Outcome::MaybeApplied, true),
                    false => broken,
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
            write_errors: self.write_errors,
            partial_result: self.carried_out.then_some(partial),
        };
        let Self { labels, told, history, .. } = self;
        Err(Evidence { labels, told, history, broken }.of(ErrorKind::BulkWrite(error)))
    }
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
