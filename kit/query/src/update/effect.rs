//! Effect of update operators on a value.

use bson::{Bson, Document};

use crate::{
    Environment, Fault, text,
    value::{self, Number, type_name},
};

use super::{navigation::identical, operator::UpdateOperator};

impl UpdateOperator {
    /// Returns the new value. `None` if it does not change. Error messages use path and document.
    pub(super) fn changed(
        &self,
        value: &Bson,
        path: &[String],
        document: &Document,
        env: &Environment,
    ) -> Result<Option<Bson>, Fault> {
        let name = path.last().map_or("", String::as_str);
        Ok(match self {
            Self::Set(new) | Self::SetOnInsert(new) => {
                (!identical(value, new)).then(|| new.clone())
            }
            Self::Inc(by) => computed("$inc", value::add, value, by, name, document)?,
            Self::Mul(by) => computed("$mul", value::multiply, value, by, name, document)?,
            Self::Min(new) => {
                value::compare(new, value, &env.collation).is_lt().then(|| new.clone())
            }
            Self::Max(new) => {
                value::compare(new, value, &env.collation).is_gt().then(|| new.clone())
            }
            Self::CurrentDate => Some(Bson::DateTime(env.now)),
            Self::CurrentTimestamp => Some(Bson::Timestamp(env.cluster_time)),
            Self::Bit(bits) => {
                let new = bits.applied(value).ok_or_else(|| not_integral(value, name, document))?;
                (!identical(value, &new)).then_some(new)
            }
            Self::Push(push) => {
                let Bson::Array(elements) = value else {
                    return Err(Fault::bad_value(format!(
                        "The field '{}' must be an array but is of type {} in document {}",
                        path.join("."),
                        type_name(value),
                        text::id(document)
                    )));
                };
                let mut elements = elements.clone();
                push.apply(&mut elements, &env.collation).then_some(Bson::Array(elements))
            }
            Self::AddToSet(new) => added(value, new, name, env)?,
            Self::PopFirst | Self::PopLast => popped(self, value, path)?,
            Self::Pull(condition) => without(value, |it| condition.holds(it, env))?,
            Self::PullAll(gone) => without(value, |it| {
                Ok(gone.iter().any(|gone| value::compare(gone, it, &env.collation).is_eq()))
            })?,
            // Handled by the caller: they concern the field, not only its value.
            Self::Unset | Self::Rename { .. } | Self::Renamed => None,
        })
    }

    /// Returns `true` if the operator adds elements to an array.
    pub(super) fn adds_elements(&self) -> bool {
        match self {
            Self::Push(push) => push.adds_elements(),
            Self::AddToSet(new) => !new.is_empty(),
            _ => false,
        }
    }

    /// Returns the value of a new field. `None` if the operator creates none.
    pub(super) fn created(&self, env: &Environment) -> Option<Bson> {
        match self {
            Self::Set(new)
            | Self::SetOnInsert(new)
            | Self::Inc(new)
            | Self::Min(new)
            | Self::Max(new) => Some(new.clone()),
            Self::Mul(by) => value::multiply(&Bson::Int32(0), by).ok(),
            Self::CurrentDate => Some(Bson::DateTime(env.now)),
            Self::CurrentTimestamp => Some(Bson::Timestamp(env.cluster_time)),
            Self::Bit(bits) => bits.applied(&Bson::Int32(0)),
            Self::Push(push) => {
                let mut elements = Vec::new();
                push.apply(&mut elements, &env.collation);
                Some(Bson::Array(elements))
            }
            Self::AddToSet(new) => Some(Bson::Array(new.clone())),
            Self::Unset
            | Self::Rename { .. }
            | Self::Renamed
            | Self::PopFirst
            | Self::PopLast
            | Self::Pull(_)
            | Self::PullAll(_) => None,
        }
    }
}

fn computed(
    operator: &str,
    operation: fn(&Bson, &Bson) -> Result<Bson, value::ArithmeticError>,
    value: &Bson,
    by: &Bson,
    name: &str,
    document: &Document,
) -> Result<Option<Bson>, Fault> {
    if !value::is_number(value) {
        return Err(Fault::type_mismatch(format!(
            "Cannot apply {operator} to a value of non-numeric type. {} has the field '{name}' of \
             non-numeric type {}",
            text::id(document),
            type_name(value)
        )));
    }
    let new = operation(value, by).map_err(|_| {
        let kind = if matches!(value, Bson::Int32(_)) { "NumberInt" } else { "NumberLong" };
        Fault::bad_value(format!(
            "Failed to apply {operator} operations to current value (({kind}){}) for document {}",
            text::value(value),
            text::id(document)
        ))
    })?;
    // An equal result of the same type is no change. -0.0 equals 0.0; NaN equals nothing.
    let equal = value::type_order(value) == value::type_order(&new)
        && value.element_type() == new.element_type()
        && value::equal(value, &new)
        && !Number::of(&new).is_some_and(Number::is_nan);
    Ok((!equal).then_some(new))
}

fn not_integral(value: &Bson, name: &str, document: &Document) -> Fault {
    let id = match document.get("_id") {
        Some(id) => text::field("_id", id),
        // Servers use this text, too.
        None => "INVALID-MUTABLE-ELEMENT".to_owned(),
    };
    Fault::bad_value(format!(
        "Cannot apply $bit to a value of non-integral type.{id} has the field {name} of non-integer \
         type {}",
        type_name(value)
    ))
}

fn added(value: &Bson, new: &[Bson], name: &str, env: &Environment) -> Result<Option<Bson>, Fault> {
    let Bson::Array(elements) = value else {
        return Err(Fault::bad_value(format!(
            "Cannot apply $addToSet to non-array field. Field named '{name}' has non-array type {}",
            type_name(value)
        )));
    };
    let missing: Vec<Bson> = new
        .iter()
        .filter(|new| !elements.iter().any(|it| value::compare(it, new, &env.collation).is_eq()))
        .cloned()
        .collect();
    if missing.is_empty() {
        return Ok(None);
    }
    Ok(Some(Bson::Array(elements.iter().cloned().chain(missing).collect())))
}

fn popped(operator: &UpdateOperator, value: &Bson, path: &[String]) -> Result<Option<Bson>, Fault> {
    let Bson::Array(elements) = value else {
        return Err(Fault::type_mismatch(format!(
            "Path '{}' contains an element of non-array type '{}'",
            path.join("."),
            type_name(value)
        )));
    };
    let rest = if matches!(operator, UpdateOperator::PopFirst) {
        elements.split_first().map(|(_, rest)| rest)
    } else {
        elements.split_last().map(|(_, rest)| rest)
    };
    Ok(rest.map(|rest| Bson::Array(rest.to_vec())))
}

fn without(
    value: &Bson,
    goes: impl Fn(&Bson) -> Result<bool, Fault>,
) -> Result<Option<Bson>, Fault> {
    let Bson::Array(elements) = value else {
        return Err(Fault::bad_value("Cannot apply $pull to a non-array value"));
    };
    let mut kept = Vec::new();
    for element in elements {
        if !goes(element)? {
            kept.push(element.clone());
        }
    }
    Ok((kept.len() < elements.len()).then_some(Bson::Array(kept)))
}
