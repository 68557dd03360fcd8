//! Arithmetic operators: sums, products, powers, logarithms.

use bson::{Bson, DateTime};

use super::{
    coerce::{
        decimals_unsupported, duration_overflow, format_value, is_null_or_missing, truncated,
        type_name_of,
    },
    node::{Arguments, ExpressionNode, Value},
    operators::AggregationOperator,
    parse::ExpressionParser,
};
use crate::{
    Code, Dialect, Fault,
    value::{self, Decimal, Number},
};

/// Accumulated sum or product. Its type is that of the widest operand, or wider after an overflow.
#[derive(Clone, Copy)]
enum RunningTotal {
    /// Only ints so far. The result is an int if it fits.
    Int(i64),
    Long(i64),
    Double(f64),
    Decimal(Decimal),
}

/// An operation for each numeric type.
struct ArithmeticOperation {
    integers: fn(i64, i64) -> Option<i64>,
    doubles: fn(f64, f64) -> f64,
    decimals: fn(Decimal, Decimal) -> Decimal,
}

const SUM: ArithmeticOperation = ArithmeticOperation {
    integers: i64::checked_add,
    doubles: |a, b| a + b,
    decimals: Decimal::plus,
};
const PRODUCT: ArithmeticOperation = ArithmeticOperation {
    integers: i64::checked_mul,
    doubles: |a, b| a * b,
    decimals: Decimal::times,
};

impl RunningTotal {
    fn with(self, operand: Number, operation: &ArithmeticOperation) -> Self {
        let integers = |left, right, whole: fn(i64) -> Self| {
            (operation.integers)(left, right).map_or_else(
                || Self::Double((operation.doubles)(as_double(left), as_double(right))),
                whole,
            )
        };
        match (self, operand) {
            (Self::Decimal(_), _) | (_, Number::Decimal(_)) => Self::Decimal((operation.decimals)(
                self.number().to_decimal(),
                operand.to_decimal(),
            )),
            (Self::Double(_), _) | (_, Number::Double(_)) => {
                Self::Double((operation.doubles)(self.number().to_f64(), operand.to_f64()))
            }
            (Self::Int(total), Number::Int(operand)) => integers(total, operand.into(), Self::Int),
            (Self::Long(total), Number::Int(operand)) => {
                integers(total, operand.into(), Self::Long)
            }
            (Self::Int(total) | Self::Long(total), Number::Long(operand)) => {
                integers(total, operand, Self::Long)
            }
        }
    }

    fn number(self) -> Number {
        match self {
            Self::Int(total) | Self::Long(total) => Number::Long(total),
            Self::Double(total) => Number::Double(total),
            Self::Decimal(total) => Number::Decimal(total),
        }
    }

    fn value(self) -> Bson {
        match self {
            Self::Int(total) => int_or_long(total),
            Self::Long(total) => Bson::Int64(total),
            Self::Double(total) => Bson::Double(total),
            Self::Decimal(total) => Bson::Decimal128(total.into()),
        }
    }

    fn date(self) -> Result<Bson, Fault> {
        let overflow = || date_overflow("$add");
        let millis = match self {
            Self::Int(total) | Self::Long(total) => total,
            // Rounds halves toward zero.
            Self::Double(total) => {
                let whole = if total < 0.0 { (total + 0.5).floor() } else { (total - 0.5).ceil() };
                Number::Double(whole).truncated().ok_or_else(overflow)?
            }
            Self::Decimal(total) => {
                truncated(&Bson::Decimal128(total.into())).map_err(|_| overflow())?
            }
        };
        Ok(DateTime::from_millis(millis).into())
    }
}

/// Returns an int if the number fits, else a long.
pub(super) fn int_or_long(number: i64) -> Bson {
    i32::try_from(number).map_or(Bson::Int64(number), Bson::Int32)
}

#[allow(clippy::cast_precision_loss)]
fn as_double(number: i64) -> f64 {
    number as f64
}

