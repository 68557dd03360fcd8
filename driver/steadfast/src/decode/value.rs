//! Deserializer of one value.

use serde::{
    Deserializer,
    de::{Visitor, value::BorrowedStrDeserializer},
    forward_to_deserialize_any,
};
use steadfast_wire::Field;

use super::{
    elements::Elements,
    extended::{Entries, Form, generic_binary},
    fault::Fault,
};

// BSON element types with a counterpart in serde.
const DOUBLE: u8 = 0x01;
const STRING: u8 = 0x02;
const DOCUMENT: u8 = 0x03;
const ARRAY: u8 = 0x04;
const OBJECT_ID: u8 = 0x07;
const BOOLEAN: u8 = 0x08;
const NULL: u8 = 0x0a;
const INT32: u8 = 0x10;
const INT64: u8 = 0x12;

// Newtype names by which bson's own types identify themselves.
const UUID: &str = "$__bson_private_uuid";
const RAW_BSON: &str = "$__private__bson_RawBson";
pub(super) const RAW_DOCUMENT: &str = "$__private__bson_RawDocument";
pub(super) const RAW_ARRAY: &str = "$__private__bson_RawArray";
const HUMAN_READABLE: &str = "$__bson_private_human_readable";
const UTF8_LOSSY: &str = "$__bson_private_utf8_lossy";

/// Value as bytes of its document.
#[derive(Clone, Copy)]
pub(super) struct RawValue<'de> {
    pub(super) element_type: u8,
    pub(super) bytes: &'de [u8],
    pub(super) mode: Mode,
}

/// Modes that bson's wrappers `HumanReadable` and `Utf8Lossy` request for the values in them.
#[derive(Clone, Copy, Default)]
pub(super) struct Mode {
    pub(super) human_readable: bool,
    pub(super) utf8_lossy: bool,
}

impl<'de> RawValue<'de> {
    /// Creates the value of a whole document.
    pub(super) fn document(bytes: &'de [u8]) -> Self {
        Self { element_type: DOCUMENT, bytes, mode: Mode::default() }
    }

    #[inline]
    pub(super) fn new(field: &Field<'de>, mode: Mode) -> Self {
        Self { element_type: field.element_type, bytes: field.value, mode }
    }

    /// Returns the first `N` bytes.
    #[inline]
    pub(super) fn array<const N: usize>(&self) -> Result<[u8; N], Fault> {
        self.bytes.first_chunk().copied().ok_or_else(Fault::malformed)
    }

    /// Returns the bytes of a string, without length and terminating byte.
    #[inline]
    pub(super) fn string_bytes(&self) -> Result<&'de [u8], Fault> {
        match self.bytes {
            [_, _, _, _, string @ .., 0] => Ok(string),
            _ => Err(Fault::malformed()),
        }
    }

    #[inline]
    fn elements(&self) -> Result<Elements<'de>, Fault> {
        Elements::new(self.bytes, self.mode)
    }

    fn visit_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let string = self.string_bytes()?;
        match self.mode.utf8_lossy {
            false => visitor.visit_borrowed_str(text(string)?),
            true => visitor.visit_string(String::from_utf8_lossy(string).into_owned()),
        }
    }

    /// Visits a value without counterpart in serde as a map in the form of extended JSON.
    #[inline(never)]
    fn visit_extended<V: Visitor<'de>>(self, visitor: V, form: Form) -> Result<V::Value, Fault> {
        let form = match self.element_type {
            OBJECT_ID if takes_ids_as_bytes::<V>() => Form::Raw,
            _ => form,
        };
        match generic_binary(&self, form)? {
            Some(bytes) => visitor.visit_borrowed_bytes(bytes),
            None => visitor.visit_map(Entries::of(&self, form)?),
        }
    }

    fn visit_in<V: Visitor<'de>>(self, form: Form, visitor: V) -> Result<V::Value, Fault> {
        match (form, self.element_type) {
            (Form::Raw, DOCUMENT | ARRAY) => self.visit_extended(visitor, form),
            (_, DOUBLE | STRING | DOCUMENT | ARRAY | BOOLEAN | NULL | INT32 | INT64) => {
                self.deserialize_any(visitor)
            }
            _ => self.visit_extended(visitor, form),
        }
    }

    fn of_type(self, element_type: u8, what: &str) -> Result<Self, Fault> {
        match self.element_type == element_type {
            true => Ok(self),
            false => Err(Fault::new(format_args!(
                "expected {what}, found an element of type {:#04x}",
                self.element_type
            ))),
        }
    }
}

/// Returns `true` for the visitor of `bson::Bson` and `bson::Document`, which accepts an object id
/// as bytes as well as text. It is recognized by its name. If that name changes, it gets text.
#[inline]
fn takes_ids_as_bytes<V>() -> bool {
    std::any::type_name::<V>() == "bson::de::serde::BsonVisitor"
}

