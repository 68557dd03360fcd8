//! Text of dates, by a format or as ISO 8601.

use bson::{Bson, DateTime};

use super::{
    calendar::{CivilTime, UtcOffset, days_in_month},
    coerce::{date, format_value, is_null_or_missing, type_name_of, year_out_of_range},
    node::{Arguments, Value},
};
use crate::{Code, Fault};

const ISO: &str = "%Y-%m-%dT%H:%M:%S.%LZ";

pub(super) fn to_string(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    let value = arguments.value(0)?;
    let format = match arguments.value(1)? {
        _ if !arguments.given(1) => ISO.to_owned(),
        Some(Bson::String(format)) => {
            formatted(&format, &CivilTime::of(0), UtcOffset::UTC)?;
            format
        }
        other if is_null_or_missing(&other) => return Ok(Some(Bson::Null)),
        other => return Err(not_a_format(arguments, &other, 18533)),
    };
    let zone = UtcOffset::given(arguments.given(2), &arguments.value(2)?, 40517)?;
    let Some(zone) = zone else { return Ok(Some(Bson::Null)) };
    if is_null_or_missing(&value) {
        return if arguments.given(3) { arguments.value(3) } else { Ok(Some(Bson::Null)) };
    }
    let civil = CivilTime::of(zone.to_local(date(&value)?));
    Ok(Some(formatted(&format, &civil, zone)?.into()))
}

fn not_a_format(arguments: &Arguments<'_>, value: &Value, code: i32) -> Fault {
    let (name, kind, found) = (arguments.name(), type_name_of(value), format_value(value));
    let message = format!("{name} requires that 'format' be a string, found: {kind}");
    Fault::location(code, format!("{message} with value {found}"))
}

fn formatted(format: &str, civil: &CivilTime, zone: UtcOffset) -> Result<String, Fault> {
    let mut text = String::new();
    let mut characters = format.chars();
    while let Some(character) = characters.next() {
        if character != '%' {
            text.push(character);
            continue;
        }
        let part = match characters.next() {
            Some('Y') => four_digits(civil.year)?,
            Some('m') => format!("{:02}", civil.month),
            Some('d') => format!("{:02}", civil.day),
            Some('H') => format!("{:02}", civil.hour),
            Some('M') => format!("{:02}", civil.minute),
            Some('S') => format!("{:02}", civil.second),
            Some('L') => format!("{:03}", civil.millisecond),
            Some('j') => format!("{:03}", civil.day_of_year()),
            Some('w') => (civil.weekday() + 1).to_string(),
            Some('u') => civil.iso_weekday().to_string(),
            Some('U') => format!("{:02}", civil.week()),
            Some('V') => format!("{:02}", civil.iso_week().1),
            Some('G') => four_digits(civil.iso_week().0)?,
            Some('z') => {
                let sign = if zone.minutes < 0 { '-' } else { '+' };
                let minutes = zone.minutes.abs();
                format!("{sign}{:02}{:02}", minutes / 60, minutes % 60)
            }
            Some('Z') => zone.minutes.to_string(),
            Some('%') => "%".to_owned(),
            other => return Err(bad_format(other)),
        };
        text.push_str(&part);
    }
    Ok(text)
}

fn four_digits(year: i64) -> Result<String, Fault> {
    if !(0..=9999).contains(&year) {
        return Err(year_out_of_range());
    }
    Ok(format!("{year:04}"))
}

fn bad_format(character: Option<char>) -> Fault {
    match character {
        Some(character) => Fault::location(
            18536,
            format!("Invalid format character '%{character}' in format string"),
        ),
        None => Fault::location(18535, "Unmatched '%' at end of format string"),
    }
}

