//! Finding, renaming and deleting files, by id and by name.

use futures_util::TryStreamExt;
use steadfast::error::GridFsFileIdentifier;

use super::*;

/// Stores three files with one name, and a file with another name.
async fn revisions() -> Result<TestBucket> {
    let gridfs = TestBucket::new().await;
    for (seconds, (name, contents)) in
        (0..).zip([("abc", "first"), ("abc", "second"), ("xyz", "other"), ("abc", "third")])
    {
        let id = gridfs.upload(name, contents.as_bytes()).await?;
        // Distinct upload dates.
        let date = steadfast::bson::DateTime::from_millis(seconds * 1_000);
        gridfs
            .files
            .update_one(doc! { "_id": id }, doc! { "$set": { "uploadDate": date } })
            .await?;
    }
    gridfs.commands();
    Ok(gridfs)
}

async fn by_name(gridfs: &TestBucket, name: &str, revision: Option<i32>) -> Result<String> {
    let mut contents = Vec::new();
    let mut action = gridfs.bucket.download_to_stream_by_name(name, &mut contents);
    if let Some(revision) = revision {
        action = action.revision(revision);
    }
    action.await?;
    Ok(String::from_utf8(contents).unwrap())
}

#[tokio::test]
async fn revisions_are_counted_from_either_end() -> Result<()> {
    testbed::require!(testbed::shared::servers());
    let gridfs = revisions().await?;
    for (revision, contents) in [
        (None, "third"),
        (Some(-1), "third"),
        (Some(-2), "second"),
        (Some(-3), "first"),
        (Some(0), "first"),
        (Some(1), "second"),
        (Some(2), "third"),
    ] {
        assert_eq!(by_name(&gridfs, "abc", revision).await?, contents, "{revision:?}");
    }
    for no in [3, -4, i32::MIN, i32::MAX] {
        let error = by_name(&gridfs, "abc", Some(no)).await.unwrap_err();
        let kind = kind(&error);
        assert!(
            matches!(kind, GridFsErrorKind::RevisionNotFound { revision, .. } if *revision == no)
        );
    }
    for revision in [None, Some(0), Some(5)] {
        let error = by_name(&gridfs, "none", revision).await.unwrap_err();
        assert!(matches!(kind(&error), GridFsErrorKind::FileNotFound { .. }), "{error}");
        assert!(error.to_string().contains("\"none\""), "{error}");
    }
    Ok(())
}

#[tokio::test]
async fn find_applies_filter_sort_skip_and_limit() -> Result<()> {
    testbed::require!(testbed::shared::servers());
    let gridfs = revisions().await?;
    let found: Vec<_> = gridfs
        .bucket
        .find(doc! { "filename": "abc" })
        .sort(doc! { "uploadDate": -1 })
        .skip(1)
        .limit(2)
        .batch_size(1)
        .await?
        .try_collect()
        .await?;
    let lengths: Vec<_> = found.iter().map(|file| file.length).collect();
    assert_eq!(lengths, [6, 5]);
    let newest = gridfs.bucket.find_one(doc! {}).sort(doc! { "uploadDate": -1 }).await?;
    assert_eq!(newest.unwrap().filename.as_deref(), Some("abc"));
    assert!(gridfs.bucket.find_one(doc! { "filename": "none" }).await?.is_none());
    Ok(())
}

#[tokio::test]
async fn files_are_renamed_by_id_and_by_name() -> Result<()> {
    testbed::require!(testbed::shared::servers());
    let gridfs = revisions().await?;
    let other = gridfs.bucket.find_one(doc! { "filename": "xyz" }).await?.unwrap();
    gridfs.bucket.rename(other.id, "uvw").await?;
    gridfs.bucket.rename_by_name("abc", "def").await?;
    assert_eq!(gridfs.files.distinct("filename", doc! {}).await?, ["def", "uvw"].map(Bson::from));
    for error in [
        gridfs.bucket.rename(Bson::Int32(1), "x").await.unwrap_err(),
        gridfs.bucket.rename_by_name("abc", "x").await.unwrap_err(),
    ] {
        assert!(matches!(kind(&error), GridFsErrorKind::FileNotFound { .. }), "{error}");
        assert!(error.outcome().is_certainly_not_applied());
    }
    Ok(())
}

#[tokio::test]
async fn files_are_deleted_by_id_and_by_name() -> Result<()> {
    testbed::require!(testbed::shared::servers());
    let gridfs = revisions().await?;
    let other = gridfs.bucket.find_one(doc! { "filename": "xyz" }).await?.unwrap();
    gridfs.bucket.delete(other.id.clone()).await?;
    assert!(gridfs.chunks.find_one(doc! { "files_id": &other.id }).await?.is_none());
    gridfs.commands();
    gridfs.bucket.delete_by_name("abc").await?;
    assert_eq!(summaries(&gridfs.commands()), ["find files", "delete files", "delete chunks"]);
    assert!(gridfs.is_empty().await);

    let error = gridfs.bucket.delete_by_name("abc").await.unwrap_err();
    let GridFsErrorKind::FileNotFound { identifier, .. } = kind(&error) else { panic!("{error}") };
    assert_eq!(*identifier, GridFsFileIdentifier::Filename("abc".to_owned()));
    // Deleting a missing file deletes its remaining chunks.
    gridfs.chunks.insert_one(doc! { "files_id": &other.id, "n": 0 }).await?;
    let error = gridfs.bucket.delete(other.id.clone()).await.unwrap_err();
    let GridFsErrorKind::FileNotFound { identifier, .. } = kind(&error) else { panic!("{error}") };
    assert_eq!(*identifier, GridFsFileIdentifier::Id(other.id));
    assert!(gridfs.is_empty().await);
    Ok(())
}

#[tokio::test]
async fn an_id_with_operators_matches_no_other_file() -> Result<()> {
    testbed::require!(testbed::shared::servers());
    let gridfs = revisions().await?;
    let everything = Bson::from(doc! { "$gt": Bson::MinKey });
    let chunks = gridfs.count_of_chunks().await;
    assert!(gridfs.download(&everything).await.is_err());
    assert!(gridfs.bucket.rename(everything.clone(), "injected").await.is_err());
    assert!(gridfs.bucket.delete(everything.clone()).await.is_err());
    let mut upload = gridfs.bucket.open_upload_stream("file").id(everything).await?;
    tokio::io::AsyncWriteExt::write_all(&mut upload, b"12345").await?;
    tokio::io::AsyncWriteExt::flush(&mut upload).await?;
    upload.abort().await?;
    assert_eq!(gridfs.count_of_chunks().await, chunks);
    assert_eq!(gridfs.files.distinct("filename", doc! {}).await?, ["abc", "xyz"].map(Bson::from));
    Ok(())
}
