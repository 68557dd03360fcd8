//! `$bucket` and `$bucketAuto`.

use std::sync::Arc;

use bson::{Bson, Document, doc};

use super::{
    accumulator::{Accumulator, AccumulatorState},
    group::Group,
    options::is_expression,
};
use crate::{
    Code, Environment, Expression, Fault,
    expression::is_whole,
    value::{self, is_number, type_name, type_order},
};

/// Buckets with fixed boundaries.
#[derive(Clone, Debug)]
pub(super) struct Buckets {
    by: Expression,
    boundaries: Vec<Bson>,
    default: Option<Bson>,
}

impl Buckets {
    /// Parses a `$bucket`.
    pub(super) fn parse(specification: &Bson, env: &Environment) -> Result<Group, Fault> {
        let Bson::Document(options) = specification else {
            let found = type_name(specification);
            let message = "Argument to $bucket stage must be an object, but found type:";
            return Err(Fault::location(40201, format!("{message} {found}.")));
        };
        let (mut by, mut boundaries, mut default, mut output) = (None, None, None, None);
        for (name, value) in options {
            match name.as_str() {
                "groupBy" => by = Some(grouping(value, 40202, "$bucket", env)?),
                "boundaries" => boundaries = Some(boundaries_of(value, env)?),
                "default" => {
                    let constant = Expression::parse(value, env)?.constant().cloned();
                    default = Some(constant.ok_or_else(|| {
                        let message = "The $bucket 'default' field must be a constant expression";
                        Fault::location(40195, message)
                    })?);
                }
                "output" => output = Some(outputs(value, 40196, "$bucket", env)?),
                other => {
                    let message = format!("Unrecognized option to $bucket: {other}.");
                    return Err(Fault::location(40197, message));
                }
            }
        }
        let (Some(by), Some(boundaries)) = (by, boundaries) else {
            let message = "$bucket requires 'groupBy' and 'boundaries' to be specified.";
            return Err(Fault::location(40198, message));
        };
        let buckets = Self { by, boundaries, default };
        buckets.check_default(env)?;
        Ok(Group::bucketed(buckets, output.unwrap_or_else(only_count)))
    }

    fn check_default(&self, env: &Environment) -> Result<(), Fault> {
        let (Some(default), Some(first), Some(last)) =
            (&self.default, self.boundaries.first(), self.boundaries.last())
        else {
            return Ok(());
        };
        let less = value::compare(default, first, &env.collation).is_lt();
        let beyond = value::compare(default, last, &env.collation).is_ge();
        if less || beyond {
            return Ok(());
        }
        Err(Fault::location(
            40199,
            "The $bucket 'default' field must be less than the lowest boundary or greater than or \
             equal to the highest boundary.",
        ))
    }

    /// Returns the lower boundary of a document's bucket.
    pub(super) fn of(&self, document: &Document, env: &Environment) -> Result<Bson, Fault> {
        let key = self.by.evaluate(document, env)?.unwrap_or(Bson::Undefined);
        let above =
            self.boundaries.partition_point(|it| value::compare(it, &key, &env.collation).is_le());
        if above > 0 && above < self.boundaries.len() {
            return Ok(self.boundaries[above - 1].clone());
        }
        self.default.clone().ok_or_else(|| {
            Fault::location(
                4_934_200,
                "$switch could not find a matching branch for an input, and no default was specified.",
            )
        })
    }
}

fn grouping(value: &Bson, code: i32, stage: &str, env: &Environment) -> Result<Expression, Fault> {
    if !is_expression(value) {
        let message = "field must be defined as a $-prefixed path or an expression";
        return Err(Fault::location(
            code,
            format!("The {stage} 'groupBy' {message}, but found: {value}."),
        ));
    }
    Expression::parse(value, env)
}

fn outputs(
    value: &Bson,
    code: i32,
    stage: &str,
    env: &Environment,
) -> Result<Vec<(String, Accumulator)>, Fault> {
    let Bson::Document(fields) = value else {
        let found = type_name(value);
        let message = format!("The {stage} 'output' field must be an object, but found type");
        return Err(Fault::location(code, format!("{message}: {found}.")));
    };
    fields
        .iter()
        .map(|(name, value)| Ok((name.clone(), Accumulator::parse(name, value, env)?)))
        .collect()
}

fn only_count() -> Vec<(String, Accumulator)> {
    vec![("count".to_owned(), Accumulator::counting())]
}

fn boundaries_of(value: &Bson, env: &Environment) -> Result<Vec<Bson>, Fault> {
    let Bson::Array(array) = value else {
        let found = type_name(value);
        let message = "The $bucket 'boundaries' field must be an array, but found type:";
        return Err(Fault::location(40200, format!("{message} {found}.")));
    };
    let mut boundaries = Vec::with_capacity(array.len());
    for boundary in array {
        let constant = Expression::parse(boundary, env)?.constant().cloned();
        boundaries.push(constant.ok_or_else(|| {
            let message = "The $bucket 'boundaries' field must be an array of constant values";
            Fault::location(40191, message)
        })?);
    }
    if boundaries.len() < 2 {
        let message = "The $bucket 'boundaries' field must have at least 2 values, but found";
        let count = boundaries.len();
        return Err(Fault::location(40192, format!("{message} {count} value(s).")));
    }
    for pair in boundaries.windows(2) {
        if type_order(&pair[0]) != type_order(&pair[1]) {
            let message =
                "All values in the 'boundaries' option to $bucket must have the same type";
            return Err(Fault::location(40193, message));
        }
        if value::compare(&pair[0], &pair[1], &env.collation).is_ge() {
            let message = "The 'boundaries' option to $bucket must be sorted";
            return Err(Fault::location(40194, message));
        }
    }
    Ok(boundaries)
}

