//! Messages as bytes: built once, patched in place, cut out of a stream.

use bson::{RawDocument, RawDocumentBuf};
use steadfast_wire::{DocumentBytes, DocumentRun, OpCode, OpMsg, OpReply};

/// The code of OP_QUERY, which a driver's first message is.
pub(crate) const OP_QUERY: i32 = OpCode::Query.code();
/// Where the body begins: after the header, the flags and the section's kind.
pub(crate) const BODY_AT: usize = 16 + 4 + 1;

/// A message with a body and a document sequence.
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

/// The answer to an OP_QUERY.
pub(crate) fn legacy_reply(body: &RawDocument) -> Vec<u8> {
    let mut bytes = Vec::new();
    let reply = OpReply::to_command(&document_bytes(body)).expect("a small reply");
    reply.encode(0, 0, &mut bytes).expect("a small reply");
    bytes
}

fn document_bytes(document: &RawDocument) -> DocumentBytes {
    document.try_into().expect("a valid document")
}

/// The number at this place.
pub(crate) fn i32_at(bytes: &[u8], at: usize) -> i32 {
    bytes[at..].first_chunk().map_or(0, |four| i32::from_le_bytes(*four))
}

/// How long the message is that begins here, once that is known.
pub(crate) fn message_length(bytes: &[u8]) -> Option<usize> {
    let length = bytes.first_chunk().map(|length| i32::from_le_bytes(*length))?;
    usize::try_from(length).ok()
}

/// Where the value stands that follows these bytes, looked for from the beginning.
pub(crate) fn place_after(bytes: &[u8], mark: &[u8]) -> Option<usize> {
    bytes.windows(mark.len()).position(|window| window == mark).map(|at| at + mark.len())
}

/// The same, looked for from the end.
pub(crate) fn last_place_after(bytes: &[u8], mark: &[u8]) -> Option<usize> {
    bytes.windows(mark.len()).rposition(|window| window == mark).map(|at| at + mark.len())
}
