//! GridFS of the blocking API.

use std::{
    io::{self, Read, Seek, SeekFrom, Write},
    thread,
};

use steadfast::{
    bson::{DateTime, doc},
    error::{Error, ErrorKind, GridFsErrorKind, Result},
    sync::{Client, gridfs::GridFsBucket},
};

use super::replica_set;

fn bucket(client: &Client) -> GridFsBucket {
    client.database("sync").gridfs_bucket(None)
}

#[test]
fn file_is_written_and_read() {
    let (_deployment, client) = replica_set();
    let bucket = bucket(&client);
    let contents: Vec<u8> = (0..=255).cycle().take(700_000).collect();
    let upload = bucket.open_upload_stream("large.bin").chunk_size_bytes(100_000);
    let mut upload = upload.metadata(doc! { "kind": "test" }).run().expect("opened");
    upload.write_all(&contents[..1]).expect("written");
    upload.flush().expect("flushed");
    io::copy(&mut &contents[1..], &mut upload).expect("written");
    upload.close().expect("closed");
    assert!(upload.write(b"more").is_err());
    let id = upload.id().clone();

    let mut read = Vec::new();
    let mut download = bucket.open_download_stream(id.clone()).run().expect("opened");
    assert_eq!(download.file().length, 700_000);
    download.read_to_end(&mut read).expect("read");
    assert!(read == contents);
    let mut tail = [0; 10];
    download.seek(SeekFrom::End(-10)).expect("in the file");
    download.read_exact(&mut tail).expect("read");
    assert_eq!(tail, contents[699_990..]);

    bucket.rename(id.clone(), "renamed.bin").run().expect("renamed");
    let names = bucket.find(doc! {}).run().expect("found").map(|file| file.expect("read").filename);
    assert_eq!(names.collect::<Vec<_>>(), [Some("renamed.bin".to_owned())]);
    bucket.delete(id).run().expect("deleted");
    assert!(bucket.find_one(doc! {}).run().expect("read").is_none());
}

#[test]
fn whole_files_are_copied_by_name() {
    let (_deployment, client) = replica_set();
    let bucket = bucket(&client);
    for text in ["first", "second"] {
        bucket.upload_from_stream("notes.txt", text.as_bytes()).run().expect("stored");
        // Revisions are ordered by their dates in milliseconds.
        let stored = DateTime::now();
        while DateTime::now() == stored {
            thread::yield_now();
        }
    }
    let mut newest = Vec::new();
    let length = bucket.download_to_stream_by_name("notes.txt", &mut newest).run().expect("read");
    assert_eq!((&newest[..], length), (&b"second"[..], 6));
    let mut oldest = String::new();
    let download = bucket.open_download_stream_by_name("notes.txt").revision(0);
    download.run().expect("opened").read_to_string(&mut oldest).expect("read");
    assert_eq!(oldest, "first");
    bucket.rename_by_name("notes.txt", "old.txt").run().expect("renamed");
    bucket.delete_by_name("old.txt").run().expect("deleted");
    bucket.drop().run().expect("dropped");
}

#[test]
fn aborted_upload_leaves_no_chunks() {
    let (_deployment, client) = replica_set();
    let bucket = bucket(&client);
    let mut upload = bucket.open_upload_stream("draft").chunk_size_bytes(10).run().expect("opened");
    upload.write_all(&[7; 95]).expect("written");
    upload.flush().expect("flushed");
    let chunks = client.database("sync").collection::<steadfast::bson::Document>("fs.chunks");
    assert_eq!(chunks.count_documents(doc! {}).run().expect("counted"), 9);
    upload.abort().expect("aborted");
    assert_eq!(chunks.count_documents(doc! {}).run().expect("counted"), 0);
    assert!(upload.close().is_err());
}

#[test]
fn errors_are_those_of_the_driver() {
    fn read(bucket: &GridFsBucket) -> Result<()> {
        let mut upload = bucket.open_upload_stream("file").run()?;
        upload.write_all(b"contents")?;
        upload.close()?;
        // `?` unwraps the driver's error.
        upload.close()?;
        Ok(())
    }

    let (_deployment, client) = replica_set();
    let is_closed = |error: &Error| {
        matches!(&*error.kind, ErrorKind::GridFs(GridFsErrorKind::UploadStreamClosed))
    };
    let error = read(&bucket(&client)).expect_err("it is closed");
    assert!(is_closed(&error), "{error}");
    let error = bucket(&client).open_download_stream_by_name("none").run().expect_err("no file");
    assert!(
        matches!(&*error.kind, ErrorKind::GridFs(GridFsErrorKind::FileNotFound { .. })),
        "{error}"
    );
}
