//! Conversions between types: `$convert`, `$toInt` and others.

use bson::{Bson, DateTime, Decimal128, oid::ObjectId};

use super::{
    calendar::UtcOffset,
    coerce::{
        format_g, format_shortest, format_value, instant, int64, is_null_or_missing, iso,
        type_name_of,
    },
    date_text::read_iso,
    logic::holds,
    node::{Arguments, Value},
};
use crate::{
    Code, Dialect, Fault,
    filter::stored_bytes,
    value::{Number, type_name},
};

/// Target types of `$convert`. `Other` cannot be converted to.
#[derive(Clone, Copy)]
enum ConvertTarget {
    Bool,
    Date,
    Decimal,
    Double,
    Int,
    Long,
    ObjectId,
    String,
    Other(&'static str),
}

impl ConvertTarget {
    fn name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::Date => "date",
            Self::Decimal => "decimal",
            Self::Double => "double",
            Self::Int => "int",
            Self::Long => "long",
            Self::ObjectId => "objectId",
            Self::String => "string",
            Self::Other(name) => name,
        }
    }

    fn all() -> impl Iterator<Item = (Self, i64)> {
        let others = [
            ("object", 3),
            ("array", 4),
            ("binData", 5),
            ("undefined", 6),
            ("null", 10),
            ("regex", 11),
            ("dbPointer", 12),
            ("javascript", 13),
            ("symbol", 14),
            ("javascriptWithScope", 15),
            ("timestamp", 17),
            ("minKey", -1),
            ("maxKey", 127),
            ("missing", 0),
        ];
        let precomputed = [
            (Self::Double, 1),
            (Self::String, 2),
            (Self::ObjectId, 7),
            (Self::Bool, 8),
            (Self::Date, 9),
            (Self::Int, 16),
            (Self::Long, 18),
            (Self::Decimal, 19),
        ];
        precomputed.into_iter().chain(others.map(|(name, number)| (Self::Other(name), number)))
    }

    fn parse(value: &Bson) -> Result<Self, Fault> {
        if let Bson::String(name) = value {
            let found = Self::all().find(|(it, _)| it.name() == name);
            return found
                .map(|(it, _)| it)
                .ok_or_else(|| Fault::bad_value(format!("Unknown type name: {name}")));
        }
        if Number::of(value).is_none() {
            let message = "$convert's 'to' argument must be a string or number, but is";
            return Err(Fault::failed_to_parse(format!("{message} {}", type_name(value))));
        }
        let Some(number) = int64(value) else {
            let message = "In $convert, numeric 'to' argument is not an integer";
            return Err(Fault::failed_to_parse(message));
        };
        Self::all().find(|(_, it)| *it == number).map(|(it, _)| it).ok_or_else(|| {
            let message = "In $convert, numeric value for 'to' does not correspond to a BSON type";
            Fault::failed_to_parse(format!("{message}: {number}"))
        })
    }
}

pub(super) fn convert(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    let (input, to) = (arguments.value(0)?, arguments.value(1)?);
    let target = match &to {
        Some(to) if !is_null_or_missing(&Some(to.clone())) => Some(ConvertTarget::parse(to)?),
        _ => None,
    };
    let Some(input) = input.filter(|it| !is_null_or_missing(&Some(it.clone()))) else {
        return if arguments.given(3) { arguments.value(3) } else { Ok(Some(Bson::Null)) };
    };
    let Some(target) = target else { return Ok(Some(Bson::Null)) };
    match converted(input, target, arguments.env().dialect) {
        Err(fault) if fault.code.number == 241 && arguments.given(2) => arguments.value(2),
        Err(fault) => Err(fault),
        Ok(value) => Ok(Some(value)),
    }
}

fn to(arguments: &Arguments<'_>, target: ConvertTarget) -> Result<Value, Fault> {
    let value = arguments.value(0)?;
    match value {
        Some(input) if !is_null_or_missing(&Some(input.clone())) => {
            converted(input, target, arguments.env().dialect).map(Some)
        }
        _ => Ok(Some(Bson::Null)),
    }
}

pub(super) fn to_bool(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    to(arguments, ConvertTarget::Bool)
}

