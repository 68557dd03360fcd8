//! CSV: fields of a record, and types of values.

use steadfast::bson::{Bson, Document};

/// Parser state within a record, after a byte. Quotes are those of RFC 4180; within an unquoted field, a quote is an
/// ordinary character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CsvState {
    FieldStart,
    Unquoted,
    Quoted,
    /// After a quote in a quoted field: the closing one, or the first of an escaped one.
    Quote,
}

impl CsvState {
    /// Returns the state after another byte.
    pub(super) fn after(self, byte: u8) -> Self {
        match (self, byte) {
            (Self::FieldStart | Self::Quote, b'"') => Self::Quoted,
            (Self::Quoted, b'"') => Self::Quote,
            (Self::Quoted, _) => Self::Quoted,
            (_, b',') => Self::FieldStart,
            (_, _) => Self::Unquoted,
        }
    }
}

/// Returns the fields of a record.
pub(super) fn fields(record: &str) -> Result<Vec<String>, String> {
    let (mut fields, mut field) = (Vec::new(), Vec::new());
    let mut state = CsvState::FieldStart;
    let text = |bytes: &mut Vec<u8>| {
        String::from_utf8(std::mem::take(bytes)).expect("text is cut at ASCII characters")
    };
    for &byte in record.as_bytes() {
        let before = state;
        state = before.after(byte);
        match (before, state) {
            (_, CsvState::FieldStart) => fields.push(text(&mut field)),
            (CsvState::FieldStart, CsvState::Quoted) | (CsvState::Quoted, CsvState::Quote) => {}
            (CsvState::Quote, CsvState::Unquoted) => {
                let number = fields.len() + 1;
                return Err(format!("field {number} continues after its closing quote"));
            }
            _ => field.push(byte),
        }
    }
    if state == CsvState::Quoted {
        return Err("a quote is opened and never closed".to_owned());
    }
    fields.push(text(&mut field));
    Ok(fields)
}

/// Returns the names of the fields from the first record.
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

/// Returns the document of a record.
pub(super) fn document(names: &[String], record: &str, is_typed: bool) -> Result<Document, String> {
    let fields = fields(record)?;
    if fields.len() != names.len() {
        return Err(format!(
            "the record has {} fields, but the header has {}",
            fields.len(),
            names.len()
        ));
    }
    let value = |text: String| if is_typed { typed(text) } else { Bson::String(text) };
    Ok(names.iter().cloned().zip(fields.into_iter().map(value)).collect())
}

/// Returns the value of a text: null if empty, a boolean, a number or a string. Text with a leading zero or plus
/// sign stays a string: it may be a telephone number.
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
            // As a double it would lose digits.
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
    fn fields_can_be_quoted() {
        assert_eq!(fields("a,b").unwrap(), ["a", "b"]);
        assert_eq!(fields("\"a,\"\"b\"\"\n\",,c\"d").unwrap(), ["a,\"b\"\n", "", "c\"d"]);
        assert_eq!(fields("").unwrap(), [""]);
        assert_eq!(fields("a,").unwrap(), ["a", ""]);
        assert!(fields("\"a").unwrap_err().contains("never closed"));
        assert!(fields("a,\"b\"c").unwrap_err().contains("field 2 continues"));
    }

    #[test]
    fn header_names_each_field_once() {
        assert_eq!(header("a,b").unwrap(), ["a", "b"]);
        assert!(header("a,,b").unwrap_err().contains("no name for field 2"));
        assert!(header("a,b,a").unwrap_err().contains("twice"));
    }

    #[test]
    fn values_are_strings_without_types() {
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
