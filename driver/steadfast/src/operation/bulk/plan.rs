//! Cutting writes into batches that a server takes.

use std::ops::Range;

use super::Statements;
use crate::{
    collection::Handle,
    command::CommandKind,
    error::{Error, Result},
    operation::{
        WriteLimits,
        write::{Settings, Verb, head},
    },
};

/// The statements of one command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Batch {
    pub(crate) verb: Verb,
    /// Positions among the statements of the same verb.
    pub(super) positions: Range<usize>,
    /// Size of the statements in bytes.
    pub(super) bytes: usize,
    /// `true` if a statement can write several documents.
    pub(crate) has_multi: bool,
}

impl Batch {
    /// Number of statements.
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

/// Cuts the writes into batches, or says which of them no server would take. In order, a batch is
/// a stretch of writes with the same verb; otherwise all writes with the same verb go together.
pub(crate) fn plan(
    statements: &Statements<'_>,
    collection: &Handle,
    settings: &Settings<'_>,
    limits: &WriteLimits,
) -> Result<Vec<Batch>> {
    let room = Room::new(collection, settings, limits)?;
    if settings.ordered {
        cut(statements, &room, statements.writes.iter().map(|write| write.verb))
    } else {
        let verbs = Verb::ALL.into_iter();
        let grouped =
            verbs.flat_map(|verb| std::iter::repeat_n(verb, statements.run(verb).entries.len()));
        cut(statements, &room, grouped)
    }
}

/// Size limits of a batch of each verb.
struct Room {
    documents_bytes: [usize; 3],
    statement_bytes: [usize; 3],
    count: usize,
}

impl Room {
    fn new(collection: &Handle, settings: &Settings<'_>, limits: &WriteLimits) -> Result<Self> {
        let mut room = Self {
            documents_bytes: [0; 3],
            statement_bytes: [0; 3],
            // A server that takes none at all would never be done.
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
            room.documents_bytes[verb as usize] = limits.message_bytes.saturating_sub(sequence);
            room.statement_bytes[verb as usize] = match verb {
                Verb::Insert => limits.document_bytes,
                Verb::Update | Verb::Delete => limits.document_bytes + STATEMENT_ALLOWANCE_BYTES,
            };
        }
        Ok(room)
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
    fn admits(&self, batch: &Batch, verb: Verb, length: usize) -> bool {
        batch.verb == verb
            && batch.len() < self.count
            && batch.bytes + length <= self.documents_bytes[verb as usize]
    }
}

/// Goes through the writes by their verbs in the order that they are to be sent in.
fn cut(
    statements: &Statements<'_>,
    room: &Room,
    verbs: impl Iterator<Item = Verb>,
) -> Result<Vec<Batch>> {
    let mut batches: Vec<Batch> = Vec::new();
    let mut next_position = [0; 3];
    for verb in verbs {
        let run = statements.run(verb);
        let position = next_position[verb as usize];
        next_position[verb as usize] += 1;
        let (index, length) = (run.entries[position].index, run.range(position).len());
        let multi = statements.writes[index].multi;
        room.check(verb, index, length)?;
        match batches.last_mut() {
            Some(batch) if room.admits(batch, verb, length) => {
                batch.positions.end += 1;
                batch.bytes += length;
                batch.has_multi |= multi;
            }
            _ => batches.push(Batch {
                verb,
                positions: position..position + 1,
                bytes: length,
                has_multi: multi,
            }),
        }
    }
    Ok(batches)
}
