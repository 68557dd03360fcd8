//! Calls of several commands: the outcome of an error is that of the whole call, not that of the last failed
//! command.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use steadfast::{
    Namespace,
    bson::Bson,
    event::EventHandler,
    gridfs::GridFsBucket,
    options::{InsertOneModel, WriteConcern, WriteModel},
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::common::{Request, Server, Step};

/// Replies to the commands of GridFS: the file exists, and deletes succeed.
fn default_reply(request: &Request) -> Document {
    let counted = |field| i32::try_from(request.body.get_array(field).map_or(0, Vec::len)).unwrap();
    match request.name.as_str() {
        "insert" => doc! { "ok": 1, "n": counted("documents") },
        "delete" => doc! { "ok": 1, "n": 1 },
        "find" => {
            let found = doc! { "_id": 7, "filename": "song" };
            doc! { "ok": 1, "cursor": { "id": 0_i64, "ns": "db.fs.files", "firstBatch": [found] } }
        }
        _ => doc! { "ok": 1 },
    }
}

/// Server whose `nth` command with this name, counted from 1, gets this reply.
async fn server_with_reply(name: &'static str, nth: usize, reply: Document) -> (Server, Client) {
    let count = AtomicUsize::new(0);
    let handler = move |request: &Request| {
        let is_nth = request.name == name && count.fetch_add(1, Ordering::SeqCst) + 1 == nth;
        let reply = if is_nth { reply.clone() } else { default_reply(request) };
        (!request.is_hello()).then(|| vec![Step::Reply(reply)])
    };
    let server = Server::builder().role(Role::Primary).handler(handler).start();
    let client = Client::with_uri_str(server.uri("")).await.unwrap();
    (server, client)
}

/// Server that stops after its first command with this name has succeeded, so that no later command is sent.
async fn server_that_stops_after(name: &'static str, hello: Document) -> (Arc<Server>, Client) {
    let handler = |request: &Request| match request {
        request if request.is_hello() => None,
        request if !request.expects_reply => Some(Vec::new()),
        request => Some(vec![Step::Reply(default_reply(request))]),
    };
    let server = Server::builder().role(Role::Primary).hello_fields(hello).handler(handler).start();
    let server = Arc::new(server);
    let client = client_that_loses(&server, name).await;
    (server, client)
}

/// Client whose server stops after its first command with this name has succeeded. Later commands need a new
/// connection, because the idle one expires.
async fn client_that_loses(server: &Arc<Server>, name: &'static str) -> Client {
    const MAX_IDLE_TIME: Duration = Duration::from_millis(1);
    let uri = server.uri("serverSelectionTimeoutMS=2000");
    let mut options = ClientOptions::parse(uri).await.unwrap();
    options.max_idle_time = Some(MAX_IDLE_TIME);
    let dying = Arc::clone(server);
    options.command_event_handler = Some(EventHandler::callback(move |event| {
        if matches!(&event, CommandEvent::Succeeded(event) if event.command_name == name) {
            dying.stop();
        }
    }));
    options.cmap_event_handler = Some(EventHandler::callback(|event| {
        if matches!(event, CmapEvent::ConnectionCheckedIn(_)) {
            std::thread::sleep(2 * MAX_IDLE_TIME);
        }
    }));
    Client::with_options(options).unwrap()
}

fn bucket(client: &Client) -> GridFsBucket {
    client.database("db").gridfs_bucket(None)
}

/// Calls on a bucket that delete with several commands, with the names of the commands.
async fn delete(call: &str, bucket: &GridFsBucket) -> Result<()> {
    bounded(async {
        match call {
            "delete" => bucket.delete(7.into()).await,
            "delete_by_name" => bucket.delete_by_name("song").await,
            "drop" => bucket.drop().await,
            other => panic!("no such call: {other}"),
        }
    })
    .await
}

const DELETIONS: [(&str, &str); 3] =
    [("delete", "delete"), ("delete_by_name", "delete"), ("drop", "drop")];

#[tokio::test]
async fn gridfs_deletion_interrupted_before_its_second_command_is_maybe_applied() {
    for (call, command) in DELETIONS {
        let (server, client) = server_that_stops_after(command, doc! {}).await;
        let error = delete(call, &bucket(&client)).await.unwrap_err();
        assert_eq!(server.log().named(command).len(), 1, "{call}");
        assert_eq!(error.outcome(), Outcome::MaybeApplied, "{call}: {error:?}");
    }
}

