//! Comparison of values with expected values: "Evaluating Matches" in the specification.

use std::cmp::Ordering;

use bson::{Bson, Document};

use super::{
    entities::Entities,
    test_error::{TestError, TestResult},
};

/// Compares values. Entities are for operators that name them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Matcher<'a> {
    entities: &'a Entities,
}

impl<'a> Matcher<'a> {
    pub(super) fn new(entities: &'a Entities) -> Self {
        Self { entities }
    }

    /// Compares a root-level document, which may have additional fields.
    pub(super) fn root(&self, expected: &Document, actual: &Document) -> TestResult<()> {
        self.document(expected, actual, true)
    }

    /// Compares a value; `None` is a missing one.
    pub(super) fn value(
        &self,
        expected: &Bson,
        actual: Option<&Bson>,
        is_root: bool,
    ) -> TestResult<()> {
        if let Some((operator, operand)) = operator(expected) {
            return self.operator(operator, operand, actual, is_root);
        }
        let Some(actual) = actual else {
            return Err(TestError::failed(format!("expected {expected}, found no value")));
        };
        match (expected, actual) {
            (Bson::Document(expected), Bson::Document(actual)) => {
                self.document(expected, actual, is_root)
            }
            (Bson::Array(expected), Bson::Array(actual)) => self.array(expected, actual),
            _ if scalars_are_equal(expected, actual) => Ok(()),
            _ => Err(TestError::failed(format!("expected {expected}, found {actual}"))),
        }
    }

    /// Compares documents one by one, each as a root-level document.
    pub(super) fn documents(&self, expected: &Bson, actual: &[Document]) -> TestResult<()> {
        let Bson::Array(items) = expected else {
            let actual = actual.iter().cloned().map(Bson::Document).collect();
            return self.value(expected, Some(&Bson::Array(actual)), true);
        };
        same_length(items.len(), actual.len(), || format!("{actual:?}"))?;
        for (at, (expected, actual)) in items.iter().zip(actual).enumerate() {
            self.value(expected, Some(&actual.clone().into()), true)
                .map_err(|error| error.within(at))?;
        }
        Ok(())
    }

    fn document(&self, expected: &Document, actual: &Document, is_root: bool) -> TestResult<()> {
        for (key, value) in expected {
            self.value(value, actual.get(key), false).map_err(|error| error.within(key))?;
        }
        let extra = actual.keys().find(|key| !expected.contains_key(key));
        match extra.filter(|_| !is_root) {
            Some(key) => Err(TestError::failed(format!("unexpected field {key} in {actual}"))),
            None => Ok(()),
        }
    }

    fn array(&self, expected: &[Bson], actual: &[Bson]) -> TestResult<()> {
        same_length(expected.len(), actual.len(), || format!("{actual:?}"))?;
        for (at, (expected, actual)) in expected.iter().zip(actual).enumerate() {
            self.value(expected, Some(actual), false).map_err(|error| error.within(at))?;
        }
        Ok(())
    }

    fn operator(
        &self,
        operator: &str,
        operand: &Bson,
        actual: Option<&Bson>,
        is_root: bool,
    ) -> TestResult<()> {
        let present =
            || actual.ok_or_else(|| TestError::failed(format!("{operator}: found no value")));
        let holds = |holds: bool| {
            let shown = actual.map_or_else(|| "no value".to_owned(), ToString::to_string);
            let wrong =
                || TestError::failed(format!("expected {operator} {operand}, found {shown}"));
            if holds { Ok(()) } else { Err(wrong()) }
        };
        match operator {
            "$$exists" => {
                let wanted = operand.as_bool().ok_or("$$exists takes true or false")?;
                holds(actual.is_some() == wanted)
            }
            "$$type" => holds(is_of_type(operand, present()?)?),
            "$$unsetOrMatches" => match actual {
                None => Ok(()),
                Some(actual) => self.value(operand, Some(actual), is_root),
            },
            "$$matchesEntity" => {
                let name = operand.as_str().ok_or("$$matchesEntity takes a name")?;
                self.value(&self.entities.bson(name)?, actual, is_root)
            }
            "$$sessionLsid" => {
                let name = operand.as_str().ok_or("$$sessionLsid takes a name")?;
                holds(present()?.as_document() == Some(&self.entities.session(name)?.id))
            }
            "$$lte" => holds(compare_numbers(present()?, operand).is_some_and(Ordering::is_le)),
            "$$matchesHexBytes" => holds(hex(operand)? == bytes(present()?)),
            "$$matchAsDocument" => {
                let text = present()?.as_str().ok_or("$$matchAsDocument: found no string")?;
                self.value(operand, Some(&extended_json(text)?), false)
            }
            "$$matchAsRoot" => self.value(operand, actual, true),
            other => Err(TestError::failed(format!("unknown operator {other}"))),
        }
    }
}

