//! Writes an OP_MSG directly into a send buffer.
//!
//! The types enforce the order: [`MessageWriter`] has an open body; starting a document sequence
//! closes the body and returns a [`SequenceWriter`]; `finish` closes the message.

use bson::RawDocument;

use super::{BODY, MsgFlags, SEQUENCE, sections::has_sequence};
use crate::{
    document::{DocumentRun, split_document},
    draft::{MessageDraft, patch_length, patch_length_before, write_cstring},
    elements::ElementWriter,
    error::WireError,
    header::OpCode,
};

/// Writer for an OP_MSG whose body is open.
///
/// If it is dropped before [`finish`](Self::finish), or fails, the buffer is restored.
///
/// ```
/// use steadfast_wire::{MessageWriter, MsgFlags};
///
/// // The command is prepared once for all attempts.
/// let command = bson::rawdoc! { "insert": "people", "ordered": true };
/// let person = bson::rawdoc! { "_id": 1, "name": "Ada" };
///
/// // Each attempt adds its own fields.
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
    draft: MessageDraft<'b>,
    body_start: usize,
    flags: MsgFlags,
}

impl<'b> MessageWriter<'b> {
    /// Starts a request.
    pub fn request(out: &'b mut Vec<u8>, request_id: i32, flags: MsgFlags) -> Self {
        Self::reply(out, request_id, 0, flags)
    }

    /// Starts a reply to the message with this `requestID`.
    pub fn reply(out: &'b mut Vec<u8>, request_id: i32, response_to: i32, flags: MsgFlags) -> Self {
        let draft = MessageDraft::start(out, request_id, response_to, OpCode::Msg);
        draft.out.extend_from_slice(&flags.bits().to_le_bytes());
        draft.out.push(BODY);
        let body_start = draft.out.len();
        draft.out.extend_from_slice(&[0; 4]);
        Self { draft, body_start, flags }
    }

    /// Returns the writer for the elements of the body.
    pub fn body(&mut self) -> ElementWriter<'_> {
        ElementWriter::new(self.draft.out)
    }

    /// Returns the number of bytes so far, without the terminator of the body and the checksum.
    #[expect(clippy::len_without_is_empty, reason = "a message is never empty")]
    pub fn len(&self) -> usize {
        self.draft.len()
    }

    /// Closes the body and opens a document sequence. The identifier is the name of the command's
    /// array field.
    ///
    /// # Errors
    ///
    /// An error if the identifier contains a NUL or occurs twice, or the body is too long.
    pub fn start_sequence(self, identifier: &str) -> Result<SequenceWriter<'b>, WireError> {
        let flags = self.flags;
        SequenceWriter::start(self.close_body()?, flags, identifier)
    }

    /// Closes the message and returns its length.
    ///
    /// # Errors
    ///
    /// [`WireError::TooLongToWrite`] if the message exceeds an int32.
    pub fn finish(self) -> Result<usize, WireError> {
        let flags = self.flags;
        finish(self.close_body()?, flags)
    }

    fn close_body(self) -> Result<MessageDraft<'b>, WireError> {
        self.draft.out.push(0);
        patch_length(self.draft.out, self.body_start, "the body")?;
        Ok(self.draft)
    }
}

/// Writer for an OP_MSG with an open document sequence.
///
/// If it is dropped before [`finish`](Self::finish), or fails, the buffer is restored to its state
/// before the message.
#[derive(Debug)]
pub struct SequenceWriter<'b> {
    draft: MessageDraft<'b>,
    sequence_start: usize,
    flags: MsgFlags,
}

impl<'b> SequenceWriter<'b> {
    fn start(
        draft: MessageDraft<'b>,
        flags: MsgFlags,
        identifier: &str,
    ) -> Result<Self, WireError> {
        if has_sequence(draft.payload(), identifier)? {
            return Err(WireError::DuplicateSequence { identifier: identifier.to_owned() });
        }
        draft.out.push(SEQUENCE);
        let sequence_start = draft.out.len();
        draft.out.extend_from_slice(&[0; 4]);
        write_cstring(draft.out, identifier, "a document sequence's identifier")?;
        Ok(Self { draft, sequence_start, flags })
    }

    /// Appends a document.
    pub fn push(&mut self, document: impl AsRef<RawDocument>) {
        self.draft.out.extend_from_slice(document.as_ref().as_bytes());
    }

    /// Appends all documents of a run.
    pub fn push_run(&mut self, documents: &DocumentRun) {
        self.draft.out.extend_from_slice(documents.as_bytes());
    }

    /// Appends encoded documents without gaps between them.
    ///
    /// # Errors
    ///
    /// An error if the lengths of the documents do not add up. Nothing else is validated.
    pub fn push_encoded(&mut self, documents: &[u8]) -> Result<(), WireError> {
        let mut rest = documents;
        while !rest.is_empty() {
            let fault = |fault| WireError::Document { what: "a document of a sequence", fault };
            rest = split_document(rest).map_err(fault)?.1;
        }
        self.draft.out.extend_from_slice(documents);
        Ok(())
    }

    /// Returns the number of bytes so far, without the checksum.
    #[expect(clippy::len_without_is_empty, reason = "a message is never empty")]
    pub fn len(&self) -> usize {
        self.draft.len()
    }

    /// Closes this document sequence and opens another.
    ///
    /// # Errors
    ///
    /// An error if the identifier contains a NUL or occurs twice, or the sequence is too long.
    pub fn start_sequence(self, identifier: &str) -> Result<SequenceWriter<'b>, WireError> {
        let flags = self.flags;
        Self::start(self.close_sequence()?, flags, identifier)
    }

    /// Closes the message and returns its length.
    ///
    /// # Errors
    ///
    /// [`WireError::TooLongToWrite`] if the message exceeds an int32.
    pub fn finish(self) -> Result<usize, WireError> {
        let flags = self.flags;
        finish(self.close_sequence()?, flags)
    }

    /// Closes a message whose last documents are not in the buffer. The caller sends `to_follow`
    /// bytes of documents of this sequence directly after the buffer. Returns the length of the
    /// whole message.
    ///
    /// # Errors
    ///
    /// [`WireError::ChecksumOfPartialMessage`] if the message has a checksum, which would cover
    /// those bytes.
    pub fn finish_before(self, to_follow: usize) -> Result<usize, WireError> {
        if self.flags.contains(MsgFlags::CHECKSUM_PRESENT) {
            return Err(WireError::ChecksumOfPartialMessage);
        }
        patch_length_before(to_follow, self.draft.out, self.sequence_start, "a document sequence")?;
        self.draft.finish_before(to_follow)
    }

    fn close_sequence(self) -> Result<MessageDraft<'b>, WireError> {
        patch_length(self.draft.out, self.sequence_start, "a document sequence")?;
        Ok(self.draft)
    }
}

fn finish(draft: MessageDraft<'_>, flags: MsgFlags) -> Result<usize, WireError> {
    if flags.contains(MsgFlags::CHECKSUM_PRESENT) {
        draft.finish_with_checksum()
    } else {
        draft.finish()
    }
}
