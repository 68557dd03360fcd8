//! Boolean and conditional operators.

use bson::{Bson, Document};

use super::{
    coerce::is_null_or_missing,
    node::{Arguments, ExpressionNode, Value},
    operators::{AggregationOperator, NamedArguments},
    parse::ExpressionParser,
};
use crate::{
    Fault,
    value::{is_truthy, type_name},
};

/// Converts a value to a boolean. Missing values are false.
pub(super) fn holds(value: &Value) -> bool {
    value.as_ref().is_some_and(is_truthy)
}

/// Parses `$and` and `$or`. Servers drop the other arguments if a constant decides the result.
pub(super) fn parse_all(
    parser: &mut ExpressionParser<'_>,
    operator: &'static AggregationOperator,
    argument: &Bson,
) -> Result<ExpressionNode, Fault> {
    let arguments = parser.list(argument)?;
    let deciding = operator.name == "$or";
    let decides = |it: &ExpressionNode| it.constant().is_some_and(|it| holds(it) == deciding);
    if parser.folds_constants() && arguments.iter().flatten().any(decides) {
        return Ok(ExpressionNode::Constant(Some(Bson::Boolean(deciding))));
    }
    parser.call(operator, arguments)
}

pub(super) fn and(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    for index in 0..arguments.len() {
        if !holds(&arguments.value(index)?) {
            return Ok(Some(Bson::Boolean(false)));
        }
    }
    Ok(Some(Bson::Boolean(true)))
}

pub(super) fn or(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    for index in 0..arguments.len() {
        if holds(&arguments.value(index)?) {
            return Ok(Some(Bson::Boolean(true)));
        }
    }
    Ok(Some(Bson::Boolean(false)))
}

pub(super) fn not(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    Ok(Some(Bson::Boolean(!holds(&arguments.value(0)?))))
}

pub(super) fn if_null(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    let last = arguments.len() - 1;
    for index in 0..last {
        let value = arguments.value(index)?;
        if !is_null_or_missing(&value) {
            return Ok(value);
        }
    }
    arguments.value(last)
}

const COND: NamedArguments = NamedArguments {
    fields: &[("if", Some(17080)), ("then", Some(17081)), ("else", Some(17082))],
    not_an_object: 17083,
    unknown: 17083,
};

pub(super) fn parse_cond(
    parser: &mut ExpressionParser<'_>,
    operator: &'static AggregationOperator,
    argument: &Bson,
) -> Result<ExpressionNode, Fault> {
    if matches!(argument, Bson::Document(_)) {
        let arguments = parser.type_name_of(operator, &COND, argument)?;
        return parser.call(operator, arguments);
    }
    let arguments = parser.list(argument)?;
    if arguments.len() != 3 {
        let count = arguments.len();
        let message =
            format!("Expression $cond takes exactly 3 arguments. {count} were passed in.");
        return Err(Fault::location(16020, message));
    }
    parser.call(operator, arguments)
}

pub(super) fn cond(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    arguments.value(if holds(&arguments.value(0)?) { 1 } else { 2 })
}

const SWITCH: NamedArguments = NamedArguments {
    fields: &[("branches", Some(40068)), ("default", None)],
    not_an_object: 40060,
    unknown: 40067,
};

/// Parses `$switch`. Arguments: default, then case and result of each branch.
pub(super) fn parse_switch(
    parser: &mut ExpressionParser<'_>,
    operator: &'static AggregationOperator,
    argument: &Bson,
) -> Result<ExpressionNode, Fault> {
    let mut arguments = vec![None];
    for (index, value) in SWITCH.given(operator.name, argument)? {
        if index == 1 {
            arguments[0] = Some(parser.expression(value)?);
            continue;
        }
        let Bson::Array(branches) = value else {
            let found = type_name(value);
            let message = format!("$switch expected an array for 'branches', found: {found}");
            return Err(Fault::location(40061, message));
        };
        let mut decided = false;
        for branch in branches {
            // Servers do not fold branches after a case that is always true, nor results of a case
            // that is always false.
            let dead =
                |it: &[ExpressionNode; 2]| decided || it[0].constant().is_some_and(|it| !holds(it));
            let [case, then] = parser.ignoring_errors_if(|it| parse_branch(it, branch), dead)?;
            decided |= case.constant().is_some_and(holds);
            arguments.extend([Some(case), Some(then)]);
        }
    }
    if arguments.len() == 1 {
        return Err(Fault::location(40068, "$switch requires at least one branch"));
    }
    if let Err(fault) = check_dead_cases(&arguments) {
        parser.fail(fault);
    }
    parser.call(operator, arguments)
}

/// Fails if all cases are constant and false and there is no default. Servers report that before
/// reading a document.
fn check_dead_cases(arguments: &[Option<ExpressionNode>]) -> Result<(), Fault> {
    let mut cases = arguments[1..].iter().step_by(2).flatten();
    if arguments[0].is_none() && cases.all(|it| it.constant().is_some_and(|it| !holds(it))) {
        return Err(Fault::location(
            40069,
            "Cannot execute a switch statement where all the cases evaluate to false without a default",
        ));
    }
    Ok(())
}

fn parse_branch(
    parser: &mut ExpressionParser<'_>,
    branch: &Bson,
) -> Result<[ExpressionNode; 2], Fault> {
    let Bson::Document(branch) = branch else {
        let found = type_name(branch);
        let message = format!("$switch expected each branch to be an object, found: {found}");
        return Err(Fault::location(40062, message));
    };
    check_branch_fields(branch)?;
    let mut part = |name, code| match branch.get(name) {
        Some(expression) => parser.expression(expression),
        None => {
            let message = format!("$switch requires each branch have a '{name}' expression");
            Err(Fault::location(code, message))
        }
    };
    Ok([part("case", 40064)?, part("then", 40065)?])
}

fn check_branch_fields(branch: &Document) -> Result<(), Fault> {
    match branch.keys().find(|it| !matches!(it.as_str(), "case" | "then")) {
        Some(name) => {
            let message = format!("$switch found an unknown argument to a branch: {name}");
            Err(Fault::location(40063, message))
        }
        None => Ok(()),
    }
}

pub(super) fn switch(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    for case in (1..arguments.len()).step_by(2) {
        if holds(&arguments.value(case)?) {
            return arguments.value(case + 1);
        }
    }
    if arguments.given(0) {
        return arguments.value(0);
    }
    Err(Fault::location(
        40066,
        "$switch could not find a matching branch for an input, and no default was specified.",
    ))
}
