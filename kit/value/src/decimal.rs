//! Decimals of 34 digits: comparison and exact arithmetic on IEEE 754 decimal128.

mod wide;

use std::cmp::Ordering;

use bson::Decimal128;

use wide::{WideDecimal, digits};

/// Digits of a coefficient.
const DIGITS: u32 = 34;
/// First coefficient that has too many digits.
const LIMIT: u128 = 10u128.pow(DIGITS);
const LOWEST: i32 = -6176;
const HIGHEST: i32 = 6111;

/// A decimal128, decomposed into sign, coefficient and power of ten.
#[derive(Clone, Copy, Debug)]
pub struct Decimal {
    negative: bool,
    kind: DecimalKind,
}

#[derive(Clone, Copy, Debug)]
enum DecimalKind {
    NaN,
    Infinite,
    Finite { coefficient: u128, exponent: i32 },
}

use DecimalKind::{Finite, Infinite, NaN};

impl From<Decimal128> for Decimal {
    fn from(number: Decimal128) -> Self {
        let bits = u128::from_le_bytes(number.bytes());
        let negative = bits >> 127 == 1;
        let biased = |shift: u32| i32::try_from((bits >> shift) & 0x3fff).unwrap_or(0) + LOWEST;
        let kind = match (bits >> 122) & 0x1f {
            0x1f => NaN,
            0x1e => Infinite,
            // The other encoding holds only coefficients above the maximum. IEEE 754 reads them as
            // zero.
            head if head >= 0x18 => Finite { coefficient: 0, exponent: biased(111) },
            _ => {
                let coefficient = bits & ((1 << 113) - 1);
                let coefficient = if coefficient < LIMIT { coefficient } else { 0 };
                Finite { coefficient, exponent: biased(113) }
            }
        };
        Self { negative, kind }
    }
}

impl From<Decimal> for Decimal128 {
    fn from(number: Decimal) -> Self {
        let sign = u128::from(number.negative) << 127;
        let bits = match number.kind {
            NaN => 0x1f << 122,
            Infinite => sign | 0x1e << 122,
            Finite { coefficient, exponent } => {
                sign | u128::from((exponent - LOWEST).unsigned_abs()) << 113 | coefficient
            }
        };
        Decimal128::from_bytes(bits.to_le_bytes())
    }
}

impl From<i64> for Decimal {
    fn from(number: i64) -> Self {
        Self::finite(number < 0, number.unsigned_abs().into(), 0)
    }
}

impl Decimal {
    fn finite(negative: bool, coefficient: u128, exponent: i32) -> Self {
        Self { negative, kind: Finite { coefficient, exponent } }
    }

    fn nan() -> Self {
        Self { negative: false, kind: NaN }
    }

    fn infinite(negative: bool) -> Self {
        Self { negative, kind: Infinite }
    }

    /// Converts a double to 15 significant digits, as servers do in decimal arithmetic.
    pub fn from_double(number: f64) -> Self {
        let negative = number.is_sign_negative();
        if number.is_nan() {
            return Self::nan();
        }
        if number.is_infinite() {
            return Self::infinite(negative);
        }
        if number == 0.0 {
            return Self::finite(negative, 0, 0);
        }
        let (digits, exponent) = scientific(&format!("{:.14e}", number.abs()));
        Self::finite(negative, digits.parse().unwrap_or(0), exponent - 14)
    }

    /// Converts a double to the nearest decimal of up to 34 digits. `$sum` uses it.
    pub fn from_double_exact(number: f64) -> Self {
        if !number.is_finite() || number == 0.0 {
            return Self::from_double(number);
        }
        // No double has more than 767 significant digits.
        let (digits, power) = scientific(&format!("{:.770e}", number.abs()));
        let (first, rest) = digits.split_at(DIGITS as usize + 1);
        let rest = rest.bytes().any(|it| it != b'0');
        let first = WideDecimal::scaled(first.parse().unwrap_or(0), 1).added(true, rest.into()).0;
        let exponent = power - i32::try_from(DIGITS).unwrap_or(0) - 1;
        first.rounded_toward(number < 0.0, exponent, 0)
    }

    /// Returns the nearest double.
    pub fn to_f64(self) -> f64 {
        let size = match self.kind {
            NaN => f64::NAN,
            Infinite => f64::INFINITY,
            Finite { coefficient, exponent } => {
                format!("{coefficient}e{exponent}").parse().unwrap_or(f64::NAN)
            }
        };
        if self.negative { -size } else { size }
    }

    /// Truncates to an integer. `None` outside of the range of a long.
    pub fn to_integer(self) -> Option<i64> {
        let Finite { coefficient, exponent } = self.kind else { return None };
        let size = match u32::try_from(exponent) {
            _ if coefficient == 0 => 0,
            Ok(up) => coefficient.checked_mul(10u128.checked_pow(up)?)?,
            Err(_) => 10u128.checked_pow(exponent.unsigned_abs()).map_or(0, |it| coefficient / it),
        };
        let size = i128::try_from(size).ok()?;
        i64::try_from(if self.negative { -size } else { size }).ok()
    }

