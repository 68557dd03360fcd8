//! OP_COMPRESSED: another message in compressed form, and the commands that are never compressed.

mod codec;

use bytes::Bytes;

use crate::{
    compressor::{Compressor, CompressorSet},
    draft::{MessageDraft, split_message},
    error::WireError,
    header::{HEADER_LENGTH, OpCode},
    op_msg,
    reader::PayloadReader,
};

/// Commands that the compression specification excludes, in lower case: they carry credentials or
/// come before the negotiation. `isMaster` has two spellings.
const NEVER_COMPRESSED: [&str; 11] = [
    "authenticate",
    "copydb",
    "copydbgetnonce",
    "copydbsaslstart",
    "createuser",
    "getnonce",
    "hello",
    "ismaster",
    "saslcontinue",
    "saslstart",
    "updateuser",
];

/// Returns `true` if messages with this command may be compressed.
///
/// ```
/// use steadfast_wire::may_compress;
///
/// assert!(may_compress("insert"));
/// assert!(!may_compress("saslStart"));
/// ```
pub fn may_compress(command: &str) -> bool {
    !NEVER_COMPRESSED.iter().any(|name| name.eq_ignore_ascii_case(command))
}

/// Appends the compressed form of a finished message to `out` and returns its length.
///
/// The message itself is inspected: a request whose command [may not be compressed](may_compress),
/// or a legacy hello (OP_QUERY), is an error and `out` stays unchanged. Replies (`responseTo` other
/// than 0) contain no command. A checksum in the message is kept and covers the uncompressed
/// message.
///
/// # Errors
///
/// [`WireError::MustNotCompress`], [`WireError::NestedCompression`], or an error of the compressor.
pub fn compress(
    message: &[u8],
    compressor: Compressor,
    out: &mut Vec<u8>,
) -> Result<usize, WireError> {
    let (header, payload) = split_message(message)?;
    match header.op_code {
        OpCode::Compressed => return Err(WireError::NestedCompression),
        OpCode::Query => {
            return Err(WireError::MustNotCompress { command: "the legacy hello".to_owned() });
        }
        OpCode::Msg if header.response_to == 0 => {
            let command = op_msg::command_name(payload)?;
            if !may_compress(&command) {
                return Err(WireError::MustNotCompress { command });
            }
        }
        OpCode::Msg | OpCode::Reply => {}
    }
    let size = i32::try_from(payload.len())
        .map_err(|_| WireError::TooLongToWrite { what: "the message", length: payload.len() })?;
    let draft = MessageDraft::start(out, header.request_id, header.response_to, OpCode::Compressed);
    draft.out.extend_from_slice(&header.op_code.code().to_le_bytes());
    draft.out.extend_from_slice(&size.to_le_bytes());
    draft.out.push(compressor.id());
    codec::compress(compressor, payload, draft.out)?;
    draft.finish()
}

/// The content of an OP_COMPRESSED.
#[derive(Debug)]
pub(crate) struct Decompressed {
    pub(crate) compressor: Compressor,
    pub(crate) op_code: OpCode,
    pub(crate) payload: Bytes,
}

/// Decompresses the payload of an OP_COMPRESSED if the message does not exceed `max_message_size`.
pub(crate) fn decompress(
    payload: Bytes,
    max_message_size: usize,
    negotiated: CompressorSet,
) -> Result<Decompressed, WireError> {
    let mut reader = PayloadReader::new(payload);
    let op_code = OpCode::from_code(reader.i32("the original operation code")?)?;
    if op_code == OpCode::Compressed {
        return Err(WireError::NestedCompression);
    }
    let claimed = reader.i32("the uncompressed size")?;
    let compressor = Compressor::from_id(reader.u8("the compressor id")?)?;
    // `uncompressedSize` excludes the header, the limit includes it. Nothing is allocated before
    // this check.
    let max = max_message_size.saturating_sub(HEADER_LENGTH);
    let size = match usize::try_from(claimed) {
        Ok(size) if size <= max => size,
        Ok(_) | Err(_) => return Err(WireError::UncompressedSize { claimed, max }),
    };
    if !negotiated.contains(compressor) {
        return Err(WireError::CompressorNotNegotiated { compressor });
    }
    let left = reader.left();
    let compressed = reader.take(left, "the compressed message")?;
    let payload = codec::decompress(compressor, compressed, size)?;
    if payload.len() == size {
        Ok(Decompressed { compressor, op_code, payload })
    } else {
        Err(WireError::UncompressedSizeMismatch { claimed: size, actual: payload.len() })
    }
}
