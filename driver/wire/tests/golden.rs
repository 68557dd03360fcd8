//! Each form of message, byte for byte, written by hand from the protocol's documentation, in both
//! directions.
#![allow(missing_docs)]

use bson::rawdoc;
use bytes::Bytes;
use steadfast_wire::{
    Compressor, DEFAULT_MAX_MESSAGE_SIZE, DocumentBytes, DocumentRun, Header, IncomingMessage,
    Message, MessageWriter, MsgFlags, OpCode, OpMsg, OpQuery, OpReply, ZlibLevel, ZstdLevel,
    compress, decode, write_legacy_hello,
};

/// `{ ping: 1, $db: "admin" }`
const PING: &[u8] = b"\x1e\0\0\0\
    \x10ping\0\x01\0\0\0\
    \x02$db\0\x06\0\0\0admin\0\
    \0";

/// `{ ok: 1.0 }`
const OK: &[u8] = b"\x11\0\0\0\x01ok\0\0\0\0\0\0\0\xf0\x3f\0";

/// `{ _id: 1 }` and `{ _id: 2 }`
const ID_1: &[u8] = b"\x0e\0\0\0\x10_id\0\x01\0\0\0\0";
const ID_2: &[u8] = b"\x0e\0\0\0\x10_id\0\x02\0\0\0\0";

fn decoded(bytes: &[u8]) -> IncomingMessage {
    decode(Bytes::copy_from_slice(bytes), DEFAULT_MAX_MESSAGE_SIZE).unwrap()
}

fn decoded_msg(bytes: &[u8]) -> OpMsg {
    match decoded(bytes).message {
        Message::Msg(message) => message,
        other => panic!("not an OP_MSG: {other:?}"),
    }
}

