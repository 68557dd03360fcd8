//! Regular expression operators: `$regexMatch`, `$regexFind`, `$regexFindAll`.

use bson::{Bson, Document, doc};
use regex::{Captures, Regex, RegexBuilder};

use super::{
    arrays::count,
    coerce::is_null_or_missing,
    node::{Arguments, ExpressionNode, Precomputed, Value},
    operators::{AggregationOperator, NamedArguments},
    parse::ExpressionParser,
};
use crate::Fault;

/// A compiled regular expression.
#[derive(Clone, Debug)]
pub(super) struct ExpressionRegex(Regex);

const FIELDS: NamedArguments = NamedArguments {
    fields: &[("input", Some(31022)), ("regex", Some(31023)), ("options", None)],
    not_an_object: 51103,
    unknown: 31024,
};

/// Parses a regular expression operator. A constant pattern is compiled once.
pub(super) fn parse(
    parser: &mut ExpressionParser<'_>,
    operator: &'static AggregationOperator,
    argument: &Bson,
) -> Result<ExpressionNode, Fault> {
    let arguments = parser.type_name_of(operator, &FIELDS, argument)?;
    let constant = |place: usize| match &arguments[place] {
        None => Some(None),
        Some(node) => node.constant().cloned(),
    };
    let precomputed = match (constant(1), constant(2)) {
        (Some(regex), Some(options)) => match compile(operator.name, &regex, &options) {
            Ok(pattern) => Precomputed::Pattern(pattern),
            Err(fault) => {
                parser.fail(fault);
                Precomputed::Nothing
            }
        },
        _ => Precomputed::Nothing,
    };
    Ok(parser.call_with_precomputed(operator, arguments, precomputed))
}

pub(super) fn is_match(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    let found = with_pattern(arguments, |pattern, input| pattern.is_match(input))?;
    Ok(Some(Bson::Boolean(found.unwrap_or(false))))
}

pub(super) fn find(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    let found = with_pattern(arguments, |pattern, input| {
        pattern.captures(input).map(|it| described(&it, input))
    })?;
    Ok(Some(found.flatten().map_or(Bson::Null, Bson::Document)))
}

pub(super) fn find_all(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    let found = with_pattern(arguments, |pattern, input| {
        // Servers stop at the end of the input and do not report an empty match there.
        let inside = |it: &Captures<'_>| {
            it.get(0).is_some_and(|it| it.start() < input.len() || input.is_empty())
        };
        let matches = pattern.captures_iter(input).filter(inside);
        matches.map(|it| Bson::Document(described(&it, input))).collect::<Vec<_>>()
    })?;
    Ok(Some(Bson::Array(found.unwrap_or_default())))
}

fn described(captures: &Captures<'_>, input: &str) -> Document {
    let whole = captures.get(0);
    let start = whole.map_or(0, |it| it.start());
    let group = |it: Option<regex::Match<'_>>| it.map_or(Bson::Null, |it| it.as_str().into());
    doc! {
        "match": whole.map_or("", |it| it.as_str()),
        "idx": count(input[..start].chars().count()),
        "captures": captures.iter().skip(1).map(group).collect::<Vec<_>>(),
    }
}

/// Runs a search. `None` if input or pattern is null.
fn with_pattern<T>(
    arguments: &Arguments<'_>,
    search: impl Fn(&Regex, &str) -> T,
) -> Result<Option<T>, Fault> {
    let input = arguments.value(0)?;
    let compiled;
    let pattern = match arguments.precomputed() {
        Precomputed::Pattern(pattern) => pattern,
        Precomputed::Nothing | Precomputed::Order(_) => {
            compiled = compile(arguments.name(), &arguments.value(1)?, &arguments.value(2)?)?;
            &compiled
        }
    };
    let input = match input {
        Some(Bson::String(input)) => input,
        value if is_null_or_missing(&value) => return Ok(None),
        _ => {
            let message = format!("{} needs 'input' to be of type string", arguments.name());
            return Err(Fault::location(51104, message));
        }
    };
    Ok(pattern.as_ref().map(|pattern| search(&pattern.0, &input)))
}

/// Compiles a pattern. `None` for null.
fn compile(name: &str, regex: &Value, options: &Value) -> Result<Option<ExpressionRegex>, Fault> {
    let invalid = |code, message: &str| Err(Fault::location(code, format!("{name}{message}")));
    let given = match options {
        Some(Bson::String(options)) => Some(options.as_str()),
        value if is_null_or_missing(value) => None,
        _ => return invalid(51106, " needs 'options' to be of type string"),
    };
    let (pattern, own) = match regex {
        Some(Bson::String(pattern)) => (pattern.as_str(), ""),
        Some(Bson::RegularExpression(regex)) => (regex.pattern.as_str(), regex.options.as_str()),
        value if is_null_or_missing(value) => return Ok(None),
        _ => return invalid(51105, " needs 'regex' to be of type string or regex"),
    };
    if given.is_some() && !own.is_empty() {
        let message = ": found regex option(s) specified in both 'regex' and 'option' fields";
        return invalid(51107, message);
    }
    if pattern.contains('\0') {
        return invalid(51109, ": regular expression cannot contain an embedded null byte");
    }
    let options = given.unwrap_or(own);
    if options.contains('\0') {
        return invalid(51110, ": regular expression options cannot contain an embedded null byte");
    }
    let mut builder = RegexBuilder::new(&translated(pattern));
    for flag in options.chars() {
        match flag {
            'i' => builder.case_insensitive(true),
            'm' => builder.multi_line(true),
            's' => builder.dot_matches_new_line(true),
            'x' => builder.ignore_whitespace(true),
            _ => return invalid(51108, &format!(" invalid flag in regex options: {flag}")),
        };
    }
    match builder.build() {
        Ok(regex) => Ok(Some(ExpressionRegex(regex))),
        Err(error) => Err(Fault::location(51111, format!("Invalid Regex in {name}: {error}"))),
    }
}

/// Translates a PCRE pattern to the syntax of the crate `regex`. In PCRE, `\d`, `\w`, `\s` and `\b`
/// are ASCII only.
fn translated(pattern: &str) -> String {
    let mut translated = String::with_capacity(pattern.len());
    let mut characters = pattern.chars();
    let mut in_class = false;
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some(class @ ('d' | 'D' | 'w' | 'W' | 's' | 'S')) if in_class => {
                    translated.push_str(&format!("[[:{}:]]", posix(class)));
                }
                Some(class @ ('d' | 'w' | 's' | 'b' | 'B')) => {
                    translated.push_str(&format!("(?-u:\\{class})"));
                }
                Some(class @ ('D' | 'W' | 'S')) => {
                    translated.push_str(&format!("[[:{}:]]", posix(class)));
                }
                Some(other) => translated.extend(['\\', other]),
                None => translated.push('\\'),
            },
            '[' if in_class => translated.push_str("\\["),
            '[' => {
                in_class = true;
                translated.push('[');
            }
            ']' if in_class => {
                in_class = false;
                translated.push(']');
            }
            // Set operators of the crate `regex`, literal characters in PCRE.
            '&' | '~' if in_class => translated.extend(['\\', character]),
            other => translated.push(other),
        }
    }
    translated
}

fn posix(class: char) -> &'static str {
    match class {
        'd' => "digit",
        'D' => "^digit",
        'w' => "word",
        'W' => "^word",
        's' => "space",
        _ => "^space",
    }
}
