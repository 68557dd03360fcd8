//! `$unwind`.

use std::sync::Arc;

use bson::{Bson, Document};

use super::options::{get, set, unset};
use crate::{
    Fault,
    expression::field_path,
    value::{is_nullish, type_name},
};

#[derive(Clone, Debug)]
pub(super) struct Unwind {
    path: Vec<String>,
    index: Option<Vec<String>>,
    /// `preserveNullAndEmptyArrays`: keeps documents without elements.
    preserves: bool,
}

impl Unwind {
    pub(super) fn parse(specification: &Bson) -> Result<Self, Fault> {
        let mut preserves = false;
        let mut index = None;
        let mut path = String::new();
        match specification {
            Bson::String(text) => path.clone_from(text),
            Bson::Document(options) => {
                for (name, value) in options {
                    match (name.as_str(), value) {
                        ("path", Bson::String(text)) => path.clone_from(text),
                        ("path", other) => {
                            return Err(expected(28808, "string as the path", other));
                        }
                        ("preserveNullAndEmptyArrays", Bson::Boolean(value)) => preserves = *value,
                        ("preserveNullAndEmptyArrays", other) => {
                            let what = "boolean for the preserveNullAndEmptyArrays option";
                            return Err(expected(28809, what, other));
                        }
                        ("includeArrayIndex", Bson::String(field)) if !field.is_empty() => {
                            index = Some(index_path(field)?);
                        }
                        ("includeArrayIndex", other) => {
                            let what = "non-empty string for the includeArrayIndex option";
                            return Err(expected(28810, what, other));
                        }
                        (name, _) => {
                            let message = format!("unrecognized option to $unwind stage: {name}");
                            return Err(Fault::location(28811, message));
                        }
                    }
                }
            }
            other => return Err(expected(15981, "string or an object as specification", other)),
        }
        if path.is_empty() {
            return Err(Fault::location(28812, "no path specified to $unwind stage"));
        }
        let Some(path) = path.strip_prefix('$') else {
            let message = "path option to $unwind stage should be prefixed with a '$'";
            return Err(Fault::location(28818, format!("{message}: {path}")));
        };
        Ok(Self { path: field_path(path)?, index, preserves })
    }

    pub(super) fn apply(&self, document: &Document) -> Vec<Result<Arc<Document>, Fault>> {
        let whole = || {
            let mut whole = document.clone();
            self.number(&mut whole, Bson::Null);
            vec![Ok(Arc::new(whole))]
        };
        match get(document, &self.path) {
            Some(Bson::Array(array)) if array.is_empty() && self.preserves => {
                let mut rest = document.clone();
                unset(&mut rest, &self.path);
                self.number(&mut rest, Bson::Null);
                vec![Ok(Arc::new(rest))]
            }
            Some(Bson::Array(array)) => {
                // Copies exclude the array, which may be long.
                let mut rest = document.clone();
                set(&mut rest, &self.path, Bson::Null);
                let unwound = array.iter().enumerate().map(|(at, element)| {
                    let mut unwound = rest.clone();
                    set(&mut unwound, &self.path, element.clone());
                    self.number(&mut unwound, Bson::Int64(i64::try_from(at).unwrap_or(i64::MAX)));
                    Ok(Arc::new(unwound))
                });
                unwound.collect()
            }
            None if self.preserves => whole(),
            Some(value) if self.preserves || !is_nullish(value) => whole(),
            Some(_) | None => Vec::new(),
        }
    }

    fn number(&self, document: &mut Document, index: Bson) {
        if let Some(path) = &self.index {
            set(document, path, index);
        }
    }
}

fn index_path(field: &str) -> Result<Vec<String>, Fault> {
    if field.starts_with('$') {
        let message = "includeArrayIndex option to $unwind stage should not be prefixed with a '$'";
        return Err(Fault::location(28822, format!("{message}: {field}")));
    }
    field_path(field)
}

fn expected(code: i32, what: &str, found: &Bson) -> Fault {
    let found = type_name(found);
    Fault::location(code, format!("expected a {what} for $unwind stage, got {found}"))
}
