//! Arbitrary bytes as a message: decoding never panics, memory stays within the limit, and a
//! decoded message encodes to an equal one.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use steadfast_wire::{Framing, IncomingMessage, Message, decode, frame, validate_document};

/// A small limit, so that lengths above it are found often.
const MAX_MESSAGE_SIZE: usize = 1 << 16;

fuzz_target!(|data: &[u8]| {
    if validate_document(data).is_ok() {
        walk(data);
    }
    let framing = frame(data, MAX_MESSAGE_SIZE);
    let Ok(incoming) = decode(Bytes::copy_from_slice(data), MAX_MESSAGE_SIZE) else {
        return;
    };
    assert_eq!(framing, Ok(Framing::Complete { length: data.len() }));
    assert_round_trip(&incoming);
    match &incoming.message {
        Message::Msg(message) => walk(message.body.as_bytes()),
        Message::Query(query) => walk(query.query.as_bytes()),
        Message::Reply(reply) => reply.documents.iter().for_each(|reply| walk(reply.as_bytes())),
        _ => {}
    }
});

fn assert_round_trip(incoming: &IncomingMessage) {
    let header = incoming.header;
    let mut bytes = Vec::new();
    incoming
        .message
        .encode(header.request_id, header.response_to, &mut bytes)
        .expect("a decoded message can be encoded");
    let again = decode(bytes.into(), 2 * MAX_MESSAGE_SIZE).expect("an encoded message can be decoded");
    assert_eq!(again.message, incoming.message);
}

/// A document that passed validation may contain invalid values; decoding must not panic.
fn walk(document: &[u8]) {
    let raw = bson::RawDocument::from_bytes(document).expect("a length and a terminator");
    let _ = bson::Document::try_from(raw);
}
