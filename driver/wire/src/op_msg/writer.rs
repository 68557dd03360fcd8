//! Writes an OP_MSG straight into a send buffer.
//!
//! The types say what may come next: a [`MessageWriter`] has its body open; starting a sequence closes the body and gives
//! a [`SequenceWriter`]; finishing either closes the message.

use bson::RawDocument;

use super::{BODY, MsgFlags, SEQUENCE, sections::has_sequence};
use crate::{
    document::{DocumentRun, split_document},
    draft::{Draft, patch_length, patch_length_before, write_cstring},
    elements::Elements,
    error::WireError,
    header::OpCode,
};

/// An OP_MSG whose body is being written at the end of a buffer.
///
/// Dropped, or failed, before [`finish`](Self::finish), it leaves the buffer as it was.
///
/// ```
/// use steadfast_wire::{MessageWriter, MsgFlags};
///
/// // Prepared once for all attempts of a command …
/// let command = bson::rawdoc! { "insert": "people", "ordered": true };
/// let person = bson::rawdoc! { "_id": 1, "name": "Ada" };
///
/// // … and written, with what differs from attempt to attempt, for each.
/// let mut buffer = Vec::new();
/// let mut message = MessageWriter::request(&mut buffer, 42, MsgFlags::empty());
/// message.body().append_elements_of(&command).append_str("$db", "town")?.append_i64("txnNumber", 7)?;
/// let mut documents = message.start_sequence("documents")?;
/// documents.push(&person);
/// let length = documents.finish()?;
/// assert_eq!(length, buffer.len());
/// # Ok::<(), steadfast_wire::WireError>(())
/// ```
#[derive(Debug)]
pub struct MessageWriter<'b> {
    draft: Draft<'b>,
    body_start: usize,
    flags: MsgFlags,
}

impl<'b> MessageWriter<'b> {
    /// Starts a request.
    pub fn request(out: &'b mut Vec<u8>, request_id: i32, flags: MsgFlags) -> Self {
        Self::reply(out, request_id, 0, flags)
    }

    /// Starts a reply to the message that had the id `response_to`.
    pub fn reply(out: &'b mut Vec<u8>, request_id: i32, response_to: i32, flags: MsgFlags) -> Self {
        let draft = Draft::start(out, request_id, response_to, OpCode::Msg);
        draft.out.extend_from_slice(&flags.bits().to_le_bytes());
        draft.out.push(BODY);
        let body_start = draft.out.len();
        draft.out.extend_from_slice(&[0; 4]);
        Self { draft, body_start, flags }
    }

    /// The inside of the body, to append elements to.
    pub fn body(&mut self) -> Elements<'_> {
        Elements::new(self.draft.out)
    }

    /// How long the message is so far: the bytes of its terminator and checksum are still to come.
    #[expect(clippy::len_without_is_empty, reason = "a message is never empty")]
    pub fn len(&self) -> usize {
        self.draft.len()
    }

    /// Closes the body and opens a document sequence. The identifier is the name of the command's argument.
    pub fn start_sequence(self, identifier: &str) -> Result<SequenceWriter<'b>, WireError> {
        let flags = self.flags;
        SequenceWriter::start(self.close_body()?, flags, identifier)
    }

    /// Closes the message and returns its length.
    pub fn finish(self) -> Result<usize, WireError> {
        let flags = self.flags;
        finish(self.close_body()?, flags)
    }

    fn close_body(self) -> Result<Draft<'b>, WireError> {
        self.draft.out.push(0);
        patch_length(self.draft.out, self.body_start, "the body")?;
        Ok(self.draft)
    }
}

/// An OP_MSG with one of its document sequences being written.
///
/// Dropped, or failed, before [`finish`](Self::finish), it leaves the buffer as it was before the message.
#[derive(Debug)]
pub struct SequenceWriter<'b> {
    draft: Draft<'b>,
    sequence_start: usize,
    flags: MsgFlags,
}

impl<'b> SequenceWriter<'b> {
    fn start(draft: Draft<'b>, flags: MsgFlags, identifier: &str) -> Result<Self, WireError> {
        if has_sequence(draft.payload(), identifier)? {
            return Err(WireError::DuplicateSequence { identifier: identifier.to_owned() });
        }
        draft.out.push(SEQUENCE);
        let sequence_start = draft.out.len();
        draft.out.extend_from_slice(&[0; 4]);
        write_cstring(draft.out, identifier, "a document sequence's identifier")?;
        Ok(Self { draft, sequence_start, flags })
    }

    /// Adds a document.
    pub fn push(&mut self, document: impl AsRef<RawDocument>) {
        self.draft.out.extend_from_slice(document.as_ref().as_bytes());
    }

    /// Adds all documents of a run.
    pub fn push_run(&mut self, documents: &DocumentRun) {
        self.draft.out.extend_from_slice(documents.as_bytes());
    }

    /// Adds documents that lie one directly after another in `documents`. Their lengths must add up; more is not
    /// looked at.
    pub fn push_encoded(&mut self, documents: &[u8]) -> Result<(), WireError> {
        let mut rest = documents;
        while !rest.is_empty() {
            let fault = |fault| WireError::Document { what: "a document of a sequence", fault };
            rest = split_document(rest).map_err(fault)?.1;
        }
        self.draft.out.extend_from_slice(documents);
        Ok(())
    }

    /// How long the message is so far: the bytes of a checksum are still to come.
    #[expect(clippy::len_without_is_empty, reason = "a message is never empty")]
    pub fn len(&self) -> usize {
        self.draft.len()
    }

    /// Closes this sequence and opens another.
    pub fn start_sequence(self, identifier: &str) -> Result<SequenceWriter<'b>, WireError> {
        let flags = self.flags;
        Self::start(self.close_sequence()?, flags, identifier)
    }

    /// Closes the message and returns its length.
    pub fn finish(self) -> Result<usize, WireError> {
        let flags = self.flags;
        finish(self.close_sequence()?, flags)
    }

    /// Closes the message but for documents of this sequence that are not in the buffer: whoever sends the message
    /// sends so many bytes of them right after it. Returns how long the message is with them.
    ///
    /// Such a message cannot have a checksum, which would be of bytes that nobody has seen yet.
    pub fn finish_before(self, to_follow: usize) -> Result<usize, WireError> {
        if self.flags.contains(MsgFlags::CHECKSUM_PRESENT) {
            return Err(WireError::ChecksumOfUnseen);
        }
        patch_length_before(to_follow, self.draft.out, self.sequence_start, "a document sequence")?;
        self.draft.finish_before(to_follow)
    }

    fn close_sequence(self) -> Result<Draft<'b>, WireError> {
        patch_length(self.draft.out, self.sequence_start, "a document sequence")?;
        Ok(self.draft)
    }
}

fn finish(draft: Draft<'_>, flags: MsgFlags) -> Result<usize, WireError> {
    if flags.contains(MsgFlags::CHECKSUM_PRESENT) {
        draft.finish_with_checksum()
    } else {
        draft.finish()
    }
}
