//! Prose tests of client-side operations timeout.
//!
//! Times are longer than the milliseconds of the specification, in proportion; the tests are about the
//! shorter of two time-outs. Omitted: 2 and 3, which require client-side encryption; 9, because a session ends when
//! it is dropped, and aborts in the background; 11, which is in `client_bulk_write`.

use std::time::Duration;

use futures_util::StreamExt;
use steadfast::{
    ClientSession,
    bson::Bson,
    options::{CursorType, GridFsBucketOptions, ReadConcern, WriteConcern},
};
use testbed::{Mongod, User};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

/// Sets the options that the specification requires for all clients.
fn as_specified(options: &mut ClientOptions) {
    options.read_concern = Some(ReadConcern::majority());
    options.write_concern = Some(WriteConcern::majority());
}

/// Server with access control.
struct AuthServer {
    server: Mongod,
    internal: Client,
}

impl AuthServer {
    async fn start() -> Self {
        let options = Options::new()
            .parameter("scramSHA256IterationCount=5000")
            .user(User::new("ada", "secret"));
        let server = Mongod::standalone(options).expect("a server");
        let internal = Client::with_uri_str(Self::uri(&server, "")).await.unwrap();
        Self { server, internal }
    }

    fn uri(server: &Mongod, options: &str) -> String {
        let address = server.address();
        format!("mongodb://ada:secret@{address}/?directConnection=true&{options}")
    }

    /// Blocks the next commands with these names, of clients with this `appName`. Returns the number of commands
    /// blocked before.
    async fn block(
        &self,
        app_name: &str,
        (commands, times): (&[&str], i32),
        block: Duration,
    ) -> i64 {
        let data = doc! {
            "failCommands": commands, "appName": app_name, "blockConnection": true,
            "blockTimeMS": i64::try_from(block.as_millis()).unwrap(),
        };
        let mode = doc! { "times": times };
        let on = doc! { "configureFailPoint": "failCommand", "mode": mode, "data": data };
        let reply = self.internal.database("admin").run_command(on).await.unwrap();
        let count = reply.get("count").expect("a count");
        count.as_i64().or(count.as_i32().map(i64::from)).expect("a number")
    }

    /// Waits until this number of commands were blocked.
    async fn wait_for_blocked(&self, times: i64) {
        let wait = doc! {
            "waitForFailPoint": "failCommand", "timesEntered": times, "maxTimeMS": 60_000,
        };
        bounded(self.internal.database("admin").run_command(wait)).await.unwrap();
    }

    async fn client(&self, app_name: &str, options: &str) -> ProseClient {
        ProseClient::at(&Self::uri(&self.server, options), app_name, as_specified).await
    }
}

#[tokio::test]
async fn prose_1_all_batches_of_an_insert_share_one_timeout() {
    testbed::require!(V6_0);
    const HALF: Duration = Duration::from_millis(3_000);
    const TIMEOUT_MS: u64 = 5_500;
    let app_name = "timeouts, prose 1";
    let server = Mongod::standalone(Options::new()).expect("a server");
    let on = doc! {
        "configureFailPoint": "failCommand", "mode": { "skip": 1 },
        "data": {
            "failCommands": ["insert"], "appName": app_name, "blockConnection": true,
            "blockTimeMS": 60_000,
        },
    };
    server.run_command("admin", on).expect("a fail point");
    let clock = Clock::stopped();
    let observed = ProseClient::at(&server.uri(), app_name, |options| {
        as_specified(options);
        options.timeout = Some(Duration::from_millis(TIMEOUT_MS));
    })
    .await;
    // So the measured time is that of the inserts only.
    observed.client.database("admin").run_command(doc! { "ping": 1 }).await.unwrap();
    let large = doc! { "a": "x".repeat(1_000_000) };
    let blobs = observed.collection("timeouts");
    let (ended, ()) = tokio::join!(bounded(blobs.insert_many(vec![large; 50])), async {
        let done = |event: &CommandEvent| matches!(event, CommandEvent::Succeeded(it) if it.command_name == "insert");
        observed.commands.wait_for(1, done).await;
        clock.pass(HALF).await;
        observed.wait_for_started(2, "insert").await;
        clock.pass(HALF).await;
    });
    let error = ended.unwrap_err();
    assert!(error.is_timeout(), "{error}");
    assert_eq!(observed.started("insert"), 2, "{error}");
}

