//! A record of CSV: its fields, and what type a value is taken for.

use steadfast::bson::{Bson, Document};

/// The fields of a record. Quotes are those of RFC 4180; one that is in the midst of a plain field is a
/// character like others.
pub(super) fn fields(record: &str) -> Result<Vec<String>, String> {
    let mut fields = Vec::new();
    let mut rest = record;
    loop {
        let (field, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted_field(quoted)?,
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                (rest[..end].to_owned(), &rest[end..])
            }
        };
        fields.push(field);
        match after.strip_prefix(',') {
            Some(next) => rest = next,
            None if after.is_empty() => return Ok(fields),
            None => {
                let number = fields.len();
                return Err(format!("field {number} goes on after its closing quote"));
            }
        }
    }
}

/// A field whose opening quote was read, and what comes after it.
fn quoted_field(text: &str) -> Result<(String, &str), String> {
    let mut field = String::new();
    let mut rest = text;
    loop {
        let Some((part, after)) = rest.split_once('"') else {
            return Err("a quote is opened and never closed".to_owned());
        };
        field.push_str(part);
        match after.strip_prefix('"') {
            Some(after) => {
                field.push('"');
                rest = after;
            }
            None => return Ok((field, after)),
        }
    }
}

/// The names of the fields, from the first record.
pub(super) fn header(record: &str) -> Result<Vec<String>, String> {
    let names = fields(record)?;
    for (nth, name) in names.iter().enumerate() {
        if name.is_empty() {
            return Err(format!("the header has no name for field {}", nth + 1));
        }
        if name.contains('\0') {
            return Err(format!("the header's field {} has a null character", nth + 1));
        }
        if names[..nth].contains(name) {
            return Err(format!("the header has the field {name:?} twice"));
        }
    }
    Ok(names)
}

/// The document that a record is.
pub(super) fn document(names: &[String], record: &str, is_typed: bool) -> Result<Document, String> {
    let fields = fields(record)?;
    if fields.len() != names.len() {
        return Err(format!("it has {} fields, and the header has {}", fields.len(), names.len()));
    }
    let value = |text: String| if is_typed { typed(text) } else { Bson::String(text) };
    Ok(names.iter().cloned().zip(fields.into_iter().map(value)).collect())
}

/// What a text most likely is. Numbers are those that are written as they would be printed: what has a
/// leading zero or a plus may be a telephone number, and stays text.
fn typed(text: String) -> Bson {
    match text.as_str() {
        "" => return Bson::Null,
        "true" => return Bson::Boolean(true),
        "false" => return Bson::Boolean(false),
        _ => {}
    }
    let digits = text.strip_prefix('-').unwrap_or(&text);
    let whole = digits.split(['.', 'e', 'E']).next().unwrap_or_default();
    let is_number = whole.bytes().all(|byte| byte.is_ascii_digit())
        && !whole.is_empty()
        && (whole == "0" || !whole.starts_with('0'));
    if !is_number {
        return Bson::String(text);
    }
    if whole.len() == digits.len() {
        return match text.parse::<i64>() {
            Ok(number) => i32::try_from(number).map_or(Bson::Int64(number), Bson::Int32),
            // It would lose digits.
            Err(_) => Bson::String(text),
        };
    }
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() => Bson::Double(number),
        Ok(_) | Err(_) => Bson::String(text),
    }
}

#[cfg(test)]
mod tests {
    use steadfast::bson::doc;

    use super::*;

    #[test]
    fn fields_may_be_quoted() {
        assert_eq!(fields("a,b").unwrap(), ["a", "b"]);
        assert_eq!(fields("\"a,\"\"b\"\"\n\",,c\"d").unwrap(), ["a,\"b\"\n", "", "c\"d"]);
        assert_eq!(fields("").unwrap(), [""]);
        assert_eq!(fields("a,").unwrap(), ["a", ""]);
        assert!(fields("\"a").unwrap_err().contains("never closed"));
        assert!(fields("a,\"b\"c").unwrap_err().contains("field 2 goes on"));
    }

    #[test]
    fn a_header_names_each_field_once() {
        assert_eq!(header("a,b").unwrap(), ["a", "b"]);
        assert!(header("a,,b").unwrap_err().contains("no name for field 2"));
        assert!(header("a,b,a").unwrap_err().contains("twice"));
    }

    #[test]
    fn values_are_text_unless_types_are_asked_for() {
        let names = header("s,i,l,d,z,b,n,w").unwrap();
        let record = "x,7,5000000000,-1.5,007,true,,99999999999999999999";
        let text = document(&names, record, false).unwrap();
        assert!(text.values().all(|value| matches!(value, Bson::String(_))));
        let typed = document(&names, record, true).unwrap();
        let expected = doc! {
            "s": "x", "i": 7, "l": 5_000_000_000_i64, "d": -1.5, "z": "007", "b": true, "n": null,
            "w": "99999999999999999999",
        };
        assert_eq!(typed, expected);
        assert!(document(&names, "x,7", true).unwrap_err().contains("2 fields"));
    }
}
