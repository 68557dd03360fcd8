//! `$lookup` and `$unionWith`: documents of other collections.

use std::{cell::OnceCell, collections::BTreeMap, sync::Arc};

use bson::{Bson, Document, doc};

use super::{
    options::{self, set, stages, string, unknown},
    parse::{Parser, Place},
    stage::{Run, Stage, as_array, run},
};
use crate::{
    Code, Collation, Environment, Expression, Fault, Filter,
    expression::{field_path, variable_name},
    path,
    value::{Ordered, type_name},
};

#[derive(Clone, Debug)]
pub(super) struct Lookup {
    /// None for `$documents`.
    from: Option<String>,
    field: Vec<String>,
    join: Option<Join>,
    variables: Vec<(String, Expression)>,
    stages: Vec<Stage>,
}

/// Which field of a document must equal which field of the other collection.
#[derive(Clone, Debug)]
struct Join {
    local: String,
    foreign: String,
}

/// What is known of the other collection while a stage runs.
pub(super) struct Foreign {
    documents: Vec<Arc<Document>>,
    index: OnceCell<BTreeMap<Ordered, Vec<usize>>>,
    /// What the pipeline gives if it does not depend on the document.
    common: Option<Vec<Arc<Document>>>,
}

impl Foreign {
    pub(super) fn of(collection: Option<&str>, run: Run<'_>) -> Self {
        let documents = |it| run.collections.documents(run.database, it);
        Self {
            documents: collection.map(documents).unwrap_or_default(),
            index: OnceCell::new(),
            common: None,
        }
    }

    /// The documents in which a field equals one of these values, as a filter has it.
    pub(super) fn equal(
        &self,
        field: &str,
        values: &[Bson],
        env: &Environment,
    ) -> Result<Vec<Arc<Document>>, Fault> {
        let clauses = values.iter().map(|it| Bson::from(doc! { field: { "$eq": it.clone() } }));
        let filter = doc! { "$or": clauses.collect::<Vec<_>>() };
        let filter = Filter::parse(&filter, env)?;
        let mut found = Vec::new();
        for document in self.candidates(field, values, env) {
            if filter.matches(document, env)? {
                found.push(document.clone());
            }
        }
        Ok(found)
    }

    /// Those that may be equal: by an index if values alone decide, else all.
    fn candidates<'a>(
        &'a self,
        field: &str,
        values: &[Bson],
        env: &Environment,
    ) -> Vec<&'a Arc<Document>> {
        let unusual = |it: &Bson| matches!(it, Bson::Array(_) | Bson::Null | Bson::Undefined);
        if env.collation != Collation::simple() || values.iter().any(unusual) {
            return self.documents.iter().collect();
        }
        let index = self.index.get_or_init(|| self.index_by(field));
        let mut places = values
            .iter()
            .filter_map(|it| index.get(&Ordered(it.clone())))
            .flatten()
            .copied()
            .collect::<Vec<_>>();
        places.sort_unstable();
        places.dedup();
        places.into_iter().map(|it| &self.documents[it]).collect()
    }

    fn index_by(&self, field: &str) -> BTreeMap<Ordered, Vec<usize>> {
        let mut index: BTreeMap<Ordered, Vec<usize>> = BTreeMap::new();
        for (place, document) in self.documents.iter().enumerate() {
            for value in path::values(document, field).into_iter().flatten() {
                index.entry(Ordered(value.clone())).or_default().push(place);
            }
        }
        index
    }
}

impl Lookup {
    pub(super) fn parse(specification: &Bson, parser: &Parser<'_>) -> Result<Self, Fault> {
        let options = options::object("$lookup", specification, 9)?;
        let mut reading = Reading::default();
        for (name, value) in options {
            reading.option(name, value, parser)?;
        }
        reading.finish(parser)
    }

    pub(super) fn foreign(&self, run: Run<'_>) -> Foreign {
        Foreign::of(self.from.as_deref(), run)
    }