pub(super) fn add(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    let mut total = RunningTotal::Int(0);
    let (mut dated, mut whole) = (false, true);
    for index in 0..arguments.len() {
        let value = arguments.value(index)?;
        if is_null_or_missing(&value) {
            return Ok(Some(Bson::Null));
        }
        if let Some(Bson::DateTime(date)) = value {
            if dated {
                return Err(Fault::location(16612, "only one date allowed in an $add expression"));
            }
            dated = true;
            total = total.with(Number::Long(date.timestamp_millis()), &SUM);
            continue;
        }
        let Some(number) = value.as_ref().and_then(Number::of) else {
            let message =
                format!("$add only supports numeric or date types, not {}", type_name_of(&value));
            return Err(match arguments.env().dialect {
                Dialect::V6_0 => Fault::location(16554, message),
                Dialect::V8_2 => Fault::type_mismatch(message),
            });
        };
        whole &= matches!(number, Number::Int(_) | Number::Long(_));
        total = total.with(number, &SUM);
    }
    if dated && whole && matches!(total, RunningTotal::Double(_)) {
        return Err(date_overflow("$add"));
    }
    Ok(Some(if dated { total.date()? } else { total.value() }))
}

pub(super) fn multiply(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    let mut total = RunningTotal::Int(1);
    for index in 0..arguments.len() {
        let value = arguments.value(index)?;
        if is_null_or_missing(&value) {
            return Ok(Some(Bson::Null));
        }
        let Some(number) = value.as_ref().and_then(Number::of) else {
            return Err(Fault::type_mismatch(format!(
                "$multiply only supports numeric types, not {}",
                type_name_of(&value)
            )));
        };
        total = total.with(number, &PRODUCT);
    }
    Ok(Some(total.value()))
}

pub(super) fn subtract(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    // If both arguments are invalid, servers report the second.
    let right = arguments.value(1)?;
    let left = arguments.value(0)?;
    if is_null_or_missing(&left) || is_null_or_missing(&right) {
        return Ok(Some(Bson::Null));
    }
    let invalid = || {
        let message =
            format!("can't $subtract {} from {}", type_name_of(&right), type_name_of(&left));
        Fault::type_mismatch(message)
    };
    match (&left, &right) {
        (Some(Bson::DateTime(left)), Some(Bson::DateTime(right))) => {
            let difference = left.timestamp_millis().checked_sub(right.timestamp_millis());
            Ok(Some(Bson::Int64(difference.ok_or_else(|| date_overflow("$subtract"))?)))
        }
        (Some(Bson::DateTime(left)), Some(right)) => {
            let Some(_) = Number::of(right) else { return Err(invalid()) };
            let right = truncated(right)?;
            if right == i64::MIN {
                return Err(duration_overflow());
            }
            let difference = left.timestamp_millis().checked_sub(right);
            Ok(Some(
                DateTime::from_millis(difference.ok_or_else(|| date_overflow("$subtract"))?).into(),
            ))
        }
        (Some(left), Some(right)) => {
            value::double_on_overflow(value::subtract, left, right).map(Some).ok_or_else(invalid)
        }
        _ => Err(invalid()),
    }
}

fn date_overflow(operator: &str) -> Fault {
    Fault::new(Code::OVERFLOW, format!("date overflow in {operator}"))
}

/// Returns two numeric arguments, or `None` if one is null. Fails with `code` otherwise.
fn two_numbers(arguments: &Arguments<'_>, code: i32) -> Result<Option<(Number, Number)>, Fault> {
    let (left, right) = (arguments.value(0)?, arguments.value(1)?);
    let number = |it: &Value| it.as_ref().and_then(Number::of);
    match (number(&left), number(&right)) {
        (Some(left), Some(right)) => Ok(Some((left, right))),
        _ if is_null_or_missing(&left) || is_null_or_missing(&right) => Ok(None),
        _ => Err(Fault::new(
            Code::numbered(code),
            format!(
                "{} only supports numeric types, not {} and {}",
                arguments.name(),
                type_name_of(&left),
                type_name_of(&right)
            ),
        )),
    }
}

pub(super) fn divide(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    let Some((left, right)) = two_numbers(arguments, 14)? else { return Ok(Some(Bson::Null)) };
    if right.to_f64() == 0.0 {
        return Err(Fault::bad_value("can't $divide by zero"));
    }
    Ok(Some(match (left, right) {
        (Number::Decimal(_), _) | (_, Number::Decimal(_)) => {
            Bson::Decimal128(left.to_decimal().divided_by(right.to_decimal()).into())
        }
        _ => Bson::Double(left.to_f64() / right.to_f64()),
    }))
}

