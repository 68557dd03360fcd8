//! Splitting of writes into batches within the server's limits.

use std::ops::Range;

use super::Statements;
use crate::{
    collection::CollectionHandle,
    command::CommandKind,
    error::{Error, Result},
    operation::{
        WriteLimits,
        write::{Settings, Verb, head},
    },
};

/// Statements of one command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CollectionBulkBatch {
    pub(crate) verb: Verb,
    /// Positions among the statements of the same verb.
    pub(super) positions: Range<usize>,
    /// Size of the statements in bytes.
    pub(super) bytes: usize,
    /// `true` if a statement can write several documents.
    pub(crate) has_multi: bool,
}

impl CollectionBulkBatch {
    /// Returns the number of statements.
    pub(crate) fn len(&self) -> usize {
        self.positions.len()
    }
}

/// Bytes that a statement can have in addition to the document that it stores: filter, operators,
/// options. Servers allow statements that are larger than documents by this number.
const STATEMENT_ALLOWANCE_BYTES: usize = 16 * 1024;

/// Bytes reserved for the fields that an attempt adds to a command: session, transaction, cluster
/// time, stable API.
const ATTEMPT_FIELDS_BYTES: usize = 1024;

/// Bytes of a message with a document sequence, without its body, the sequence's name and the
/// documents: header, flags, the kinds of two sections, the sequence's length, the NUL after its
/// name.
const FRAME_BYTES: usize = 16 + 4 + 1 + 1 + 4 + 1;

/// Bytes of the field `$db` without the name of the database.
const DB_FIELD_BYTES: usize = 1 + 4 + 4 + 1;

/// Splits the writes into batches, or returns an error if a write exceeds the limits. In an ordered
/// bulk write a batch contains consecutive writes with the same verb, otherwise all writes with the
/// same verb.
pub(crate) fn plan(
    statements: &Statements<'_>,
    collection: &CollectionHandle,
    settings: &Settings<'_>,
    limits: &WriteLimits,
) -> Result<Vec<CollectionBulkBatch>> {
    let batch_limits = BatchLimits::new(collection, settings, limits)?;
    if settings.ordered {
        split(statements, &batch_limits, statements.writes.iter().map(|write| write.verb))
    } else {
        let verbs = Verb::ALL.into_iter();
        let grouped =
            verbs.flat_map(|verb| std::iter::repeat_n(verb, statements.buffer(verb).entries.len()));
        split(statements, &batch_limits, grouped)
    }
}

/// Size limits of a batch of each verb.
struct BatchLimits {
    documents_bytes: [usize; 3],
    statement_bytes: [usize; 3],
    count: usize,
}

impl BatchLimits {
    fn new(
        collection: &CollectionHandle,
        settings: &Settings<'_>,
        limits: &WriteLimits,
    ) -> Result<Self> {
        let mut batch_limits = Self {
            documents_bytes: [0; 3],
            statement_bytes: [0; 3],
            // A limit of zero would never end.
            count: limits.batch_count.max(1),
        };
        for verb in Verb::ALL {
            let body = head(collection, verb, settings, CommandKind::Write)?.body;
            let sequence = FRAME_BYTES
                + body.as_bytes().len()
                + verb.identifier().len()
                + DB_FIELD_BYTES
                + collection.database.len()
                + ATTEMPT_FIELDS_BYTES;
            batch_limits.documents_bytes[verb as usize] =
                limits.message_bytes.saturating_sub(sequence);
            batch_limits.statement_bytes[verb as usize] = match verb {
                Verb::Insert => limits.document_bytes,
                Verb::Update | Verb::Delete => limits.document_bytes + STATEMENT_ALLOWANCE_BYTES,
            };
        }
        Ok(batch_limits)
    }

    fn check(&self, verb: Verb, index: usize, length: usize) -> Result<()> {
        let limit = self.statement_bytes[verb as usize].min(self.documents_bytes[verb as usize]);
        if length <= limit {
            return Ok(());
        }
        let what = match verb {
            Verb::Insert => "document",
            Verb::Update | Verb::Delete => "write",
        };
        Err(Error::invalid_argument(format!(
            "{what} {index} is {length} bytes long; the server accepts at most {limit}"
        )))
    }

    /// Returns `true` if another statement fits into a batch.
    fn fits(&self, batch: &CollectionBulkBatch, verb: Verb, length: usize) -> bool {
        batch.verb == verb
            && batch.len() < self.count
            && batch.bytes + length <= self.documents_bytes[verb as usize]
    }
}

/// Splits the writes, whose verbs are passed in the order of sending.
fn split(
    statements: &Statements<'_>,
    batch_limits: &BatchLimits,
    verbs: impl Iterator<Item = Verb>,
) -> Result<Vec<CollectionBulkBatch>> {
    let mut batches: Vec<CollectionBulkBatch> = Vec::new();
    let mut next_position = [0; 3];
    for verb in verbs {
        let buffer = statements.buffer(verb);
        let position = next_position[verb as usize];
        next_position[verb as usize] += 1;
        let (index, length) = (buffer.entries[position].index, buffer.range(position).len());
        let multi = statements.writes[index].multi;
        batch_limits.check(verb, index, length)?;
        match batches.last_mut() {
            Some(batch) if batch_limits.fits(batch, verb, length) => {
                batch.positions.end += 1;
                batch.bytes += length;
                batch.has_multi |= multi;
            }
            _ => batches.push(CollectionBulkBatch {
                verb,
                positions: position..position + 1,
                bytes: length,
                has_multi: multi,
            }),
        }
    }
    Ok(batches)
}
