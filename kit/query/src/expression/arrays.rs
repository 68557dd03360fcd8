//! Array operators: elements, parts, concatenation.

use bson::Bson;

use super::{
    coerce::{format_value, int32, is_null_or_missing, type_name_of},
    node::{Arguments, Value},
    size_limit::{SizeLimit, exceeded_memory_limit},
};
use crate::{
    Fault,
    value::{self, is_nullish, is_number},
};

pub(super) fn null() -> Result<Value, Fault> {
    Ok(Some(Bson::Null))
}

pub(super) fn element_at(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    let (array, index) = (arguments.value(0)?, arguments.value(1)?);
    if is_null_or_missing(&array) || is_null_or_missing(&index) {
        return null();
    }
    let Some(Bson::Array(mut array)) = array else {
        let message = "$arrayElemAt's first argument must be an array, but is";
        return Err(Fault::location(28689, format!("{message} {}", type_name_of(&array))));
    };
    if !index.as_ref().is_some_and(is_number) {
        let message = "$arrayElemAt's second argument must be a numeric value, but is";
        return Err(Fault::location(28690, format!("{message} {}", type_name_of(&index))));
    }
    let Some(index) = index.as_ref().and_then(int32) else {
        let message = "$arrayElemAt's second argument must be representable as a 32-bit integer";
        return Err(Fault::location(28691, format!("{message}: {}", format_value(&index))));
    };
    Ok(position(index, array.len()).map(|it| array.swap_remove(it)))
}

/// Converts an index to a position. Negative indexes count from the end.
fn position(index: i32, length: usize) -> Option<usize> {
    let distance = usize::try_from(index.unsigned_abs()).ok()?;
    let place = if index < 0 { length.checked_sub(distance)? } else { distance };
    (place < length).then_some(place)
}

/// Returns the array argument, or `None` if it is null.
pub(super) fn only_array(
    arguments: &Arguments<'_>,
    code: i32,
    message: &str,
) -> Result<Option<Vec<Bson>>, Fault> {
    match arguments.value(0)? {
        Some(Bson::Array(array)) => Ok(Some(array)),
        value if is_null_or_missing(&value) => Ok(None),
        value => Err(Fault::location(
            code,
            format!("{}{message}{}", arguments.name(), type_name_of(&value)),
        )),
    }
}

pub(super) fn first(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    match only_array(arguments, 28689, "'s argument must be an array, but is ")? {
        Some(array) => Ok(array.into_iter().next()),
        None => null(),
    }
}

pub(super) fn last(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    match only_array(arguments, 28689, "'s argument must be an array, but is ")? {
        Some(mut array) => Ok(array.pop()),
        None => null(),
    }
}

pub(super) fn reverse(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    match only_array(arguments, 34435, "'s argument must be an array, but was of type: ")? {
        Some(mut array) => {
            array.reverse();
            Ok(Some(array.into()))
        }
        None => null(),
    }
}

pub(super) fn size(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    match arguments.value(0)? {
        Some(Bson::Array(array)) => Ok(Some(count(array.len()))),
        value => {
            let message = "The argument to $size must be an array, but was of type:";
            Err(Fault::location(17124, format!("{message} {}", type_name_of(&value))))
        }
    }
}

/// Converts a count to an int.
pub(super) fn count(number: usize) -> Bson {
    Bson::Int32(i32::try_from(number).unwrap_or(i32::MAX))
}

pub(super) fn is_array(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    Ok(Some(Bson::Boolean(matches!(arguments.value(0)?, Some(Bson::Array(_))))))
}

pub(super) fn concat(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    let mut all = Vec::new();
    let mut limit = SizeLimit::new(arguments.name());
    for index in 0..arguments.len() {
        match arguments.value(index)? {
            Some(Bson::Array(array)) => {
                array.iter().try_for_each(|it| limit.take(it))?;
                all.extend(array);
            }
            value if is_null_or_missing(&value) => return null(),
            value => {
                let message = "$concatArrays only supports arrays, not";
                return Err(Fault::location(28664, format!("{message} {}", type_name_of(&value))));
            }
        }
    }
    Ok(Some(all.into()))
}

