//! BSON types without a counterpart in serde, as maps in the form of extended JSON: bson's own
//! types (`ObjectId`, `DateTime`, `Bson`, …) expect that form, and maps of the application receive
//! it.

use base64::{Engine, prelude::BASE64_STANDARD};
use bson::spec::BinarySubtype;
use serde::{
    Deserializer,
    de::{DeserializeSeed, MapAccess, Visitor},
    forward_to_deserialize_any,
};

use super::{
    elements::Elements,
    fault::Fault,
    value::{Mode, RAW_ARRAY, RAW_DOCUMENT, RawValue, text},
};

/// Form in which serde receives a value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Extended JSON, with numbers and bytes as text.
    Any,
    /// Like `Any`, but binary values must have the UUID subtype.
    Uuid,
    /// Form of bson's raw types, with plain numbers and bytes.
    Raw,
}

/// Map of one or two entries, created on request.
pub(super) struct Entries<'de> {
    first: Option<(&'static str, EntryValue<'de>)>,
    second: Option<(&'static str, EntryValue<'de>)>,
    /// Value of the last returned key.
    value: Option<EntryValue<'de>>,
}

/// Value in such a map.
pub(super) enum EntryValue<'de> {
    Text(Text<'de>),
    /// Value that was converted to text.
    Encoded(String),
    /// Bytes to be copied.
    Bytes(&'de [u8]),
    /// Bytes that can be borrowed.
    Borrowed(&'de [u8]),
    Boolean(bool),
    U8(u8),
    U32(u32),
    I32(i32),
    I64(i64),
    Milliseconds(i64),
    Timestamp {
        time: u32,
        increment: u32,
    },
    Binary {
        subtype: u8,
        bytes: &'de [u8],
        form: Form,
    },
    Regex {
        pattern: Text<'de>,
        options: Text<'de>,
    },
    DbPointer {
        namespace: Text<'de>,
        id: &'de [u8],
        form: Form,
    },
    ObjectId {
        id: &'de [u8],
        form: Form,
    },
    Scope {
        document: &'de [u8],
        mode: Mode,
        form: Form,
    },
}

/// Valid UTF-8, or text with replaced invalid sequences.
pub(super) enum Text<'de> {
    Valid(&'de str),
    Replaced(String),
}

/// Returns the bytes of a binary value of the generic subtype, for which serde has a type.
pub(super) fn generic_binary<'de>(
    value: &RawValue<'de>,
    form: Form,
) -> Result<Option<&'de [u8]>, Fault> {
    if value.element_type != BINARY {
        return Ok(None);
    }
    let (subtype, bytes) = binary(value)?;
    if form == Form::Uuid && subtype != u8::from(BinarySubtype::Uuid) {
        return Err(Fault::new(format_args!(
            "expected binary of the subtype of UUIDs, found {:?}",
            BinarySubtype::from(subtype)
        )));
    }
    Ok((subtype == u8::from(BinarySubtype::Generic)).then_some(bytes))
}

const BINARY: u8 = 0x05;

impl<'de> Entries<'de> {
    /// Creates the map for a type without a counterpart in serde, or for a document or array in raw
    /// form.
    pub(super) fn of(value: &RawValue<'de>, form: Form) -> Result<Self, Fault> {
        let string = || value.string_bytes().and_then(|bytes| Text::new(bytes, value.mode));
        Ok(match value.element_type {
            0x03 => Self::one(RAW_DOCUMENT, EntryValue::Borrowed(value.bytes)),
            0x04 => Self::one(RAW_ARRAY, EntryValue::Borrowed(value.bytes)),
            BINARY => {
                let (subtype, bytes) = binary(value)?;
                Self::one("$binary", EntryValue::Binary { subtype, bytes, form })
            }
            0x06 => Self::one("$undefined", EntryValue::Boolean(true)),
            0x07 => Self::object_id(value.bytes, form),
            0x09 => Self::one("$date", date(i64::from_le_bytes(value.array()?), form)),
            0x0b => Self::one("$regularExpression", regex(value)?),
            0x0c => Self::one("$dbPointer", db_pointer(value, form)?),
            0x0d => Self::one("$code", EntryValue::Text(string()?)),
            0x0e => Self::one("$symbol", EntryValue::Text(string()?)),
            0x0f => Self::code_with_scope(value, form)?,
            0x11 => Self::one("$timestamp", timestamp(u64::from_le_bytes(value.array()?))),
            0x13 => Self::one("$numberDecimalBytes", EntryValue::Bytes(value.bytes)),
            0x7f => Self::one("$maxKey", EntryValue::I32(1)),
            0xff => Self::one("$minKey", EntryValue::I32(1)),
            _ => return Err(Fault::malformed()),
        })
    }

