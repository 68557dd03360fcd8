//! Messages as bytes: built once, patched in place, cut out of a stream.

use bson::{RawDocument, RawDocumentBuf};

/// The code of OP_MSG.
pub(crate) const OP_MSG: i32 = 2013;
/// The code of OP_QUERY, which a driver's first message is.
pub(crate) const OP_QUERY: i32 = 2004;
/// The code of OP_REPLY, which answers it.
const OP_REPLY: i32 = 1;
/// Where the body begins: after the header, the flags and the section's kind.
pub(crate) const BODY_AT: usize = 16 + 4 + 1;

/// A message with a body, and documents beside it.
pub(crate) fn message(body: &RawDocument, beside: Option<(&str, &[RawDocumentBuf])>) -> Vec<u8> {
    let mut bytes = header(OP_MSG);
    bytes.extend([0; 4]);
    bytes.push(0);
    bytes.extend_from_slice(body.as_bytes());
    if let Some((identifier, documents)) = beside {
        bytes.push(1);
        let start = bytes.len();
        bytes.extend([0; 4]);
        bytes.extend_from_slice(identifier.as_bytes());
        bytes.push(0);
        for document in documents {
            bytes.extend_from_slice(document.as_bytes());
        }
        let size = length(bytes.len() - start);
        bytes[start..start + 4].copy_from_slice(&size);
    }
    finished(bytes)
}

/// The answer to an OP_QUERY.
pub(crate) fn legacy_reply(body: &RawDocument) -> Vec<u8> {
    let mut bytes = header(OP_REPLY);
    // Flags, cursor, where it starts; and one document.
    bytes.extend([0; 4 + 8 + 4]);
    bytes.extend_from_slice(&1_i32.to_le_bytes());
    bytes.extend_from_slice(body.as_bytes());
    finished(bytes)
}

fn header(code: i32) -> Vec<u8> {
    let mut bytes = vec![0; 12];
    bytes.extend_from_slice(&code.to_le_bytes());
    bytes
}

fn finished(mut bytes: Vec<u8>) -> Vec<u8> {
    let total = length(bytes.len());
    bytes[..4].copy_from_slice(&total);
    bytes
}

fn length(bytes: usize) -> [u8; 4] {
    i32::try_from(bytes).expect("a message of less than two gigabytes").to_le_bytes()
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
