//! The indexes of a bucket: made before the first upload, if they are needed.

use futures_util::TryStreamExt;
use steadfast::{
    IndexModel,
    options::{ReadPreference, SelectionCriteria},
};

use super::*;

async fn indexes(collection: &Collection<Document>) -> Result<Vec<(Document, Option<bool>)>> {
    let listed: Vec<IndexModel> = collection.list_indexes().await?.try_collect().await?;
    let unique = |index: &IndexModel| index.options.as_ref().and_then(|options| options.unique);
    Ok(listed.into_iter().skip(1).map(|index| (index.keys.clone(), unique(&index))).collect())
}

const ALL: [&str; 7] = [
    "find files",
    "listIndexes files",
    "createIndexes files",
    "listIndexes chunks",
    "createIndexes chunks",
    "insert chunks",
    "insert files",
];

#[tokio::test]
async fn they_are_made_right_before_the_first_upload_and_only_then() -> Result<()> {
    testbed::require!(testbed::shared::servers());
    let own = Own::with(|options| {
        let secondary = ReadPreference::Secondary { options: None };
        options.selection_criteria = Some(SelectionCriteria::ReadPreference(secondary));
    })
    .await;
    let upload = own.bucket.open_upload_stream("file").await?;
    drop(upload);
    assert!(own.bucket.find_one(doc! {}).await?.is_none());
    assert!(own.bucket.delete(Bson::Int32(1)).await.is_err());
    let before = in_short(&own.commands());
    assert_eq!(before, ["find files", "delete files", "delete chunks"]);

    own.upload("file", b"12345").await?;
    let sent = own.commands();
    assert_eq!(in_short(&sent), ALL);
    let look = &sent[0];
    assert_eq!(*look.get_document("projection").unwrap(), doc! { "_id": 1 });
    assert!(!look.contains_key("$readPreference"), "the primary is asked: {look}");
    assert_eq!(indexes(&own.files).await?, [(doc! { "filename": 1, "uploadDate": 1 }, None)]);
    assert_eq!(indexes(&own.chunks).await?, [(doc! { "files_id": 1, "n": 1 }, Some(true))]);

    own.commands();
    own.upload("file", b"12345").await?;
    own.bucket.clone().upload_from_stream("file", &b""[..]).await?;
    assert_eq!(in_short(&own.commands()), ["insert chunks", "insert files", "insert files"]);
    Ok(())
}

#[tokio::test]
async fn they_are_made_for_an_empty_file_too_and_again_after_a_drop() -> Result<()> {
    testbed::require!(testbed::shared::servers());
    let own = Own::new().await;
    for _ in 0..2 {
        own.upload("file", b"").await?;
        let sent = in_short(&own.commands());
        assert_eq!(sent[..5], ALL[..5]);
        assert_eq!(sent[5], "insert files");
        own.bucket.drop().await?;
        assert_eq!(in_short(&own.commands()), ["drop files", "drop chunks"]);
    }
    Ok(())
}

#[tokio::test]
async fn those_that_are_there_are_not_made_again_whatever_the_type_of_their_numbers() -> Result<()>
{
    testbed::require!(testbed::shared::servers());
    let own = Own::new().await;
    let database = own.files.client().database("gridfs");
    let by_name = doc! { "key": { "filename": 1.0, "uploadDate": 1_i64 }, "name": "by name" };
    database.run_command(doc! { "createIndexes": own.files.name(), "indexes": [by_name] }).await?;
    let by_n = doc! { "key": { "files_id": 1_i64, "n": 1.0 }, "name": "by n", "unique": true };
    database.run_command(doc! { "createIndexes": own.chunks.name(), "indexes": [by_n] }).await?;
    own.commands();
    own.upload("file", b"1").await?;
    let expected =
        ["find files", "listIndexes files", "listIndexes chunks", "insert chunks", "insert files"];
    assert_eq!(in_short(&own.commands()), expected);
    Ok(())
}

#[tokio::test]
async fn they_are_not_looked_for_if_there_is_a_file() -> Result<()> {
    testbed::require!(testbed::shared::servers());
    let own = Own::new().await;
    own.files.insert_one(doc! { "_id": 1 }).await?;
    own.commands();
    own.upload("file", b"1").await?;
    assert_eq!(in_short(&own.commands()), ["find files", "insert chunks", "insert files"]);
    assert!(indexes(&own.files).await?.is_empty());
    Ok(())
}

#[tokio::test]
async fn an_upload_fails_if_they_cannot_be_made() -> Result<()> {
    testbed::require!(testbed::shared::servers());
    let own = Own::new().await;
    // The same keys, and not unique: a server has no two such indexes.
    own.chunks
        .create_index(IndexModel::builder().keys(doc! { "files_id": 1, "n": 1 }).build())
        .await?;
    let error = own.upload("file", b"1").await.unwrap_err();
    assert!(matches!(&*error.kind, ErrorKind::Command(_)), "{error:?}");
    assert!(own.is_empty().await);
    own.chunks.drop_indexes().await?;
    own.upload("file", b"1").await?;
    Ok(())
}