/// Returns the operator and its operand if the value is a document whose only key begins with `$$`.
fn operator(expected: &Bson) -> Option<(&str, &Bson)> {
    let mut fields = expected.as_document()?.iter();
    let (key, operand) = fields.next()?;
    (key.starts_with("$$") && fields.next().is_none()).then_some((key.as_str(), operand))
}

fn same_length(expected: usize, actual: usize, shown: impl FnOnce() -> String) -> TestResult<()> {
    if expected == actual {
        return Ok(());
    }
    Err(TestError::failed(format!("expected {expected} items, found {actual}: {}", shown())))
}

/// "Flexible Numeric Comparisons": 1, 1 as a long and 1.0 are equal.
pub(super) fn scalars_are_equal(expected: &Bson, actual: &Bson) -> bool {
    match compare_numbers(expected, actual) {
        Some(order) => order.is_eq(),
        None => expected == actual,
    }
}

/// Order of two numbers; `None` for decimals and other types.
fn compare_numbers(a: &Bson, b: &Bson) -> Option<Ordering> {
    let integer = |value: &Bson| match *value {
        Bson::Int32(number) => Some(number.into()),
        Bson::Int64(number) => Some(number),
        _ => None,
    };
    let float = |value: &Bson| match *value {
        Bson::Double(number) => Some(number),
        _ => integer(value).map(|number: i64| number as f64),
    };
    match (integer(a), integer(b)) {
        (Some(a), Some(b)) => Some(a.cmp(&b)),
        _ => float(a)?.partial_cmp(&float(b)?),
    }
}

/// Returns true if the value has one of the types, by the names of the query operator `$type`.
fn is_of_type(types: &Bson, value: &Bson) -> TestResult<bool> {
    let name = steadfast_query::value::type_name(value);
    let is_number = ["int", "long", "double", "decimal"].contains(&name);
    let fits = |wanted: &Bson| {
        let wanted = wanted.as_str().ok_or("$$type takes names")?;
        Ok::<_, TestError>(wanted == name || (wanted == "number" && is_number))
    };
    match types {
        Bson::Array(types) => types.iter().map(fits).try_fold(false, |any, fits| Ok(any | fits?)),
        one => fits(one),
    }
}

/// Decodes hexadecimal digits.
pub(super) fn hex(operand: &Bson) -> TestResult<Vec<u8>> {
    let bad =
        || TestError::failed(format!("{operand} is not an even number of hexadecimal digits"));
    let digits = operand.as_str().filter(|text| text.len() % 2 == 0 && text.is_ascii());
    let digits = digits.ok_or_else(bad)?;
    let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).map_err(|_| bad());
    (0..digits.len()).step_by(2).map(byte).collect()
}

fn bytes(value: &Bson) -> Vec<u8> {
    match value {
        Bson::String(text) => text.clone().into_bytes(),
        Bson::Binary(binary) => binary.bytes.clone(),
        _ => Vec::new(),
    }
}

fn extended_json(text: &str) -> TestResult<Bson> {
    let bad = |error: &dyn std::fmt::Display| {
        TestError::failed(format!("{text} is not a document: {error}"))
    };
    let json: serde_json::Value = serde_json::from_str(text).map_err(|error| bad(&error))?;
    match Bson::try_from(json).map_err(|error| bad(&error))? {
        document @ Bson::Document(_) => Ok(document),
        other => Err(bad(&other)),
    }
}

