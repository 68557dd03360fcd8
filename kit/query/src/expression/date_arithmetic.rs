//! Date arithmetic: `$dateAdd`, `$dateSubtract`, `$dateDiff`, `$dateTrunc`.

use bson::{Bson, DateTime};

use super::{
    calendar::{CivilTime, DAY, HOUR, MINUTE, SECOND, UtcOffset, day_of_date, days_in_month},
    coerce::{format_value, instant, int64, is_null_or_missing, type_name_of},
    node::{Arguments, Value},
};
use crate::Fault;

#[derive(Clone, Copy, Debug, PartialEq)]
enum TimeUnit {
    Year,
    Quarter,
    Month,
    Week,
    Day,
    Hour,
    Minute,
    Second,
    Millisecond,
}

/// Length of a unit, in months or milliseconds.
enum UnitLength {
    Months(i64),
    Millis(i64),
}

impl TimeUnit {
    fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "year" => Self::Year,
            "quarter" => Self::Quarter,
            "month" => Self::Month,
            "week" => Self::Week,
            "day" => Self::Day,
            "hour" => Self::Hour,
            "minute" => Self::Minute,
            "second" => Self::Second,
            "millisecond" => Self::Millisecond,
            _ => return None,
        })
    }

    fn span(self) -> UnitLength {
        match self {
            Self::Year => UnitLength::Months(12),
            Self::Quarter => UnitLength::Months(3),
            Self::Month => UnitLength::Months(1),
            Self::Week => UnitLength::Millis(7 * DAY),
            Self::Day => UnitLength::Millis(DAY),
            Self::Hour => UnitLength::Millis(HOUR),
            Self::Minute => UnitLength::Millis(MINUTE),
            Self::Second => UnitLength::Millis(SECOND),
            Self::Millisecond => UnitLength::Millis(1),
        }
    }

    /// Returns `true` if a server accepts this amount.
    fn may_add(self, amount: i64) -> bool {
        /// Number of years that dates can represent.
        const YEARS: i128 = 584_942_417;
        let most = match self.span() {
            UnitLength::Months(months) => YEARS * 12 / i128::from(months),
            UnitLength::Millis(1) => return true,
            UnitLength::Millis(millis) => i128::from(u64::MAX) / i128::from(millis),
        };
        i128::from(amount).abs() <= most
    }
}

pub(super) fn add(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    shift_date(arguments, Some)
}

pub(super) fn subtract(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    shift_date(arguments, i64::checked_neg)
}

fn shift_date(arguments: &Arguments<'_>, amount: fn(i64) -> Option<i64>) -> Result<Value, Fault> {
    let name = arguments.name();
    let start = arguments.value(0)?;
    if is_null_or_missing(&start) {
        return Ok(Some(Bson::Null));
    }
    let unit = arguments.value(1)?;
    if is_null_or_missing(&unit) {
        return Ok(Some(Bson::Null));
    }
    let count = arguments.value(2)?;
    if is_null_or_missing(&count) {
        return Ok(Some(Bson::Null));
    }
    let zone = UtcOffset::given(arguments.given(3), &arguments.value(3)?, 40517)?;
    let Some(zone) = zone else { return Ok(Some(Bson::Null)) };
    let invalid = |code, message: &str| Fault::location(code, format!("{name} {message}"));
    let start = instant(&start)
        .ok_or_else(|| invalid(5_166_403, "requires startDate to be convertible to a date"))?;
    let Some(Bson::String(unit_name)) = unit else {
        return Err(invalid(5_166_404, "expects string defining the time unit"));
    };
    let unit = TimeUnit::parse(&unit_name)
        .ok_or_else(|| Fault::failed_to_parse(format!("unknown time unit value: {unit_name}")))?;
    let count = count
        .as_ref()
        .and_then(int64)
        .ok_or_else(|| invalid(5_166_405, "expects integer amount of time units"))?;
    let Some(count) = amount(count) else {
        let message = format!("invalid {name} 'amount' parameter value: {count}");
        return Err(Fault::location(6_045_000, message));
    };
    if !unit.may_add(count) {
        let message = format!("invalid dateAdd 'amount' parameter value: {count} {unit_name}");
        return Err(Fault::location(5_976_500, message));
    }
    let shift_date = match unit.span() {
        UnitLength::Millis(millis) => {
            count.checked_mul(millis).and_then(|it| start.checked_add(it))
        }
        UnitLength::Months(months) => count
            .checked_mul(months)
            .and_then(|it| months_later(zone.to_local(start), it))
            .map(|it| zone.to_utc(it)),
    };
    let shift_date = shift_date.ok_or_else(|| invalid(5_166_406, "overflowed"))?;
    Ok(Some(DateTime::from_millis(shift_date).into()))
}

