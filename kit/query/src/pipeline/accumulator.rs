//! Accumulators of `$group` and `$bucket`.

use std::{collections::VecDeque, sync::Arc};

use bson::{Bson, Document};

use super::stage::counted;
use crate::{
    Code, Collation, Environment, Expression, Fault, Sort,
    expression::{not_mergeable, positive_n, simple_accumulator::SimpleAccumulator},
    value::{self, is_nullish},
};

/// A parsed accumulator.
#[derive(Clone, Debug)]
pub(super) struct Accumulator {
    kind: AccumulatorKind,
    /// Expression evaluated for each document.
    argument: Expression,
}

#[derive(Clone, Debug)]
enum AccumulatorKind {
    SimpleAccumulator(SimpleAccumulator),
    First,
    Last,
    Push,
    Set,
    Count,
    Merge,
    /// `$firstN`, `$lastN`, `$maxN`, `$minN` with their `n`.
    FirstN(Expression),
    LastN(Expression),
    MaxN(Expression),
    MinN(Expression),
    /// `$top`, `$bottom`, `$topN`, `$bottomN`.
    Ranked {
        order: Sort,
        last: bool,
        n: Option<Expression>,
    },
}

impl Accumulator {
    /// Parses the accumulator of a field.
    pub(super) fn parse(field: &str, value: &Bson, env: &Environment) -> Result<Self, Fault> {
        let invalid = |code, message: &str| {
            Err(Fault::location(code, format!("The field '{field}' {message}")))
        };
        let Bson::Document(document) = value else {
            return invalid(40234, "must be an accumulator object");
        };
        let Some((name, argument)) = document.iter().next() else {
            return invalid(40234, "must be an accumulator object");
        };
        if field.contains('.') {
            return invalid(40235, "cannot contain '.'");
        }
        if field.starts_with('$') {
            return invalid(40236, "cannot be an operator name");
        }
        if document.len() != 1 {
            return invalid(40238, "must specify one accumulator");
        }
        Self::named(name, argument, env)
    }

    /// Creates an accumulator that counts documents.
    pub(super) fn counting() -> Self {
        Self { kind: AccumulatorKind::Count, argument: Expression::literal(Bson::Null) }
    }

    fn named(name: &str, argument: &Bson, env: &Environment) -> Result<Self, Fault> {
        let kind = match name {
            "$first" => AccumulatorKind::First,
            "$last" => AccumulatorKind::Last,
            "$push" => AccumulatorKind::Push,
            "$addToSet" => AccumulatorKind::Set,
            "$mergeObjects" => AccumulatorKind::Merge,
            "$count" => {
                return match argument {
                    Bson::Document(document) if document.is_empty() => Ok(Self::counting()),
                    _ => Err(Fault::type_mismatch("$count takes no arguments, i.e. $count:{}")),
                };
            }
            "$firstN" | "$lastN" | "$maxN" | "$minN" => return Self::of_n(name, argument, env),
            "$top" | "$topN" | "$bottom" | "$bottomN" => return Self::ranked(name, argument, env),
            _ => match SimpleAccumulator::named(name) {
                Some(summary) => AccumulatorKind::SimpleAccumulator(summary),
                None => {
                    let message = format!("unknown group operator '{name}'");
                    return Err(Fault::location(15952, message));
                }
            },
        };
        if matches!(argument, Bson::Array(_)) {
            let message = format!("The {name} accumulator is a unary operator");
            return Err(Fault::location(40237, message));
        }
        Ok(Self { kind, argument: Expression::parse(argument, env)? })
    }

