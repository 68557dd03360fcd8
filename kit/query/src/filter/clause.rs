//! Conditions on a field.

use std::cmp::Ordering;

use bson::{Bson, Document};

use super::{
    bits::BitTest,
    node::{FilterNode, FilterSearch},
    pattern::FilterRegex,
    types::TypeSet,
};
use crate::{
    Collation, Environment,
    value::{self, Number},
};

/// Condition on a field.
#[derive(Clone, Debug)]
pub(crate) enum Clause {
    /// A single predicate.
    Test(Predicate),
    /// Negation: the condition holds for no value of the path.
    Not(Box<Clause>),
    /// Several conditions. Different elements of an array may satisfy them.
    And(Vec<Clause>),
}

/// Predicate on a value.
#[derive(Clone, Debug)]
pub(crate) enum Predicate {
    /// `$eq`, `$gt`, `$gte`, `$lt`, `$lte`.
    Compare(Comparison, Bson),
    /// `$in`: sorted values and regular expressions.
    AnyOf { values: Vec<Bson>, null: bool, patterns: Vec<FilterRegex> },
    /// `$regex`.
    Pattern(FilterRegex),
    /// `$mod`.
    Modulo { divisor: i64, remainder: i64 },
    /// `$exists: true`.
    Exists,
    /// `$type`.
    Type(TypeSet),
    /// `$bitsAllSet` and its kin.
    BitTest(BitTest),
    /// `$size`.
    Size(usize),
    /// `$elemMatch` with a filter of documents.
    ElementDocument(Box<ElementFilter>),
    /// `$elemMatch` with conditions on values.
    ElementValue(Vec<Clause>),
    /// `$all: []`, which matches nothing.
    Never,
}

/// Filter of an `$elemMatch`. It has no `$expr`, so it cannot fail.
#[derive(Clone, Debug)]
pub(crate) struct ElementFilter(pub(super) FilterNode);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    LessOrEqual,
    Less,
    Greater,
    GreaterOrEqual,
}

impl Clause {
    /// Returns `true` if the condition holds for the value itself, without its array elements.
    pub(super) fn holds(&self, value: &Bson, collation: &Collation, env: &Environment) -> bool {
        match self {
            Self::Test(test) => test.element(Some(value), collation, env).is_some(),
            Self::Not(clause) => !clause.holds(value, collation, env),
            Self::And(clauses) => clauses.iter().all(|it| it.holds(value, collation, env)),
        }
    }

    /// Order of evaluation in a conjunction, as in servers.
    pub(super) fn order(&self) -> u8 {
        match self {
            Self::And(_) => 0,
            Self::Not(_) => 30,
            Self::Test(test) => match test {
                Predicate::ElementDocument(_) => 2,
                Predicate::ElementValue(_) => 3,
                Predicate::Size(_) => 4,
                Predicate::Compare(Comparison::Equal, _) => 5,
                Predicate::Compare(Comparison::LessOrEqual, _) => 6,
                Predicate::Compare(Comparison::Less, _) => 7,
                Predicate::Compare(Comparison::Greater, _) => 8,
                Predicate::Compare(Comparison::GreaterOrEqual, _) => 9,
                Predicate::Pattern(_) => 10,
                Predicate::Modulo { .. } => 11,
                Predicate::Exists => 12,
                Predicate::AnyOf { .. } => 13,
                Predicate::BitTest(bits) => 14 + bits.order(),
                Predicate::Type(_) => 40,
                Predicate::Never => 44,
            },
        }
    }
}

impl Predicate {
    /// Creates an `$in` predicate.
    pub(super) fn any_of(
        mut values: Vec<Bson>,
        patterns: Vec<FilterRegex>,
        collation: &Collation,
    ) -> Self {
        values.sort_by(|left, right| value::compare(left, right, collation));
        values.dedup_by(|left, right| value::compare(left, right, collation).is_eq());
        let null = values.iter().any(|it| matches!(it, Bson::Null));
        Self::AnyOf { values, null, patterns }
    }

