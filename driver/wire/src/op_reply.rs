//! OP_REPLY, the reply to OP_QUERY and thus to the legacy hello.

use bytes::Bytes;

use crate::{
    document::{DocumentBytes, DocumentRun},
    draft::MessageDraft,
    error::WireError,
    header::OpCode,
    reader::PayloadReader,
};

/// Flag `CursorNotFound`.
const CURSOR_NOT_FOUND: i32 = 1;
/// Flag `QueryFailure`: the only document is the error.
const QUERY_FAILURE: i32 = 1 << 1;
/// Flag `AwaitCapable`. Every server sets it.
const AWAIT_CAPABLE: i32 = 1 << 3;

/// A decoded OP_REPLY.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpReply {
    /// The flag bits as received.
    pub flags: i32,
    /// The cursor id; 0 after a command (`cursorID`).
    pub cursor_id: i64,
    /// Position of the first document in the cursor; 0 after a command (`startingFrom`).
    pub starting_from: i32,
    /// The documents; exactly one after a command.
    pub documents: DocumentRun,
}

impl OpReply {
    /// Creates the reply to a command.
    ///
    /// # Errors
    ///
    /// An error if the document is malformed.
    pub fn to_command(reply: &DocumentBytes) -> Result<Self, WireError> {
        let documents = DocumentRun::copy_from([reply])
            .map_err(|fault| WireError::Document { what: "the reply", fault })?;
        Ok(Self { flags: AWAIT_CAPABLE, cursor_id: 0, starting_from: 0, documents })
    }

    /// Returns the reply document of a command.
    ///
    /// # Errors
    ///
    /// [`WireError::DocumentCount`] unless there is exactly one document.
    pub fn command_reply(&self) -> Result<DocumentBytes, WireError> {
        let mut documents = self.documents.shared();
        match (documents.next(), documents.next()) {
            (Some(reply), None) => Ok(reply),
            (None, _) | (Some(_), Some(_)) => {
                Err(WireError::DocumentCount { claimed: 1, counted: self.documents.len() })
            }
        }
    }

    /// Returns `true` if the query failed. The only document is the error then.
    pub fn is_failure(&self) -> bool {
        self.flags & (QUERY_FAILURE | CURSOR_NOT_FOUND) != 0
    }

    /// Appends the message to `out` and returns its length.
    ///
    /// # Errors
    ///
    /// An error if the message is too long.
    pub fn encode(
        &self,
        request_id: i32,
        response_to: i32,
        out: &mut Vec<u8>,
    ) -> Result<usize, WireError> {
        let length = self.documents.len();
        let count = i32::try_from(length)
            .map_err(|_| WireError::TooLongToWrite { what: "the list of documents", length })?;
        let draft = MessageDraft::start(out, request_id, response_to, OpCode::Reply);
        draft.out.extend_from_slice(&self.flags.to_le_bytes());
        draft.out.extend_from_slice(&self.cursor_id.to_le_bytes());
        draft.out.extend_from_slice(&self.starting_from.to_le_bytes());
        draft.out.extend_from_slice(&count.to_le_bytes());
        draft.out.extend_from_slice(self.documents.as_bytes());
        draft.finish()
    }

    pub(crate) fn decode(payload: Bytes) -> Result<Self, WireError> {
        let mut reader = PayloadReader::new(payload);
        let flags = reader.i32("the response flags")?;
        let cursor_id = reader.i64("the cursor id")?;
        let starting_from = reader.i32("the starting position")?;
        let claimed = reader.i32("the number of documents")?;
        let documents = reader.documents("a document of the reply")?;
        if usize::try_from(claimed) != Ok(documents.len()) {
            return Err(WireError::DocumentCount { claimed, counted: documents.len() });
        }
        Ok(Self { flags, cursor_id, starting_from, documents })
    }
}
