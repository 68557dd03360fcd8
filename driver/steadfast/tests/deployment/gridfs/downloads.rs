//! Downloads: seeking, corrupt files and failing destinations.

use std::io::{self, SeekFrom};

use steadfast::bson::{Binary, DateTime, spec::BinarySubtype};
use tokio::io::{AsyncReadExt, AsyncSeekExt};

use super::*;

/// Stores a file of ten bytes with these chunks, as another program could have stored it.
async fn stored(gridfs: &TestBucket, chunks: &[(i32, &[u8])]) -> Result<Bson> {
    gridfs.files.delete_many(doc! {}).await?;
    gridfs.chunks.delete_many(doc! {}).await?;
    let file = doc! { "_id": 1, "length": 10, "chunkSize": 4.0, "uploadDate": DateTime::now() };
    gridfs.files.insert_one(file).await?;
    let chunks = chunks.iter().map(|(n, data)| {
        let data = Binary { subtype: BinarySubtype::Generic, bytes: data.to_vec() };
        doc! { "files_id": 1, "n": n, "data": data }
    });
    gridfs.chunks.insert_many(chunks).await?;
    Ok(Bson::Int32(1))
}

/// Chunks with their numbers, and a check of the expected error.
type ChunkCase<'a> = (&'a [(i32, &'a [u8])], fn(&GridFsErrorKind) -> bool);

#[tokio::test]
async fn download_detects_corrupt_files() -> Result<()> {
    testbed::require!(testbed::shared::servers());
    use GridFsErrorKind as Kind;
    let gridfs = TestBucket::new().await;
    let (a, b, c) = (&b"1234"[..], &b"5678"[..], &b"90"[..]);

    let id = stored(&gridfs, &[(2, c), (0, a), (1, b)]).await?;
    assert_eq!(gridfs.download(&id).await?, b"1234567890");
    stored(&gridfs, &[(0, a), (1, b), (2, c), (3, b"")]).await?;
    assert_eq!(gridfs.download(&id).await?, b"1234567890", "an empty chunk too many does no harm");

    let cases: [ChunkCase<'_>; 9] = [
        (&[(1, b), (2, c)], |kind| matches!(kind, Kind::MissingChunk { n: 0, .. })),
        (&[(0, a), (2, c)], |kind| matches!(kind, Kind::MissingChunk { n: 1, .. })),
        (&[(0, a), (1, b)], |kind| matches!(kind, Kind::MissingChunk { n: 2, .. })),
        (&[(0, a), (1, b"567"), (2, c)], |kind| {
            matches!(kind, Kind::WrongSizeChunk { n: 1, actual_size: 3, expected_size: 4, .. })
        }),
        (&[(0, a), (1, b), (2, b"9")], |kind| {
            matches!(kind, Kind::WrongSizeChunk { n: 2, actual_size: 1, expected_size: 2, .. })
        }),
        (&[(0, a), (1, b), (2, b"901")], |kind| {
            matches!(kind, Kind::WrongSizeChunk { n: 2, actual_size: 3, expected_size: 2, .. })
        }),
        (&[(0, a), (1, b), (1, b), (2, c)], |kind| matches!(kind, Kind::InvalidChunk { n: 2, .. })),
        (&[(-1, a), (0, a), (1, b), (2, c)], |kind| {
            matches!(kind, Kind::InvalidChunk { n: 0, .. })
        }),
        (&[(0, a), (1, b), (2, c), (3, b"1")], |kind| {
            matches!(kind, Kind::WrongNumberOfChunks { actual_number: 4, expected_number: 3, .. })
        }),
    ];
    for (chunks, expected) in cases {
        let id = stored(&gridfs, chunks).await?;
        let error = gridfs.download(&id).await.unwrap_err();
        assert!(expected(kind(&error)), "{chunks:?}: {error}");
        assert!(error.to_string().contains("corrupt"), "{error}");

        let mut download = gridfs.bucket.open_download_stream(id).await?;
        let through = download.read_to_end(&mut Vec::new()).await.unwrap_err();
        assert_eq!(through.kind(), io::ErrorKind::InvalidData);
        let again = Error::from(download.read_to_end(&mut Vec::new()).await.unwrap_err());
        assert!(expected(kind(&again)), "it repeats the error");
    }

    gridfs.files.update_one(doc! {}, doc! { "$set": { "chunkSize": 0 } }).await?;
    let error = gridfs.download(&id).await.unwrap_err();
    assert!(matches!(kind(&error), Kind::InvalidFile { .. }), "{error}");
    Ok(())
}

#[tokio::test]
async fn chunks_that_are_not_read_are_not_checked() -> Result<()> {
    testbed::require!(testbed::shared::servers());
    let gridfs = TestBucket::new().await;
    let id = stored(&gridfs, &[(0, b"1234"), (1, b"5")]).await?;
    let mut download = gridfs.bucket.open_download_stream(id).await?;
    let mut beginning = [0; 4];
    download.read_exact(&mut beginning).await?;
    assert_eq!(&beginning, b"1234");
    Ok(())
}

#[tokio::test]
async fn seek_queries_only_the_chunks_that_are_read() -> Result<()> {
    testbed::require!(testbed::shared::servers());
    let gridfs = TestBucket::new().await;
    let contents = bytes(50);
    let id = gridfs.upload("file", &contents).await?;
    gridfs.commands();
    let mut download = gridfs.bucket.open_download_stream(id).await?;
    assert_eq!(download.file().length, 50);
    assert_eq!(
        summaries(&gridfs.commands()),
        ["find files"],
        "chunks are asked for when one is read"
    );

    let mut part = [0; 7];
    for (to, at, asks) in [
        (SeekFrom::Start(10), 10, Some(2)),
        (SeekFrom::Current(-1), 16, None),
        (SeekFrom::Current(20), 43, Some(10)),
        (SeekFrom::End(-50), 0, Some(0)),
    ] {
        assert_eq!(download.seek(to).await?, at);
        download.read_exact(&mut part).await?;
        let at = usize::try_from(at).unwrap();
        assert_eq!(part, contents[at..at + 7]);
        let asked: Vec<_> = gridfs
            .commands()
            .iter()
            .map(|sent| {
                assert_eq!(summary(sent), "find chunks");
                let n = sent.get_document("filter").unwrap().get_document("n");
                n.map_or(0, |n| n.get_i64("$gte").unwrap())
            })
            .collect();
        assert_eq!(asked, Vec::from_iter(asks));
    }

    for past in [SeekFrom::End(0), SeekFrom::Start(1_000)] {
        download.seek(past).await?;
        assert_eq!(download.read(&mut part).await?, 0);
    }
    assert!(gridfs.commands().is_empty());
    let error = download.seek(SeekFrom::End(-51)).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    Ok(())
}

#[tokio::test]
async fn download_of_an_empty_file_queries_no_chunks() -> Result<()> {
    testbed::require!(testbed::shared::servers());
    let gridfs = TestBucket::new().await;
    let id = gridfs.upload("file", b"").await?;
    gridfs.commands();
    assert!(gridfs.download(&id).await?.is_empty());
    assert_eq!(summaries(&gridfs.commands()), ["find files"]);
    Ok(())
}

#[tokio::test]
async fn a_failing_destination_ends_the_download() -> Result<()> {
    testbed::require!(testbed::shared::servers());
    let gridfs = TestBucket::new().await;
    let id = gridfs.upload("file", b"12345678").await?;
    let mut full = io::Cursor::new(vec![0; 5].into_boxed_slice());
    let error = gridfs.bucket.download_to_stream(id, &mut full).await.unwrap_err();
    assert!(matches!(kind(&error), GridFsErrorKind::Stream(_)), "{error:?}");
    assert!(!error.is_network_error());
    assert_eq!(*full.into_inner(), *b"12345");
    Ok(())
}
