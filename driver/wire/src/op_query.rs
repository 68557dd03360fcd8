//! OP_QUERY, used only for the first `hello` of a connection to a server of unknown version.

use bson::RawDocument;
use bytes::Bytes;

use crate::{
    document::DocumentBytes,
    draft::{MessageDraft, write_cstring},
    error::WireError,
    header::OpCode,
    reader::PayloadReader,
};

/// Namespace of the legacy hello.
const HELLO_NAMESPACE: &str = "admin.$cmd";

/// Flag `SecondaryOk`: a secondary may reply.
const SECONDARY_OK: i32 = 1 << 2;

/// A decoded OP_QUERY.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpQuery {
    /// The flag bits as received.
    pub flags: i32,
    /// The queried namespace; `admin.$cmd` for a command on `admin` (`fullCollectionName`).
    pub namespace: String,
    /// Number of documents to skip; 0 for a command (`numberToSkip`).
    pub number_to_skip: i32,
    /// Number of documents to return; -1 for a command: one document and no cursor
    /// (`numberToReturn`).
    pub number_to_return: i32,
    /// The query or the command (`query`).
    pub query: DocumentBytes,
    /// Projection; absent for a command (`returnFieldsSelector`).
    pub return_fields: Option<DocumentBytes>,
}

impl OpQuery {
    /// Creates a legacy hello from its command document. Servers in any state reply to it.
    pub fn hello(command: DocumentBytes) -> Self {
        Self {
            flags: SECONDARY_OK,
            namespace: HELLO_NAMESPACE.to_owned(),
            number_to_skip: 0,
            number_to_return: -1,
            query: command,
            return_fields: None,
        }
    }

    /// Returns `true` if a secondary may reply.
    pub fn secondary_ok(&self) -> bool {
        self.flags & SECONDARY_OK != 0
    }

    /// Returns the database if this is a command, `None` for a query of a collection.
    pub fn command_database(&self) -> Option<&str> {
        self.namespace.strip_suffix(".$cmd")
    }

    /// Appends the message to `out` and returns its length.
    ///
    /// # Errors
    ///
    /// An error if the namespace contains a NUL or the message is too long.
    pub fn encode(&self, request_id: i32, out: &mut Vec<u8>) -> Result<usize, WireError> {
        let draft = MessageDraft::start(out, request_id, 0, OpCode::Query);
        draft.out.extend_from_slice(&self.flags.to_le_bytes());
        write_cstring(draft.out, &self.namespace, "the namespace")?;
        draft.out.extend_from_slice(&self.number_to_skip.to_le_bytes());
        draft.out.extend_from_slice(&self.number_to_return.to_le_bytes());
        draft.out.extend_from_slice(self.query.as_bytes());
        if let Some(fields) = &self.return_fields {
            draft.out.extend_from_slice(fields.as_bytes());
        }
        draft.finish()
    }

    pub(crate) fn decode(payload: Bytes) -> Result<Self, WireError> {
        let mut reader = PayloadReader::new(payload);
        let query = Self {
            flags: reader.i32("the flags")?,
            namespace: reader.cstring("the namespace")?,
            number_to_skip: reader.i32("the number to skip")?,
            number_to_return: reader.i32("the number to return")?,
            query: reader.document("the query")?,
            return_fields: match reader.is_empty() {
                true => None,
                false => Some(reader.document("the returned fields")?),
            },
        };
        reader.end("an OP_QUERY")?;
        Ok(query)
    }
}

/// Appends a legacy hello to `out` without an intermediate copy of the command, and returns its
/// length.
///
/// ```
/// use steadfast_wire::write_legacy_hello;
///
/// let mut buffer = Vec::new();
/// let command = bson::rawdoc! { "isMaster": 1, "helloOk": true };
/// let length = write_legacy_hello(&mut buffer, 1, &command)?;
/// assert_eq!(length, buffer.len());
/// # Ok::<(), steadfast_wire::WireError>(())
/// ```
///
/// # Errors
///
/// Fails if the message is longer than its length field can express.
pub fn write_legacy_hello(
    out: &mut Vec<u8>,
    request_id: i32,
    command: impl AsRef<RawDocument>,
) -> Result<usize, WireError> {
    let draft = MessageDraft::start(out, request_id, 0, OpCode::Query);
    draft.out.extend_from_slice(&SECONDARY_OK.to_le_bytes());
    write_cstring(draft.out, HELLO_NAMESPACE, "the namespace")?;
    // Skip nothing, return one document, open no cursor.
    draft.out.extend_from_slice(&0_i32.to_le_bytes());
    draft.out.extend_from_slice(&(-1_i32).to_le_bytes());
    draft.out.extend_from_slice(command.as_ref().as_bytes());
    draft.finish()
}