    fn of_n(name: &str, argument: &Bson, env: &Environment) -> Result<Self, Fault> {
        let Bson::Document(options) = argument else {
            let code = if matches!(name, "$firstN" | "$lastN") { 5_787_801 } else { 5_787_900 };
            return Err(Fault::location(code, "specification must be an object"));
        };
        let (mut n, mut input) = (None, None);
        for (option, value) in options {
            match option.as_str() {
                "n" => n = Some(Expression::parse(value, env)?),
                "input" => input = Some(Expression::parse(value, env)?),
                other => {
                    let message = format!("Unknown argument for 'n' operator: {other}");
                    return Err(Fault::location(5_787_901, message));
                }
            }
        }
        let n = n.ok_or_else(|| Fault::location(5_787_906, "Missing value for 'n'"))?;
        let argument =
            input.ok_or_else(|| Fault::location(5_787_907, "Missing value for 'input'"))?;
        let kind = match name {
            "$firstN" => AccumulatorKind::FirstN(n),
            "$lastN" => AccumulatorKind::LastN(n),
            "$maxN" => AccumulatorKind::MaxN(n),
            _ => AccumulatorKind::MinN(n),
        };
        Ok(Self { kind, argument })
    }

    fn ranked(name: &str, argument: &Bson, env: &Environment) -> Result<Self, Fault> {
        let Bson::Document(options) = argument else {
            return Err(Fault::location(5_788_001, "specification must be an object"));
        };
        let many = name.ends_with('N');
        let (mut n, mut output, mut order) = (None, None, None);
        for (option, value) in options {
            match (option.as_str(), value) {
                ("n", value) if many => n = Some(Expression::parse(value, env)?),
                ("output", value) => output = Some(Expression::parse(value, env)?),
                ("sortBy", Bson::Document(sort)) => order = Some(super::parse::sort(sort)?),
                ("sortBy", _) => {
                    let message = "invalid parameter: expected an object (sortBy)";
                    return Err(Fault::location(10065, message));
                }
                (other, _) => {
                    let message = format!("Unknown argument to {name} '{other}'");
                    return Err(Fault::location(5_788_002, message));
                }
            }
        }
        let missing = |code, what| Fault::location(code, format!("Missing value for '{what}'"));
        if many && n.is_none() {
            return Err(missing(5_788_003, "n"));
        }
        let argument = output.ok_or_else(|| missing(5_788_004, "output"))?;
        let order = order.ok_or_else(|| missing(5_788_005, "sortBy"))?;
        let last = name.starts_with("$bottom");
        Ok(Self { kind: AccumulatorKind::Ranked { order, last, n }, argument })
    }

    /// Evaluates the argument for a document.
    pub(super) fn value(
        &self,
        document: &Document,
        env: &Environment,
    ) -> Result<Option<Bson>, Fault> {
        self.argument.evaluate(document, env)
    }

    /// Creates the initial state of a group. `n` may depend on the group key.
    pub(super) fn state(&self, key: &Bson, env: &Environment) -> Result<AccumulatorState, Fault> {
        let empty = Document::new();
        let root = key.as_document().unwrap_or(&empty);
        let n = |n: &Expression| positive_n(&n.evaluate(root, env)?);
        Ok(match &self.kind {
            AccumulatorKind::SimpleAccumulator(summary) => {
                AccumulatorState::SimpleAccumulator(summary.clone())
            }
            AccumulatorKind::First => AccumulatorState::First(None),
            AccumulatorKind::Last => AccumulatorState::Last(Bson::Null),
            AccumulatorKind::Push => AccumulatorState::Push(Vec::new()),
            AccumulatorKind::Set => AccumulatorState::Set { sorted: Vec::new() },
            AccumulatorKind::Count => AccumulatorState::Count(0),
            AccumulatorKind::Merge => AccumulatorState::Merge(Document::new()),
            AccumulatorKind::FirstN(count) => AccumulatorState::FirstN(n(count)?, Vec::new()),
            AccumulatorKind::LastN(count) => AccumulatorState::LastN(n(count)?, VecDeque::new()),
            AccumulatorKind::MaxN(count) => {
                AccumulatorState::Extremes { n: n(count)?, greatest: true, all: Vec::new() }
            }
            AccumulatorKind::MinN(count) => {
                AccumulatorState::Extremes { n: n(count)?, greatest: false, all: Vec::new() }
            }
            AccumulatorKind::Ranked { order, last, n: count } => AccumulatorState::Ranked {
                order: order.clone(),
                last: *last,
                n: count.as_ref().map(n).transpose()?,
                all: Vec::new(),
            },
        })
    }
}

