//! Rounding operators.
//!
//! Servers round doubles by their 34 leading decimal digits. So 1.005, which is slightly less than
//! that, rounds to 1.0 and not to 1.01.

use bson::{Bson, Decimal128};

use super::{
    arithmetic::{int_or_long, one_number},
    coerce::{int32, is_null_or_missing, truncated, type_name_of},
    node::{Arguments, Value},
};
use crate::{Fault, value::Number};

#[derive(Clone, Copy, PartialEq)]
enum RoundingMode {
    /// To nearest, ties to even.
    Nearest,
    TowardZero,
    Up,
    Down,
}

pub(super) fn ceil(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    whole(arguments, f64::ceil, RoundingMode::Up)
}

pub(super) fn floor(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    whole(arguments, f64::floor, RoundingMode::Down)
}

fn whole(
    arguments: &Arguments<'_>,
    double: fn(f64) -> f64,
    mode: RoundingMode,
) -> Result<Value, Fault> {
    let value = arguments.value(0)?;
    Ok(Some(match one_number(arguments)? {
        None => Bson::Null,
        Some(Number::Double(number)) => Bson::Double(double(number)),
        Some(Number::Decimal(_)) => return Ok(value.map(|it| rounded_decimal(it, 0, mode))),
        Some(Number::Int(_) | Number::Long(_)) => return Ok(value),
    }))
}

pub(super) fn round(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    to_place(arguments, RoundingMode::Nearest)
}

pub(super) fn trunc(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    to_place(arguments, RoundingMode::TowardZero)
}

fn to_place(arguments: &Arguments<'_>, mode: RoundingMode) -> Result<Value, Fault> {
    let value = arguments.value(0)?;
    if is_null_or_missing(&value) {
        return Ok(Some(Bson::Null));
    }
    let name = arguments.name();
    let Some(number) = value.as_ref().and_then(Number::of) else {
        let message = format!("{name} only supports numeric types, not {}", type_name_of(&value));
        return Err(Fault::location(51081, message));
    };
    let place = if arguments.given(1) {
        match place(name, &arguments.value(1)?)? {
            Some(place) => place,
            None => return Ok(Some(Bson::Null)),
        }
    } else {
        0
    };
    Ok(Some(match number {
        Number::Decimal(_) => return Ok(value.map(|it| rounded_decimal(it, place, mode))),
        Number::Double(number) => Bson::Double(rounded_double(number, place, mode)),
        Number::Int(_) | Number::Long(_) if place >= 0 => return Ok(value),
        Number::Int(whole) => int_or_long(rounded_whole(name, whole.into(), place, mode)?),
        Number::Long(whole) => Bson::Int64(rounded_whole(name, whole, place, mode)?),
    }))
}

/// Returns the number of digits after the decimal point. `None` for null.
fn place(name: &str, value: &Value) -> Result<Option<i32>, Fault> {
    if is_null_or_missing(value) {
        return Ok(None);
    }
    let Some(number) = value.as_ref().filter(|it| Number::of(it).is_some()) else {
        let message = format!("can't convert from BSON type {} to long", type_name_of(value));
        return Err(Fault::location(16004, message));
    };
    truncated(number)?;
    let Some(place) = int32(number) else {
        let message = format!("precision argument to  {name} must be a integral value");
        return Err(Fault::location(51082, message));
    };
    if !(-20..=100).contains(&place) {
        return Err(Fault::location(
            51083,
            format!("cannot apply {name} with precision value {place} value must be in [-20, 100]"),
        ));
    }
    Ok(Some(place))
}

fn rounded_whole(name: &str, number: i64, place: i32, mode: RoundingMode) -> Result<i64, Fault> {
    let digits = DecimalDigits::parse(&number.to_string()).rounded(place, mode);
    if digits.is_zero() {
        return Ok(0);
    }
    digits.text().parse().map_err(|_| {
        let message = format!("invalid conversion from Decimal128 result in {name}");
        Fault::location(51080, format!("{message} resulting from {number}"))
    })
}

