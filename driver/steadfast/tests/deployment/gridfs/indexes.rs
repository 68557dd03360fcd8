//! Indexes of a bucket, created before the first upload.

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
async fn indexes_are_created_before_the_first_upload_only() -> Result<()> {
    testbed::require!(testbed::shared::servers());
    let gridfs = TestBucket::with(|options| {
        let secondary = ReadPreference::Secondary { options: None };
        options.selection_criteria = Some(SelectionCriteria::ReadPreference(secondary));
    })
    .await;
    let upload = gridfs.bucket.open_upload_stream("file").await?;
    drop(upload);
    assert!(gridfs.bucket.find_one(doc! {}).await?.is_none());
    assert!(gridfs.bucket.delete(Bson::Int32(1)).await.is_err());
    let before = summaries(&gridfs.commands());
    assert_eq!(before, ["find files", "delete files", "delete chunks"]);

    gridfs.upload("file", b"12345").await?;
    let sent = gridfs.commands();
    assert_eq!(summaries(&sent), ALL);
    let look = &sent[0];
    assert_eq!(*look.get_document("projection").unwrap(), doc! { "_id": 1 });
    assert!(!look.contains_key("$readPreference"), "the primary is asked: {look}");
    assert_eq!(indexes(&gridfs.files).await?, [(doc! { "filename": 1, "uploadDate": 1 }, None)]);
    assert_eq!(indexes(&gridfs.chunks).await?, [(doc! { "files_id": 1, "n": 1 }, Some(true))]);

    gridfs.commands();
    gridfs.upload("file", b"12345").await?;
    gridfs.bucket.clone().upload_from_stream("file", &b""[..]).await?;
    assert_eq!(summaries(&gridfs.commands()), ["insert chunks", "insert files", "insert files"]);
    Ok(())
}

#[tokio::test]
async fn indexes_are_created_for_an_empty_file_and_again_after_a_drop() -> Result<()> {
    testbed::require!(testbed::shared::servers());
    let gridfs = TestBucket::new().await;
    for _ in 0..2 {
        gridfs.upload("file", b"").await?;
        let sent = summaries(&gridfs.commands());
        assert_eq!(sent[..5], ALL[..5]);
        assert_eq!(sent[5], "insert files");
        gridfs.bucket.drop().await?;
        assert_eq!(summaries(&gridfs.commands()), ["drop files", "drop chunks"]);
    }
    Ok(())
}

#[tokio::test]
async fn existing_indexes_with_any_numeric_type_are_not_created_again() -> Result<()> {
    testbed::require!(testbed::shared::servers());
    let gridfs = TestBucket::new().await;
    let database = gridfs.files.client().database("gridfs");
    let by_name = doc! { "key": { "filename": 1.0, "uploadDate": 1_i64 }, "name": "by name" };
    database
        .run_command(doc! { "createIndexes": gridfs.files.name(), "indexes": [by_name] })
        .await?;
    let by_n = doc! { "key": { "files_id": 1_i64, "n": 1.0 }, "name": "by n", "unique": true };
    database.run_command(doc! { "createIndexes": gridfs.chunks.name(), "indexes": [by_n] }).await?;
    gridfs.commands();
    gridfs.upload("file", b"1").await?;
    let expected =
        ["find files", "listIndexes files", "listIndexes chunks", "insert chunks", "insert files"];
    assert_eq!(summaries(&gridfs.commands()), expected);
    Ok(())
}

#[tokio::test]
async fn indexes_are_not_listed_if_a_file_exists() -> Result<()> {
    testbed::require!(testbed::shared::servers());
    let gridfs = TestBucket::new().await;
    gridfs.files.insert_one(doc! { "_id": 1 }).await?;
    gridfs.commands();
    gridfs.upload("file", b"1").await?;
    assert_eq!(summaries(&gridfs.commands()), ["find files", "insert chunks", "insert files"]);
    assert!(indexes(&gridfs.files).await?.is_empty());
    Ok(())
}

#[tokio::test]
async fn an_upload_fails_if_the_indexes_cannot_be_created() -> Result<()> {
    testbed::require!(testbed::shared::servers());
    let gridfs = TestBucket::new().await;
    // The same keys without `unique`: the server does not allow both indexes.
    gridfs
        .chunks
        .create_index(IndexModel::builder().keys(doc! { "files_id": 1, "n": 1 }).build())
        .await?;
    let error = gridfs.upload("file", b"1").await.unwrap_err();
    assert!(matches!(&*error.kind, ErrorKind::Command(_)), "{error:?}");
    assert!(gridfs.is_empty().await);
    gridfs.chunks.drop_indexes().await?;
    gridfs.upload("file", b"1").await?;
    Ok(())
}