/// Adds months. Keeps day and time, or uses the last day of a shorter month.
fn months_later(local: i64, months: i64) -> Option<i64> {
    let civil = CivilTime::of(local);
    let month = (civil.year * 12 + civil.month - 1).checked_add(months)?;
    let (year, month) = (month.div_euclid(12), month.rem_euclid(12) + 1);
    let day = civil.day.min(days_in_month(year, month));
    CivilTime { year, month, day, ..civil }.millis()
}

/// Returns the unit argument. `None` for null.
fn unit_of(name: &str, value: &Value) -> Result<Option<TimeUnit>, Fault> {
    if is_null_or_missing(value) {
        return Ok(None);
    }
    let Some(Bson::String(text)) = value else {
        let message =
            format!("{name} requires 'unit' to be a string, but got {}", type_name_of(value));
        return Err(Fault::location(5_439_013, message));
    };
    TimeUnit::parse(text).map(Some).ok_or_else(|| {
        let message = "parameter 'unit' value cannot be recognized as a time unit";
        Fault::location(5_439_014, format!("{name} {message}: {text}"))
    })
}

/// Returns the first day of the week, from 1 (Monday) to 7. `None` for null.
fn first_weekday(arguments: &Arguments<'_>, place: usize) -> Result<Option<i64>, Fault> {
    let name = arguments.name();
    let value = arguments.value(place)?;
    let text = match &value {
        _ if !arguments.given(place) => return Ok(Some(7)),
        Some(Bson::String(text)) => text.to_ascii_lowercase(),
        value if is_null_or_missing(value) => return Ok(None),
        value => {
            let found = type_name_of(value);
            let message = format!("{name} requires 'startOfWeek' to be a string, but got {found}");
            return Err(Fault::location(5_439_015, message));
        }
    };
    let weekday = match text.as_str() {
        "monday" | "mon" => 1,
        "tuesday" | "tue" => 2,
        "wednesday" | "wed" => 3,
        "thursday" | "thu" => 4,
        "friday" | "fri" => 5,
        "saturday" | "sat" => 6,
        "sunday" | "sun" => 7,
        _ => {
            let message = "parameter 'startOfWeek' value cannot be recognized as a day of a week";
            return Err(Fault::location(5_439_016, format!("{name} {message}: {text}")));
        }
    };
    Ok(Some(weekday))
}

/// Returns the date argument. `None` for null.
fn moment(name: &str, value: &Value, argument: &str, code: i32) -> Result<Option<i64>, Fault> {
    if is_null_or_missing(value) {
        return Ok(None);
    }
    instant(value).map(Some).ok_or_else(|| {
        let found = type_name_of(value);
        let message = format!("{name} requires '{argument}' to be a date, but got {found}");
        Fault::location(code, message)
    })
}

/// Returns `true` if one of the first arguments was given and is null.
fn any_null(arguments: &Arguments<'_>, count: usize) -> Result<bool, Fault> {
    for index in 0..count {
        if arguments.given(index) && is_null_or_missing(&arguments.value(index)?) {
            return Ok(true);
        }
    }
    Ok(false)
}

