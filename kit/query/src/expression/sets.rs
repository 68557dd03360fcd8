//! Arrays as sets: what is equal is there once, and the order says nothing.

use bson::Bson;

use super::{
    coerce::{named, nullish},
    node::{Arguments, Value},
};
use crate::{
    Collation, Fault,
    value::{self, truthy},
};

/// A set, in order.
struct Set<'a> {
    elements: Vec<Bson>,
    collation: &'a Collation,
}

impl<'a> Set<'a> {
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

/// Several arrays; `None` if one of them is null.
fn operands(arguments: &Arguments<'_>, code: i32) -> Result<Option<Vec<Vec<Bson>>>, Fault> {
    let mut arrays = Vec::with_capacity(arguments.len());
    for index in 0..arguments.len() {
        match arguments.value(index)? {
            Some(Bson::Array(array)) => arrays.push(array),
            value if nullish(&value) => return Ok(None),
            value => {
                return Err(Fault::location(
                    code,
                    format!(
                        "All operands of {} must be arrays. One argument is of type: {}",
                        arguments.name(),
                        named(&value)
                    ),
                ));
            }
        }
    }
    Ok(Some(arrays))
}

pub(super) fn union(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    Ok(Some(match operands(arguments, 17043)? {
        Some(arrays) => Set::of(arrays.concat(), &arguments.env().collation).elements.into(),
        None => Bson::Null,
    }))
}

pub(super) fn intersection(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    let collation = &arguments.env().collation;
    let Some(arrays) = operands(arguments, 17047)? else { return Ok(Some(Bson::Null)) };
    let mut sets = arrays.into_iter().map(|it| Set::of(it, collation));
    let Some(mut common) = sets.next() else { return Ok(Some(Bson::Array(Vec::new()))) };
    for set in sets {
        common.elements.retain(|it| set.contains(it));
    }
    Ok(Some(common.elements.into()))
}

/// What is in the first and not in the second, in the order of the first.
pub(super) fn difference(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    let collation = &arguments.env().collation;
    let (left, right) = (arguments.value(0)?, arguments.value(1)?);
    if nullish(&left) || nullish(&right) {
        return Ok(Some(Bson::Null));
    }
    let left = array(arguments, left, 17048, "First")?;
    let right = array(arguments, right, 17049, "Second")?;
    let excluded = Set::of(right, collation);
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
                named(&other)
            ),
        )),
    }
}

pub(super) fn is_subset(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    let collation = &arguments.env().collation;
    let (left, right) = (arguments.value(0)?, arguments.value(1)?);
    let left = Set::of(array(arguments, left, 17046, "First")?, collation);
    let right = Set::of(array(arguments, right, 17042, "Second")?, collation);
    Ok(Some(Bson::Boolean(left.is_within(&right))))
}

pub(super) fn equals(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    let collation = &arguments.env().collation;
    let mut first: Option<Set<'_>> = None;
    let mut equal = true;
    for index in 0..arguments.len() {
        let Some(Bson::Array(array)) = arguments.value(index)? else {
            return Err(Fault::location(
                17044,
                format!("All operands of $setEquals must be arrays: argument {} is not", index + 1),
            ));
        };
        let set = Set::of(array, collation);
        match &first {
            Some(first) => equal &= first.is_within(&set) && set.is_within(first),
            None => first = Some(set),
        }
    }
    Ok(Some(Bson::Boolean(equal)))
}

pub(super) fn all_true(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    Ok(Some(Bson::Boolean(elements(arguments, 17040)?.iter().all(truthy))))
}

pub(super) fn any_true(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    Ok(Some(Bson::Boolean(elements(arguments, 17041)?.iter().any(truthy))))
}

fn elements(arguments: &Arguments<'_>, code: i32) -> Result<Vec<Bson>, Fault> {
    match arguments.value(0)? {
        Some(Bson::Array(array)) => Ok(array),
        other => {
            let (name, found) = (arguments.name(), named(&other));
            let message = format!("{name}'s argument must be an array, but is {found}");
            Err(Fault::location(code, message))
        }
    }
}
