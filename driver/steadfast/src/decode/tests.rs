//! Comparison of the decoder with bson's: same values, and errors for the same input.

mod generated;

use std::{borrow::Cow, collections::BTreeMap, fmt::Debug};

use bson::{
    Binary, Bson, DateTime, DbPointer, Decimal128, Document, JavaScriptCodeWithScope, RawArrayBuf,
    RawBson, RawBsonRef, RawDocument, RawDocumentBuf, Regex, Timestamp, Utf8Lossy, Uuid, doc,
    oid::ObjectId, serde_helpers::HumanReadable, spec::BinarySubtype,
};
use serde::Deserialize;

/// Returns the output in a form that can be compared for every type.
fn outcome<T: Debug, E>(result: Result<T, E>) -> Option<String> {
    result.ok().map(|value| format!("{value:?}"))
}

/// Deserializes the document as a `T` with both decoders. Returns `true` if it succeeds.
fn same<'de, T: Deserialize<'de> + Debug>(bytes: &'de [u8]) -> bool {
    let ours = super::document::<T>(bytes);
    let theirs = bson::deserialize_from_slice::<T>(bytes);
    let shown = format!("ours: {ours:?}\ntheirs: {theirs:?}");
    let read = ours.is_ok();
    let name = std::any::type_name::<T>();
    assert_eq!(outcome(ours), outcome(theirs), "{name} of {bytes:?}\n{shown}");
    read
}

/// Like [`same`], for malformed bytes: the decoder may read what bson rejects, because it does not validate values that
/// a type ignores.
fn same_if_bson_accepts<'de, T: Deserialize<'de> + Debug>(bytes: &'de [u8]) -> bool {
    let read = super::document::<T>(bytes).is_ok();
    bson::deserialize_from_slice::<T>(bytes).map_or(read, |_| same::<T>(bytes))
}

/// Document whose field `v` is deserialized as a `T`.
#[derive(Debug, Deserialize)]
struct Holder<T> {
    v: T,
}

#[derive(Debug, Deserialize)]
struct BorrowedText<'a> {
    #[serde(borrow)]
    #[expect(dead_code, reason = "seen through Debug")]
    v: Cow<'a, str>,
}

#[derive(Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
struct Newtype<T>(T);

#[derive(Debug, Deserialize)]
#[expect(dead_code, reason = "seen through Debug")]
struct Pair(i64, Bson);

#[derive(Debug, Deserialize)]
struct Unit;

#[derive(Debug, Deserialize)]
#[serde(default)]
struct Fields {
    a: Option<i64>,
    b: String,
    x: Vec<Bson>,
}

impl Default for Fields {
    fn default() -> Self {
        Self { a: None, b: "none".to_owned(), x: Vec::new() }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "seen through Debug")]
struct Strict {
    a: Option<Bson>,
    b: Option<Bson>,
}

#[derive(Debug, Deserialize)]
#[expect(dead_code, reason = "seen through Debug")]
struct Flat {
    a: Option<Bson>,
    #[serde(flatten)]
    rest: BTreeMap<String, Bson>,
}

#[derive(Debug, Deserialize)]
#[expect(dead_code, reason = "seen through Debug")]
struct FlatDocument {
    a: Option<Newtype<i32>>,
    #[serde(flatten)]
    rest: Document,
}

#[derive(Debug, Deserialize, PartialEq)]
enum External {
    #[serde(rename = "a")]
    Unit,
    #[serde(rename = "b")]
    Newtype(Bson),
    #[serde(rename = "x")]
    Tuple(i32, Bson),
    #[serde(rename = "t")]
    Struct { a: Option<Bson> },
}

#[derive(Debug, Deserialize)]
#[serde(tag = "kind")]
#[expect(dead_code, reason = "seen through Debug")]
enum Internal {
    #[serde(rename = "a")]
    Unit,
    #[serde(rename = "b")]
    Newtype(BTreeMap<String, Bson>),
    #[serde(rename = "x")]
    Struct { a: Option<ObjectId>, i: Option<DateTime> },
}

