//! Documents as the application's own types: a serde deserializer over the bytes that came from the server.
//!
//! What it makes of a document is what `bson::deserialize_from_slice` makes of it; the tests hold the two against each
//! other. It exists because it takes a third of the time: it goes over the bytes once, looks at what a type asks for
//! before it looks at anything else, and does not look at what nobody asks for. So the one difference: text that is not
//! UTF-8 is an error where it is read, and none in a field that is left out.
//!
//! It believes no length, though `wire` has checked them all: malformed bytes are an error here, too.

mod extended;
mod fault;
mod members;
mod value;

#[cfg(test)]
mod tests;

use serde::Deserialize;

use self::value::Value;

/// Reads one document as a `T`, which may borrow from it. An error names the field that it is about.
pub(crate) fn document<'de, T>(bytes: &'de [u8]) -> bson::error::Result<T>
where
    T: Deserialize<'de>,
{
    T::deserialize(Value::document(bytes)).map_err(fault::Fault::into_error)
}
