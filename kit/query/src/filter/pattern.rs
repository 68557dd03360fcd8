//! Regular expressions: PCRE syntax, translated for the crate `regex`.

mod translate;

use bson::Bson;
use regex::bytes::{Regex, RegexBuilder};

use crate::Fault;

/// A compiled regular expression.
#[derive(Clone, Debug)]
pub(crate) struct FilterRegex {
    text: String,
    options: String,
    regex: Regex,
}

/// Maximum length of a pattern in bytes.
const MAX_PATTERN_BYTES: usize = 32_764;

impl FilterRegex {
    /// Compiles a pattern with its options. Features that only PCRE has, such as lookahead, fail.
    pub(super) fn new(text: &str, options: &str) -> Result<Self, Fault> {
        if text.contains('\0') {
            let text = "Regular expression cannot contain an embedded null byte";
            return Err(Fault::bad_value(text));
        }
        if text.len() > MAX_PATTERN_BYTES {
            return Err(Fault::bad_value("Regular expression is too long"));
        }
        if let Some(unknown) = options.chars().find(|it| !"imsxu".contains(*it)) {
            let text = format!(" invalid flag in regex options: {unknown}");
            return Err(Fault::location(51108, text));
        }
        let has = |option| options.contains(option);
        let regex = translate::translated(text, has('m'), has('x')).and_then(|translated| {
            RegexBuilder::new(&translated)
                .case_insensitive(has('i'))
                .multi_line(has('m'))
                .dot_matches_new_line(has('s'))
                .ignore_whitespace(has('x'))
                .build()
                .map_err(|it| pcre_message(&it))
        });
        let regex = regex.map_err(|why| {
            Fault::location(51091, format!("Regular expression is invalid: {why}"))
        })?;
        Ok(Self { text: text.to_owned(), options: options.to_owned(), regex })
    }

    /// Returns `true` if the pattern matches a string, or equals a stored regular expression.
    pub(super) fn matches(&self, value: &Bson) -> bool {
        match value {
            Bson::String(text) | Bson::Symbol(text) => self.regex.is_match(text.as_bytes()),
            Bson::RegularExpression(other) => {
                self.text == other.pattern.as_str() && self.options == other.options.as_str()
            }
            _ => false,
        }
    }
}

/// Error message, with the wording of PCRE where possible.
fn pcre_message(error: &regex::Error) -> String {
    let message = error.to_string();
    let line = message.lines().last().unwrap_or(&message).trim().trim_start_matches("error: ");
    const WORDS: [(&str, &str); 6] = [
        ("unclosed group", "missing )"),
        ("unopened group", "unmatched parentheses"),
        ("repetition operator missing expression", "nothing to repeat"),
        ("invalid character class range", "range out of order in character class"),
        ("invalid repetition count range", "numbers out of order in {} quantifier"),
        ("unclosed character class", "missing terminating ] for character class"),
    ];
    let known = WORDS.iter().find(|(rust, _)| line.starts_with(rust));
    known.map_or(line, |(_, perl)| perl).to_owned()
}
