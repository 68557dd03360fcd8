//! Conversions of arguments to integers, text and dates.

use bson::{Bson, DateTime, Timestamp};

use super::{calendar::CivilTime, node::Value, rounding::nearest};
use crate::{
    Code, Fault,
    value::{Number, is_nullish, type_name},
};

/// Returns `true` for a missing value and null.
pub(super) fn is_null_or_missing(value: &Value) -> bool {
    value.as_ref().is_none_or(is_nullish)
}

/// Type name of a value in error messages.
pub(super) fn type_name_of(value: &Value) -> &'static str {
    value.as_ref().map_or("missing", type_name)
}

/// Text of a value in error messages.
pub(super) fn format_value(value: &Value) -> String {
    match value {
        None => "MISSING".to_owned(),
        Some(Bson::String(text)) => format!("\"{text}\""),
        Some(Bson::Double(number)) => format_g(*number),
        Some(other) => other.to_string(),
    }
}

/// Returns the number if it is an integer of 32 bits.
pub(super) fn int32(value: &Bson) -> Option<i32> {
    int64(value).and_then(|it| i32::try_from(it).ok())
}

/// Returns the number if it is an integer of 64 bits.
pub(crate) fn int64(value: &Bson) -> Option<i64> {
    Number::of(value)?.to_integer()
}

/// Truncates a number; fails outside of the range of a long. Returns zero for other types.
///
/// Decimals are rounded, as in servers.
pub(super) fn truncated(value: &Bson) -> Result<i64, Fault> {
    let whole = match value {
        Bson::Decimal128(_) => Number::of(&nearest(value.clone())),
        other => Number::of(other),
    };
    match whole {
        Some(number) => number.truncated().ok_or_else(|| {
            let format_value = format_value(&Some(value.clone()));
            Fault::location(
                31109,
                format!("Can't coerce out of range value {format_value} to long"),
            )
        }),
        None => Ok(0),
    }
}

/// Converts a value to text, as string operators do. Null and missing values become an empty
/// string.
pub(super) fn text(value: &Value) -> Result<String, Fault> {
    Ok(match value {
        None | Some(Bson::Null | Bson::Undefined) => String::new(),
        Some(Bson::String(text) | Bson::Symbol(text) | Bson::JavaScriptCode(text)) => text.clone(),
        Some(Bson::Int32(number)) => number.to_string(),
        Some(Bson::Int64(number)) => number.to_string(),
        Some(Bson::Double(number)) if number.is_nan() => "nan".to_owned(),
        Some(Bson::Double(number)) if number.is_infinite() => {
            if *number > 0.0 { "inf" } else { "-inf" }.to_owned()
        }
        Some(Bson::Double(number)) => format_g(*number),
        Some(Bson::Decimal128(number)) => number.to_string(),
        Some(Bson::DateTime(date)) => iso(*date)?,
        Some(Bson::Timestamp(timestamp)) => format_timestamp(*timestamp),
        Some(other) => {
            return Err(Fault::location(
                16007,
                format!("can't convert from BSON type {} to String", type_name(other)),
            ));
        }
    })
}

/// Returns the time of a date, a timestamp or an ObjectId.
pub(super) fn date(value: &Value) -> Result<i64, Fault> {
    instant(value).ok_or_else(|| {
        let message = format!("can't convert from BSON type {} to Date", type_name_of(value));
        Fault::location(16006, message)
    })
}

/// Returns the time of a date, a timestamp or an ObjectId. `None` for other types.
pub(super) fn instant(value: &Value) -> Option<i64> {
    match value.as_ref()? {
        Bson::DateTime(date) => Some(date.timestamp_millis()),
        Bson::Timestamp(timestamp) => Some(i64::from(timestamp.time) * 1000),
        Bson::ObjectId(id) => Some(id.timestamp().timestamp_millis()),
        _ => None,
    }
}

/// Formats like `2024-02-29T23:59:58.123Z`.
pub(super) fn iso(date: DateTime) -> Result<String, Fault> {
    let civil = CivilTime::of(date.timestamp_millis());
    if !(0..=9999).contains(&civil.year) {
        return Err(year_out_of_range());
    }
    Ok(format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z",
        civil.year,
        civil.month,
        civil.day,
        civil.hour,
        civil.minute,
        civil.second,
        civil.millisecond
    ))
}

/// Formats a timestamp like `Jan  1 00:01:40:2`, as string operators of servers do.
fn format_timestamp(timestamp: Timestamp) -> String {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let civil = CivilTime::of(i64::from(timestamp.time) * 1000);
    let month = usize::try_from(civil.month - 1).ok().and_then(|it| MONTHS.get(it)).unwrap_or(&"");
    format!(
        "{month} {:2} {:02}:{:02}:{:02}:{:x}",
        civil.day, civil.hour, civil.minute, civil.second, timestamp.increment
    )
}

/// Error for a date that has no text.
pub(super) fn year_out_of_range() -> Fault {
    Fault::location(
        18537,
        "Could not convert date to string: date component was outside the supported range of 0-9999",
    )
}

/// Formats a double with six digits, like `%g` in C.
pub(super) fn format_g(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    if number == 0.0 {
        return if number.is_sign_negative() { "-0" } else { "0" }.to_owned();
    }
    let scientific = format!("{number:.5e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) {
        let decimals = usize::try_from(5 - exponent).unwrap_or(0);
        return without_trailing_zeros(&format!("{number:.decimals$}")).to_owned();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", without_trailing_zeros(digits), exponent.abs())
}

/// Formats a double with the fewest digits that identify it, up to 16 before the decimal point.
pub(super) fn format_shortest(number: f64) -> String {
    if !number.is_finite() || number == 0.0 {
        return format_g(number);
    }
    let scientific = format!("{number:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        return number.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

fn without_trailing_zeros(digits: &str) -> &str {
    if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits }
}

/// Error of an operator without decimal support.
pub(super) fn decimals_unsupported(operator: &str) -> Fault {
    Fault::new(Code::NOT_IMPLEMENTED, format!("{operator} of a decimal is not supported"))
}

/// Error for a duration out of range.
pub(super) fn duration_overflow() -> Fault {
    Fault::new(
        Code::named(159, "DurationOverflow"),
        "Overflow casting to a higher-precision duration",
    )
}
