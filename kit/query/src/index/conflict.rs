//! Comparison of an index definition with existing indexes.

use bson::{Bson, Document, doc};

use crate::{Code, Fault, text, value};

use super::Index;

pub(super) fn exists_among(requested: &Index, existing: Vec<&Index>) -> Result<bool, Fault> {
    let shown = |existing: &Index| {
        format!(
            "Requested index: {}, existing index: {}",
            text::document(&in_messages(requested)),
            text::document(&in_messages(existing))
        )
    };
    let options_conflict = |message: String| Err(Fault::new(Code::INDEX_OPTIONS_CONFLICT, message));
    if let Some(same) = existing.iter().find(|it| it.name == requested.name) {
        if requested.is_id_index() && !has_same_collation(requested, same) {
            return Err(Fault::bad_value(format!(
                "The _id index must have the same collation as the collection. Index collation: {}, \
                 collection collation: {}",
                collation_of(requested),
                collation_of(same)
            )));
        }
        if !is_alike(requested, same) {
            return Err(Fault::new(
                Code::INDEX_KEY_SPECS_CONFLICT,
                format!(
                    "An existing index has the same name as the requested index. When index names are \
                     not specified, they are auto generated and can cause conflicts. Please refer to \
                     our documentation. {}",
                    shown(same)
                ),
            ));
        }
        if !has_same_options(requested, same) {
            return options_conflict(format!(
                "An equivalent index already exists with the same name but different options. {}",
                shown(same)
            ));
        }
        return Ok(true);
    }
    if let Some(alike) = existing.iter().find(|it| is_alike(requested, it)) {
        if !has_same_options(requested, alike) {
            return options_conflict(format!(
                "An equivalent index already exists with a different name and options. {}",
                shown(alike)
            ));
        }
        return options_conflict(format!(
            "Index already exists with a different name: {}",
            alike.name
        ));
    }
    Ok(false)
}

/// Returns `true` if two indexes have the same signature. Only one of them can exist.
fn is_alike(one: &Index, other: &Index) -> bool {
    let expression = |it: &Index| it.partial.as_ref().map(|it| it.expression.clone());
    is_same(Some(one.pattern.clone()), Some(other.pattern.clone()))
        && is_same(expression(one), expression(other))
        && has_same_collation(one, other)
        && one.unique == other.unique
        && one.sparse == other.sparse
}

fn is_same(one: Option<Document>, other: Option<Document>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => value::equal(&Bson::Document(one), &Bson::Document(other)),
        (one, other) => one.is_none() && other.is_none(),
    }
}

fn has_same_collation(one: &Index, other: &Index) -> bool {
    is_same(one.collation.clone(), other.collation.clone())
}

fn collation_of(index: &Index) -> String {
    match &index.collation {
        Some(collation) => text::document(collation),
        None => text::document(&doc! { "locale": "simple" }),
    }
}

fn has_same_options(one: &Index, other: &Index) -> bool {
    one.expire_after_seconds == other.expire_after_seconds
}

/// Description in error messages, with `unique` before `key`.
fn in_messages(index: &Index) -> Document {
    let mut described = index.description();
    let mut shown = Document::new();
    if let Some(version) = described.remove("v") {
        shown.insert("v", version);
    }
    if let Some(unique) = described.remove("unique") {
        shown.insert("unique", unique);
    }
    shown.extend(described);
    shown
}
