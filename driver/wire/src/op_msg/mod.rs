//! OP_MSG, the message of all commands and replies: one body and any number of document sequences.

mod flags;
mod sections;
mod writer;

use bson::RawDocument;
use bytes::Bytes;

pub(crate) use self::sections::command_name;
pub use self::{
    flags::MsgFlags,
    writer::{MessageWriter, SequenceWriter},
};
use crate::{
    checksum::checksum_of_parts,
    document::{DocumentBytes, DocumentRun},
    error::WireError,
    header::HEADER_LENGTH,
    reader::PayloadReader,
};

/// Section kind of a body.
const BODY: u8 = 0;
/// Section kind of a document sequence.
const SEQUENCE: u8 = 1;
/// Length of the checksum in bytes.
const CHECKSUM_LENGTH: usize = 4;

/// A decoded OP_MSG. Its documents share the memory of the message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpMsg {
    /// The flags, without unknown optional ones. [`MsgFlags::CHECKSUM_PRESENT`] means that the
    /// checksum was verified.
    pub flags: MsgFlags,
    /// The command or the reply (section kind 0).
    pub body: DocumentBytes,
    /// The document sequences (section kind 1), in their order in the message.
    pub sequences: Vec<DocumentSequence>,
}

impl OpMsg {
    /// Creates a message that has only a body.
    pub fn new(body: DocumentBytes) -> Self {
        Self { flags: MsgFlags::empty(), body, sequences: Vec::new() }
    }

    /// Returns the message with these flags.
    pub fn with_flags(mut self, flags: MsgFlags) -> Self {
        self.flags = flags;
        self
    }

    /// Returns the message with one more document sequence.
    pub fn with_sequence(mut self, identifier: impl Into<String>, documents: DocumentRun) -> Self {
        self.sequences.push(DocumentSequence { identifier: identifier.into(), documents });
        self
    }

    /// Returns the document sequence with this identifier.
    pub fn sequence(&self, identifier: &str) -> Option<&DocumentSequence> {
        self.sequences.iter().find(|sequence| sequence.identifier == identifier)
    }

    /// Appends the message to `out` and returns its length. `response_to` is 0 in a request.
    ///
    /// Intended for servers and tests. A client uses [`MessageWriter`], which does not need the
    /// documents in memory first.
    ///
    /// # Errors
    ///
    /// An error if an identifier contains a NUL or occurs twice, or the message is too long. `out`
    /// is unchanged then.
    pub fn encode(
        &self,
        request_id: i32,
        response_to: i32,
        out: &mut Vec<u8>,
    ) -> Result<usize, WireError> {
        let mut message = MessageWriter::reply(out, request_id, response_to, self.flags);
        message.body().append_elements_of(&self.body);
        let mut sequences = self.sequences.iter();
        let Some(first) = sequences.next() else {
            return message.finish();
        };
        let mut writer = message.start_sequence(&first.identifier)?;
        writer.push_run(&first.documents);
        for sequence in sequences {
            writer = writer.start_sequence(&sequence.identifier)?;
            writer.push_run(&sequence.documents);
        }
        writer.finish()
    }

    /// Decodes the payload. The checksum covers the header, so its bytes are required.
    pub(crate) fn decode(header: &[u8; HEADER_LENGTH], payload: Bytes) -> Result<Self, WireError> {
        let mut reader = PayloadReader::new(payload.clone());
        let flags = MsgFlags::from_bits(reader.u32("the flag bits")?)?;
        if flags.contains(MsgFlags::CHECKSUM_PRESENT) {
            let covered = verify_checksum(header, &payload)?;
            reader = PayloadReader::new(payload.slice(4..covered));
        }
        Self::decode_sections(flags, reader)
    }

    fn decode_sections(flags: MsgFlags, mut reader: PayloadReader) -> Result<Self, WireError> {
        let mut body = None;
        let mut sequences: Vec<DocumentSequence> = Vec::new();
        while !reader.is_empty() {
            match reader.u8("a section's kind")? {
                BODY if body.is_some() => return Err(WireError::DuplicateBody),
                BODY => body = Some(reader.document("the body")?),
                SEQUENCE => {
                    let sequence = DocumentSequence::decode(&mut reader)?;
                    let identifier = &sequence.identifier;
                    if sequences.iter().any(|earlier| earlier.identifier == *identifier) {
                        let identifier = sequence.identifier;
                        return Err(WireError::DuplicateSequence { identifier });
                    }
                    sequences.push(sequence);
                }
                kind => return Err(WireError::UnknownSectionKind { kind }),
            }
        }
        Ok(Self { flags, body: body.ok_or(WireError::MissingBody)?, sequences })
    }
}

/// A document sequence (section kind 1), which replaces an array of the command.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DocumentSequence {
    /// The name of the command's array field: `documents`, `updates` or `deletes`.
    pub identifier: String,
    /// The documents.
    pub documents: DocumentRun,
}

impl DocumentSequence {
    /// Iterates over the documents in their order.
    pub fn iter(&self) -> impl Iterator<Item = &RawDocument> {
        self.documents.iter()
    }

    fn decode(reader: &mut PayloadReader) -> Result<Self, WireError> {
        let left = reader.left();
        let size = reader.i32("a document sequence's size")?;
        // The size includes its own four bytes.
        let rest = match usize::try_from(size) {
            Ok(size @ 4..) if size <= left => size - 4,
            Ok(_) | Err(_) => return Err(WireError::SequenceSize { size, left }),
        };
        let mut section = PayloadReader::new(reader.take(rest, "a document sequence")?);
        Ok(Self {
            identifier: section.cstring("a document sequence's identifier")?,
            documents: section.documents("a document of a sequence")?,
        })
    }
}

/// Verifies the CRC-32C in the last four bytes. Returns its offset in the payload.
fn verify_checksum(header: &[u8; HEADER_LENGTH], payload: &[u8]) -> Result<usize, WireError> {
    // The first four bytes are the flag bits and cannot be the checksum.
    let (covered, claimed) = match payload.split_last_chunk::<CHECKSUM_LENGTH>() {
        Some((covered, claimed)) if covered.len() >= 4 => (covered, claimed),
        Some(_) | None => {
            let left = payload.len().saturating_sub(4);
            return Err(WireError::Truncated {
                what: "the checksum",
                needed: CHECKSUM_LENGTH,
                left,
            });
        }
    };
    let claimed = u32::from_le_bytes(*claimed);
    let computed = checksum_of_parts(header, covered);
    if claimed == computed {
        Ok(covered.len())
    } else {
        Err(WireError::ChecksumMismatch { claimed, computed })
    }
}
