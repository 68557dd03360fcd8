//! `create`, `drop` and `listCollections`.

use bson::{RawDocumentBuf, raw::cstr};

use super::{add_write_concern, find::checked_batch_size};
use crate::{
    Database,
    collection::CollectionHandle,
    command::{Command, CommandKind, Target},
    error::{Error, Result},
    namespace::check_database_name,
    operation::get_more::GetMoreOptions,
    options::{
        CreateCollectionOptions, CursorType, DropCollectionOptions, ListCollectionsOptions,
        SelectionCriteria,
    },
};

pub(crate) fn create(
    collection: &CollectionHandle,
    options: Option<&CreateCollectionOptions>,
) -> Result<Command> {
    let name = collection.checked_name()?;
    let mut command = Command::new(
        cstr!("create"),
        name,
        &collection.database,
        Target::Write,
        CommandKind::Write,
    );
    if let Some(options) = options {
        command.fields_of(options)?;
    }
    let own = options.and_then(|options| options.write_concern.as_ref());
    add_write_concern(&mut command, collection.write_concern(own))?;
    command.limit(options.and_then(|options| options.timeout), collection.timeout);
    Ok(command)
}

pub(crate) fn drop(
    collection: &CollectionHandle,
    options: Option<&DropCollectionOptions>,
) -> Result<Command> {
    let name = collection.checked_name()?;
    let mut command =
        Command::new(cstr!("drop"), name, &collection.database, Target::Write, CommandKind::Write);
    let own = options.and_then(|options| options.write_concern.as_ref());
    add_write_concern(&mut command, collection.write_concern(own))?;
    command.limit(options.and_then(|options| options.timeout), collection.timeout);
    Ok(command)
}

/// Ignores "namespace not found" of a drop, which servers before 7.0 return.
pub(crate) fn ignore_missing<T: Default>(error: Error) -> Result<T> {
    if error.is_namespace_not_found() { Ok(T::default()) } else { Err(error) }
}

/// Returns the command and the options of the cursor's `getMore`.
pub(crate) fn list(
    database: &Database,
    name_only: bool,
    options: Option<&ListCollectionsOptions>,
) -> Result<(Command, GetMoreOptions)> {
    check_database_name(&database.name)?;
    // The specification on enumerating collections: always on the primary.
    let target = Target::Read(SelectionCriteria::default());
    let mut command =
        Command::new(cstr!("listCollections"), 1, &database.name, target, CommandKind::Read);
    let batch_size = options.and_then(|options| options.batch_size);
    command.field(cstr!("cursor"), cursor_field(batch_size)?);
    if name_only && names_suffice(options) {
        command.field(cstr!("nameOnly"), true);
    }
    if let Some(options) = options {
        command.fields_of(options)?;
    }
    command.limit(options.and_then(|options| options.timeout), database.timeout());
    let comment = options.and_then(|options| options.comment.clone());
    let mut more = GetMoreOptions { batch_size, comment, ..GetMoreOptions::default() };
    let mode = options.and_then(|options| options.timeout_mode);
    more.apply_timeout_mode(&mut command, mode, CursorType::NonTailable)?;
    Ok((command, more))
}

/// Returns `true` if there is no filter, or one that uses the name only: with `nameOnly`, servers
/// cannot filter by other fields.
fn names_suffice(options: Option<&ListCollectionsOptions>) -> bool {
    let filter = options.and_then(|options| options.filter.as_ref());
    filter.is_none_or(|filter| filter.keys().all(|key| key == "name"))
}

/// Returns the field `cursor` with this batch size.
pub(super) fn cursor_field(batch_size: Option<u32>) -> Result<RawDocumentBuf> {
    let mut cursor = RawDocumentBuf::new();
    if let Some(batch_size) = batch_size {
        cursor.append(cstr!("batchSize"), checked_batch_size(batch_size)?);
    }
    Ok(cursor)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bson::{Bson, doc};
    use steadfast_core::concern::WriteConcern;

    use super::*;
    use crate::{
        operation::fixture::{body, collection, collection_named, database, database_with},
        options::{DatabaseOptions, TimeseriesOptions, ValidationLevel},
    };

    #[tokio::test]
    async fn create_sends_the_options_of_the_collection() {
        let command = create(&collection(), None).unwrap();
        assert_eq!(body(&command), doc! { "create": "books" });
        let options = CreateCollectionOptions::builder()
            .capped(true)
            .size(4096)
            .max(10)
            .validator(doc! { "x": { "$exists": true } })
            .validation_level(ValidationLevel::Moderate)
            .timeseries(TimeseriesOptions::builder().time_field("at").build())
            .expire_after_seconds(Duration::from_secs(60))
            .write_concern(WriteConcern::nodes(1))
            .comment(Bson::from("note"))
            .build();
        let command = create(&collection(), Some(&options)).unwrap();
        assert_eq!(
            body(&command),
            doc! {
                "create": "books", "capped": true, "size": 4096_i64, "max": 10_i64,
                "validator": { "x": { "$exists": true } }, "validationLevel": "moderate",
                "timeseries": { "timeField": "at" }, "expireAfterSeconds": 60, "comment": "note",
                "writeConcern": { "w": 1 },
            }
        );
    }

    #[tokio::test]
    async fn collection_with_an_invalid_name_is_not_created() {
        // pitfall 41
        for name in ["", "a\0b"] {
            let nowhere = collection_named("library", name);
            assert!(create(&nowhere, None).unwrap_err().is_invalid_argument());
        }
    }

    #[tokio::test]
    async fn drop_inherits_the_write_concern() {
        let options = DatabaseOptions::builder().write_concern(WriteConcern::majority()).build();
        let books = database_with(options).collection::<bson::Document>("books");
        let command = drop(&books.handle, None).unwrap();
        assert_eq!(body(&command), doc! { "drop": "books", "writeConcern": { "w": "majority" } });
        assert!(command.acknowledged);
        assert_eq!(body(&drop(&collection(), None).unwrap()), doc! { "drop": "books" });
    }

    #[tokio::test]
    async fn unacknowledged_drop_expects_no_reply() {
        let options =
            DropCollectionOptions::builder().write_concern(WriteConcern::nodes(0)).build();
        assert!(!drop(&collection(), Some(&options)).unwrap().acknowledged);
    }

    #[tokio::test]
    async fn list_collections_requests_a_cursor() {
        let (command, _) = list(&database(), false, None).unwrap();
        assert_eq!(body(&command), doc! { "listCollections": 1, "cursor": {} });
        let options = ListCollectionsOptions::builder()
            .batch_size(2)
            .filter(doc! { "type": "view" })
            .authorized_collections(true)
            .build();
        let (command, more) = list(&database(), false, Some(&options)).unwrap();
        assert_eq!(
            body(&command),
            doc! {
                "listCollections": 1, "cursor": { "batchSize": 2 }, "filter": { "type": "view" },
                "authorizedCollections": true,
            }
        );
        assert_eq!(more.batch_size, Some(2));
    }

    #[tokio::test]
    async fn name_only_is_sent_if_the_filter_allows_it() {
        let name_only = |filter| {
            let options = ListCollectionsOptions::builder().filter(filter).build();
            let command = list(&database(), true, Some(&options)).unwrap().0;
            body(&command).get_bool("nameOnly").unwrap_or(false)
        };
        assert!(name_only(doc! { "name": "books" }));
        assert!(!name_only(doc! { "type": "collection" }));
    }
}
