//! `$lookup` and `$unionWith`.

use std::{cell::OnceCell, collections::BTreeMap, sync::Arc};

use bson::{Bson, Document, doc};

use super::{
    options::{self, set, stages, string, unknown},
    parse::{PipelineContext, PipelineParser},
    stage::{PipelineRun, Stage, as_array, run},
};
use crate::{
    Code, Collation, Environment, Expression, Fault, Filter,
    expression::{field_path, variable_name},
    path,
    value::{OrderedValue, type_name},
};

#[derive(Clone, Debug)]
pub(super) struct Lookup {
    /// `None` for `$documents`.
    from: Option<String>,
    field: Vec<String>,
    join: Option<EqualityJoin>,
    variables: Vec<(String, Expression)>,
    stages: Vec<Stage>,
}

/// Equality of `localField` and `foreignField`.
#[derive(Clone, Debug)]
struct EqualityJoin {
    local: String,
    foreign: String,
}

/// The other collection while a stage runs.
pub(super) struct ForeignCollection {
    documents: Vec<Arc<Document>>,
    index: OnceCell<BTreeMap<OrderedValue, Vec<usize>>>,
    /// Result of the pipeline, if it does not depend on the document.
    common: Option<Vec<Arc<Document>>>,
}

impl ForeignCollection {
    pub(super) fn of(collection: Option<&str>, run: PipelineRun<'_>) -> Self {
        let documents = |it| run.collections.documents(run.database, it);
        Self {
            documents: collection.map(documents).unwrap_or_default(),
            index: OnceCell::new(),
            common: None,
        }
    }

    /// Returns the documents whose field equals one of the values, as a filter does.
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

    /// Returns candidates for a match: from an index, or all documents if an index cannot decide.
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
            .filter_map(|it| index.get(&OrderedValue(it.clone())))
            .flatten()
            .copied()
            .collect::<Vec<_>>();
        places.sort_unstable();
        places.dedup();
        places.into_iter().map(|it| &self.documents[it]).collect()
    }

    fn index_by(&self, field: &str) -> BTreeMap<OrderedValue, Vec<usize>> {
        let mut index: BTreeMap<OrderedValue, Vec<usize>> = BTreeMap::new();
        for (place, document) in self.documents.iter().enumerate() {
            for value in path::values(document, field).into_iter().flatten() {
                index.entry(OrderedValue(value.clone())).or_default().push(place);
            }
        }
        index
    }
}

impl Lookup {
    pub(super) fn parse(specification: &Bson, parser: &PipelineParser<'_>) -> Result<Self, Fault> {
        let options = options::object("$lookup", specification, 9)?;
        let mut reading = LookupDraft::default();
        for (name, value) in options {
            reading.option(name, value, parser)?;
        }
        reading.finish(parser)
    }

    pub(super) fn foreign(&self, run: PipelineRun<'_>) -> ForeignCollection {
        ForeignCollection::of(self.from.as_deref(), run)
    }

    pub(super) fn apply(
        &self,
        document: &Document,
        foreign: &mut ForeignCollection,
        run: PipelineRun<'_>,
    ) -> Result<Document, Fault> {
        let found = self.found(document, foreign, run)?;
        let mut joined = document.clone();
        set(&mut joined, &self.field, as_array(found));
        Ok(joined)
    }

    fn found(
        &self,
        document: &Document,
        foreign: &mut ForeignCollection,
        run: PipelineRun<'_>,
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
        let found = self::run(&self.stages, documents, PipelineRun { env: &env, ..run })?;
        if !depends {
            foreign.common = Some(found.clone());
        }
        Ok(found)
    }
}

/// Returns the values of `localField`: the elements of an array, null if it is missing.
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

/// Collects the values of a path through arrays. An array at the end contributes its elements.
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

/// Options of a `$lookup` parsed so far.
#[derive(Default)]
struct LookupDraft {
    from: Option<String>,
    field: Option<Vec<String>>,
    local: Option<String>,
    foreign: Option<String>,
    variables: Option<Document>,
    pipeline: Option<Vec<Document>>,
}

impl LookupDraft {
    fn option(
        &mut self,
        name: &str,
        value: &Bson,
        parser: &PipelineParser<'_>,
    ) -> Result<(), Fault> {
        let text = || string(&format!("$lookup argument '{name}'"), value, 9);
        let path = || {
            let text = text()?;
            field_path(text).map(|_| text.to_owned())
        };
        match (name, value) {
            ("pipeline", value) => self.pipeline = Some(stages(value)?),
            ("let", Bson::Document(variables)) => {
                // Servers do not fold constants here.
                let env = parser.env.without_constant_folding();
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

    fn finish(self, parser: &PipelineParser<'_>) -> Result<Lookup, Fault> {
        let invalid = |message: &str| Err(Fault::failed_to_parse(message));
        if self.from.is_none() && !self.pipeline.as_deref().is_some_and(begins_with_documents) {
            return invalid("must specify 'pipeline' when 'from' is empty");
        }
        let Some(field) = self.field else {
            return invalid("must specify 'as' field for a $lookup");
        };
        let join = match (self.local, self.foreign) {
            (Some(local), Some(foreign)) => Some(EqualityJoin { local, foreign }),
            (None, None) if self.pipeline.is_some() => None,
            (None, None) | (Some(_), None) | (None, Some(_)) => {
                return invalid(
                    "$lookup requires either 'pipeline' or both 'localField' and 'foreignField' to \
                     be specified",
                );
            }
        };
        if self.variables.is_some() && self.pipeline.is_none() {
            return invalid("$lookup with a 'let' argument must also specify 'pipeline'");
        }
        let mut variables = Vec::new();
        let late = parser.env.without_constant_folding();
        for (name, expression) in self.variables.iter().flatten() {
            variables.push((name.clone(), Expression::parse(expression, &late)?));
        }
        let names = variables.iter().map(|(name, _)| (name.clone(), Some(Bson::Null))).collect();
        let env = parser.env.with_variables(names);
        let stages = self.pipeline.unwrap_or_default();
        let stages =
            PipelineParser::new(parser.database, &env, PipelineContext::Lookup).stages(&stages)?;
        Ok(Lookup { from: self.from, field, join, variables, stages })
    }
}

fn begins_with_documents(stages: &[Document]) -> bool {
    stages.first().is_some_and(|it| it.contains_key("$documents"))
}

/// `$unionWith`: appends the documents of another collection.
#[derive(Clone, Debug)]
pub(super) struct UnionWith {
    from: Option<String>,
    stages: Vec<Stage>,
}

impl UnionWith {
    pub(super) fn parse(specification: &Bson, parser: &PipelineParser<'_>) -> Result<Self, Fault> {
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
        let stages = PipelineParser::new(parser.database, parser.env, PipelineContext::UnionWith)
            .stages(&pipeline)?;
        Ok(Self { from, stages })
    }

    pub(super) fn documents(&self, run: PipelineRun<'_>) -> Result<Vec<Arc<Document>>, Fault> {
        let documents = |it: &String| run.collections.documents(run.database, it);
        self::run(&self.stages, self.from.as_ref().map(documents).unwrap_or_default(), run)
    }
}
