//! Update operators and their arguments.

use bson::{Bson, Document};

use crate::{
    Code, Environment, Fault, text,
    value::{self, Number, is_number, type_name},
};

use super::{
    array_filters::ArrayFilters, bits::BitwiseUpdate, pull::PullCondition, push::Push,
    tree::FieldUpdates,
};

/// An update operator with its argument, at one path.
#[derive(Clone, Debug)]
pub(super) enum UpdateOperator {
    Set(Bson),
    SetOnInsert(Bson),
    Unset,
    Inc(Bson),
    Mul(Bson),
    Min(Bson),
    Max(Bson),
    CurrentDate,
    CurrentTimestamp,
    Bit(BitwiseUpdate),
    /// At the new name.
    Rename {
        from: String,
    },
    /// At the old name, so that no other operator can use it.
    Renamed,
    Push(Push),
    AddToSet(Vec<Bson>),
    PopFirst,
    PopLast,
    Pull(PullCondition),
    PullAll(Vec<Bson>),
}

/// Parses the operators of an update document.
pub(super) fn parse(
    update: &Document,
    filters: &mut ArrayFilters,
    env: &Environment,
) -> Result<FieldUpdates, Fault> {
    let mut tree = FieldUpdates::default();
    for (operator, arguments) in update {
        if !KNOWN.contains(&operator.as_str()) {
            return Err(Fault::failed_to_parse(format!(
                "Unknown modifier: {operator}. Expected a valid update modifier or pipeline-style \
                 update specified as an array"
            )));
        }
        let Bson::Document(arguments) = arguments else {
            return Err(Fault::failed_to_parse(format!(
                "Modifiers operate on fields but we found type {} instead. For example: {{$mod: \
                 {{<field>: ...}}}} not {{{}}}",
                type_name(arguments),
                text::field(operator, arguments)
            )));
        };
        for (path, argument) in arguments {
            if operator == "$rename" {
                add_rename(&mut tree, path, argument, filters)?;
            } else {
                check_path(path)?;
                let parsed = parse_operator(operator, path, argument, env)?;
                tree.add(path, parsed, filters)?;
            }
        }
    }
    filters.check_all_used(update)?;
    Ok(tree)
}

const KNOWN: [&str; 15] = [
    "$addToSet",
    "$bit",
    "$currentDate",
    "$inc",
    "$max",
    "$min",
    "$mul",
    "$pop",
    "$pull",
    "$pullAll",
    "$push",
    "$rename",
    "$set",
    "$setOnInsert",
    "$unset",
];

fn parse_operator(
    operator: &str,
    path: &str,
    argument: &Bson,
    env: &Environment,
) -> Result<UpdateOperator, Fault> {
    let owned = || argument.clone();
    Ok(match operator {
        "$set" => UpdateOperator::Set(owned()),
        "$setOnInsert" => UpdateOperator::SetOnInsert(owned()),
        "$unset" => UpdateOperator::Unset,
        "$inc" => UpdateOperator::Inc(number(argument, path, "increment")?),
        "$mul" => UpdateOperator::Mul(number(argument, path, "multiply")?),
        "$min" => UpdateOperator::Min(owned()),
        "$max" => UpdateOperator::Max(owned()),
        "$currentDate" => current_date(argument)?,
        "$bit" => UpdateOperator::Bit(BitwiseUpdate::parse(argument)?),
        "$push" => UpdateOperator::Push(Push::parse(argument)?),
        "$addToSet" => UpdateOperator::AddToSet(to_add(argument, env)?),
        "$pop" => pop(argument, path)?,
        "$pull" => UpdateOperator::Pull(PullCondition::parse(argument, env)?),
        _ => UpdateOperator::PullAll(to_pull(argument)?),
    })
}

/// Maximum number of components of a path. Servers count components in a byte, which overflows;
/// longer paths fail here.
const MAX_UPDATE_PATH_COMPONENTS: usize = 255;

/// Checks a path: no empty components, at most one `$`, not at the start.
fn check_path(path: &str) -> Result<(), Fault> {
    let empty = |message: String| Err(Fault::new(Code::EMPTY_FIELD_NAME, message));
    if path.is_empty() {
        return empty("An empty update path is not valid.".to_owned());
    }
    if path.split('.').any(str::is_empty) {
        return empty(format!(
            "The update path '{path}' contains an empty field name, which is not allowed."
        ));
    }
    if path.split('.').count() > MAX_UPDATE_PATH_COMPONENTS {
        let message = "Document exceeds maximum nesting depth of 180";
        return Err(Fault::new(Code::OVERFLOW, message));
    }
    let positional: Vec<usize> =
        path.split('.').enumerate().filter(|(_, part)| *part == "$").map(|(at, _)| at).collect();
    match positional[..] {
        [] => Ok(()),
        [_, _, ..] => Err(Fault::bad_value(format!(
            "Too many positional (i.e. '$') elements found in path '{path}'"
        ))),
        [0] => Err(Fault::bad_value(format!(
            "Cannot have positional (i.e. '$') element in the first position in path '{path}'"
        ))),
        [_] => Ok(()),
    }
}

