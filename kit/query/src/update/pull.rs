//! `$pull`.

use bson::{Bson, doc};

use crate::{Environment, Fault, Filter, value};

use super::array_filters::check_element_filter;

/// Condition for removed elements.
#[derive(Clone, Debug)]
pub(super) enum PullCondition {
    /// Elements equal to a value.
    Equal(Bson),
    /// Documents that match a filter.
    Documents(Filter),
    /// Values that match operators such as `{$gt: 1}`, as the field [`WRAPPED`].
    Values(Filter),
}

/// Name of the field that holds an element for its filter.
const WRAPPED: &str = "element";

impl PullCondition {
    pub(super) fn parse(condition: &Bson, env: &Environment) -> Result<Self, Fault> {
        let on_values = match condition {
            Bson::Document(document) => {
                if !document.keys().next().is_some_and(|it| is_of_values(it)) {
                    check_element_filter(document)?;
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
        check_element_filter(&filter)?;
        Ok(Self::Values(Filter::parse(&filter, env)?))
    }

    /// Returns `true` if the element is removed.
    pub(super) fn holds(&self, element: &Bson, env: &Environment) -> Result<bool, Fault> {
        match (self, element) {
            (Self::Equal(value), _) => Ok(value::compare(value, element, &env.collation).is_eq()),
            (Self::Documents(filter), Bson::Document(document)) => filter.matches(document, env),
            (Self::Documents(_), _) => Ok(false),
            (Self::Values(filter), _) => filter.matches(&doc! { WRAPPED: element.clone() }, env),
        }
    }
}

/// Returns `true` for operators on values.
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
