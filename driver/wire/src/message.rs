//! Whole messages of any operation, compressed or not.

use bytes::Bytes;

use crate::{
    compressor::{Compressor, CompressorSet},
    error::WireError,
    header::{HEADER_LENGTH, Header, OpCode},
    op_compressed,
    op_msg::OpMsg,
    op_query::OpQuery,
    op_reply::OpReply,
};

/// The content of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Message {
    /// OP_MSG: a command or a reply.
    Msg(OpMsg),
    /// OP_QUERY: a legacy hello.
    Query(OpQuery),
    /// OP_REPLY: the reply to a legacy hello.
    Reply(OpReply),
}

impl Message {
    /// Appends the message to `out` and returns its length. `response_to` is ignored for OP_QUERY,
    /// which is never a reply.
    ///
    /// # Errors
    ///
    /// An error if a string contains a NUL or the message is too long. `out` is unchanged then.
    pub fn encode(
        &self,
        request_id: i32,
        response_to: i32,
        out: &mut Vec<u8>,
    ) -> Result<usize, WireError> {
        match self {
            Message::Msg(message) => message.encode(request_id, response_to, out),
            Message::Query(query) => query.encode(request_id, out),
            Message::Reply(reply) => reply.encode(request_id, response_to, out),
        }
    }
}

/// A decoded message with its header.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IncomingMessage {
    /// The header as received. Its operation is [`OpCode::Compressed`] if the message was
    /// compressed.
    pub header: Header,
    /// The compressor of the message, or `None` if it was not compressed.
    pub compressor: Option<Compressor>,
    /// The decoded content.
    pub message: Message,
}

/// Decodes exactly one message, as delimited by [`frame`](crate::frame).
///
/// The documents of the result are slices of `bytes`, or of the decompressed bytes; nothing else is
/// copied. Each is validated once with [`validate_document`](crate::validate_document).
/// `max_message_size` limits the message both before and after decompression.
///
/// # Errors
///
/// Returns the first fault found. The connection must be closed then.
pub fn decode(bytes: Bytes, max_message_size: usize) -> Result<IncomingMessage, WireError> {
    decode_negotiated(bytes, max_message_size, CompressorSet::ALL)
}

/// Decodes one message like [`decode`], and rejects compressors that are not in `negotiated` before
/// decompression.
///
/// # Errors
///
/// Those of [`decode`], and [`WireError::CompressorNotNegotiated`].
pub fn decode_negotiated(
    bytes: Bytes,
    max_message_size: usize,
    negotiated: CompressorSet,
) -> Result<IncomingMessage, WireError> {
    let Some(header_bytes) = bytes.first_chunk::<HEADER_LENGTH>() else {
        let left = bytes.len();
        return Err(WireError::Truncated { what: "the header", needed: HEADER_LENGTH, left });
    };
    let header = Header::parse(header_bytes, max_message_size)?;
    if header.message_length != bytes.len() {
        return Err(WireError::LengthMismatch {
            claimed: header.message_length,
            actual: bytes.len(),
        });
    }
    let payload = bytes.slice(HEADER_LENGTH..);
    let (compressor, header_bytes, op_code, payload) = match header.op_code {
        OpCode::Compressed => {
            let inner = op_compressed::decompress(payload, max_message_size, negotiated)?;
            // The checksum covers the header of the message before compression.
            let original = Header {
                message_length: HEADER_LENGTH + inner.payload.len(),
                op_code: inner.op_code,
                ..header
            };
            (Some(inner.compressor), original.to_bytes()?, inner.op_code, inner.payload)
        }
        op_code @ (OpCode::Msg | OpCode::Query | OpCode::Reply) => {
            (None, *header_bytes, op_code, payload)
        }
    };
    let message = match op_code {
        OpCode::Msg => Message::Msg(OpMsg::decode(&header_bytes, payload)?),
        OpCode::Query => Message::Query(OpQuery::decode(payload)?),
        OpCode::Reply => Message::Reply(OpReply::decode(payload)?),
        OpCode::Compressed => return Err(WireError::NestedCompression),
    };
    Ok(IncomingMessage { header, compressor, message })
}