/// Adds a `$rename`, which uses both names.
fn add_rename(
    tree: &mut FieldUpdates,
    from: &str,
    to: &Bson,
    filters: &mut ArrayFilters,
) -> Result<(), Fault> {
    check_path(from)?;
    let dynamic =
        |path: &str| path.split('.').any(|it| it == "$" || super::tree::identifier(it).is_some());
    tree.add(from, UpdateOperator::Renamed, filters)?;
    let Bson::String(to_path) = to else {
        return Err(Fault::bad_value(format!(
            "The 'to' field for $rename must be a string: {}",
            text::field(from, to)
        )));
    };
    if to_path.contains('\0') {
        return Err(Fault::bad_value(
            "The 'to' field for $rename cannot contain an embedded null byte",
        ));
    }
    check_path(to_path)?;
    let invalid = |what: &str| Err(Fault::bad_value(format!("The {what}")));
    if to_path == from {
        return invalid(&format!(
            "source and target field for $rename must differ: {}",
            text::field(from, to)
        ));
    }
    let within = |outer: &str, inner: &str| {
        inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with('.'))
    };
    if within(from, to_path) || within(to_path, from) {
        return invalid(&format!(
            "source and target field for $rename must not be on the same path: {}",
            text::field(from, to)
        ));
    }
    if dynamic(from) {
        return invalid(&format!("source field for $rename may not be dynamic: {from}"));
    }
    if dynamic(to_path) {
        return invalid(&format!("destination field for $rename may not be dynamic: {to_path}"));
    }
    tree.add(to_path, UpdateOperator::Rename { from: from.to_owned() }, filters)
}

fn number(argument: &Bson, path: &str, verb: &str) -> Result<Bson, Fault> {
    if is_number(argument) {
        return Ok(argument.clone());
    }
    let argument = text::field(path, argument);
    Err(Fault::type_mismatch(format!("Cannot {verb} with non-numeric argument: {{{argument}}}")))
}

fn current_date(argument: &Bson) -> Result<UpdateOperator, Fault> {
    let options = match argument {
        Bson::Boolean(_) => return Ok(UpdateOperator::CurrentDate),
        Bson::Document(options) => options,
        other => {
            return Err(Fault::bad_value(format!(
                "{} is not valid type for $currentDate. Please use a boolean ('true') or a $type \
                 expression ({{$type: 'timestamp/date'}}).",
                type_name(other)
            )));
        }
    };
    let mut operator = None;
    for (key, value) in options {
        if key != "$type" {
            return Err(Fault::bad_value(format!("Unrecognized $currentDate option: {key}")));
        }
        operator = match value.as_str() {
            Some("date") => Some(UpdateOperator::CurrentDate),
            Some("timestamp") => Some(UpdateOperator::CurrentTimestamp),
            Some(_) | None => None,
        };
        if operator.is_none() {
            break;
        }
    }
    operator.ok_or_else(|| {
        Fault::bad_value(
            "The '$type' string field is required to be 'date' or 'timestamp': {$currentDate: \
             {field : {$type: 'date'}}}",
        )
    })
}

fn pop(argument: &Bson, path: &str) -> Result<UpdateOperator, Fault> {
    let Some(number) = Number::of(argument) else {
        let argument = text::field(path, argument);
        return Err(Fault::failed_to_parse(format!("Expected a number in: {argument}")));
    };
    match number.to_integer() {
        Some(1) => Ok(UpdateOperator::PopLast),
        Some(-1) => Ok(UpdateOperator::PopFirst),
        Some(other) => Err(Fault::failed_to_parse(format!("$pop expects 1 or -1, found: {other}"))),
        None => {
            let argument = text::field(path, argument);
            Err(Fault::failed_to_parse(format!("Expected an integer: {argument}")))
        }
    }
}

/// Returns the elements of an `$addToSet` without duplicates.
fn to_add(argument: &Bson, env: &Environment) -> Result<Vec<Bson>, Fault> {
    let each = match argument {
        Bson::Document(options) if options.keys().next().is_some_and(|it| it == "$each") => {
            let each = &options["$each"];
            let Bson::Array(elements) = each else {
                return Err(Fault::type_mismatch(format!(
                    "The argument to $each in $addToSet must be an array but it was of type {}",
                    type_name(each)
                )));
            };
            if options.len() > 1 {
                return Err(Fault::bad_value(format!(
                    "Found unexpected fields after $each in $addToSet: {}",
                    text::document(options)
                )));
            }
            elements.as_slice()
        }
        other => std::slice::from_ref(other),
    };
    let mut unique: Vec<Bson> = Vec::new();
    for element in each {
        if !unique.iter().any(|it| value::compare(it, element, &env.collation).is_eq()) {
            unique.push(element.clone());
        }
    }
    Ok(unique)
}

fn to_pull(argument: &Bson) -> Result<Vec<Bson>, Fault> {
    match argument {
        Bson::Array(elements) => Ok(elements.clone()),
        other => Err(Fault::bad_value(format!(
            "$pullAll requires an array argument but was given a {}",
            type_name(other)
        ))),
    }
}
