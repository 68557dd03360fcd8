//! Errors of the writers, and that they leave the send buffer unchanged.
#![allow(missing_docs)]

use bson::{RawDocument, RawDocumentBuf, rawdoc, spec::ElementType};
use bytes::Bytes;
use steadfast_wire::{
    DocumentBytes, DocumentRun, Message, MessageWriter, MsgFlags, OpMsg, OpQuery, WireError, decode,
};

const BEFORE: &[u8] = b"an earlier message";

fn body_of(message: &[u8]) -> RawDocumentBuf {
    match decode(Bytes::copy_from_slice(message), 1 << 20).unwrap().message {
        Message::Msg(message) => message.body.as_raw().to_owned(),
        other => panic!("not an OP_MSG: {other:?}"),
    }
}

// pitfall 41
#[test]
fn nul_in_a_key_is_an_error_and_leaves_the_body_unchanged() {
    let mut buffer = Vec::new();
    let mut message = MessageWriter::request(&mut buffer, 1, MsgFlags::empty());
    let mut body = message.body();
    body.append_i32("good", 1).unwrap();
    let nul = |position| WireError::NulInString { what: "a key", position };
    let document: &RawDocument = &rawdoc! {};
    assert_eq!(body.append_i32("\0", 1).unwrap_err(), nul(0));
    assert_eq!(body.append_i64("a\0b", 1).unwrap_err(), nul(1));
    assert_eq!(body.append_f64("a\0b", 1.0).unwrap_err(), nul(1));
    assert_eq!(body.append_bool("a\0b", true).unwrap_err(), nul(1));
    assert_eq!(body.append_str("a\0b", "x").unwrap_err(), nul(1));
    assert_eq!(body.append_document("a\0b", document).unwrap_err(), nul(1));
    assert_eq!(body.append_raw("ab\0", ElementType::Null, b"").unwrap_err(), nul(2));
    assert_eq!(body.append_with("a\0b", |_| Ok(())).unwrap_err(), nul(1));
    let inner = body.append_with("inner", |inner| inner.append_i32("x\0", 1).map(|_| ()));
    assert_eq!(inner.unwrap_err(), nul(1));
    body.append_bool("also good", true).unwrap();
    message.finish().unwrap();
    assert_eq!(body_of(&buffer), rawdoc! { "good": 1, "also good": true });
}

// pitfall 41
#[test]
fn nul_in_identifier_or_namespace_leaves_the_buffer_unchanged() {
    let mut buffer = BEFORE.to_vec();
    let message = MessageWriter::request(&mut buffer, 1, MsgFlags::empty());
    let error = message.start_sequence("docu\0ments").unwrap_err();
    assert!(matches!(error, WireError::NulInString { position: 4, .. }));
    assert_eq!(buffer, BEFORE);

    let mut query = OpQuery::hello(DocumentBytes::try_from(rawdoc! { "hello": 1 }).unwrap());
    query.namespace = "admin\0.$cmd".to_owned();
    let error = query.encode(1, &mut buffer).unwrap_err();
    assert_eq!(error, WireError::NulInString { what: "the namespace", position: 5 });
    assert_eq!(buffer, BEFORE);
}

#[test]
fn unfinished_message_leaves_the_buffer_unchanged() {
    let mut buffer = BEFORE.to_vec();
    let mut message = MessageWriter::request(&mut buffer, 1, MsgFlags::empty());
    message.body().append_i32("ping", 1).unwrap();
    drop(message);
    assert_eq!(buffer, BEFORE);

    let message = MessageWriter::request(&mut buffer, 1, MsgFlags::empty());
    let mut sequence = message.start_sequence("documents").unwrap();
    sequence.push(rawdoc! { "_id": 1 });
    let error = sequence.start_sequence("documents").unwrap_err();
    assert_eq!(error, WireError::DuplicateSequence { identifier: "documents".to_owned() });
    assert_eq!(buffer, BEFORE);
}

#[test]
fn several_messages_fit_into_one_buffer() {
    let mut buffer = Vec::new();
    let mut ends = Vec::new();
    for number in 0..3 {
        let flags = MsgFlags::CHECKSUM_PRESENT;
        let mut message = MessageWriter::request(&mut buffer, number, flags);
        message.body().append_i32("n", number).unwrap();
        ends.push(message.finish().unwrap());
    }
    let mut rest = buffer.as_slice();
    for (number, length) in (0..).zip(ends) {
        let (message, after) = rest.split_at(length);
        assert_eq!(body_of(message), rawdoc! { "n": number });
        rest = after;
    }
    assert!(rest.is_empty());
}

