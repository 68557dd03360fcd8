//! Object operators: fields, merging, conversion to arrays.

use bson::{Bson, Document, doc};

use super::{
    arrays::count,
    coerce::{format_value, is_null_or_missing, type_name_of},
    node::{Arguments, ExpressionNode, Value},
    operators::{AggregationOperator, NamedArguments},
    parse::{ExpressionParser, plain_constant},
};
use crate::{
    Fault,
    value::{is_nullish, type_name},
};

pub(super) fn parse_literal(
    _parser: &mut ExpressionParser<'_>,
    _operator: &'static AggregationOperator,
    argument: &Bson,
) -> Result<ExpressionNode, Fault> {
    Ok(ExpressionNode::Constant(Some(argument.clone())))
}

/// Never called: literals become constants while parsing. The table of operators needs a function.
pub(super) fn literal(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    arguments.value(0)
}

/// Documents have no metadata here: text search and geospatial queries are not supported.
pub(super) fn parse_meta(
    _parser: &mut ExpressionParser<'_>,
    _operator: &'static AggregationOperator,
    argument: &Bson,
) -> Result<ExpressionNode, Fault> {
    match argument {
        Bson::String(kind) if kind == "textScore" => {
            let message = "query requires text score metadata, but it is not available";
            Err(Fault::location(40218, message))
        }
        Bson::String(kind) => {
            Err(Fault::location(17308, format!("Unsupported argument to $meta: {kind}")))
        }
        _ => Err(Fault::location(17307, "$meta only supports string arguments")),
    }
}

pub(super) fn merge(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    let mut merged = Document::new();
    for index in 0..arguments.len() {
        match arguments.value(index)? {
            Some(Bson::Array(array)) if arguments.len() == 1 => {
                for element in array {
                    merge_into(&mut merged, Some(element))?;
                }
            }
            value => merge_into(&mut merged, value)?,
        }
    }
    Ok(Some(merged.into()))
}

fn merge_into(merged: &mut Document, value: Value) -> Result<(), Fault> {
    match value {
        Some(Bson::Document(document)) => merged.extend(document),
        value if is_null_or_missing(&value) => {}
        value => return Err(not_mergeable(&value)),
    }
    Ok(())
}

/// Error of `$mergeObjects` for other types.
pub(crate) fn not_mergeable(value: &Value) -> Fault {
    let message = "$mergeObjects requires object inputs, but input";
    Fault::location(
        40400,
        format!("{message} {} is of type {}", format_value(value), type_name_of(value)),
    )
}

pub(super) fn object_to_array(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    match arguments.value(0)? {
        Some(Bson::Document(document)) => {
            let pair = |(name, value): (String, Bson)| Bson::from(doc! { "k": name, "v": value });
            Ok(Some(Bson::Array(document.into_iter().map(pair).collect())))
        }
        value if is_null_or_missing(&value) => Ok(Some(Bson::Null)),
        value => {
            let message = "$objectToArray requires a document input, found:";
            Err(Fault::location(40390, format!("{message} {}", type_name_of(&value))))
        }
    }
}

pub(super) fn array_to_object(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    let array = match arguments.value(0)? {
        Some(Bson::Array(array)) => array,
        value if is_null_or_missing(&value) => return Ok(Some(Bson::Null)),
        value => {
            let message = "$arrayToObject requires an array input, found:";
            return Err(Fault::location(40386, format!("{message} {}", type_name_of(&value))));
        }
    };
    let mut object = Document::new();
    let pairs = matches!(array.first(), Some(Bson::Array(_)));
    for element in array {
        let (name, value) = match element {
            Bson::Array(pair) if pairs => from_pair(pair)?,
            Bson::Document(pair) if !pairs => from_named_pair(pair)?,
            other if object.is_empty() && !pairs && !matches!(other, Bson::Array(_)) => {
                let message = "Unrecognised input type format for $arrayToObject:";
                return Err(Fault::location(40398, format!("{message} {}", type_name(&other))));
            }
            other => {
                let message = "$arrayToObject requires a consistent input format, now found:";
                let code = if pairs { 40396 } else { 40391 };
                return Err(Fault::location(code, format!("{message} {}", type_name(&other))));
            }
        };
        if name.contains('\0') {
            let message = "Key field cannot contain an embedded null byte";
            return Err(Fault::location(4_940_400, message));
        }
        object.insert(name, value);
    }
    Ok(Some(object.into()))
}

