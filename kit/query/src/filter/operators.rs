//! Parsing of field operators.

use bson::{Bson, Document};

use super::{
    bits::{BitRule, BitTest},
    clause::{Clause, Comparison, Predicate},
    parse::{element_filter, is_expression, operators},
    pattern::FilterRegex,
    types::TypeSet,
};
use crate::{
    Code, Environment, Fault,
    value::{self, Number, format_value},
};

/// Parses one operator. `None` if it only modifies another, such as `$options`.
pub(super) fn read(
    path: &str,
    operator: &str,
    argument: &Bson,
    siblings: &Document,
    env: &Environment,
) -> Result<Option<Clause>, Fault> {
    let bits =
        |rule| Ok(Predicate::BitTest(BitTest::parse(path, operator, rule, argument, env.dialect)?));
    let test = match operator {
        "$eq" => return compare(path, Comparison::Equal, argument).map(Some),
        "$gt" => return compare(path, Comparison::Greater, argument).map(Some),
        "$gte" => return compare(path, Comparison::GreaterOrEqual, argument).map(Some),
        "$lt" => return compare(path, Comparison::Less, argument).map(Some),
        "$lte" => return compare(path, Comparison::LessOrEqual, argument).map(Some),
        "$ne" if matches!(argument, Bson::RegularExpression(_)) => {
            return Err(Fault::bad_value("Can't have regex as arg to $ne."));
        }
        "$ne" => return Ok(Some(not(compare(path, Comparison::Equal, argument)?))),
        "$in" => any_of(operator, argument, env)?,
        "$nin" => return Ok(Some(not(Clause::Test(any_of(operator, argument, env)?)))),
        "$not" => return negated(path, argument, env).map(Some),
        "$exists" if value::is_truthy(argument) => Predicate::Exists,
        "$exists" => return Ok(Some(not(Clause::Test(Predicate::Exists)))),
        "$type" => Predicate::Type(TypeSet::parse(path, argument)?),
        "$mod" => modulo(argument)?,
        "$regex" => Predicate::Pattern(regex(argument, siblings)?),
        "$options" if siblings.contains_key("$regex") => return Ok(None),
        "$options" => return Err(Fault::bad_value("$options needs a $regex")),
        "$all" => return all(path, argument, env).map(Some),
        "$elemMatch" => element_match(argument, env)?,
        "$size" => size(argument)?,
        "$bitsAllSet" => bits(BitRule::AllSet)?,
        "$bitsAllClear" => bits(BitRule::AllClear)?,
        "$bitsAnySet" => bits(BitRule::AnySet)?,
        "$bitsAnyClear" => bits(BitRule::AnyClear)?,
        other => return Err(unknown(other)),
    };
    Ok(Some(Clause::Test(test)))
}

fn unknown(operator: &str) -> Fault {
    match operator {
        "$where" => Fault::bad_value("$where cannot be applied to a field"),
        "$near" | "$nearSphere" | "$geoNear" => Fault::new(
            Code::named(291, "NoQueryExecutionPlans"),
            "unable to find index for $geoNear query",
        ),
        "$geoWithin" | "$within" | "$geoIntersects" => {
            Fault::new(Code::NOT_IMPLEMENTED, format!("{operator} is not implemented"))
        }
        other => Fault::bad_value(format!("unknown operator: {other}")),
    }
}

fn not(clause: Clause) -> Clause {
    Clause::Not(Box::new(clause))
}

pub(super) fn compare(
    path: &str,
    comparison: Comparison,
    argument: &Bson,
) -> Result<Clause, Fault> {
    match argument {
        Bson::Undefined => Err(Fault::bad_value("cannot compare to undefined")),
        Bson::RegularExpression(_) if comparison != Comparison::Equal => Err(Fault::bad_value(
            format!("Can't have RegEx as arg to predicate over field '{path}'."),
        )),
        value => Ok(Clause::Test(Predicate::Compare(comparison, value.clone()))),
    }
}

