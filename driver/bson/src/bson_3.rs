//! `bson` 3.

/// The crate `bson` itself, for public APIs.
pub use bson3 as original;
pub use bson3::*;

use crate::ToStr;

/// Expands to its items if the version of `bson` is 2.
#[macro_export]
macro_rules! only_bson_2 {
    ($($item:item)*) => {};
}

/// Expands to its items if the version of `bson` is 3.
#[macro_export]
macro_rules! only_bson_3 {
    ($($item:item)*) => { $($item)* };
}

/// Errors.
pub mod error {
    pub use bson3::error::*;

    /// Error while raw BSON is read.
    pub type RawError = Error;
    /// Error of deserialization.
    pub type DeserializeError = Error;
    /// Error of serialization.
    pub type SerializeError = Error;

    /// Adds the path of the field to an error of deserialization.
    pub fn with_key(mut error: DeserializeError, key: String) -> DeserializeError {
        error.key = Some(key);
        error
    }
}

impl ToStr for raw::CStr {
    #[inline]
    fn to_str(&self) -> &str {
        self.as_str()
    }
}

/// Appends a borrowed value.
#[inline]
pub fn append_ref(document: &mut RawDocumentBuf, key: &raw::CStr, value: RawBsonRef<'_>) {
    document.append(key, value);
}

/// Converts a string to a key.
///
/// # Errors
///
/// An error if the string contains NUL.
pub fn to_cstring(text: &str) -> error::Result<raw::CString> {
    raw::CString::try_from(text)
}

/// Encodes a document.
///
/// # Errors
///
/// An error if a key contains NUL.
#[inline]
pub fn to_raw_document(document: &Document) -> error::Result<RawDocumentBuf> {
    RawDocumentBuf::try_from(document)
}

/// Encodes a value.
///
/// # Errors
///
/// An error if a key contains NUL.
#[inline]
pub fn to_raw_value(value: Bson) -> error::Result<RawBson> {
    RawBson::try_from(value)
}

/// Copies a borrowed value.
#[inline]
pub fn to_raw_bson(value: RawBsonRef<'_>) -> RawBson {
    value.into()
}

/// Serializes a document.
///
/// # Errors
///
/// An error if a key contains NUL.
#[inline]
pub fn document_to_vec(document: &Document) -> error::Result<Vec<u8>> {
    document.to_vec()
}