fn from_pair(pair: Vec<Bson>) -> Result<(String, Bson), Fault> {
    match <[Bson; 2]>::try_from(pair) {
        Ok([Bson::String(name), value]) => Ok((name, value)),
        Ok([other, _]) => {
            let message = "$arrayToObject requires keys of type string. Found key type:";
            Err(Fault::location(40395, format!("{message} {}", type_name(&other))))
        }
        Err(pair) => {
            let message = "$arrayToObject requires an array of size 2 arrays, found array of size:";
            Err(Fault::location(40397, format!("{message} {}", pair.len())))
        }
    }
}

fn from_named_pair(mut pair: Document) -> Result<(String, Bson), Fault> {
    if pair.len() != 2 {
        let message = "$arrayToObject requires an object keys of 'k' and 'v'. Found keys:";
        return Err(Fault::location(40392, format!("{message} {}", pair.len())));
    }
    match (pair.remove("k"), pair.remove("v")) {
        (Some(Bson::String(name)), Some(value)) => Ok((name, value)),
        (Some(other), Some(_)) => {
            let message = "$arrayToObject requires 'k' to be of type string. Found type:";
            Err(Fault::location(40394, format!("{message} {}", type_name(&other))))
        }
        _ => {
            let message = "$arrayToObject requires an object with keys 'k' and 'v'";
            Err(Fault::location(40393, message))
        }
    }
}

/// Error codes of an operator whose `field` must be a constant string.
struct FieldCodes {
    reference: i32,
    computed: i32,
    not_a_string: i32,
}

const GET_FIELD_CODES: FieldCodes =
    FieldCodes { reference: 5_654_600, computed: 5_654_601, not_a_string: 5_654_602 };
const SET_FIELD_CODES: FieldCodes =
    FieldCodes { reference: 4_161_108, computed: 4_161_106, not_a_string: 4_161_107 };

fn field_constant(name: &str, field: &Bson, codes: &FieldCodes) -> Result<ExpressionNode, Fault> {
    match plain_constant(field) {
        Some(Some(Bson::String(field))) => Ok(ExpressionNode::Constant(Some(field.into()))),
        Some(other) => Err(Fault::location(
            codes.not_a_string,
            format!(
                "{name} requires 'field' to evaluate to type String, but got {}",
                type_name_of(&other)
            ),
        )),
        None if matches!(field, Bson::String(_)) => Err(Fault::location(
            codes.reference,
            format!("{field} is a field path reference which is not allowed in this context."),
        )),
        None => Err(Fault::location(
            codes.computed,
            format!("{name} requires 'field' to evaluate to a constant"),
        )),
    }
}

const GET_FIELD: NamedArguments = NamedArguments {
    fields: &[("field", Some(3_041_702)), ("input", Some(3_041_703))],
    not_an_object: 3_041_701,
    unknown: 3_041_701,
};

pub(super) fn parse_get_field(
    parser: &mut ExpressionParser<'_>,
    operator: &'static AggregationOperator,
    argument: &Bson,
) -> Result<ExpressionNode, Fault> {
    let short = match argument {
        Bson::Document(document) => {
            document.keys().next().is_some_and(|name| name.starts_with('$'))
        }
        _ => true,
    };
    if short {
        let field = field_constant(operator.name, argument, &GET_FIELD_CODES)?;
        let input = parser.current_document();
        return parser.call(operator, vec![Some(field), Some(input)]);
    }
    let mut arguments = vec![None, None];
    for (place, value) in GET_FIELD.given(operator.name, argument)? {
        arguments[place] = Some(if place == 0 {
            field_constant(operator.name, value, &GET_FIELD_CODES)?
        } else {
            parser.expression(value)?
        });
    }
    GET_FIELD.complete(operator.name, |place| arguments[place].is_some())?;
    parser.call(operator, arguments)
}

