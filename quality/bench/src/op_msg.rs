//! Wire protocol messages as bytes.

use bson::{RawDocument, RawDocumentBuf};
use steadfast_wire::{DocumentBytes, DocumentRun, OpCode, OpMsg, OpReply};

/// Opcode of OP_QUERY, used by a driver's first message.
pub(crate) const OP_QUERY: i32 = OpCode::Query.code();
/// Offset of the body: after the header, the flags and the kind of the section.
pub(crate) const BODY_OFFSET: usize = 16 + 4 + 1;

/// Builds an OP_MSG with a body and a document sequence.
pub(crate) fn message(body: &RawDocument, sequence: Option<(&str, &[RawDocumentBuf])>) -> Vec<u8> {
    let mut message = OpMsg::new(document_bytes(body));
    if let Some((identifier, documents)) = sequence {
        let documents = DocumentRun::copy_from(documents).expect("valid documents");
        message = message.with_sequence(identifier, documents);
    }
    let mut bytes = Vec::new();
    message.encode(0, 0, &mut bytes).expect("a message of less than two gigabytes");
    bytes
}

/// Builds the reply to an OP_QUERY.
pub(crate) fn legacy_reply(body: &RawDocument) -> Vec<u8> {
    let mut bytes = Vec::new();
    let reply = OpReply::to_command(&document_bytes(body)).expect("a small reply");
    reply.encode(0, 0, &mut bytes).expect("a small reply");
    bytes
}

fn document_bytes(document: &RawDocument) -> DocumentBytes {
    document.try_into().expect("a valid document")
}

/// Reads the little-endian number at an offset.
pub(crate) fn i32_at(bytes: &[u8], at: usize) -> i32 {
    bytes[at..].first_chunk().map_or(0, |four| i32::from_le_bytes(*four))
}

/// Returns the length of the message at the beginning of the bytes, once its first four bytes are there.
pub(crate) fn message_length(bytes: &[u8]) -> Option<usize> {
    let length = bytes.first_chunk().map(|length| i32::from_le_bytes(*length))?;
    usize::try_from(length).ok()
}

/// Returns the offset after the first occurrence of `mark`.
pub(crate) fn offset_after(bytes: &[u8], mark: &[u8]) -> Option<usize> {
    bytes.windows(mark.len()).position(|window| window == mark).map(|at| at + mark.len())
}

/// Returns the offset after the last occurrence of `mark`.
pub(crate) fn last_offset_after(bytes: &[u8], mark: &[u8]) -> Option<usize> {
    bytes.windows(mark.len()).rposition(|window| window == mark).map(|at| at + mark.len())
}
