//! Sums and products of numbers, in the type that a server gives them.

use bson::Bson;

use super::{Decimal, Number};

/// Why there is no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unsound {
    /// One of the two is not a number.
    NotANumber,
    /// The result is an integer that no long can hold. An update refuses it; an expression goes on
    /// with a double, see [`or_double`].
    Overflow,
}

/// The sum. Ints become a long when they must, integers become doubles beside a double, and all become
/// decimals beside a decimal.
pub fn add(left: &Bson, right: &Bson) -> Result<Bson, Unsound> {
    compute(left, right, &ADD)
}

/// The difference, typed as a sum is.
pub fn subtract(left: &Bson, right: &Bson) -> Result<Bson, Unsound> {
    compute(left, right, &SUBTRACT)
}

/// The product, typed as a sum is.
pub fn multiply(left: &Bson, right: &Bson) -> Result<Bson, Unsound> {
    compute(left, right, &MULTIPLY)
}

/// The same operation as an expression has it: integers that no long can hold become a double.
/// `None` if one of them is not a number.
pub fn or_double(
    operation: fn(&Bson, &Bson) -> Result<Bson, Unsound>,
    left: &Bson,
    right: &Bson,
) -> Option<Bson> {
    match operation(left, right) {
        Ok(value) => Some(value),
        Err(Unsound::NotANumber) => None,
        Err(Unsound::Overflow) => {
            let double = |it| Number::of(it).map(|it| Bson::Double(it.to_f64()));
            operation(&double(left)?, &double(right)?).ok()
        }
    }
}

/// An operation on each of the types.
struct Operation {
    integers: fn(i64, i64) -> Option<i64>,
    doubles: fn(f64, f64) -> f64,
    decimals: fn(Decimal, Decimal) -> Decimal,
}

const ADD: Operation =
    Operation { integers: i64::checked_add, doubles: |a, b| a + b, decimals: Decimal::plus };
const SUBTRACT: Operation =
    Operation { integers: i64::checked_sub, doubles: |a, b| a - b, decimals: Decimal::minus };
const MULTIPLY: Operation =
    Operation { integers: i64::checked_mul, doubles: |a, b| a * b, decimals: Decimal::times };

fn compute(left: &Bson, right: &Bson, operation: &Operation) -> Result<Bson, Unsound> {
    let left = Number::of(left).ok_or(Unsound::NotANumber)?;
    let right = Number::of(right).ok_or(Unsound::NotANumber)?;
    let integers = |left, right| (operation.integers)(left, right).ok_or(Unsound::Overflow);
    Ok(match (left, right) {
        (Number::Decimal(_), _) | (_, Number::Decimal(_)) => {
            Bson::Decimal128((operation.decimals)(left.to_decimal(), right.to_decimal()).into())
        }
        (Number::Double(_), _) | (_, Number::Double(_)) => {
            Bson::Double((operation.doubles)(left.to_f64(), right.to_f64()))
        }
        (Number::Int(left), Number::Int(right)) => {
            let result = integers(left.into(), right.into())?;
            i32::try_from(result).map_or(Bson::Int64(result), Bson::Int32)
        }
        (Number::Int(left), Number::Long(right)) => Bson::Int64(integers(left.into(), right)?),
        (Number::Long(left), Number::Int(right)) => Bson::Int64(integers(left, right.into())?),
        (Number::Long(left), Number::Long(right)) => Bson::Int64(integers(left, right)?),
    })
}