pub(super) fn to_date(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    to(arguments, ConvertTarget::Date)
}

pub(super) fn to_decimal(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    to(arguments, ConvertTarget::Decimal)
}

pub(super) fn to_double(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    to(arguments, ConvertTarget::Double)
}

pub(super) fn to_int(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    to(arguments, ConvertTarget::Int)
}

pub(super) fn to_long(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    to(arguments, ConvertTarget::Long)
}

pub(super) fn to_object_id(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    to(arguments, ConvertTarget::ObjectId)
}

pub(super) fn to_string(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    if arguments.env().dialect >= Dialect::V8_2
        && let Some(Bson::Binary(binary)) = arguments.value(0)?
    {
        let text = match binary.to_uuid() {
            Ok(uuid) => uuid.to_string(),
            Err(_) => base64(&stored_bytes(&binary)),
        };
        return Ok(Some(Bson::String(text)));
    }
    to(arguments, ConvertTarget::String)
}

pub(super) fn type_of(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    Ok(Some(type_name_of(&arguments.value(0)?).into()))
}

pub(super) fn is_number(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    let value = arguments.value(0)?;
    Ok(Some(Bson::Boolean(value.as_ref().is_some_and(crate::value::is_number))))
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |chunk: &[u8]| -> [char; 4] {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        [0, 1, 2, 3].map(|digit| match digit <= chunk.len() {
            true => char::from(DIGITS[(bits >> (18 - 6 * digit) & 63) as usize]),
            false => '=',
        })
    };
    bytes.chunks(3).flat_map(group).collect()
}

fn failure(message: impl Into<String>) -> Fault {
    Fault::new(Code::named(241, "ConversionFailure"), message)
}

fn unsupported(value: &Bson, target: ConvertTarget) -> Fault {
    let (from, to) = (type_name(value), target.name());
    failure(format!("Unsupported conversion from {from} to {to} in $convert with no onError value"))
}

fn converted(value: Bson, target: ConvertTarget, dialect: Dialect) -> Result<Bson, Fault> {
    match target {
        ConvertTarget::Bool => Ok(Bson::Boolean(holds(&Some(value)))),
        ConvertTarget::Int => {
            let number = integer(&value, target)?;
            i32::try_from(number).map(Bson::Int32).map_err(|_| overflow(&value))
        }
        ConvertTarget::Long => match value {
            Bson::DateTime(date) => Ok(Bson::Int64(date.timestamp_millis())),
            other => integer(&other, target).map(Bson::Int64),
        },
        ConvertTarget::Double => double(&value, target),
        ConvertTarget::Decimal => decimal(value, target),
        ConvertTarget::ObjectId => object_id(value, target),
        ConvertTarget::Date => date(&value, target),
        ConvertTarget::String => string(value, target, dialect),
        ConvertTarget::Other(_) => Err(unsupported(&value, target)),
    }
}

fn overflow(value: &Bson) -> Fault {
    let format_value = format_value(&Some(value.clone()));
    let message = "Conversion would overflow target type in $convert with no onError value";
    failure(format!("{message}: {format_value}"))
}

fn unparsed(text: &str) -> Fault {
    failure(format!("Failed to parse number '{text}' in $convert with no onError value"))
}

fn integer(value: &Bson, target: ConvertTarget) -> Result<i64, Fault> {
    match value {
        Bson::Boolean(value) => Ok(i64::from(*value)),
        Bson::String(text) => {
            let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
            let plain = !digits.is_empty() && digits.bytes().all(|it| it.is_ascii_digit());
            text.parse().ok().filter(|_| plain).ok_or_else(|| unparsed(text))
        }
        other => truncated(other).ok_or_else(|| unsupported(other, target))?,
    }
}

/// Truncates a number. `None` for other types.
fn truncated(value: &Bson) -> Option<Result<i64, Fault>> {
    let number = Number::of(value)?;
    let double = number.to_f64();
    Some(if number.is_nan() {
        Err(failure(
            "Attempt to convert NaN value to integer type in $convert with no onError value",
        ))
    } else if double.is_infinite() {
        let message = "Attempt to convert infinity value to integer type in $convert";
        Err(failure(format!("{message} with no onError value")))
    } else {
        number.truncated().ok_or_else(|| overflow(value))
    })
}

