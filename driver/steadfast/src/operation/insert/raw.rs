//! Detection of raw documents among values to serialize.

use std::fmt;

use bson::RawDocument;
use serde::{
    Serialize, Serializer,
    ser::{self, Impossible},
};

/// Newtype name with which raw documents serialize their bytes. If bson changed it, they would be
/// serialized like other documents, which is slower.
const RAW_DOCUMENT: &str = "$__private__bson_RawDocument";

/// Passes a raw document to `reader`. Returns `None` for other values, which are not serialized.
pub(crate) fn read<T: Serialize + ?Sized, R>(
    document: &T,
    reader: impl FnOnce(&RawDocument) -> R,
) -> Option<R> {
    document.serialize(Probe { reader, is_document: false }).ok()
}

/// Serializer that accepts raw documents only.
struct Probe<F> {
    reader: F,
    /// `true` if the next bytes are those of a document.
    is_document: bool,
}

/// Error: the value is not a raw document.
#[derive(Debug)]
struct NotRawDocument;

impl fmt::Display for NotRawDocument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a raw document")
    }
}

impl std::error::Error for NotRawDocument {}

impl ser::Error for NotRawDocument {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self
    }
}

/// Implements methods that return an error.
macro_rules! reject_all {
    ($($method:ident($($argument:ty),*) -> $output:ty;)*) => {
        $(fn $method(self, $(_: $argument),*) -> Result<$output, NotRawDocument> {
            Err(NotRawDocument)
        })*
    };
}

impl<R, F: FnOnce(&RawDocument) -> R> Serializer for Probe<F> {
    type Ok = R;
    type Error = NotRawDocument;
    type SerializeSeq = Impossible<R, NotRawDocument>;
    type SerializeTuple = Impossible<R, NotRawDocument>;
    type SerializeTupleStruct = Impossible<R, NotRawDocument>;
    type SerializeTupleVariant = Impossible<R, NotRawDocument>;
    type SerializeMap = Impossible<R, NotRawDocument>;
    type SerializeStruct = Impossible<R, NotRawDocument>;
    type SerializeStructVariant = Impossible<R, NotRawDocument>;

    fn is_human_readable(&self) -> bool {
        false
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        value: &T,
    ) -> Result<R, NotRawDocument> {
        if name != RAW_DOCUMENT {
            return Err(NotRawDocument);
        }
        value.serialize(Self { is_document: true, ..self })
    }

    fn serialize_bytes(self, bytes: &[u8]) -> Result<R, NotRawDocument> {
        match RawDocument::from_bytes(bytes) {
            Ok(document) if self.is_document => Ok((self.reader)(document)),
            _ => Err(NotRawDocument),
        }
    }

    fn serialize_some<T: Serialize + ?Sized>(self, _: &T) -> Result<R, NotRawDocument> {
        Err(NotRawDocument)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<R, NotRawDocument> {
        Err(NotRawDocument)
    }

    reject_all! {
        serialize_bool(bool) -> R;
        serialize_i8(i8) -> R;
        serialize_i16(i16) -> R;
        serialize_i32(i32) -> R;
        serialize_i64(i64) -> R;
        serialize_u8(u8) -> R;
        serialize_u16(u16) -> R;
        serialize_u32(u32) -> R;
        serialize_u64(u64) -> R;
        serialize_f32(f32) -> R;
        serialize_f64(f64) -> R;
        serialize_char(char) -> R;
        serialize_str(&str) -> R;
        serialize_none() -> R;
        serialize_unit() -> R;
        serialize_unit_struct(&'static str) -> R;
        serialize_unit_variant(&'static str, u32, &'static str) -> R;
        serialize_seq(Option<usize>) -> Self::SerializeSeq;
        serialize_tuple(usize) -> Self::SerializeTuple;
        serialize_tuple_struct(&'static str, usize) -> Self::SerializeTupleStruct;
        serialize_tuple_variant(&'static str, u32, &'static str, usize) -> Self::SerializeTupleVariant;
        serialize_map(Option<usize>) -> Self::SerializeMap;
        serialize_struct(&'static str, usize) -> Self::SerializeStruct;
        serialize_struct_variant(&'static str, u32, &'static str, usize) -> Self::SerializeStructVariant;
    }
}

#[cfg(test)]
mod tests {
    use bson::{Document, RawBson, RawDocumentBuf, doc, rawdoc};

    use super::*;

    fn bytes_of<T: Serialize + ?Sized>(document: &T) -> Option<Vec<u8>> {
        read(document, |raw| raw.as_bytes().to_owned())
    }

    #[test]
    fn raw_documents_are_detected() {
        let document = rawdoc! { "x": 1 };
        let bytes = document.as_bytes().to_owned();
        assert_eq!(bytes_of(&document).as_ref(), Some(&bytes));
        assert_eq!(bytes_of::<&RawDocument>(&&*document).as_ref(), Some(&bytes));
        assert_eq!(bytes_of::<Box<RawDocumentBuf>>(&Box::new(document)), Some(bytes));
    }

    #[test]
    fn other_values_are_not_raw_documents() {
        #[derive(Serialize)]
        struct Bytes<'a>(#[serde(serialize_with = "as_bytes")] &'a [u8]);

        fn as_bytes<S: Serializer>(bytes: &&[u8], serializer: S) -> Result<S::Ok, S::Error> {
            serializer.serialize_bytes(bytes)
        }

        #[derive(Serialize)]
        struct Book {
            title: &'static str,
        }

        assert_eq!(bytes_of(&doc! { "x": 1 }), None);
        assert_eq!(bytes_of(&Book { title: "Kallocain" }), None);
        assert_eq!(bytes_of(&RawBson::Int32(5)), None);
        assert_eq!(bytes_of(&Bytes(rawdoc! { "x": 1 }.as_bytes())), None);
        assert_eq!(bytes_of(&Some(rawdoc! {})), None);
        assert_eq!(bytes_of::<Vec<Document>>(&vec![]), None);
    }
}
