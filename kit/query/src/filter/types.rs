//! `$type`: sets of BSON types.

use bson::Bson;

use crate::{Fault, value};

/// A set of BSON types.
#[derive(Clone, Debug, Default)]
pub(crate) struct TypeSet {
    /// `number`: all four numeric types.
    numbers: bool,
    codes: Vec<i32>,
}

/// Aliases of types with their numbers.
const NAMES: [(&str, i32); 21] = [
    ("double", 1),
    ("string", 2),
    ("object", 3),
    ("array", 4),
    ("binData", 5),
    ("undefined", 6),
    ("objectId", 7),
    ("bool", 8),
    ("date", 9),
    ("null", 10),
    ("regex", 11),
    ("dbPointer", 12),
    ("javascript", 13),
    ("symbol", 14),
    ("javascriptWithScope", 15),
    ("int", 16),
    ("timestamp", 17),
    ("long", 18),
    ("decimal", 19),
    ("minKey", -1),
    ("maxKey", 127),
];

impl TypeSet {
    /// Parses an alias, a number, or a list of both.
    pub(super) fn parse(path: &str, argument: &Bson) -> Result<Self, Fault> {
        let mut types = Self::default();
        match argument {
            Bson::Array(list) => list.iter().try_for_each(|it| types.insert(it))?,
            one => types.insert(one)?,
        }
        if types.codes.is_empty() && !types.numbers {
            return Err(Fault::failed_to_parse(format!("{path} must match at least one type")));
        }
        Ok(types)
    }

    fn insert(&mut self, name: &Bson) -> Result<(), Fault> {
        match name {
            Bson::String(name) if name == "number" => self.numbers = true,
            Bson::String(name) => self.codes.push(named(name)?),
            number if value::is_number(number) => self.codes.push(numbered(number)?),
            _ => {
                return Err(Fault::type_mismatch(
                    "type must be represented as a number or a string",
                ));
            }
        }
        Ok(())
    }

    pub(super) fn contain(&self, value: &Bson) -> bool {
        self.numbers && value::is_number(value) || self.codes.contains(&value::type_number(value))
    }
}

fn named(name: &str) -> Result<i32, Fault> {
    if name == "missing" {
        return Err(Fault::bad_value(
            "'missing' is not a legal type name. To query for non-existence of a field, use \
             {$exists:false}.",
        ));
    }
    let known = NAMES.iter().find(|(known, _)| *known == name);
    known
        .map(|(_, number)| *number)
        .ok_or_else(|| Fault::bad_value(format!("Unknown type name alias: {name}")))
}

fn numbered(number: &Bson) -> Result<i32, Fault> {
    let code = value::Number::of(number).and_then(value::Number::to_integer);
    let code = code.and_then(|it| i32::try_from(it).ok());
    match code {
        Some(0) => {
            Err(Fault::bad_value("Invalid numerical type code: 0. Instead use {$exists:false}."))
        }
        Some(code) if NAMES.iter().any(|(_, known)| *known == code) => Ok(code),
        _ => {
            let text = format!("Invalid numerical type code: {}", plain(number));
            Err(Fault::bad_value(text))
        }
    }
}

/// Formats a number without `.0`.
fn plain(number: &Bson) -> String {
    let text = value::format_value(number);
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}
