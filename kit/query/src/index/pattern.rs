//! What an index is on: fields, and a direction or a kind for each.

use bson::{Bson, Document};

use crate::{
    Code, Fault,
    value::{Number, type_name},
};

/// The most fields of an index.
const MOST_FIELDS: usize = 32;

/// How a field of an index is ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Ascending,
    Descending,
    /// By the hash of its value.
    Hashed,
}

/// The name that an index has if none is given: `a_1_b.c_-1`.
pub fn default_name(pattern: &Document) -> String {
    let parts = pattern.iter().map(|(path, direction)| {
        let direction = match (direction, Number::of(direction).and_then(Number::to_integer)) {
            (Bson::String(kind), _) => kind.clone(),
            (_, Some(number)) => number.to_string(),
            (other, None) => crate::text::value(other),
        };
        format!("{path}_{direction}")
    });
    parts.collect::<Vec<_>>().join("_")
}

/// Reads the directions of a pattern and checks its fields.
pub(super) fn directions(pattern: &Document) -> Result<Vec<Direction>, Fault> {
    let refused = |message: &str| Err(Fault::new(Code::CANNOT_CREATE_INDEX, message));
    if pattern.is_empty() {
        return refused("Index keys cannot be empty.");
    }
    let mut directions = Vec::new();
    for (path, value) in pattern {
        directions.push(direction(value)?);
        if path.is_empty() {
            return refused("Index keys cannot be an empty field.");
        }
        for part in path.split('.') {
            if part.is_empty() {
                return refused("Index keys cannot contain an empty field.");
            }
            let inside = part.len() < path.len();
            if part.starts_with('$') && !(inside && matches!(part, "$id" | "$ref" | "$db")) {
                return refused(
                    "Index key contains an illegal field name: field name starts with '$'.",
                );
            }
        }
    }
    Ok(directions)
}

/// What is refused when the index is made, not when it is read.
pub(super) fn check_fields(pattern: &Document, directions: &[Direction]) -> Result<(), Fault> {
    if directions.len() > MOST_FIELDS {
        return Err(Fault::location(13103, "too many compound keys"));
    }
    let hashed = directions.iter().filter(|it| **it == Direction::Hashed).count();
    if hashed > 1 {
        return Err(Fault::location(
            31303,
            format!(
                "A maximum of one index field is allowed to be hashed but found {hashed} for 'key' {}",
                crate::text::document(pattern)
            ),
        ));
    }
    Ok(())
}

fn direction(value: &Bson) -> Result<Direction, Fault> {
    let refused = |message: String| Err(Fault::new(Code::CANNOT_CREATE_INDEX, message));
    if let Bson::String(kind) = value {
        return match kind.as_str() {
            "hashed" => Ok(Direction::Hashed),
            "" => refused("Values in the index key pattern cannot be empty strings".into()),
            "geoHaystack" => {
                refused("GeoHaystack indexes cannot be created in version 5.0 and above".into())
            }
            // Texts and places too: there are no such indexes here.
            other => refused(format!("Unknown index plugin '{other}'")),
        };
    }
    let Some(number) = Number::of(value) else {
        return refused(format!(
            "Values in v:2 index key pattern cannot be of type {}. Only numbers > 0, numbers < 0, and \
             strings are allowed.",
            type_name(value)
        ));
    };
    if number.is_nan() {
        return refused("Values in the index key pattern cannot be NaN.".into());
    }
    let number = number.to_f64();
    if number == 0.0 {
        return refused("Values in the index key pattern cannot be 0.".into());
    }
    Ok(if number > 0.0 { Direction::Ascending } else { Direction::Descending })
}
