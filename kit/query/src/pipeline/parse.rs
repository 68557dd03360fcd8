//! Parsing of pipelines.

use bson::{Bson, Document};

use super::{
    Destination, Pipeline,
    bucket::{BucketAuto, Buckets},
    graph::GraphLookup,
    group::Group,
    lookup::{Lookup, UnionWith},
    merge::{Merge, parse_out},
    options::{self, is_expression, unknown},
    redact::Redact,
    reshape::Reshape,
    stage::Stage,
    unwind::Unwind,
};
use crate::{
    Environment, Expression, Fault, Filter, Sort,
    expression::{field_path, is_whole, plain_field},
    value::{Number, is_number, type_name},
};

/// Context of a pipeline.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum PipelineContext {
    Top,
    Facet,
    Lookup,
    UnionWith,
}

/// Parser of pipelines.
pub(super) struct PipelineParser<'a> {
    pub(super) database: &'a str,
    pub(super) env: &'a Environment,
    place: PipelineContext,
}

impl<'a> PipelineParser<'a> {
    pub(super) fn new(database: &'a str, env: &'a Environment, place: PipelineContext) -> Self {
        Self { database, env, place }
    }

    pub(super) fn pipeline(&mut self, specifications: &[Document]) -> Result<Pipeline, Fault> {
        let mut pipeline = Pipeline {
            database: self.database.to_owned(),
            stages: Vec::new(),
            names: Vec::new(),
            destination: Destination::Cursor,
        };
        for specification in specifications {
            let (name, value) = only_field(specification)?;
            match name {
                "$out" => pipeline.destination = parse_out(value)?,
                "$merge" => {
                    let merge = Merge::parse(value, self.env)?;
                    pipeline.destination = Destination::Merge(Box::new(merge));
                }
                name => self.stage(name, value, &mut pipeline.stages)?,
            }
            pipeline.names.push(name.to_owned());
        }
        self.check_order(&pipeline.names)?;
        Ok(pipeline)
    }

    /// Parses a sub-pipeline, which cannot write.
    pub(super) fn stages(&mut self, specifications: &[Document]) -> Result<Vec<Stage>, Fault> {
        self.pipeline(specifications).map(|it| it.stages)
    }