#[tokio::test]
async fn prose_4_timeout_ms_applies_to_each_command_of_a_background_handshake() {
    testbed::require!(V6_0);
    let server = AuthServer::start().await;
    let clock = Clock::stopped();
    let app_name = "timeouts, prose 4.1";
    let before = server.block(app_name, (&["saslContinue"], 1), Duration::from_secs(10)).await;
    let observed = server.client(app_name, "minPoolSize=1&timeoutMS=150").await;
    server.wait_for_blocked(before + 1).await;
    clock.pass(Duration::from_millis(150)).await;
    let is_closed = |event: &CmapEvent| matches!(event, CmapEvent::ConnectionClosed(_));
    observed.pools.wait_for(1, is_closed).await;
    let of_interest = observed
        .pools
        .seen()
        .into_iter()
        .find(|event| is_closed(event) || matches!(event, CmapEvent::ConnectionReady(_)));
    assert!(of_interest.as_ref().is_some_and(is_closed), "{of_interest:?}");

    // Both authentication commands together exceed the time-out; each of them does not.
    let app_name = "timeouts, prose 4.2";
    let some = Duration::from_secs(1);
    let commands: &[&str] = &["hello", "isMaster", "saslContinue"];
    let before = server.block(app_name, (commands, ALWAYS), some).await;
    let options = "minPoolSize=1&timeoutMS=250&serverMonitoringMode=poll";
    let observed = server.client(app_name, options).await;
    // The first `hello` is that of the monitor.
    for nth in [2, 3] {
        server.wait_for_blocked(before + nth).await;
        clock.pass(Duration::from_millis(150)).await;
    }
    let is_ready = |event: &CmapEvent| matches!(event, CmapEvent::ConnectionReady(_));
    observed.pools.wait_for(1, is_ready).await;
}

#[tokio::test]
async fn prose_5_all_get_mores_of_one_tailable_advance_share_one_timeout() {
    testbed::require!(V6_0);
    let app_name = "timeouts, prose 5";
    let observed = ProseClient::new(app_name, as_specified).await;
    let database = observed.client.database("prose");
    let tail = observed.collection("timeouts_tailed");
    tail.drop().await.unwrap();
    database.create_collection("timeouts_tailed").capped(true).size(4_096).await.unwrap();
    tail.insert_one(doc! { "x": 1 }).await.unwrap();
    let data = doc! { "failCommands": ["getMore"], "blockConnection": true, "blockTimeMS": 450 };
    let _point = FailPoint::on_primary(ALWAYS, data, app_name).await;
    let clock = Clock::stopped();
    let cursor = tail.find(doc! {}).cursor_type(CursorType::Tailable);
    let mut cursor = bounded(cursor.timeout(Duration::from_millis(600))).await.unwrap();
    assert!(bounded(cursor.advance()).await.unwrap());
    assert_eq!(cursor.deserialize_current().unwrap().get_i32("x").unwrap(), 1);
    assert_eq!(observed.started("getMore"), 0);
    let (ended, ()) = tokio::join!(
        bounded(cursor.advance()),
        let_two_batches_exceed_the_timeout(&observed, &clock)
    );
    let error = ended.unwrap_err();
    assert!(error.is_timeout(), "{error}");
    assert_eq!(observed.started("find"), 1, "{error}");
}

/// Lets two batches take longer than the time-out of 600 ms, but each of them less.
async fn let_two_batches_exceed_the_timeout(observed: &ProseClient, clock: &Clock) {
    for batch in [1, 2] {
        observed.wait_for_started(batch, "getMore").await;
        clock.pass(Duration::from_millis(400)).await;
    }
}

#[tokio::test]
async fn prose_5_all_get_mores_of_one_change_stream_next_share_one_timeout() {
    testbed::require!(V6_0);
    let app_name = "timeouts, prose 5, streams";
    let observed = ProseClient::new(app_name, as_specified).await;
    let watch = observed.collection("timeouts_watched");
    let data = doc! { "failCommands": ["getMore"], "blockConnection": true, "blockTimeMS": 450 };
    let _point = FailPoint::on_primary(ALWAYS, data, app_name).await;
    let clock = Clock::stopped();
    // Without `maxAwaitTimeMS`, the server would still be waiting at the deadline.
    let stream = watch.watch().max_await_time(Duration::from_millis(1));
    let mut stream = bounded(stream.timeout(Duration::from_millis(600))).await.unwrap();
    let (ended, ()) =
        tokio::join!(bounded(stream.next()), let_two_batches_exceed_the_timeout(&observed, &clock));
    let error = ended.expect("an end").unwrap_err();
    assert!(error.is_timeout(), "{error}");
    assert_eq!(observed.started("aggregate"), 1, "{error}");
    assert!(stream.is_alive());
}