pub(super) fn modulo(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    let Some((left, right)) = two_numbers(arguments, 16611)? else { return Ok(Some(Bson::Null)) };
    let decimal = matches!((left, right), (Number::Decimal(_), _) | (_, Number::Decimal(_)));
    if right.to_f64() == 0.0 {
        let code = if decimal { 5_733_415 } else { 16610 };
        return Err(Fault::location(code, "can't $mod by zero"));
    }
    let small = |it: Number| it.to_integer().and_then(|it| i32::try_from(it).ok());
    Ok(Some(match (left, right) {
        (Number::Decimal(_), _) | (_, Number::Decimal(_)) => {
            Bson::Decimal128(left.to_decimal().remainder(right.to_decimal()).into())
        }
        (Number::Double(_), _) => Bson::Double(left.to_f64() % right.to_f64()),
        (_, Number::Double(divisor)) if small(right).is_none() => {
            Bson::Double(left.to_f64() % divisor)
        }
        (Number::Int(left), _) if !matches!(right, Number::Long(_)) => {
            let right = small(right).unwrap_or(1);
            Bson::Int32(left.checked_rem(right).unwrap_or(0))
        }
        _ => {
            let (left, right) = (left.truncated().unwrap_or(0), right.truncated().unwrap_or(1));
            Bson::Int64(left.checked_rem(right).unwrap_or(0))
        }
    }))
}

/// Returns the numeric argument, or `None` if it is null.
pub(super) fn one_number(arguments: &Arguments<'_>) -> Result<Option<Number>, Fault> {
    let value = arguments.value(0)?;
    if is_null_or_missing(&value) {
        return Ok(None);
    }
    value.as_ref().and_then(Number::of).map(Some).ok_or_else(|| {
        Fault::location(
            28765,
            format!(
                "{} only supports numeric types, not {}",
                arguments.name(),
                type_name_of(&value)
            ),
        )
    })
}

/// Applies a function to a double.
pub(super) fn on_double(
    arguments: &Arguments<'_>,
    function: impl Fn(f64) -> Result<f64, Fault>,
) -> Result<Value, Fault> {
    Ok(Some(match one_number(arguments)? {
        None => Bson::Null,
        Some(Number::Decimal(_)) => return Err(decimals_unsupported(arguments.name())),
        Some(number) => Bson::Double(function(number.to_f64())?),
    }))
}

pub(super) fn abs(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    Ok(Some(match one_number(arguments)? {
        None => Bson::Null,
        Some(Number::Int(number)) => int_or_long(i64::from(number).abs()),
        Some(Number::Long(number)) => Bson::Int64(
            number
                .checked_abs()
                .ok_or_else(|| Fault::location(28680, "can't take $abs of long long min"))?,
        ),
        Some(Number::Double(number)) => Bson::Double(number.abs()),
        Some(Number::Decimal(number)) => {
            let zero = Number::Int(0).to_decimal();
            let number = if number.compare(&zero).is_lt() { number.negated() } else { number };
            Bson::Decimal128(number.into())
        }
    }))
}

pub(super) fn sqrt(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    on_double(arguments, |it| {
        if it < 0.0 {
            let message = "$sqrt's argument must be greater than or equal to 0";
            return Err(Fault::location(28714, message));
        }
        Ok(it.sqrt())
    })
}

pub(super) fn exp(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    on_double(arguments, |it| Ok(it.exp()))
}

pub(super) fn ln(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    on_double(arguments, |it| positive(it, 28766, "$ln").map(f64::ln))
}

pub(super) fn log10(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    on_double(arguments, |it| positive(it, 28761, "$log10").map(f64::log10))
}

fn positive(number: f64, code: i32, operator: &str) -> Result<f64, Fault> {
    if number <= 0.0 {
        let format_value = format_value(&Some(number.into()));
        let message =
            format!("{operator}'s argument must be a positive number, but is {format_value}");
        return Err(Fault::location(code, message));
    }
    Ok(number)
}