fn any_of(operator: &str, argument: &Bson, env: &Environment) -> Result<Predicate, Fault> {
    let Bson::Array(list) = argument else {
        return Err(Fault::bad_value(format!("{operator} needs an array")));
    };
    let (mut values, mut patterns) = (Vec::new(), Vec::new());
    for item in list {
        match item {
            Bson::Document(document) if is_expression(document, false) => {
                return Err(Fault::bad_value("cannot nest $ under $in"));
            }
            Bson::RegularExpression(regex) => {
                patterns.push(FilterRegex::new(regex.pattern.as_str(), regex.options.as_str())?);
            }
            Bson::Undefined => {
                return Err(Fault::bad_value("InMatchExpression equality cannot be undefined"));
            }
            value => values.push(value.clone()),
        }
    }
    // Servers replace a list of one value by an equality.
    Ok(match Predicate::any_of(values, patterns, &env.collation) {
        Predicate::AnyOf { mut values, patterns, .. }
            if values.len() == 1 && patterns.is_empty() =>
        {
            Predicate::Compare(Comparison::Equal, values.remove(0))
        }
        Predicate::AnyOf { values, mut patterns, .. }
            if values.is_empty() && patterns.len() == 1 =>
        {
            Predicate::Pattern(patterns.remove(0))
        }
        several => several,
    })
}

fn negated(path: &str, argument: &Bson, env: &Environment) -> Result<Clause, Fault> {
    match argument {
        Bson::RegularExpression(regex) => {
            let pattern = FilterRegex::new(regex.pattern.as_str(), regex.options.as_str())?;
            Ok(not(Clause::Test(Predicate::Pattern(pattern))))
        }
        Bson::Document(expression) if expression.is_empty() => {
            Err(Fault::bad_value("$not cannot be empty"))
        }
        Bson::Document(expression) => operators(path, expression, env).map(not),
        _ => Err(Fault::bad_value("$not needs a regex or a document")),
    }
}

fn regex(argument: &Bson, siblings: &Document) -> Result<FilterRegex, Fault> {
    let flags = match siblings.get("$options") {
        None => None,
        Some(Bson::String(flags)) => Some(flags.as_str()),
        Some(_) => return Err(Fault::bad_value("$options has to be a string")),
    };
    match argument {
        Bson::String(pattern) => FilterRegex::new(pattern, flags.unwrap_or("")),
        Bson::RegularExpression(regex) => {
            if flags.is_some() && !regex.options.as_str().is_empty() {
                return Err(Fault::location(51075, "options set in both $regex and $options"));
            }
            let own = regex.options.as_str();
            FilterRegex::new(regex.pattern.as_str(), flags.map_or(own, |it| it))
        }
        _ => Err(Fault::bad_value("$regex has to be a string")),
    }
}

fn modulo(argument: &Bson) -> Result<Predicate, Fault> {
    let Bson::Array(list) = argument else {
        return Err(Fault::bad_value("malformed mod, needs to be an array"));
    };
    let [divisor, remainder] = list.as_slice() else {
        let how = if list.len() < 2 { "not enough" } else { "too many" };
        return Err(Fault::bad_value(format!("malformed mod, {how} elements")));
    };
    let divisor = operand("divisor", divisor)?;
    let remainder = operand("remainder", remainder)?;
    if divisor == 0 {
        return Err(Fault::bad_value("divisor cannot be 0"));
    }
    Ok(Predicate::Modulo { divisor, remainder })
}

fn operand(name: &str, argument: &Bson) -> Result<i64, Fault> {
    let number = Number::of(argument)
        .ok_or_else(|| Fault::bad_value(format!("malformed mod, {name} not a number")))?;
    number.truncated().ok_or_else(|| {
        let why = if number.to_f64().is_finite() {
            "Out of bounds coercing to integral value"
        } else {
            "Unable to coerce NaN/Inf to integral type"
        };
        Fault::bad_value(format!("malformed mod, {name} value is invalid :: caused by :: {why}"))
    })
}

