//! `$out` and `$merge`.

use std::cmp::Ordering;

use bson::{Bson, Document, doc};

use super::{
    Destination, Pipeline,
    options::{stages, unknown},
};
use crate::{
    Code, Environment, Expression, Fault,
    expression::{field_path, variable_name},
    value::type_name,
};

/// Options of a `$merge`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Merge {
    /// Database, if it is named.
    pub database: Option<String>,
    /// Collection.
    pub collection: String,
    /// Fields that identify a document (`on`). A unique index must cover them. `None` means `_id`.
    pub on: Option<Vec<String>>,
    /// Action for an existing document (`whenMatched`).
    pub when_matched: WhenMatched,
    /// Action for a new document (`whenNotMatched`).
    pub when_not_matched: WhenNotMatched,
    variables: Vec<(String, Expression)>,
}

/// Action of a `$merge` for an existing document.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum WhenMatched {
    /// Replaces it.
    Replace,
    /// Keeps it.
    KeepExisting,
    /// Merges the new fields into it.
    Merge,
    /// Fails the pipeline.
    Fail,
    /// Applies an update pipeline. `$$new` is the new document.
    Pipeline(Box<Pipeline>),
}

/// Action of a `$merge` for a new document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhenNotMatched {
    /// Inserts it.
    Insert,
    /// Discards it.
    Discard,
    /// Fails the pipeline.
    Fail,
}

/// Sorts fields in the order in which a `$set` adds them on a server.
fn as_set(document: Document) -> Document {
    let mut fields: Vec<(String, Bson)> = document.into_iter().collect();
    fields.sort_by(|(left, _), (right, _)| match (left.as_str(), right.as_str()) {
        ("_id", _) => Ordering::Less,
        (_, "_id") => Ordering::Greater,
        (left, right) => left.cmp(right),
    });
    fields.into_iter().collect()
}

impl Merge {
    /// Returns the merged document. `None` if the existing one stays.
    ///
    /// # Errors
    ///
    /// Fails with `whenMatched: "fail"`, or if the pipeline fails.
    pub fn merged(
        &self,
        existing: &Document,
        incoming: &Document,
        env: &Environment,
    ) -> Result<Option<Document>, Fault> {
        match &self.when_matched {
            WhenMatched::Replace => Ok(Some(incoming.clone())),
            WhenMatched::KeepExisting => Ok(None),
            WhenMatched::Merge => {
                let mut merged = existing.clone();
                merged.extend(as_set(incoming.clone()));
                Ok(Some(merged))
            }
            WhenMatched::Fail => Err(Fault::new(
                Code::DUPLICATE_KEY,
                "$merge found a document that is there already, and 'whenMatched' is 'fail'",
            )),
            WhenMatched::Pipeline(pipeline) => {
                let mut variables = Vec::with_capacity(self.variables.len());
                for (name, expression) in &self.variables {
                    variables.push((name.clone(), expression.evaluate(incoming, env)?));
                }
                pipeline.apply_to(existing, &env.with_variables(variables)).map(Some)
            }
        }
    }

    /// Returns the document to insert.
    pub fn inserted(&self, incoming: Document) -> Document {
        match &self.when_matched {
            WhenMatched::KeepExisting | WhenMatched::Merge => as_set(incoming),
            WhenMatched::Replace | WhenMatched::Fail | WhenMatched::Pipeline(_) => incoming,
        }
    }

    pub(super) fn parse(specification: &Bson, env: &Environment) -> Result<Self, Fault> {
        let short;
        let options = match specification {
            Bson::Document(options) => options,
            Bson::String(collection) if collection.is_empty() => {
                return Err(Fault::new(Code::INVALID_NAMESPACE, "Invalid $merge target namespace"));
            }
            Bson::String(collection) => {
                short = doc! { "into": collection };
                &short
            }
            other => {
                let found = type_name(other);
                let message = "$merge requires a string or object argument, but found";
                return Err(Fault::type_mismatch(format!("{message} {found}")));
            }
        };
        MergeDraft::of(options, env)?.finish(env)
    }
}

/// Options of a `$merge` parsed so far.
#[derive(Default)]
struct MergeDraft {
    into: Option<(Option<String>, String)>,
    on: Option<Vec<String>>,
    when_matched: Option<(WhenMatched, String)>,
    stages: Option<Vec<Document>>,
    when_not_matched: Option<WhenNotMatched>,
    variables: Option<Document>,
}

