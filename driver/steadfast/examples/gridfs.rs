//! Stores a file in GridFS as a stream, lists it, reads a part of it and deletes it.
//!
//! Run it with `cargo run -p steadfast --example gridfs`. The connection string comes from
//! `STEADFAST_URI` (default: `mongodb://localhost:27017`). It replaces the bucket `texts` of the database
//! `steadfast_examples`.
#![allow(clippy::print_stdout, reason = "an example prints what it does")]

use std::{env, io::SeekFrom};

use steadfast::{
    Client,
    bson::doc,
    error::{ErrorKind, GridFsErrorKind, Result},
    options::GridFsBucketOptions,
};
use tokio::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};

#[tokio::main]
async fn main() -> Result<()> {
    let uri = env::var("STEADFAST_URI").unwrap_or_else(|_| "mongodb://localhost:27017".to_owned());
    let client = Client::with_uri_str(uri).await?;
    let options = GridFsBucketOptions::builder().bucket_name("texts".to_owned()).build();
    let bucket = client.database("steadfast_examples").gridfs_bucket(options);
    bucket.drop().await?;

    // An upload is a `tokio::io::AsyncWrite`. The file exists once `close` has succeeded.
    let mut upload = bucket
        .open_upload_stream("numbers.txt")
        .chunk_size_bytes(64 * 1024)
        .metadata(doc! { "language": "en" })
        .await?;
    for number in 0..20_000 {
        upload.write_all(format!("line {number:>7}\n").as_bytes()).await?;
    }
    upload.close().await?;
    let id = upload.id().clone();

    // Any `AsyncRead` can be uploaded in one call.
    bucket.upload_from_stream("short.txt", &b"all's well"[..]).await?;

    let mut files = bucket.find(doc! {}).sort(doc! { "length": -1 }).await?;
    while files.advance().await? {
        let file = files.deserialize_current()?;
        let name = file.filename.unwrap_or_default();
        println!("{name}: {} bytes, chunks of {}", file.length, file.chunk_size_bytes);
    }

    // A download is an `AsyncRead` and an `AsyncSeek`: only the chunks that are read are fetched.
    let mut download = bucket.open_download_stream(id.clone()).await?;
    download.seek(SeekFrom::Start(13 * 12_345)).await?;
    let mut line = [0; 12];
    download.read_exact(&mut line).await?;
    println!("in the middle: {}", String::from_utf8_lossy(&line));

    let mut copy = Vec::new();
    bucket.download_to_stream_by_name("short.txt", &mut copy).await?;
    println!("short.txt: {}", String::from_utf8_lossy(&copy));

    bucket.rename(id.clone(), "lines.txt").await?;
    bucket.delete(id.clone()).await?;
    match bucket.open_download_stream(id).await {
        Ok(_) => println!("lines.txt is still there"),
        Err(error) => match &*error.kind {
            ErrorKind::GridFs(GridFsErrorKind::FileNotFound { .. }) => {
                println!("lines.txt is deleted");
            }
            _ => return Err(error),
        },
    }

    bucket.drop().await?;
    client.shutdown().await;
    Ok(())
}