#[allow(clippy::cast_precision_loss)]
fn double(value: &Bson, target: ConvertTarget) -> Result<Bson, Fault> {
    Ok(Bson::Double(match value {
        Bson::Boolean(value) => f64::from(u8::from(*value)),
        Bson::DateTime(date) => date.timestamp_millis() as f64,
        Bson::String(text) => parsed_double(text).ok_or_else(|| unparsed(text))?,
        Bson::Decimal128(_) => {
            let number = Number::of(value).ok_or_else(|| unsupported(value, target))?;
            let double = number.to_f64();
            let infinite = value.to_string().contains("Inf");
            if double.is_infinite() && !infinite {
                return Err(overflow(value));
            }
            double
        }
        other => Number::of(other).ok_or_else(|| unsupported(other, target))?.to_f64(),
    }))
}

fn parsed_double(text: &str) -> Option<f64> {
    let number: f64 = text.parse().ok()?;
    let digits = text.bytes().take_while(|it| !matches!(it, b'e' | b'E'));
    let zero = digits.filter(u8::is_ascii_digit).all(|it| it == b'0');
    let named = text.bytes().all(|it| !it.is_ascii_digit());
    let out_of_range = !named && (number.is_infinite() || (number == 0.0 && !zero));
    (!out_of_range).then_some(number)
}

fn decimal(value: Bson, target: ConvertTarget) -> Result<Bson, Fault> {
    let number = match &value {
        Bson::Decimal128(_) => return Ok(value),
        Bson::Boolean(value) => Number::Int(i32::from(*value)),
        Bson::DateTime(date) => Number::Long(date.timestamp_millis()),
        Bson::String(text) => {
            let parsed = text.parse::<Decimal128>().ok().filter(|_| !text.is_empty());
            return parsed.map(Bson::Decimal128).ok_or_else(|| unparsed(text));
        }
        other => Number::of(other).ok_or_else(|| unsupported(other, target))?,
    };
    Ok(Bson::Decimal128(number.to_decimal().into()))
}

fn object_id(value: Bson, target: ConvertTarget) -> Result<Bson, Fault> {
    match value {
        Bson::ObjectId(_) => Ok(value),
        Bson::String(text) => ObjectId::parse_str(&text).map(Bson::ObjectId).map_err(|_| {
            let message = format!("Failed to parse objectId '{text}' in $convert");
            failure(format!("{message} with no onError value"))
        }),
        other => Err(unsupported(&other, target)),
    }
}

fn date(value: &Bson, target: ConvertTarget) -> Result<Bson, Fault> {
    let millis = match value {
        Bson::String(text) => read_iso(text, UtcOffset::UTC)?,
        Bson::Int64(millis) => *millis,
        Bson::Double(_) | Bson::Decimal128(_) => {
            truncated(value).ok_or_else(|| unsupported(value, target))??
        }
        other => instant(&Some(other.clone())).ok_or_else(|| unsupported(other, target))?,
    };
    Ok(DateTime::from_millis(millis).into())
}

fn string(value: Bson, target: ConvertTarget, dialect: Dialect) -> Result<Bson, Fault> {
    Ok(Bson::String(match value {
        Bson::String(text) => text,
        Bson::Double(number) if dialect < Dialect::V8_2 => format_g(number),
        Bson::Double(number) => format_shortest(number),
        Bson::Int32(number) => number.to_string(),
        Bson::Int64(number) => number.to_string(),
        Bson::Decimal128(number) => number.to_string(),
        Bson::Boolean(value) => value.to_string(),
        Bson::ObjectId(id) => id.to_hex(),
        Bson::DateTime(date) => iso(date)?,
        Bson::Binary(_) if dialect >= Dialect::V8_2 => {
            return Err(Fault::location(
                4_341_115,
                "Format must be speficied when converting from 'binData' to 'string'",
            ));
        }
        other => return Err(unsupported(&other, target)),
    }))
}
