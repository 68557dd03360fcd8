//! Results of the batches of a collection's bulk write.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use bson::{RawDocument, RawDocumentBuf};
use steadfast_core::address::ServerAddress;

use super::{BulkErrorDetails, CollectionBulkBatch, InsertedIds, Statements};
use crate::{
    command::Reply,
    error::{
        BulkWriteError, Error, ErrorKind, History, InsertManyError, Outcome,
        PartialBulkWriteResult, RETRYABLE_WRITE_ERROR, Result, WriteConcernError, WriteError,
        command_error::labels,
    },
    operation::write::{Verb, WriteReply},
    results::{BulkWriteResult, InsertManyResult},
};

/// Results of the batches with replies so far.
#[derive(Debug, Default)]
pub(crate) struct CollectionBulkTally {
    /// Sum of the results, without `inserted_ids`.
    result: BulkWriteResult,
    /// Ranges of executed inserts, as positions among the inserts.
    inserted: Vec<Range<usize>>,
    write_errors: BTreeMap<usize, WriteError>,
    write_concern_errors: Vec<WriteConcernError>,
    labels: Vec<String>,
    /// Last reply with an error, and its server.
    error_reply: Option<(RawDocumentBuf, ServerAddress)>,
    /// Failed attempts of batches with error replies.
    history: Option<History>,
    /// `true` if a server reported an executed write.
    any_executed: bool,
    /// `true` if a batch was sent without acknowledgement (`w: 0`).
    sent_unacknowledged: bool,
}

impl CollectionBulkTally {
    /// Adds the reply to a batch.
    pub(crate) fn count(
        &mut self,
        statements: &Statements<'_>,
        batch: &CollectionBulkBatch,
        ordered: bool,
        reply: &Reply,
    ) -> Result<()> {
        let server = &reply.server.address;
        self.count_body(statements, batch, ordered, reply.body(), server)
            .map_err(|error| reply.with_origin(error))?;
        if reply.labelled_retryable {
            self.labels.push(RETRYABLE_WRITE_ERROR.to_owned());
        }
        if let Some(history) = &reply.history {
            self.history.get_or_insert_default().append(history);
        }
        Ok(())
    }

    pub(super) fn count_body(
        &mut self,
        statements: &Statements<'_>,
        batch: &CollectionBulkBatch,
        ordered: bool,
        body: &RawDocument,
        server: &ServerAddress,
    ) -> Result<()> {
        let mut reply = WriteReply::read(body, batch.len())?;
        if !reply.write_errors.is_empty() || reply.write_concern_error.is_some() {
            self.labels.extend(labels(body));
            self.error_reply = Some((body.to_owned(), server.clone()));
        }
        self.any_executed |= any_executed(&reply, batch, ordered);
        self.count_documents(statements, batch, ordered, &mut reply);
        // Each batch can have its own write concern error; all are kept (pitfall 3).
        self.write_concern_errors.extend(reply.write_concern_error);
        for error in reply.write_errors {
            self.write_errors.insert(statements.index(batch, error.index), error.into());
        }
        Ok(())
    }

    fn count_documents(
        &mut self,
        statements: &Statements<'_>,
        batch: &CollectionBulkBatch,
        ordered: bool,
        reply: &mut WriteReply,
    ) {
        match batch.verb {
            Verb::Insert => {
                self.result.inserted_count += reply.count();
                self.record_inserted(reply, batch, ordered);
            }
            Verb::Update => {
                self.result.matched_count += reply.matched_count();
                self.result.modified_count += reply.modified_count();
                for upserted in reply.take_upserted() {
                    self.result.upserted_count += 1;
                    let index = statements.index(batch, upserted.index);
                    self.result.upserted_ids.insert(index, upserted.id);
                }
            }
            Verb::Delete => self.result.deleted_count += reply.count(),
        }
    }

    /// Records the inserted documents of a batch: all without a write error, and in an ordered bulk
    /// write only those before the first write error.
    fn record_inserted(&mut self, reply: &WriteReply, batch: &CollectionBulkBatch, ordered: bool) {
        let failed_indexes: BTreeSet<_> =
            reply.write_errors.iter().map(|error| error.index).collect();
        let Range { mut start, end } = batch.positions;
        for failed in failed_indexes.into_iter().map(|nth| batch.positions.start + nth) {
            self.add_inserted_range(start..failed);
            start = if ordered { end } else { failed + 1 };
        }
        self.add_inserted_range(start..end);
    }

