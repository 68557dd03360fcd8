//! Messages with one fault each: every error names the wrong numbers.
#![allow(missing_docs)]

use bson::{RawArrayBuf, RawDocumentBuf, rawdoc};
use bytes::Bytes;
use steadfast_wire::{
    DocumentBytes, DocumentFault, DocumentRun, Framing, Header, IncomingMessage, MAX_NESTING,
    MessageWriter, MsgFlags, OpMsg, OpQuery, OpReply, WireError, decode, frame, validate_document,
};

const MAX: usize = 1000;

fn decoded(bytes: &[u8]) -> Result<IncomingMessage, WireError> {
    decode(Bytes::copy_from_slice(bytes), MAX)
}

fn ok() -> DocumentBytes {
    DocumentBytes::try_from(rawdoc! { "ok": 1 }).unwrap()
}

/// One valid message of each form.
fn good_messages() -> Vec<Vec<u8>> {
    let documents = DocumentRun::copy_from([rawdoc! { "_id": 1 }, rawdoc! { "_id": 2 }]).unwrap();
    let msg = OpMsg::new(ok()).with_sequence("documents", documents);
    let flags = MsgFlags::CHECKSUM_PRESENT;
    let mut messages = vec![Vec::new(); 4];
    msg.encode(1, 0, &mut messages[0]).unwrap();
    msg.with_flags(flags).encode(1, 0, &mut messages[1]).unwrap();
    OpQuery::hello(ok()).encode(1, &mut messages[2]).unwrap();
    OpReply::to_command(&ok()).unwrap().encode(1, 2, &mut messages[3]).unwrap();
    for id in 0..4 {
        let compressor = steadfast_wire::Compressor::from_id(id).unwrap();
        let mut compressed = Vec::new();
        steadfast_wire::compress(&messages[0], compressor, &mut compressed).unwrap();
        messages.push(compressed);
    }
    messages
}

fn with_length(mut message: Vec<u8>) -> Vec<u8> {
    let length = i32::try_from(message.len()).unwrap();
    message[..4].copy_from_slice(&length.to_le_bytes());
    message
}

/// Builds an OP_MSG of these sections.
fn msg(flags: u32, sections: &[u8]) -> Vec<u8> {
    let head = b"\0\0\0\0\x01\0\0\0\0\0\0\0\xdd\x07\0\0".to_vec();
    with_length([head, flags.to_le_bytes().to_vec(), sections.to_vec()].concat())
}

// pitfall 42
#[test]
fn message_length_is_checked_before_use() {
    let framed = |length: i32| frame(&length.to_le_bytes(), MAX);
    for length in [i32::MIN, -1, 0, 15] {
        assert_eq!(framed(length), Err(WireError::LengthTooSmall { length }));
    }
    assert_eq!(framed(16), Ok(Framing::Incomplete { needed: 12 }));
    assert_eq!(framed(1000), Ok(Framing::Incomplete { needed: 12 }));
    assert_eq!(framed(1001), Err(WireError::LengthTooLarge { length: 1001, max: MAX }));
    let most = usize::try_from(i32::MAX).unwrap();
    assert_eq!(framed(i32::MAX), Err(WireError::LengthTooLarge { length: most, max: MAX }));
    let mut header = [0; 16];
    header[..4].copy_from_slice(&i32::MAX.to_le_bytes());
    let error = Header::parse(&header, MAX).unwrap_err();
    assert_eq!(error, WireError::LengthTooLarge { length: most, max: MAX });
}

#[test]
fn other_protocols_are_named() {
    let error = frame(b"HTTP/1.1 400 Bad Request\r\n", 48_000_000).unwrap_err();
    assert_eq!(error, WireError::OtherProtocol { protocol: "an HTTP response" });
    let error = frame(b"SSH-2.0", 48_000_000).unwrap_err();
    assert_eq!(error, WireError::OtherProtocol { protocol: "an SSH greeting" });
    assert!(error.to_string().contains("SSH"));
}

// pitfall 42
#[test]
fn truncated_message_needs_exactly_the_missing_bytes() {
    for message in good_messages() {
        for cut in 0..message.len() {
            let needed = if cut < 16 { 16 - cut } else { message.len() - cut };
            assert_eq!(frame(&message[..cut], MAX), Ok(Framing::Incomplete { needed }));
            assert!(decoded(&message[..cut]).is_err());
        }
        let complete = Ok(Framing::Complete { length: message.len() });
        assert_eq!(frame(&message, MAX), complete);
        // The beginning of the next message makes no difference.
        assert_eq!(frame(&[message.as_slice(), b"abc"].concat(), MAX), complete);
        assert!(decoded(&message).is_ok());
    }
}

// pitfall 42
#[test]
fn truncated_message_with_matching_length_is_rejected() {
    for (form, message) in good_messages().into_iter().enumerate() {
        // Cut off before its document sequence, an OP_MSG is still valid.
        let good_cut = (form == 0).then_some(21 + ok().as_bytes().len());
        for cut in (16..message.len()).filter(|cut| Some(*cut) != good_cut) {
            assert!(decoded(&with_length(message[..cut].to_vec())).is_err(), "{message:?} {cut}");
        }
        let longer = with_length([message.as_slice(), b"\0"].concat());
        assert!(decoded(&longer).is_err(), "{message:?} and a byte");
    }
}