pub(super) fn difference(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    let null = Ok(Some(Bson::Null));
    let name = arguments.name();
    if any_null(arguments, 4)? {
        return null;
    }
    let (start, end, unit) = (arguments.value(0)?, arguments.value(1)?, arguments.value(2)?);
    let Some(start) = moment(name, &start, "startDate", 5_166_307)? else { return null };
    let Some(end) = moment(name, &end, "endDate", 5_166_307)? else { return null };
    let Some(unit) = unit_of(name, &unit)? else { return null };
    let weekday = if unit == TimeUnit::Week { first_weekday(arguments, 4)? } else { Some(7) };
    let Some(weekday) = weekday else { return null };
    let zone = UtcOffset::given(arguments.given(3), &arguments.value(3)?, 40517)?;
    let Some(zone) = zone else { return null };
    let count = |millis: i64| {
        let local = zone.to_local(millis);
        let civil = CivilTime::of(local);
        match unit {
            TimeUnit::Year => civil.year,
            TimeUnit::Quarter => civil.year * 4 + (civil.month - 1) / 3,
            TimeUnit::Month => civil.year * 12 + civil.month,
            TimeUnit::Week => weeks(local.div_euclid(DAY), weekday),
            TimeUnit::Day => local.div_euclid(DAY),
            TimeUnit::Hour => local.div_euclid(HOUR),
            TimeUnit::Minute => local.div_euclid(MINUTE),
            TimeUnit::Second => millis.div_euclid(SECOND),
            TimeUnit::Millisecond => millis,
        }
    };
    let difference = count(end).checked_sub(count(start));
    let overflow = || Fault::location(5_166_308, "$dateDiff overflowed");
    Ok(Some(Bson::Int64(difference.ok_or_else(overflow)?)))
}

/// Number of the week of a day, counted from a week near 1970-01-01, a Thursday.
fn weeks(day: i64, first_weekday: i64) -> i64 {
    let first = (first_weekday - 4).rem_euclid(7);
    (day - first).div_euclid(7)
}

pub(super) fn truncate(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    let null = Ok(Some(Bson::Null));
    let name = arguments.name();
    if any_null(arguments, 4)? {
        return null;
    }
    let Some(date) = moment(name, &arguments.value(0)?, "date", 5_439_012)? else { return null };
    let Some(unit) = unit_of(name, &arguments.value(1)?)? else { return null };
    let Some(size) = bin_size(arguments)? else { return null };
    let weekday = if unit == TimeUnit::Week { first_weekday(arguments, 4)? } else { Some(7) };
    let Some(weekday) = weekday else { return null };
    let zone = UtcOffset::given(arguments.given(3), &arguments.value(3)?, 40517)?;
    let Some(zone) = zone else { return null };
    let local = zone.to_local(date);
    let cut = match unit.span() {
        UnitLength::Months(months) => {
            let civil = CivilTime::of(local);
            // Bins start in the year 2000.
            let month = (civil.year - 2000) * 12 + civil.month - 1;
            size.checked_mul(months).and_then(|bin| {
                let month = month.div_euclid(bin) * bin;
                let first = day_of_date(2000 + month.div_euclid(12), month.rem_euclid(12) + 1, 1)?;
                first.checked_mul(DAY)
            })
        }
        UnitLength::Millis(millis) => size.checked_mul(millis).and_then(|bin| {
            let reference = reference(unit, weekday);
            let since = local.checked_sub(reference)?;
            since.div_euclid(bin).checked_mul(bin)?.checked_add(reference)
        }),
    };
    let cut = cut.ok_or_else(|| Fault::location(5_439_006, "$dateTrunc overflowed"))?;
    Ok(Some(DateTime::from_millis(zone.to_utc(cut)).into()))
}

/// Returns the start of the first bin: the year 2000, or its first start of a week.
fn reference(unit: TimeUnit, weekday: i64) -> i64 {
    let day = day_of_date(2000, 1, 1).unwrap_or(0);
    // 2000-01-01 was a Saturday.
    let day = if unit == TimeUnit::Week { day + (weekday - 6).rem_euclid(7) } else { day };
    day * DAY
}

fn bin_size(arguments: &Arguments<'_>) -> Result<Option<i64>, Fault> {
    if !arguments.given(2) {
        return Ok(Some(1));
    }
    let value = arguments.value(2)?;
    if is_null_or_missing(&value) {
        return Ok(None);
    }
    let Some(size) = value.as_ref().and_then(int64) else {
        let (found, kind) = (format_value(&value), type_name_of(&value));
        let message = "$dateTrunc requires 'binSize' to be a 64-bit integer, but got value";
        return Err(Fault::location(5_439_017, format!("{message} '{found}' of type {kind}")));
    };
    if size <= 0 {
        let message = "$dateTrunc requires 'binSize' to be greater than 0, but got value";
        return Err(Fault::location(5_439_018, format!("{message} {size}")));
    }
    Ok(Some(size))
}
