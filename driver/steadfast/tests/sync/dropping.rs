//! Cleanup of dropped handles of the blocking API, in each kind of runtime.

use std::{io::Write, thread};

use steadfast::{
    bson::{Document, doc},
    sync::{
        ChangeStream, Client, ClientSession, Cursor, SessionCursor,
        gridfs::{GridFsDownloadStream, GridFsUploadStream},
    },
};
use steadfast_embedded::Deployment;
use tokio::{runtime::Builder, task};

use super::{StartedCommands, collection};

/// Handles whose cleanup sends commands.
struct OpenHandles {
    _cursor: Cursor<Document>,
    _session_cursor: SessionCursor<Document>,
    _changes: ChangeStream<steadfast::change_stream::event::ChangeStreamEvent<Document>>,
    _session: ClientSession,
    _upload: GridFsUploadStream,
    _download: GridFsDownloadStream,
    _client: Client,
}

impl OpenHandles {
    fn new(deployment: &Deployment, commands: &StartedCommands) -> Self {
        let client = commands.client(deployment);
        let numbers = collection(&client);
        numbers.insert_many((0..10).map(|n| doc! { "_id": n })).run().expect("inserted");
        let mut cursor = numbers.find(doc! {}).batch_size(2).run().expect("found");
        assert!(cursor.advance().expect("read"));
        let mut session = client.start_session().run().expect("a session");
        let find = numbers.find(doc! {}).batch_size(2).session(&mut session);
        let session_cursor = find.run().expect("found");
        let changes = numbers.watch().run().expect("opened");
        let bucket = client.database("sync").gridfs_bucket(None);
        bucket.upload_from_stream("file", &b"contents"[..]).run().expect("stored");
        let download = bucket.open_download_stream_by_name("file").run().expect("opened");
        let mut upload = bucket.open_upload_stream("draft").run().expect("opened");
        upload.write_all(&[7; 300 * 1024]).expect("written");
        upload.flush().expect("flushed");
        session.start_transaction().run().expect("started");
        numbers.insert_one(doc! { "_id": 10 }).session(&mut session).run().expect("inserted");
        Self {
            _cursor: cursor,
            _session_cursor: session_cursor,
            _changes: changes,
            _session: session,
            _upload: upload,
            _download: download,
            _client: client,
        }
    }
}

/// Opens handles in a plain thread, drops them with `drop_in`, and waits for the cleanup.
fn assert_cleaned_up(drop_in: impl FnOnce(OpenHandles)) {
    let deployment = Deployment::replica_set(1).in_thread().start();
    let commands = StartedCommands::default();
    drop_in(OpenHandles::new(&deployment, &commands));
    commands.wait_for(3, "killCursors");
    commands.wait_for(1, "abortTransaction");
    commands.wait_for(1, "delete");
}

#[test]
fn handles_are_dropped_outside_of_any_runtime() {
    assert_cleaned_up(drop);
    assert_cleaned_up(|handles| thread::spawn(move || drop(handles)).join().expect("no panic"));
}

#[test]
fn handles_are_dropped_in_a_multi_thread_runtime() {
    let runtime = Builder::new_multi_thread().enable_all().build().expect("a runtime");
    assert_cleaned_up(|handles| runtime.block_on(async move { drop(handles) }));
    assert_cleaned_up(|handles| {
        runtime.block_on(runtime.spawn(async move { drop(handles) })).expect("no panic");
    });
    assert_cleaned_up(|handles| {
        runtime.block_on(runtime.spawn_blocking(move || drop(handles))).expect("no panic");
    });
    // The runtime ends before the cleanup.
    assert_cleaned_up(|handles| {
        runtime.block_on(async move { drop(handles) });
        drop(runtime);
    });
}

#[test]
fn handles_are_dropped_in_a_current_thread_runtime() {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    assert_cleaned_up(|handles| runtime.block_on(async move { drop(handles) }));
    assert_cleaned_up(|handles| {
        runtime.block_on(runtime.spawn_blocking(move || drop(handles))).expect("no panic");
    });
    assert_cleaned_up(|handles| {
        task::LocalSet::new().block_on(&runtime, async move { drop(handles) });
    });
    // The handles end with the runtime of their task.
    assert_cleaned_up(|handles| {
        runtime.spawn(async move {
            std::future::pending::<()>().await;
            drop(handles);
        });
        drop(runtime);
    });
}