pub(super) fn get_field(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    let Some(Bson::String(field)) = arguments.value(0)? else { return Ok(None) };
    match arguments.value(1)? {
        Some(Bson::Document(mut document)) => Ok(document.remove(field)),
        Some(value) if is_nullish(&value) => Ok(Some(Bson::Null)),
        _ => Ok(None),
    }
}

const SET_FIELD: NamedArguments = NamedArguments {
    fields: &[("field", Some(4_161_102)), ("value", Some(4_161_103)), ("input", Some(4_161_109))],
    not_an_object: 4_161_100,
    unknown: 4_161_101,
};
const UNSET_FIELD: NamedArguments = NamedArguments {
    fields: &[("field", Some(4_161_102)), ("input", Some(4_161_109))],
    not_an_object: 4_161_100,
    unknown: 4_161_101,
};

pub(super) fn parse_set_field(
    parser: &mut ExpressionParser<'_>,
    operator: &'static AggregationOperator,
    argument: &Bson,
) -> Result<ExpressionNode, Fault> {
    let mut arguments = vec![None, None, None];
    for (place, value) in SET_FIELD.given(operator.name, argument)? {
        arguments[place] = Some(if place == 0 {
            field_constant(operator.name, value, &SET_FIELD_CODES)?
        } else {
            parser.expression(value)?
        });
    }
    SET_FIELD.complete(operator.name, |place| arguments[place].is_some())?;
    parser.call(operator, arguments)
}

/// Parses `$unsetField` as `$setField` with a missing value.
pub(super) fn parse_unset_field(
    parser: &mut ExpressionParser<'_>,
    operator: &'static AggregationOperator,
    argument: &Bson,
) -> Result<ExpressionNode, Fault> {
    let mut arguments = vec![None, Some(ExpressionNode::Constant(None)), None];
    for (place, value) in UNSET_FIELD.given(operator.name, argument)? {
        if place == 0 {
            arguments[0] = Some(field_constant(operator.name, value, &SET_FIELD_CODES)?);
        } else {
            arguments[2] = Some(parser.expression(value)?);
        }
    }
    UNSET_FIELD.complete(operator.name, |place| arguments[2 * place].is_some())?;
    parser.call(operator, arguments)
}

pub(super) fn set_field(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    let field = arguments.value(0)?;
    let input = arguments.value(2)?;
    if is_null_or_missing(&input) {
        return Ok(Some(Bson::Null));
    }
    let (Some(Bson::String(field)), Some(Bson::Document(mut document))) = (field, input) else {
        let message = "$setField requires 'input' to evaluate to type Object";
        return Err(Fault::location(4_161_105, message));
    };
    match arguments.value(1)? {
        Some(value) => document.insert(field, value),
        None => document.remove(field),
    };
    Ok(Some(document.into()))
}

pub(super) fn binary_size(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    match arguments.value(0)? {
        Some(Bson::String(text)) => Ok(Some(count(text.len()))),
        Some(Bson::Binary(binary)) => Ok(Some(count(binary.bytes.len()))),
        value if is_null_or_missing(&value) => Ok(Some(Bson::Null)),
        value => {
            let message = "$binarySize requires a string or BinData argument, found:";
            Err(Fault::location(51276, format!("{message} {}", type_name_of(&value))))
        }
    }
}

pub(super) fn bson_size(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    match arguments.value(0)? {
        Some(Bson::Document(document)) => {
            let bytes = bson::document_to_vec(&document)
                .map_err(|error| Fault::bad_value(error.to_string()))?;
            Ok(Some(count(bytes.len())))
        }
        value if is_null_or_missing(&value) => Ok(Some(Bson::Null)),
        value => {
            let message = "$bsonSize requires a document input, found:";
            Err(Fault::location(31393, format!("{message} {}", type_name_of(&value))))
        }
    }
}
