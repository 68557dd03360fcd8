//! Parts of dates, and dates made from parts.

use bson::{Bson, DateTime, doc};

use super::{
    calendar::{CivilTime, UtcOffset, day_of_date},
    coerce::{date, duration_overflow, format_value, int64, is_null_or_missing, type_name_of},
    node::{Arguments, ExpressionNode, Value},
    operators::{AggregationOperator, NamedArguments},
    parse::ExpressionParser,
};
use crate::Fault;

const PART: NamedArguments = NamedArguments {
    fields: &[("date", Some(40539)), ("timezone", None)],
    not_an_object: 0,
    unknown: 40535,
};

/// Parses a date expression, or `{date, timezone}`.
pub(super) fn parse_part(
    parser: &mut ExpressionParser<'_>,
    operator: &'static AggregationOperator,
    argument: &Bson,
) -> Result<ExpressionNode, Fault> {
    let arguments = match argument {
        Bson::Document(document)
            if !document.keys().next().is_some_and(|it| it.starts_with('$')) =>
        {
            parser.type_name_of(operator, &PART, argument)?
        }
        Bson::Array(array) if array.len() != 1 => {
            return Err(Fault::location(
                40536,
                format!(
                    "{} accepts exactly one argument if given an array, but was given {}",
                    operator.name,
                    array.len()
                ),
            ));
        }
        other => {
            let mut arguments = parser.list(other)?;
            arguments.push(None);
            arguments
        }
    };
    parser.call(operator, arguments)
}

fn part(arguments: &Arguments<'_>, part: fn(&CivilTime) -> i64) -> Result<Value, Fault> {
    Ok(civil(arguments)?.map_or(Some(Bson::Null), |it| Some(small(part(&it)))))
}

/// A part of a date as an int.
fn small(number: i64) -> Bson {
    i32::try_from(number).map_or(Bson::Int64(number), Bson::Int32)
}

/// Returns the calendar fields of the date argument. `None` for null.
fn civil(arguments: &Arguments<'_>) -> Result<Option<CivilTime>, Fault> {
    let value = arguments.value(0)?;
    if is_null_or_missing(&value) {
        return Ok(None);
    }
    let millis = date(&value)?;
    let zone = UtcOffset::given(arguments.given(1), &arguments.value(1)?, 40533)?;
    Ok(zone.map(|zone| CivilTime::of(zone.to_local(millis))))
}

pub(super) fn year(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    part(arguments, |it| it.year)
}

pub(super) fn month(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    part(arguments, |it| it.month)
}

pub(super) fn day_of_month(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    part(arguments, |it| it.day)
}

pub(super) fn hour(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    part(arguments, |it| it.hour)
}

pub(super) fn minute(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    part(arguments, |it| it.minute)
}

pub(super) fn second(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    part(arguments, |it| it.second)
}

pub(super) fn millisecond(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    part(arguments, |it| it.millisecond)
}

pub(super) fn day_of_week(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    part(arguments, |it| it.weekday() + 1)
}

pub(super) fn day_of_year(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    part(arguments, CivilTime::day_of_year)
}

pub(super) fn week(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    part(arguments, CivilTime::week)
}

pub(super) fn iso_week(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    part(arguments, |it| it.iso_week().1)
}

pub(super) fn iso_week_year(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    let year = |it: CivilTime| Bson::Int64(it.iso_week().0);
    Ok(Some(civil(arguments)?.map_or(Bson::Null, year)))
}

pub(super) fn iso_day_of_week(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    part(arguments, CivilTime::iso_weekday)
}

pub(super) fn to_parts(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    let value = arguments.value(0)?;
    let zone = UtcOffset::given(arguments.given(1), &arguments.value(1)?, 40517)?;
    let Some(zone) = zone else { return Ok(Some(Bson::Null)) };
    let by_week = match arguments.value(2)? {
        _ if !arguments.given(2) => false,
        Some(Bson::Boolean(by_week)) => by_week,
        value if is_null_or_missing(&value) => return Ok(Some(Bson::Null)),
        value => {
            let message =
                format!("iso8601 must evaluate to a bool, found {}", type_name_of(&value));
            return Err(Fault::location(40521, message));
        }
    };
    if is_null_or_missing(&value) {
        return Ok(Some(Bson::Null));
    }
    let civil = CivilTime::of(zone.to_local(date(&value)?));
    let mut parts = if by_week {
        let (year, week) = civil.iso_week();
        doc! {
            "isoWeekYear": small(year),
            "isoWeek": small(week),
            "isoDayOfWeek": small(civil.iso_weekday()),
        }
    } else {
        doc! {
            "year": small(civil.year),
            "month": small(civil.month),
            "day": small(civil.day),
        }
    };
    parts.extend(doc! {
        "hour": small(civil.hour),
        "minute": small(civil.minute),
        "second": small(civil.second),
        "millisecond": small(civil.millisecond),
    });
    Ok(Some(parts.into()))
}

const FROM_PARTS: NamedArguments = NamedArguments {
    fields: &[
        ("year", None),
        ("month", None),
        ("day", None),
        ("isoWeekYear", None),
        ("isoWeek", None),
        ("isoDayOfWeek", None),
        ("hour", None),
        ("minute", None),
        ("second", None),
        ("millisecond", None),
        ("timezone", None),
    ],
    not_an_object: 40519,
    unknown: 40518,
};

