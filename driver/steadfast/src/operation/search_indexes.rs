//! `createSearchIndexes`, `updateSearchIndex`, `dropSearchIndex` and `$listSearchIndexes`.
//!
//! The specification on index management: none of them has a read concern or write concern.

use bson::{Document, RawArrayBuf, RawDocument, doc, raw::cstr};
use serde::Deserialize;

use crate::error::command_error::parse;
use crate::{
    SearchIndexModel,
    collection::CollectionHandle,
    command::{Command, CommandKind, Target},
    error::Result,
};

pub(crate) fn create(
    collection: &CollectionHandle,
    models: &[SearchIndexModel],
) -> Result<Command> {
    let mut command = begin(cstr!("createSearchIndexes"), collection)?;
    let mut indexes = RawArrayBuf::new();
    for model in models {
        indexes.push(bson::serialize_to_raw_document_buf(model)?);
    }
    command.field(cstr!("indexes"), indexes);
    Ok(command)
}

/// Reads the names of the new indexes.
pub(crate) fn read_create(body: &RawDocument) -> Result<Vec<String>> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Created {
        indexes_created: Vec<Index>,
    }
    #[derive(Deserialize)]
    struct Index {
        name: String,
    }
    let created = parse::<Created>(body)?.indexes_created;
    Ok(created.into_iter().map(|index| index.name).collect())
}

pub(crate) fn update(
    collection: &CollectionHandle,
    index: &str,
    definition: &Document,
) -> Result<Command> {
    let mut command = begin(cstr!("updateSearchIndex"), collection)?;
    command.field(cstr!("name"), index);
    command.field(cstr!("definition"), bson::to_raw_document(definition)?);
    Ok(command)
}

pub(crate) fn drop(collection: &CollectionHandle, index: &str) -> Result<Command> {
    let mut command = begin(cstr!("dropSearchIndex"), collection)?;
    command.field(cstr!("name"), index);
    Ok(command)
}

/// Returns the pipeline that lists the index with this name, or all.
pub(crate) fn listing(index: Option<&str>) -> Vec<Document> {
    let filter = index.map_or_else(Document::new, |name| doc! { "name": name });
    vec![doc! { "$listSearchIndexes": filter }]
}

fn begin(name: &'static bson::raw::CStr, collection: &CollectionHandle) -> Result<Command> {
    let collection_name = collection.checked_name()?;
    Ok(Command::new(name, collection_name, &collection.database, Target::Write, CommandKind::Write))
}

#[cfg(test)]
mod tests {
    use steadfast_core::concern::WriteConcern;

    use super::*;
    use crate::{
        SearchIndexType,
        operation::fixture::{assert_invalid_response, body, collection_with, raw},
        options::CollectionOptions,
    };

    fn collection() -> std::sync::Arc<CollectionHandle> {
        collection_with(
            CollectionOptions::builder().write_concern(WriteConcern::majority()).build(),
        )
    }

    #[tokio::test]
    async fn create_search_indexes_sends_no_write_concern() {
        let models = [
            SearchIndexModel::builder().definition(doc! { "mappings": {} }).build(),
            SearchIndexModel::builder()
                .definition(doc! { "fields": [] })
                .name("near".to_owned())
                .index_type(SearchIndexType::VectorSearch)
                .build(),
        ];
        assert_eq!(
            body(&create(&collection(), &models).unwrap()),
            doc! {
                "createSearchIndexes": "books",
                "indexes": [
                    { "definition": { "mappings": {} } },
                    { "definition": { "fields": [] }, "name": "near", "type": "vectorSearch" },
                ],
            }
        );
    }

    #[tokio::test]
    async fn search_indexes_are_updated_dropped_and_listed_by_name() {
        assert_eq!(
            body(&update(&collection(), "near", &doc! { "fields": [] }).unwrap()),
            doc! { "updateSearchIndex": "books", "name": "near", "definition": { "fields": [] } }
        );
        assert_eq!(
            body(&drop(&collection(), "near").unwrap()),
            doc! { "dropSearchIndex": "books", "name": "near" }
        );
        assert_eq!(listing(Some("near")), [doc! { "$listSearchIndexes": { "name": "near" } }]);
        assert_eq!(listing(None), [doc! { "$listSearchIndexes": {} }]);
    }

    #[test]
    fn names_of_created_search_indexes_are_read() {
        let reply = raw(doc! { "ok": 1, "indexesCreated": [{ "id": "1", "name": "a" }] });
        assert_eq!(read_create(&reply).unwrap(), ["a"]);
        assert_invalid_response(read_create(&raw(doc! { "ok": 1 })));
    }
}
