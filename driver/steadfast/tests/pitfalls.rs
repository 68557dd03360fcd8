//! Known bugs of drivers in sessions, connections and retries, each tested with a scripted server. The numbers are
//! those of `docs/pitfalls.md`.

#![allow(missing_docs)]

mod common;

use std::time::Duration;

use blackpipe::server::{
    Deployment, ExpectedRequest, FailureReply, Gate, ReceivedRequest, Request, Role, Server,
    command, error, find, get_more, hang_up, hello, insert, raw_bytes, reply, reply_to_another,
    wait_for,
};
use common::{Clock, Recorder, bounded, is_handshake_for_operations};
use steadfast::{
    Client, Collection,
    bson::{Document, Timestamp, doc},
    error::{Error, ErrorKind, RETRYABLE_WRITE_ERROR},
    event::cmap::CmapEvent,
    options::ClientOptions,
    results::InsertOneResult,
};
use tokio::task::JoinHandle;

/// Client with a recorder of its CMAP events.
struct PitfallClient {
    client: Client,
    things: Collection<Document>,
    pools: Recorder<CmapEvent>,
}

impl PitfallClient {
    async fn at(uri: &str) -> Self {
        let pools = Recorder::new();
        let mut options = ClientOptions::parse(uri).await.unwrap();
        options.cmap_event_handler = Some(pools.handler());
        let client = Client::with_options(options).unwrap();
        Self { things: client.database("db").collection("things"), client, pools }
    }

    /// Inserts a document in a spawned task.
    fn insert(&self) -> JoinHandle<Result<InsertOneResult, Error>> {
        let things = self.things.clone();
        tokio::spawn(async move { bounded(things.insert_one(doc! { "_id": 1 })).await })
    }

    fn run(&self, name: &'static str) -> JoinHandle<Result<Document, Error>> {
        let database = self.client.database("db");
        tokio::spawn(async move { bounded(database.run_command(doc! { name: 1 })).await })
    }
}

/// Only member of a scripted replica set.
fn primary() -> Server {
    Server::builder().role(Role::Primary).start()
}

fn expected_insert() -> ExpectedRequest {
    insert("db.things").with(doc! { "documents": [{ "_id": 1 }] })
}

fn done() -> Document {
    doc! { "ok": 1, "n": 1 }
}

fn retryable(code: i32) -> FailureReply {
    error(code).labelled("RetryableWriteError")
}

/// `lsid` and `txnNumber` of a write.
fn transaction_id(request: &ReceivedRequest) -> (Document, i64) {
    let (session, number) = request.session_and_txn_number().expect("a retryable write");
    (session.clone(), number)
}

#[tokio::test]
async fn a_retry_carries_the_transaction_id_of_the_first_attempt() {
    // pitfall 8
    let server = primary();
    let (first, second) = (server.receives(expected_insert()), server.receives(expected_insert()));
    let observed = PitfallClient::at(&server.uri("")).await;
    let inserting = observed.insert();
    let first = first.arrives().await;
    let id = transaction_id(&first);
    first.hang_up();
    let second = second.arrives().await;
    assert_eq!(transaction_id(&second), id);
    second.reply(done());
    inserting.await.unwrap().unwrap();
    server.finish();
}

#[tokio::test]
async fn a_session_is_discarded_after_a_network_error_even_if_the_retry_succeeds() {
    // pitfall 17
    let server = primary();
    server.expect(expected_insert().then(hang_up()));
    let (retry, next) = (server.receives(expected_insert()), server.receives(expected_insert()));
    let observed = PitfallClient::at(&server.uri("")).await;
    let inserting = observed.insert();
    let retry = retry.arrives().await;
    let (broken, _) = transaction_id(&retry);
    retry.reply(done());
    inserting.await.unwrap().unwrap();

    let inserting = observed.insert();
    let next = next.arrives().await;
    assert_ne!(transaction_id(&next).0, broken);
    next.reply(done());
    inserting.await.unwrap().unwrap();
    server.finish();
}

#[tokio::test]
async fn dropped_future_leaves_no_partial_reply_on_the_connection() {
    // pitfall 21
    let server = primary();
    let expected_request = server.receives(command("dropped"));
    server.expect(command("kept").then(reply(doc! { "ok": 1, "mine": true })));
    let observed = PitfallClient::at(&server.uri("maxPoolSize=1")).await;
    let dropped = observed.run("dropped");
    let request = expected_request.arrives().await;
    let bytes = Request::reply(&request, &doc! { "ok": 1, "mine": false });
    let (begin, end) = bytes.split_at(30);
    let gate = Gate::closed();
    request.then([raw_bytes(begin), wait_for(&gate), raw_bytes(end)]);
    server.process_socket_events().await;
    dropped.abort();
    assert!(dropped.await.unwrap_err().is_cancelled());
    let kept = observed.run("kept");
    gate.open();
    assert!(kept.await.unwrap().unwrap().get_bool("mine").unwrap());
    server.finish();
}

