//! Arithmetic on BSON numbers with the result types of the server.

use bson::Bson;

use super::{Decimal, Number};

/// Error of an arithmetic operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ArithmeticError {
    /// An operand is not a number.
    NotANumber,
    /// The result is an integer outside of the range of a long. Update operators fail; expressions
    /// use a double, see [`double_on_overflow`].
    Overflow,
}

/// Adds two numbers. The result has the wider type: int, long, double, decimal. Ints that overflow
/// become a long.
///
/// # Errors
///
/// Fails if an operand is not a number or a long overflows.
pub fn add(left: &Bson, right: &Bson) -> Result<Bson, ArithmeticError> {
    compute(left, right, &ADD)
}

/// Subtracts two numbers; result types as in [`add`].
///
/// # Errors
///
/// Fails if an operand is not a number or a long overflows.
pub fn subtract(left: &Bson, right: &Bson) -> Result<Bson, ArithmeticError> {
    compute(left, right, &SUBTRACT)
}

/// Multiplies two numbers; result types as in [`add`].
///
/// # Errors
///
/// Fails if an operand is not a number or a long overflows.
pub fn multiply(left: &Bson, right: &Bson) -> Result<Bson, ArithmeticError> {
    compute(left, right, &MULTIPLY)
}

/// Applies an operation as expressions do: an integer overflow gives a double. Returns `None` if an
/// operand is not a number.
pub fn double_on_overflow(
    operation: fn(&Bson, &Bson) -> Result<Bson, ArithmeticError>,
    left: &Bson,
    right: &Bson,
) -> Option<Bson> {
    match operation(left, right) {
        Ok(value) => Some(value),
        Err(ArithmeticError::NotANumber) => None,
        Err(ArithmeticError::Overflow) => {
            let double = |it| Number::of(it).map(|it| Bson::Double(it.to_f64()));
            operation(&double(left)?, &double(right)?).ok()
        }
    }
}

/// An operation for each numeric type.
struct ArithmeticOperation {
    integers: fn(i64, i64) -> Option<i64>,
    doubles: fn(f64, f64) -> f64,
    decimals: fn(Decimal, Decimal) -> Decimal,
}

const ADD: ArithmeticOperation = ArithmeticOperation {
    integers: i64::checked_add,
    doubles: |a, b| a + b,
    decimals: Decimal::plus,
};
const SUBTRACT: ArithmeticOperation = ArithmeticOperation {
    integers: i64::checked_sub,
    doubles: |a, b| a - b,
    decimals: Decimal::minus,
};
const MULTIPLY: ArithmeticOperation = ArithmeticOperation {
    integers: i64::checked_mul,
    doubles: |a, b| a * b,
    decimals: Decimal::times,
};

fn compute(
    left: &Bson,
    right: &Bson,
    operation: &ArithmeticOperation,
) -> Result<Bson, ArithmeticError> {
    let left = Number::of(left).ok_or(ArithmeticError::NotANumber)?;
    let right = Number::of(right).ok_or(ArithmeticError::NotANumber)?;
    let integers = |left, right| (operation.integers)(left, right).ok_or(ArithmeticError::Overflow);
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
