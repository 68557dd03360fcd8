//! Filters of partial indexes.

use bson::{Bson, Document};

use crate::{Code, Fault, text};

/// Fails for conditions that partial indexes do not support: negations, regular expressions,
/// conditions on elements.
pub(super) fn check(expression: &Document) -> Result<(), Fault> {
    for (name, condition) in expression {
        let supported = match name.as_str() {
            "$and" | "$or" => {
                for clause in condition.as_array().into_iter().flatten() {
                    if let Some(clause) = clause.as_document() {
                        check(clause)?;
                    }
                }
                true
            }
            name => !name.starts_with('$') && is_supported(condition),
        };
        if !supported {
            let clause = text::field(name, condition);
            return Err(Fault::new(
                Code::CANNOT_CREATE_INDEX,
                format!("Expression not supported in partial index: {clause}\n"),
            ));
        }
    }
    Ok(())
}

fn is_supported(condition: &Bson) -> bool {
    let is_pattern = |it: &Bson| matches!(it, Bson::RegularExpression(_));
    let Bson::Document(operators) = condition else { return !is_pattern(condition) };
    if !operators.keys().next().is_some_and(|it| it.starts_with('$')) {
        return true;
    }
    operators.iter().all(|(operator, argument)| match operator.as_str() {
        "$eq" | "$gt" | "$gte" | "$lt" | "$lte" | "$type" => true,
        "$in" => !argument.as_array().into_iter().flatten().any(is_pattern),
        "$exists" => crate::value::is_truthy(argument),
        // A DBRef is a value.
        other => matches!(other, "$ref" | "$id" | "$db"),
    })
}

/// Fails for operators that are not permitted in a partial index, before the filter is parsed.
pub(super) fn check_operators(expression: &Document) -> Result<(), Fault> {
    for (name, condition) in expression {
        let message = || format!("{name} is not allowed in this context");
        match name.as_str() {
            "$expr" | "$jsonSchema" => {
                return Err(Fault::new(Code::named(224, "QueryFeatureNotAllowed"), message()));
            }
            "$where" | "$text" => return Err(Fault::bad_value(message())),
            _ => {}
        }
        for clause in condition.as_array().into_iter().flatten().filter_map(Bson::as_document) {
            if name.starts_with('$') {
                check_operators(clause)?;
            }
        }
    }
    Ok(())
}
