//! Reads filters: their fields, and what joins them.

use bson::{Bson, Document};

use super::{
    clause::{Clause, Comparison, ElementFilter, Test},
    node::Node,
    operators,
    pattern::Pattern,
};
use crate::{Code, Environment, Expression, Fault, path::Path};

/// Where a filter stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    /// It is that of a whole document.
    Top,
    /// It is inside an `$elemMatch`.
    Element,
}

/// Reads a filter of whole documents.
pub(super) fn filter(filter: &Document, env: &Environment) -> Result<Node, Fault> {
    conjunction(filter, Level::Top, env)
}

/// Reads the filter of documents inside an `$elemMatch`.
pub(super) fn element_filter(filter: &Document, env: &Environment) -> Result<ElementFilter, Fault> {
    let node = conjunction(filter, Level::Element, env)?;
    Ok(ElementFilter(node.optimized(&env.collation)))
}

fn conjunction(filter: &Document, level: Level, env: &Environment) -> Result<Node, Fault> {
    let mut nodes = Vec::new();
    for (name, argument) in filter {
        match name.strip_prefix('$') {
            Some(operator) if !matches!(operator, "ref" | "id" | "db") => {
                nodes.extend(joined(operator, argument, level, env)?);
            }
            _ => {
                let clauses = field(name, argument, env)?.into_iter();
                nodes.extend(clauses.map(|it| Node::Field(Path::new(name), it)));
            }
        }
    }
    Ok(Node::And(nodes))
}

/// Reads an operator that stands where a field can stand.
fn joined(
    operator: &str,
    argument: &Bson,
    level: Level,
    env: &Environment,
) -> Result<Option<Node>, Fault> {
    Ok(Some(match operator {
        "and" => Node::And(each("$and", argument, level, env)?),
        "or" => Node::Or(each("$or", argument, level, env)?),
        "nor" => Node::Nor(each("$nor", argument, level, env)?),
        "comment" => return Ok(None),
        "expr" | "where" | "text" if level == Level::Element => {
            let text = format!("${operator} can only be applied to the top-level document");
            return Err(Fault::bad_value(text));
        }
        "expr" => Node::Expression(Box::new(Expression::parse(argument, env)?)),
        "alwaysTrue" | "alwaysFalse" => {
            if !crate::value::equal(argument, &Bson::Int32(1)) {
                let text = format!("${operator} must be an integer value of 1");
                return Err(Fault::failed_to_parse(text));
            }
            Node::Always(operator == "alwaysTrue")
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

/// Whether an operator stands where a field can stand.
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
    level: Level,
    env: &Environment,
) -> Result<Vec<Node>, Fault> {
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

/// Reads what is demanded of a field: operators, a regular expression, or what it must equal.
fn field(path: &str, argument: &Bson, env: &Environment) -> Result<Vec<Clause>, Fault> {
    let clause = match argument {
        Bson::Document(expression) if is_expression(expression, false) => {
            return each_operator(path, expression, env);
        }
        Bson::RegularExpression(regex) => {
            let pattern = Pattern::new(regex.pattern.as_str(), regex.options.as_str())?;
            Clause::Test(Test::Pattern(pattern))
        }
        value => operators::compare(path, Comparison::Equal, value)?,
    };
    Ok(vec![clause])
}

/// Reads a document of operators that belong together.
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

/// Whether a document is one of operators and not a value: its first name begins with `$`, and it is no
/// reference to a document elsewhere.
pub(super) fn is_expression(document: &Document, allow_part_of_reference: bool) -> bool {
    let has = |name| document.contains_key(name);
    let reference = if allow_part_of_reference {
        has("$ref") || has("$id") || has("$db")
    } else {
        has("$ref") && has("$id")
    };
    document.keys().next().is_some_and(|it| it.starts_with('$')) && !reference
}
