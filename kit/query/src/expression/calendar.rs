//! Calendar of a point in time, in UTC or at an offset.

use bson::Bson;

use super::{
    coerce::{is_null_or_missing, type_name_of},
    node::Value,
};
use crate::Fault;

pub(super) const SECOND: i64 = 1000;
pub(super) const MINUTE: i64 = 60 * SECOND;
pub(super) const HOUR: i64 = 60 * MINUTE;
pub(super) const DAY: i64 = 24 * HOUR;

/// Date and time in the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CivilTime {
    pub(super) year: i64,
    /// From 1.
    pub(super) month: i64,
    /// From 1.
    pub(super) day: i64,
    pub(super) hour: i64,
    pub(super) minute: i64,
    pub(super) second: i64,
    pub(super) millisecond: i64,
}

impl CivilTime {
    /// Converts milliseconds since 1970.
    pub(super) fn of(millis: i64) -> Self {
        let (year, month, day) = date_of_day(millis.div_euclid(DAY));
        let time = millis.rem_euclid(DAY);
        Self {
            year,
            month,
            day,
            hour: time / HOUR,
            minute: time % HOUR / MINUTE,
            second: time % MINUTE / SECOND,
            millisecond: time % SECOND,
        }
    }

    /// Returns milliseconds since 1970, or `None` out of range. Fields may overflow: month 13 is
    /// January of the next year.
    pub(super) fn millis(&self) -> Option<i64> {
        let months = self.year.checked_mul(12)?.checked_add(self.month.checked_sub(1)?)?;
        let days = day_of_date(months.div_euclid(12), months.rem_euclid(12) + 1, 1)?;
        let days = days.checked_add(self.day.checked_sub(1)?)?;
        [(days, DAY), (self.hour, HOUR), (self.minute, MINUTE), (self.second, SECOND)]
            .into_iter()
            .try_fold(self.millisecond, |sum, (count, unit)| {
                sum.checked_add(count.checked_mul(unit)?)
            })
    }

    fn day_number(&self) -> i64 {
        day_of_date(self.year, self.month, self.day).unwrap_or(0)
    }

    /// Day of the week, from 0 (Sunday) to 6.
    pub(super) fn weekday(&self) -> i64 {
        (self.day_number() + 4).rem_euclid(7)
    }

    /// ISO day of the week, from 1 (Monday) to 7.
    pub(super) fn iso_weekday(&self) -> i64 {
        (self.day_number() + 3).rem_euclid(7) + 1
    }

    /// Day of the year, from 1.
    pub(super) fn day_of_year(&self) -> i64 {
        self.day_number() - day_of_date(self.year, 1, 1).unwrap_or(0) + 1
    }

    /// Week of the year, from 0. Weeks begin on Sundays; the first Sunday begins week 1.
    pub(super) fn week(&self) -> i64 {
        (self.day_of_year() + 6 - self.weekday()) / 7
    }

    /// ISO year and week. A week belongs to the year of its Thursday.
    pub(super) fn iso_week(&self) -> (i64, i64) {
        let thursday = self.day_number() - self.iso_weekday() + 4;
        let (year, _, _) = date_of_day(thursday);
        let first = day_of_date(year, 1, 1).unwrap_or(0);
        (year, (thursday - first) / 7 + 1)
    }
}

/// Returns the days since 1970 of a date. The month is from 1 to 12.
pub(super) fn day_of_date(year: i64, month: i64, day: i64) -> Option<i64> {
    // Years begin in March, so that the leap day is the last one. The calendar repeats every 400
    // years.
    let year = if month <= 2 { year.checked_sub(1)? } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let shifted = (month + 9) % 12;
    let day_of_year = (153 * shifted + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era.checked_mul(146_097)?.checked_add(day_of_era - 719_468)
}

/// Returns the date of a day since 1970.
fn date_of_day(day: i64) -> (i64, i64, i64) {
    let day = day + 719_468;
    let era = day.div_euclid(146_097);
    let day_of_era = day.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day_of_year - (153 * shifted + 2) / 5 + 1)
}

/// Returns the number of days in a month.
pub(super) fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Offset from UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct UtcOffset {
    pub(super) minutes: i64,
}

impl UtcOffset {
    pub(super) const UTC: Self = Self { minutes: 0 };

    /// Parses `+05`, `-0330`, `+05:30`, `UTC` and `GMT`. Names of time zones are not supported.
    pub(super) fn parse(text: &str) -> Result<Self, Fault> {
        let unknown = || {
            let message = format!("unrecognized time zone identifier: \"{text}\"");
            Fault::location(40485, message)
        };
        if matches!(text, "UTC" | "GMT") {
            return Ok(Self::UTC);
        }
        Self::offset(text).ok_or_else(unknown)
    }

    /// Parses a numeric offset.
    pub(super) fn offset(text: &str) -> Option<Self> {
        let (sign, digits) = match text.split_at_checked(1)? {
            ("+", digits) => (1, digits),
            ("-", digits) => (-1, digits),
            _ => return None,
        };
        let (hours, minutes) = match digits.len() {
            2 => (digits, "00"),
            4 => digits.split_at_checked(2)?,
            5 => digits.split_once(':').filter(|(hours, _)| hours.len() == 2)?,
            _ => return None,
        };
        let number = |it: &str| {
            it.bytes().all(|it| it.is_ascii_digit()).then(|| it.parse::<i64>().ok()).flatten()
        };
        Some(Self { minutes: sign * (number(hours)? * 60 + number(minutes)?) })
    }

    /// Returns the argument `timezone`, or UTC if it was not given. `None` for null.
    pub(super) fn given(given: bool, value: &Value, code: i32) -> Result<Option<Self>, Fault> {
        match value {
            _ if !given => Ok(Some(Self::UTC)),
            Some(Bson::String(text)) => Self::parse(text).map(Some),
            value if is_null_or_missing(value) => Ok(None),
            value => {
                let message =
                    format!("timezone must evaluate to a string, found {}", type_name_of(value));
                Err(Fault::location(code, message))
            }
        }
    }

    fn millis(self) -> i64 {
        self.minutes * MINUTE
    }

    /// Converts UTC to local time.
    pub(super) fn to_local(self, millis: i64) -> i64 {
        millis.saturating_add(self.millis())
    }

    /// Converts local time to UTC.
    pub(super) fn to_utc(self, local: i64) -> i64 {
        local.saturating_sub(self.millis())
    }
}
