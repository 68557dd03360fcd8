//! Operators that reorder arrays: `$sortArray` and `$zip`.

use bson::{Bson, doc};

use super::{
    arrays::{count, null, only_array},
    coerce::{format_value, int32, is_null_or_missing},
    node::{Arguments, ExpressionNode, Precomputed, Value},
    operators::{AggregationOperator, NamedArguments},
    parse::ExpressionParser,
    size_limit::SizeLimit,
};
use crate::{
    Fault, Sort,
    value::{self, is_number, type_name},
};

const SORT: NamedArguments = NamedArguments {
    fields: &[("input", Some(2_942_502)), ("sortBy", Some(2_942_503))],
    not_an_object: 2_942_500,
    unknown: 2_942_501,
};

/// Parses `$sortArray`. The second argument is a direction for whole elements, or an order by
/// fields.
pub(super) fn parse_sort(
    parser: &mut ExpressionParser<'_>,
    operator: &'static AggregationOperator,
    argument: &Bson,
) -> Result<ExpressionNode, Fault> {
    let mut arguments = vec![None, None];
    let mut precomputed = Precomputed::Nothing;
    for (place, value) in SORT.given(operator.name, argument)? {
        match value {
            _ if place == 0 => arguments[0] = Some(parser.expression(value)?),
            Bson::Document(order) => {
                let invalid = |fault: Fault| Fault::location(2_942_505, fault.message);
                if order.is_empty() {
                    let message = "The sort pattern is empty when it should be a set of fields.";
                    return Err(Fault::location(2_942_505, message));
                }
                precomputed = Precomputed::Order(Sort::parse(order).map_err(invalid)?);
                arguments[1] = Some(ExpressionNode::Constant(None));
            }
            number if is_number(number) => {
                if !matches!(int32(number), Some(1 | -1)) {
                    let message = "The $sort element value must be either 1 or -1";
                    return Err(Fault::location(2_942_506, message));
                }
                arguments[1] = Some(ExpressionNode::Constant(int32(number).map(Bson::Int32)));
            }
            _ => {
                return Err(Fault::location(
                    2_942_507,
                    "The $sort is invalid: use 1/-1 to sort the whole element, or {field:1/-1} to \
                     sort embedded fields",
                ));
            }
        }
    }
    SORT.complete(operator.name, |place| arguments[place].is_some())?;
    Ok(parser.call_with_precomputed(operator, arguments, precomputed))
}

pub(super) fn sort(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    let message = "'s input must be an array, but was of type: ";
    let Some(mut array) = only_array(arguments, 2_942_504, message)? else { return null() };
    let collation = &arguments.env().collation;
    if let Precomputed::Order(order) = arguments.precomputed() {
        let empty = doc! {};
        array.sort_by(|left, right| {
            let left = left.as_document().unwrap_or(&empty);
            let right = right.as_document().unwrap_or(&empty);
            order.compare(left, right, collation)
        });
    } else {
        let descending = arguments.value(1)? == Some(Bson::Int32(-1));
        array.sort_by(|left, right| {
            let order = value::compare(left, right, collation);
            if descending { order.reverse() } else { order }
        });
    }
    Ok(Some(array.into()))
}

const ZIP: NamedArguments = NamedArguments {
    fields: &[("inputs", Some(34465)), ("useLongestLength", None), ("defaults", None)],
    not_an_object: 34460,
    unknown: 34464,
};

/// Parses `$zip`. Arguments: `useLongestLength`, number of inputs, inputs, defaults.
pub(super) fn parse_zip(
    parser: &mut ExpressionParser<'_>,
    operator: &'static AggregationOperator,
    argument: &Bson,
) -> Result<ExpressionNode, Fault> {
    let (mut longest, mut inputs, mut defaults) = (false, Vec::new(), Vec::new());
    let list = |parser: &mut ExpressionParser<'_>, value: &Bson, name, code| match value {
        Bson::Array(_) => parser.list(value),
        other => {
            let found = type_name(other);
            let message = format!("{name} must be an array of expressions, found {found}");
            Err(Fault::location(code, message))
        }
    };
    for (place, value) in ZIP.given(operator.name, argument)? {
        match (place, value) {
            (0, value) => inputs = list(parser, value, "inputs", 34461)?,
            (2, value) => defaults = list(parser, value, "defaults", 34462)?,
            (_, Bson::Boolean(value)) => longest = *value,
            (_, other) => {
                let found = type_name(other);
                let message = format!("useLongestLength must be a bool, found {found}");
                return Err(Fault::location(34463, message));
            }
        }
    }
    if inputs.is_empty() {
        return Err(Fault::location(34465, "$zip requires at least one input array"));
    }
    if !defaults.is_empty() && !longest {
        let message = "cannot specify defaults unless useLongestLength is true";
        return Err(Fault::location(34466, message));
    }
    if !defaults.is_empty() && defaults.len() != inputs.len() {
        return Err(Fault::location(34467, "defaults and inputs must have the same length"));
    }
    let mut arguments = vec![Some(ExpressionNode::Constant(Some(longest.into())))];
    arguments.push(Some(ExpressionNode::Constant(Some(count(inputs.len())))));
    arguments.extend(inputs);
    arguments.extend(defaults);
    parser.call(operator, arguments)
}

pub(super) fn zip(arguments: &Arguments<'_>) -> Result<Value, Fault> {
    let longest = arguments.value(0)? == Some(Bson::Boolean(true));
    let inputs = match arguments.value(1)? {
        Some(Bson::Int32(count)) => usize::try_from(count).unwrap_or(0),
        _ => 0,
    };
    let mut arrays = Vec::with_capacity(inputs);
    let mut missing = false;
    let mut limit = SizeLimit::new(arguments.name());
    for index in 2..2 + inputs {
        match arguments.value(index)? {
            Some(Bson::Array(array)) => {
                array.iter().try_for_each(|it| limit.take(it))?;
                arrays.push(array);
            }
            value if is_null_or_missing(&value) => missing = true,
            value => {
                let message = "$zip found a non-array expression in input:";
                return Err(Fault::location(34468, format!("{message} {}", format_value(&value))));
            }
        }
        if missing {
            return null();
        }
    }
    let lengths = arrays.iter().map(Vec::len);
    let length = if longest { lengths.max() } else { lengths.min() }.unwrap_or(0);
    let mut defaults = Vec::with_capacity(inputs);
    for index in 2 + inputs..2 + 2 * inputs {
        let null = (!arguments.given(index)).then_some(Bson::Null);
        defaults.push(arguments.value(index)?.or(null));
    }
    let row = |at: usize| {
        let cell = |(input, array): (usize, &Vec<Bson>)| {
            array.get(at).cloned().or_else(|| defaults[input].clone())
        };
        // A missing default leaves the element out.
        Bson::Array(arrays.iter().enumerate().filter_map(cell).collect())
    };
    Ok(Some(Bson::Array((0..length).map(row).collect())))
}