pub(super) fn log(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    let (argument, base) = (arguments.value(0)?, arguments.value(1)?);
    if is_null_or_missing(&argument) || is_null_or_missing(&base) {
        return Ok(Some(Bson::Null));
    }
    let number = |value: &Value, code, what| {
        value.as_ref().and_then(Number::of).ok_or_else(|| {
            Fault::location(
                code,
                format!("$log's {what} must be numeric, not {}", type_name_of(value)),
            )
        })
    };
    let left = number(&argument, 28756, "argument")?;
    let right = number(&base, 28757, "base")?;
    if matches!((left, right), (Number::Decimal(_), _) | (_, Number::Decimal(_))) {
        return Err(decimals_unsupported("$log"));
    }
    let (left, right) = (positive(left.to_f64(), 28758, "$log")?, right.to_f64());
    if right <= 0.0 || right == 1.0 {
        let message = "$log's base must be a positive number not equal to 1, but is";
        return Err(Fault::location(28759, format!("{message} {}", format_value(&base))));
    }
    Ok(Some(Bson::Double(left.ln() / right.ln())))
}

pub(super) fn pow(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    let (base, exponent) = (arguments.value(0)?, arguments.value(1)?);
    if is_null_or_missing(&base) || is_null_or_missing(&exponent) {
        return Ok(Some(Bson::Null));
    }
    let number = |value: &Value, code, what| {
        value.as_ref().and_then(Number::of).ok_or_else(|| {
            Fault::location(
                code,
                format!("$pow's {what} must be numeric, not {}", type_name_of(value)),
            )
        })
    };
    let base = number(&base, 28762, "base")?;
    let exponent = number(&exponent, 28763, "exponent")?;
    if matches!((base, exponent), (Number::Decimal(_), _) | (_, Number::Decimal(_))) {
        return Err(decimals_unsupported("$pow"));
    }
    if base.to_f64() == 0.0 && exponent.to_f64() < 0.0 {
        let message = "$pow cannot take a base of 0 and a negative exponent";
        return Err(Fault::location(28764, message));
    }
    Ok(Some(match (whole(base), whole(exponent)) {
        (Some(base_whole), Some(exponent_whole)) => {
            let long = matches!((base, exponent), (Number::Long(_), _) | (_, Number::Long(_)));
            match whole_power(base_whole, exponent_whole) {
                Some(power) if long => Bson::Int64(power),
                Some(power) => int_or_long(power),
                None => Bson::Double(base.to_f64().powf(exponent.to_f64())),
            }
        }
        _ => Bson::Double(base.to_f64().powf(exponent.to_f64())),
    }))
}

/// Returns the value of an int or a long.
fn whole(number: Number) -> Option<i64> {
    match number {
        Number::Int(number) => Some(number.into()),
        Number::Long(number) => Some(number),
        Number::Double(_) | Number::Decimal(_) => None,
    }
}

fn whole_power(base: i64, exponent: i64) -> Option<i64> {
    match base {
        0 => Some(i64::from(exponent == 0)),
        1 => Some(1),
        -1 => Some(if exponent % 2 == 0 { 1 } else { -1 }),
        _ if (0..=63).contains(&exponent) => base.checked_pow(u32::try_from(exponent).ok()?),
        _ => None,
    }
}

pub(super) fn parse_rand(
    parser: &mut ExpressionParser<'_>,
    operator: &'static AggregationOperator,
    argument: &Bson,
) -> Result<ExpressionNode, Fault> {
    match argument {
        Bson::Document(document) if document.is_empty() => parser.call(operator, Vec::new()),
        Bson::Array(array) if array.is_empty() => parser.call(operator, Vec::new()),
        Bson::Document(_) | Bson::Array(_) => {
            Err(Fault::location(3_040_501, "$rand does not currently accept arguments"))
        }
        _ => Err(Fault::location(10065, "invalid parameter: expected an object ($rand)")),
    }
}

/// Returns a random double in `0.0..1.0`.
#[allow(clippy::cast_precision_loss)]
pub(super) fn rand(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    let bits = arguments.env().next_random() >> 11;
    Ok(Some(Bson::Double(bits as f64 / (1_u64 << 53) as f64)))
}
