//! Counting together what the batches of one operation did.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use bson::{RawDocument, RawDocumentBuf};
use steadfast_core::address::ServerAddress;

use super::{Batch, Evidence, InsertedIds, Statements};
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
pub(crate) struct Tally {
    /// Without the `_id`s of what was inserted.
    result: BulkWriteResult,
    /// Ranges of executed inserts, as positions among the inserts.
    inserted: Vec<Range<usize>>,
    write_errors: BTreeMap<usize, WriteError>,
    write_concern_errors: Vec<WriteConcernError>,
    labels: Vec<String>,
    /// The last reply that told of an error, and whose it was.
    told: Option<(RawDocumentBuf, ServerAddress)>,
    /// The attempts at the batches that were answered with errors.
    history: Option<History>,
    /// `true` if a server reported an executed write.
    carried_out: bool,
    /// `true` if a batch was sent without acknowledgement (`w: 0`).
    sent_unacknowledged: bool,
}

impl Tally {
    /// Counts in the reply to a batch.
    pub(crate) fn count(
        &mut self,
        statements: &Statements<'_>,
        batch: &Batch,
        ordered: bool,
        reply: &Reply,
    ) -> Result<()> {
        let server = &reply.server.address;
        self.count_body(statements, batch, ordered, reply.body(), server)
            .map_err(|error| reply.blame(error))?;
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
        batch: &Batch,
        ordered: bool,
        body: &RawDocument,
        server: &ServerAddress,
    ) -> Result<()> {
        let mut reply = WriteReply::read(body, batch.len())?;
        if !reply.write_errors.is_empty() || reply.write_concern_error.is_some() {
            self.labels.extend(labels(body));
            self.told = Some((body.to_owned(), server.clone()));
        }
        self.carried_out |= carried_out(&reply, batch, ordered);
        self.count_documents(statements, batch, ordered, &mut reply);
        // Each batch may have its own, and none may hide another (pitfall 3).
        self.write_concern_errors.extend(reply.write_concern_error);
        for error in reply.write_errors {
            self.write_errors.insert(statements.index(batch, error.index), error.into());
        }
        Ok(())
    }

    fn count_documents(
        &mut self,
        statements: &Statements<'_>,
        batch: &Batch,
        ordered: bool,
        reply: &mut WriteReply,
    ) {
        match batch.verb {
            Verb::Insert => {
                self.result.inserted_count += reply.count();
                self.note_inserted(reply, batch, ordered);
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

    /// Notes which documents of a batch were inserted: in order those before the first that was
    /// refused, otherwise all that were not refused.
    fn note_inserted(&mut self, reply: &WriteReply, batch: &Batch, ordered: bool) {
        let refused: BTreeSet<_> = reply.write_errors.iter().map(|error| error.index).collect();
        let Range { mut start, end } = batch.positions;
        for refused in refused.into_iter().map(|nth| batch.positions.start + nth) {
            self.note_stretch(start..refused);
            start = if ordered { end } else { refused + 1 };
        }
        self.note_stretch(start..end);
    }

    fn note_stretch(&mut self, inserted: Range<usize>) {
        match self.inserted.last_mut() {
            Some(before) if before.end == inserted.start => before.end = inserted.end,
            _ => self.inserted.push(inserted),
        }
    }

    /// Counts in a batch that no reply is awaited of: what was sent is known, and no more.
    pub(crate) fn count_unanswered(&mut self, batch: &Batch) {
        self.sent_unacknowledged = true;
        if batch.verb == Verb::Insert {
            self.note_stretch(batch.positions.clone());
        }
    }

    /// Returns `true` if there is a write error, after which an ordered operation sends nothing
    /// more.
    pub(crate) fn has_write_errors(&self) -> bool {
        !self.write_errors.is_empty()
    }

    /// Returns the result of a `bulk_write`. `broken` is the error of a batch without a reply.
    pub(crate) fn conclude_bulk_write(
        mut self,
        statements: &Statements<'_>,
        broken: Option<Error>,
    ) -> Result<BulkWriteResult> {
        let evidence = self.evidence(broken)?;
        let inserted = self.inserted.iter().cloned();
        self.result.inserted_ids =
            inserted.flat_map(|positions| statements.inserted_ids(positions)).collect();
        let Some(evidence) = evidence else { return Ok(self.result) };
        Err(evidence.of(ErrorKind::BulkWrite(BulkWriteError {
            write_concern_errors: self.write_concern_errors,
            write_errors: self.write_errors,
            partial_result: self
                .carried_out
                .then_some(PartialBulkWriteResult::Collection(self.result)),
        })))
    }

    /// Returns the result of an `insert_many`. `broken` is the error of a batch without a reply.
    pub(crate) fn conclude_insert_many(
        mut self,
        ids: InsertedIds<'_>,
        broken: Option<Error>,
    ) -> Result<InsertManyResult> {
        let evidence = self.evidence(broken)?;
        let inserted_ids = ids.of(&self.inserted);
        let Some(evidence) = evidence else { return Ok(InsertManyResult { inserted_ids }) };
        let write_errors: Vec<_> =
            self.write_errors.into_iter().map(|(index, error)| error.at(index)).collect();
        Err(evidence.of(ErrorKind::InsertMany(InsertManyError {
            write_errors: Some(write_errors).filter(|errors| !errors.is_empty()),
            // There is room for one: the first, which no later one may hide (pitfall 3).
            write_concern_error: self.write_concern_errors.into_iter().next(),
            inserted_ids,
        })))
    }

    /// Returns the details of the operation's error, if there is one. An error before any known
    /// write needs no partial result, and is returned unchanged (pitfall 36).
    fn evidence(&mut self, broken: Option<Error>) -> Result<Option<Evidence>> {
        let has_errors = self.has_write_errors() || !self.write_concern_errors.is_empty();
        match broken {
            Some(broken) if !has_errors && !self.carried_out => {
                Err(match self.sent_unacknowledged {
                    true => broken.within_call(Outcome::MaybeApplied, true),
                    false => broken,
                })
            }
            None if !has_errors => Ok(None),
            broken => {
                let (labels, told) = (std::mem::take(&mut self.labels), self.told.take());
                let history = self.history.take();
                Ok(Some(Evidence { labels, told, history, broken }))
            }
        }
    }
}

/// Returns `true` if a statement of a batch was executed.
fn carried_out(reply: &WriteReply, batch: &Batch, ordered: bool) -> bool {
    let first_error = reply.write_errors.iter().map(|error| error.index).min();
    match first_error {
        None => true,
        Some(first) if ordered => first > 0,
        Some(_) => reply.write_errors.len() < batch.len(),
    }
}
