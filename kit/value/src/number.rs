//! Numbers of the four BSON types, compared exactly.

use std::cmp::Ordering;

use bson::Bson;

use super::Decimal;

/// A BSON number.
#[derive(Clone, Copy, Debug)]
pub enum Number {
    /// A 32-bit integer.
    Int(i32),
    /// A 64-bit integer.
    Long(i64),
    /// A double.
    Double(f64),
    /// A decimal128.
    Decimal(Decimal),
}

impl Number {
    /// Returns the number in a value. `None` for other types.
    pub fn of(value: &Bson) -> Option<Self> {
        Some(match value {
            Bson::Int32(number) => Self::Int(*number),
            Bson::Int64(number) => Self::Long(*number),
            Bson::Double(number) => Self::Double(*number),
            Bson::Decimal128(number) => Self::Decimal(Decimal::from(*number)),
            _ => return None,
        })
    }

    /// Converts to the nearest double.
    #[allow(clippy::cast_precision_loss)]
    pub fn to_f64(self) -> f64 {
        match self {
            Self::Int(number) => number.into(),
            Self::Long(number) => number as f64,
            Self::Double(number) => number,
            Self::Decimal(number) => number.to_f64(),
        }
    }

    /// Converts to a decimal, as servers do in decimal arithmetic. A double is converted to 15
    /// digits.
    pub fn to_decimal(self) -> Decimal {
        match self {
            Self::Int(number) => i64::from(number).into(),
            Self::Long(number) => number.into(),
            Self::Double(number) => Decimal::from_double(number),
            Self::Decimal(number) => number,
        }
    }

    /// Returns the number as a long if it is an integer in range. `3.0` is an integer.
    pub fn to_integer(self) -> Option<i64> {
        match self {
            Self::Int(number) => Some(number.into()),
            Self::Long(number) => Some(number),
            Self::Double(number) => (number.fract() == 0.0).then(|| truncate(number)).flatten(),
            Self::Decimal(number) => {
                number.to_integer().filter(|it| number.compare(&(*it).into()).is_eq())
            }
        }
    }

    /// Truncates to a long. `None` outside of its range.
    pub fn truncated(self) -> Option<i64> {
        match self {
            Self::Int(number) => Some(number.into()),
            Self::Long(number) => Some(number),
            Self::Double(number) => truncate(number),
            Self::Decimal(number) => number.to_integer(),
        }
    }

    /// Returns `true` for the double NaN and the decimal NaN.
    pub fn is_nan(self) -> bool {
        match self {
            Self::Int(_) | Self::Long(_) => false,
            Self::Double(number) => number.is_nan(),
            Self::Decimal(number) => number.is_nan(),
        }
    }
}

/// 2 to the 63rd: the first double above the range of a long.
const TWO_POW_63: f64 = 9_223_372_036_854_775_808.0;

#[allow(clippy::cast_possible_truncation)]
fn truncate(number: f64) -> Option<i64> {
    (-TWO_POW_63..TWO_POW_63).contains(&number).then_some(number as i64)
}

/// Compares two numbers exactly across types. NaN is less than all others and equal to itself.
/// Returns `None` if a value is not a number.
pub fn compare_numbers(left: &Bson, right: &Bson) -> Option<Ordering> {
    Some(match (Number::of(left)?, Number::of(right)?) {
        (Number::Int(left), Number::Int(right)) => left.cmp(&right),
        (Number::Int(left), Number::Long(right)) => i64::from(left).cmp(&right),
        (Number::Long(left), Number::Int(right)) => left.cmp(&i64::from(right)),
        (Number::Long(left), Number::Long(right)) => left.cmp(&right),
        (Number::Double(left), Number::Double(right)) => compare_doubles(left, right),
        (Number::Int(left), Number::Double(right)) => compare_doubles(left.into(), right),
        (Number::Double(left), Number::Int(right)) => compare_doubles(left, right.into()),
        (Number::Long(left), Number::Double(right)) => compare_long_to_double(left, right),
        (Number::Double(left), Number::Long(right)) => {
            compare_long_to_double(right, left).reverse()
        }
        (Number::Decimal(left), Number::Double(right)) => left.compare_to_double(right),
        (Number::Double(left), Number::Decimal(right)) => right.compare_to_double(left).reverse(),
        (left, right) => left.to_decimal().compare(&right.to_decimal()),
    })
}

fn compare_doubles(left: f64, right: f64) -> Ordering {
    // `partial_cmp` is `None` only for NaN.
    left.partial_cmp(&right).unwrap_or_else(|| right.is_nan().cmp(&left.is_nan()))
}

fn compare_long_to_double(left: i64, right: f64) -> Ordering {
    match truncate(right) {
        Some(whole) => left.cmp(&whole).then_with(|| compare_doubles(0.0, right.fract())),
        None if right > 0.0 => Ordering::Less,
        None => Ordering::Greater,
    }
}
