//! Set operators: arrays without duplicates and order.

use bson::Bson;

use super::{
    coerce::{is_null_or_missing, type_name_of},
    node::{Arguments, Value},
};
use crate::{
    Collation, Fault,
    value::{self, is_truthy},
};

/// Sorted elements without duplicates.
struct ValueSet<'a> {
    elements: Vec<Bson>,
    collation: &'a Collation,
}

impl<'a> ValueSet<'a> {
    fn of(mut elements: Vec<Bson>, collation: &'a Collation) -> Self {
        elements.sort_by(|left, right| value::compare(left, right, collation));
        elements.dedup_by(|left, right| value::compare(left, right, collation).is_eq());
        Self { elements, collation }
    }

    fn contains(&self, element: &Bson) -> bool {
        self.elements.binary_search_by(|it| value::compare(it, element, self.collation)).is_ok()
    }

    fn is_within(&self, other: &Self) -> bool {
        self.elements.iter().all(|it| other.contains(it))
    }
}

/// Returns all array arguments. `None` if one is null.
fn operands(arguments: &Arguments<'_>, code: i32) -> Result<Option<Vec<Vec<Bson>>>, Fault> {
    let mut arrays = Vec::with_capacity(arguments.len());
    for index in 0..arguments.len() {
        match arguments.value(index)? {
            Some(Bson::Array(array)) => arrays.push(array),
            value if is_null_or_missing(&value) => return Ok(None),
            value => {
                return Err(Fault::location(
                    code,
                    format!(
                        "All operands of {} must be arrays. One argument is of type: {}",
                        arguments.name(),
                        type_name_of(&value)
                    ),
                ));
            }
        }
    }
    Ok(Some(arrays))
}

pub(super) fn union(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    Ok(Some(match operands(arguments, 17043)? {
        Some(arrays) => ValueSet::of(arrays.concat(), &arguments.env().collation).elements.into(),
        None => Bson::Null,
    }))
}

pub(super) fn intersection(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    let collation = &arguments.env().collation;
    let Some(arrays) = operands(arguments, 17047)? else { return Ok(Some(Bson::Null)) };
    let mut sets = arrays.into_iter().map(|it| ValueSet::of(it, collation));
    let Some(mut common) = sets.next() else { return Ok(Some(Bson::Array(Vec::new()))) };
    for set in sets {
        common.elements.retain(|it| set.contains(it));
    }
    Ok(Some(common.elements.into()))
}

/// Returns the elements of the first array that are not in the second, in the order of the first.
pub(super) fn difference(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    let collation = &arguments.env().collation;
    let (left, right) = (arguments.value(0)?, arguments.value(1)?);
    if is_null_or_missing(&left) || is_null_or_missing(&right) {
        return Ok(Some(Bson::Null));
    }
    let left = array(arguments, left, 17048, "First")?;
    let right = array(arguments, right, 17049, "Second")?;
    let excluded = ValueSet::of(right, collation);
    let mut kept: Vec<Bson> = Vec::new();
    let mut seen: Vec<Bson> = Vec::new();
    for element in left {
        if excluded.contains(&element) {
            continue;
        }
        let place = seen.binary_search_by(|it| value::compare(it, &element, collation));
        if let Err(place) = place {
            seen.insert(place, element.clone());
            kept.push(element);
        }
    }
    Ok(Some(kept.into()))
}

fn array(
    arguments: &Arguments<'_>,
    value: Value,
    code: i32,
    which: &str,
) -> Result<Vec<Bson>, Fault> {
    match value {
        Some(Bson::Array(array)) => Ok(array),
        other => Err(Fault::location(
            code,
            format!(
                "both operands of {} must be arrays. {which} argument is of type: {}",
                arguments.name(),
                type_name_of(&other)
            ),
        )),
    }
}

pub(super) fn is_subset(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    let collation = &arguments.env().collation;
    let (left, right) = (arguments.value(0)?, arguments.value(1)?);
    let left = ValueSet::of(array(arguments, left, 17046, "First")?, collation);
    let right = ValueSet::of(array(arguments, right, 17042, "Second")?, collation);
    Ok(Some(Bson::Boolean(left.is_within(&right))))
}

pub(super) fn equals(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    let collation = &arguments.env().collation;
    let mut first: Option<ValueSet<'_>> = None;
    let mut equal = true;
    for index in 0..arguments.len() {
        let Some(Bson::Array(array)) = arguments.value(index)? else {
            return Err(Fault::location(
                17044,
                format!("All operands of $setEquals must be arrays: argument {} is not", index + 1),
            ));
        };
        let set = ValueSet::of(array, collation);
        match &first {
            Some(first) => equal &= first.is_within(&set) && set.is_within(first),
            None => first = Some(set),
        }
    }
    Ok(Some(Bson::Boolean(equal)))
}

pub(super) fn all_true(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    Ok(Some(Bson::Boolean(elements(arguments, 17040)?.iter().all(is_truthy))))
}

pub(super) fn any_true(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    Ok(Some(Bson::Boolean(elements(arguments, 17041)?.iter().any(is_truthy))))
}

fn elements(arguments: &Arguments<'_>, code: i32) -> Result<Vec<Bson>, Fault> {
    match arguments.value(0)? {
        Some(Bson::Array(array)) => Ok(array),
        other => {
            let (name, found) = (arguments.name(), type_name_of(&other));
            let message = format!("{name}'s argument must be an array, but is {found}");
            Err(Fault::location(code, message))
        }
    }
}
