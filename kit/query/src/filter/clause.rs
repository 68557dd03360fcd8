//! What a filter can demand of a value.

use std::cmp::Ordering;

use bson::{Bson, Document};

use super::{
    bits::Bits,
    node::{Node, Search},
    pattern::Pattern,
    types::Types,
};
use crate::{
    Collation, Environment,
    value::{self, Number},
};

/// What is demanded of a field.
#[derive(Clone, Debug)]
pub(crate) enum Clause {
    /// One thing.
    Test(Test),
    /// That the other does not hold: for no value under the path.
    Not(Box<Clause>),
    /// Several things, each of which may hold for another element of an array.
    And(Vec<Clause>),
}

/// One thing that is demanded of a value.
#[derive(Clone, Debug)]
pub(crate) enum Test {
    /// `$eq` and its kin.
    Compare(Comparison, Bson),
    /// `$in`: values in their order, and regular expressions.
    AnyOf { values: Vec<Bson>, null: bool, patterns: Vec<Pattern> },
    /// `$regex`.
    Pattern(Pattern),
    /// `$mod`.
    Modulo { divisor: i64, remainder: i64 },
    /// `$exists: true`.
    Exists,
    /// `$type`.
    Type(Types),
    /// `$bitsAllSet` and its kin.
    Bits(Bits),
    /// `$size`.
    Size(usize),
    /// `$elemMatch` of documents.
    ElementDocument(Box<ElementFilter>),
    /// `$elemMatch` of values.
    ElementValue(Vec<Clause>),
    /// `$all: []`.
    Never,
}

/// The filter inside an `$elemMatch`. It has no `$expr`, so that its search cannot fail.
#[derive(Clone, Debug)]
pub(crate) struct ElementFilter(pub(super) Node);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    LessOrEqual,
    Less,
    Greater,
    GreaterOrEqual,
}

impl Clause {
    /// Whether it holds for this value itself, not for what an array has in it.
    pub(super) fn holds(&self, value: &Bson, collation: &Collation, env: &Environment) -> bool {
        match self {
            Self::Test(test) => test.element(Some(value), collation, env).is_some(),
            Self::Not(clause) => !clause.holds(value, collation, env),
            Self::And(clauses) => clauses.iter().all(|it| it.holds(value, collation, env)),
        }
    }

    /// By which a server orders the parts of a conjunction.
    pub(super) fn order(&self) -> u8 {
        match self {
            Self::And(_) => 0,
            Self::Not(_) => 30,
            Self::Test(test) => match test {
                Test::ElementDocument(_) => 2,
                Test::ElementValue(_) => 3,
                Test::Size(_) => 4,
                Test::Compare(Comparison::Equal, _) => 5,
                Test::Compare(Comparison::LessOrEqual, _) => 6,
                Test::Compare(Comparison::Less, _) => 7,
                Test::Compare(Comparison::Greater, _) => 8,
                Test::Compare(Comparison::GreaterOrEqual, _) => 9,
                Test::Pattern(_) => 10,
                Test::Modulo { .. } => 11,
                Test::Exists => 12,
                Test::AnyOf { .. } => 13,
                Test::Bits(bits) => 14 + bits.order(),
                Test::Type(_) => 40,
                Test::Never => 44,
            },
        }
    }
}

impl Test {
    /// Equal to one of these values or matching one of these patterns.
    pub(super) fn any_of(
        mut values: Vec<Bson>,
        patterns: Vec<Pattern>,
        collation: &Collation,
    ) -> Self {
        values.sort_by(|left, right| value::compare(left, right, collation));
        values.dedup_by(|left, right| value::compare(left, right, collation).is_eq());
        let null = values.iter().any(|it| matches!(it, Bson::Null));
        Self::AnyOf { values, null, patterns }
    }

    /// Whether an array is looked at as a whole, and its elements not one by one.
    pub(super) fn is_of_arrays(&self) -> bool {
        match self {
            Self::Size(_) | Self::ElementDocument(_) | Self::ElementValue(_) => true,
            Self::Compare(..)
            | Self::AnyOf { .. }
            | Self::Pattern(_)
            | Self::Modulo { .. }
            | Self::Exists
            | Self::Type(_)
            | Self::Bits(_)
            | Self::Never => false,
        }
    }

    /// Whether it holds for a value, which may be missing: then `Some`, with the element by which an
    /// array satisfies `$elemMatch`.
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
            (Self::Bits(bits), Some(value)) => bits.hold(value),
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
    patterns: &[Pattern],
    collation: &Collation,
) -> bool {
    values.binary_search_by(|it| value::compare(it, value, collation)).is_ok()
        || null && matches!(value, Bson::Undefined)
        || patterns.iter().any(|it| it.matches(value))
}

impl ElementFilter {
    fn matches(&self, element: &Bson, collation: &Collation, env: &Environment) -> bool {
        let mut search = Search::new(collation, env);
        match element {
            Bson::Document(document) => search.matches(&self.0, document).unwrap_or(false),
            // An array in an array is a document whose fields are its indexes.
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
    /// Compares a value with another, but only with one of its kind: numbers with numbers, strings with
    /// strings. What is missing is null.
    fn holds(self, value: Option<&Bson>, than: &Bson, collation: &Collation) -> bool {
        let or_equal = !matches!(self, Self::Less | Self::Greater);
        let null = &Bson::Null;
        let value = value.filter(|it| !matches!(it, Bson::Undefined)).unwrap_or(null);
        if value::rank(value) != value::rank(than) {
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