    fn one(key: &'static str, piece: EntryValue<'de>) -> Self {
        Self { first: Some((key, piece)), second: None, value: None }
    }

    fn two(
        first: (&'static str, EntryValue<'de>),
        second: (&'static str, EntryValue<'de>),
    ) -> Self {
        Self { first: Some(first), second: Some(second), value: None }
    }

    fn object_id(id: &'de [u8], form: Form) -> Self {
        let id = match form {
            Form::Raw => EntryValue::Bytes(id),
            Form::Any | Form::Uuid => EntryValue::Encoded(hex(id)),
        };
        Self::one("$oid", id)
    }

    /// Reads a length, a string with its own length, and a document.
    fn code_with_scope(value: &RawValue<'de>, form: Form) -> Result<Self, Fault> {
        let (_, rest) = value.bytes.split_at_checked(4).ok_or_else(Fault::malformed)?;
        let (code, document) = split_string(rest)?;
        let code = Text::new(code, value.mode)?;
        let scope = EntryValue::Scope { document, mode: value.mode, form };
        Ok(Self::two(("$code", EntryValue::Text(code)), ("$scope", scope)))
    }
}

fn date<'de>(milliseconds: i64, form: Form) -> EntryValue<'de> {
    match form {
        Form::Raw => EntryValue::I64(milliseconds),
        Form::Any | Form::Uuid => EntryValue::Milliseconds(milliseconds),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "its two halves")]
fn timestamp<'de>(both: u64) -> EntryValue<'de> {
    EntryValue::Timestamp { time: (both >> 32) as u32, increment: both as u32 }
}

/// Returns the subtype and the bytes.
fn binary<'de>(value: &RawValue<'de>) -> Result<(u8, &'de [u8]), Fault> {
    let [_, _, _, _, subtype, bytes @ ..] = value.bytes else { return Err(Fault::malformed()) };
    if *subtype != u8::from(BinarySubtype::BinaryOld) {
        return Ok((*subtype, bytes));
    }
    // The bytes of the old binary subtype begin with another length.
    let (length, inner) = bytes.split_first_chunk().ok_or_else(Fault::malformed)?;
    match usize::try_from(i32::from_le_bytes(*length)) == Ok(inner.len()) {
        true => Ok((*subtype, inner)),
        false => Err(Fault::new("the lengths of an old binary value contradict each other")),
    }
}

/// Reads two strings that each end with NUL.
fn regex<'de>(value: &RawValue<'de>) -> Result<EntryValue<'de>, Fault> {
    let mut parts = value.bytes.split(|byte| *byte == 0);
    let (Some(pattern), Some(options)) = (parts.next(), parts.next()) else {
        return Err(Fault::malformed());
    };
    let (pattern, options) = (Text::new(pattern, value.mode)?, Text::new(options, value.mode)?);
    Ok(EntryValue::Regex { pattern, options })
}

/// Reads a string and an object id.
fn db_pointer<'de>(value: &RawValue<'de>, form: Form) -> Result<EntryValue<'de>, Fault> {
    let (namespace, id) = split_string(value.bytes)?;
    Ok(EntryValue::DbPointer { namespace: Text::new(namespace, value.mode)?, id, form })
}

/// Splits off a string, without its length and terminating byte.
fn split_string(bytes: &[u8]) -> Result<(&[u8], &[u8]), Fault> {
    let (length, rest) = bytes.split_first_chunk().ok_or_else(Fault::malformed)?;
    let length = usize::try_from(i32::from_le_bytes(*length)).map_err(Fault::new)?;
    match rest.split_at_checked(length).ok_or_else(Fault::malformed)? {
        ([string @ .., 0], after) => Ok((string, after)),
        _ => Err(Fault::malformed()),
    }
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |half: u8| char::from(DIGITS[usize::from(half & 0x0f)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)]).collect()
}

impl<'de> Text<'de> {
    fn new(bytes: &'de [u8], mode: Mode) -> Result<Self, Fault> {
        match mode.utf8_lossy {
            false => text(bytes).map(Self::Valid),
            true => Ok(Self::Replaced(String::from_utf8_lossy(bytes).into_owned())),
        }
    }

