//! `$push` with its modifiers.

use std::cmp::Ordering;

use bson::{Bson, Document};

use crate::{
    Collation, Fault,
    value::{self, Number, type_name},
};

/// A parsed `$push`.
#[derive(Clone, Debug)]
pub(super) struct Push {
    each: Vec<Bson>,
    position: Option<i64>,
    slice: Option<i64>,
    order: Option<PushSort>,
}

/// Order of `$sort` in a `$push`.
#[derive(Clone, Debug)]
enum PushSort {
    Ascending,
    Descending,
    /// Fields: path, and `true` for descending.
    FieldUpdates(Vec<(String, bool)>),
}

impl Push {
    pub(super) fn parse(argument: &Bson) -> Result<Self, Fault> {
        let plain = |each| Self { each, position: None, slice: None, order: None };
        let Bson::Document(clauses) = argument else { return Ok(plain(vec![argument.clone()])) };
        let Some(each) = clauses.get("$each") else { return Ok(plain(vec![argument.clone()])) };
        let Bson::Array(each) = each else {
            return Err(Fault::bad_value(format!(
                "The argument to $each in $push must be an array but it was of type: {}",
                type_name(each)
            )));
        };
        for clause in clauses.keys() {
            if !matches!(clause.as_str(), "$each" | "$position" | "$slice" | "$sort") {
                return Err(Fault::bad_value(format!("Unrecognized clause in $push: {clause}")));
            }
        }
        let slice = clauses.get("$slice").map(|it| {
            integer(it, |name| {
                format!("The value for $slice must be an integer value but was given type: {name}")
            })
        });
        let order = clauses.get("$sort").map(PushSort::parse);
        let position = clauses.get("$position").map(|it| {
            integer(it, |name| {
                format!("The value for $position must be an integer value, not of type: {name}")
            })
        });
        Ok(Self {
            each: each.clone(),
            slice: slice.transpose()?,
            order: order.transpose()?,
            position: position.transpose()?,
        })
    }

    /// Adds, sorts and slices. Returns `true` if servers count a change.
    pub(super) fn apply(&self, array: &mut Vec<Bson>, collation: &Collation) -> bool {
        let mut changed = !self.each.is_empty();
        let at = self.place_in(array.len());
        array.splice(at..at, self.each.iter().cloned());
        if let Some(order) = &self.order {
            // Servers count sorting as a change, even if the order stays.
            changed |= !array.is_empty();
            array.sort_by(|left, right| order.compare(left, right, collation));
        }
        if let Some(slice) = self.slice {
            let kept = usize::try_from(slice.unsigned_abs()).unwrap_or(usize::MAX);
            if kept < array.len() {
                changed = true;
                if slice >= 0 {
                    array.truncate(kept);
                } else {
                    array.drain(..array.len() - kept);
                }
            }
        }
        changed
    }

    /// Returns `true` if there are elements to add.
    pub(super) fn adds_elements(&self) -> bool {
        !self.each.is_empty()
    }

    fn place_in(&self, length: usize) -> usize {
        let position = self.position.unwrap_or(i64::MAX);
        let offset = usize::try_from(position.unsigned_abs()).unwrap_or(usize::MAX);
        if position < 0 { length.saturating_sub(offset) } else { offset.min(length) }
    }
}

fn integer(value: &Bson, error_code: impl Fn(&str) -> String) -> Result<i64, Fault> {
    Number::of(value)
        .and_then(Number::to_integer)
        .ok_or_else(|| Fault::bad_value(error_code(type_name(value))))
}

impl PushSort {
    fn parse(sort: &Bson) -> Result<Self, Fault> {
        match sort {
            Bson::Document(fields) => Self::of_fields(fields),
            number if value::is_number(number) => match direction(number) {
                Some(true) => Ok(Self::Descending),
                Some(false) => Ok(Self::Ascending),
                None => Err(Fault::bad_value("The $sort element value must be either 1 or -1")),
            },
            _ => Err(Fault::bad_value(
                "The $sort is invalid: use 1/-1 to sort the whole element, or {field:1/-1} to sort \
                 embedded fields",
            )),
        }
    }

    fn of_fields(fields: &Document) -> Result<Self, Fault> {
        let invalid = |message: String| Err(Fault::bad_value(message));
        if fields.is_empty() {
            return invalid("The sort pattern is empty when it should be a set of fields.".into());
        }
        let mut parsed = Vec::new();
        for (path, order) in fields {
            let Some(descends) = direction(order) else {
                return invalid("The sort element value must be either 1 or -1".into());
            };
            if path.is_empty() {
                return invalid("The sort field cannot be empty".into());
            }
            if path.split('.').any(str::is_empty) {
                return invalid(format!(
                    "The sort field is a dotted field but has an empty part: {path}"
                ));
            }
            parsed.push((path.clone(), descends));
        }
        Ok(Self::FieldUpdates(parsed))
    }

    fn compare(&self, left: &Bson, right: &Bson, collation: &Collation) -> Ordering {
        match self {
            Self::Ascending => value::compare(left, right, collation),
            Self::Descending => value::compare(right, left, collation),
            Self::FieldUpdates(fields) => fields
                .iter()
                .map(|(path, descends)| {
                    let order = value::compare(at(left, path), at(right, path), collation);
                    if *descends { order.reverse() } else { order }
                })
                .find(|order| order.is_ne())
                .unwrap_or(Ordering::Equal),
        }
    }
}

/// Returns `true` for -1, `false` for 1, and `None` for other values.
fn direction(value: &Bson) -> Option<bool> {
    match Number::of(value)?.to_integer()? {
        1 => Some(false),
        -1 => Some(true),
        _ => None,
    }
}

/// Returns the value at a path of an element, or null. Arrays are entered by index only.
fn at<'e>(element: &'e Bson, path: &str) -> &'e Bson {
    match element {
        Bson::Document(document) => below(document, path).unwrap_or(&Bson::Null),
        _ => &Bson::Null,
    }
}

fn below<'e>(document: &'e Document, path: &str) -> Option<&'e Bson> {
    if let Some(value) = document.get(path) {
        return Some(value);
    }
    let (name, rest) = path.split_once('.')?;
    inside(document.get(name)?, rest)
}

fn inside<'e>(value: &'e Bson, path: &str) -> Option<&'e Bson> {
    match value {
        Bson::Document(document) => below(document, path),
        Bson::Array(elements) => {
            let (name, rest) = match path.split_once('.') {
                Some((name, rest)) => (name, Some(rest)),
                None => (path, None),
            };
            let element = elements.get(crate::path::index(name)?)?;
            rest.map_or(Some(element), |rest| inside(element, rest))
        }
        _ => None,
    }
}
