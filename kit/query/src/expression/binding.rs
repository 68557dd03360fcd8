//! Operators that bind variables: `$let`, `$map`, `$filter`, `$reduce`.

use bson::Bson;

use super::{
    coerce::{format_value, int32, is_null_or_missing, type_name_of},
    logic::holds,
    node::{Arguments, BoundVariable, Call, EvaluationContext, ExpressionNode, Precomputed, Value},
    operators::{AggregationOperator, NamedArguments},
    parse::{ExpressionParser, variable_name},
    size_limit::SizeLimit,
};
use crate::Fault;

const LET: NamedArguments = NamedArguments {
    fields: &[("vars", Some(16876)), ("in", Some(16877))],
    not_an_object: 16874,
    unknown: 16875,
};

/// Parses `$let`. Arguments: the expression `in`, then the values of the variables.
pub(super) fn parse_let(
    parser: &mut ExpressionParser<'_>,
    operator: &'static AggregationOperator,
    argument: &Bson,
) -> Result<ExpressionNode, Fault> {
    let given = LET.given(operator.name, argument)?;
    let find = |place| given.iter().find(|(it, _)| *it == place).map(|(_, value)| *value);
    LET.complete(operator.name, |place| find(place).is_some())?;
    let Some(Bson::Document(variables)) = find(0) else {
        return Err(Fault::location(10065, "invalid parameter: expected an object (vars)"));
    };
    let mut names = Vec::new();
    let mut values = Vec::new();
    for (name, value) in variables {
        variable_name(name)?;
        names.push(name.clone());
        values.push(Some(parser.expression(value)?));
    }
    let bound = names.iter().map(String::as_str).collect::<Vec<_>>();
    let inner = parser.scoped(&bound, find(1).unwrap_or(&Bson::Null))?;
    let mut arguments = vec![Some(inner)];
    arguments.extend(values);
    Ok(ExpressionNode::Call(Box::new(Call {
        operator,
        arguments,
        names,
        precomputed: Precomputed::Nothing,
    })))
}

pub(super) fn evaluate_let(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    let values = (1..arguments.len()).map(|it| arguments.value(it));
    let values = values.collect::<Result<Vec<_>, _>>()?;
    let mut limit = SizeLimit::new(arguments.name());
    values.iter().flatten().try_for_each(|it| limit.take(it))?;
    within(arguments, arguments.names(), &values, arguments.context())
}

/// Evaluates the first argument with all these variables.
fn within(
    arguments: &Arguments<'_>,
    names: &[String],
    values: &[Value],
    context: EvaluationContext<'_>,
) -> Result<Value, Fault> {
    match (names.split_first(), values.split_first()) {
        (Some((name, names)), Some((value, values))) => {
            let bound = BoundVariable::new(name, value, context);
            within(arguments, names, values, context.with(&bound))
        }
        _ => arguments.value_in(0, context),
    }
}

const MAP: NamedArguments = NamedArguments {
    fields: &[("input", Some(16880)), ("in", Some(16882)), ("as", None)],
    not_an_object: 16878,
    unknown: 16879,
};

pub(super) fn parse_map(
    parser: &mut ExpressionParser<'_>,
    operator: &'static AggregationOperator,
    argument: &Bson,
) -> Result<ExpressionNode, Fault> {
    parse_each(parser, operator, argument, &MAP, 2)
}

const FILTER: NamedArguments = NamedArguments {
    fields: &[("input", Some(28648)), ("cond", Some(28650)), ("limit", None), ("as", None)],
    not_an_object: 28646,
    unknown: 28647,
};

pub(super) fn parse_filter(
    parser: &mut ExpressionParser<'_>,
    operator: &'static AggregationOperator,
    argument: &Bson,
) -> Result<ExpressionNode, Fault> {
    parse_each(parser, operator, argument, &FILTER, 3)
}

/// Parses an operator whose second argument is evaluated for each element, bound to the name in
/// `as`.
fn parse_each(
    parser: &mut ExpressionParser<'_>,
    operator: &'static AggregationOperator,
    argument: &Bson,
    named: &NamedArguments,
    place_of_as: usize,
) -> Result<ExpressionNode, Fault> {
    let given = named.given(operator.name, argument)?;
    let find = |place| given.iter().find(|(it, _)| *it == place).map(|(_, value)| *value);
    named.complete(operator.name, |place| find(place).is_some())?;
    let name = match find(place_of_as) {
        Some(Bson::String(name)) => name.as_str(),
        Some(_) => "",
        None => "this",
    };
    variable_name(name)?;
    let mut arguments = Vec::new();
    for place in 0..place_of_as {
        arguments.push(match find(place) {
            Some(inner) if place == 1 => Some(parser.scoped(&[name], inner)?),
            Some(other) => Some(parser.expression(other)?),
            None => None,
        });
    }
    let names = vec![name.to_owned()];
    Ok(ExpressionNode::Call(Box::new(Call {
        operator,
        arguments,
        names,
        precomputed: Precomputed::Nothing,
    })))
}

