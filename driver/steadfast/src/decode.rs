//! Serde deserializer over raw BSON, for documents as types of the application.
//!
//! The result is that of `bson::deserialize_from_slice`; tests compare the two. It takes a third of
//! the time: it reads the bytes once and skips fields that the type does not request. The one
//! difference: invalid UTF-8 is an error only in a field that is read.
//!
//! Lengths are checked again, although `wire` has checked them: malformed bytes are an error.

mod elements;
mod extended;
mod fault;
mod value;

#[cfg(test)]
mod tests;

use serde::Deserialize;

use self::value::RawValue;

/// Deserializes one document as a `T`, which may borrow from it. An error names its field.
pub(crate) fn document<'de, T>(bytes: &'de [u8]) -> Result<T, bson::error::DeserializeError>
where
    T: Deserialize<'de>,
{
    T::deserialize(RawValue::document(bytes)).map_err(fault::Fault::into_error)
}