#[test]
fn decode_requires_exactly_one_message() {
    let message = good_messages().remove(0);
    let longer = [message.as_slice(), b"x"].concat();
    let claimed = message.len();
    let mismatch = WireError::LengthMismatch { claimed, actual: claimed + 1 };
    assert_eq!(decoded(&longer), Err(mismatch));
}

#[test]
fn unknown_operation_is_rejected_with_the_header() {
    let header = b"\x20\0\0\0\x01\0\0\0\0\0\0\0\xd2\x07\0\0";
    assert_eq!(frame(header, MAX), Err(WireError::UnknownOpCode { op_code: 2002 }));
}

#[test]
fn unknown_required_flags_are_rejected() {
    let body = [b"\0", ok().as_bytes()].concat();
    let error = decoded(&msg(0b1_0000_0000_0000_0110, &body)).unwrap_err();
    assert_eq!(error, WireError::UnknownFlags { bits: 0b100 });
}

#[test]
fn exactly_one_body_section_is_required() {
    let body = [b"\0", ok().as_bytes()].concat();
    let sequence = b"\x01\x06\0\0\0s\0".as_slice();
    assert_eq!(decoded(&msg(0, b"")), Err(WireError::MissingBody));
    assert_eq!(decoded(&msg(0, sequence)), Err(WireError::MissingBody));
    assert_eq!(decoded(&msg(0, &[&*body, &body].concat())), Err(WireError::DuplicateBody));
    let twice = [&*body, sequence, sequence].concat();
    let duplicate = WireError::DuplicateSequence { identifier: "s".to_owned() };
    assert_eq!(decoded(&msg(0, &twice)), Err(duplicate));
    let unknown = [&*body, b"\x02"].concat();
    assert_eq!(decoded(&msg(0, &unknown)), Err(WireError::UnknownSectionKind { kind: 2 }));
}

// pitfall 42
#[test]
fn document_sequence_must_fit_into_its_message() {
    let body = [b"\0", ok().as_bytes()].concat();
    for size in [i32::MIN, -1, 0, 3, 7, i32::MAX] {
        let section = [&*body, b"\x01", &size.to_le_bytes(), b"s\0"].concat();
        let error = decoded(&msg(0, &section)).unwrap_err();
        assert_eq!(error, WireError::SequenceSize { size, left: 6 });
    }
    let unterminated = [&*body, b"\x01\x06\0\0\0ss"].concat();
    assert!(matches!(
        decoded(&msg(0, &unterminated)),
        Err(WireError::Unterminated { left: 2, .. })
    ));
    let not_utf8 = [&*body, b"\x01\x06\0\0\0\xff\0"].concat();
    assert!(matches!(decoded(&msg(0, &not_utf8)), Err(WireError::NotUtf8 { valid_up_to: 0, .. })));
}

#[test]
fn every_flipped_bit_fails_the_checksum() {
    let message = good_messages().remove(1);
    // Length and operation code have errors of their own; the rest is covered by the checksum.
    for position in (4..12).chain(20..message.len()) {
        for bit in 0..8 {
            let mut changed = message.clone();
            changed[position] ^= 1 << bit;
            let error = decoded(&changed).unwrap_err();
            assert!(matches!(error, WireError::ChecksumMismatch { .. }), "{position} {bit}");
        }
    }
    let flags_alone = msg(1, b"");
    assert!(matches!(decoded(&flags_alone), Err(WireError::Truncated { left: 0, .. })));
}

#[test]
fn number_returned_must_match_the_documents() {
    let mut message = Vec::new();
    OpReply::to_command(&ok()).unwrap().encode(1, 2, &mut message).unwrap();
    for claimed in [i32::MIN, -1, 0, 2, i32::MAX] {
        message[32..36].copy_from_slice(&claimed.to_le_bytes());
        let error = decoded(&message).unwrap_err();
        assert_eq!(error, WireError::DocumentCount { claimed, counted: 1 });
    }
}

/// Builds a document of one element: type, key `a`, value.
fn element(element_type: u8, value: &[u8]) -> Vec<u8> {
    with_length([b"\0\0\0\0".as_slice(), &[element_type], b"a\0", value, b"\0"].concat())
}