#[tokio::test]
async fn gridfs_deletion_whose_second_command_wrote_nothing_is_maybe_applied() {
    let labels = ["NoWritesPerformed"];
    let failed = doc! { "ok": 0, "code": 11601, "errmsg": "no", "errorLabels": labels.as_slice() };
    for (call, command) in DELETIONS {
        let (_server, client) = server_with_reply(command, 2, failed.clone()).await;
        let error = delete(call, &bucket(&client)).await.unwrap_err();
        assert_eq!(error.outcome(), Outcome::MaybeApplied, "{call}: {error:?}");
        // If it is the first command, nothing was written.
        let (_server, client) = server_with_reply(command, 1, failed.clone()).await;
        let error = delete(call, &bucket(&client)).await.unwrap_err();
        assert_eq!(error.outcome(), Outcome::NotApplied, "{call}: {error:?}");
    }
}

#[tokio::test]
async fn gridfs_deletion_is_applied_not_durable_only_if_all_of_it_was_applied() {
    let concern = doc! { "code": 64, "codeName": "WriteConcernTimeout", "errmsg": "late" };
    for (call, command) in DELETIONS {
        let late = doc! { "ok": 1, "n": 1, "writeConcernError": concern.clone() };
        for (nth, outcome) in [(1, Outcome::MaybeApplied), (2, Outcome::AppliedNotDurable)] {
            let (_server, client) = server_with_reply(command, nth, late.clone()).await;
            let error = delete(call, &bucket(&client)).await.unwrap_err();
            assert_eq!(error.outcome(), outcome, "{call}, command {nth}: {error:?}");
        }
    }
}

#[tokio::test]
async fn gridfs_delete_of_a_missing_file_may_have_deleted_chunks() {
    let nothing = doc! { "ok": 1, "n": 0 };
    let (_server, client) = server_with_reply("delete", 1, nothing.clone()).await;
    let error = bounded(bucket(&client).delete(7.into())).await.unwrap_err();
    assert!(matches!(*error.kind, ErrorKind::GridFs(_)), "{error:?}");
    assert_eq!(error.outcome(), Outcome::MaybeApplied);

    let handler =
        move |request: &Request| (!request.is_hello()).then(|| vec![Step::Reply(nothing.clone())]);
    let server = Server::builder().role(Role::Primary).handler(handler).start();
    let client = Client::with_uri_str(server.uri("")).await.unwrap();
    let error = bounded(bucket(&client).delete(7.into())).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::NotApplied);
}

#[tokio::test]
async fn gridfs_upload_that_stored_chunks_is_maybe_applied() {
    let unauthorized = doc! { "ok": 0, "code": 13, "errmsg": "no" };
    // The first insert is of chunks, if there are any; the last is of the document of the file.
    for (contents, nth, outcome) in
        [(&b"some bytes"[..], 2, Outcome::MaybeApplied), (&b""[..], 1, Outcome::NotApplied)]
    {
        let (_server, client) = server_with_reply("insert", nth, unauthorized.clone()).await;
        let uploaded = bounded(bucket(&client).upload_from_stream("song", contents)).await;
        let error = uploaded.unwrap_err();
        assert_eq!((error.code(), error.outcome()), (Some(13), outcome), "{error:?}");

        let (_server, client) = server_with_reply("insert", nth, unauthorized.clone()).await;
        let mut upload = bucket(&client).open_upload_stream("song").await.unwrap();
        upload.write_all(contents).await.unwrap();
        let error = bounded(upload.close()).await.unwrap_err();
        assert_eq!(error.outcome(), outcome, "{error:?}");
    }

    let (server, client) = server_that_stops_after("insert", doc! {}).await;
    let uploaded = bounded(bucket(&client).upload_from_stream("song", &b"some bytes"[..])).await;
    assert_eq!(server.log().named("insert").len(), 1);
    assert_eq!(uploaded.unwrap_err().outcome(), Outcome::MaybeApplied);
}

/// Source that fails after more bytes than the first `insert` of one-byte chunks contains.
fn failing_source() -> impl AsyncRead + Send + Unpin {
    AsyncReadExt::chain(&[7; 1500][..], FailingSource)
}

struct FailingSource;