    fn check_order(&self, names: &[String]) -> Result<(), Fault> {
        for (at, name) in names.iter().enumerate() {
            let writes = matches!(name.as_str(), "$out" | "$merge");
            match self.place {
                PipelineContext::Facet
                    if writes || matches!(name.as_str(), "$facet" | "$documents") =>
                {
                    let message = format!("{name} is not allowed to be used within a $facet stage");
                    return Err(Fault::location(40600, message));
                }
                PipelineContext::Lookup if writes => {
                    let message = format!("{name} is not allowed within a $lookup's sub-pipeline");
                    return Err(Fault::location(51047, message));
                }
                PipelineContext::UnionWith if writes => {
                    let message =
                        format!("{name} is not allowed within a $unionWith's sub-pipeline");
                    return Err(Fault::location(31441, message));
                }
                _ if writes && at + 1 < names.len() => {
                    let message = format!("{name} can only be the final stage in the pipeline");
                    return Err(Fault::location(40601, message));
                }
                _ if name == "$documents" && at > 0 => {
                    let message = "$documents is only valid as the first stage in a pipeline";
                    return Err(Fault::location(40602, message));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn stage(&mut self, name: &str, value: &Bson, stages: &mut Vec<Stage>) -> Result<(), Fault> {
        let env = self.env;
        let stage = match name {
            "$match" => match value {
                Bson::Document(filter) => Stage::Match(Filter::parse(filter, env)?),
                _ => {
                    let message = "the match filter must be an expression in an object";
                    return Err(Fault::location(15959, message));
                }
            },
            "$project" => Stage::Shape(
                Reshape::project(options::object(name, value, 15969)?, env)
                    .map_err(|it| within(name, it))?,
            ),
            "$addFields" | "$set" => Stage::Shape(
                Reshape::addition(options::object(name, value, 40272)?, env)
                    .map_err(|it| within(name, it))?,
            ),
            "$unset" => Stage::Shape(unset(value)?),
            "$replaceRoot" => Stage::Replace(new_root(value, env)?),
            "$replaceWith" => Stage::Replace(Expression::parse(value, env)?),
            "$group" => match value {
                Bson::Document(group) => Stage::Group(Group::parse(group, env)?),
                _ => {
                    let message = "a group's fields must be specified in an object";
                    return Err(Fault::location(15947, message));
                }
            },
            "$bucket" => Stage::Group(Buckets::parse(value, env)?),
            "$bucketAuto" => Stage::BucketAuto(BucketAuto::parse(value, env)?),
            "$sortByCount" => {
                check_sort_by_count(value)?;
                stages.push(Stage::Group(Group::counting(value, env)?));
                Stage::Sort(Sort::parse(&bson::doc! { "count": -1 })?)
            }
            "$sort" => match value {
                Bson::Document(order) => Stage::Sort(sort(order)?),
                _ => {
                    let message = "the $sort key specification must be an object";
                    return Err(Fault::location(15973, message));
                }
            },
            "$limit" => Stage::Limit(limit(value)?),
            "$skip" => Stage::Skip(whole("$skip", value, 5_107_200)?),
            "$sample" => Stage::Sample(sample(value)?),
            "$count" => Stage::Count(count(value)?),
            "$unwind" => Stage::Unwind(Unwind::parse(value)?),
            "$lookup" => Stage::Lookup(Box::new(Lookup::parse(value, self)?)),
            "$graphLookup" => Stage::GraphLookup(Box::new(GraphLookup::parse(value, env)?)),
            "$unionWith" => Stage::Union(UnionWith::parse(value, self)?),
            "$facet" => Stage::Facet(self.facets(value)?),
            "$redact" => Stage::Redact(Redact::parse(value, env)?),
            "$documents" => Stage::Documents(Expression::parse(value, env)?),
            other => {
                let message = format!("Unrecognized pipeline stage name: '{other}'");
                return Err(Fault::location(40324, message));
            }
        };
        stages.push(stage);
        Ok(())
    }

    fn facets(&self, value: &Bson) -> Result<Vec<(String, Vec<Stage>)>, Fault> {
        let facets = match value {
            Bson::Document(facets) if !facets.is_empty() => facets,
            _ => {
                let message = "the $facet specification must be a non-empty object";
                return Err(Fault::location(40169, message));
            }
        };
        let mut all = Vec::with_capacity(facets.len());
        for (name, value) in facets {
            plain_field(name)?;
            let Bson::Array(stages) = value else {
                let found = type_name(value);
                let message = format!("arguments to $facet must be arrays, {name} is type {found}");
                return Err(Fault::location(40170, message));
            };
            let document = |it: &Bson| match it {
                Bson::Document(stage) => Ok(stage.clone()),
                other => {
                    let found = type_name(other);
                    let message = "elements of arrays in $facet spec must be non-empty objects";
                    Err(Fault::location(40171, format!("{message}, {name} contains {found}")))
                }
            };
            let stages = stages.iter().map(document).collect::<Result<Vec<_>, _>>()?;
            let stages = PipelineParser::new(self.database, self.env, PipelineContext::Facet)
                .stages(&stages)?;
            all.push((name.clone(), stages));
        }
        Ok(all)
    }
}

fn only_field(specification: &Document) -> Result<(&str, &Bson), Fault> {
    match specification.iter().next() {
        Some((name, value)) if specification.len() == 1 => Ok((name, value)),
        _ => Err(Fault::location(
            40323,
            "A pipeline stage specification object must contain exactly one field.",
        )),
    }
}

/// Adds the name of the stage to an error.
fn within(stage: &str, fault: Fault) -> Fault {
    let message = format!("Invalid {stage} :: caused by :: {}", fault.message);
    Fault { message, ..fault }
}

fn unset(value: &Bson) -> Result<Reshape, Fault> {
    let invalid = |code, what: &str| {
        Err(Fault::location(
            code,
            format!("$unset specification must be a string or an array{what}"),
        ))
    };
    let fields = match value {
        Bson::String(field) => vec![field.as_str()],
        Bson::Array(array) if array.is_empty() => {
            return invalid(31119, " with at least one field");
        }
        Bson::Array(array) => {
            let Some(fields) = array.iter().map(Bson::as_str).collect::<Option<Vec<_>>>() else {
                return invalid(31120, " containing only string values");
            };
            fields
        }
        _ => return invalid(31002, ""),
    };
    Reshape::unset(&fields).map_err(|it| within("$unset", it))
}

fn new_root(value: &Bson, env: &Environment) -> Result<Expression, Fault> {
    let Bson::Document(options) = value else {
        let found = type_name(value);
        let message = "expected an object as specification for $replaceRoot stage, got";
        return Err(Fault::location(40229, format!("{message} {found}")));
    };
    if let Some(name) = options.keys().find(|it| *it != "newRoot") {
        return Err(unknown("$replaceRoot", name));
    }
    match options.get("newRoot") {
        Some(root) => Expression::parse(root, env),
        None => {
            let message = "BSON field '$replaceRoot.newRoot' is missing but a required field";
            Err(Fault::location(40414, message))
        }
    }
}

/// Parses the order of a stage or an accumulator.
pub(super) fn sort(order: &Document) -> Result<Sort, Fault> {
    if order.is_empty() {
        return Err(Fault::location(15976, "$sort stage must have at least one sort key"));
    }
    for (path, direction) in order {
        field_path(path)?;
        match direction {
            Bson::Document(document) if document.contains_key("$meta") => {
                let message = "query requires text score metadata, but it is not available";
                return Err(Fault::location(40218, message));
            }
            number if is_number(number) => {
                if !matches!(Number::of(number).and_then(Number::truncated), Some(1 | -1)) {
                    let message =
                        "$sort key ordering must be 1 (for ascending) or -1 (for descending)";
                    return Err(Fault::location(15975, message));
                }
            }
            _ => {
                let message = format!("Illegal key in $sort specification: {path}");
                return Err(Fault::location(15974, message));
            }
        }
    }
    Sort::parse_stage(order)
}

fn whole(stage: &str, value: &Bson, code: i32) -> Result<usize, Fault> {
    let invalid = |what: &str| {
        let message = format!("invalid argument to {stage} stage: Expected {what}");
        Fault::location(code, format!("{message} in: {stage}: {value}"))
    };
    if !is_number(value) {
        return Err(invalid("a number"));
    }
    let number = is_whole(value).ok_or_else(|| invalid("an integer"))?;
    usize::try_from(number).map_err(|_| invalid("a non-negative number"))
}

fn limit(value: &Bson) -> Result<usize, Fault> {
    match whole("$limit", value, 5_107_201)? {
        0 => Err(Fault::location(15958, "the limit must be positive")),
        limit => Ok(limit),
    }
}

fn sample(value: &Bson) -> Result<usize, Fault> {
    let Bson::Document(options) = value else {
        let message = "the $sample stage specification must be an object";
        return Err(Fault::location(28745, message));
    };
    let mut size = None;
    for (name, value) in options {
        if name != "size" {
            let message = format!("unrecognized option to $sample: {name}");
            return Err(Fault::location(28748, message));
        }
        let Some(number) = Number::of(value) else {
            return Err(Fault::location(28746, "size argument to $sample must be a number"));
        };
        let whole = number.truncated().unwrap_or(i64::MAX);
        size = Some(usize::try_from(whole).map_err(|_| {
            Fault::location(28747, "size argument to $sample must not be negative")
        })?);
    }
    size.ok_or_else(|| Fault::location(28749, "$sample stage must specify a size"))
}

fn count(value: &Bson) -> Result<String, Fault> {
    let Bson::String(name) = value else {
        return Err(Fault::location(40156, "the count field must be a non-empty string"));
    };
    let invalid = |code, message| Err(Fault::location(code, message));
    match name.as_str() {
        "" => invalid(40157, "the count field must be a non-empty string"),
        "_id" => invalid(15948, "a group's _id may only be specified once"),
        name if name.starts_with('$') => {
            invalid(40158, "the count field cannot be a $-prefixed path")
        }
        name if name.contains('\0') => invalid(40159, "the count field cannot contain a null byte"),
        name if name.contains('.') => invalid(40160, "the count field cannot contain '.'"),
        name => Ok(name.to_owned()),
    }
}

fn check_sort_by_count(value: &Bson) -> Result<(), Fault> {
    let message = "the sortByCount field must be defined as a $-prefixed path or an expression";
    match value {
        it if is_expression(it) => Ok(()),
        Bson::Document(_) => Err(Fault::location(40147, message)),
        Bson::String(_) => Err(Fault::location(40148, message)),
        _ => Err(Fault::location(
            40149,
            "the sortByCount field must be specified as a string or as an object",
        )),
    }
}