#[test]
fn truncated_values_of_every_type_are_rejected() {
    let empty = b"\x05\0\0\0\0".as_slice();
    let twelve = [7; 12].as_slice();
    let values: Vec<(u8, Vec<u8>)> = vec![
        (0x01, vec![1; 8]),
        (0x02, b"\x03\0\0\0x\0\0".to_vec()),
        (0x03, empty.to_vec()),
        (0x04, b"\x0c\0\0\0\x100\0\x05\0\0\0\0".to_vec()),
        (0x05, b"\x02\0\0\0\x80ab".to_vec()),
        (0x06, vec![]),
        (0x07, vec![1; 12]),
        (0x08, vec![1]),
        (0x09, vec![1; 8]),
        (0x0a, vec![]),
        (0x0b, b"re\0ix\0".to_vec()),
        (0x0c, [b"\x02\0\0\0n\0", twelve].concat()),
        (0x0d, b"\x02\0\0\0c\0".to_vec()),
        (0x0e, b"\x02\0\0\0s\0".to_vec()),
        (0x0f, [b"\x0f\0\0\0\x02\0\0\0c\0", empty].concat()),
        (0x10, vec![1; 4]),
        (0x11, vec![1; 8]),
        (0x12, vec![1; 8]),
        (0x13, vec![1; 16]),
        (0x7f, vec![]),
        (0xff, vec![]),
    ];
    for (element_type, value) in &values {
        assert_eq!(validate_document(&element(*element_type, value)), Ok(()), "{element_type:#x}");
        for cut in 0..value.len() {
            let error = validate_document(&element(*element_type, &value[..cut]));
            assert!(error.is_err(), "{element_type:#x} {cut}");
        }
    }
    for unknown in (0x14..0x7f).chain(0x80..0xff) {
        let fault = DocumentFault::ElementType { offset: 4, element_type: unknown };
        assert_eq!(validate_document(&element(unknown, b"")), Err(fault));
    }
}

// pitfall 42
#[test]
fn lengths_inside_a_document_are_checked() {
    for length in [i32::MIN, -1, 0, i32::MAX] {
        let length_bytes = length.to_le_bytes();
        for (element_type, rest) in [(0x02, b"x\0".as_slice()), (0x03, b"\0"), (0x0f, b"")] {
            let value = [&length_bytes, rest].concat();
            assert!(validate_document(&element(element_type, &value)).is_err());
        }
        assert!(validate_document(&[&length_bytes, b"\0".as_slice()].concat()).is_err());
    }
    let negative_binary = element(0x05, b"\xff\xff\xff\xff\0");
    let fault = DocumentFault::ValueLength { offset: 7, length: -1 };
    assert_eq!(validate_document(&negative_binary), Err(fault));
    // An inner document that includes the terminator of its parent.
    let greedy = element(0x03, b"\x05\0\0\0");
    let fault = DocumentFault::Length { offset: 7, length: 5, left: 4 };
    assert_eq!(validate_document(&greedy), Err(fault));
    let not_a_bool = element(0x08, b"\x02");
    let fault = DocumentFault::Boolean { offset: 7, value: 2 };
    assert_eq!(validate_document(&not_a_bool), Err(fault));
    let open_string = element(0x02, b"\x02\0\0\0xy");
    assert_eq!(validate_document(&open_string), Err(DocumentFault::StringEnd { offset: 12 }));
    let early_end = b"\x07\0\0\0\0\0\0";
    let fault = DocumentFault::Terminator { offset: 4, end: 7 };
    assert_eq!(validate_document(early_end), Err(fault));
}

fn nested(levels: usize) -> RawDocumentBuf {
    let mut bytes = RawDocumentBuf::new().into_bytes();
    for _ in 0..levels {
        bytes = element(0x03, &bytes);
    }
    RawDocumentBuf::from_bytes(bytes).unwrap()
}

// pitfall 44
#[test]
fn nesting_depth_is_limited() {
    assert_eq!(validate_document(nested(MAX_NESTING).as_bytes()), Ok(()));
    let deeper = nested(MAX_NESTING + 1);
    let error = validate_document(deeper.as_bytes());
    assert!(matches!(error, Err(DocumentFault::TooDeep { .. })));
    // Siblings do not add up.
    let mut list = RawArrayBuf::new();
    for _ in 0..300 {
        list.push(nested(10));
    }
    assert_eq!(validate_document(rawdoc! { "list": list }.as_bytes()), Ok(()));
}

// pitfall 44
#[test]
#[allow(clippy::disallowed_types, reason = "a thread with a small stack")]
fn deep_nesting_is_an_error_without_a_stack_overflow() {
    let mut message = Vec::new();
    let mut writer = MessageWriter::request(&mut message, 1, MsgFlags::empty());
    writer.body().append_document("deep", nested(10_000)).unwrap();
    writer.finish().unwrap();
    let small_stack = std::thread::Builder::new().stack_size(64 * 1024);
    let decoding = small_stack.spawn(move || decode(message.into(), 10_000_000)).unwrap();
    let error = decoding.join().unwrap().unwrap_err();
    assert!(
        matches!(error, WireError::Document { fault: DocumentFault::TooDeep { .. }, .. }),
        "{error}"
    );
}

#[test]
fn document_debug_hides_the_content() {
    let secret = DocumentBytes::try_from(rawdoc! { "payload": "hunter2" }).unwrap();
    let message = OpMsg::new(secret.clone())
        .with_sequence("documents", DocumentRun::copy_from([&secret]).unwrap());
    assert!(!format!("{message:?}").contains("hunter2"));
}