pub(super) fn contains(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    let (element, array) = (arguments.value(0)?, arguments.value(1)?);
    let Some(Bson::Array(array)) = array else {
        let message = "$in requires an array as a second argument, found:";
        return Err(Fault::location(40081, format!("{message} {}", type_name_of(&array))));
    };
    let element = element.unwrap_or(Bson::Undefined);
    let collation = &arguments.env().collation;
    let found = array.iter().any(|it| value::compare(it, &element, collation).is_eq());
    Ok(Some(Bson::Boolean(found)))
}

pub(super) fn index_of(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    let array = arguments.value(0)?;
    if is_null_or_missing(&array) {
        return null();
    }
    let Some(Bson::Array(array)) = array else {
        let message = "$indexOfArray requires an array as a first argument, found:";
        return Err(Fault::location(40090, format!("{message} {}", type_name_of(&array))));
    };
    let element = arguments.value(1)?.unwrap_or(Bson::Undefined);
    let (start, end) = bounds(arguments, array.len())?;
    let collation = &arguments.env().collation;
    let is = |it: &usize| value::compare(&array[*it], &element, collation).is_eq();
    let found = (start..end.min(array.len())).find(is);
    Ok(Some(found.map_or(Bson::Int32(-1), count)))
}

/// Returns the bounds of a search: third and fourth argument.
pub(super) fn bounds(arguments: &Arguments<'_>, length: usize) -> Result<(usize, usize), Fault> {
    let start = if arguments.given(2) { bound(arguments, 2, "starting")? } else { 0 };
    let end = if arguments.given(3) { bound(arguments, 3, "ending")? } else { length };
    Ok((start, end))
}

fn bound(arguments: &Arguments<'_>, index: usize, which: &str) -> Result<usize, Fault> {
    let (value, name) = (arguments.value(index)?, arguments.name());
    let Some(bound) = value.as_ref().and_then(int32) else {
        return Err(Fault::location(
            40096,
            format!(
                "{name} requires an integral {which} index, found a value of type: {}, with value: {}",
                type_name_of(&value),
                format_value(&value)
            ),
        ));
    };
    usize::try_from(bound).map_err(|_| {
        let message = format!("{name} requires a nonnegative {which} index, found: {bound}");
        Fault::location(40097, message)
    })
}

pub(super) fn range(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    let number = |value: Value, what: &str, not_numeric, not_whole| {
        if !value.as_ref().is_some_and(is_number) {
            let message = format!("$range requires a numeric {what} value, found value of type");
            return Err(Fault::location(
                not_numeric,
                format!("{message}: {}", type_name_of(&value)),
            ));
        }
        value.as_ref().and_then(int32).map(i64::from).ok_or_else(|| {
            let message = "value that can be represented as a 32-bit integer, found value";
            let message = format!("$range requires a {what} {message}: {}", format_value(&value));
            Fault::location(not_whole, message)
        })
    };
    let (start, end) = (arguments.value(0)?, arguments.value(1)?);
    let start = number(start, "starting", 34443, 34444)?;
    let end = number(end, "ending", 34445, 34446)?;
    let step = match arguments.given(2) {
        true => number(arguments.value(2)?, "step", 34447, 34448)?,
        false => 1,
    };
    if step == 0 {
        return Err(Fault::location(34449, "$range requires a non-zero step value"));
    }
    check_range(start, end, step)?;
    let mut numbers = Vec::new();
    let mut at = start;
    while (step > 0 && at < end) || (step < 0 && at > end) {
        numbers.push(Bson::Int32(i32::try_from(at).unwrap_or_default()));
        at += step;
    }
    Ok(Some(numbers.into()))
}

/// Servers limit `$range` to 100 MiB, at 16 bytes per number.
fn check_range(start: i64, end: i64, step: i64) -> Result<(), Fault> {
    const MOST: i64 = 100 * 1024 * 1024;
    let bytes = 40 + 16 * ((end - start) / step).max(0);
    if bytes <= MOST {
        return Ok(());
    }
    Err(exceeded_memory_limit("$range", usize::try_from(bytes).unwrap_or(usize::MAX)))
}

