//! `$pull`: which elements of an array go.

use bson::{Bson, doc};

use crate::{Environment, Fault, Filter, value};

use super::array_filters::refuse_what_needs_a_document;

/// Which elements go.
#[derive(Clone, Debug)]
pub(super) enum Condition {
    /// Those that equal a value.
    Equal(Bson),
    /// Documents that a filter matches.
    Documents(Filter),
    /// Those that operators match, such as `{$gt: 1}`, as the value of the field [`WRAPPED`].
    Values(Filter),
}

/// The field that an element is put into so that a filter can see it.
const WRAPPED: &str = "element";

impl Condition {
    pub(super) fn parse(condition: &Bson, env: &Environment) -> Result<Self, Fault> {
        let on_values = match condition {
            Bson::Document(document) => {
                if !document.keys().next().is_some_and(|it| is_of_values(it)) {
                    refuse_what_needs_a_document(document)?;
                    return Ok(Self::Documents(Filter::parse(document, env)?));
                }
                true
            }
            Bson::RegularExpression(_) => true,
            _ => false,
        };
        if !on_values {
            return Ok(Self::Equal(condition.clone()));
        }
        let filter = doc! { WRAPPED: condition.clone() };
        refuse_what_needs_a_document(&filter)?;
        Ok(Self::Values(Filter::parse(&filter, env)?))
    }

    /// Whether this element goes.
    pub(super) fn holds(&self, element: &Bson, env: &Environment) -> Result<bool, Fault> {
        match (self, element) {
            (Self::Equal(value), _) => Ok(value::compare(value, element, &env.collation).is_eq()),
            (Self::Documents(filter), Bson::Document(document)) => filter.matches(document, env),
            (Self::Documents(_), _) => Ok(false),
            (Self::Values(filter), _) => filter.matches(&doc! { WRAPPED: element.clone() }, env),
        }
    }
}

/// Whether an operator is of a field's value, not of a document.
fn is_of_values(operator: &str) -> bool {
    const OPERATORS: [&str; 26] = [
        "$all",
        "$bitsAllClear",
        "$bitsAllSet",
        "$bitsAnyClear",
        "$bitsAnySet",
        "$elemMatch",
        "$eq",
        "$exists",
        "$geoIntersects",
        "$geoNear",
        "$geoWithin",
        "$gt",
        "$gte",
        "$in",
        "$lt",
        "$lte",
        "$mod",
        "$ne",
        "$near",
        "$nearSphere",
        "$nin",
        "$options",
        "$regex",
        "$size",
        "$type",
        "$within",
    ];
    OPERATORS.contains(&operator)
}
