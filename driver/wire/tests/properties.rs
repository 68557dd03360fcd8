//! Every message is read back as written, and no bytes make the reader panic.
#![allow(missing_docs)]

use bson::{Bson, Document, RawDocumentBuf};
use bytes::Bytes;
use proptest::{collection::vec, option, prelude::*};
use steadfast_wire::{
    Compressor, DocumentBytes, DocumentRun, Framing, Message, MsgFlags, OpMsg, OpQuery, OpReply,
    ZlibLevel, ZstdLevel, compress, decode, frame, validate_document,
};

const MAX: usize = 1 << 20;

fn value() -> impl Strategy<Value = Bson> {
    let leaf = prop_oneof![
        any::<i32>().prop_map(Bson::Int32),
        any::<i64>().prop_map(Bson::Int64),
        any::<bool>().prop_map(Bson::Boolean),
        // Without NaN, which does not equal itself.
        (-1e300..1e300).prop_map(Bson::Double),
        ".{0,20}".prop_map(Bson::String),
        any::<i64>().prop_map(|ms| Bson::DateTime(bson::DateTime::from_millis(ms))),
        any::<[u8; 12]>().prop_map(|id| Bson::ObjectId(id.into())),
        vec(any::<u8>(), 0..20).prop_map(|bytes| {
            Bson::Binary(bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes })
        }),
        Just(Bson::Null),
        Just(Bson::MinKey),
        "[a-z]{0,5}".prop_map(|code| {
            let scope = bson::doc! { "x": 1 };
            Bson::JavaScriptCodeWithScope(bson::JavaScriptCodeWithScope { code, scope })
        }),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Bson::Array),
            vec(("[^\0]{0,8}", inner), 0..4)
                .prop_map(|pairs| Bson::Document(pairs.into_iter().collect())),
        ]
    })
}

fn document() -> impl Strategy<Value = DocumentBytes> {
    vec(("[^\0]{0,8}", value()), 0..5).prop_map(|pairs| {
        let document: Document = pairs.into_iter().collect();
        let raw = RawDocumentBuf::try_from(&document).expect("a document without NULs in its keys");
        DocumentBytes::try_from(raw).expect("what bson writes is of sound structure")
    })
}

fn run() -> impl Strategy<Value = DocumentRun> {
    vec(document(), 0..4).prop_map(|documents| DocumentRun::copy_from(documents).unwrap())
}

fn flags() -> impl Strategy<Value = MsgFlags> {
    any::<[bool; 3]>().prop_map(|set| {
        let all = [MsgFlags::CHECKSUM_PRESENT, MsgFlags::MORE_TO_COME, MsgFlags::EXHAUST_ALLOWED];
        let chosen = all.into_iter().zip(set).filter(|(_, set)| *set);
        chosen.fold(MsgFlags::empty(), |flags, (flag, _)| flags | flag)
    })
}

fn op_msg() -> impl Strategy<Value = OpMsg> {
    let identifiers =
        proptest::sample::subsequence(vec!["documents", "updates", "deletes", "é"], 0..4);
    (flags(), document(), identifiers, vec(run(), 4)).prop_map(|(flags, body, names, runs)| {
        let message = OpMsg::new(body).with_flags(flags);
        names
            .into_iter()
            .zip(runs)
            .fold(message, |message, (name, run)| message.with_sequence(name, run))
    })
}

fn op_query() -> impl Strategy<Value = OpQuery> {
    ("[^\0]{0,20}", any::<(i32, i32, i32)>(), document(), option::of(document())).prop_map(
        |(namespace, (flags, skip, to_return), query, fields)| {
            let mut message = OpQuery::hello(query);
            message.namespace = namespace;
            message.flags = flags;
            message.number_to_skip = skip;
            message.number_to_return = to_return;
            message.return_fields = fields;
            message
        },
    )
}

fn op_reply() -> impl Strategy<Value = OpReply> {
    (any::<(i32, i64, i32)>(), document(), run()).prop_map(|((flags, cursor, from), one, run)| {
        let mut reply = OpReply::to_command(&one).unwrap();
        reply.flags = flags;
        reply.cursor_id = cursor;
        reply.starting_from = from;
        reply.documents = run;
        reply
    })
}

fn message() -> impl Strategy<Value = Message> {
    prop_oneof![
        4 => op_msg().prop_map(Message::Msg),
        1 => op_query().prop_map(Message::Query),
        1 => op_reply().prop_map(Message::Reply),
    ]
}

fn compressor() -> impl Strategy<Value = Compressor> {
    prop_oneof![
        Just(Compressor::Noop),
        Just(Compressor::Snappy),
        (-1..=9).prop_map(|level| Compressor::Zlib(ZlibLevel::new(level).unwrap())),
        Just(Compressor::Zstd(ZstdLevel::DEFAULT)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn encoded_messages_round_trip(message in message(), request_id: i32, response_to: i32) {
        let mut bytes = Vec::new();
        let length = message.encode(request_id, response_to, &mut bytes).unwrap();
        prop_assert_eq!(frame(&bytes, MAX), Ok(Framing::Complete { length }));
        let incoming = decode(bytes.into(), MAX).unwrap();
        prop_assert_eq!(incoming.header.request_id, request_id);
        let answers = if matches!(message, Message::Query(_)) { 0 } else { response_to };
        prop_assert_eq!(incoming.header.response_to, answers);
        prop_assert_eq!(incoming.message, message);
    }

    #[test]
    fn compressed_messages_round_trip(message in op_msg(), with in compressor(), request_id: i32) {
        let mut plain = Vec::new();
        message.encode(request_id, 1, &mut plain).unwrap();
        let mut bytes = Vec::new();
        let length = compress(&plain, with, &mut bytes).unwrap();
        prop_assert_eq!(length, bytes.len());
        let incoming = decode(bytes.into(), MAX).unwrap();
        prop_assert_eq!(incoming.header.request_id, request_id);
        prop_assert_eq!(incoming.compressor.map(Compressor::id), Some(with.id()));
        prop_assert_eq!(incoming.message, Message::Msg(message));
    }

    #[test]
    fn random_bytes_never_panic(bytes in vec(any::<u8>(), 0..200)) {
        let _ = frame(&bytes, MAX);
        let _ = validate_document(&bytes);
        let _ = decode(Bytes::from(bytes), MAX);
    }

    #[test]
    fn random_payloads_after_a_valid_header_never_panic(
        op_code in prop_oneof![Just(1), Just(2004), Just(2012), Just(2013)],
        payload in vec(prop_oneof![Just(0_u8), 0..20_u8, any::<u8>()], 0..100),
    ) {
        let mut bytes = Vec::new();
        for field in [16 + i32::try_from(payload.len()).unwrap(), 1, 0, op_code] {
            bytes.extend_from_slice(&field.to_le_bytes());
        }
        bytes.extend_from_slice(&payload);
        let _ = compress(&bytes, Compressor::Noop, &mut Vec::new());
        let _ = decode(Bytes::from(bytes), MAX);
    }

    #[test]
    fn validated_documents_can_be_walked(document in document(), changes in vec(any::<(usize, u8)>(), 0..4)) {
        let mut bytes = document.as_bytes().to_vec();
        for (position, change) in changes {
            let position = position % bytes.len();
            bytes[position] = change;
        }
        if validate_document(&bytes).is_ok() {
            // The walk can meet invalid values, but never the end of the bytes.
            let raw = RawDocumentBuf::from_bytes(bytes).unwrap();
            let _ = Document::try_from(raw.as_ref());
        }
    }
}