fn bytes_of(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

#[test]
fn request_has_header_flags_and_body() {
    let golden = bytes_of(&[
        b"\x33\0\0\0", // 51 bytes
        b"\x07\0\0\0", // request 7
        b"\0\0\0\0",   // answers nothing
        b"\xdd\x07\0\0",
        b"\0\0\0\0", // no flags
        b"\0",       // a body
        PING,
    ]);

    let mut written = Vec::new();
    let mut message = MessageWriter::request(&mut written, 7, MsgFlags::empty());
    message.body().append_i32("ping", 1).unwrap().append_str("$db", "admin").unwrap();
    assert_eq!(message.finish(), Ok(51));
    assert_eq!(written, golden);

    let incoming = decoded(&golden);
    let header = Header { message_length: 51, request_id: 7, response_to: 0, op_code: OpCode::Msg };
    assert_eq!(incoming.header, header);
    assert_eq!(incoming.compressor, None);
    let message = decoded_msg(&golden);
    assert_eq!(message.flags, MsgFlags::empty());
    assert_eq!(message.body.as_bytes(), PING);
    assert!(message.sequences.is_empty());
}

#[test]
fn flag_bits_match_the_specification() {
    let flagged = |bits: &[u8; 4]| {
        bytes_of(&[b"\x26\0\0\0\x02\0\0\0\x01\0\0\0\xdd\x07\0\0", bits, b"\0", OK])
    };
    let body = DocumentBytes::parse(Bytes::from_static(OK)).unwrap();
    for (flags, golden) in [
        (MsgFlags::MORE_TO_COME, flagged(b"\x02\0\0\0")),
        (MsgFlags::EXHAUST_ALLOWED, flagged(b"\0\0\x01\0")),
        (MsgFlags::MORE_TO_COME | MsgFlags::EXHAUST_ALLOWED, flagged(b"\x02\0\x01\0")),
    ] {
        let mut written = Vec::new();
        OpMsg::new(body.clone()).with_flags(flags).encode(2, 1, &mut written).unwrap();
        assert_eq!(written, golden);
        assert_eq!(decoded_msg(&golden).flags, flags);
    }
    // Bits 17 to 31 are optional: unknown ones are ignored.
    assert_eq!(decoded_msg(&flagged(b"\x02\0\x02\x80")).flags, MsgFlags::MORE_TO_COME);
}

#[test]
fn checksum_is_at_the_end_of_the_message() {
    let golden = bytes_of(&[
        b"\x37\0\0\0\x05\0\0\0\0\0\0\0\xdd\x07\0\0",
        b"\x01\0\0\0", // checksumPresent
        b"\0",
        PING,
        // CRC-32C of all bytes above, taken bit by bit with the polynomial 0x82f63b78.
        b"\xb3\x15\xa5\x91",
    ]);

    let mut written = Vec::new();
    let mut message = MessageWriter::request(&mut written, 5, MsgFlags::CHECKSUM_PRESENT);
    message.body().append_i32("ping", 1).unwrap().append_str("$db", "admin").unwrap();
    assert_eq!(message.finish(), Ok(55));
    assert_eq!(written, golden);
    assert_eq!(decoded_msg(&golden).body.as_bytes(), PING);
}

#[test]
fn document_sequences_follow_the_body() {
    // { insert: "c", w: true }
    let body: &[u8] = b"\x17\0\0\0\x02insert\0\x02\0\0\0c\0\x08w\0\x01\0";
    let golden = bytes_of(&[
        b"\x70\0\0\0\x09\0\0\0\0\0\0\0\xdd\x07\0\0\0\0\0\0",
        b"\0",
        body,
        b"\x01",       // a sequence
        b"\x2a\0\0\0", // of 42 bytes
        b"documents\0",
        ID_1,
        ID_2,
        b"\x01",
        b"\x18\0\0\0", // 24
        b"other\0",
        ID_1,
    ]);
    assert_eq!(golden.len(), 112);

    let mut written = Vec::new();
    let mut message = MessageWriter::request(&mut written, 9, MsgFlags::empty());
    message.body().append_elements_of(rawdoc! { "insert": "c", "w": true });
    let mut sequence = message.start_sequence("documents").unwrap();
    sequence.push(rawdoc! { "_id": 1 });
    sequence.push_encoded(ID_2).unwrap();
    let mut sequence = sequence.start_sequence("other").unwrap();
    sequence.push_run(&DocumentRun::copy_from([rawdoc! { "_id": 1 }]).unwrap());
    assert_eq!(sequence.len(), 112);
    sequence.finish().unwrap();
    assert_eq!(written, golden);

    let message = decoded_msg(&golden);
    assert_eq!(message.body.get_str("insert").unwrap(), "c");
    let documents = message.sequence("documents").unwrap();
    let ids: Vec<_> = documents.iter().map(|document| document.get_i32("_id").unwrap()).collect();
    assert_eq!(ids, [1, 2]);
    assert_eq!(message.sequence("other").unwrap().documents.as_bytes(), ID_1);
    assert_eq!(message.sequence("missing"), None);
}

#[test]
fn document_sequence_may_precede_the_body_and_be_empty() {
    let golden = bytes_of(&[
        b"\x40\0\0\0\x01\0\0\0\0\0\0\0\xdd\x07\0\0\0\0\0\0",
        b"\x01\x0c\0\0\0deletes\0",
        b"\0",
        PING,
    ]);
    let message = decoded_msg(&golden);
    assert_eq!(message.body.as_bytes(), PING);
    assert!(message.sequence("deletes").unwrap().documents.is_empty());
}

#[test]
fn legacy_hello_is_a_query_of_admin_cmd() {
    let command: &[u8] = b"\x13\0\0\0\x10isMaster\0\x01\0\0\0\0";
    let golden = bytes_of(&[
        b"\x3a\0\0\0\x03\0\0\0\0\0\0\0\xd4\x07\0\0",
        b"\x04\0\0\0", // a secondary may answer
        b"admin.$cmd\0",
        b"\0\0\0\0",         // skip nothing
        b"\xff\xff\xff\xff", // return one, open no cursor
        command,
    ]);
    assert_eq!(golden.len(), 58);

    let mut written = Vec::new();
    write_legacy_hello(&mut written, 3, rawdoc! { "isMaster": 1 }).unwrap();
    assert_eq!(written, golden);

    let hello = OpQuery::hello(DocumentBytes::try_from(rawdoc! { "isMaster": 1 }).unwrap());
    let mut written = Vec::new();
    hello.encode(3, &mut written).unwrap();
    assert_eq!(written, golden);

    assert_eq!(decoded(&golden).message, Message::Query(hello.clone()));
    assert_eq!(hello.command_database(), Some("admin"));
    assert!(hello.secondary_ok());
}

#[test]
fn query_may_have_a_projection() {
    let golden = bytes_of(&[
        b"\x3c\0\0\0\x03\0\0\0\0\0\0\0\xd4\x07\0\0",
        b"\0\0\0\0a.b\0\0\0\0\0\x05\0\0\0",
        ID_1,
        ID_2,
    ]);
    assert_eq!(golden.len(), 60);
    let Message::Query(query) = decoded(&golden).message else { panic!("an OP_QUERY") };
    assert_eq!((query.namespace.as_str(), query.number_to_return), ("a.b", 5));
    assert_eq!(query.return_fields.as_ref().unwrap().as_bytes(), ID_2);
    assert_eq!(query.command_database(), None);
    let mut written = Vec::new();
    query.encode(3, &mut written).unwrap();
    assert_eq!(written, golden);
}

#[test]
fn reply_to_legacy_hello_has_one_document() {
    let golden = bytes_of(&[
        b"\x35\0\0\0\x0b\0\0\0\x03\0\0\0\x01\0\0\0",
        b"\x08\0\0\0",       // await capable
        b"\0\0\0\0\0\0\0\0", // no cursor
        b"\0\0\0\0",         // from the start
        b"\x01\0\0\0",       // one document
        OK,
    ]);
    assert_eq!(golden.len(), 53);

    let ok = DocumentBytes::parse(Bytes::from_static(OK)).unwrap();
    let reply = OpReply::to_command(&ok).unwrap();
    let mut written = Vec::new();
    reply.encode(11, 3, &mut written).unwrap();
    assert_eq!(written, golden);

    let incoming = decoded(&golden);
    assert_eq!(incoming.header.response_to, 3);
    assert_eq!(incoming.message, Message::Reply(reply.clone()));
    assert_eq!(reply.command_reply().unwrap(), ok);
    assert!(!reply.is_failure());
}

/// Builds an OP_COMPRESSED of `{ ok: 1.0 }` as a reply to request 1.
fn compressed_ok(id: u8, compressed: &[u8]) -> Vec<u8> {
    let length = u8::try_from(25 + compressed.len()).unwrap();
    bytes_of(&[
        &[length, 0, 0, 0],
        b"\x02\0\0\0\x01\0\0\0\xdc\x07\0\0",
        b"\xdd\x07\0\0", // an OP_MSG
        b"\x16\0\0\0",   // of 22 bytes without its header
        &[id],
        compressed,
    ])
}

#[test]
fn compressed_messages_are_decoded_from_handmade_bytes() {
    let plain = bytes_of(&[b"\0\0\0\0\0", OK]);
    assert_eq!(plain.len(), 22);
    // The simplest form of each format: one literal, one stored block, one raw block.
    let snappy = bytes_of(&[&[22, (22 - 1) << 2], &plain]);
    let zlib = bytes_of(&[b"\x78\x01\x01\x16\0\xe9\xff", &plain, b"\x0e\x5f\x02\x1c"]);
    let zstd = bytes_of(&[b"\x28\xb5\x2f\xfd\x20\x16", &[(22 << 3) | 1, 0, 0], &plain]);
    for (compressor, bytes) in [
        (Compressor::Noop, plain),
        (Compressor::Snappy, snappy),
        (Compressor::Zlib(ZlibLevel::DEFAULT), zlib),
        (Compressor::Zstd(ZstdLevel::DEFAULT), zstd),
    ] {
        let golden = compressed_ok(compressor.id(), &bytes);
        let incoming = decoded(&golden);
        assert_eq!(incoming.compressor, Some(compressor));
        assert_eq!(incoming.header.op_code, OpCode::Compressed);
        assert_eq!(incoming.header.response_to, 1);
        let Message::Msg(message) = incoming.message else { panic!("an OP_MSG") };
        assert_eq!(message.body.as_bytes(), OK);
    }
}

#[test]
fn compressed_message_has_original_operation_and_size() {
    let mut message = Vec::new();
    let ok = DocumentBytes::parse(Bytes::from_static(OK)).unwrap();
    OpMsg::new(ok).encode(2, 1, &mut message).unwrap();
    let mut written = b"before".to_vec();
    compress(&message, Compressor::Noop, &mut written).unwrap();
    assert_eq!(written, [b"before", &*compressed_ok(0, &message[16..])].concat());
}