/// Validates UTF-8.
#[inline]
pub(super) fn text(bytes: &[u8]) -> Result<&str, Fault> {
    std::str::from_utf8(bytes).map_err(Fault::new)
}

/// Methods for numbers: they accept any numeric type, and serde's types reject values that do not
/// fit.
macro_rules! numbers {
    ($($method:ident)*) => {$(
        #[inline]
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
            match self.element_type {
                INT32 => visitor.visit_i32(i32::from_le_bytes(self.array()?)),
                INT64 => visitor.visit_i64(i64::from_le_bytes(self.array()?)),
                DOUBLE => visitor.visit_f64(f64::from_le_bytes(self.array()?)),
                _ => self.deserialize_any(visitor),
            }
        }
    )*};
}

/// Methods for one element type, which is checked first.
macro_rules! expected {
    ($($method:ident($($name:ident: $kind:ty),*) $element_type:ident => $visit:ident;)*) => {$(
        #[inline]
        fn $method<V: Visitor<'de>>(self, $($name: $kind,)* visitor: V) -> Result<V::Value, Fault> {
            match self.element_type {
                $element_type => visitor.$visit(self.elements()?),
                _ => self.deserialize_any(visitor),
            }
        }
    )*};
}

/// Methods for strings, which are checked first.
macro_rules! texts {
    ($($method:ident)*) => {$(
        #[inline]
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
            match self.element_type {
                STRING if !self.mode.utf8_lossy => {
                    visitor.visit_borrowed_str(text(self.string_bytes()?)?)
                }
                _ => self.deserialize_any(visitor),
            }
        }
    )*};
}

impl<'de> Deserializer<'de> for RawValue<'de> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.element_type {
            DOUBLE => visitor.visit_f64(f64::from_le_bytes(self.array()?)),
            STRING => self.visit_string(visitor),
            DOCUMENT => visitor.visit_map(self.elements()?),
            ARRAY => visitor.visit_seq(self.elements()?),
            BOOLEAN => match self.array()? {
                [0] => visitor.visit_bool(false),
                [1] => visitor.visit_bool(true),
                _ => Err(Fault::malformed()),
            },
            NULL => visitor.visit_unit(),
            INT32 => visitor.visit_i32(i32::from_le_bytes(self.array()?)),
            INT64 => visitor.visit_i64(i64::from_le_bytes(self.array()?)),
            _ => self.visit_extended(visitor, Form::Any),
        }
    }

    numbers! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64
        deserialize_f32 deserialize_f64
    }

    texts! { deserialize_str deserialize_string }

    expected! {
        deserialize_map() DOCUMENT => visit_map;
        deserialize_struct(_name: &'static str, _fields: &'static [&'static str]) DOCUMENT => visit_map;
        deserialize_seq() ARRAY => visit_seq;
        deserialize_tuple(_len: usize) ARRAY => visit_seq;
        deserialize_tuple_struct(_name: &'static str, _len: usize) ARRAY => visit_seq;
    }

    #[inline]
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.element_type {
            NULL => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        match self.element_type {
            STRING if self.mode.utf8_lossy => {
                let variant = String::from_utf8_lossy(self.string_bytes()?);
                visitor.visit_enum(serde::de::value::CowStrDeserializer::new(variant))
            }
            STRING => visitor.visit_enum(BorrowedStrDeserializer::new(text(self.string_bytes()?)?)),
            DOCUMENT => visitor.visit_enum(self.elements()?),
            other => Err(Fault::new(format_args!(
                "expected an enum, found an element of type {other:#04x}"
            ))),
        }
    }

    #[inline]
    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.element_type {
            OBJECT_ID => visitor.visit_borrowed_bytes(self.bytes),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let readable = Mode { human_readable: true, ..self.mode };
        let lossy = Mode { utf8_lossy: true, ..self.mode };
        match name {
            UUID => self.visit_in(Form::Uuid, visitor),
            RAW_BSON => self.visit_in(Form::Raw, visitor),
            RAW_DOCUMENT => self.of_type(DOCUMENT, "a raw document")?.visit_in(Form::Raw, visitor),
            RAW_ARRAY => self.of_type(ARRAY, "a raw array")?.visit_in(Form::Raw, visitor),
            HUMAN_READABLE => visitor.visit_newtype_struct(Self { mode: readable, ..self }),
            UTF8_LOSSY => visitor.visit_newtype_struct(Self { mode: lossy, ..self }),
            _ => visitor.visit_newtype_struct(self),
        }
    }

    /// The value is skipped.
    #[inline]
    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_unit()
    }

    fn is_human_readable(&self) -> bool {
        self.mode.human_readable
    }

    forward_to_deserialize_any! { bool char byte_buf unit unit_struct identifier }
}
