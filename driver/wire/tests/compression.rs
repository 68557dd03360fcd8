//! Compression: limits that are checked before memory is allocated, and commands that are never
//! compressed.
#![allow(missing_docs)]

use bson::rawdoc;
use bytes::Bytes;
use steadfast_wire::{
    Compressor, DocumentBytes, IncomingMessage, Message, MessageWriter, MsgFlags, OpMsg, OpReply,
    WireError, ZlibLevel, ZstdLevel, compress, decode, may_compress, write_legacy_hello,
};

const ALL: [Compressor; 4] = [
    Compressor::Noop,
    Compressor::Snappy,
    Compressor::Zlib(ZlibLevel::DEFAULT),
    Compressor::Zstd(ZstdLevel::DEFAULT),
];

fn request(command: &str) -> Vec<u8> {
    let mut message = Vec::new();
    let mut writer = MessageWriter::request(&mut message, 1, MsgFlags::empty());
    writer.body().append_i32(command, 1).unwrap().append_str("text", &"a".repeat(5000)).unwrap();
    writer.finish().unwrap();
    message
}

fn compressed(message: &[u8], compressor: Compressor) -> Vec<u8> {
    let mut out = Vec::new();
    compress(message, compressor, &mut out).unwrap();
    out
}

fn decoded(bytes: &[u8], max: usize) -> Result<IncomingMessage, WireError> {
    decode(Bytes::copy_from_slice(bytes), max)
}

/// Builds an OP_COMPRESSED with these fields, valid or not.
fn op_compressed(op_code: i32, claimed: i32, id: u8, data: &[u8]) -> Vec<u8> {
    let length = i32::try_from(25 + data.len()).unwrap();
    let mut message = Vec::new();
    for field in [length, 1, 0, 2012, op_code, claimed] {
        message.extend_from_slice(&field.to_le_bytes());
    }
    message.push(id);
    message.extend_from_slice(data);
    message
}

#[test]
fn every_compressor_round_trips() {
    let message = request("insert");
    let plain = decoded(&message, 10_000).unwrap().message;
    for compressor in ALL {
        let bytes = compressed(&message, compressor);
        assert!(compressor == Compressor::Noop || bytes.len() < message.len() / 2);
        let incoming = decoded(&bytes, 10_000).unwrap();
        assert_eq!(incoming.message, plain);
        assert_eq!(incoming.compressor, Some(compressor));
        assert!(compressor.is_built_in());
    }
}

#[test]
fn zlib_levels_outside_the_range_are_rejected() {
    let message = request("insert");
    for level in -1..=9 {
        let level = ZlibLevel::new(level).unwrap();
        assert!(decoded(&compressed(&message, Compressor::Zlib(level)), 10_000).is_ok());
    }
    for level in [i32::MIN, -2, 10, 128, 256, i32::MAX] {
        assert_eq!(ZlibLevel::new(level), Err(WireError::ZlibLevel { level }));
    }
}

#[test]
fn zstd_levels_change_the_size_and_not_the_message() {
    let message = request("insert");
    let sizes = [-50, 1, 22].map(|level| {
        let bytes = compressed(&message, Compressor::Zstd(ZstdLevel::new(level).unwrap()));
        assert!(decoded(&bytes, 10_000).is_ok());
        bytes.len()
    });
    assert!(sizes[0] > sizes[2], "{sizes:?}");
    for level in [-131_073, 23] {
        assert_eq!(ZstdLevel::new(level), Err(WireError::ZstdLevel { level }));
    }
}