    /// Returns `true` for predicates on whole arrays.
    pub(super) fn is_of_arrays(&self) -> bool {
        match self {
            Self::Size(_) | Self::ElementDocument(_) | Self::ElementValue(_) => true,
            Self::Compare(..)
            | Self::AnyOf { .. }
            | Self::Pattern(_)
            | Self::Modulo { .. }
            | Self::Exists
            | Self::Type(_)
            | Self::BitTest(_)
            | Self::Never => false,
        }
    }

    /// Tests a value, which may be missing. Returns `Some` if the predicate holds, with the array
    /// index of an `$elemMatch`.
    pub(super) fn element(
        &self,
        value: Option<&Bson>,
        collation: &Collation,
        env: &Environment,
    ) -> Option<Option<usize>> {
        let holds = match (self, value) {
            (Self::Compare(comparison, than), _) => comparison.holds(value, than, collation),
            (Self::AnyOf { values, null, patterns }, Some(value)) => {
                is_any_of(value, values, *null, patterns, collation)
            }
            (Self::AnyOf { null, .. }, None) => *null,
            (Self::Exists, _) => value.is_some(),
            (Self::Never, _) | (_, None) => false,
            (Self::Pattern(pattern), Some(value)) => pattern.matches(value),
            (Self::Modulo { divisor, remainder }, Some(value)) => Number::of(value)
                .and_then(Number::truncated)
                .is_some_and(|it| it.wrapping_rem(*divisor) == *remainder),
            (Self::Type(types), Some(value)) => types.contain(value),
            (Self::BitTest(bits), Some(value)) => bits.hold(value),
            (Self::Size(size), Some(value)) => value.as_array().is_some_and(|it| it.len() == *size),
            (Self::ElementDocument(filter), Some(value)) => {
                return elements(value)?
                    .position(|it| filter.matches(it, collation, env))
                    .map(Some);
            }
            (Self::ElementValue(clauses), Some(value)) => {
                let holds = |it| clauses.iter().all(|clause| clause.holds(it, collation, env));
                return elements(value)?.position(holds).map(Some);
            }
        };
        holds.then_some(None)
    }
}

fn elements(value: &Bson) -> Option<std::slice::Iter<'_, Bson>> {
    value.as_array().map(|it| it.iter())
}

fn is_any_of(
    value: &Bson,
    values: &[Bson],
    null: bool,
    patterns: &[FilterRegex],
    collation: &Collation,
) -> bool {
    values.binary_search_by(|it| value::compare(it, value, collation)).is_ok()
        || null && matches!(value, Bson::Undefined)
        || patterns.iter().any(|it| it.matches(value))
}

impl ElementFilter {
    fn matches(&self, element: &Bson, collation: &Collation, env: &Environment) -> bool {
        let mut search = FilterSearch::new(collation, env);
        match element {
            Bson::Document(document) => search.matches(&self.0, document).unwrap_or(false),
            // A nested array matches like a document whose field names are its indexes.
            Bson::Array(elements) => {
                let fields = elements.iter().enumerate();
                let document: Document =
                    fields.map(|(index, it)| (index.to_string(), it.clone())).collect();
                search.matches(&self.0, &document).unwrap_or(false)
            }
            _ => false,
        }
    }
}

impl Comparison {
    /// Compares values of the same type bracket: numbers with numbers, strings with strings. A
    /// missing value is null.
    fn holds(self, value: Option<&Bson>, than: &Bson, collation: &Collation) -> bool {
        let or_equal = !matches!(self, Self::Less | Self::Greater);
        let null = &Bson::Null;
        let value = value.filter(|it| !matches!(it, Bson::Undefined)).unwrap_or(null);
        if value::type_order(value) != value::type_order(than) {
            return match than {
                Bson::MinKey => matches!(self, Self::Greater | Self::GreaterOrEqual),
                Bson::MaxKey => matches!(self, Self::Less | Self::LessOrEqual),
                _ => false,
            };
        }
        let nan = |it| Number::of(it).is_some_and(Number::is_nan);
        if value::is_number(than) && (nan(than) || nan(value)) {
            return or_equal && nan(than) && nan(value);
        }
        let order = value::compare(value, than, collation);
        match self {
            Self::Equal => order == Ordering::Equal,
            Self::LessOrEqual => order.is_le(),
            Self::Less => order.is_lt(),
            Self::Greater => order.is_gt(),
            Self::GreaterOrEqual => order.is_ge(),
        }
    }
}