#[tokio::test]
async fn a_dropped_future_frees_its_pool_slot_and_discards_its_session() {
    // pitfall 22
    let server = primary();
    let (first, second) = (server.receives(expected_insert()), server.receives(expected_insert()));
    let observed = PitfallClient::at(&server.uri("maxPoolSize=1")).await;
    let dropped = observed.insert();
    let first = first.arrives().await;
    let (session, _) = transaction_id(&first);
    dropped.abort();
    assert!(dropped.await.unwrap_err().is_cancelled());
    first.reply(done());
    let inserting = observed.insert();
    let second = second.arrives().await;
    assert_ne!(transaction_id(&second).0, session);
    second.reply(done());
    inserting.await.unwrap().unwrap();
    server.finish();
}

#[tokio::test]
async fn a_reply_to_another_request_is_rejected_and_closes_the_connection() {
    // pitfall 23
    let server = primary();
    server.expect(command("first").then(reply_to_another(doc! { "ok": 1 })));
    server.expect(command("second").then(reply(doc! { "ok": 1 })));
    let observed = PitfallClient::at(&server.uri("")).await;
    let error = observed.run("first").await.unwrap().unwrap_err();
    assert!(error.to_string().contains("a reply to request"), "{error}");
    observed.run("second").await.unwrap().unwrap();
    let log = server.log();
    assert_ne!(log.connections_of("first"), log.connections_of("second"));
    server.finish();
}

#[tokio::test]
async fn a_request_that_times_out_keeps_its_connection() {
    // pitfall 24
    let server = primary();
    let gate = Gate::closed();
    server.expect(command("slow").then(wait_for(&gate)).then(reply(doc! { "ok": 1 })));
    server.expect(command("next").then(reply(doc! { "ok": 1 })));
    let clock = Clock::stopped();
    let observed = PitfallClient::at(&server.uri("maxPoolSize=1")).await;
    let (database, limit) = (observed.client.database("db"), Duration::from_millis(150));
    let slow = database.run_command(doc! { "slow": 1 }).timeout(limit);
    let (ended, ()) = tokio::join!(bounded(slow), async {
        server.wait_for(|log| !log.named("slow").is_empty()).await;
        clock.pass(limit).await;
    });
    assert!(ended.unwrap_err().is_timeout());
    gate.open();
    observed.run("next").await.unwrap().unwrap();
    let log = server.log();
    assert_eq!(log.connections_of("slow"), log.connections_of("next"));
    assert_eq!(log.opened, 2, "the monitor's and one of operations");
    server.finish();
}

#[tokio::test]
async fn a_retry_after_a_pool_clear_opens_a_new_connection() {
    // pitfall 25
    let server = primary();
    server.expect(expected_insert().then(hang_up()));
    server.expect(expected_insert().then(reply(done())));
    let observed = PitfallClient::at(&server.uri("minPoolSize=3")).await;
    bounded(observed.client.warm_connection_pool()).await;
    observed.insert().await.unwrap().unwrap();
    let used = server.log().connections_of("insert");
    assert!(used[0] <= 4 && used[1] > 4, "the monitor's, three, and then a new one: {used:?}");
    let order = observed.pools.seen().into_iter().filter_map(|event| match event {
        CmapEvent::PoolCleared(_) => Some("cleared"),
        CmapEvent::ConnectionCheckedIn(_) => Some("checked in"),
        _ => None,
    });
    assert_eq!(order.collect::<Vec<_>>(), ["cleared", "checked in", "checked in"]);
    server.finish();
}

#[tokio::test]
async fn writes_that_share_one_connection_do_not_deadlock_when_it_breaks() {
    // pitfall 26
    let server = primary();
    server.expect(expected_insert().then(hang_up()));
    server.expect(expected_insert().then(reply(done())).times(5));
    let uri = server.uri("maxPoolSize=1&waitQueueTimeoutMS=15000");
    let observed = PitfallClient::at(&uri).await;
    let inserting: Vec<_> = (0..5).map(|_| observed.insert()).collect();
    for inserting in inserting {
        inserting.await.unwrap().unwrap();
    }
    server.finish();
}

#[tokio::test]
async fn a_failed_handshake_is_retried_or_raised_without_a_label() {
    // pitfall 28
    for (options, is_retried) in [("retryWrites=true", true), ("retryWrites=false", false)] {
        let server = primary();
        let handshake = hello().that("opens a connection", is_handshake_for_operations);
        server.expect(handshake.then(hang_up()));
        if is_retried {
            server.expect(expected_insert().with(doc! { "txnNumber": 1 }).then(reply(done())));
        }
        let observed = PitfallClient::at(&server.uri(options)).await;
        match observed.insert().await.unwrap() {
            Ok(_) => assert!(is_retried),
            Err(error) => {
                assert!(!is_retried, "{error}");
                assert!(!error.contains_label(RETRYABLE_WRITE_ERROR), "{error:?}");
            }
        }
        server.finish();
    }
}

