//! Operators that define variables: `$let`, and those that go through an array.

use bson::Bson;

use super::{
    coerce::{int32, named, nullish, shown},
    logic::holds,
    node::{Arguments, Bound, Call, Context, Known, Node, Value},
    operators::{Named, Operator},
    parse::{Parser, variable_name},
    room::Room,
};
use crate::Fault;

const LET: Named = Named {
    fields: &[("vars", Some(16876)), ("in", Some(16877))],
    not_an_object: 16874,
    unknown: 16875,
};

/// Its arguments become what it computes, and then the values of the variables.
pub(super) fn parse_let(
    parser: &mut Parser<'_>,
    operator: &'static Operator,
    argument: &Bson,
) -> Result<Node, Fault> {
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
    Ok(Node::Call(Box::new(Call { operator, arguments, names, known: Known::Nothing })))
}

pub(super) fn evaluate_let(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    let values = (1..arguments.len()).map(|it| arguments.value(it));
    let values = values.collect::<Result<Vec<_>, _>>()?;
    let mut room = Room::of(arguments.name());
    values.iter().flatten().try_for_each(|it| room.take(it))?;
    within(arguments, arguments.names(), &values, arguments.context())
}

/// The first argument's value where all these variables are defined.
fn within(
    arguments: &Arguments<'_>,
    names: &[String],
    values: &[Value],
    context: Context<'_>,
) -> Result<Value, Fault> {
    match (names.split_first(), values.split_first()) {
        (Some((name, names)), Some((value, values))) => {
            let bound = Bound::new(name, value, context);
            within(arguments, names, values, context.with(&bound))
        }
        _ => arguments.value_in(0, context),
    }
}

const MAP: Named = Named {
    fields: &[("input", Some(16880)), ("in", Some(16882)), ("as", None)],
    not_an_object: 16878,
    unknown: 16879,
};

pub(super) fn parse_map(
    parser: &mut Parser<'_>,
    operator: &'static Operator,
    argument: &Bson,
) -> Result<Node, Fault> {
    parse_each(parser, operator, argument, &MAP, 2)
}

const FILTER: Named = Named {
    fields: &[("input", Some(28648)), ("cond", Some(28650)), ("limit", None), ("as", None)],
    not_an_object: 28646,
    unknown: 28647,
};

pub(super) fn parse_filter(
    parser: &mut Parser<'_>,
    operator: &'static Operator,
    argument: &Bson,
) -> Result<Node, Fault> {
    parse_each(parser, operator, argument, &FILTER, 3)
}

/// Reads an operator whose second argument sees each element of the first by the name that `as` gives.
fn parse_each(
    parser: &mut Parser<'_>,
    operator: &'static Operator,
    argument: &Bson,
    named: &Named,
    place_of_as: usize,
) -> Result<Node, Fault> {
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
    Ok(Node::Call(Box::new(Call { operator, arguments, names, known: Known::Nothing })))
}

/// The array that an operator goes through; `None` for null.
fn input(arguments: &Arguments<'_>, code: i32) -> Result<Option<Vec<Bson>>, Fault> {
    match arguments.value(0)? {
        Some(Bson::Array(array)) => Ok(Some(array)),
        value if nullish(&value) => Ok(None),
        value => {
            let (name, found) = (arguments.name(), named(&value));
            let message = format!("input to {name} must be an array not {found}");
            Err(Fault::location(code, message))
        }
    }
}

pub(super) fn map(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    let Some(array) = input(arguments, 16883)? else { return Ok(Some(Bson::Null)) };
    let name = &arguments.names()[0];
    let mut mapped = Vec::with_capacity(array.len());
    let mut room = Room::of(arguments.name());
    for element in array {
        let value = arguments.value_with(1, name, &Some(element))?.unwrap_or(Bson::Null);
        room.take(&value)?;
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
    if nullish(value) {
        return Ok(None);
    }
    let Some(limit) = value.as_ref().and_then(int32) else {
        let message = "$filter: limit must be represented as a 32-bit integral value";
        return Err(Fault::location(327_391, format!("{message}: {}", shown(value))));
    };
    match usize::try_from(limit) {
        Ok(limit) if limit > 0 => Ok(Some(limit)),
        _ => {
            Err(Fault::location(327_392, format!("$filter: limit must be greater than 0: {limit}")))
        }
    }
}

const REDUCE: Named = Named {
    fields: &[("input", Some(40077)), ("initialValue", Some(40078)), ("in", Some(40079))],
    not_an_object: 40075,
    unknown: 40076,
};

pub(super) fn parse_reduce(
    parser: &mut Parser<'_>,
    operator: &'static Operator,
    argument: &Bson,
) -> Result<Node, Fault> {
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
        value if nullish(&value) => return Ok(Some(Bson::Null)),
        value => {
            let message =
                format!("$reduce requires that 'input' be an array, found: {}", shown(&value));
            return Err(Fault::location(40080, message));
        }
    };
    let mut result = arguments.value(1)?;
    for element in array {
        let element = Some(element);
        let this = Bound::new("this", &element, arguments.context());
        let context = arguments.context().with(&this);
        let value = Bound::new("value", &result, context);
        let next = arguments.value_in(2, context.with(&value))?;
        next.iter().try_for_each(|it| Room::of(arguments.name()).take(it))?;
        result = next;
    }
    Ok(result)
}