    /// Rounds to the nearest integer, ties to even.
    #[must_use]
    pub fn rounded(self) -> Self {
        let Finite { coefficient, exponent } = self.kind else { return self };
        let Ok(count @ 1..) = u32::try_from(-exponent) else { return self };
        let wide = WideDecimal { high: 0, low: coefficient };
        let (mut kept, rest) = wide.cut(count.min(2 * DIGITS));
        if rest.is_gt() || rest.is_eq() && kept % 2 == 1 {
            kept += 1;
        }
        Self::finite(self.negative, kept, 0)
    }

    /// Returns `true` for NaN.
    pub fn is_nan(&self) -> bool {
        matches!(self.kind, NaN)
    }

    /// Returns `true` for positive and negative infinity.
    pub fn is_infinite(&self) -> bool {
        matches!(self.kind, Infinite)
    }

    /// Returns `true` for zeros of any sign and exponent.
    pub fn is_zero(&self) -> bool {
        matches!(self.kind, Finite { coefficient: 0, .. })
    }

    /// Compares two decimals. NaN is less than all others and equal to itself; `1.0` equals `1.00`.
    pub fn compare(&self, other: &Self) -> Ordering {
        self.class().cmp(&other.class()).then_with(|| match (self.kind, other.kind) {
            (
                Finite { coefficient: left, exponent: left_exponent },
                Finite { coefficient: right, exponent: right_exponent },
            ) if left != 0 && right != 0 => {
                let left = normal(left, left_exponent);
                let right = normal(right, right_exponent);
                if self.negative { right.cmp(&left) } else { left.cmp(&right) }
            }
            _ => Ordering::Equal,
        })
    }

    /// Compares with the exact value of a double.
    pub fn compare_to_double(&self, other: f64) -> Ordering {
        let class = match other {
            _ if other.is_nan() => -3,
            _ if other == f64::NEG_INFINITY => -2,
            _ if other < 0.0 => -1,
            _ if other == 0.0 => 0,
            _ if other == f64::INFINITY => 2,
            _ => 1,
        };
        self.class().cmp(&class).then_with(|| {
            let Finite { coefficient, exponent } = self.kind else { return Ordering::Equal };
            if coefficient == 0 {
                return Ordering::Equal;
            }
            // No double has more than 767 significant digits.
            let (theirs, their_power) = scientific(&format!("{:.770e}", other.abs()));
            let ours = coefficient.to_string();
            let our_power = exponent + i32::try_from(digits(coefficient)).unwrap_or(0) - 1;
            let size = our_power
                .cmp(&their_power)
                .then_with(|| ours.trim_end_matches('0').cmp(theirs.trim_end_matches('0')));
            if self.negative { size.reverse() } else { size }
        })
    }

    /// Order of the classes: NaN, negative infinity, negative, zero, positive, infinity.
    fn class(&self) -> i8 {
        let size = match self.kind {
            NaN => return -3,
            Infinite => 2,
            Finite { coefficient: 0, .. } => 0,
            Finite { .. } => 1,
        };
        if self.negative { -size } else { size }
    }

    /// Adds; rounds to 34 digits, ties to even.
    pub fn plus(self, other: Self) -> Self {
        match (self.kind, other.kind) {
            (NaN, _) | (_, NaN) => Self::nan(),
            (Infinite, Infinite) if self.negative != other.negative => Self::nan(),
            (Infinite, _) => self,
            (_, Infinite) => other,
            (Finite { exponent, .. }, Finite { exponent: lower, .. }) if exponent < lower => {
                other.plus(self)
            }
            (Finite { coefficient, exponent }, Finite { coefficient: addend, exponent: lower }) => {
                let upper = (self.negative, coefficient, exponent);
                add_finite(upper, (other.negative, addend, lower))
            }
        }
    }

    /// Subtracts; rounds to 34 digits, ties to even.
    pub fn minus(self, other: Self) -> Self {
        self.plus(other.negated())
    }

    /// Returns the number with the opposite sign.
    pub fn negated(self) -> Self {
        Self { negative: !self.negative, ..self }
    }

    /// Multiplies; rounds to 34 digits, ties to even.
    pub fn times(self, other: Self) -> Self {
        let negative = self.negative != other.negative;
        match (self.kind, other.kind) {
            (NaN, _) | (_, NaN) => Self::nan(),
            (Infinite, Finite { coefficient: 0, .. })
            | (Finite { coefficient: 0, .. }, Infinite) => Self::nan(),
            (Infinite, _) | (_, Infinite) => Self::infinite(negative),
            (
                Finite { coefficient: left, exponent: left_exponent },
                Finite { coefficient: right, exponent: right_exponent },
            ) => {
                WideDecimal::product(left, right).rounded(negative, left_exponent + right_exponent)
            }
        }
    }