    pub(super) fn apply(
        &self,
        document: &Document,
        foreign: &mut Foreign,
        run: Run<'_>,
    ) -> Result<Document, Fault> {
        let found = self.found(document, foreign, run)?;
        let mut joined = document.clone();
        set(&mut joined, &self.field, as_array(found));
        Ok(joined)
    }

    fn found(
        &self,
        document: &Document,
        foreign: &mut Foreign,
        run: Run<'_>,
    ) -> Result<Vec<Arc<Document>>, Fault> {
        let depends = self.join.is_some() || !self.variables.is_empty();
        if let (false, Some(common)) = (depends, &foreign.common) {
            return Ok(common.clone());
        }
        let documents = match &self.join {
            Some(join) => {
                foreign.equal(&join.foreign, &local_values(document, &join.local), run.env)?
            }
            None => foreign.documents.clone(),
        };
        if self.stages.is_empty() {
            return Ok(documents);
        }
        let mut variables = Vec::with_capacity(self.variables.len());
        for (name, expression) in &self.variables {
            variables.push((name.clone(), expression.evaluate(document, run.env)?));
        }
        let env = run.env.with_variables(variables);
        let found = self::run(&self.stages, documents, Run { env: &env, ..run })?;
        if !depends {
            foreign.common = Some(found.clone());
        }
        Ok(found)
    }
}

/// The values that a join looks for: of an array, its elements; what is missing is null.
fn local_values(document: &Document, field: &str) -> Vec<Bson> {
    let fields = field.split('.').collect::<Vec<_>>();
    let mut values = Vec::new();
    if let Some((first, rest)) = fields.split_first()
        && let Some(value) = document.get(first)
    {
        collect(value, rest, &mut values);
    }
    if values.is_empty() {
        values.push(Bson::Null);
    }
    values
}

/// What lies under a path, through arrays, and of an array at its end the elements.
fn collect(value: &Bson, fields: &[&str], values: &mut Vec<Bson>) {
    match (value, fields.split_first()) {
        (Bson::Array(array), None) => values.extend(array.iter().cloned()),
        (value, None) => values.push(value.clone()),
        (Bson::Document(document), Some((first, rest))) => {
            if let Some(value) = document.get(first) {
                collect(value, rest, values);
            }
        }
        (Bson::Array(array), Some((first, rest))) => {
            if let Some(element) = path::index(first).and_then(|it| array.get(it)) {
                collect(element, rest, values);
            }
            for element in array.iter().filter(|it| matches!(it, Bson::Document(_))) {
                collect(element, fields, values);
            }
        }
        _ => {}
    }
}

/// A `$lookup` while it is read.
#[derive(Default)]
struct Reading {
    from: Option<String>,
    field: Option<Vec<String>>,
    local: Option<String>,
    foreign: Option<String>,
    variables: Option<Document>,
    pipeline: Option<Vec<Document>>,
}

impl Reading {
    fn option(&mut self, name: &str, value: &Bson, parser: &Parser<'_>) -> Result<(), Fault> {
        let text = || string(&format!("$lookup argument '{name}'"), value, 9);
        let path = || {
            let text = text()?;
            field_path(text).map(|_| text.to_owned())
        };
        match (name, value) {
            ("pipeline", value) => self.pipeline = Some(stages(value)?),
            ("let", Bson::Document(variables)) => {
                // A server computes nothing beforehand of these.
                let env = parser.env.failing_late();
                for (name, expression) in variables {
                    variable_name(name)?;
                    Expression::parse(expression, &env)?;
                }
                self.variables = Some(variables.clone());
            }
            ("let", other) => {
                let found = type_name(other);
                let message = format!("$lookup argument 'let' must be an object, is type {found}");
                return Err(Fault::failed_to_parse(message));
            }
            ("from", _) => self.from = Some(text()?.to_owned()),
            ("localField", _) => self.local = Some(path()?),
            ("foreignField", _) => self.foreign = Some(path()?),
            ("as", Bson::String(text)) if text.is_empty() => {}
            ("as", _) => self.field = Some(field_path(text()?)?),
            (other, _) => {
                text()?;
                let message = format!("unknown argument to $lookup: {other}");
                return Err(Fault::failed_to_parse(message));
            }
        }
        Ok(())
    }

