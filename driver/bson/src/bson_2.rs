//! `bson` 2 with the names and signatures of `bson` 3.

use serde::{Serialize, ser::Error as _};

use crate::ToStr;

/// The crate `bson` itself, for public APIs.
pub use bson2 as original;
pub use bson2::{
    from_bson as deserialize_from_bson, from_document as deserialize_from_document,
    from_slice as deserialize_from_slice, serde_helpers::Utf8LossyDeserialization as Utf8Lossy,
    to_bson as serialize_to_bson, to_document as serialize_to_document,
    to_raw_document_buf as serialize_to_raw_document_buf, to_vec as serialize_to_vec, *,
};

/// Expands to its items if the version of `bson` is 2.
#[macro_export]
macro_rules! only_bson_2 {
    ($($item:item)*) => { $($item)* };
}

/// Expands to its items if the version of `bson` is 3.
#[macro_export]
macro_rules! only_bson_3 {
    ($($item:item)*) => {};
}

/// Key of an element. `bson` 2 has no type for strings without NUL.
#[macro_export]
macro_rules! cstr {
    ($text:expr) => {
        $text
    };
}

/// Raw BSON.
pub mod raw {
    pub use bson2::raw::*;

    pub use crate::cstr;

    /// Value that can be appended to a raw document.
    pub trait BindRawBsonRef: Into<RawBson> {}

    impl<T: Into<RawBson>> BindRawBsonRef for T {}

    /// String without NUL.
    pub type CStr = str;
    /// Owned string without NUL.
    pub type CString = String;
}

impl ToStr for str {
    fn to_str(&self) -> &str {
        self
    }
}

/// Errors.
pub mod error {
    pub use bson2::{
        de::Error as DeserializeError, raw::Error as RawError, ser::Error as SerializeError,
    };

    /// Error of `bson`, which has several types in version 2.
    #[derive(Clone, Debug, thiserror::Error)]
    pub enum Error {
        /// Deserialization failed.
        #[error(transparent)]
        Deserialize(#[from] DeserializeError),
        /// Serialization failed.
        #[error(transparent)]
        Serialize(#[from] SerializeError),
        /// Bytes are not BSON.
        #[error(transparent)]
        Raw(#[from] RawError),
        /// Element of a raw document is missing or of another type.
        #[error(transparent)]
        RawValueAccess(#[from] bson2::raw::ValueAccessError),
        /// Element of a document is missing or of another type.
        #[error(transparent)]
        ValueAccess(#[from] bson2::document::ValueAccessError),
    }

    /// Adds the path of the field to an error of deserialization. `bson` 2 has no place for it but the message.
    pub fn with_key(error: DeserializeError, key: String) -> DeserializeError {
        serde::de::Error::custom(format_args!("error at key \"{key}\": {error}"))
    }

    /// Result of `bson`.
    pub type Result<T> = std::result::Result<T, Error>;
}

/// Appends a borrowed value.
pub fn append_ref(document: &mut RawDocumentBuf, key: &raw::CStr, value: RawBsonRef<'_>) {
    document.append_ref(key, value);
}

/// Converts a string to a key.
///
/// # Errors
///
/// An error if the string contains NUL.
pub fn to_cstring(text: &str) -> error::Result<raw::CString> {
    if text.contains('\0') {
        return Err(error::SerializeError::InvalidCString(text.to_owned()).into());
    }
    Ok(text.to_owned())
}

/// Encodes a document.
///
/// # Errors
///
/// An error if a key contains NUL.
pub fn to_raw_document(document: &Document) -> bson2::ser::Result<RawDocumentBuf> {
    RawDocumentBuf::try_from(document).map_err(bson2::ser::Error::custom)
}

/// Encodes a value.
///
/// # Errors
///
/// An error if a key or a regular expression contains NUL.
pub fn to_raw_value(value: Bson) -> bson2::ser::Result<RawBson> {
    // Appending a `RawBson` whose regular expression contains NUL panics. Encoding it in a document is an error.
    let document = to_raw_document(&doc! { "": value })?;
    let encoded = document.get("").map_err(bson2::ser::Error::custom)?;
    Ok(encoded.map_or(RawBson::Null, RawBsonRef::to_raw_bson))
}

/// Copies a borrowed value.
pub fn to_raw_bson(value: RawBsonRef<'_>) -> RawBson {
    value.to_raw_bson()
}

/// Serializes a document.
///
/// # Errors
///
/// An error if a key contains NUL.
pub fn document_to_vec(document: &Document) -> bson2::ser::Result<Vec<u8>> {
    bson2::to_vec(document)
}

/// Appends the bytes of a document to a buffer.
///
/// # Errors
///
/// An error if the value is not a document, or a key contains NUL.
pub fn serialize_to_buffer<T: Serialize + ?Sized>(
    value: &T,
    buffer: &mut Vec<u8>,
) -> bson2::ser::Result<()> {
    buffer.extend(bson2::to_vec(&value)?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nul_in_a_regular_expression_is_an_error() {
        let regex = Regex { pattern: "a\0b".to_owned(), options: String::new() };
        assert!(to_raw_value(Bson::RegularExpression(regex)).is_err());
        assert_eq!(to_raw_value(Bson::Int32(1)).unwrap().as_i32(), Some(1));
    }

    #[test]
    fn nul_in_a_key_is_an_error() {
        assert!(to_cstring("a\0b").is_err());
        assert!(to_raw_document(&doc! { "a\0b": 1 }).is_err());
        assert_eq!(to_cstring("ab").unwrap(), "ab");
    }
}