    /// Divides; rounds to 34 digits, ties to even.
    pub fn divided_by(self, other: Self) -> Self {
        let negative = self.negative != other.negative;
        match (self.kind, other.kind) {
            (NaN, _) | (_, NaN) | (Infinite, Infinite) => Self::nan(),
            (Infinite, Finite { .. }) => Self::infinite(negative),
            (Finite { .. }, Infinite) => Self::finite(negative, 0, LOWEST),
            (Finite { coefficient: 0, .. }, Finite { coefficient: 0, .. }) => Self::nan(),
            (Finite { .. }, Finite { coefficient: 0, .. }) => Self::infinite(negative),
            (
                Finite { coefficient: left, exponent: left_exponent },
                Finite { coefficient: right, exponent: right_exponent },
            ) => divide_finite(negative, left, right, left_exponent - right_exponent),
        }
    }

    /// Returns the remainder of a division, which is exact and has the sign of the dividend.
    pub fn remainder(self, other: Self) -> Self {
        match (self.kind, other.kind) {
            (NaN, _) | (_, NaN) | (Infinite, _) | (_, Finite { coefficient: 0, .. }) => Self::nan(),
            (Finite { .. }, Infinite) => self,
            (
                Finite { coefficient: left, exponent: left_exponent },
                Finite { coefficient: right, exponent: right_exponent },
            ) if left_exponent >= right_exponent => {
                let digits = left_exponent - right_exponent;
                let rest = (0..digits).fold(left % right, |rest, _| rest * 10 % right);
                Self::finite(self.negative, rest, right_exponent)
            }
            (
                Finite { coefficient: left, exponent: left_exponent },
                Finite { coefficient: right, exponent: right_exponent },
            ) => {
                let shift = (right_exponent - left_exponent).unsigned_abs();
                let divisor = 10_u128.checked_pow(shift).and_then(|it| right.checked_mul(it));
                // A divisor beyond the range leaves the dividend as the remainder.
                let rest = divisor.map_or(left, |divisor| left % divisor);
                Self::finite(self.negative, rest, left_exponent)
            }
        }
    }
}

/// Adds two finite decimals. The first has the higher exponent, or the same.
fn add_finite(upper: (bool, u128, i32), lower: (bool, u128, i32)) -> Decimal {
    let (upper_sign, coefficient, exponent) = upper;
    let (lower_sign, addend, lower_exponent) = lower;
    if coefficient == 0 && addend == 0 {
        return Decimal::finite(upper_sign && lower_sign, 0, lower_exponent);
    }
    if coefficient == 0 {
        return Decimal::finite(lower_sign, addend, lower_exponent);
    }
    let distance = (exponent - lower_exponent).unsigned_abs();
    let room = DIGITS - digits(coefficient);
    let (aligned, at, addend) = if distance <= room + DIGITS + 1 {
        (WideDecimal::scaled(coefficient, distance), lower_exponent, addend)
    } else {
        // The lower operand only affects rounding, so any small value is equivalent.
        let shift = room + DIGITS + 1;
        let at = exponent - i32::try_from(shift).unwrap_or(0);
        (WideDecimal::scaled(coefficient, shift), at, addend.min(1))
    };
    let (sum, flipped) = aligned.added(upper_sign == lower_sign, addend);
    if sum.is_zero() {
        return Decimal::finite(false, 0, at);
    }
    sum.rounded(upper_sign != flipped, at)
}

fn divide_finite(negative: bool, left: u128, right: u128, exponent: i32) -> Decimal {
    if left == 0 {
        return Decimal::finite(negative, 0, exponent.clamp(LOWEST, HIGHEST));
    }
    let (mut quotient, mut rest, mut at) = (left / right, left % right, exponent);
    while rest != 0 && digits(quotient) <= DIGITS + 1 {
        rest *= 10;
        quotient = quotient * 10 + rest / right;
        rest %= right;
        at -= 1;
    }
    // The remainder only matters for ties.
    let wide = WideDecimal::scaled(quotient, 1);
    wide.added(true, u128::from(rest != 0)).0.rounded_toward(negative, at - 1, exponent)
}

/// Returns the power of the first digit, and the coefficient extended to 34 digits.
fn normal(coefficient: u128, exponent: i32) -> (i32, u128) {
    let room = DIGITS - digits(coefficient);
    (exponent - i32::try_from(room).unwrap_or(0), coefficient * 10u128.pow(room))
}

/// Splits `1.234e5` into its digits and the power of the first digit.
fn scientific(text: &str) -> (String, i32) {
    let (digits, power) = text.split_once('e').unwrap_or((text, "0"));
    (digits.replace('.', ""), power.parse().unwrap_or(0))
}
