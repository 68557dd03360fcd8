//! Whole messages, whichever operation they are and whether or not they came compressed.

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
    /// A command or a reply to one.
    Msg(OpMsg),
    /// A legacy hello.
    Query(OpQuery),
    /// The answer to a legacy hello.
    Reply(OpReply),
}

impl Message {
    /// Appends the message to `out` and returns its length. An OP_QUERY answers nothing, so that its `response_to` is
    /// always 0.
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

/// A message as it came in.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Incoming {
    /// The header as it came; its operation is [`OpCode::Compressed`] if the message came compressed.
    pub header: Header,
    /// How the message was compressed, if it was.
    pub compressor: Option<Compressor>,
    /// What is in it.
    pub message: Message,
}

/// Decodes exactly one message, as [`frame`](crate::frame) measures it off.
///
/// The documents in the result are slices of `bytes` (or of what `bytes` decompress to): nothing else is copied. Each of
/// them has been through [`validate_document`](crate::validate_document) once, here, so that what is handed on can be
/// walked without fear. `max_message_size` binds the message both as it came and as it is when decompressed.
pub fn decode(bytes: Bytes, max_message_size: usize) -> Result<Incoming, WireError> {
    decode_negotiated(bytes, max_message_size, CompressorSet::ALL)
}

/// Decodes one message as [`decode`] does, and rejects a message compressed by a compressor that is not in
/// `negotiated`, before anything is decompressed.
pub fn decode_negotiated(
    bytes: Bytes,
    max_message_size: usize,
    negotiated: CompressorSet,
) -> Result<Incoming, WireError> {
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
            // The header as it was before compression: a checksum covers it.
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
    Ok(Incoming { header, compressor, message })
}