pub(super) fn slice(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    let (array, second) = (arguments.value(0)?, arguments.value(1)?);
    if is_null_or_missing(&array) || is_null_or_missing(&second) {
        return null();
    }
    let Some(Bson::Array(array)) = array else {
        let message = "First argument to $slice must be an array, but is of type:";
        return Err(Fault::location(28724, format!("{message} {}", type_name_of(&array))));
    };
    let whole = |value: &Value, which: &str, not_numeric, not_whole| {
        if !value.as_ref().is_some_and(is_number) {
            let message = format!("{which} argument to $slice must be numeric, but is of type");
            return Err(Fault::location(
                not_numeric,
                format!("{message}: {}", type_name_of(value)),
            ));
        }
        value.as_ref().and_then(int32).ok_or_else(|| {
            let message =
                format!("{which} argument to $slice can't be represented as a 32-bit integer");
            Fault::location(not_whole, format!("{message}: {}", format_value(value)))
        })
    };
    let second = whole(&second, "Second", 28725, 28726)?;
    let distance = usize::try_from(second.unsigned_abs()).unwrap_or(usize::MAX);
    let from_end = array.len().saturating_sub(distance);
    if !arguments.given(2) {
        let part =
            if second < 0 { &array[from_end..] } else { &array[..distance.min(array.len())] };
        return Ok(Some(Bson::Array(part.to_vec())));
    }
    let third = arguments.value(2)?;
    if is_null_or_missing(&third) {
        return null();
    }
    let length = whole(&third, "Third", 28727, 28728)?;
    let Some(length) = usize::try_from(length).ok().filter(|it| *it > 0) else {
        let message = format!("Third argument to $slice must be positive: {length}");
        return Err(Fault::location(28729, message));
    };
    let start = if second < 0 { from_end } else { distance.min(array.len()) };
    let end = start.saturating_add(length).min(array.len());
    Ok(Some(Bson::Array(array[start..end].to_vec())))
}

/// Returns the arguments of `$firstN` and similar operators.
fn n_of(arguments: &Arguments<'_>) -> Result<(usize, Vec<Bson>), Fault> {
    let n = positive_n(&arguments.value(0)?)?;
    match arguments.value(1)? {
        Some(Bson::Array(array)) => Ok((n, array)),
        _ => Err(Fault::location(5_788_200, "Input must be an array")),
    }
}

/// Returns the argument `n` of an operator.
pub(crate) fn positive_n(value: &Value) -> Result<usize, Fault> {
    let found = |code| {
        let message = "Value for 'n' must be of integral type, but found";
        Fault::location(code, format!("{message} {}", format_value(value)))
    };
    let number = value.as_ref().filter(|it| is_number(it)).ok_or_else(|| found(5_787_902))?;
    let n = super::coerce::int64(number).ok_or_else(|| found(5_787_903))?;
    match usize::try_from(n) {
        Ok(n) if n > 0 => Ok(n),
        _ => Err(Fault::location(5_787_908, format!("'n' must be greater than 0, found {n}"))),
    }
}

pub(super) fn first_n(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    let (n, mut array) = n_of(arguments)?;
    array.truncate(n);
    Ok(Some(array.into()))
}

pub(super) fn last_n(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    let (n, array) = n_of(arguments)?;
    Ok(Some(Bson::Array(array[array.len().saturating_sub(n)..].to_vec())))
}

pub(super) fn max_n(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    extreme_n(arguments, true)
}

pub(super) fn min_n(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    extreme_n(arguments, false)
}

fn extreme_n(arguments: &Arguments<'_>, greatest: bool) -> Result<Value, Fault> {
    let (n, mut array) = n_of(arguments)?;
    let collation = &arguments.env().collation;
    array.retain(|it| !is_nullish(it));
    array.sort_by(|left, right| {
        let order = value::compare(left, right, collation);
        if greatest { order.reverse() } else { order }
    });
    array.truncate(n);
    Ok(Some(array.into()))
}