/// State of an accumulator in one group.
pub(super) enum AccumulatorState {
    SimpleAccumulator(SimpleAccumulator),
    First(Option<Bson>),
    Last(Bson),
    Push(Vec<Bson>),
    Set { sorted: Vec<Bson> },
    Count(usize),
    Merge(Document),
    FirstN(usize, Vec<Bson>),
    LastN(usize, VecDeque<Bson>),
    Extremes { n: usize, greatest: bool, all: Vec<Bson> },
    Ranked { order: Sort, last: bool, n: Option<usize>, all: Vec<(Arc<Document>, Bson)> },
}

impl AccumulatorState {
    /// Adds the value of a document.
    pub(super) fn add(
        &mut self,
        value: Option<Bson>,
        document: &Arc<Document>,
        collation: &Collation,
    ) -> Result<(), Fault> {
        match self {
            Self::SimpleAccumulator(summary) => {
                if let Some(value) = value {
                    summary.add(value, collation);
                }
            }
            Self::First(first) => {
                first.get_or_insert(value.unwrap_or(Bson::Null));
            }
            Self::Last(last) => *last = value.unwrap_or(Bson::Null),
            Self::Push(all) => all.extend(value),
            Self::Set { sorted } => {
                if let Some(value) = value {
                    let place = sorted.binary_search_by(|it| value::compare(it, &value, collation));
                    if let Err(place) = place {
                        sorted.insert(place, value);
                    }
                }
            }
            Self::Count(count) => *count += 1,
            Self::Merge(merged) => match value {
                Some(Bson::Document(document)) => merged.extend(document),
                None | Some(Bson::Null | Bson::Undefined) => {}
                other => {
                    let fault = not_mergeable(&other);
                    return Err(Fault::new(Code::location(5_911_200), fault.message));
                }
            },
            Self::FirstN(n, all) => {
                if all.len() < *n {
                    all.push(value.unwrap_or(Bson::Null));
                }
            }
            Self::LastN(n, all) => {
                all.push_back(value.unwrap_or(Bson::Null));
                if all.len() > *n {
                    all.pop_front();
                }
            }
            Self::Extremes { all, .. } => all.extend(value.filter(|it| !is_nullish(it))),
            Self::Ranked { order, last, n, all } => {
                let above =
                    |it: &(Arc<Document>, Bson)| order.compare(&it.0, document, collation).is_le();
                let place = all.partition_point(above);
                let full = all.len() >= n.unwrap_or(1);
                // Of equal documents, the first ones are kept.
                match (full, *last) {
                    (true, true) if !below(all, order, document, collation) => return Ok(()),
                    (true, false) if place == all.len() => return Ok(()),
                    _ => all.insert(place, (document.clone(), value.unwrap_or(Bson::Null))),
                }
                if full && *last {
                    all.remove(0);
                } else if full {
                    all.pop();
                }
            }
        }
        Ok(())
    }

    /// Returns the result.
    pub(super) fn finish(self, collation: &Collation) -> Bson {
        match self {
            Self::SimpleAccumulator(summary) => summary.value(),
            Self::First(first) => first.unwrap_or(Bson::Null),
            Self::Last(last) => last,
            Self::Push(all) | Self::Set { sorted: all } | Self::FirstN(_, all) => all.into(),
            Self::Count(count) => counted(count),
            Self::Merge(merged) => merged.into(),
            Self::LastN(_, all) => Bson::Array(all.into()),
            Self::Extremes { n, greatest, mut all } => {
                all.sort_by(|left, right| {
                    let order = value::compare(left, right, collation);
                    if greatest { order.reverse() } else { order }
                });
                all.truncate(n);
                all.into()
            }
            Self::Ranked { n, all, .. } => {
                let mut ranked = all.into_iter().map(|(_, value)| value);
                match n {
                    Some(_) => Bson::Array(ranked.collect()),
                    None => ranked.next().unwrap_or(Bson::Null),
                }
            }
        }
    }
}

/// Returns `true` if the document sorts after the first one that is kept.
fn below(
    kept: &[(Arc<Document>, Bson)],
    order: &Sort,
    document: &Document,
    collation: &Collation,
) -> bool {
    kept.first().is_some_and(|(first, _)| order.compare(first, document, collation).is_lt())
}