impl MergeDraft {
    fn of(options: &Document, env: &Environment) -> Result<Self, Fault> {
        let mut reading = Self::default();
        for (name, value) in options {
            match name.as_str() {
                "into" => reading.into = Some(target(value)?),
                "on" => reading.on = Some(fields(value)?),
                "whenMatched" => reading.matched(value)?,
                "whenNotMatched" => reading.when_not_matched = Some(not_matched(value)?),
                "let" => match value {
                    Bson::Document(variables) => reading.variables = Some(variables.clone()),
                    other => {
                        let found = type_name(other);
                        let message =
                            format!("BSON field '$merge.let' is the wrong type '{found}'");
                        return Err(Fault::type_mismatch(message));
                    }
                },
                other => return Err(unknown("$merge", other)),
            }
        }
        for (name, expression) in reading.variables.iter().flatten() {
            variable_name(name)?;
            Expression::parse(expression, env)?;
        }
        Ok(reading)
    }

    fn matched(&mut self, value: &Bson) -> Result<(), Fault> {
        let mode = match value {
            Bson::String(mode) => mode.as_str(),
            Bson::Array(_) => {
                self.stages = Some(stages(value)?);
                return Ok(());
            }
            other => {
                let found = type_name(other);
                let message = "$merge 'whenMatched' field must be either a string or an array";
                return Err(Fault::location(51191, format!("{message}, but found {found}")));
            }
        };
        let when = match mode {
            "replace" => WhenMatched::Replace,
            "keepExisting" => WhenMatched::KeepExisting,
            "merge" => WhenMatched::Merge,
            "fail" => WhenMatched::Fail,
            other => {
                return Err(Fault::bad_value(format!(
                    "Enumeration value '{other}' for field 'whenMatched' is not a valid value."
                )));
            }
        };
        self.when_matched = Some((when, mode.to_owned()));
        Ok(())
    }

    fn finish(self, env: &Environment) -> Result<Merge, Fault> {
        let Some((database, collection)) = self.into else {
            let message = "BSON field '$merge.into' is missing but a required field";
            return Err(Fault::location(40414, message));
        };
        let when_not_matched = self.when_not_matched.unwrap_or(WhenNotMatched::Insert);
        let mut variables = Vec::new();
        let when_matched = match (self.stages, self.when_matched) {
            (Some(stages), _) => {
                let default = doc! { "new": "$$ROOT" };
                for (name, expression) in self.variables.as_ref().unwrap_or(&default) {
                    variables.push((name.clone(), Expression::parse(expression, env)?));
                }
                if !variables.iter().any(|(name, _)| name == "new") {
                    let new = Expression::parse(&"$$ROOT".into(), env)?;
                    variables.push(("new".to_owned(), new));
                }
                let names = variables.iter().map(|(name, _)| (name.clone(), Some(Bson::Null)));
                let inner = env.with_variables(names.collect());
                WhenMatched::Pipeline(Box::new(Pipeline::parse_update(&stages, &inner)?))
            }
            (None, matched) => {
                let (when, mode) =
                    matched.unwrap_or_else(|| (WhenMatched::Merge, "merge".to_owned()));
                if self.variables.is_some() {
                    let message =
                        format!("Cannot use 'let' variables with 'whenMatched: {mode}' mode");
                    return Err(Fault::location(51199, message));
                }
                when
            }
        };
        check_modes(&when_matched, when_not_matched)?;
        Ok(Merge { database, collection, on: self.on, when_matched, when_not_matched, variables })
    }
}

/// Checks the combination of modes.
fn check_modes(matched: &WhenMatched, not_matched: WhenNotMatched) -> Result<(), Fault> {
    let sound = match matched {
        WhenMatched::Replace | WhenMatched::Merge | WhenMatched::Pipeline(_) => true,
        WhenMatched::KeepExisting | WhenMatched::Fail => not_matched == WhenNotMatched::Insert,
    };
    if sound {
        return Ok(());
    }
    let message = "Combination of $merge modes 'whenMatched' and 'whenNotMatched' is not supported";
    Err(Fault::location(51181, message))
}

