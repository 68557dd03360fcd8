//! Comparison operators.

use std::cmp::Ordering;

use bson::Bson;

use super::node::{Arguments, Value};
use crate::{Collation, Fault, value};

/// Compares two values. A missing value is less than null.
pub(crate) fn compare_values(
    left: &Option<Bson>,
    right: &Option<Bson>,
    collation: &Collation,
) -> Ordering {
    let left = left.as_ref().unwrap_or(&Bson::Undefined);
    let right = right.as_ref().unwrap_or(&Bson::Undefined);
    value::compare(left, right, collation)
}

fn order(arguments: &Arguments<'_>) -> Result<Ordering, Fault> {
    let (left, right) = (arguments.value(0)?, arguments.value(1)?);
    Ok(compare_values(&left, &right, &arguments.env().collation))
}

fn compare_with(arguments: &Arguments<'_>, is: fn(Ordering) -> bool) -> Result<Value, Fault> {
    Ok(Some(Bson::Boolean(is(order(arguments)?))))
}

pub(super) fn cmp(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    Ok(Some(Bson::Int32(order(arguments)? as i32)))
}

pub(super) fn eq(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    compare_with(arguments, Ordering::is_eq)
}

pub(super) fn ne(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    compare_with(arguments, Ordering::is_ne)
}

pub(super) fn gt(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    compare_with(arguments, Ordering::is_gt)
}

pub(super) fn gte(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    compare_with(arguments, Ordering::is_ge)
}

pub(super) fn lt(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    compare_with(arguments, Ordering::is_lt)
}

pub(super) fn lte(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    compare_with(arguments, Ordering::is_le)
}
