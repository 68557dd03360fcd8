//! Decimal fractions of 34 digits: IEEE 754's decimal128, compared and computed with exactly.

mod wide;

use std::cmp::Ordering;

use bson::Decimal128;

use wide::{Wide, digits};

/// Digits that a coefficient can have.
const DIGITS: u32 = 34;
/// The first number that has too many digits.
const LIMIT: u128 = 10u128.pow(DIGITS);
const LOWEST: i32 = -6176;
const HIGHEST: i32 = 6111;

/// A decimal fraction, taken apart: a coefficient times a power of ten.
#[derive(Clone, Copy, Debug)]
pub struct Decimal {
    negative: bool,
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    NaN,
    Infinite,
    Finite { coefficient: u128, exponent: i32 },
}

use Kind::{Finite, Infinite, NaN};

impl From<Decimal128> for Decimal {
    fn from(number: Decimal128) -> Self {
        let bits = u128::from_le_bytes(number.bytes());
        let negative = bits >> 127 == 1;
        let biased = |shift: u32| i32::try_from((bits >> shift) & 0x3fff).unwrap_or(0) + LOWEST;
        let kind = match (bits >> 122) & 0x1f {
            0x1f => NaN,
            0x1e => Infinite,
            // The other layout can only hold coefficients with too many digits; they count as zero.
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

    /// What a server makes of a double when it computes with decimals: 15 digits.
    pub fn of_double(number: f64) -> Self {
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

    /// The decimal nearest to a double: all its digits, up to 34. What long sums are computed with.
    pub fn nearest(number: f64) -> Self {
        if !number.is_finite() || number == 0.0 {
            return Self::of_double(number);
        }
        // No double has more than 767 digits.
        let (digits, power) = scientific(&format!("{:.770e}", number.abs()));
        let (first, rest) = digits.split_at(DIGITS as usize + 1);
        let rest = rest.bytes().any(|it| it != b'0');
        let first = Wide::scaled(first.parse().unwrap_or(0), 1).added(true, rest.into()).0;
        let exponent = power - i32::try_from(DIGITS).unwrap_or(0) - 1;
        first.rounded_toward(number < 0.0, exponent, 0)
    }

    /// The nearest double.
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

    /// What is left when the fraction is cut off, if a long can hold it.
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

    /// The nearest integer, ties to even.
    #[must_use]
    pub fn rounded(self) -> Self {
        let Finite { coefficient, exponent } = self.kind else { return self };
        let Ok(count @ 1..) = u32::try_from(-exponent) else { return self };
        let wide = Wide { high: 0, low: coefficient };
        let (mut kept, rest) = wide.cut(count.min(2 * DIGITS));
        if rest.is_gt() || rest.is_eq() && kept % 2 == 1 {
            kept += 1;
        }
        Self::finite(self.negative, kept, 0)
    }

    /// Whether it is not a number.
    pub fn is_nan(&self) -> bool {
        matches!(self.kind, NaN)
    }

    /// Whether it is infinite.
    pub fn is_infinite(&self) -> bool {
        matches!(self.kind, Infinite)
    }

    /// Whether it is a zero, of any sign and exponent.
    pub fn is_zero(&self) -> bool {
        matches!(self.kind, Finite { coefficient: 0, .. })
    }

    /// Compares two. NaN is least and equals itself; `1.0` equals `1.00`.
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

    /// Compares it with what a double stands for exactly.
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
            // No double has more than 767 digits.
            let (theirs, their_power) = scientific(&format!("{:.770e}", other.abs()));
            let ours = coefficient.to_string();
            let our_power = exponent + i32::try_from(digits(coefficient)).unwrap_or(0) - 1;
            let size = our_power
                .cmp(&their_power)
                .then_with(|| ours.trim_end_matches('0').cmp(theirs.trim_end_matches('0')));
            if self.negative { size.reverse() } else { size }
        })
    }

    /// NaN, negative infinity, negative, zero, positive, infinity: in this order.
    fn class(&self) -> i8 {
        let size = match self.kind {
            NaN => return -3,
            Infinite => 2,
            Finite { coefficient: 0, .. } => 0,
            Finite { .. } => 1,
        };
        if self.negative { -size } else { size }
    }

    /// The sum, rounded to 34 digits, ties to even.
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

    /// The difference, rounded to 34 digits, ties to even.
    pub fn minus(self, other: Self) -> Self {
        self.plus(other.negated())
    }

    /// The same with the other sign.
    pub fn negated(self) -> Self {
        Self { negative: !self.negative, ..self }
    }

    /// The product, rounded to 34 digits, ties to even.
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
            ) => Wide::product(left, right).rounded(negative, left_exponent + right_exponent),
        }
    }

    /// The quotient, rounded to 34 digits, ties to even.
    pub fn over(self, other: Self) -> Self {
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

    /// What is left of a division, with the sign of the dividend; it is exact.
    pub fn rest(self, other: Self) -> Self {
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
                // One that is so large leaves all.
                let rest = divisor.map_or(left, |divisor| left % divisor);
                Self::finite(self.negative, rest, left_exponent)
            }
        }
    }
}

/// Adds, where the first has the higher exponent or the same.
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
        (Wide::scaled(coefficient, distance), lower_exponent, addend)
    } else {
        // The lower one is too small to change more than the way of rounding: any small one will do.
        let shift = room + DIGITS + 1;
        let at = exponent - i32::try_from(shift).unwrap_or(0);
        (Wide::scaled(coefficient, shift), at, addend.min(1))
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
    // What is left only matters for ties.
    let wide = Wide::scaled(quotient, 1);
    wide.added(true, u128::from(rest != 0)).0.rounded_toward(negative, at - 1, exponent)
}

/// The power of the first digit, and the coefficient with all 34 digits.
fn normal(coefficient: u128, exponent: i32) -> (i32, u128) {
    let room = DIGITS - digits(coefficient);
    (exponent - i32::try_from(room).unwrap_or(0), coefficient * 10u128.pow(room))
}

/// The digits and the power of the first one of `1.234e5`.
fn scientific(text: &str) -> (String, i32) {
    let (digits, power) = text.split_once('e').unwrap_or((text, "0"));
    (digits.replace('.', ""), power.parse().unwrap_or(0))
}