impl AsyncRead for FailingSource {
    fn poll_read(
        self: std::pin::Pin<&mut Self>,
        _cx: &mut std::task::Context<'_>,
        _buf: &mut tokio::io::ReadBuf<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        std::task::Poll::Ready(Err(std::io::Error::other("the disk is gone")))
    }
}

#[tokio::test]
async fn gridfs_upload_with_a_failing_source_reports_whether_its_chunks_were_deleted() {
    let failed = doc! { "ok": 0, "code": 13, "errmsg": "no" };
    for (nth, outcome) in [(1, Outcome::MaybeApplied), (9, Outcome::NotApplied)] {
        let (server, client) = server_with_reply("delete", nth, failed.clone()).await;
        let bucket = bucket(&client);
        let upload = bucket.upload_from_stream("song", failing_source()).chunk_size_bytes(1);
        let error = bounded(upload).await.unwrap_err();
        assert!(matches!(*error.kind, ErrorKind::GridFs(_)), "{error:?}");
        assert_eq!(error.outcome(), outcome, "{error:?}");
        assert_eq!(server.log().named("delete").len(), 1);
    }
}

#[tokio::test]
async fn gridfs_abort_interrupted_before_its_second_command_is_maybe_applied() {
    let handler = |request: &Request| {
        if request.is_hello() {
            return None;
        }
        let is_file = matches!(request.body.get_str("insert"), Ok("fs.files"));
        Some(if is_file { vec![Step::HangUp] } else { vec![Step::Reply(default_reply(request))] })
    };
    let server = Server::builder().role(Role::Primary).handler(handler).start();
    let server = Arc::new(server);
    let client = client_that_loses(&server, "delete").await;
    let mut upload = bucket(&client).open_upload_stream("song").await.unwrap();
    upload.write_all(b"some bytes").await.unwrap();
    assert_eq!(bounded(upload.close()).await.unwrap_err().outcome(), Outcome::MaybeApplied);
    // The document of the file is deleted, its chunks are not.
    let error = bounded(upload.abort()).await.unwrap_err();
    assert_eq!(server.log().named("delete").len(), 1);
    assert_eq!(error.outcome(), Outcome::MaybeApplied, "{error:?}");
}

#[tokio::test]
async fn unacknowledged_batches_before_one_that_was_not_sent_are_maybe_applied() {
    let documents = || (0..4).map(|id| doc! { "_id": id }).collect::<Vec<_>>();
    let two = doc! { "maxWriteBatchSize": 2, "maxWireVersion": 25 };
    let concern = WriteConcern::nodes(0);
    for call in ["insert_many", "bulk_write", "client's bulk_write"] {
        let command = if call == "client's bulk_write" { "bulkWrite" } else { "insert" };
        let (_server, client) = server_that_stops_after(command, two.clone()).await;
        let books = client.database("db").collection::<Document>("books");
        let namespace = Namespace::new("db", "books");
        let models = documents().into_iter().map(InsertOneModel::new);
        let models: Vec<WriteModel> =
            models.map(|model| model.namespace(namespace.clone()).into()).collect();
        let concern = concern.clone();
        let ended = match call {
            "insert_many" => {
                let insert = books.insert_many(documents()).ordered(false);
                bounded(insert.write_concern(concern)).await.map(drop)
            }
            "bulk_write" => {
                let bulk = books.bulk_write(models).ordered(false);
                bounded(bulk.write_concern(concern)).await.map(drop)
            }
            _ => {
                let bulk = client.bulk_write(models).ordered(false);
                bounded(bulk.write_concern(concern)).await.map(drop)
            }
        };
        let error = ended.expect_err(call);
        assert_eq!(error.outcome(), Outcome::MaybeApplied, "{call}: {error:?}");
    }
}

#[tokio::test]
async fn unacknowledged_batch_that_was_not_sent_at_all_is_not_sent() {
    let (server, client) = server_that_stops_after("ping", doc! { "maxWriteBatchSize": 2 }).await;
    bounded(client.database("db").run_command(doc! { "ping": 1 })).await.unwrap();
    let books = client.database("db").collection::<Document>("books");
    let insert = books.insert_many((0..4).map(|id| doc! { "_id": Bson::Int32(id) })).ordered(false);
    let error = bounded(insert.write_concern(WriteConcern::nodes(0))).await.unwrap_err();
    assert!(server.log().named("insert").is_empty());
    assert_eq!(error.outcome(), Outcome::NotSent, "{error:?}");
}