fn rounded_double(number: f64, place: i32, mode: RoundingMode) -> f64 {
    if !number.is_finite() {
        return number;
    }
    let digits = DecimalDigits::parse(&format!("{number:.33e}")).rounded(place, mode);
    digits.text().parse().unwrap_or(number)
}

/// Rounds a decimal to an integer.
pub(super) fn nearest(value: Bson) -> Bson {
    rounded_decimal(value, 0, RoundingMode::Nearest)
}

fn rounded_decimal(value: Bson, place: i32, mode: RoundingMode) -> Bson {
    let Bson::Decimal128(number) = value else { return value };
    let text = number.to_string();
    if !text.ends_with(|last: char| last.is_ascii_digit()) {
        return Bson::Decimal128(number);
    }
    let rounded = DecimalDigits::parse(&text).rounded(place, mode).padded(place).text();
    Bson::Decimal128(rounded.parse::<Decimal128>().unwrap_or(number))
}

/// A number as decimal digits and a power of ten.
#[derive(Debug)]
struct DecimalDigits {
    negative: bool,
    digits: Vec<u8>,
    exponent: i32,
}

impl DecimalDigits {
    /// Parses the text of a number.
    fn parse(text: &str) -> Self {
        let (negative, text) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (before, after) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = before.bytes().chain(after.bytes()).map(|it| it - b'0').collect();
        let exponent: i32 = exponent.parse().unwrap_or(0);
        let decimals = i32::try_from(after.len()).unwrap_or(0);
        Self { negative, digits, exponent: exponent - decimals }
    }

    /// Rounds to this number of digits after the decimal point.
    fn rounded(mut self, place: i32, mode: RoundingMode) -> Self {
        let excess = -place - self.exponent;
        let Ok(excess) = usize::try_from(excess) else { return self };
        if excess == 0 {
            return self;
        }
        if excess > self.digits.len() {
            let zeros = excess - self.digits.len();
            self.digits.splice(0..0, std::iter::repeat_n(0, zeros));
        }
        let cut = self.digits.split_off(self.digits.len() - excess);
        self.exponent = -place;
        if self.rounds_up(&cut, mode) {
            self.increment();
        }
        self
    }

    /// Appends zeros up to this number of digits after the decimal point, if a decimal can hold
    /// them.
    fn padded(mut self, place: i32) -> Self {
        const MOST: usize = 34;
        let zeros = usize::try_from(self.exponent + place).unwrap_or(0);
        if self.digits.len() + zeros <= MOST {
            self.digits.extend(std::iter::repeat_n(0, zeros));
            self.exponent -= i32::try_from(zeros).unwrap_or(0);
        }
        self
    }

    fn rounds_up(&self, cut: &[u8], mode: RoundingMode) -> bool {
        let some = cut.iter().any(|it| *it != 0);
        match mode {
            RoundingMode::TowardZero => false,
            RoundingMode::Up => some && !self.negative,
            RoundingMode::Down => some && self.negative,
            RoundingMode::Nearest => match cut.split_first() {
                Some((5, rest)) if rest.iter().all(|it| *it == 0) => {
                    self.digits.last().is_some_and(|it| it % 2 == 1)
                }
                Some((first, _)) => *first >= 5,
                None => false,
            },
        }
    }

    fn is_zero(&self) -> bool {
        self.digits.iter().all(|it| *it == 0)
    }

    fn increment(&mut self) {
        for digit in self.digits.iter_mut().rev() {
            if *digit < 9 {
                *digit += 1;
                return;
            }
            *digit = 0;
        }
        self.digits.insert(0, 1);
    }

    fn text(&self) -> String {
        let mut text = String::from(if self.negative { "-" } else { "" });
        let first = self.digits.iter().position(|it| *it != 0);
        let digits = first.map_or(&[][..], |first| &self.digits[first..]);
        text.extend(digits.iter().map(|it| char::from(b'0' + it)));
        if digits.is_empty() {
            text.push('0');
        }
        match self.exponent {
            0 => {}
            zeros @ 1..=40 if !digits.is_empty() => {
                text.extend(std::iter::repeat_n('0', usize::try_from(zeros).unwrap_or(0)));
            }
            exponent => text.push_str(&format!("e{exponent}")),
        }
        text
    }
}
