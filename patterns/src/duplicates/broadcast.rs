//! Check that a filter does not contain the datacenter's field, so that it reaches every copy.

use bson::{Bson, Document};

use crate::path::overlaps;
use steadfast::error::{Error, Result};

/// Rejects a filter that reads, or may read, the datacenter's field.
pub(crate) fn check(filter: &Document, datacenter: &str) -> Result<()> {
    if !filter_reads(filter, datacenter) {
        return Ok(());
    }
    Err(Error::invalid_argument(format!(
        "the filter contains {datacenter:?}: a document may be in any datacenter, so such a query may miss \
         some; leave the field out to read all datacenters"
    )))
}

fn filter_reads(filter: &Document, field: &str) -> bool {
    filter.iter().any(|(name, value)| match (name.as_str(), value) {
        ("$and" | "$or" | "$nor", Bson::Array(parts)) => {
            parts.iter().filter_map(Bson::as_document).any(|part| filter_reads(part, field))
        }
        ("$expr", expression) => expression_reads(expression, field),
        ("$jsonSchema", Bson::Document(schema)) => schema_constrains(schema, field),
        ("$where", code) => javascript_mentions(code, field),
        (name, _) => overlaps(name, field),
    })
}

/// Returns `true` if an expression reads the field. A string that begins with a dollar sign counts as a path,
/// also within `$literal`; a path in a variable (`$$doc.datacenter`) counts as one of the document.
fn expression_reads(expression: &Bson, field: &str) -> bool {
    match expression {
        Bson::String(text) => {
            let path = match text.strip_prefix("$$") {
                Some(variable) => variable.split_once('.').map(|(_, path)| path),
                None => text.strip_prefix('$'),
            };
            path.is_some_and(|path| overlaps(path, field))
        }
        Bson::Array(parts) => parts.iter().any(|part| expression_reads(part, field)),
        Bson::Document(parts) => parts.iter().any(|(operator, part)| match operator.as_str() {
            "$getField" => get_field_reads(part, field),
            "$function" => javascript_mentions(part, field) || expression_reads(part, field),
            _ => expression_reads(part, field),
        }),
        _ => false,
    }
}

/// Returns `true` if a `$getField` with this argument may read the field. The name is a string or a `$literal`; a
/// computed name may be any.
fn get_field_reads(argument: &Bson, field: &str) -> bool {
    let (name, input) = match argument {
        Bson::Document(parts) if parts.contains_key("field") => {
            (parts.get("field"), parts.get("input"))
        }
        name => (Some(name), None),
    };
    let literal = |it: &Document| it.get("$literal").or(it.get("$const")).cloned();
    let name = name.map(|name| name.as_document().and_then(literal).unwrap_or(name.clone()));
    let named = match name.as_ref() {
        Some(Bson::String(name)) => overlaps(name, field),
        _ => true,
    };
    named || input.is_some_and(|input| expression_reads(input, field))
}

/// Returns `true` if JavaScript contains the first name of the field's path as a word.
fn javascript_mentions(code: &Bson, field: &str) -> bool {
    let first = field.split('.').next().unwrap_or(field);
    let in_text = |text: &str| {
        let is_of_word = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '$');
        text.split(|letter| !is_of_word(letter)).any(|word| word == first)
    };
    match code {
        Bson::String(text) | Bson::JavaScriptCode(text) => in_text(text),
        Bson::JavaScriptCodeWithScope(code) => in_text(&code.code),
        Bson::Document(parts) => {
            parts.get("body").is_some_and(|body| javascript_mentions(body, field))
        }
        _ => false,
    }
}

/// Returns `true` if a JSON schema constrains the field. `patternProperties` may match any.
fn schema_constrains(schema: &Document, field: &str) -> bool {
    schema.iter().any(|(keyword, value)| match (keyword.as_str(), value) {
        ("properties", Bson::Document(named)) => named.keys().any(|name| overlaps(name, field)),
        ("patternProperties", _) => true,
        ("required", Bson::Array(named)) => in_list(named, field),
        ("dependencies", Bson::Document(named)) => named.iter().any(|(name, needed)| {
            overlaps(name, field)
                || match needed {
                    Bson::Array(needed) => in_list(needed, field),
                    Bson::Document(needed) => schema_constrains(needed, field),
                    _ => false,
                }
        }),
        ("allOf" | "anyOf" | "oneOf", Bson::Array(parts)) => {
            parts.iter().filter_map(Bson::as_document).any(|part| schema_constrains(part, field))
        }
        ("not", Bson::Document(part)) => schema_constrains(part, field),
        _ => false,
    })
}

