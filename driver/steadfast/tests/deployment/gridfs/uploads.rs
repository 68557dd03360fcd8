//! Uploads: stored documents, visibility, and the chunks of uploads that are dropped, aborted or fail.

use std::{
    future::poll_fn,
    io,
    pin::Pin,
    task::{Context, Poll},
};

use futures_util::future::poll_immediate;
use steadfast::{
    bson::{Bson, DateTime, doc},
    error::Outcome,
    options::WriteConcern,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, ReadBuf};

use super::*;

#[tokio::test]
async fn a_downloaded_file_equals_the_uploaded_one() -> Result<()> {
    testbed::require!(testbed::shared::servers());
    let gridfs = TestBucket::new().await;
    for length in [0, 1, 3, 4, 5, 8, 1_003] {
        let contents = bytes(length);
        let id = gridfs.upload("file", &contents).await?;
        assert_eq!(gridfs.download(&id).await?, contents, "{length}");
        let chunks = gridfs.chunks.count_documents(doc! { "files_id": &id }).await?;
        assert_eq!(chunks, length.div_ceil(4) as u64);
    }
    Ok(())
}

#[tokio::test]
async fn files_and_chunks_documents_follow_the_specification() -> Result<()> {
    testbed::require!(testbed::shared::servers());
    let gridfs = TestBucket::new().await;
    let before = DateTime::now();
    let mut upload = gridfs.bucket.open_upload_stream("file").await?;
    upload.write_all(b"12345").await?;
    upload.close().await?;
    let mut file = gridfs.files.find_one(doc! {}).await?.expect("the file");
    let Some(Bson::DateTime(date)) = file.remove("uploadDate") else { panic!("{file}") };
    assert!(before <= date && date <= DateTime::now());
    let expected = doc! { "_id": upload.id(), "length": 5_i64, "chunkSize": 4, "filename": "file" };
    assert_eq!(file, expected);
    let mut chunks = gridfs.chunks.find(doc! {}).sort(doc! { "n": 1 }).await?;
    for (n, data) in [(0, b"1234".to_vec()), (1, b"5".to_vec())] {
        assert!(chunks.advance().await?);
        let mut chunk = chunks.deserialize_current()?;
        assert!(matches!(chunk.remove("_id"), Some(Bson::ObjectId(_))));
        let data = steadfast::bson::Binary {
            subtype: steadfast::bson::spec::BinarySubtype::Generic,
            bytes: data,
        };
        assert_eq!(chunk, doc! { "files_id": upload.id(), "n": n, "data": data });
    }
    assert!(!chunks.advance().await?);

    let noted = doc! { "year": 1969 };
    let id = gridfs
        .bucket
        .upload_from_stream("noted", &b"123"[..])
        .id(Bson::Int32(7))
        .chunk_size_bytes(2)
        .metadata(noted.clone())
        .await?;
    assert_eq!(id, Bson::Int32(7));
    let file = gridfs.bucket.find_one(doc! { "metadata.year": 1969 }).await?.expect("the file");
    assert_eq!((file.id, file.chunk_size_bytes, file.metadata), (id, 2, Some(noted)));
    Ok(())
}

#[tokio::test]
async fn a_large_file_is_inserted_in_batches() -> Result<()> {
    testbed::require!(testbed::shared::servers());
    let gridfs = TestBucket::with(|options| options.chunk_size_bytes = None).await;
    gridfs.upload("small", b"").await?;
    gridfs.commands();
    let contents = bytes(10 * 1024 * 1024);
    let id = gridfs.upload("large", &contents).await?;
    let sent = gridfs.commands();
    assert_eq!(
        summaries(&sent),
        ["insert chunks", "insert chunks", "insert chunks", "insert files"]
    );
    let counts: Vec<_> =
        sent.iter().map(|command| command.get_array("documents").unwrap().len()).collect();
    assert_eq!(counts, [16, 16, 9, 1]);
    assert!(sent.iter().all(|command| command.contains_key("txnNumber")), "retryable writes");
    assert!(gridfs.download(&id).await? == contents);
    Ok(())
}