#[derive(Debug, Deserialize)]
#[serde(tag = "kind", content = "content")]
#[expect(dead_code, reason = "seen through Debug")]
enum Adjacent {
    #[serde(rename = "a")]
    Unit,
    #[serde(rename = "b")]
    Newtype(Bson),
    #[serde(rename = "x")]
    Tuple(i32, String),
    #[serde(rename = "t")]
    Struct { a: i64 },
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
#[expect(dead_code, reason = "seen through Debug")]
enum Untagged {
    Number(i32),
    Date(DateTime),
    Id(ObjectId),
    Text(String),
    List(Vec<Untagged>),
    Fields { a: Box<Untagged> },
    Other(Bson),
}

macro_rules! same_as_each {
    ($bytes:expr, $($kind:ty),* $(,)?) => { same_as_each!(same, $bytes, $($kind),*) };
    ($check:ident, $bytes:expr, $($kind:ty),* $(,)?) => {
        [$($check::<$kind>($bytes)),*].into_iter().filter(|read| *read).count()
    };
}

/// Deserializes the field `v` as each type. Returns the number of types that succeed.
fn same_values(bytes: &[u8]) -> usize {
    let scalars = same_as_each!(
        bytes,
        Holder<bool>,
        Holder<i8>,
        Holder<i16>,
        Holder<i32>,
        Holder<i64>,
        Holder<i128>,
        Holder<u8>,
        Holder<u16>,
        Holder<u32>,
        Holder<u64>,
        Holder<f32>,
        Holder<f64>,
        Holder<char>,
        Holder<String>,
        Holder<()>,
        Holder<Unit>,
        Holder<Option<i32>>,
        Holder<Option<Option<String>>>,
        Holder<Option<Bson>>,
        Holder<&str>,
        Holder<&[u8]>,
        BorrowedText<'_>,
        Holder<Newtype<i64>>,
        Holder<Newtype<Newtype<String>>>,
        Holder<serde::de::IgnoredAny>,
    );
    let own = same_as_each!(
        bytes,
        Holder<Bson>,
        Holder<Document>,
        Holder<RawBson>,
        Holder<RawDocumentBuf>,
        Holder<RawArrayBuf>,
        Holder<&RawDocument>,
        Holder<&bson::RawArray>,
        Holder<RawBsonRef<'_>>,
        Holder<ObjectId>,
        Holder<DateTime>,
        Holder<Timestamp>,
        Holder<Decimal128>,
        Holder<Binary>,
        Holder<Uuid>,
        Holder<Regex>,
        Holder<JavaScriptCodeWithScope>,
        Holder<DbPointer>,
        Holder<Utf8Lossy<String>>,
        Holder<Utf8Lossy<Bson>>,
        Holder<Utf8Lossy<RawBson>>,
        Holder<HumanReadable<Bson>>,
        Holder<HumanReadable<ObjectId>>,
        Holder<HumanReadable<Vec<Uuid>>>,
        Holder<Newtype<ObjectId>>,
    );
    let many = same_as_each!(
        bytes,
        Holder<Vec<Bson>>,
        Holder<Vec<i32>>,
        Holder<Vec<u8>>,
        Holder<Vec<Option<RawBson>>>,
        Holder<Vec<String>>,
        Holder<(Bson, Bson)>,
        Holder<(i32, String)>,
        Holder<[Bson; 2]>,
        Holder<Pair>,
        Holder<BTreeMap<String, Bson>>,
        Holder<BTreeMap<String, RawBson>>,
        Holder<BTreeMap<String, String>>,
        Holder<BTreeMap<String, Newtype<String>>>,
        Holder<BTreeMap<Newtype<String>, Bson>>,
        Holder<BTreeMap<String, Option<String>>>,
        Holder<BTreeMap<String, BTreeMap<String, Untagged>>>,
        Holder<BTreeMap<String, BTreeMap<String, Newtype<String>>>>,
        Holder<BTreeMap<String, BTreeMap<String, u32>>>,
        Holder<BTreeMap<char, Bson>>,
    );
    let shaped = same_as_each!(
        bytes,
        Holder<Fields>,
        Holder<Strict>,
        Holder<Flat>,
        Holder<FlatDocument>,
        Holder<External>,
        Holder<Vec<External>>,
        Holder<Internal>,
        Holder<Adjacent>,
        Holder<Untagged>,
        Holder<Option<Untagged>>,
    );
    scalars + own + many + shaped
}

macro_rules! same_documents_by {
    ($check:ident, $bytes:expr) => {
        same_as_each!(
            $check, $bytes, Document, Bson, RawDocumentBuf, RawBson, &RawDocument, RawBsonRef<'_>, Fields, Strict, Flat,
            FlatDocument, External, Internal, Adjacent, Untagged, BTreeMap<String, Bson>,
            BTreeMap<String, RawBson>, BTreeMap<&str, Untagged>, BTreeMap<Cow<'_, str>, String>, HumanReadable<Document>,
            Utf8Lossy<Document>, Option<Document>, Newtype<Document>, Vec<Bson>, String, i32, (), Unit,
            ObjectId, DateTime, Uuid, serde::de::IgnoredAny,
        )
    };
}

/// Deserializes the document as each type. Returns the number of types that succeed.
fn same_documents(bytes: &[u8]) -> usize {
    same_documents_by!(same, bytes)
}

/// Deserializes malformed bytes as each type. Returns the number of types that succeed.
fn same_malformed_documents(bytes: &[u8]) -> usize {
    same_documents_by!(same_if_bson_accepts, bytes)
}

fn bytes(document: &Document) -> Vec<u8> {
    bson::serialize_to_vec(document).unwrap()
}

fn regex(pattern: &str, options: &str) -> Regex {
    let text = |text: &str| text.to_owned().try_into().unwrap();
    Regex { pattern: text(pattern), options: text(options) }
}

/// Values of each BSON type, including the limits of integer types.
fn values() -> Vec<Bson> {
    let id = ObjectId::from_bytes([7; 12]);
    let binary = |subtype, bytes: &[u8]| Bson::Binary(Binary { subtype, bytes: bytes.to_vec() });
    vec![
        Bson::Double(1.5),
        Bson::Double(3.0),
        Bson::Double(f64::NAN),
        Bson::Double(1e300),
        Bson::Double(-0.0),
        Bson::String("words".to_owned()),
        Bson::String("b".to_owned()),
        Bson::String("é\0ü".to_owned()),
        Bson::String(String::new()),
        Bson::String("0123456789abcdef01234567".to_owned()),
        Bson::String("936DA01F-9ABD-4D9D-80C7-02AF85C822A8".to_owned()),
        Bson::Document(doc! {}),
        Bson::Document(doc! { "a": 1, "b": "c", "x": [1, 2] }),
        Bson::Document(doc! { "$oid": "0123456789abcdef01234567" }),
        Bson::Document(doc! { "$oid": 1 }),
        Bson::Document(doc! { "$date": { "$numberLong": "5" } }),
        Bson::Document(doc! { "$date": 5_i64 }),
        Bson::Document(doc! { "kind": "x", "a": id, "i": DateTime::from_millis(1) }),
        Bson::Document(doc! { "kind": "b", "content": id }),
        Bson::Document(doc! { "content": [1, "y"], "kind": "x" }),
        Bson::Document(doc! { "x": [1, id] }),
        Bson::Document(doc! { "t": { "a": 1_i64 } }),
        Bson::Document(doc! { "a": 1_i64, "t": 1 }),
        Bson::Document(doc! { "$numberLong": "9" }),
        Bson::Document(doc! { "$code": "f()" }),
        Bson::Document(doc! { "$uuid": "936DA01F-9ABD-4D9D-80C7-02AF85C822A8" }),
        Bson::Array(vec![]),
        Bson::Array(vec![Bson::Int32(1), Bson::String("y".to_owned())]),
        Bson::Array(vec![Bson::ObjectId(id), Bson::Null]),
        Bson::Array(vec![Bson::Int32(300); 2]),
        binary(BinarySubtype::Generic, b"bytes"),
        binary(BinarySubtype::Uuid, &[3; 16]),
        binary(BinarySubtype::Uuid, &[3; 15]),
        binary(BinarySubtype::UuidOld, &[3; 16]),
        binary(BinarySubtype::BinaryOld, b"old"),
        binary(BinarySubtype::UserDefined(0x81), b"mine"),
        binary(BinarySubtype::Generic, &[1; 16]),
        binary(BinarySubtype::Generic, &[1; 12]),
        Bson::Undefined,
        Bson::ObjectId(id),
        Bson::Boolean(true),
        Bson::Boolean(false),
        Bson::DateTime(DateTime::from_millis(1_700_000_000_123)),
        Bson::DateTime(DateTime::from_millis(i64::MIN)),
        Bson::Null,
        Bson::RegularExpression(regex("a+", "ix")),
        Bson::RegularExpression(regex("", "")),
        Bson::JavaScriptCode("f()".to_owned()),
        Bson::Symbol("s".to_owned()),
        Bson::JavaScriptCodeWithScope(JavaScriptCodeWithScope {
            code: "g()".to_owned(),
            scope: doc! { "y": { "z": id } },
        }),
        Bson::Int32(0),
        Bson::Int32(-1),
        Bson::Int32(255),
        Bson::Int32(i32::MAX),
        Bson::Int64(5),
        Bson::Int64(i64::MAX),
        Bson::Int64(-129),
        Bson::Timestamp(Timestamp { time: 7, increment: 9 }),
        Bson::Timestamp(Timestamp { time: u32::MAX, increment: u32::MAX }),
        Bson::Decimal128("1.5".parse().unwrap()),
        Bson::MinKey,
        Bson::MaxKey,
    ]
}

/// `{ "v": <DBPointer> }`, which `bson` writes as raw bytes only.
fn db_pointer() -> Vec<u8> {
    let mut element = vec![0x0c, b'v', 0, 5, 0, 0, 0];
    element.extend(b"db.c\0");
    element.extend([9; 12]);
    let length = i32::try_from(element.len() + 5).unwrap();
    [&length.to_le_bytes()[..], &element, &[0]].concat()
}

#[test]
fn every_bson_type_deserializes_as_in_bson() {
    for value in values() {
        let document = bytes(&doc! { "first": 1, "v": value.clone(), "last": "z" });
        assert!(same_values(&document) > 3, "{value}");
        same_documents(&document);
        if let Bson::Document(value) = value {
            assert!(same_documents(&bytes(&value)) > 3, "{value}");
        }
    }
    assert!(same_values(&db_pointer()) > 3);
    same_documents(&db_pointer());
}

#[test]
fn errors_contain_the_path_of_the_field() {
    let of = |document: &Document| {
        super::document::<BTreeMap<String, Vec<Newtype<i32>>>>(&bytes(document)).unwrap_err()
    };
    let nested = of(&doc! { "fine": [1], "wrong": [1, "x"] }).to_string();
    assert!(nested.contains("at key \"wrong.1\""), "{nested}");
    let error = of(&doc! { "wrong": 1 }).to_string();
    assert!(error.contains("at key \"wrong\""), "{error}");
    assert!(error.contains("expected a sequence"), "{error}");
}

#[test]
fn invalid_utf8_is_an_error_only_in_fields_that_are_read() {
    let mut document = bytes(&doc! { "v": "words", "a": 1 });
    let place = document.windows(5).position(|window| window == b"words").unwrap();
    document[place] = 0xff;
    assert!(!same::<Document>(&document));
    assert!(!same::<Holder<String>>(&document));
    assert!(!same::<Holder<RawBson>>(&document));
    assert!(same::<Holder<Utf8Lossy<String>>>(&document));
    assert!(same::<Holder<Utf8Lossy<Bson>>>(&document));
    assert!(same::<Utf8Lossy<Document>>(&document));
    assert!(same::<RawDocumentBuf>(&document));
    let read: Fields = super::document(&document).unwrap();
    assert_eq!(format!("{read:?}"), r#"Fields { a: Some(1), b: "none", x: [] }"#);
    // Each key is read, to compare it with the field names.
    document[5] = 0xff;
    assert!(!same::<Fields>(&document));
}

#[test]
fn borrowed_values_point_into_the_document() {
    let document = bytes(&doc! { "v": "words" });
    let read: Holder<&str> = super::document(&document).unwrap();
    assert!(document.as_ptr_range().contains(&read.v.as_ptr()));
}
