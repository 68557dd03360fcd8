//! Regular expressions: those of the server are Perl's, those here are Rust's.

mod translate;

use bson::Bson;
use regex::bytes::{Regex, RegexBuilder};

use crate::Fault;

/// A regular expression, ready.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    text: String,
    options: String,
    regex: Regex,
}

/// How many bytes a pattern has at most.
const LONGEST: usize = 32_764;

impl Pattern {
    /// Reads a pattern and its options. What only Perl's have, such as looking ahead, is refused.
    pub(super) fn new(text: &str, options: &str) -> Result<Self, Fault> {
        if text.contains('\0') {
            let text = "Regular expression cannot contain an embedded null byte";
            return Err(Fault::bad_value(text));
        }
        if text.len() > LONGEST {
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
                .map_err(|it| words(&it))
        });
        let regex = regex.map_err(|why| {
            Fault::location(51091, format!("Regular expression is invalid: {why}"))
        })?;
        Ok(Self { text: text.to_owned(), options: options.to_owned(), regex })
    }

    /// Whether it matches a string. A regular expression is matched by its equal.
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

/// What is wrong, in the words of Perl's where there are such.
fn words(error: &regex::Error) -> String {
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
