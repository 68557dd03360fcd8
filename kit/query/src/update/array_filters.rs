//! Array filters of updates (`$[name]`).

use std::collections::{BTreeMap, BTreeSet};

use bson::{Bson, Document, doc};

use crate::{Code, Environment, Fault, Filter, text};

/// Array filters by name.
#[derive(Clone, Debug, Default)]
pub(super) struct ArrayFilters {
    named: BTreeMap<String, Filter>,
    used: BTreeSet<String>,
}

impl ArrayFilters {
    pub(super) fn parse(filters: &[Document], env: &Environment) -> Result<Self, Fault> {
        let mut named = BTreeMap::new();
        for filter in filters {
            let caused = |fault: Fault| Fault {
                message: format!("Error parsing array filter :: caused by :: {}", fault.message),
                ..fault
            };
            check_element_filter(filter).map_err(caused)?;
            let parsed = Filter::parse(filter, env).map_err(caused)?;
            let name = name_of(filter).map_err(caused)?.ok_or_else(|| {
                Fault::failed_to_parse(
                    "Cannot use an expression without a top-level field name in arrayFilters",
                )
            })?;
            if named.insert(name.clone(), parsed).is_some() {
                return Err(Fault::failed_to_parse(format!(
                    "Found multiple array filters with the same top-level field name {name}"
                )));
            }
        }
        Ok(Self { named, used: BTreeSet::new() })
    }

    /// Records the use of `$[name]` at a position of a path. Fails at the first position and for
    /// unknown names.
    pub(super) fn mark_used(&mut self, name: &str, at: usize, path: &str) -> Result<(), Fault> {
        if at == 0 {
            return Err(Fault::bad_value(format!(
                "Cannot have array filter identifier (i.e. '$[<id>]') element in the first position \
                 in path '{path}'"
            )));
        }
        if !name.is_empty() {
            if !self.named.contains_key(name) {
                return Err(Fault::bad_value(format!(
                    "No array filter found for identifier '{name}' in path '{path}'"
                )));
            }
            self.used.insert(name.to_owned());
        }
        Ok(())
    }

    /// Fails for array filters that no path uses.
    pub(super) fn check_all_used(&self, update: &Document) -> Result<(), Fault> {
        match self.named.keys().find(|name| !self.used.contains(*name)) {
            Some(name) => Err(Fault::failed_to_parse(format!(
                "The array filter for identifier '{name}' was not used in the update {}",
                text::document(update)
            ))),
            None => Ok(()),
        }
    }

    /// Returns `true` if the array filter matches the element.
    pub(super) fn matches(
        &self,
        name: &str,
        element: &Bson,
        env: &Environment,
    ) -> Result<bool, Fault> {
        match self.named.get(name) {
            Some(filter) => filter.matches(&doc! { name: element.clone() }, env),
            // `$[]`.
            None => Ok(true),
        }
    }
}

/// Returns the name with which all paths of an array filter start.
fn name_of(filter: &Document) -> Result<Option<String>, Fault> {
    let mut found = None;
    collect_name(filter, &mut found)?;
    if let Some(name) = &found {
        let plain = name.starts_with(|it: char| it.is_ascii_lowercase())
            && name.chars().all(|it| it.is_ascii_alphanumeric());
        if !plain {
            return Err(Fault::bad_value(format!(
                "The top-level field name must be an alphanumeric string beginning with a lowercase \
                 letter, found '{name}'"
            )));
        }
    }
    Ok(found)
}

fn collect_name(filter: &Document, found: &mut Option<String>) -> Result<(), Fault> {
    for (key, value) in filter {
        if key.starts_with('$') {
            for clause in value.as_array().into_iter().flatten().filter_map(Bson::as_document) {
                collect_name(clause, found)?;
            }
            continue;
        }
        if is_never(value) {
            continue;
        }
        let name = key.split('.').next().unwrap_or_default();
        match found {
            Some(other) if other != name => {
                return Err(Fault::failed_to_parse(format!(
                    "Expected a single top-level field name, found '{other}' and '{name}'"
                )));
            }
            Some(_) => {}
            None => *found = Some(name.to_owned()),
        }
    }
    Ok(())
}

/// `{$all: []}` matches nothing, so servers ignore its field.
fn is_never(condition: &Bson) -> bool {
    let all_of_none = |(name, value): (&String, &Bson)| {
        name == "$all" && value.as_array().is_some_and(Vec::is_empty)
    };
    condition.as_document().is_some_and(|it| !it.is_empty() && it.iter().all(all_of_none))
}

/// Fails for operators that need a whole document.
pub(super) fn check_element_filter(filter: &Document) -> Result<(), Fault> {
    for (key, value) in filter {
        let message = || format!("{key} is not allowed in this context");
        match key.as_str() {
            "$expr" | "$jsonSchema" => {
                return Err(Fault::new(Code::named(224, "QueryFeatureNotAllowed"), message()));
            }
            "$where" | "$text" => return Err(Fault::bad_value(message())),
            "$and" | "$or" | "$nor" => {
                for clause in value.as_array().into_iter().flatten().filter_map(Bson::as_document) {
                    check_element_filter(clause)?;
                }
            }
            _ => check_no_geo(value)?,
        }
    }
    Ok(())
}

fn check_no_geo(condition: &Bson) -> Result<(), Fault> {
    let Some(condition) = condition.as_document() else { return Ok(()) };
    if condition.keys().any(|it| matches!(it.as_str(), "$near" | "$nearSphere" | "$geoNear")) {
        return Err(Fault::location(
            5_626_500,
            "$geoNear, $near, and $nearSphere are not allowed in this context",
        ));
    }
    Ok(())
}
