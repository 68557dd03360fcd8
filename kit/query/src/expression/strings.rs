//! String operators. Case conversion applies to ASCII only, as in servers.

use bson::Bson;

use super::{
    arrays::{bounds, count},
    coerce::{format_value, int32, is_null_or_missing, text, truncated, type_name_of},
    node::{Arguments, Value},
    size_limit::SizeLimit,
};
use crate::{Fault, value::is_number};

pub(super) fn concat(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    let mut all = String::new();
    let mut limit = SizeLimit::new(arguments.name());
    for index in 0..arguments.len() {
        match arguments.value(index)? {
            Some(Bson::String(text)) => {
                limit.add_bytes(text.len())?;
                all.push_str(&text);
            }
            value if is_null_or_missing(&value) => return Ok(Some(Bson::Null)),
            value => {
                let message =
                    format!("$concat only supports strings, not {}", type_name_of(&value));
                return Err(Fault::location(16702, message));
            }
        }
    }
    Ok(Some(all.into()))
}

/// Returns the strings of a search. `None` if the first is null.
fn searched(arguments: &Arguments<'_>, codes: [i32; 2]) -> Result<Option<(String, String)>, Fault> {
    let input = arguments.value(0)?;
    if is_null_or_missing(&input) {
        return Ok(None);
    }
    let invalid = |code, which: &str, value: &Value| {
        let (name, found) = (arguments.name(), type_name_of(value));
        let message = format!("{name} requires a string as the {which} argument, found: {found}");
        Err(Fault::location(code, message))
    };
    let Some(Bson::String(input)) = input else { return invalid(codes[0], "first", &input) };
    match arguments.value(1)? {
        Some(Bson::String(token)) => Ok(Some((input, token))),
        other => invalid(codes[1], "second", &other),
    }
}

pub(super) fn index_of_bytes(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    let Some((input, token)) = searched(arguments, [40091, 40092])? else {
        return Ok(Some(Bson::Null));
    };
    let (start, end) = bounds(arguments, input.len())?;
    let end = end.min(input.len());
    let found = (start..=end).find(|at| {
        let rest = input.as_bytes().get(*at..end);
        rest.is_some_and(|rest| rest.starts_with(token.as_bytes()))
    });
    Ok(Some(found.map_or(Bson::Int32(-1), count)))
}

pub(super) fn index_of_characters(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    let Some((input, token)) = searched(arguments, [40093, 40094])? else {
        return Ok(Some(Bson::Null));
    };
    let characters = input.chars().collect::<Vec<_>>();
    let token = token.chars().collect::<Vec<_>>();
    let (start, end) = bounds(arguments, characters.len())?;
    if input.is_empty() && token.is_empty() && start == 0 && end == 0 {
        return Ok(Some(Bson::Int32(0)));
    }
    // Servers do not search the position after the last character.
    let end = end.min(characters.len());
    let found = (start..end).find(|at| characters[*at..end].starts_with(&token));
    Ok(Some(found.map_or(Bson::Int32(-1), count)))
}

pub(super) fn split(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    let (input, separator) = (arguments.value(0)?, arguments.value(1)?);
    if is_null_or_missing(&input) || is_null_or_missing(&separator) {
        return Ok(Some(Bson::Null));
    }
    let invalid = |code, which: &str, value: &Value| {
        let message = "$split requires an expression that evaluates to a string as a";
        Err(Fault::location(
            code,
            format!("{message} {which} argument, found: {}", type_name_of(value)),
        ))
    };
    let Some(Bson::String(input)) = input else { return invalid(40085, "first", &input) };
    let Some(Bson::String(separator)) = separator else {
        return invalid(40086, "second", &separator);
    };
    if separator.is_empty() {
        return Err(Fault::location(40087, "$split requires a non-empty separator"));
    }
    Ok(Some(Bson::Array(input.split(&separator).map(Bson::from).collect())))
}

fn only_string(arguments: &Arguments<'_>, code: i32) -> Result<String, Fault> {
    match arguments.value(0)? {
        Some(Bson::String(text)) => Ok(text),
        value => {
            let (name, found) = (arguments.name(), type_name_of(&value));
            Err(Fault::location(code, format!("{name} requires a string argument, found: {found}")))
        }
    }
}

pub(super) fn length_in_bytes(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    Ok(Some(count(only_string(arguments, 34473)?.len())))
}

pub(super) fn length_in_characters(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    Ok(Some(count(only_string(arguments, 34471)?.chars().count())))
}

pub(super) fn compare_ignoring_case(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    let (left, right) = (arguments.value(0)?, arguments.value(1)?);
    let left = text(&left)?.to_ascii_uppercase();
    let right = text(&right)?.to_ascii_uppercase();
    Ok(Some(Bson::Int32(left.cmp(&right) as i32)))
}

pub(super) fn lower(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    Ok(Some(text(&arguments.value(0)?)?.to_ascii_lowercase().into()))
}

pub(super) fn upper(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    Ok(Some(text(&arguments.value(0)?)?.to_ascii_uppercase().into()))
}