#[tokio::test]
async fn a_write_whose_pool_is_cleared_during_checkout_is_retried_or_raised_without_a_label() {
    // pitfall 28
    for (options, is_retried) in [("retryWrites=true", true), ("retryWrites=false", false)] {
        let server = primary();
        let expected_request = server.receives(command("slow"));
        if is_retried {
            server.expect(expected_insert().with(doc! { "txnNumber": 1 }).then(reply(done())));
        }
        let observed = PitfallClient::at(&server.uri(&format!("maxPoolSize=1&{options}"))).await;
        let slow = observed.run("slow");
        let request = expected_request.arrives().await;
        let inserting = observed.insert();
        let waits = |event: &CmapEvent| matches!(event, CmapEvent::ConnectionCheckoutStarted(_));
        observed.pools.wait_for(2, waits).await;
        request.hang_up();
        slow.await.unwrap().unwrap_err();
        match inserting.await.unwrap() {
            Ok(_) => assert!(is_retried),
            Err(error) => {
                let is_cleared = matches!(&*error.kind, ErrorKind::ConnectionPoolCleared { .. });
                assert!(!is_retried && is_cleared, "{error:?}");
                assert!(error.labels().is_empty(), "{error:?}");
            }
        }
        server.finish();
    }
}

#[tokio::test]
async fn an_unlabelled_error_of_a_server_since_4_4_is_neither_labelled_nor_retried() {
    // pitfall 29
    let server = primary();
    server.expect(expected_insert().then(error(91)));
    let observed = PitfallClient::at(&server.uri("")).await;
    let error = observed.insert().await.unwrap().unwrap_err();
    assert_eq!(error.code(), Some(91));
    assert!(error.labels().is_empty(), "{error:?}");
    server.finish();
}

#[tokio::test]
async fn get_more_is_retried_after_an_overload_error_but_not_after_a_network_error() {
    // pitfall 30
    let cursor = |id: i64, batch: &str, x: i32| {
        doc! { "ok": 1, "cursor": { "id": id, "ns": "db.things", batch: [{ "x": x }] } }
    };
    let overloaded = error(462).labelled("SystemOverloadedError").labelled("RetryableError");
    let server = primary();
    server.expect(find("db.things").then(reply(cursor(7, "firstBatch", 1))));
    server.expect(get_more("db.things").with(doc! { "getMore": 7_i64 }).then(overloaded));
    server.expect(get_more("db.things").then(reply(cursor(7, "nextBatch", 2))));
    server.expect(get_more("db.things").then(hang_up()));
    let observed = PitfallClient::at(&server.uri("")).await;
    let mut cursor = bounded(observed.things.find(doc! {})).await.unwrap();
    for _ in 0..2 {
        assert!(bounded(cursor.advance()).await.unwrap());
    }
    assert!(bounded(cursor.advance()).await.unwrap_err().is_network_error());
    server.finish();
}

#[tokio::test]
async fn a_retry_has_a_new_request_id_and_the_latest_cluster_time() {
    // pitfall 35
    let server = primary();
    let at = |time| doc! { "clusterTime": Timestamp { time, increment: 1 } };
    server.expect(command("first").then(reply(doc! { "ok": 1, "$clusterTime": at(7) })));
    let (first, second) = (server.receives(expected_insert()), server.receives(expected_insert()));
    let observed = PitfallClient::at(&server.uri("")).await;
    observed.run("first").await.unwrap().unwrap();
    let inserting = observed.insert();
    let first = first.arrives().await;
    let (id, sent) = (first.id, first.body.get_document("$clusterTime").cloned());
    first.then([retryable(11600).with(doc! { "$clusterTime": at(9) })]);
    let second = second.arrives().await;
    assert_ne!(second.id, id);
    let sent = [sent.unwrap(), second.body.get_document("$clusterTime").unwrap().clone()];
    assert_eq!(sent, [at(7), at(9)]);
    second.reply(done());
    inserting.await.unwrap().unwrap();
    server.finish();
}

#[tokio::test]
async fn a_write_is_retried_on_the_new_primary() {
    let set = Deployment::replica_set(3);
    let expected_request = set.receives(expected_insert().at(0));
    set.expect(expected_insert().at(2).then(reply(done())));
    // No heartbeat is due during this test: the members stream their new state.
    let observed = PitfallClient::at(&set.uri("heartbeatFrequencyMS=600000")).await;
    let inserting = observed.insert();
    let request = expected_request.arrives().await;
    set.elect(2);
    request.then([retryable(10107).with_message("not primary any more")]);
    inserting.await.unwrap().unwrap();
    set.finish();
}