#[test]
fn compressors_have_names_and_ids() {
    for (id, name) in (0..).zip(["noop", "snappy", "zlib", "zstd"]) {
        let compressor = Compressor::from_id(id).unwrap();
        assert_eq!(name.parse(), Ok(compressor));
        assert_eq!((compressor.id(), compressor.name()), (id, name));
    }
    for id in 4..=255 {
        assert_eq!(Compressor::from_id(id), Err(WireError::UnknownCompressorId { id }));
        assert!(decoded(&op_compressed(2013, 10, id, b"0123456789"), 1000).is_err());
    }
    let unknown = WireError::UnknownCompressorName { name: "Snappy".to_owned() };
    assert_eq!("Snappy".parse::<Compressor>(), Err(unknown));
}

// pitfall 43
#[test]
fn claimed_size_above_the_limit_is_rejected_before_decompression() {
    // No compressor could read this data: the claimed size alone is rejected.
    for id in 0..4 {
        for claimed in [985, i32::MAX, -1, i32::MIN] {
            let error = decoded(&op_compressed(2013, claimed, id, b"?"), 1000).unwrap_err();
            assert_eq!(error, WireError::UncompressedSize { claimed, max: 984 });
        }
    }
}

// pitfall 43
#[test]
fn decompression_stops_at_the_claimed_size() {
    let message = request("insert");
    let bytes: Vec<_> = ALL.iter().map(|with| compressed(&message, *with)).collect();
    let actual = message.len() - 16;
    for (compressor, bytes) in ALL.iter().zip(bytes) {
        for claimed in [0, 1, actual - 1, actual + 1, 9000] {
            let lying =
                op_compressed(2013, i32::try_from(claimed).unwrap(), compressor.id(), &bytes[25..]);
            let error = decoded(&lying, 10_000).unwrap_err();
            match error {
                WireError::UncompressedSizeMismatch { claimed: reported, actual: made } => {
                    assert_eq!(reported, claimed);
                    let size_is_checked_first =
                        matches!(compressor, Compressor::Noop | Compressor::Snappy);
                    assert!(
                        size_is_checked_first || made <= claimed + 1,
                        "{compressor} made {made}"
                    );
                }
                WireError::Decompress { .. } => {
                    assert_eq!(*compressor, Compressor::Zstd(ZstdLevel::DEFAULT));
                }
                other => panic!("{compressor}: {other}"),
            }
        }
    }
}

// pitfall 43
#[test]
fn decompression_bombs_are_rejected() {
    let mut message = Vec::new();
    let mut writer = MessageWriter::request(&mut message, 1, MsgFlags::empty());
    writer.body().append_str("x", &"\0".repeat(20_000_000)).unwrap();
    writer.finish().unwrap();
    for compressor in [Compressor::Zlib(ZlibLevel::DEFAULT), Compressor::Zstd(ZstdLevel::DEFAULT)] {
        let bomb = compressed(&message, compressor);
        assert!(bomb.len() < 100_000);
        let honest = decoded(&bomb, 1_000_000).unwrap_err();
        assert!(matches!(honest, WireError::UncompressedSize { max: 999_984, .. }));
        let lying = op_compressed(2013, 1000, compressor.id(), &bomb[25..]);
        assert!(decoded(&lying, 1_000_000).is_err());
    }
}

#[test]
fn truncated_or_extended_compressed_data_is_rejected() {
    let message = request("insert");
    for compressor in ALL {
        let bytes = compressed(&message, compressor);
        let claimed = i32::try_from(message.len() - 16).unwrap();
        for cut in 25..bytes.len() {
            let short = op_compressed(2013, claimed, compressor.id(), &bytes[25..cut]);
            assert!(decoded(&short, 10_000).is_err(), "{compressor} cut at {cut}");
        }
        let more = [&bytes[25..], b"more"].concat();
        assert!(decoded(&op_compressed(2013, claimed, compressor.id(), &more), 10_000).is_err());
    }
}