#[tokio::test]
async fn a_file_is_visible_only_after_its_upload_is_closed() -> Result<()> {
    testbed::require!(testbed::shared::servers());
    let gridfs = TestBucket::new().await;
    let mut upload = gridfs.bucket.open_upload_stream("file").await?;
    upload.write_all(b"123456789").await?;
    assert!(gridfs.is_empty().await, "nothing is sent before there is enough of it");
    upload.flush().await?;
    assert_eq!(gridfs.count_of_chunks().await, 2, "whole chunks only");
    assert!(gridfs.bucket.find_one(doc! {}).await?.is_none());
    upload.write_all(b"0").await?;
    upload.shutdown().await?;
    assert_eq!(gridfs.download(upload.id()).await?, b"1234567890");

    for error in [
        Error::from(upload.write_all(b"more").await.unwrap_err()),
        Error::from(upload.flush().await.unwrap_err()),
        upload.close().await.unwrap_err(),
        upload.abort().await.unwrap_err(),
    ] {
        assert!(matches!(kind(&error), GridFsErrorKind::UploadStreamClosed), "{error}");
    }
    drop(upload);
    assert_eq!(gridfs.count_of_chunks().await, 3);
    Ok(())
}

#[tokio::test]
async fn an_aborted_upload_leaves_no_documents() -> Result<()> {
    testbed::require!(testbed::shared::servers());
    let gridfs = TestBucket::new().await;
    for flushed in [false, true] {
        let mut upload = gridfs.bucket.open_upload_stream("file").await?;
        upload.write_all(b"123456789").await?;
        if flushed {
            upload.flush().await?;
        }
        upload.abort().await?;
        assert!(gridfs.is_empty().await);
        let error = Error::from(upload.write_all(b"more").await.unwrap_err());
        assert!(matches!(kind(&error), GridFsErrorKind::UploadStreamClosed), "{error}");
        assert!(upload.close().await.is_err() && upload.abort().await.is_err());
    }
    Ok(())
}

#[tokio::test]
async fn a_dropped_upload_leaves_no_documents() -> Result<()> {
    testbed::require!(testbed::shared::servers());
    let gridfs = TestBucket::new().await;
    let mut upload = gridfs.bucket.open_upload_stream("file").await?;
    upload.write_all(b"123456789").await?;
    upload.flush().await?;
    assert_eq!(gridfs.count_of_chunks().await, 2);
    drop(upload);
    wait_until("the chunks are deleted", || gridfs.is_empty()).await;

    // Chunks that are being inserted are deleted, too.
    let mut upload = gridfs.bucket.open_upload_stream("file").await?;
    upload.write_all(b"123456789").await?;
    assert!(poll_immediate(upload.flush()).await.is_none());
    drop(upload);
    wait_until("they are sent and deleted", || async {
        let sent = summaries(&gridfs.sent.lock().unwrap());
        sent.iter().filter(|sent| *sent == "delete chunks").count() == 2 && gridfs.is_empty().await
    })
    .await;
    Ok(())
}

#[tokio::test]
async fn a_dropped_close_leaves_a_whole_file_or_nothing() -> Result<()> {
    testbed::require!(testbed::shared::servers());
    let gridfs = TestBucket::new().await;
    gridfs.upload("other", b"").await?;
    let mut ids = Vec::new();
    for polls in (0..24).cycle().take(72) {
        let mut upload = gridfs.bucket.open_upload_stream("file").await?;
        upload.write_all(b"123456789").await?;
        ids.push(upload.id().clone());
        let mut close = Box::pin(upload.close());
        for _ in 0..polls {
            if poll_immediate(&mut close).await.is_some() {
                break;
            }
            // The number of polls increases in each round, so the future is dropped at a later point.
            gridfs.files.find_one(doc! { "_id": 1 }).await?;
        }
    }
    wait_until("each is whole or gone", || async {
        for id in &ids {
            let file = gridfs.files.count_documents(doc! { "_id": id }).await.unwrap();
            let chunks = gridfs.chunks.count_documents(doc! { "files_id": id }).await.unwrap();
            if (file, chunks) != (1, 3) && (file, chunks) != (0, 0) {
                return false;
            }
        }
        true
    })
    .await;
    let whole = gridfs.files.count_documents(doc! { "filename": "file" }).await?;
    assert!(whole > 0 && whole < 72, "some of each: {whole}");
    Ok(())
}