#[test]
fn every_element_type_is_written_in_place() {
    let mut buffer = Vec::new();
    let mut message = MessageWriter::reply(&mut buffer, 1, 2, MsgFlags::empty());
    let prepared = rawdoc! { "find": "c", "filter": { "x": 1 } };
    message
        .body()
        .append_elements_of(&prepared)
        .append_i64("txnNumber", 5)
        .and_then(|body| body.append_f64("f", 0.5))
        .and_then(|body| body.append_bool("autocommit", false))
        .and_then(|body| body.append_str("$db", "with a \0 inside"))
        .and_then(|body| body.append_document("lsid", rawdoc! { "id": 1 }))
        .and_then(|body| body.append_array("list", bson::RawArrayBuf::new()))
        .and_then(|body| body.append_raw("nothing", ElementType::Null, b""))
        .and_then(|body| {
            body.append_with("outer", |outer| {
                outer.append_with("inner", |inner| inner.append_i32("x", 1).map(|_| ()))?;
                Ok(())
            })
        })
        .unwrap();
    let so_far = message.len();
    assert_eq!(message.finish().unwrap(), so_far + 1);
    let expected = rawdoc! {
        "find": "c",
        "filter": { "x": 1 },
        "txnNumber": 5_i64,
        "f": 0.5,
        "autocommit": false,
        "$db": "with a \0 inside",
        "lsid": { "id": 1 },
        "list": [],
        "nothing": null,
        "outer": { "inner": { "x": 1 } },
    };
    assert_eq!(body_of(&buffer), expected);
}

#[test]
fn decoded_documents_share_the_message_memory() {
    let mut buffer = Vec::new();
    let documents = DocumentRun::copy_from([rawdoc! { "_id": 1 }]).unwrap();
    let body = rawdoc! { "cursor": { "firstBatch": [{ "_id": 7 }] } };
    OpMsg::new(DocumentBytes::try_from(body).unwrap())
        .with_sequence("s", documents)
        .encode(1, 0, &mut buffer)
        .unwrap();
    let bytes = Bytes::from(buffer);
    let within = |slice: &[u8]| bytes.as_ptr_range().contains(&slice.as_ptr());
    let Message::Msg(message) = decode(bytes.clone(), 1000).unwrap().message else {
        panic!("an OP_MSG")
    };
    assert!(within(message.body.as_bytes()));
    let first = message.sequences[0].documents.shared().next().unwrap();
    assert!(within(first.as_bytes()));
    let batch = message.body.get_document("cursor").unwrap().get_array("firstBatch").unwrap();
    let element = message.body.subdocument(batch.get_document(0).unwrap()).unwrap();
    assert!(within(element.as_bytes()));
    assert_eq!(element.get_i32("_id").unwrap(), 7);
    assert_eq!(message.body.subdocument(&rawdoc! { "elsewhere": 1 }), None);
}

#[test]
fn lengths_of_encoded_documents_must_add_up() {
    let mut buffer = Vec::new();
    let message = MessageWriter::request(&mut buffer, 1, MsgFlags::empty());
    let mut sequence = message.start_sequence("documents").unwrap();
    let before = sequence.len();
    for bad in [b"\x05\0\0".as_slice(), b"\x06\0\0\0\0", b"\x04\0\0\0", b"\0\0\0\0\0"] {
        assert!(sequence.push_encoded(bad).is_err());
        assert_eq!(sequence.len(), before);
    }
    sequence.push_encoded(b"\x05\0\0\0\0\x05\0\0\0\0").unwrap();
    assert_eq!(sequence.len(), before + 10);
}

#[test]
fn last_documents_may_follow_the_buffer() {
    let documents = [rawdoc! { "_id": 1 }, rawdoc! { "_id": 2, "text": "some" }];
    let start = |buffer: &mut Vec<u8>| {
        let mut message = MessageWriter::request(buffer, 7, MsgFlags::empty());
        message.body().append_str("insert", "people").unwrap();
        let mut sequence = message.start_sequence("documents").unwrap();
        sequence.push(&documents[0]);
        sequence.finish_before(documents[1].as_bytes().len()).unwrap()
    };
    let mut announced = BEFORE.to_vec();
    let length = start(&mut announced);
    announced.extend_from_slice(documents[1].as_bytes());
    assert_eq!(announced.len() - BEFORE.len(), length);

    let mut whole = BEFORE.to_vec();
    let mut message = MessageWriter::request(&mut whole, 7, MsgFlags::empty());
    message.body().append_str("insert", "people").unwrap();
    let mut sequence = message.start_sequence("documents").unwrap();
    documents.iter().for_each(|document| sequence.push(document));
    assert_eq!(sequence.finish().unwrap(), length);
    assert_eq!(announced, whole);
}

#[test]
fn unannounceable_documents_leave_the_buffer_unchanged() {
    let mut buffer = BEFORE.to_vec();
    let announce = |buffer: &mut Vec<u8>, flags, to_follow| {
        let message = MessageWriter::request(buffer, 1, flags);
        message.start_sequence("documents").unwrap().finish_before(to_follow).unwrap_err()
    };
    let error = announce(&mut buffer, MsgFlags::CHECKSUM_PRESENT, 5);
    assert_eq!(error, WireError::ChecksumOfPartialMessage);
    let error = announce(&mut buffer, MsgFlags::empty(), i32::MAX as usize);
    assert!(matches!(error, WireError::TooLongToWrite { .. }), "{error}");
    assert_eq!(buffer, BEFORE);
}
