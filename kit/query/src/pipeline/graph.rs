//! `$graphLookup`.

use std::collections::{BTreeMap, VecDeque};

use bson::{Bson, Document};

use super::{
    lookup::ForeignCollection,
    options::{self, set},
    stage::PipelineRun,
};
use crate::{
    Environment, Expression, Fault, Filter,
    expression::{field_path, is_whole},
    path,
    value::{OrderedValue, is_nullish, is_number, type_name},
};

#[derive(Clone, Debug)]
pub(super) struct GraphLookup {
    from: String,
    field: Vec<String>,
    start: Expression,
    connect_from: String,
    connect_to: String,
    most: Option<i64>,
    depth: Option<Vec<String>>,
    restriction: Option<Filter>,
}

impl GraphLookup {
    pub(super) fn parse(specification: &Bson, env: &Environment) -> Result<Self, Fault> {
        let options = options::object("$graphLookup", specification, 9)?;
        let mut from = None;
        let mut start = None;
        let (mut field, mut connect_from, mut connect_to) = (None, None, None);
        let (mut most, mut depth, mut restriction) = (None, None, None);
        if !options.contains_key("from") {
            let message = "missing 'from' option to $graphLookup stage specification";
            return Err(Fault::failed_to_parse(message));
        }
        for (name, value) in options {
            match name.as_str() {
                "from" => from = Some(options::string("$graphLookup 'from'", value, 9)?.to_owned()),
                "startWith" => start = Some(Expression::parse(value, env)?),
                "as" => field = Some(path_option(name, value)?),
                "connectFromField" => connect_from = Some(path_option(name, value)?.join(".")),
                "connectToField" => connect_to = Some(path_option(name, value)?.join(".")),
                "depthField" => depth = Some(path_option(name, value)?),
                "maxDepth" => most = Some(most_steps(value)?),
                "restrictSearchWithMatch" => match value {
                    Bson::Document(filter) => restriction = Some(Filter::parse(filter, env)?),
                    other => {
                        let found = type_name(other);
                        let message = "restrictSearchWithMatch must be an object, found";
                        return Err(Fault::location(40185, format!("{message} {found}")));
                    }
                },
                other => {
                    let message = format!("Unknown argument to $graphLookup: {other}");
                    return Err(Fault::location(40104, message));
                }
            }
        }
        match (from, field, start, connect_from, connect_to) {
            (Some(from), Some(field), Some(start), Some(connect_from), Some(connect_to)) => {
                Ok(Self { from, field, start, connect_from, connect_to, most, depth, restriction })
            }
            _ => Err(Fault::location(
                40105,
                "$graphLookup requires 'from', 'as', 'startWith', 'connectFromField', and \
                 'connectToField' to be specified.",
            )),
        }
    }

    pub(super) fn foreign(&self, run: PipelineRun<'_>) -> ForeignCollection {
        ForeignCollection::of(Some(&self.from), run)
    }

    pub(super) fn apply(
        &self,
        document: &Document,
        foreign: &ForeignCollection,
        env: &Environment,
    ) -> Result<Document, Fault> {
        let mut frontier = VecDeque::new();
        match self.start.evaluate(document, env)? {
            Some(Bson::Array(values)) => frontier.extend(values.into_iter().map(|it| (it, 0))),
            Some(value) => frontier.push_back((value, 0)),
            None => {}
        }
        let mut seen: BTreeMap<OrderedValue, ()> = BTreeMap::new();
        let mut visited: BTreeMap<OrderedValue, ()> = BTreeMap::new();
        let mut reached = Vec::new();
        while let Some((value, depth)) = frontier.pop_front() {
            if seen.insert(OrderedValue(value.clone()), ()).is_some() {
                continue;
            }
            let is_null = is_nullish(&value);
            for found in foreign.equal(&self.connect_to, &[value], env)? {
                // Null connects to null, not to missing fields.
                if is_null
                    && !path::values(&found, &self.connect_to).into_iter().flatten().any(is_nullish)
                {
                    continue;
                }
                if let Some(restriction) = &self.restriction
                    && !restriction.matches(&found, env)?
                {
                    continue;
                }
                let id = found.get("_id").cloned().unwrap_or(Bson::Null);
                if visited.insert(OrderedValue(id), ()).is_some() {
                    continue;
                }
                if self.most.is_none_or(|most| depth < most) {
                    let next = next_values(&found, &self.connect_from);
                    frontier.extend(next.into_iter().map(|it| (it, depth + 1)));
                }
                reached.push(self.with_depth(&found, depth));
            }
        }
        let mut joined = document.clone();
        set(&mut joined, &self.field, Bson::Array(reached));
        Ok(joined)
    }

    fn with_depth(&self, document: &Document, depth: i64) -> Bson {
        let mut document = document.clone();
        if let Some(path) = &self.depth {
            set(&mut document, path, Bson::Int64(depth));
        }
        document.into()
    }
}

/// Returns the values that connect a document to the next ones.
fn next_values(document: &Document, field: &str) -> Vec<Bson> {
    let values = path::values(document, field).into_iter().flatten();
    values.filter(|it| !matches!(it, Bson::Array(_))).cloned().collect()
}

fn path_option(name: &str, value: &Bson) -> Result<Vec<String>, Fault> {
    match value {
        Bson::String(text) => field_path(text),
        other => {
            let found = type_name(other);
            let message = format!("expected string as argument for {name}, found: {found}");
            Err(Fault::location(40103, message))
        }
    }
}

fn most_steps(value: &Bson) -> Result<i64, Fault> {
    if !is_number(value) {
        let message = format!("maxDepth must be numeric, found type: {}", type_name(value));
        return Err(Fault::location(40100, message));
    }
    match is_whole(value) {
        Some(most) if most >= 0 => Ok(most),
        Some(most) => {
            let message = format!("maxDepth requires a nonnegative argument, found: {most}");
            Err(Fault::location(40101, message))
        }
        None => {
            let message = format!("maxDepth could not be represented as a long long: {value}");
            Err(Fault::location(40102, message))
        }
    }
}
