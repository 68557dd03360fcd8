//! Replies made by the proxy, in the wire format of the request.

use bson::{Bson, Document, RawDocumentBuf, doc};
use bytes::Bytes;
use steadfast_wire::{
    DEFAULT_MAX_MESSAGE_SIZE, DocumentBytes, Message, OpMsg, OpReply, WireError, compress, decode,
};

use super::{
    message_view::WireFormat,
    reaction::{ErrorReply, WriteConcernError},
};
use blackpipe_base::codes::{self, ErrorContext};

/// Encodes a reply to a request.
pub(crate) fn compose(
    reply: &Document,
    form: WireFormat,
    request_id: i32,
    response_to: i32,
) -> Result<Vec<u8>, WireError> {
    let message = match form.legacy {
        true => Message::Reply(OpReply::to_command(&document_bytes(reply)?)?),
        false => Message::Msg(OpMsg::new(document_bytes(reply)?)),
    };
    encode(&message, form, request_id, response_to)
}

/// Re-encodes the message after `change` edited its body. Returns `None` if `change` returns
/// `false` or the message has no body.
pub(crate) fn map_body(
    message: &[u8],
    change: impl FnOnce(&mut Document) -> bool,
) -> Result<Option<Vec<u8>>, WireError> {
    let incoming = decode(Bytes::copy_from_slice(message), DEFAULT_MAX_MESSAGE_SIZE)?;
    let header = incoming.header;
    let form = WireFormat { legacy: false, compressor: incoming.compressor };
    let raw = match &incoming.message {
        Message::Msg(message) => message.body.clone(),
        Message::Reply(reply) => reply.command_reply()?,
        _ => return Ok(None),
    };
    let Ok(mut document) = Document::try_from(raw.as_raw()) else { return Ok(None) };
    if !change(&mut document) {
        return Ok(None);
    }
    let body = document_bytes(&document)?;
    let message = match incoming.message {
        Message::Msg(mut message) => {
            message.body = body;
            Message::Msg(message)
        }
        Message::Reply(mut reply) => {
            reply.documents = OpReply::to_command(&body)?.documents;
            Message::Reply(reply)
        }
        other => other,
    };
    encode(&message, form, header.request_id, header.response_to).map(Some)
}

fn encode(
    message: &Message,
    form: WireFormat,
    request_id: i32,
    response_to: i32,
) -> Result<Vec<u8>, WireError> {
    let mut plain = Vec::new();
    message.encode(request_id, response_to, &mut plain)?;
    let Some(compressor) = form.compressor else { return Ok(plain) };
    let mut compressed = Vec::new();
    compress(&plain, compressor, &mut compressed)?;
    Ok(compressed)
}

fn document_bytes(document: &Document) -> Result<DocumentBytes, WireError> {
    let raw = RawDocumentBuf::try_from(document)
        // A decoded document can be encoded, unless a key contains NUL.
        .unwrap_or_else(|_| RawDocumentBuf::new());
    raw.try_into().map_err(|fault| WireError::Document { what: "the reply", fault })
}

/// Builds the error reply of a rule.
pub(crate) fn error_document(error: &ErrorReply, context: ErrorContext) -> Document {
    let name = error.code_name.as_deref().or(codes::name_of(error.code));
    let message = error.message.as_deref().unwrap_or("error injected by a rule of the proxy");
    let mut reply = doc! { "ok": 0.0, "errmsg": message, "code": error.code };
    if let Some(name) = name {
        reply.insert("codeName", name);
    }
    let labels = error.labels.clone().unwrap_or_else(|| codes::labels_of(error.code, context));
    if !labels.is_empty() {
        reply.insert("errorLabels", labels);
    }
    reply.extend(error.fields.clone().unwrap_or_default());
    reply
}

/// Adds the write concern error of a rule to a reply.
pub(crate) fn add_write_concern_error(
    reply: &mut Document,
    error: &WriteConcernError,
    context: ErrorContext,
) {
    let message =
        error.message.as_deref().unwrap_or("write concern error injected by a rule of the proxy");
    let mut added = doc! { "code": error.code, "errmsg": message };
    let name = error.code_name.as_deref().or(codes::name_of(error.code));
    if let Some(name) = name {
        added.insert("codeName", name);
    }
    added.extend(error.fields.clone().unwrap_or_default());
    reply.insert("writeConcernError", added);
    let labels = error.labels.clone().unwrap_or_else(|| codes::labels_of(error.code, context));
    if !labels.is_empty() {
        let labels: Vec<Bson> = labels.into_iter().map(Bson::from).collect();
        reply.insert("errorLabels", labels);
    }
}
