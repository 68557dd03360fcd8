//! Conversion of calls into commands, and of replies into results.
//!
//! Functions without I/O: one builds the [`Command`] of a call, another reads its reply.

pub(crate) mod aggregate;
pub(crate) mod bulk;
pub(crate) mod change_stream;
pub(crate) mod client_bulk;
pub(crate) mod collections;
pub(crate) mod count;
pub(crate) mod databases;
pub(crate) mod delete;
pub(crate) mod distinct;
pub(crate) mod find;
pub(crate) mod find_and_modify;
pub(crate) mod get_more;
pub(crate) mod indexes;
pub(crate) mod insert;
pub(crate) mod run_command;
pub(crate) mod search_indexes;
pub(crate) mod update;
pub(crate) mod write;

use bson::{RawDocument, raw::cstr};
use steadfast_core::concern::{ReadConcern, WriteConcern};

use crate::{
    command::Concern,
    command::{Command, Reply},
    error::{Error, ErrorKind, Result, WriteFailure, command_error::write_concern_error},
    topology::SelectedServer,
};

/// Limits of a write command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteLimits {
    /// Maximum size of a document (`maxBsonObjectSize`).
    pub(crate) document_bytes: usize,
    /// Maximum size of a message (`maxMessageSizeBytes`).
    pub(crate) message_bytes: usize,
    /// Maximum number of writes (`maxWriteBatchSize`).
    pub(crate) batch_count: usize,
}

impl WriteLimits {
    /// Returns the limits of the selected server.
    pub(crate) fn of(selected: &SelectedServer) -> Self {
        let server = selected.description();
        let limit = |value: Option<i32>, default: usize| {
            value.and_then(|value| usize::try_from(value).ok()).unwrap_or(default)
        };
        Self {
            document_bytes: limit(server.map(|s| s.max_bson_object_size), 16 * 1024 * 1024),
            message_bytes: limit(server.map(|s| s.max_message_size_bytes), 48_000_000),
            batch_count: limit(server.map(|s| s.max_write_batch_size), 100_000),
        }
    }
}

/// Adds `readConcern`. Without a level nothing is sent, and the server's default applies.
pub(crate) fn add_read_concern(
    command: &mut Command,
    concern: Concern<'_, ReadConcern>,
) -> Result<()> {
    command.supports_read_concern = true;
    command.explicit.read_concern = concern.own.is_some();
    if let Some(concern) = concern.effective() {
        command.field(cstr!("readConcern"), bson::to_raw_document(&concern.to_document())?);
    }
    Ok(())
}

/// Adds `writeConcern`. Without fields nothing is sent, and the server's default applies.
pub(crate) fn add_write_concern(
    command: &mut Command,
    concern: Concern<'_, WriteConcern>,
) -> Result<()> {
    command.explicit.write_concern = concern.own.is_some();
    let concern = concern.effective().filter(|concern| !concern.is_empty());
    let Some(concern) = concern else { return Ok(()) };
    concern.validate().map_err(|error| Error::invalid_argument(error.to_string()))?;
    command.field(cstr!("writeConcern"), bson::to_raw_document(&concern.to_document())?);
    command.acknowledged = concern.is_acknowledged();
    Ok(())
}

/// Reads a reply, and adds the server's address to an error in it.
pub(crate) fn read_reply<T>(
    reply: &Reply,
    read: impl FnOnce(&RawDocument) -> Result<T>,
) -> Result<T> {
    read(reply.body()).map_err(|error| reply.with_origin(error))
}

/// Reads a reply without a result. A write concern error is returned as an error.
pub(crate) fn check_write_concern(body: &RawDocument) -> Result<()> {
    let Some(concern_error) = write_concern_error(body)? else { return Ok(()) };
    let mut error = Error::new(ErrorKind::Write(WriteFailure::WriteConcernError(concern_error)));
    for label in labels(body) {
        error.add_label(label);
    }
    Err(error.with_response(body.to_owned()))
}

/// Returns the error labels of a reply.
fn labels(body: &RawDocument) -> impl Iterator<Item = &str> {
    let labels = body.get_array("errorLabels").ok();
    labels.into_iter().flatten().filter_map(|label| label.ok()?.as_str())
}

#[cfg(test)]
pub(crate) mod fixture {
    //! Helpers of the tests of operations.

    use std::sync::Arc;

    use bson::{Document, RawDocumentBuf};

    use crate::{
        Client, Database,
        collection::CollectionHandle,
        command::Command,
        options::{CollectionOptions, DatabaseOptions},
    };

    /// Creates a client without a deployment: commands are built, but not sent.
    fn client() -> Client {
        let options = crate::options::ClientOptions::default();
        Client::with_options(options).expect("the default options are valid")
    }

    pub(crate) fn database_with(options: DatabaseOptions) -> Database {
        Database::new(client(), "library", options)
    }

    pub(crate) fn database() -> Database {
        database_with(DatabaseOptions::default())
    }

    pub(crate) fn collection_with(options: CollectionOptions) -> Arc<CollectionHandle> {
        database().collection_with_options::<Document>("books", options).handle
    }

    pub(crate) fn collection() -> Arc<CollectionHandle> {
        collection_with(CollectionOptions::default())
    }

    pub(crate) fn collection_named(database: &str, name: &str) -> Arc<CollectionHandle> {
        let options = DatabaseOptions::default();
        Database::new(client(), database, options).collection::<Document>(name).handle
    }

    pub(crate) fn body(command: &Command) -> Document {
        Document::try_from(&*command.body).expect("a well-formed body")
    }

    pub(crate) fn raw(document: Document) -> RawDocumentBuf {
        bson::to_raw_document(&document).expect("a well-formed document")
    }

    pub(crate) fn assert_invalid_response<T: std::fmt::Debug>(result: crate::error::Result<T>) {
        let error = result.expect_err("the reply is malformed");
        assert!(
            matches!(&*error.kind, crate::error::ErrorKind::InvalidResponse { .. }),
            "{error:?}"
        );
    }
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::{
        check_write_concern,
        fixture::{assert_invalid_response, raw},
    };
    use crate::error::{ErrorKind, WriteFailure};

    #[test]
    fn write_concern_error_fails_a_successful_command() {
        // pitfall 11
        let reply = raw(doc! {
            "ok": 1,
            "writeConcernError": { "code": 64, "codeName": "WriteConcernTimeout", "errmsg": "late" },
            "errorLabels": ["RetryableWriteError"],
        });
        let error = check_write_concern(&reply).unwrap_err();
        assert!(error.contains_label("RetryableWriteError"));
        match &*error.kind {
            ErrorKind::Write(WriteFailure::WriteConcernError(error)) => assert_eq!(error.code, 64),
            other => panic!("{other:?}"),
        }
        assert!(check_write_concern(&raw(doc! { "ok": 1 })).is_ok());
    }

    #[test]
    fn malformed_write_concern_error_is_an_invalid_reply() {
        let reply = raw(doc! { "ok": 1, "writeConcernError": 5 });
        assert_invalid_response(check_write_concern(&reply));
    }
}