#[tokio::test]
async fn bytes_after_a_dropped_close_are_rejected() -> Result<()> {
    testbed::require!(testbed::shared::servers());
    let gridfs = TestBucket::new().await;
    let mut upload = gridfs.bucket.open_upload_stream("file").await?;
    upload.write_all(b"12345").await?;
    assert!(poll_immediate(Box::pin(upload.close())).await.is_none());
    let error = Error::from(upload.write_all(b"6").await.unwrap_err());
    assert!(matches!(kind(&error), GridFsErrorKind::UploadStreamClosed), "{error}");
    upload.close().await?;
    assert_eq!(gridfs.download(upload.id()).await?, b"12345");
    Ok(())
}

#[tokio::test]
async fn an_upload_with_a_duplicate_id_does_not_change_the_existing_file() -> Result<()> {
    testbed::require!(testbed::shared::servers());
    let gridfs = TestBucket::new().await;
    let id = Bson::Int32(1);
    gridfs.bucket.upload_from_stream("first", &b"12345678"[..]).id(id.clone()).await?;
    for contents in [&b""[..], b"x", b"abcdefghijkl"] {
        let error = gridfs
            .bucket
            .upload_from_stream("second", contents)
            .id(id.clone())
            .await
            .expect_err("the id is taken");
        assert!(error.is_duplicate_key_error(), "{error}");

        let mut upload = gridfs.bucket.open_upload_stream("third").id(id.clone()).await?;
        upload.write_all(contents).await?;
        let error = upload.close().await.unwrap_err();
        assert!(error.is_duplicate_key_error(), "{error}");
        assert_eq!(error.outcome(), Outcome::NotApplied);
        let again = Error::from(upload.write_all(b"more").await.unwrap_err());
        assert!(again.is_duplicate_key_error(), "it repeats the error");
        upload.abort().await?;
        assert_eq!(gridfs.download(&id).await?, b"12345678");
    }

    // Also if the upload would store only chunks after the end of the existing file.
    gridfs.chunks.delete_one(doc! { "n": 0 }).await?;
    let mut upload = gridfs.bucket.open_upload_stream("fourth").id(id.clone()).await?;
    upload.write_all(b"abcd").await?;
    upload.flush().await?;
    upload.write_all(b"efgh").await?;
    assert!(upload.flush().await.is_err());
    assert_eq!(gridfs.count_of_chunks().await, 2);
    upload.abort().await?;
    assert_eq!(gridfs.chunks.distinct("n", doc! {}).await?, [Bson::Int32(1)]);
    Ok(())
}

#[tokio::test]
async fn chunks_remain_after_an_error_until_the_upload_is_aborted() -> Result<()> {
    testbed::require!(testbed::shared::servers());
    let gridfs = TestBucket::new().await;
    gridfs.upload("other", b"").await?;
    let database = gridfs.chunks.client().database("gridfs");
    let validator = doc! { "n": { "$lt": 1 } };
    database.run_command(doc! { "collMod": gridfs.chunks.name(), "validator": validator }).await?;
    let mut upload = gridfs.bucket.open_upload_stream("file").await?;
    upload.write_all(b"12345678").await?;
    let error = upload.close().await.unwrap_err();
    assert!(matches!(&*error.kind, ErrorKind::InsertMany(_)), "{error:?}");
    assert_eq!(gridfs.count_of_chunks().await, 1, "the specification: they are left");
    upload.abort().await?;
    assert_eq!(gridfs.count_of_chunks().await, 0);

    let mut upload = gridfs.bucket.open_upload_stream("file").await?;
    upload.write_all(b"12345678").await?;
    assert!(upload.close().await.is_err());
    gridfs.commands();
    drop(upload);
    assert_eq!(gridfs.count_of_chunks().await, 1);
    Ok(())
}

/// Reader that returns some bytes and then an error.
struct FailingReader(usize);

impl AsyncRead for FailingReader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.0 == 0 {
            return Poll::Ready(Err(io::Error::other("the tape is torn")));
        }
        let count = self.0.min(into.remaining());
        into.put_slice(&bytes(count));
        self.0 -= count;
        Poll::Ready(Ok(()))
    }
}

