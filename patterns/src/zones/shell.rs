//! Documents and commands in the syntax of mongosh.

use std::fmt;

use bson::{Bson, Document};

/// A document in the syntax of mongosh.
pub(super) struct ShellDocument<'a>(pub(super) &'a Document);

impl fmt::Display for ShellDocument<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("{}");
        }
        f.write_str("{ ")?;
        for (place, (name, value)) in self.0.iter().enumerate() {
            if place > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{}: {}", ShellName(name), ShellValue(value))?;
        }
        f.write_str(" }")
    }
}

/// Name of a field, quoted where JavaScript requires it.
struct ShellName<'a>(&'a str);

impl fmt::Display for ShellName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let starts = |it: char| it.is_ascii_alphabetic() || it == '_' || it == '$';
        let plain = self.0.starts_with(starts)
            && self.0.chars().all(|it| starts(it) || it.is_ascii_digit());
        if plain { f.write_str(self.0) } else { write!(f, "{}", ShellString(self.0)) }
    }
}

/// A quoted string. JavaScript and JSON escape the same characters.
pub(super) struct ShellString<'a>(pub(super) &'a str);

impl fmt::Display for ShellString<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        for character in self.0.chars() {
            match character {
                '"' => f.write_str("\\\"")?,
                '\\' => f.write_str("\\\\")?,
                '\n' => f.write_str("\\n")?,
                it if it.is_control() => write!(f, "\\u{:04x}", u32::from(it))?,
                it => write!(f, "{it}")?,
            }
        }
        f.write_str("\"")
    }
}

struct ShellValue<'a>(&'a Bson);

impl fmt::Display for ShellValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Bson::MinKey => f.write_str("MinKey()"),
            Bson::MaxKey => f.write_str("MaxKey()"),
            Bson::String(text) => write!(f, "{}", ShellString(text)),
            Bson::Document(document) => write!(f, "{}", ShellDocument(document)),
            Bson::Array(values) => {
                f.write_str("[")?;
                for (place, value) in values.iter().enumerate() {
                    let before = if place > 0 { ", " } else { "" };
                    write!(f, "{before}{}", ShellValue(value))?;
                }
                f.write_str("]")
            }
            Bson::Int64(number) => write!(f, "Long(\"{number}\")"),
            // As `Display` writes it: these occur in bounds of other ranges.
            other => write!(f, "{other}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    #[test]
    fn documents_are_formatted_as_in_mongosh() {
        let document = doc! {
            "updateZoneKeyRange": "app.messages", "min": { "a.b": "x\"y", "_id": Bson::MinKey },
            "max": { "n": 5, "l": 6_i64 }, "zone": Bson::Null, "keys": [1, true, {}],
        };
        assert_eq!(
            ShellDocument(&document).to_string(),
            "{ updateZoneKeyRange: \"app.messages\", min: { \"a.b\": \"x\\\"y\", _id: MinKey() }, \
             max: { n: 5, l: Long(\"6\") }, zone: null, keys: [1, true, {}] }"
        );
    }
}