/// `$bucketAuto`: buckets with about equal numbers of documents.
#[derive(Clone, Debug)]
pub(super) struct BucketAuto {
    by: Expression,
    count: usize,
    fields: Vec<(String, Accumulator)>,
}

impl BucketAuto {
    pub(super) fn parse(specification: &Bson, env: &Environment) -> Result<Self, Fault> {
        let Bson::Document(options) = specification else {
            let found = type_name(specification);
            let message = "The argument to $bucketAuto must be an object, but found type:";
            return Err(Fault::location(40240, format!("{message} {found}")));
        };
        let (mut by, mut count, mut fields) = (None, None, None);
        for (name, value) in options {
            match name.as_str() {
                "groupBy" => by = Some(grouping(value, 40239, "$bucketAuto", env)?),
                "buckets" => count = Some(bucket_count(value)?),
                "output" => fields = Some(outputs(value, 40244, "$bucketAuto", env)?),
                "granularity" => return Err(granularity(value)),
                other => {
                    let message = format!("Unrecognized option to $bucketAuto: {other}");
                    return Err(Fault::location(40245, message));
                }
            }
        }
        let (Some(by), Some(count)) = (by, count) else {
            let message = "$bucketAuto requires 'groupBy' and 'buckets' to be specified";
            return Err(Fault::location(40246, message));
        };
        Ok(Self { by, count, fields: fields.unwrap_or_else(only_count) })
    }

    pub(super) fn apply(
        &self,
        rows: Vec<Arc<Document>>,
        env: &Environment,
    ) -> Result<Vec<Arc<Document>>, Fault> {
        let collation = &env.collation;
        let mut keyed = Vec::with_capacity(rows.len());
        for row in rows {
            keyed.push((self.by.evaluate(&row, env)?.unwrap_or(Bson::Null), row));
        }
        keyed.sort_by(|(left, _), (right, _)| value::compare(left, right, collation));
        // Rounds to nearest, halves up.
        let size = ((keyed.len() * 2 + self.count) / (self.count * 2)).max(1);
        let mut starts = Vec::new();
        let mut next = 0;
        while next < keyed.len() {
            starts.push(next);
            if starts.len() == self.count {
                break;
            }
            next = (next + size).min(keyed.len());
            // Equal values stay in one bucket.
            while next < keyed.len()
                && value::compare(&keyed[next].0, &keyed[next - 1].0, collation).is_eq()
            {
                next += 1;
            }
        }
        let ends = starts.iter().skip(1).copied().chain([keyed.len()]);
        let mut buckets = Vec::with_capacity(starts.len());
        for (start, end) in starts.iter().copied().zip(ends) {
            let top = if end < keyed.len() { end } else { end - 1 };
            let id = doc! { "min": keyed[start].0.clone(), "max": keyed[top].0.clone() };
            buckets.push(Arc::new(self.bucket(id, &keyed[start..end], env)?));
        }
        Ok(buckets)
    }

    fn bucket(
        &self,
        id: Document,
        rows: &[(Bson, Arc<Document>)],
        env: &Environment,
    ) -> Result<Document, Fault> {
        let id = Bson::Document(id);
        let states = self.fields.iter().map(|(_, it)| it.state(&id, env));
        let mut states = states.collect::<Result<Vec<AccumulatorState>, _>>()?;
        for (_, row) in rows {
            for ((_, accumulator), state) in self.fields.iter().zip(&mut states) {
                state.add(accumulator.value(row, env)?, row, &env.collation)?;
            }
        }
        let mut bucket = doc! { "_id": id };
        for ((name, _), state) in self.fields.iter().zip(states) {
            bucket.insert(name.as_str(), state.finish(&env.collation));
        }
        Ok(bucket)
    }
}

fn bucket_count(value: &Bson) -> Result<usize, Fault> {
    if !is_number(value) {
        let message = "The $bucketAuto 'buckets' field must be a numeric value";
        return Err(Fault::location(40241, message));
    }
    let Some(count) = is_whole(value).and_then(|it| i32::try_from(it).ok()) else {
        let message = "The $bucketAuto 'buckets' field must be representable as a 32-bit integer";
        return Err(Fault::location(40242, message));
    };
    match usize::try_from(count) {
        Ok(count) if count > 0 => Ok(count),
        _ => {
            let message = "The $bucketAuto 'buckets' field must be greater than 0, but found";
            Err(Fault::location(40243, format!("{message}: {count}")))
        }
    }
}

/// Granularities are not supported. Unknown names get the error of a server.
fn granularity(value: &Bson) -> Fault {
    const KNOWN: [&str; 13] = [
        "R5",
        "R10",
        "R20",
        "R40",
        "R80",
        "1-2-5",
        "E6",
        "E12",
        "E24",
        "E48",
        "E96",
        "E192",
        "POWERSOF2",
    ];
    match value {
        Bson::String(name) if KNOWN.contains(&name.as_str()) => {
            Fault::new(Code::NOT_IMPLEMENTED, "the 'granularity' of $bucketAuto is not supported")
        }
        Bson::String(name) => {
            Fault::location(40257, format!("Unknown rounding granularity '{name}'"))
        }
        other => {
            let found = type_name(other);
            let message = "The $bucketAuto 'granularity' field must be a string, but found type";
            Fault::location(40261, format!("{message}: {found}"))
        }
    }
}