#[cfg(test)]
mod tests {
    use bson::{bson, doc};

    use super::*;

    fn matches(expected: Bson, actual: Bson) -> bool {
        Matcher::new(&Entities::default()).value(&expected, Some(&actual), true).is_ok()
    }

    #[test]
    fn only_root_documents_may_have_additional_fields() {
        assert!(matches(bson!({ "x": 1 }), bson!({ "x": 1, "y": 1 })));
        assert!(!matches(bson!({ "x": 1, "y": 1 }), bson!({ "x": 1 })));
        assert!(!matches(bson!({ "x": { "y": 1 } }), bson!({ "x": { "y": 1, "z": 1 } })));
        assert!(matches(
            bson!({ "x": { "$$matchAsRoot": { "y": 1 } } }),
            bson!({ "x": { "y": 1, "z": 1 } })
        ));
    }

    #[test]
    fn int_long_and_double_compare_by_value() {
        assert!(matches(bson!({ "x": 1 }), bson!({ "x": 1.0 })));
        assert!(matches(bson!({ "x": 1 }), bson!({ "x": 1_i64 })));
        assert!(!matches(bson!({ "x": 1 }), bson!({ "x": 1.5 })));
        assert!(!matches(bson!({ "x": 1 }), bson!({ "x": "1" })));
        assert!(matches(bson!({ "x": { "$$lte": 2 } }), bson!({ "x": 2.0 })));
        assert!(!matches(bson!({ "x": { "$$lte": 2 } }), bson!({ "x": 2.1 })));
    }

    #[test]
    fn exists_and_unset_or_matches_check_presence() {
        let present = bson!({ "x": { "$$exists": true } });
        let absent = bson!({ "x": { "$$exists": false } });
        assert!(matches(present.clone(), bson!({ "x": null })) && !matches(present, bson!({})));
        assert!(matches(absent.clone(), bson!({})) && !matches(absent, bson!({ "x": null })));
        let optional = bson!({ "x": { "$$unsetOrMatches": 1 } });
        assert!(
            matches(optional.clone(), bson!({})) && matches(optional.clone(), bson!({ "x": 1 }))
        );
        assert!(!matches(optional, bson!({ "x": 2 })));
    }

    #[test]
    fn type_document_and_hex_operators_compare_values() {
        assert!(matches(bson!({ "x": { "$$type": ["int", "long"] } }), bson!({ "x": 1_i64 })));
        assert!(matches(bson!({ "x": { "$$type": "number" } }), bson!({ "x": 1.5 })));
        assert!(!matches(bson!({ "x": { "$$type": "string" } }), bson!({ "x": 1 })));
        let text = bson!({ "x": "{ \"y\": { \"$numberLong\": \"1\" } }" });
        assert!(matches(bson!({ "x": { "$$matchAsDocument": { "y": 1 } } }), text.clone()));
        assert!(!matches(bson!({ "x": { "$$matchAsDocument": {} } }), text));
        assert!(matches(bson!({ "x": { "$$matchesHexBytes": "61" } }), bson!({ "x": "a" })));
        assert!(!matches(bson!({ "x": { "$$matchesHexBytes": "6" } }), bson!({ "x": "a" })));
        assert!(!matches(bson!({ "x": { "$$nonsense": 1 } }), bson!({ "x": 1 })));
    }

    #[test]
    fn only_documents_of_a_cursor_are_roots() {
        assert!(!matches(bson!([1, 2]), bson!([1, 2, 3])));
        assert!(!matches(bson!([{ "x": 1 }]), bson!([{ "x": 1, "y": 1 }])));
        let entities = Entities::default();
        let matcher = Matcher::new(&entities);
        assert!(matcher.documents(&bson!([{ "x": 1 }]), &[doc! { "x": 1, "y": 1 }]).is_ok());
        assert!(matcher.documents(&bson!([]), &[doc! {}]).is_err());
    }
}