pub(super) fn from_string(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    let value = arguments.value(0)?;
    let format = match arguments.value(1)? {
        Some(Bson::String(format)) => {
            check_reading_format(&format)?;
            Some(format)
        }
        other if is_null_or_missing(&other) => None,
        other => return Err(not_a_format(arguments, &other, 40684)),
    };
    let zone = UtcOffset::given(arguments.given(2), &arguments.value(2)?, 40517)?;
    if is_null_or_missing(&value) {
        return if arguments.given(3) { arguments.value(3) } else { Ok(Some(Bson::Null)) };
    }
    let Some(zone) = zone else { return Ok(Some(Bson::Null)) };
    if format.is_none() && arguments.given(1) {
        return Ok(Some(Bson::Null));
    }
    match read(&value, format.as_deref(), zone) {
        Ok(millis) => Ok(Some(DateTime::from_millis(millis).into())),
        Err(_) if arguments.given(4) => arguments.value(4),
        Err(fault) => Err(fault),
    }
}

fn read(value: &Value, format: Option<&str>, zone: UtcOffset) -> Result<i64, Fault> {
    let Some(Bson::String(text)) = value else {
        return Err(unreadable(&format!(
            "$dateFromString requires that 'dateString' be a string, found: {} with value {}",
            type_name_of(value),
            format_value(value)
        )));
    };
    match format {
        Some(format) => read_by_format(text, format, zone),
        None => read_iso(text, zone),
    }
}

fn unreadable(message: &str) -> Fault {
    Fault::new(Code::named(241, "ConversionFailure"), message)
}

fn not_understood(text: &str) -> Fault {
    unreadable(&format!("Error parsing date string '{text}'"))
}

fn check_reading_format(format: &str) -> Result<(), Fault> {
    let mut characters = format.chars();
    while let Some(character) = characters.next() {
        if character == '%' {
            match characters.next() {
                Some(
                    'Y' | 'm' | 'd' | 'H' | 'M' | 'S' | 'L' | 'G' | 'V' | 'u' | 'z' | 'Z' | '%'
                    | 'j',
                ) => {}
                other => return Err(bad_format(other)),
            }
        }
    }
    Ok(())
}

/// Parses a date in ISO 8601. Servers accept more forms, such as names of months; they fail here.
pub(super) fn read_iso(text: &str, zone: UtcOffset) -> Result<i64, Fault> {
    let mut rest = DateText(text);
    let (civil, own) = rest.iso().ok_or_else(|| not_understood(text))?;
    moment(text, &civil, own, zone)
}

fn moment(
    text: &str,
    civil: &CivilTime,
    own: Option<UtcOffset>,
    zone: UtcOffset,
) -> Result<i64, Fault> {
    if own.is_some() && zone != UtcOffset::UTC {
        return Err(unreadable(
            "you cannot pass in a date/time string with time zone information together with a \
             timezone argument",
        ));
    }
    let valid = (1..=12).contains(&civil.month)
        && (1..=days_in_month(civil.year, civil.month)).contains(&civil.day)
        && civil.hour < 24
        && civil.minute < 60
        && civil.second < 60;
    let local = civil.millis().filter(|_| valid).ok_or_else(|| not_understood(text))?;
    Ok(own.unwrap_or(zone).to_utc(local))
}

/// Remaining text.
struct DateText<'a>(&'a str);