/// Creates an empty bucket with this name, of a client with this time-out.
async fn bucket(
    app_name: &'static str,
    name: &str,
    timeout: Duration,
) -> (ProseClient, steadfast::gridfs::GridFsBucket) {
    let observed = ProseClient::new(app_name, |options| {
        as_specified(options);
        options.timeout = Some(timeout);
    })
    .await;
    let options = GridFsBucketOptions::builder().bucket_name(name.to_owned()).chunk_size_bytes(4);
    let bucket = observed.client.database("prose").gridfs_bucket(options.build());
    // Before the measured time: the indexes and the connection exist afterwards.
    bucket.drop().timeout(LONG).await.unwrap();
    let contents: &[u8] = b"0123456789";
    let first = bucket.upload_from_stream("length-10", contents).id(Bson::Int32(10));
    first.timeout(LONG).await.unwrap();
    (observed, bucket)
}

/// Time-out that no test reaches.
const LONG: Duration = Duration::from_secs(600);

/// Time-out of the calls, by a stopped clock.
const LIMIT: Duration = Duration::from_millis(600);

/// `failCommand` that blocks a command long enough to observe that it was sent.
fn blocked(command: &str) -> Document {
    doc! { "failCommands": [command], "blockConnection": true, "blockTimeMS": 10_000 }
}

#[tokio::test]
async fn prose_6_an_upload_stream_has_one_timeout() {
    testbed::require!(V6_0);
    let app_name = "timeouts, prose 6.1";
    let (observed, bucket) = bucket(app_name, "upload", LIMIT).await;
    let _point = FailPoint::on_primary(1, blocked("insert"), app_name).await;
    let clock = Clock::stopped();
    let mut stream = bucket.open_upload_stream("filename").await.unwrap();
    stream.write_all(&[0x12]).await.unwrap();
    let before = observed.started("insert");
    let (ended, ()) = tokio::join!(bounded(stream.close()), async {
        observed.wait_for_started(before + 1, "insert").await;
        clock.pass(LIMIT).await;
    });
    let error = ended.unwrap_err();
    assert!(error.is_timeout(), "{error:?}");
}

#[tokio::test]
async fn prose_6_abort_has_the_timeout_of_its_upload_stream() {
    testbed::require!(V6_0);
    let app_name = "timeouts, prose 6.2";
    let (observed, bucket) = bucket(app_name, "abort", LIMIT).await;
    let _point = FailPoint::on_primary(1, blocked("delete"), app_name).await;
    let clock = Clock::stopped();
    let mut stream = bucket.open_upload_stream("filename").chunk_size_bytes(2).await.unwrap();
    stream.write_all(&[1, 2, 3, 4]).await.unwrap();
    stream.flush().await.unwrap();
    let before = observed.started("delete");
    let (ended, ()) = tokio::join!(bounded(stream.abort()), async {
        observed.wait_for_started(before + 1, "delete").await;
        clock.pass(LIMIT).await;
    });
    let error = ended.unwrap_err();
    assert!(error.is_timeout(), "{error:?}");
}

#[tokio::test]
async fn prose_7_a_download_stream_has_one_timeout() {
    testbed::require!(V6_0);
    let app_name = "timeouts, prose 7";
    let (observed, bucket) = bucket(app_name, "download", LIMIT).await;
    let point = FailPoint::reserve(vec![members().0], app_name).await;
    let clock = Clock::stopped();
    let before = observed.started("find");
    let mut stream = bucket.open_download_stream(Bson::Int32(10)).await.unwrap();
    point.set(1, blocked("find"));
    let mut contents = Vec::new();
    let (ended, ()) = tokio::join!(bounded(stream.read_to_end(&mut contents)), async {
        observed.wait_for_started(before + 2, "find").await;
        clock.pass(LIMIT).await;
    });
    let error = Error::from(ended.unwrap_err());
    assert!(error.is_timeout(), "{error:?}");
    assert_eq!(observed.started("find") - before, 2, "of the file and of its chunks: {error}");
}

/// Runs a ping with these options and without a server. Returns the error.
async fn unreachable(options: &str) -> Error {
    let client = Client::with_uri_str(format!("mongodb://invalid/?{options}")).await.unwrap();
    // The longer of the two time-outs exceeds this one.
    bounded(client.database("admin").run_command(doc! { "ping": 1 })).await.unwrap_err()
}