pub(super) fn part_by_bytes(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    let (input, start, length) = (arguments.value(0)?, arguments.value(1)?, arguments.value(2)?);
    let input = text(&input)?;
    let whole = |value: &Value, code, what: &str| match value {
        Some(number) if is_number(number) => truncated(number),
        other => {
            let message = format!("$substrBytes:  {what} must be a numeric type");
            Err(Fault::location(code, format!("{message} (is BSON type {})", type_name_of(other))))
        }
    };
    let start = whole(&start, 16034, "starting index")?;
    let length = whole(&length, 16035, "length")?;
    let Ok(start) = usize::try_from(start) else {
        let message = format!("$substrBytes:  starting index must be non-negative (got: {start})");
        return Err(Fault::location(50752, message));
    };
    if start >= input.len() {
        return Ok(Some(String::new().into()));
    }
    if !input.is_char_boundary(start) {
        let message = "$substrBytes:  Invalid range, starting index is a UTF-8 continuation byte.";
        return Err(Fault::location(28656, message));
    }
    // A negative length means the rest of the string.
    let end = match usize::try_from(length) {
        Ok(length) => start.saturating_add(length).min(input.len()),
        Err(_) => input.len(),
    };
    match input.get(start..end) {
        Some(part) => Ok(Some(part.into())),
        None => Err(Fault::location(
            28657,
            "$substrBytes:  Invalid range, ending index is in the middle of a UTF-8 character.",
        )),
    }
}

pub(super) fn part_by_characters(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    let (input, start, length) = (arguments.value(0)?, arguments.value(1)?, arguments.value(2)?);
    let input = text(&input)?;
    let numeric = |value: &Value, code, what: &str| {
        if value.as_ref().is_some_and(is_number) {
            return Ok(());
        }
        let message = format!("$substrCP: {what} must be a numeric type");
        Err(Fault::location(code, format!("{message} (is BSON type {})", type_name_of(value))))
    };
    let whole = |value: &Value, code, what: &str| {
        value.as_ref().and_then(int32).ok_or_else(|| {
            let message = "cannot be represented as a 32-bit integral value";
            Fault::location(code, format!("$substrCP: {what} {message}: {}", format_value(value)))
        })
    };
    numeric(&start, 34450, "starting index")?;
    let start = whole(&start, 34451, "starting index")?;
    numeric(&length, 34452, "length")?;
    let length = whole(&length, 34453, "length")?;
    let length = usize::try_from(length)
        .map_err(|_| Fault::location(34454, "$substrCP: length must be a nonnegative integer."))?;
    let start = usize::try_from(start).map_err(|_| {
        Fault::location(34455, "$substrCP: the starting index must be nonnegative integer.")
    })?;
    Ok(Some(input.chars().skip(start).take(length).collect::<String>().into()))
}

/// Default characters of `$trim`: white space and NUL.
const WHITE: &[char] = &[
    '\0', ' ', '\t', '\n', '\u{b}', '\u{c}', '\r', '\u{a0}', '\u{1680}', '\u{2000}', '\u{2001}',
    '\u{2002}', '\u{2003}', '\u{2004}', '\u{2005}', '\u{2006}', '\u{2007}', '\u{2008}', '\u{2009}',
    '\u{200a}',
];

pub(super) fn trim(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    let name = arguments.name();
    let input = arguments.value(0)?;
    if is_null_or_missing(&input) {
        return Ok(Some(Bson::Null));
    }
    let Some(Bson::String(input)) = input else {
        let (found, kind) = (format_value(&input), type_name_of(&input));
        let message = format!("{name} requires its input to be a string, got {found}");
        return Err(Fault::location(50699, format!("{message} (of type {kind}) instead.")));
    };
    let characters = match arguments.value(1)? {
        _ if !arguments.given(1) => WHITE.to_vec(),
        Some(Bson::String(characters)) => characters.chars().collect(),
        value if is_null_or_missing(&value) => return Ok(Some(Bson::Null)),
        value => {
            let (found, kind) = (format_value(&value), type_name_of(&value));
            let message = format!("{name} requires 'chars' to be a string, got {found}");
            return Err(Fault::location(50700, format!("{message} (of type {kind}) instead.")));
        }
    };
    let mut trimmed = input.as_str();
    if name != "$rtrim" {
        trimmed = trimmed.trim_start_matches(characters.as_slice());
    }
    if name != "$ltrim" {
        trimmed = trimmed.trim_end_matches(characters.as_slice());
    }
    Ok(Some(trimmed.into()))
}

pub(super) fn replace_one(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    replaced(arguments, 1)
}

pub(super) fn replace_all(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    replaced(arguments, usize::MAX)
}

fn replaced(arguments: &Arguments<'_>, at_most: usize) -> Result<Value, Fault> {
    let (input, find, replacement) =
        (arguments.value(0)?, arguments.value(1)?, arguments.value(2)?);
    let string = |value: Value, what: &str, code| match value {
        Some(Bson::String(text)) => Ok(Some(text)),
        value if is_null_or_missing(&value) => Ok(None),
        value => {
            let message = format!("{} requires that '{what}' be a string", arguments.name());
            Err(Fault::location(code, format!("{message}, found: {}", format_value(&value))))
        }
    };
    let input = string(input, "input", 51746)?;
    let find = string(find, "find", 51745)?;
    let replacement = string(replacement, "replacement", 51744)?;
    Ok(Some(match (input, find, replacement) {
        (Some(input), Some(find), Some(replacement)) => {
            let places = input.matches(find.as_str()).take(at_most).count();
            let bytes = places.saturating_mul(replacement.len());
            SizeLimit::new(arguments.name()).add_bytes(input.len().saturating_add(bytes))?;
            input.replacen(&find, &replacement, at_most).into()
        }
        _ => Bson::Null,
    }))
}