pub(super) fn parse_from_parts(
    parser: &mut ExpressionParser<'_>,
    operator: &'static AggregationOperator,
    argument: &Bson,
) -> Result<ExpressionNode, Fault> {
    let arguments = parser.type_name_of(operator, &FROM_PARTS, argument)?;
    let given = |place: usize| arguments[place].is_some();
    if !given(0) && !given(3) {
        let message = "$dateFromParts requires either 'year' or 'isoWeekYear' to be present";
        return Err(Fault::location(40516, message));
    }
    if given(0) && (3..6).any(given) {
        let message = "$dateFromParts does not allow mixing natural dates with ISO dates";
        return Err(Fault::location(40489, message));
    }
    if given(3) && (given(1) || given(2)) {
        let message = "$dateFromParts does not allow mixing ISO dates with natural dates";
        return Err(Fault::location(40525, message));
    }
    parser.call(operator, arguments)
}

pub(super) fn from_parts(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    let mut parts = [0; 4];
    for (part, place) in parts.iter_mut().zip(6..10) {
        let bounded = place < 8;
        match part_number(arguments, place, 0, bounded)? {
            Some(number) => *part = number,
            None => return Ok(Some(Bson::Null)),
        }
    }
    let zone = UtcOffset::given(arguments.given(10), &arguments.value(10)?, 40517)?;
    let Some(zone) = zone else { return Ok(Some(Bson::Null)) };
    let by_week = arguments.given(3);
    let places = if by_week { [3, 4, 5] } else { [0, 1, 2] };
    let (default_year, bounds) = (1970, 1..=9999);
    let Some(year) = part_number(arguments, places[0], default_year, false)? else {
        return Ok(Some(Bson::Null));
    };
    let Some(middle) = part_number(arguments, places[1], 1, true)? else {
        return Ok(Some(Bson::Null));
    };
    let Some(last) = part_number(arguments, places[2], 1, true)? else {
        return Ok(Some(Bson::Null));
    };
    if !bounds.contains(&year) {
        let (name, code) = if by_week { ("isoWeekYear", 31095) } else { ("year", 40523) };
        let message = "must evaluate to an integer in the range 1 to 9999, found";
        return Err(Fault::location(code, format!("'{name}' {message} {year}")));
    }
    let (month, day) = if by_week { (1, iso_day(year, middle, last)) } else { (middle, last) };
    let [hour, minute, second, millisecond] = parts;
    let civil = CivilTime { year, month, day, hour, minute, second, millisecond };
    let local = civil.millis().ok_or_else(duration_overflow)?;
    Ok(Some(DateTime::from_millis(zone.to_utc(local)).into()))
}

/// Converts a day of an ISO week to a day of January, which may be out of range.
fn iso_day(year: i64, week: i64, weekday: i64) -> i64 {
    let fourth =
        CivilTime { year, month: 1, day: 4, hour: 0, minute: 0, second: 0, millisecond: 0 };
    let first = day_of_date(year, 1, 4).unwrap_or(0) - (fourth.iso_weekday() - 1);
    let day = first + (week - 1) * 7 + (weekday - 1);
    day - day_of_date(year, 1, 1).unwrap_or(0) + 1
}

/// Returns a part, or the default if it was not given. `None` for null.
fn part_number(
    arguments: &Arguments<'_>,
    place: usize,
    default: i64,
    bounded: bool,
) -> Result<Option<i64>, Fault> {
    if !arguments.given(place) {
        return Ok(Some(default));
    }
    let (value, name) = (arguments.value(place)?, FROM_PARTS.fields[place].0);
    if is_null_or_missing(&value) {
        return Ok(None);
    }
    let Some(number) = value.as_ref().and_then(int64) else {
        let (kind, found) = (type_name_of(&value), format_value(&value));
        let message = format!("'{name}' must evaluate to an integer, found {kind}");
        return Err(Fault::location(40515, format!("{message} with value {found}")));
    };
    if bounded && i16::try_from(number).is_err() {
        let message = "must evaluate to a value in the range [-32768, 32767]; value";
        let message = format!("'{name}' {message} {number} is not in range");
        return Err(Fault::location(31034, message));
    }
    Ok(Some(number))
}

pub(super) fn timestamp_second(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    timestamp(arguments, 5_687_301, |it| it.time)
}

pub(super) fn timestamp_increment(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    timestamp(arguments, 5_687_302, |it| it.increment)
}

fn timestamp(
    arguments: &Arguments<'_>,
    code: i32,
    part: fn(bson::Timestamp) -> u32,
) -> Result<Value, Fault> {
    match arguments.value(0)? {
        Some(Bson::Timestamp(timestamp)) => Ok(Some(Bson::Int64(part(timestamp).into()))),
        value if is_null_or_missing(&value) => Ok(Some(Bson::Null)),
        value => {
            let (name, found) = (arguments.name(), type_name_of(&value));
            let message = format!("Argument to {name} must be a timestamp, but is {found}");
            Err(Fault::location(code, message))
        }
    }
}
