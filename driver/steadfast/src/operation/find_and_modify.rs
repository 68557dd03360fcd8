//! `findAndModify`, behind `find_one_and_update`, `find_one_and_replace` and `find_one_and_delete`.

use std::time::Duration;

use bson::{Bson, Document, RawBsonRef, RawDocument, RawDocumentBuf, raw::cstr};
use serde::{Serialize, de::DeserializeOwned};
use steadfast_core::concern::WriteConcern;

use super::{
    add_write_concern,
    write::{Change, with_reply},
    write_concern_error,
};
use crate::{
    collection::CollectionHandle,
    command::{Command, CommandKind, Target},
    decode,
    error::{Error, ErrorKind, Result, WriteFailure},
    options::{
        Collation, FindOneAndDeleteOptions, FindOneAndReplaceOptions, FindOneAndUpdateOptions,
        Hint, ReturnDocument, UpdateModifications,
    },
};

/// Fields of the command, without its name, the query and the write concern. Unset fields are not
/// sent.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct FindAndModifyFields<'a, U> {
    #[serde(skip_serializing_if = "Option::is_none")]
    sort: Option<&'a Document>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remove: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    update: Option<&'a U>,
    #[serde(skip_serializing_if = "Option::is_none")]
    new: Option<bool>,
    #[serde(rename = "fields", skip_serializing_if = "Option::is_none")]
    projection: Option<&'a Document>,
    #[serde(skip_serializing_if = "Option::is_none")]
    upsert: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bypass_document_validation: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    array_filters: Option<&'a [Document]>,
    #[serde(
        rename = "maxTimeMS",
        serialize_with = "crate::serde_helpers::millis::serialize",
        skip_serializing_if = "Option::is_none"
    )]
    max_time: Option<Duration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    collation: Option<&'a Collation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a Hint>,
    #[serde(rename = "let", skip_serializing_if = "Option::is_none")]
    let_vars: Option<&'a Document>,
    #[serde(skip_serializing_if = "Option::is_none")]
    comment: Option<&'a Bson>,
}

/// Returns the command that updates a document.
pub(crate) fn update(
    collection: &CollectionHandle,
    filter: &Document,
    update: &UpdateModifications,
    options: Option<&FindOneAndUpdateOptions>,
) -> Result<Command> {
    let none = FindOneAndUpdateOptions::default();
    let options = options.unwrap_or(&none);
    let fields = FindAndModifyFields {
        sort: options.sort.as_ref(),
        remove: None,
        update: Some(update),
        new: options.return_document.map(returns_new),
        projection: options.projection.as_ref(),
        upsert: options.upsert,
        bypass_document_validation: options.bypass_document_validation,
        array_filters: options.array_filters.as_deref(),
        max_time: options.max_time,
        collation: options.collation.as_ref(),
        hint: options.hint.as_ref(),
        let_vars: options.let_vars.as_ref(),
        comment: options.comment.as_ref(),
    };
    let command =
        command(collection, filter, &fields, options.write_concern.as_ref(), options.timeout)?;
    checked(command, Change::Update)
}

/// Returns the command that replaces a document.
pub(crate) fn replace(
    collection: &CollectionHandle,
    filter: &Document,
    replacement: &RawDocumentBuf,
    options: Option<&FindOneAndReplaceOptions>,
) -> Result<Command> {
    let none = FindOneAndReplaceOptions::default();
    let options = options.unwrap_or(&none);
    let fields = FindAndModifyFields {
        sort: options.sort.as_ref(),
        remove: None,
        update: Some(replacement),
        new: options.return_document.map(returns_new),
        projection: options.projection.as_ref(),
        upsert: options.upsert,
        bypass_document_validation: options.bypass_document_validation,
        array_filters: None,
        max_time: options.max_time,
        collation: options.collation.as_ref(),
        hint: options.hint.as_ref(),
        let_vars: options.let_vars.as_ref(),
        comment: options.comment.as_ref(),
    };
    let command =
        command(collection, filter, &fields, options.write_concern.as_ref(), options.timeout)?;
    checked(command, Change::Replacement)
}

/// Returns the command that deletes a document.
pub(crate) fn delete(
    collection: &CollectionHandle,
    filter: &Document,
    options: Option<&FindOneAndDeleteOptions>,
) -> Result<Command> {
    let none = FindOneAndDeleteOptions::default();
    let options = options.unwrap_or(&none);
    let fields = FindAndModifyFields::<Document> {
        sort: options.sort.as_ref(),
        remove: Some(true),
        projection: options.projection.as_ref(),
        max_time: options.max_time,
        collation: options.collation.as_ref(),
        hint: options.hint.as_ref(),
        let_vars: options.let_vars.as_ref(),
        comment: options.comment.as_ref(),
        ..FindAndModifyFields::default()
    };
    command(collection, filter, &fields, options.write_concern.as_ref(), options.timeout)
}

fn command<U: Serialize>(
    collection: &CollectionHandle,
    filter: &Document,
    fields: &FindAndModifyFields<'_, U>,
    concern: Option<&WriteConcern>,
    timeout: Option<Duration>,
) -> Result<Command> {
    let mut command = Command::new(
        cstr!("findAndModify"),
        collection.checked_name()?,
        &collection.database,
        Target::Write,
        CommandKind::RetryableWrite,
    );
    command.field(cstr!("query"), bson::to_raw_document(filter)?);
    command.fields_of(fields)?;
    add_write_concern(&mut command, collection.write_concern(concern))?;
    command.limit(timeout, collection.timeout);
    Ok(command)
}

fn checked(command: Command, change: Change) -> Result<Command> {
    match command.body.get("update")? {
        Some(update) => change.check(update)?,
        None => {
            return Err(Error::invalid_argument(
                "the update is empty; add an operator such as $set",
            ));
        }
    }
    Ok(command)
}

/// Returns the value of the field `new`.
fn returns_new(document: ReturnDocument) -> bool {
    match document {
        ReturnDocument::Before => false,
        ReturnDocument::After => true,
    }
}

/// Reads the document in the reply, if there is one.
pub(crate) fn read<T: DeserializeOwned>(body: &RawDocument) -> Result<Option<T>> {
    if let Some(error) = write_concern_error(body)? {
        let failure = WriteFailure::WriteConcernError(error);
        return Err(with_reply(Error::new(ErrorKind::Write(failure)), body));
    }
    let malformed = |what: &dyn std::fmt::Display| {
        Error::invalid_response(format!("the reply to findAndModify has {what}"))
    };
    match body.get("value") {
        Ok(Some(RawBsonRef::Document(document))) => {
            Ok(Some(decode::document(document.as_bytes())?))
        }
        Ok(Some(RawBsonRef::Null)) => Ok(None),
        Ok(Some(other)) => Err(malformed(&format_args!("a {:?} as value", other.element_type()))),
        Ok(None) => Err(malformed(&"no value")),
        Err(error) => Err(malformed(&error)),
    }
}

#[cfg(test)]
mod tests;
