//! Key patterns: fields with direction or type.

use bson::{Bson, Document};

use crate::{
    Code, Fault,
    value::{Number, type_name},
};

/// Maximum number of fields of an index.
const MAX_INDEX_FIELDS: usize = 32;

/// Direction or type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyDirection {
    Ascending,
    Descending,
    /// Hashed.
    Hashed,
}

/// Returns the default name of an index: `a_1_b.c_-1`.
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

/// Parses the directions of a key pattern and checks its fields.
pub(super) fn directions(pattern: &Document) -> Result<Vec<KeyDirection>, Fault> {
    let invalid = |message: &str| Err(Fault::new(Code::CANNOT_CREATE_INDEX, message));
    if pattern.is_empty() {
        return invalid("Index keys cannot be empty.");
    }
    let mut directions = Vec::new();
    for (path, value) in pattern {
        directions.push(direction(value)?);
        if path.is_empty() {
            return invalid("Index keys cannot be an empty field.");
        }
        for part in path.split('.') {
            if part.is_empty() {
                return invalid("Index keys cannot contain an empty field.");
            }
            let inside = part.len() < path.len();
            if part.starts_with('$') && !(inside && matches!(part, "$id" | "$ref" | "$db")) {
                return invalid(
                    "Index key contains an illegal field name: field name starts with '$'.",
                );
            }
        }
    }
    Ok(directions)
}

/// Checks that servers make when the index is created.
pub(super) fn check_fields(pattern: &Document, directions: &[KeyDirection]) -> Result<(), Fault> {
    if directions.len() > MAX_INDEX_FIELDS {
        return Err(Fault::location(13103, "too many compound keys"));
    }
    let hashed = directions.iter().filter(|it| **it == KeyDirection::Hashed).count();
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

fn direction(value: &Bson) -> Result<KeyDirection, Fault> {
    let invalid = |message: String| Err(Fault::new(Code::CANNOT_CREATE_INDEX, message));
    if let Bson::String(kind) = value {
        return match kind.as_str() {
            "hashed" => Ok(KeyDirection::Hashed),
            "" => invalid("Values in the index key pattern cannot be empty strings".into()),
            "geoHaystack" => {
                invalid("GeoHaystack indexes cannot be created in version 5.0 and above".into())
            }
            // Text and geospatial indexes are not supported.
            other => invalid(format!("Unknown index plugin '{other}'")),
        };
    }
    let Some(number) = Number::of(value) else {
        return invalid(format!(
            "Values in v:2 index key pattern cannot be of type {}. Only numbers > 0, numbers < 0, and \
             strings are allowed.",
            type_name(value)
        ));
    };
    if number.is_nan() {
        return invalid("Values in the index key pattern cannot be NaN.".into());
    }
    let number = number.to_f64();
    if number == 0.0 {
        return invalid("Values in the index key pattern cannot be 0.".into());
    }
    Ok(if number > 0.0 { KeyDirection::Ascending } else { KeyDirection::Descending })
}
