//! `createIndexes`, `listIndexes` and `dropIndexes`.

use bson::{RawArrayBuf, raw::cstr};

use super::{add_write_concern, collections::cursor_field};
use crate::{
    IndexModel,
    collection::CollectionHandle,
    command::{Command, CommandKind, Target},
    error::{Error, Result},
    operation::get_more::GetMoreOptions,
    options::{
        CreateIndexOptions, CursorType, DropIndexOptions, ListIndexesOptions, SelectionCriteria,
    },
};

/// Returns the command and the names of the indexes. Indexes without a name get the default one.
pub(crate) fn create(
    collection: &CollectionHandle,
    mut models: Vec<IndexModel>,
    options: Option<&CreateIndexOptions>,
) -> Result<(Command, Vec<String>)> {
    let name = collection.checked_name()?;
    let mut names = Vec::with_capacity(models.len());
    let mut indexes = RawArrayBuf::new();
    for model in &mut models {
        names.push(checked_name_of(model)?);
        model.options.get_or_insert_default().name = names.last().cloned();
        indexes.push(bson::serialize_to_raw_document_buf(model)?);
    }
    if names.is_empty() {
        return Err(Error::invalid_argument("create_indexes requires at least one index"));
    }
    let mut command = Command::new(
        cstr!("createIndexes"),
        name,
        &collection.database,
        Target::Write,
        CommandKind::Write,
    );
    command.field(cstr!("indexes"), indexes);
    if let Some(options) = options {
        command.fields_of(options)?;
    }
    let own = options.and_then(|options| options.write_concern.as_ref());
    add_write_concern(&mut command, collection.write_concern(own))?;
    command.limit(options.and_then(|options| options.timeout), collection.timeout);
    Ok((command, names))
}

fn checked_name_of(model: &IndexModel) -> Result<String> {
    if model.keys.is_empty() {
        return Err(Error::invalid_argument(
            "the keys of the index are empty; set at least one field",
        ));
    }
    Ok(model.name())
}

/// Returns the command that drops one index, or all except the one on `_id`.
pub(crate) fn drop(
    collection: &CollectionHandle,
    index: Option<&str>,
    options: Option<&DropIndexOptions>,
) -> Result<Command> {
    if index == Some("*") {
        return Err(Error::invalid_argument(
            "drop_index with the name \"*\" would drop all indexes; use drop_indexes",
        ));
    }
    let name = collection.checked_name()?;
    let mut command = Command::new(
        cstr!("dropIndexes"),
        name,
        &collection.database,
        Target::Write,
        CommandKind::Write,
    );
    command.field(cstr!("index"), index.unwrap_or("*"));
    if let Some(options) = options {
        command.fields_of(options)?;
    }
    let own = options.and_then(|options| options.write_concern.as_ref());
    add_write_concern(&mut command, collection.write_concern(own))?;
    command.limit(options.and_then(|options| options.timeout), collection.timeout);
    Ok(command)
}

/// Returns the command and the options of the cursor's `getMore`.
pub(crate) fn list(
    collection: &CollectionHandle,
    options: Option<&ListIndexesOptions>,
) -> Result<(Command, GetMoreOptions)> {
    let name = collection.checked_name()?;
    // The specification on index management: always on the primary.
    let target = Target::Read(SelectionCriteria::default());
    let mut command =
        Command::new(cstr!("listIndexes"), name, &collection.database, target, CommandKind::Read);
    let batch_size = options.and_then(|options| options.batch_size);
    command.field(cstr!("cursor"), cursor_field(batch_size)?);
    if let Some(options) = options {
        command.fields_of(options)?;
    }
    command.limit(options.and_then(|options| options.timeout), collection.timeout);
    let comment = options.and_then(|options| options.comment.clone());
    let mut more = GetMoreOptions { batch_size, comment, ..GetMoreOptions::default() };
    let mode = options.and_then(|options| options.timeout_mode);
    more.apply_timeout_mode(&mut command, mode, CursorType::NonTailable)?;
    Ok((command, more))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bson::{Bson, doc};
    use steadfast_core::concern::WriteConcern;

    use super::*;
    use crate::{
        operation::fixture::{body, collection},
        options::{CommitQuorum, IndexOptions},
    };

    fn index(keys: bson::Document) -> IndexModel {
        IndexModel::builder().keys(keys).build()
    }

    #[tokio::test]
    async fn indexes_get_default_names() {
        let named = IndexModel::builder()
            .keys(doc! { "y": "text" })
            .options(IndexOptions::builder().name("words".to_owned()).sparse(true).build())
            .build();
        let models = vec![index(doc! { "x": 1, "z": -1 }), named];
        let (command, names) = create(&collection(), models, None).unwrap();
        assert_eq!(names, ["x_1_z_-1", "words"]);
        assert_eq!(
            body(&command),
            doc! {
                "createIndexes": "books",
                "indexes": [
                    { "key": { "x": 1, "z": -1 }, "name": "x_1_z_-1" },
                    { "key": { "y": "text" }, "name": "words", "sparse": true },
                ],
            }
        );
    }

    #[tokio::test]
    async fn command_options_are_outside_of_the_indexes() {
        let options = CreateIndexOptions::builder()
            .commit_quorum(CommitQuorum::Majority)
            .max_time(Duration::from_secs(1))
            .write_concern(WriteConcern::majority())
            .comment(Bson::from("note"))
            .build();
        let (command, _) =
            create(&collection(), vec![index(doc! { "x": 1 })], Some(&options)).unwrap();
        assert_eq!(
            body(&command),
            doc! {
                "createIndexes": "books", "indexes": [{ "key": { "x": 1 }, "name": "x_1" }],
                "commitQuorum": "majority", "maxTimeMS": 1000_i64, "comment": "note",
                "writeConcern": { "w": "majority" },
            }
        );
    }

    #[tokio::test]
    async fn index_without_keys_is_rejected() {
        for models in [vec![], vec![index(doc! {})]] {
            assert!(create(&collection(), models, None).unwrap_err().is_invalid_argument());
        }
    }

    #[tokio::test]
    async fn dropping_one_index_never_drops_all() {
        let one = drop(&collection(), Some("x_1"), None).unwrap();
        assert_eq!(body(&one), doc! { "dropIndexes": "books", "index": "x_1" });
        let all = drop(&collection(), None, None).unwrap();
        assert_eq!(body(&all), doc! { "dropIndexes": "books", "index": "*" });
        assert!(drop(&collection(), Some("*"), None).unwrap_err().is_invalid_argument());
    }

    #[tokio::test]
    async fn indexes_are_listed_by_a_cursor() {
        let (command, _) = list(&collection(), None).unwrap();
        assert_eq!(body(&command), doc! { "listIndexes": "books", "cursor": {} });
        let options = ListIndexesOptions::builder()
            .batch_size(2)
            .max_time(Duration::from_millis(9))
            .comment(Bson::from("note"))
            .build();
        let (command, more) = list(&collection(), Some(&options)).unwrap();
        assert_eq!(
            body(&command),
            doc! {
                "listIndexes": "books", "cursor": { "batchSize": 2 }, "maxTimeMS": 9_i64,
                "comment": "note",
            }
        );
        assert_eq!((more.batch_size, more.max_time), (Some(2), None));
    }
}