fn in_list(names: &[Bson], field: &str) -> bool {
    names.iter().filter_map(Bson::as_str).any(|name| overlaps(name, field))
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    #[test]
    fn filters_with_the_datacenter_field_are_rejected_at_any_depth() {
        for filter in [
            doc! { "datacenter": "alfa" },
            doc! { "userid": 1, "datacenter": { "$in": ["alfa"] } },
            doc! { "$or": [{ "userid": 1 }, { "$and": [{ "datacenter": "alfa" }] }] },
            doc! { "$expr": { "$eq": ["$datacenter", "alfa"] } },
            doc! { "$expr": { "$not": { "$eq": ["$$ROOT.datacenter", "alfa"] } } },
            doc! { "datacenter.name": "alfa" },
            doc! { "$expr": { "$eq": [{ "$getField": "datacenter" }, "alfa"] } },
            doc! { "$expr": { "$eq": [
                { "$getField": { "field": { "$literal": "datacenter" }, "input": "$$ROOT" } }, "alfa",
            ] } },
            doc! { "$expr": { "$getField": { "field": { "$concat": ["data", "center"] }, "input": "$$ROOT" } } },
            doc! { "$expr": { "$getField": { "field": "name", "input": "$datacenter" } } },
            doc! { "$expr": { "$let": { "vars": { "it": "$$ROOT" }, "in": "$$it.datacenter" } } },
            doc! { "$expr": { "$function": {
                "body": "function(it) { return it.datacenter == 'alfa' }", "args": ["$$ROOT"], "lang": "js",
            } } },
            doc! { "$where": "this.datacenter == 'alfa'" },
            doc! { "$where": Bson::JavaScriptCode("function() { return obj['datacenter'] }".to_owned()) },
            doc! { "userid": 1, "$or": [{ "$where": "this.datacenter" }] },
            doc! { "$jsonSchema": { "properties": { "datacenter": { "enum": ["alfa"] } } } },
            doc! { "$jsonSchema": { "required": ["datacenter"] } },
            doc! { "$jsonSchema": { "anyOf": [{ "not": { "required": ["datacenter"] } }] } },
            doc! { "$jsonSchema": { "dependencies": { "userid": ["datacenter"] } } },
            doc! { "$jsonSchema": { "patternProperties": { "^data": { "enum": ["alfa"] } } } },
        ] {
            let error = check(&filter, "datacenter").expect_err(&filter.to_string());
            assert!(error.to_string().contains("leave the field out"), "{error}");
        }
        for filter in [
            doc! { "meta": { "dc": "alfa" } },
            doc! { "$where": "this.meta.dc == 'alfa'" },
            doc! { "$expr": { "$getField": { "field": "dc", "input": "$meta" } } },
            doc! { "$jsonSchema": { "properties": { "meta": { "properties": { "dc": {} } } } } },
        ] {
            check(&filter, "meta.dc").expect_err(&filter.to_string());
        }
    }

    #[test]
    fn filters_without_the_datacenter_field_are_accepted() {
        for filter in [
            doc! {},
            doc! { "userid": 123 },
            doc! { "datacenters": 2, "text": "datacenter" },
            doc! { "$or": [{ "userid": 1 }, { "text": "$datacenter" }] },
            doc! { "$expr": { "$eq": ["$userid", "$text"] } },
            doc! { "$expr": { "$eq": [{ "$getField": "userid" }, 1] } },
            doc! { "$expr": { "$getField": { "field": { "$literal": "$price" }, "input": "$$ROOT" } } },
            doc! { "$where": "this.userid == 123 && this.datacenters" },
            doc! { "$jsonSchema": { "properties": { "userid": { "enum": [1] } }, "required": ["text"] } },
        ] {
            check(&filter, "datacenter").unwrap();
        }
    }
}