    fn visit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self {
            Self::Valid(text) => visitor.visit_borrowed_str(text),
            Self::Replaced(text) => visitor.visit_string(text),
        }
    }
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = Fault;

    fn next_key_seed<K>(&mut self, seed: K) -> Result<Option<K::Value>, Fault>
    where
        K: DeserializeSeed<'de>,
    {
        let Some((key, value)) = self.first.take().or_else(|| self.second.take()) else {
            return Ok(None);
        };
        self.value = Some(value);
        seed.deserialize(EntryKey(key)).map(Some)
    }

    fn next_value_seed<V>(&mut self, seed: V) -> Result<V::Value, Fault>
    where
        V: DeserializeSeed<'de>,
    {
        match self.value.take() {
            Some(value) => seed.deserialize(value),
            None => Err(Fault::new("a value was requested before its key")),
        }
    }
}

impl<'de> Deserializer<'de> for EntryValue<'de> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self {
            Self::Text(text) => text.visit(visitor),
            Self::Encoded(text) => visitor.visit_string(text),
            Self::Bytes(bytes) => visitor.visit_bytes(bytes),
            Self::Borrowed(bytes) => visitor.visit_borrowed_bytes(bytes),
            Self::Boolean(value) => visitor.visit_bool(value),
            Self::U8(value) => visitor.visit_u8(value),
            Self::U32(value) => visitor.visit_u32(value),
            Self::I32(value) => visitor.visit_i32(value),
            Self::I64(value) => visitor.visit_i64(value),
            Self::Scope { document, mode, form } => match form {
                Form::Raw => {
                    visitor.visit_map(Entries::one(RAW_DOCUMENT, Self::Borrowed(document)))
                }
                Form::Any | Form::Uuid => visitor.visit_map(Elements::new(document, mode)?),
            },
            nested => visitor.visit_map(nested.entries()?),
        }
    }

    /// As in bson: some values can be deserialized into a newtype, others cannot.
    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        match self {
            Self::Encoded(_)
            | Self::Bytes(_)
            | Self::Borrowed(_)
            | Self::U8(_)
            | Self::U32(_)
            | Self::Timestamp { .. }
            | Self::Binary { .. } => self.deserialize_any(visitor),
            Self::Text(_)
            | Self::Boolean(_)
            | Self::I32(_)
            | Self::I64(_)
            | Self::Milliseconds(_)
            | Self::Regex { .. }
            | Self::DbPointer { .. }
            | Self::ObjectId { .. }
            | Self::Scope { .. } => visitor.visit_newtype_struct(self),
        }
    }

    fn is_human_readable(&self) -> bool {
        matches!(self, Self::Scope { mode, .. } if mode.human_readable)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit
        unit_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

impl<'de> EntryValue<'de> {
    /// Returns the entries of a piece that is itself a map.
    fn entries(self) -> Result<Entries<'de>, Fault> {
        Ok(match self {
            Self::Milliseconds(number) => {
                Entries::one("$numberLong", Self::Text(Text::Replaced(number.to_string())))
            }
            Self::Timestamp { time, increment } => {
                Entries::two(("t", Self::U32(time)), ("i", Self::U32(increment)))
            }
            Self::Binary { subtype, bytes, form: Form::Raw } => {
                Entries::two(("subType", Self::U8(subtype)), ("bytes", Self::Borrowed(bytes)))
            }
            Self::Binary { subtype, bytes, form: Form::Any | Form::Uuid } => Entries::two(
                ("subType", Self::Encoded(hex(&[subtype]))),
                ("base64", Self::Encoded(BASE64_STANDARD.encode(bytes))),
            ),
            Self::Regex { pattern, options } => {
                Entries::two(("pattern", Self::Text(pattern)), ("options", Self::Text(options)))
            }
            Self::DbPointer { namespace, id, form } => {
                Entries::two(("$ref", Self::Text(namespace)), ("$id", Self::ObjectId { id, form }))
            }
            Self::ObjectId { id, form } => Entries::object_id(id, form),
            Self::Text(_)
            | Self::Encoded(_)
            | Self::Bytes(_)
            | Self::Borrowed(_)
            | Self::Boolean(_)
            | Self::U8(_)
            | Self::U32(_)
            | Self::I32(_)
            | Self::I64(_)
            | Self::Scope { .. } => return Err(Fault::new("a value that is no map")),
        })
    }
}

/// EntryKey of an entry.
struct EntryKey(&'static str);

impl<'de> Deserializer<'de> for EntryKey {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_borrowed_str(self.0)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    fn is_human_readable(&self) -> bool {
        false
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit
        unit_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}
