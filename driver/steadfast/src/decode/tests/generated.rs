//! Random documents, some of them malformed.

use bson::{
    Binary, Bson, DateTime, Decimal128, Document, JavaScriptCodeWithScope, Timestamp,
    oid::ObjectId, spec::BinarySubtype,
};
use proptest::{collection::vec, prelude::*};
use steadfast_wire::validate_document;

use super::{bytes, regex, same_documents, same_malformed_documents, same_values};

/// Keys with a meaning for a type of the tests or for bson, and others.
fn key() -> BoxedStrategy<String> {
    let known = [
        "a",
        "b",
        "x",
        "t",
        "i",
        "v",
        "kind",
        "content",
        "",
        "$oid",
        "$date",
        "$code",
        "$scope",
        "$symbol",
        "$binary",
        "$numberLong",
        "$timestamp",
        "$undefined",
        "$minKey",
        "$uuid",
    ];
    prop_oneof![
        4 => prop::sample::select(known[..9].to_vec()).prop_map(str::to_owned),
        1 => prop::sample::select(known.to_vec()).prop_map(str::to_owned),
        1 => "[a-zé]{1,12}",
    ]
    .boxed()
}

fn scalar() -> impl Strategy<Value = Bson> {
    let subtype = prop::sample::select(vec![
        BinarySubtype::Generic,
        BinarySubtype::BinaryOld,
        BinarySubtype::Uuid,
        BinarySubtype::UserDefined(0x80),
    ]);
    prop_oneof![
        any::<f64>().prop_map(Bson::Double),
        (-200_i32..200).prop_map(|number| Bson::Double(f64::from(number))),
        prop_oneof![key().boxed(), ".{0,12}".boxed(), "[0-9a-f]{24}".boxed()]
            .prop_map(Bson::String),
        (subtype, vec(any::<u8>(), 0..18))
            .prop_map(|(subtype, bytes)| Bson::Binary(Binary { subtype, bytes })),
        any::<[u8; 12]>().prop_map(|id| Bson::ObjectId(ObjectId::from_bytes(id))),
        any::<bool>().prop_map(Bson::Boolean),
        any::<i64>().prop_map(|number| Bson::DateTime(DateTime::from_millis(number))),
        ("[a-z]{0,3}", "[ix]{0,2}").prop_map(|(p, o)| Bson::RegularExpression(regex(&p, &o))),
        ".{0,5}".prop_map(Bson::JavaScriptCode),
        ".{0,5}".prop_map(Bson::Symbol),
        (-300_i32..300).prop_map(Bson::Int32),
        any::<i32>().prop_map(Bson::Int32),
        any::<i64>().prop_map(Bson::Int64),
        (-300_i64..300).prop_map(Bson::Int64),
        any::<(u32, u32)>()
            .prop_map(|(time, increment)| Bson::Timestamp(Timestamp { time, increment })),
        any::<[u8; 16]>().prop_map(|bytes| Bson::Decimal128(Decimal128::from_bytes(bytes))),
        prop::sample::select(vec![Bson::Null, Bson::Undefined, Bson::MinKey, Bson::MaxKey]),
    ]
}

fn document_of(value: impl Strategy<Value = Bson> + 'static) -> BoxedStrategy<Document> {
    vec((key(), value), 0..5).prop_map(Document::from_iter).boxed()
}

fn value() -> impl Strategy<Value = Bson> {
    scalar().prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            document_of(inner.clone()).prop_map(Bson::Document),
            vec(inner.clone(), 0..4).prop_map(Bson::Array),
            (".{0,5}", document_of(inner)).prop_map(|(code, scope)| {
                Bson::JavaScriptCodeWithScope(JavaScriptCodeWithScope { code, scope })
            }),
        ]
    })
}

proptest! {
    #[test]
    fn value_deserializes_as_in_bson(value in value()) {
        same_values(&bytes(&Document::from_iter([("v".to_owned(), value)])));
    }

    #[test]
    fn document_deserializes_as_in_bson(document in document_of(value())) {
        same_documents(&bytes(&document));
    }

    /// Includes bytes that `wire` would reject. For each type as which bson accepts the bytes, the result must be the same.
    /// (bson also validates the keys of arrays as UTF-8.)
    #[test]
    fn malformed_bytes_do_not_panic(
        document in document_of(value()),
        broken in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = bytes(&document);
        for (place, byte) in broken {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        let _ = super::super::document::<Document>(&bytes);
        let _ = super::super::document::<super::Fields>(&bytes);
        let _ = super::super::document::<bson::RawBson>(&bytes);
        if validate_document(&bytes).is_ok() && bson::deserialize_from_slice::<Document>(&bytes).is_ok() {
            same_malformed_documents(&bytes);
        }
    }
}
