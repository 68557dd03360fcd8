//! `update`: of one document or many, and replacements.

use bson::{Document, RawDocument};
use serde::Serialize;

use super::write::{Change, Settings, Verb, WriteReply, append_whole, head, with_statements};
use crate::{
    collection::CollectionHandle,
    command::{Command, CommandKind},
    error::{Error, Result},
    options::UpdateOptions,
    results::UpdateResult,
};

/// Update statement. Unset fields are not sent.
///
/// The array filters, the collation and the hint are typed in the options of an action, and BSON
/// values in a write model.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UpdateStatement<'a, U, F, C, H> {
    pub(crate) q: &'a Document,
    pub(crate) u: &'a U,
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) multi: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) upsert: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) array_filters: Option<&'a [F]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) collation: Option<&'a C>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hint: Option<&'a H>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sort: Option<&'a Document>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

/// Appends a statement to `out`.
pub(crate) fn append(
    statement: &UpdateStatement<'_, impl Serialize, impl Serialize, impl Serialize, impl Serialize>,
    change: Change,
    out: &mut Vec<u8>,
) -> Result<()> {
    append_whole(out, |out| {
        let start = out.len();
        bson::serialize_to_buffer(statement, out)?;
        match RawDocument::from_bytes(&out[start..])?.get("u")? {
            Some(u) => change.check(u),
            None => {
                Err(Error::invalid_argument("the update is empty; add an operator such as $set"))
            }
        }
    })
}

/// Returns the command that updates or replaces one document, or updates many.
pub(crate) fn update<U: Serialize>(
    collection: &CollectionHandle,
    filter: &Document,
    (change, u): (Change, &U),
    multi: bool,
    options: Option<&UpdateOptions>,
) -> Result<Command> {
    let none = UpdateOptions::default();
    let options = options.unwrap_or(&none);
    let statement = UpdateStatement {
        q: filter,
        u,
        multi,
        upsert: options.upsert,
        array_filters: options.array_filters.as_deref(),
        collation: options.collation.as_ref(),
        hint: options.hint.as_ref(),
        sort: options.sort.as_ref(),
    };
    let settings = Settings {
        ordered: true,
        bypass_document_validation: options.bypass_document_validation,
        let_vars: options.let_vars.as_ref(),
        comment: options.comment.as_ref(),
        write_concern: options.write_concern.as_ref(),
        timeout: options.timeout,
        ..Settings::default()
    };
    let kind = if multi { CommandKind::Write } else { CommandKind::RetryableWrite };
    let head = head(collection, Verb::Update, &settings, kind)?;
    let mut documents = Vec::new();
    append(&statement, change, &mut documents)?;
    Ok(with_statements(head, Verb::Update, documents))
}

/// Reads the reply to [`update`].
pub(crate) fn read(body: &RawDocument) -> Result<UpdateResult> {
    let mut reply = WriteReply::read_single(body)?;
    Ok(UpdateResult {
        matched_count: reply.matched_count(),
        modified_count: reply.modified_count(),
        upserted_id: reply.take_upserted().pop().map(|upserted| upserted.id),
    })
}

#[cfg(test)]
mod tests;