#[test]
fn nested_compression_is_rejected() {
    let inner = compressed(&request("insert"), Compressor::Noop);
    let claimed = i32::try_from(inner.len() - 16).unwrap();
    let nested = op_compressed(2012, claimed, 0, &inner[16..]);
    assert_eq!(decoded(&nested, 10_000), Err(WireError::NestedCompression));
    let again = compress(&inner, Compressor::Noop, &mut Vec::new());
    assert_eq!(again, Err(WireError::NestedCompression));
    let unknown = op_compressed(2010, claimed, 0, &inner[16..]);
    assert_eq!(decoded(&unknown, 10_000), Err(WireError::UnknownOpCode { op_code: 2010 }));
}

#[test]
fn checksum_covers_the_uncompressed_message() {
    let body = DocumentBytes::try_from(rawdoc! { "insert": "c" }).unwrap();
    let message = OpMsg::new(body).with_flags(MsgFlags::CHECKSUM_PRESENT);
    let mut plain = Vec::new();
    message.encode(77, 0, &mut plain).unwrap();
    let mut bytes = compressed(&plain, Compressor::Noop);
    let incoming = decoded(&bytes, 1000).unwrap();
    assert_eq!(incoming.message, Message::Msg(message));
    // The request id is only in the outer header, but the checksum covers it.
    bytes[4] ^= 1;
    assert!(matches!(decoded(&bytes, 1000), Err(WireError::ChecksumMismatch { .. })));
}

// pitfall 46
#[test]
fn commands_with_credentials_and_hello_are_never_compressed() {
    let mut out = b"before".to_vec();
    for command in [
        "hello",
        "isMaster",
        "ismaster",
        "saslStart",
        "saslContinue",
        "getnonce",
        "authenticate",
        "createUser",
        "updateUser",
        "copydbSaslStart",
        "copydbgetnonce",
        "copydb",
    ] {
        assert!(!may_compress(command));
        let error = compress(&request(command), Compressor::Snappy, &mut out).unwrap_err();
        assert_eq!(error, WireError::MustNotCompress { command: command.to_owned() });
    }
    let mut hello = Vec::new();
    write_legacy_hello(&mut hello, 1, rawdoc! { "isMaster": 1 }).unwrap();
    let error = compress(&hello, Compressor::Snappy, &mut out).unwrap_err();
    assert!(matches!(error, WireError::MustNotCompress { .. }));
    assert_eq!(out, b"before");
    for command in ["insert", "ping", "find", "endSessions", "hello2", ""] {
        assert!(may_compress(command));
    }
}

// pitfall 46
#[test]
fn command_name_is_found_after_a_document_sequence() {
    let mut message = b"\0\0\0\0\x01\0\0\0\0\0\0\0\xdd\x07\0\0\0\0\0\0\x01\x06\0\0\0s\0\0".to_vec();
    message.extend_from_slice(rawdoc! { "saslStart": 1 }.as_bytes());
    message[0] = u8::try_from(message.len()).unwrap();
    let error = compress(&message, Compressor::Noop, &mut Vec::new()).unwrap_err();
    assert_eq!(error, WireError::MustNotCompress { command: "saslStart".to_owned() });
}

#[test]
fn replies_may_be_compressed_with_any_first_key() {
    let body = DocumentBytes::try_from(rawdoc! { "ismaster": true, "ok": 1 }).unwrap();
    let mut message = Vec::new();
    OpMsg::new(body.clone()).encode(2, 1, &mut message).unwrap();
    assert!(decoded(&compressed(&message, Compressor::Zstd(ZstdLevel::DEFAULT)), 1000).is_ok());
    let mut message = Vec::new();
    let reply = OpReply::to_command(&body).unwrap();
    reply.encode(2, 1, &mut message).unwrap();
    let incoming =
        decoded(&compressed(&message, Compressor::Zstd(ZstdLevel::DEFAULT)), 1000).unwrap();
    assert_eq!(incoming.message, Message::Reply(reply));
}

#[test]
fn truncated_message_is_not_compressed() {
    let message = request("insert");
    for cut in 0..message.len() {
        assert!(compress(&message[..cut], Compressor::Noop, &mut Vec::new()).is_err());
    }
}
