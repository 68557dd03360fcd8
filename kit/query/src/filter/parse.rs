//! Parsing of filters: fields and logical operators.

use bson::{Bson, Document};

use super::{
    clause::{Clause, Comparison, ElementFilter, Predicate},
    node::FilterNode,
    operators,
    pattern::FilterRegex,
};
use crate::{Code, Environment, Expression, Fault, path::Path};

/// Context of a filter.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FilterLevel {
    /// Filter of whole documents.
    Top,
    /// Filter inside an `$elemMatch`.
    Element,
}

/// Parses a filter of whole documents.
pub(super) fn filter(filter: &Document, env: &Environment) -> Result<FilterNode, Fault> {
    conjunction(filter, FilterLevel::Top, env)
}

/// Parses the filter of an `$elemMatch`.
pub(super) fn element_filter(filter: &Document, env: &Environment) -> Result<ElementFilter, Fault> {
    let node = conjunction(filter, FilterLevel::Element, env)?;
    Ok(ElementFilter(node.optimized(&env.collation)))
}

fn conjunction(
    filter: &Document,
    level: FilterLevel,
    env: &Environment,
) -> Result<FilterNode, Fault> {
    let mut nodes = Vec::new();
    for (name, argument) in filter {
        match name.strip_prefix('$') {
            Some(operator) if !matches!(operator, "ref" | "id" | "db") => {
                nodes.extend(joined(operator, argument, level, env)?);
            }
            _ => {
                let clauses = field(name, argument, env)?.into_iter();
                nodes.extend(clauses.map(|it| FilterNode::Field(Path::new(name), it)));
            }
        }
    }
    Ok(FilterNode::And(nodes))
}

/// Parses a top-level operator.
fn joined(
    operator: &str,
    argument: &Bson,
    level: FilterLevel,
    env: &Environment,
) -> Result<Option<FilterNode>, Fault> {
    Ok(Some(match operator {
        "and" => FilterNode::And(each("$and", argument, level, env)?),
        "or" => FilterNode::Or(each("$or", argument, level, env)?),
        "nor" => FilterNode::Nor(each("$nor", argument, level, env)?),
        "comment" => return Ok(None),
        "expr" | "where" | "text" if level == FilterLevel::Element => {
            let text = format!("${operator} can only be applied to the top-level document");
            return Err(Fault::bad_value(text));
        }
        "expr" => FilterNode::Expression(Box::new(Expression::parse(argument, env)?)),
        "alwaysTrue" | "alwaysFalse" => {
            if !crate::value::equal(argument, &Bson::Int32(1)) {
                let text = format!("${operator} must be an integer value of 1");
                return Err(Fault::failed_to_parse(text));
            }
            FilterNode::Always(operator == "alwaysTrue")
        }
        "where" => return Err(Fault::bad_value("no globalScriptEngine in $where parsing")),
        "text" => {
            return Err(Fault::new(Code::INDEX_NOT_FOUND, "text index required for $text query"));
        }
        "jsonSchema" if !matches!(argument, Bson::Document(_)) => {
            return Err(Fault::type_mismatch("$jsonSchema must be an object"));
        }
        "jsonSchema" | "sampleRate" => {
            let text = format!("${operator} is not implemented");
            return Err(Fault::new(Code::NOT_IMPLEMENTED, text));
        }
        other => return Err(Fault::bad_value(unknown_at_top(other))),
    }))
}

/// Returns `true` for top-level operators.
pub(super) fn is_of_documents(operator: &str) -> bool {
    const KNOWN: [&str; 11] = [
        "$and",
        "$or",
        "$nor",
        "$comment",
        "$expr",
        "$where",
        "$text",
        "$jsonSchema",
        "$sampleRate",
        "$alwaysTrue",
        "$alwaysFalse",
    ];
    KNOWN.contains(&operator)
}

fn unknown_at_top(operator: &str) -> String {
    let advice = match operator {
        "not" => "If you are trying to negate an entire expression, use $nor.",
        _ => {
            "If you have a field name that starts with a '$' symbol, consider using $getField or \
             $setField."
        }
    };
    format!("unknown top level operator: ${operator}. {advice}")
}

fn each(
    operator: &str,
    argument: &Bson,
    level: FilterLevel,
    env: &Environment,
) -> Result<Vec<FilterNode>, Fault> {
    let Bson::Array(filters) = argument else {
        return Err(Fault::bad_value(format!("{operator} must be an array")));
    };
    if filters.is_empty() {
        return Err(Fault::bad_value("$and/$or/$nor must be a nonempty array"));
    }
    filters
        .iter()
        .map(|it| match it {
            Bson::Document(filter) => conjunction(filter, level, env),
            _ => Err(Fault::bad_value("$or/$and/$nor entries need to be full objects")),
        })
        .collect()
}

/// Parses the condition of a field: operators, a regular expression, or a value.
fn field(path: &str, argument: &Bson, env: &Environment) -> Result<Vec<Clause>, Fault> {
    let clause = match argument {
        Bson::Document(expression) if is_expression(expression, false) => {
            return each_operator(path, expression, env);
        }
        Bson::RegularExpression(regex) => {
            let pattern = FilterRegex::new(regex.pattern.as_str(), regex.options.as_str())?;
            Clause::Test(Predicate::Pattern(pattern))
        }
        value => operators::compare(path, Comparison::Equal, value)?,
    };
    Ok(vec![clause])
}

/// Parses a document of operators as one condition.
pub(super) fn operators(
    path: &str,
    expression: &Document,
    env: &Environment,
) -> Result<Clause, Fault> {
    let mut clauses = each_operator(path, expression, env)?;
    Ok(if clauses.len() == 1 { clauses.remove(0) } else { Clause::And(clauses) })
}

fn each_operator(
    path: &str,
    expression: &Document,
    env: &Environment,
) -> Result<Vec<Clause>, Fault> {
    let mut clauses = Vec::new();
    for (operator, argument) in expression {
        clauses.extend(operators::read(path, operator, argument, expression, env)?);
    }
    Ok(clauses)
}

/// Returns `true` for a document of operators: its first name starts with `$`, and it is not a
/// DBRef.
pub(super) fn is_expression(document: &Document, allow_part_of_reference: bool) -> bool {
    let has = |name| document.contains_key(name);
    let reference = if allow_part_of_reference {
        has("$ref") || has("$id") || has("$db")
    } else {
        has("$ref") && has("$id")
    };
    document.keys().next().is_some_and(|it| it.starts_with('$')) && !reference
}