    fn add_inserted_range(&mut self, inserted: Range<usize>) {
        match self.inserted.last_mut() {
            Some(before) if before.end == inserted.start => before.end = inserted.end,
            _ => self.inserted.push(inserted),
        }
    }

    /// Adds an unacknowledged batch. Only the ids of its inserts are known.
    pub(crate) fn count_unacknowledged(&mut self, batch: &CollectionBulkBatch) {
        self.sent_unacknowledged = true;
        if batch.verb == Verb::Insert {
            self.add_inserted_range(batch.positions.clone());
        }
    }

    /// Returns `true` if there is a write error, which ends an ordered bulk write.
    pub(crate) fn has_write_errors(&self) -> bool {
        !self.write_errors.is_empty()
    }

    /// Returns the result of a `bulk_write`. `batch_error` is the error of a batch without a reply.
    pub(crate) fn conclude_bulk_write(
        mut self,
        statements: &Statements<'_>,
        batch_error: Option<Error>,
    ) -> Result<BulkWriteResult> {
        let error_details = self.error_details(batch_error)?;
        let inserted = self.inserted.iter().cloned();
        self.result.inserted_ids =
            inserted.flat_map(|positions| statements.inserted_ids(positions)).collect();
        let Some(error_details) = error_details else { return Ok(self.result) };
        let partial = self.any_executed.then_some(self.result);
        Err(error_details.of(ErrorKind::BulkWrite(BulkWriteError {
            write_concern_errors: self.write_concern_errors,
            write_errors: self.write_errors.into_iter().collect(),
            partial_result: partial.as_ref().map(PartialBulkWriteResult::from),
            partial_collection_result: partial,
        })))
    }

    /// Returns the result of an `insert_many`. `batch_error` is the error of a batch without a reply.
    pub(crate) fn conclude_insert_many(
        mut self,
        ids: InsertedIds<'_>,
        batch_error: Option<Error>,
    ) -> Result<InsertManyResult> {
        let error_details = self.error_details(batch_error)?;
        let inserted_ids = ids.of(&self.inserted);
        let Some(error_details) = error_details else {
            return Ok(InsertManyResult { inserted_ids });
        };
        let write_errors: Vec<_> =
            self.write_errors.into_iter().map(|(index, error)| error.at(index)).collect();
        Err(error_details.of(ErrorKind::InsertMany(InsertManyError {
            write_errors: Some(write_errors).filter(|errors| !errors.is_empty()),
            // The error has one field only: the first write concern error is kept (pitfall 3).
            write_concern_error: self.write_concern_errors.into_iter().next(),
            inserted_ids,
        })))
    }

    /// Returns the details of the operation's error, if there is one. An error before any known
    /// write needs no partial result, and is returned unchanged (pitfall 36).
    fn error_details(&mut self, batch_error: Option<Error>) -> Result<Option<BulkErrorDetails>> {
        let has_errors = self.has_write_errors() || !self.write_concern_errors.is_empty();
        match batch_error {
            Some(batch_error) if !has_errors && !self.any_executed => {
                Err(match self.sent_unacknowledged {
                    true => batch_error.within_call(Outcome::MaybeApplied, true),
                    false => batch_error,
                })
            }
            None if !has_errors => Ok(None),
            batch_error => {
                let (labels, error_reply) =
                    (std::mem::take(&mut self.labels), self.error_reply.take());
                let history = self.history.take();
                Ok(Some(BulkErrorDetails { labels, error_reply, history, batch_error }))
            }
        }
    }
}

/// Returns `true` if a statement of a batch was executed.
fn any_executed(reply: &WriteReply, batch: &CollectionBulkBatch, ordered: bool) -> bool {
    let first_error = reply.write_errors.iter().map(|error| error.index).min();
    match first_error {
        None => true,
        Some(first) if ordered => first > 0,
        Some(_) => reply.write_errors.len() < batch.len(),
    }
}