fn target(value: &Bson) -> Result<(Option<String>, String), Fault> {
    match value {
        Bson::String(collection) if collection.is_empty() => {
            Err(Fault::location(5_786_800, "$merge 'into' field cannot be an empty string"))
        }
        Bson::String(collection) => Ok((None, collection.clone())),
        Bson::Document(parts) => {
            let (mut database, mut collection) = (None, None);
            for (name, value) in parts {
                match (name.as_str(), value) {
                    ("db", Bson::String(name)) => database = Some(name.clone()),
                    ("coll", Bson::String(name)) => collection = Some(name.clone()),
                    ("db" | "coll", other) => {
                        let found = type_name(other);
                        let message =
                            format!("BSON field 'into.{name}' is the wrong type '{found}'");
                        return Err(Fault::type_mismatch(message));
                    }
                    (other, _) => return Err(unknown("into", other)),
                }
            }
            let collection = collection.filter(|it| !it.is_empty()).ok_or_else(|| {
                let message = "$merge 'into' field must specify a 'coll' that is not empty";
                Fault::location(5_786_801, message)
            })?;
            Ok((database, collection))
        }
        other => {
            let found = type_name(other);
            let message = "$merge 'into' field must be either a string or an object, but found";
            Err(Fault::location(51178, format!("{message} {found}")))
        }
    }
}

fn fields(value: &Bson) -> Result<Vec<String>, Fault> {
    let invalid = |other: &Bson, code| {
        let found = type_name(other);
        let message = "$merge 'on' field must be either a string or an array of strings";
        Err(Fault::location(code, format!("{message}, but found {found}")))
    };
    let mut fields = Vec::new();
    match value {
        Bson::String(field) => fields.push(field.clone()),
        Bson::Array(array) => {
            for field in array {
                match field {
                    Bson::String(field) if fields.contains(field) => {
                        let message = format!("Found a duplicate field '{field}'");
                        return Err(Fault::location(31465, message));
                    }
                    Bson::String(field) => fields.push(field.clone()),
                    other => return invalid(other, 51134),
                }
            }
            if fields.is_empty() {
                let message =
                    "If explicitly specifying $merge 'on', must include at least one field";
                return Err(Fault::location(51187, message));
            }
        }
        other => return invalid(other, 51186),
    }
    for field in &fields {
        field_path(field)?;
    }
    Ok(fields)
}

fn not_matched(value: &Bson) -> Result<WhenNotMatched, Fault> {
    match value {
        Bson::String(mode) => Ok(match mode.as_str() {
            "insert" => WhenNotMatched::Insert,
            "discard" => WhenNotMatched::Discard,
            "fail" => WhenNotMatched::Fail,
            other => {
                return Err(Fault::bad_value(format!(
                    "Enumeration value '{other}' for field '$merge.whenNotMatched' is not a valid \
                     value."
                )));
            }
        }),
        other => {
            let found = type_name(other);
            let message = format!("BSON field '$merge.whenNotMatched' is the wrong type '{found}'");
            Err(Fault::type_mismatch(message))
        }
    }
}

/// Parses a `$out`.
pub(super) fn parse_out(specification: &Bson) -> Result<Destination, Fault> {
    let (database, collection) = match specification {
        Bson::String(collection) => (None, collection.clone()),
        Bson::Document(parts) => {
            let (true, Some(database), Some(collection)) =
                (parts.len() == 2, parts.get("db"), parts.get("coll"))
            else {
                let message =
                    "If an object is passed to $out it must have exactly 2 fields: 'db' and 'coll'";
                return Err(Fault::location(16994, message));
            };
            let name = |value: &Bson| match value {
                Bson::String(name) => Ok(name.clone()),
                other => {
                    let found = type_name(other);
                    Err(Fault::location(13111, format!("wrong type for field: {found} != string")))
                }
            };
            (Some(name(database)?), name(collection)?)
        }
        other => {
            let found = type_name(other);
            let message = "$out only supports a string or object argument, but found";
            return Err(Fault::location(16990, format!("{message} {found}")));
        }
    };
    if collection.is_empty() {
        return Err(Fault::new(Code::INVALID_NAMESPACE, "Invalid $out target namespace"));
    }
    if collection.starts_with("system.") {
        let message = format!("Can't $out to special collection: {collection}");
        return Err(Fault::location(17385, message));
    }
    Ok(Destination::Out { database, collection })
}