fn all(path: &str, argument: &Bson, env: &Environment) -> Result<Clause, Fault> {
    let Bson::Array(list) = argument else {
        return Err(Fault::bad_value("$all needs an array"));
    };
    if list.is_empty() {
        return Ok(Clause::Test(Predicate::Never));
    }
    let clauses = if is_element_match(&list[0]) {
        list.iter().map(|it| all_of_elements(it, env)).collect::<Result<Vec<_>, _>>()
    } else {
        list.iter().map(|it| all_of_values(path, it)).collect()
    }?;
    Ok(Clause::And(clauses))
}

fn is_element_match(value: &Bson) -> bool {
    value.as_document().and_then(|it| it.keys().next()).is_some_and(|it| it == "$elemMatch")
}

fn all_of_elements(item: &Bson, env: &Environment) -> Result<Clause, Fault> {
    match item.as_document().and_then(|it| it.iter().next()) {
        Some((name, argument)) if name == "$elemMatch" => {
            element_match(argument, env).map(Clause::Test)
        }
        _ => Err(Fault::bad_value("$all/$elemMatch has to be consistent")),
    }
}

fn all_of_values(path: &str, item: &Bson) -> Result<Clause, Fault> {
    match item {
        Bson::RegularExpression(regex) => {
            let pattern = FilterRegex::new(regex.pattern.as_str(), regex.options.as_str())?;
            Ok(Clause::Test(Predicate::Pattern(pattern)))
        }
        Bson::Document(document) if document.keys().next().is_some_and(|it| is_operator(it)) => {
            Err(Fault::bad_value("no $ expressions in $all"))
        }
        value => compare(path, Comparison::Equal, value),
    }
}

/// Returns `true` for field operators. Inside `$all`, other names with `$` are field names.
fn is_operator(name: &str) -> bool {
    const KNOWN: [&str; 26] = [
        "$eq",
        "$gt",
        "$gte",
        "$lt",
        "$lte",
        "$ne",
        "$in",
        "$nin",
        "$not",
        "$exists",
        "$type",
        "$mod",
        "$regex",
        "$options",
        "$all",
        "$elemMatch",
        "$size",
        "$bitsAllSet",
        "$bitsAllClear",
        "$bitsAnySet",
        "$bitsAnyClear",
        "$near",
        "$nearSphere",
        "$geoWithin",
        "$geoIntersects",
        "$within",
    ];
    KNOWN.contains(&name)
}

fn element_match(argument: &Bson, env: &Environment) -> Result<Predicate, Fault> {
    let Bson::Document(filter) = argument else {
        return Err(Fault::bad_value("$elemMatch needs an Object"));
    };
    let joins = |it: &String| super::parse::is_of_documents(it);
    let of_values = is_expression(filter, true) && !filter.keys().next().is_some_and(joins);
    if !of_values {
        return Ok(Predicate::ElementDocument(Box::new(element_filter(filter, env)?)));
    }
    // The values of array elements have no path.
    Ok(Predicate::ElementValue(vec![operators("", filter, env)?]))
}

fn size(argument: &Bson) -> Result<Predicate, Fault> {
    let wrong = |text: &str| Fault::bad_value(format!("Failed to parse $size. {text}"));
    let number = whole_number("$size", argument).map_err(|it| wrong(&it.message))?;
    let size = i32::try_from(number).ok().and_then(|it| usize::try_from(it).ok());
    let too_large =
        || wrong(&format!("Cannot represent $size: {} in an int", format_value(argument)));
    size.map(Predicate::Size).ok_or_else(too_large)
}

/// Parses a non-negative integer.
pub(super) fn whole_number(name: &str, argument: &Bson) -> Result<i64, Fault> {
    let fault =
        |text: &str| Fault::bad_value(format!("{text}: {name}: {}", format_value(argument)));
    let Some(number) = Number::of(argument) else {
        return Err(fault("Expected a number in"));
    };
    let integer = match number.to_integer() {
        Some(integer) => integer,
        None if number.is_nan() => return Err(fault("Expected an integer, but found NaN in")),
        None if matches!(number, Number::Double(it) if it.fract() != 0.0) => {
            return Err(fault("Expected an integer"));
        }
        None => return Err(fault("Cannot represent as a 64-bit integer")),
    };
    if integer < 0 {
        return Err(fault("Expected a non-negative number in"));
    }
    Ok(integer)
}
