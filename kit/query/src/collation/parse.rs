//! Parses the option `collation`.

use bson::{Bson, Document};

use super::{CaseFirst, CollationRules};
use crate::{
    Code, Fault,
    value::{Number, format_document, type_name},
};

/// Version of the collation data in servers of these versions.
pub(super) const VERSION: &str = "57.1";

/// Parses the rules. `None` for simple binary comparison.
pub(super) fn rules(options: &Document) -> Result<Option<CollationRules>, Fault> {
    if options.is_empty() {
        return Ok(None);
    }
    let mut rules = CollationRules {
        locale: String::new(),
        strength: 3,
        case_level: false,
        case_first: CaseFirst::Off,
        numeric: false,
        max_variable: "punct".into(),
    };
    for (name, value) in options {
        read(&mut rules, name, value).map_err(|it| named_in(it, options))?;
    }
    if !options.contains_key("locale") {
        let text = "BSON field 'collation.locale' is missing but a required field";
        return Err(Fault::location(40414, text));
    }
    if rules.locale == "simple" {
        return Ok(None);
    }
    known_locale(&rules.locale, options)?;
    if rules.case_first != CaseFirst::Off && !rules.case_level && rules.strength < 3 {
        return Err(Fault::bad_value(format!(
            "'caseFirst' is invalid unless 'caseLevel' is on or 'strength' is greater than 2 in: {}",
            format_document(options)
        )));
    }
    Ok(Some(rules))
}

/// The version error also shows the requested collation.
fn named_in(fault: Fault, options: &Document) -> Fault {
    match fault.code.number {
        161 => Fault::new(
            fault.code,
            format!("{} Requested collation spec: {}", fault.message, format_document(options)),
        ),
        _ => fault,
    }
}

fn read(rules: &mut CollationRules, name: &str, value: &Bson) -> Result<(), Fault> {
    match name {
        "locale" => rules.locale = text(name, value)?.to_owned(),
        "strength" => rules.strength = strength(value)?,
        "caseLevel" => rules.case_level = flag(name, value)?,
        "caseFirst" => {
            rules.case_first = match text(name, value)? {
                "off" => CaseFirst::Off,
                "upper" => CaseFirst::Upper,
                "lower" => CaseFirst::Lower,
                other => return Err(not_a_value(name, other)),
            }
        }
        "numericOrdering" => rules.numeric = flag(name, value)?,
        "alternate" => match text(name, value)? {
            "non-ignorable" => {}
            "shifted" => return Err(not_implemented("alternate: shifted")),
            other => return Err(not_a_value(name, other)),
        },
        "maxVariable" => match text(name, value)? {
            known @ ("punct" | "space") => rules.max_variable = known.to_owned(),
            other => return Err(not_a_value(name, other)),
        },
        "normalization" | "backwards" => {
            if flag(name, value)? {
                return Err(not_implemented(name));
            }
        }
        "version" => {
            let version = text(name, value)?;
            if version != VERSION {
                return Err(Fault::new(
                    Code::named(161, "IncompatibleCollationVersion"),
                    format!(
                        "Requested collation version {version} but the only available collator \
                         version was {VERSION}."
                    ),
                ));
            }
        }
        other => {
            let text = format!("BSON field 'collation.{other}' is an unknown field.");
            return Err(Fault::location(40415, text));
        }
    }
    Ok(())
}

fn known_locale(locale: &str, options: &Document) -> Result<(), Fault> {
    if matches!(locale, "en" | "en_US") {
        return Ok(());
    }
    let options = format_document(options);
    if locale.is_empty() {
        let text = format!("Field 'locale' cannot be the empty string in: {options}");
        return Err(Fault::bad_value(text));
    }
    let language = locale.split(['_', '@']).next().unwrap_or(locale);
    let plausible = (2..=3).contains(&language.len())
        && language.bytes().all(|it| it.is_ascii_lowercase())
        && (language != "en" || locale == "en_US_POSIX");
    if plausible {
        return Err(not_implemented(&format!("locale: {locale}")));
    }
    let known = language.eq_ignore_ascii_case("en");
    let advice = if known { ". Did you mean 'en'?" } else { "" };
    Err(Fault::bad_value(format!("Field 'locale' is invalid in: {options}{advice}")))
}

fn strength(value: &Bson) -> Result<u8, Fault> {
    let Some(number) = Number::of(value) else {
        return Err(wrong_type("strength", value, "types '[long, int, decimal, double']"));
    };
    match number.truncated() {
        Some(1) => Ok(1),
        Some(2) => Ok(2),
        Some(3) => Ok(3),
        Some(number @ (4 | 5)) => Err(not_implemented(&format!("strength: {number}"))),
        Some(number) if number > 5 => Err(Fault::location(
            51024,
            format!("BSON field 'strength' value must be <= 5, actual value '{number}'"),
        )),
        number => Err(not_a_value("strength", &number.unwrap_or(0).to_string())),
    }
}

fn text<'v>(name: &str, value: &'v Bson) -> Result<&'v str, Fault> {
    value.as_str().ok_or_else(|| wrong_type(name, value, "type 'string'"))
}

fn flag(name: &str, value: &Bson) -> Result<bool, Fault> {
    match value {
        Bson::Boolean(flag) => Ok(*flag),
        other if name == "backwards" => Err(Fault::type_mismatch(format!(
            "Field 'backwards' should be a boolean value, but found: {}",
            type_name(other)
        ))),
        other => Err(wrong_type(name, other, "type 'bool'")),
    }
}

fn wrong_type(name: &str, value: &Bson, expected: &str) -> Fault {
    let kind = type_name(value);
    Fault::type_mismatch(format!(
        "BSON field 'collation.{name}' is the wrong type '{kind}', expected {expected}"
    ))
}

fn not_a_value(name: &str, value: &str) -> Fault {
    Fault::bad_value(format!(
        "Enumeration value '{value}' for field 'collation.{name}' is not a valid value."
    ))
}

fn not_implemented(what: &str) -> Fault {
    Fault::new(Code::NOT_IMPLEMENTED, format!("a collation with {what} is not implemented"))
}