#[tokio::test]
async fn prose_8_the_shorter_of_two_timeouts_limits_server_selection() {
    for options in [
        "serverSelectionTimeoutMS=100",
        "timeoutMS=60000&serverSelectionTimeoutMS=100",
        "timeoutMS=0&serverSelectionTimeoutMS=100",
        "timeoutMS=100&serverSelectionTimeoutMS=60000",
    ] {
        let error = unreachable(options).await;
        let cause = std::error::Error::source(&error).and_then(|source| source.downcast_ref());
        let by_selection = error.is_server_selection_error()
            || cause.is_some_and(|cause: &Error| cause.is_server_selection_error());
        assert!(by_selection, "{options}: {error:?}");
        assert_eq!(error.is_timeout(), options.starts_with("timeoutMS=100&"), "{options}: {error}");
    }
}

#[tokio::test]
async fn prose_8_the_shorter_of_two_timeouts_limits_authentication() {
    testbed::require!(V6_0);
    let server = AuthServer::start().await;
    let clock = Clock::stopped();
    for (app_name, options) in [
        ("timeouts, prose 8.5", "timeoutMS=500&serverSelectionTimeoutMS=60000"),
        ("timeouts, prose 8.6", "timeoutMS=60000&serverSelectionTimeoutMS=500"),
    ] {
        let block = Duration::from_secs(10);
        let before = server.block(app_name, (&["saslContinue"], 1), block).await;
        let observed = server.client(app_name, options).await;
        let numbers = observed.collection("timeouts");
        let (ended, ()) = tokio::join!(bounded(numbers.insert_one(doc! { "x": 1 })), async {
            server.wait_for_blocked(before + 1).await;
            clock.pass(Duration::from_millis(500)).await;
        });
        let error = ended.unwrap_err();
        // Only `timeoutMS` is a time-out of the call.
        let of_call = options.starts_with("timeoutMS=500");
        let found = (error.is_timeout(), error.is_network_timeout());
        assert_eq!(found, (of_call, !of_call), "{options}: {error:?}");
    }
}

/// Not a prose test: the specification's rule for handshakes during a call.
#[tokio::test]
async fn a_longer_timeout_of_a_call_applies_to_authentication() {
    testbed::require!(V6_0);
    let server = AuthServer::start().await;
    let app_name = "timeouts, a longer call";
    server.block(app_name, (&["saslContinue"], 1), Duration::from_secs(1)).await;
    let observed = server.client(app_name, "timeoutMS=200&retryWrites=false").await;
    let numbers = observed.collection("timeouts");
    let inserted = numbers.insert_one(doc! { "x": 1 }).timeout(Duration::from_secs(60));
    bounded(inserted).await.unwrap();
    let opened = |event: &&CmapEvent| matches!(event, CmapEvent::ConnectionCreated(_));
    assert_eq!(observed.pools.seen().iter().filter(opened).count(), 1);
}

#[tokio::test]
async fn prose_10_the_abort_after_a_failed_callback_has_a_new_timeout() {
    testbed::require!(V6_0);
    let app_name = "timeouts, prose 10";
    let observed = ProseClient::new(app_name, |options| {
        as_specified(options);
        options.timeout = Some(LIMIT);
    })
    .await;
    let notes = observed.collection("timeouts_transaction");
    // The collection and a connection exist afterwards.
    notes.insert_one(doc! {}).timeout(Duration::from_secs(60)).await.unwrap();
    let block = doc! {
        "failCommands": ["insert", "abortTransaction"], "blockConnection": true, "blockTimeMS": 10_000,
    };
    let _point = FailPoint::on_primary(2, block, app_name).await;
    let clock = Clock::stopped();
    let mut session = observed.client.start_session().await.unwrap();
    let run = session.start_transaction().and_run2(async |session: &mut ClientSession| {
        notes.insert_one(doc! { "_id": 1 }).session(session).await
    });
    let (ended, ()) = tokio::join!(bounded(run), async {
        observed.wait_for_started(2, "insert").await;
        clock.pass(LIMIT).await;
        observed.wait_for_started(1, "abortTransaction").await;
        clock.pass(LIMIT).await;
    });
    let error = ended.unwrap_err();
    assert!(error.is_timeout(), "{error}");
    let (succeeded, failed) = observed.ends("insert");
    assert_eq!((succeeded.len(), failed.len()), (1, 1), "{error}");
    assert_eq!(observed.started("abortTransaction"), 1);
    let (succeeded, failed) = observed.ends("abortTransaction");
    assert_eq!((succeeded.len(), failed.len()), (0, 1));
}
