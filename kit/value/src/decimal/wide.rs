//! Numbers of up to 69 digits: sums and products before rounding.

use std::cmp::Ordering;

use super::{DIGITS, Decimal, HIGHEST, LIMIT, LOWEST};

/// A number of up to 69 digits: `high` times 10 to the 34th, and `low`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WideDecimal {
    pub(super) high: u128,
    pub(super) low: u128,
}

impl WideDecimal {
    const HALF: u128 = 10u128.pow(DIGITS / 2);

    pub(super) fn product(left: u128, right: u128) -> Self {
        let (left_high, left_low) = (left / Self::HALF, left % Self::HALF);
        let (right_high, right_low) = (right / Self::HALF, right % Self::HALF);
        let middle = left_high * right_low + left_low * right_high;
        let low = left_low * right_low + middle % Self::HALF * Self::HALF;
        let high = left_high * right_high + middle / Self::HALF + low / LIMIT;
        Self { high, low: low % LIMIT }
    }

    /// Multiplies a coefficient by a power of ten. The result must have at most 69 digits.
    pub(super) fn scaled(coefficient: u128, power: u32) -> Self {
        match power.checked_sub(DIGITS) {
            Some(more) => Self { high: coefficient * 10u128.pow(more), low: 0 },
            None => {
                let wide = Self { high: coefficient / LIMIT, low: coefficient % LIMIT };
                let product = Self::product(wide.low, 10u128.pow(power));
                Self { high: wide.high * 10u128.pow(power) + product.high, ..product }
            }
        }
    }

    pub(super) fn is_zero(&self) -> bool {
        self.high == 0 && self.low == 0
    }

    /// Adds or subtracts. The flag is `true` if the difference is negative.
    pub(super) fn added(self, same_sign: bool, addend: u128) -> (Self, bool) {
        if same_sign {
            let low = self.low + addend;
            return (Self { high: self.high + low / LIMIT, low: low % LIMIT }, false);
        }
        match (self.low.checked_sub(addend), self.high) {
            (Some(low), high) => (Self { high, low }, false),
            (None, 0) => (Self { high: 0, low: addend - self.low }, true),
            (None, high) => (Self { high: high - 1, low: self.low + LIMIT - addend }, false),
        }
    }

    fn digits(&self) -> u32 {
        if self.high == 0 { digits(self.low) } else { digits(self.high) + DIGITS }
    }

    /// Removes the last `count` digits. Returns the rest, and how the removed part compares to a
    /// half.
    pub(super) fn cut(self, count: u32) -> (u128, Ordering) {
        if count == 0 {
            return (self.low, Ordering::Less);
        }
        if count > DIGITS {
            let unit = 10u128.checked_pow(count - DIGITS).unwrap_or(u128::MAX);
            let rest = self.high % unit;
            let half = (rest.cmp(&(unit / 2))).then((self.low > 0).cmp(&false));
            return (self.high / unit, half);
        }
        let unit = 10u128.pow(count);
        let rest = self.low % unit;
        let kept = self.low / unit + self.high * (LIMIT / unit);
        (kept, rest.cmp(&(unit / 2)))
    }

    /// Returns the nearest decimal to `self` times ten to the power of `exponent`; ties to even.
    pub(super) fn rounded(self, negative: bool, exponent: i32) -> Decimal {
        let surplus = self.digits().saturating_sub(DIGITS);
        let below = u32::try_from(LOWEST - exponent).unwrap_or(0);
        let mut count = surplus.max(below);
        let (mut kept, rest) = self.cut(count.min(2 * DIGITS + 2));
        if rest.is_gt() || rest.is_eq() && kept % 2 == 1 {
            kept += 1;
        }
        if kept == LIMIT {
            kept /= 10;
            count += 1;
        }
        fitted(negative, kept, exponent + i32::try_from(count).unwrap_or(i32::MAX / 2))
    }

    /// Rounds like [`rounded`](Self::rounded). An exact result gets an exponent as close to `ideal`
    /// as its trailing zeros permit.
    pub(super) fn rounded_toward(self, negative: bool, exponent: i32, ideal: i32) -> Decimal {
        let (mut wide, mut at) = (self, exponent);
        while at < ideal && wide.low % 10 == 0 {
            let low = wide.low / 10 + wide.high % 10 * (LIMIT / 10);
            wide = Self { high: wide.high / 10, low };
            at += 1;
        }
        wide.rounded(negative, at)
    }
}

/// Lowers an exponent above the range by appending zeros to the coefficient. Returns infinity if
/// that is impossible.
fn fitted(negative: bool, mut coefficient: u128, mut exponent: i32) -> Decimal {
    if coefficient == 0 {
        return Decimal::finite(negative, 0, exponent.clamp(LOWEST, HIGHEST));
    }
    while exponent > HIGHEST && coefficient < LIMIT / 10 {
        coefficient *= 10;
        exponent -= 1;
    }
    if exponent > HIGHEST {
        return Decimal::infinite(negative);
    }
    Decimal::finite(negative, coefficient, exponent)
}

/// Returns the number of decimal digits. Zero has none.
pub(super) fn digits(number: u128) -> u32 {
    number.checked_ilog10().map_or(0, |it| it + 1)
}