    fn finish(self, parser: &Parser<'_>) -> Result<Lookup, Fault> {
        let refused = |message: &str| Err(Fault::failed_to_parse(message));
        if self.from.is_none() && !self.pipeline.as_deref().is_some_and(begins_with_documents) {
            return refused("must specify 'pipeline' when 'from' is empty");
        }
        let Some(field) = self.field else {
            return refused("must specify 'as' field for a $lookup");
        };
        let join = match (self.local, self.foreign) {
            (Some(local), Some(foreign)) => Some(Join { local, foreign }),
            (None, None) if self.pipeline.is_some() => None,
            (None, None) | (Some(_), None) | (None, Some(_)) => {
                return refused(
                    "$lookup requires either 'pipeline' or both 'localField' and 'foreignField' to \
                     be specified",
                );
            }
        };
        if self.variables.is_some() && self.pipeline.is_none() {
            return refused("$lookup with a 'let' argument must also specify 'pipeline'");
        }
        let mut variables = Vec::new();
        let late = parser.env.failing_late();
        for (name, expression) in self.variables.iter().flatten() {
            variables.push((name.clone(), Expression::parse(expression, &late)?));
        }
        let names = variables.iter().map(|(name, _)| (name.clone(), Some(Bson::Null))).collect();
        let env = parser.env.with_variables(names);
        let stages = self.pipeline.unwrap_or_default();
        let stages = Parser::new(parser.database, &env, Place::Lookup).stages(&stages)?;
        Ok(Lookup { from: self.from, field, join, variables, stages })
    }
}

fn begins_with_documents(stages: &[Document]) -> bool {
    stages.first().is_some_and(|it| it.contains_key("$documents"))
}

/// Another collection's documents behind those that come.
#[derive(Clone, Debug)]
pub(super) struct Union {
    from: Option<String>,
    stages: Vec<Stage>,
}

impl Union {
    pub(super) fn parse(specification: &Bson, parser: &Parser<'_>) -> Result<Self, Fault> {
        let (mut from, mut pipeline) = (None, Vec::new());
        match specification {
            Bson::String(collection) => from = Some(collection.clone()),
            Bson::Document(options) => {
                for (name, value) in options {
                    match (name.as_str(), value) {
                        ("coll", Bson::String(collection)) => from = Some(collection.clone()),
                        ("pipeline", Bson::Array(_)) => pipeline = stages(value)?,
                        ("coll" | "pipeline", other) => {
                            let found = type_name(other);
                            let message =
                                format!("'$unionWith.{name}' is the wrong type '{found}'");
                            return Err(Fault::type_mismatch(format!("BSON field {message}")));
                        }
                        (other, _) => return Err(unknown("$unionWith", other)),
                    }
                }
            }
            other => {
                let found = type_name(other);
                let message = "the $unionWith stage specification must be an object or string";
                return Err(Fault::failed_to_parse(format!("{message}, but found {found}")));
            }
        }
        if from.as_deref() == Some("") {
            let message = format!("Namespace {}. is not a valid collection name", parser.database);
            return Err(Fault::new(Code::INVALID_NAMESPACE, message));
        }
        if from.is_none() && !begins_with_documents(&pipeline) {
            return Err(Fault::failed_to_parse(
                "$unionWith stage without explicit collection must have a pipeline with $documents \
                 as first stage",
            ));
        }
        let stages = Parser::new(parser.database, parser.env, Place::Union).stages(&pipeline)?;
        Ok(Self { from, stages })
    }

    pub(super) fn documents(&self, run: Run<'_>) -> Result<Vec<Arc<Document>>, Fault> {
        let documents = |it: &String| run.collections.documents(run.database, it);
        self::run(&self.stages, self.from.as_ref().map(documents).unwrap_or_default(), run)
    }
}
