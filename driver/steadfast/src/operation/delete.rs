//! `delete`.

use bson::{Document, RawDocument};
use serde::Serialize;

use super::write::{Settings, Verb, WriteReply, append_whole, head, with_statements};
use crate::{
    collection::CollectionHandle,
    command::{Command, CommandKind},
    error::Result,
    options::DeleteOptions,
    results::DeleteResult,
};

/// Delete statement. Unset fields are not sent.
///
/// The collation and the hint are typed in the options of an action, and BSON values in a write
/// model.
#[derive(Debug, Serialize)]
pub(crate) struct DeleteStatement<'a, C, H> {
    pub(crate) q: &'a Document,
    /// 1 for the first matching document, 0 for all.
    limit: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    collation: Option<&'a C>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a H>,
}

impl<'a, C: Serialize, H: Serialize> DeleteStatement<'a, C, H> {
    pub(crate) fn new(
        filter: &'a Document,
        multi: bool,
        collation: Option<&'a C>,
        hint: Option<&'a H>,
    ) -> Self {
        Self { q: filter, limit: i32::from(!multi), collation, hint }
    }

    /// Appends the statement to `out`.
    pub(crate) fn append(&self, out: &mut Vec<u8>) -> Result<()> {
        append_whole(out, |out| Ok(bson::serialize_to_buffer(self, out)?))
    }
}

/// Returns the command that deletes one document or many.
pub(crate) fn delete(
    collection: &CollectionHandle,
    filter: &Document,
    multi: bool,
    options: Option<&DeleteOptions>,
) -> Result<Command> {
    let none = DeleteOptions::default();
    let options = options.unwrap_or(&none);
    let settings = Settings {
        let_vars: options.let_vars.as_ref(),
        comment: options.comment.as_ref(),
        write_concern: options.write_concern.as_ref(),
        timeout: options.timeout,
        ..Settings::default()
    };
    let kind = if multi { CommandKind::Write } else { CommandKind::RetryableWrite };
    let head = head(collection, Verb::Delete, &settings, kind)?;
    let mut documents = Vec::new();
    DeleteStatement::new(filter, multi, options.collation.as_ref(), options.hint.as_ref())
        .append(&mut documents)?;
    Ok(with_statements(head, Verb::Delete, documents))
}

/// Reads the reply to [`delete`].
pub(crate) fn read(body: &RawDocument) -> Result<DeleteResult> {
    Ok(DeleteResult { deleted_count: WriteReply::read_single(body)?.count() })
}

#[cfg(test)]
mod tests;