#[tokio::test]
async fn an_upload_is_aborted_if_its_source_fails() -> Result<()> {
    testbed::require!(testbed::shared::servers());
    let gridfs = TestBucket::with(|options| options.chunk_size_bytes = None).await;
    for length in [0, 10, 9_000_000] {
        let error =
            gridfs.bucket.upload_from_stream("file", FailingReader(length)).await.unwrap_err();
        assert!(matches!(kind(&error), GridFsErrorKind::Stream(_)), "{error:?}");
        assert!(error.to_string().contains("the tape is torn"));
        assert!(!error.is_network_error());
        assert!(gridfs.is_empty().await);
    }
    Ok(())
}

#[tokio::test]
async fn invalid_chunk_sizes_are_rejected() -> Result<()> {
    testbed::require!(testbed::shared::servers());
    let gridfs = TestBucket::new().await;
    for impossible in [0, u32::MAX] {
        let error = gridfs
            .bucket
            .open_upload_stream("file")
            .chunk_size_bytes(impossible)
            .await
            .unwrap_err();
        assert!(error.is_invalid_argument(), "{error}");
    }
    let contents = vec![1; 17 * 1024 * 1024];
    let upload = gridfs.bucket.upload_from_stream("file", &*contents);
    let error = upload.chunk_size_bytes(17 * 1024 * 1024).await.unwrap_err();
    assert!(error.is_invalid_argument(), "{error}");
    assert!(gridfs.is_empty().await);
    Ok(())
}

#[tokio::test]
async fn concurrent_uploads_do_not_mix() -> Result<()> {
    testbed::require!(testbed::shared::servers());
    let gridfs = TestBucket::new().await;
    let contents: Vec<_> = (0..16).map(|nth| vec![nth; 100 + usize::from(nth)]).collect();
    let uploads = contents.iter().map(|contents| gridfs.upload("file", contents));
    let ids = futures_util::future::try_join_all(uploads).await?;
    for (id, contents) in ids.iter().zip(&contents) {
        assert_eq!(gridfs.download(id).await?, *contents);
    }
    let made =
        gridfs.commands().iter().filter(|sent| summary(sent).starts_with("createIndexes")).count();
    assert_eq!(made, 2, "the others wait for the first");
    Ok(())
}

#[tokio::test]
async fn an_unacknowledged_bucket_stores_files_and_reports_no_errors() -> Result<()> {
    testbed::require!(testbed::shared::servers());
    let gridfs =
        TestBucket::with(|options| options.write_concern = Some(WriteConcern::nodes(0))).await;
    let id = gridfs.upload("file", b"12345").await?;
    wait_until("the file is there", || async {
        gridfs.download(&id).await.is_ok_and(|contents| contents == b"12345")
    })
    .await;
    gridfs.bucket.rename(Bson::Int32(1), "other").await?;
    gridfs.bucket.delete(Bson::Int32(1)).await?;
    gridfs.bucket.delete(id).await?;
    wait_until("it is gone", || gridfs.is_empty()).await;
    Ok(())
}

#[tokio::test]
async fn streams_implement_the_traits_of_futures_io() -> io::Result<()> {
    testbed::require!(testbed::shared::servers());
    use futures_io::{AsyncRead, AsyncWrite};

    let gridfs = TestBucket::new().await;
    let mut upload = gridfs.bucket.open_upload_stream("file").await?;
    let written = poll_fn(|cx| AsyncWrite::poll_write(Pin::new(&mut upload), cx, b"12345")).await?;
    assert_eq!(written, 5);
    poll_fn(|cx| AsyncWrite::poll_close(Pin::new(&mut upload), cx)).await?;
    let mut download = gridfs.bucket.open_download_stream(upload.id().clone()).await?;
    let mut contents = [0; 8];
    let read =
        poll_fn(|cx| AsyncRead::poll_read(Pin::new(&mut download), cx, &mut contents)).await?;
    assert_eq!(&contents[..read], b"1234");
    let mut rest = Vec::new();
    download.read_to_end(&mut rest).await?;
    assert_eq!(rest, b"5");
    Ok(())
}