/// Returns the input array, or `None` if it is null.
fn input(arguments: &Arguments<'_>, code: i32) -> Result<Option<Vec<Bson>>, Fault> {
    match arguments.value(0)? {
        Some(Bson::Array(array)) => Ok(Some(array)),
        value if is_null_or_missing(&value) => Ok(None),
        value => {
            let (name, found) = (arguments.name(), type_name_of(&value));
            let message = format!("input to {name} must be an array not {found}");
            Err(Fault::location(code, message))
        }
    }
}

pub(super) fn map(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    let Some(array) = input(arguments, 16883)? else { return Ok(Some(Bson::Null)) };
    let name = &arguments.names()[0];
    let mut mapped = Vec::with_capacity(array.len());
    let mut limit = SizeLimit::new(arguments.name());
    for element in array {
        let value = arguments.value_with(1, name, &Some(element))?.unwrap_or(Bson::Null);
        limit.take(&value)?;
        mapped.push(value);
    }
    Ok(Some(mapped.into()))
}

pub(super) fn filter(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    let Some(array) = input(arguments, 28651)? else { return Ok(Some(Bson::Null)) };
    if array.is_empty() {
        return Ok(Some(array.into()));
    }
    let limit = limit(&arguments.value(2)?)?;
    let name = &arguments.names()[0];
    let mut kept = Vec::new();
    for element in array {
        let element = Some(element);
        if holds(&arguments.value_with(1, name, &element)?) {
            kept.extend(element);
            if limit.is_some_and(|limit| kept.len() >= limit) {
                break;
            }
        }
    }
    Ok(Some(kept.into()))
}

fn limit(value: &Value) -> Result<Option<usize>, Fault> {
    if is_null_or_missing(value) {
        return Ok(None);
    }
    let Some(limit) = value.as_ref().and_then(int32) else {
        let message = "$filter: limit must be represented as a 32-bit integral value";
        return Err(Fault::location(327_391, format!("{message}: {}", format_value(value))));
    };
    match usize::try_from(limit) {
        Ok(limit) if limit > 0 => Ok(Some(limit)),
        _ => {
            Err(Fault::location(327_392, format!("$filter: limit must be greater than 0: {limit}")))
        }
    }
}

const REDUCE: NamedArguments = NamedArguments {
    fields: &[("input", Some(40077)), ("initialValue", Some(40078)), ("in", Some(40079))],
    not_an_object: 40075,
    unknown: 40076,
};

pub(super) fn parse_reduce(
    parser: &mut ExpressionParser<'_>,
    operator: &'static AggregationOperator,
    argument: &Bson,
) -> Result<ExpressionNode, Fault> {
    let mut arguments = vec![None, None, None];
    for (place, value) in REDUCE.given(operator.name, argument)? {
        arguments[place] = Some(if place == 2 {
            parser.scoped(&["this", "value"], value)?
        } else {
            parser.expression(value)?
        });
    }
    REDUCE.complete(operator.name, |place| arguments[place].is_some())?;
    parser.call(operator, arguments)
}

pub(super) fn reduce(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    let array = match arguments.value(0)? {
        Some(Bson::Array(array)) => array,
        value if is_null_or_missing(&value) => return Ok(Some(Bson::Null)),
        value => {
            let message = format!(
                "$reduce requires that 'input' be an array, found: {}",
                format_value(&value)
            );
            return Err(Fault::location(40080, message));
        }
    };
    let mut result = arguments.value(1)?;
    for element in array {
        let element = Some(element);
        let this = BoundVariable::new("this", &element, arguments.context());
        let context = arguments.context().with(&this);
        let value = BoundVariable::new("value", &result, context);
        let next = arguments.value_in(2, context.with(&value))?;
        next.iter().try_for_each(|it| SizeLimit::new(arguments.name()).take(it))?;
        result = next;
    }
    Ok(result)
}
