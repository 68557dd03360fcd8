//! Trigonometric operators.

use bson::Bson;

use super::{
    arithmetic::on_double,
    coerce::{decimals_unsupported, format_g, is_null_or_missing, type_name_of},
    node::{Arguments, Value},
};
use crate::{Fault, value::Number};

/// Applies a function that is defined on an interval.
fn bounded(
    arguments: &Arguments<'_>,
    defined: fn(f64) -> bool,
    function: fn(f64) -> f64,
) -> Result<Value, Fault> {
    on_double(arguments, |it| {
        if it.is_nan() || defined(it) {
            return Ok(function(it));
        }
        let (name, format_value) = (arguments.name(), format_g(it));
        let message = format!("cannot apply {name} to {format_value}, value is out of bounds");
        Err(Fault::location(50989, message))
    })
}

pub(super) fn sin(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    bounded(arguments, f64::is_finite, f64::sin)
}

pub(super) fn cos(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    bounded(arguments, f64::is_finite, f64::cos)
}

pub(super) fn tan(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    bounded(arguments, f64::is_finite, f64::tan)
}

pub(super) fn asin(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    bounded(arguments, |it| (-1.0..=1.0).contains(&it), f64::asin)
}

pub(super) fn acos(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    bounded(arguments, |it| (-1.0..=1.0).contains(&it), f64::acos)
}

pub(super) fn atan(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    bounded(arguments, |_| true, f64::atan)
}

pub(super) fn sinh(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    bounded(arguments, |_| true, f64::sinh)
}

pub(super) fn cosh(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    bounded(arguments, |_| true, f64::cosh)
}

pub(super) fn tanh(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    bounded(arguments, |_| true, f64::tanh)
}

pub(super) fn asinh(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    bounded(arguments, |_| true, f64::asinh)
}

pub(super) fn acosh(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    bounded(arguments, |it| it >= 1.0, f64::acosh)
}

pub(super) fn atanh(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    bounded(arguments, |it| (-1.0..=1.0).contains(&it), f64::atanh)
}

pub(super) fn to_radians(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    on_double(arguments, |it| Ok(it * (std::f64::consts::PI / 180.0)))
}

pub(super) fn to_degrees(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    on_double(arguments, |it| Ok(it * (180.0 / std::f64::consts::PI)))
}

pub(super) fn atan2(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    let (left, right) = (arguments.value(0)?, arguments.value(1)?);
    if is_null_or_missing(&left) || is_null_or_missing(&right) {
        return Ok(Some(Bson::Null));
    }
    let number = |value: &Value, code| {
        value.as_ref().and_then(Number::of).ok_or_else(|| {
            let message =
                format!("$atan2 only supports numeric types, not {}", type_name_of(value));
            Fault::location(code, message)
        })
    };
    match (number(&left, 51044)?, number(&right, 51045)?) {
        (Number::Decimal(_), _) | (_, Number::Decimal(_)) => Err(decimals_unsupported("$atan2")),
        (left, right) => Ok(Some(Bson::Double(left.to_f64().atan2(right.to_f64())))),
    }
}