impl DateText<'_> {
    fn take(&mut self, prefix: char) -> bool {
        let rest = self.0.strip_prefix(prefix);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    /// Parses a number with a limited count of digits.
    fn number(&mut self, least: usize, most: usize) -> Option<i64> {
        let digits = self.0.bytes().take(most).take_while(u8::is_ascii_digit).count();
        if digits < least {
            return None;
        }
        let (number, rest) = self.0.split_at(digits);
        self.0 = rest;
        number.parse().ok()
    }

    fn iso(&mut self) -> Option<(CivilTime, Option<UtcOffset>)> {
        let mut civil =
            CivilTime { year: 0, month: 1, day: 1, hour: 0, minute: 0, second: 0, millisecond: 0 };
        civil.year = self.number(4, 4)?;
        if self.take('-') {
            civil.month = self.number(1, 2)?;
            if self.take('-') {
                civil.day = self.number(1, 2)?;
            }
        } else if self.take('/') {
            civil.month = self.number(1, 2)?;
            if !self.take('/') {
                return None;
            }
            civil.day = self.number(1, 2)?;
        } else {
            civil.month = self.number(2, 2)?;
            civil.day = self.number(2, 2)?;
        }
        if self.0.is_empty() {
            return Some((civil, None));
        }
        if !self.take('T') && !self.take('t') && !self.take(' ') {
            return None;
        }
        self.time(&mut civil)?;
        let zone = self.zone()?;
        self.0.is_empty().then_some((civil, zone))
    }

    fn time(&mut self, civil: &mut CivilTime) -> Option<()> {
        civil.hour = self.number(2, 2)?;
        if !self.take(':') {
            return Some(());
        }
        civil.minute = self.number(2, 2)?;
        if !self.take(':') {
            return Some(());
        }
        civil.second = self.number(2, 2)?;
        if self.take('.') {
            civil.millisecond = self.fraction()?;
        }
        Some(())
    }

    /// Parses milliseconds from any number of digits.
    fn fraction(&mut self) -> Option<i64> {
        let digits = self.0.bytes().take_while(u8::is_ascii_digit).count();
        let (fraction, rest) = self.0.split_at(digits);
        self.0 = rest;
        let padded = format!("{fraction:0<3}");
        (digits > 0).then(|| padded[..3].parse().ok()).flatten()
    }

    /// Parses an offset after a time. `Some(None)` without one, `None` if it is invalid.
    fn zone(&mut self) -> Option<Option<UtcOffset>> {
        let rest = std::mem::take(&mut self.0);
        let name = rest.trim_start_matches(' ');
        match name {
            "" if rest.is_empty() => Some(None),
            "Z" | "z" | "UTC" | "GMT" => Some(Some(UtcOffset::UTC)),
            offset => Some(Some(UtcOffset::offset(offset)?)),
        }
    }
}

fn read_by_format(text: &str, format: &str, zone: UtcOffset) -> Result<i64, Fault> {
    let mut rest = DateText(text);
    let mut parts = DateParts::default();
    let mut characters = format.chars();
    while let Some(character) = characters.next() {
        let read = match character {
            '%' => parts.read(characters.next(), &mut rest),
            other => rest.take(other).then_some(()),
        };
        read.ok_or_else(|| not_understood(text))?;
    }
    if !rest.0.is_empty() {
        return Err(not_understood(text));
    }
    let civil = parts.civil().ok_or_else(|| not_understood(text))?;
    moment(text, &civil, parts.zone, zone)
}

/// Fields parsed by a format.
#[derive(Default)]
struct DateParts {
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    time: [i64; 4],
    zone: Option<UtcOffset>,
}

impl DateParts {
    fn read(&mut self, part: Option<char>, rest: &mut DateText<'_>) -> Option<()> {
        match part? {
            'Y' => self.year = Some(rest.number(4, 4)?),
            'm' => self.month = Some(rest.number(1, 2)?),
            'd' => self.day = Some(rest.number(1, 2)?),
            'H' => self.time[0] = rest.number(1, 2)?,
            'M' => self.time[1] = rest.number(1, 2)?,
            'S' => self.time[2] = rest.number(1, 2)?,
            'L' => self.time[3] = rest.fraction()?,
            'z' => {
                let offset = rest.0.find(|it: char| it.is_ascii_alphabetic() || it == ' ');
                let (offset, after) = rest.0.split_at(offset.unwrap_or(rest.0.len()));
                rest.0 = after;
                self.zone = Some(UtcOffset::offset(offset)?);
            }
            '%' => return rest.take('%').then_some(()),
            // Weeks, days of the year and offsets in minutes are not supported.
            _ => return None,
        }
        Some(())
    }

    fn civil(&self) -> Option<CivilTime> {
        let [hour, minute, second, millisecond] = self.time;
        let (year, month, day) = (self.year?, self.month?, self.day?);
        Some(CivilTime { year, month, day, hour, minute, second, millisecond })
    }
}
