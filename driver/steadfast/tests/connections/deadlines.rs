//! A call with a time-out (`timeoutMS`) ends at its deadline in every phase, reports the time of each phase, and
//! closes no connection.

use steadfast::{
    Collection,
    error::{Outcome, TimeSpent},
    options::{CollectionOptions, CursorType, DatabaseOptions, InsertOneModel, TimeoutMode},
};

use super::*;

const TIMEOUT: Duration = Duration::from_millis(150);
/// Time-out that no test reaches.
const LONG_TIMEOUT: Duration = Duration::from_secs(600);

#[track_caller]
fn spent(error: &Error) -> TimeSpent {
    assert!(error.is_timeout(), "{error:?}");
    assert!(!error.is_network_error() && !error.is_network_timeout(), "{error:?}");
    match &*error.kind {
        ErrorKind::Timeout(timeout) => timeout.spent,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn assert_bulk(part: Duration, what: &str, error: &Error) {
    assert!(part >= TIMEOUT / 2, "not {what}: {error}");
    assert_message_contains(error, &[what, "timed out after 150ms (timeoutMS)"]);
    let source = std::error::Error::source(error).expect("the last error");
    assert_message_contains(error, &[&source.to_string()]);
}

fn is_checked_in(event: &CmapEvent) -> bool {
    matches!(event, CmapEvent::ConnectionCheckedIn(_))
}

#[tokio::test]
async fn a_late_reply_fails_the_call_and_keeps_the_connection() {
    let (server, gate) = slow_server(Role::Standalone);
    let clock = Clock::stopped();
    let (client, pool) = client_with_cmap(&server.uri("timeoutMS=150")).await;
    let slow = start(&client, "slow");
    server.wait_for(|log| !log.named("slow").is_empty()).await;
    clock.pass(TIMEOUT / 3).await;
    assert!(!slow.is_finished());
    clock.pass(TIMEOUT).await;
    let error = slow.await.unwrap().expect_err("the gate stays closed");
    assert_bulk(spent(&error).waiting, "awaiting the reply", &error);
    assert_eq!(error.outcome(), Outcome::MaybeApplied);
    assert_eq!(error.attempts().len(), 1);
    assert_eq!(error.server_address().unwrap().to_string(), server.address());

    assert!(!pool.seen().iter().any(is_checked_in), "its reply is still to come");
    gate.open();
    pool.wait_for(1, is_checked_in).await;
    run(&client, "ping").await.unwrap();
    let log = server.log();
    assert_eq!(log.connections_of("ping"), log.connections_of("slow"));
    assert!(!pool.seen().iter().any(|event| matches!(event, CmapEvent::PoolCleared(_))));
}

#[tokio::test]
async fn server_selection_ends_at_the_deadline() {
    let server = Server::with_handler(Role::Standalone, |_| Some(Vec::new()));
    let clock = Clock::stopped();
    let client = Client::with_uri_str(server.uri("timeoutMS=150")).await.unwrap();
    let ping = start(&client, "ping");
    server.wait_for(|log| !log.requests.is_empty()).await;
    clock.pass(TIMEOUT).await;
    let error = ping.await.unwrap().expect_err("no hello is answered");
    assert_bulk(spent(&error).selecting, "server selection", &error);
    assert_message_contains(&error, &["has not been checked yet", &server.address()]);
    assert_eq!((error.outcome(), error.attempts().len()), (Outcome::NotSent, 0));
}

#[tokio::test]
async fn connection_establishment_ends_at_the_deadline_and_continues_in_the_background() {
    let gate = Gate::closed();
    let server = Server::with_handler(Role::Standalone, {
        let gate = gate.clone();
        move |request| {
            let reply = vec![Step::WaitFor(gate.clone()), Step::Hello(doc! {})];
            is_handshake_for_operations(request).then_some(reply)
        }
    });
    let clock = Clock::stopped();
    let client = Client::with_uri_str(server.uri("")).await.unwrap();
    let database = client.database("db");
    let ping = bounded(database.run_command(doc! { "ping": 1 }).timeout(TIMEOUT));
    let (ended, ()) = tokio::join!(ping, async {
        server.wait_for(|log| log.requests.iter().any(is_handshake_for_operations)).await;
        clock.pass(TIMEOUT).await;
    });
    let error = ended.unwrap_err();
    assert_bulk(spent(&error).connecting, "connection establishment", &error);
    assert_eq!(error.outcome(), Outcome::NotSent);
    gate.open();
    run(&client, "ping").await.unwrap();
    assert_eq!(server.log().opened, 2, "the monitor's and the one that was opened");
}

#[tokio::test]
async fn a_longer_timeout_of_a_call_applies_to_connection_establishment() {
    let gate = Gate::closed();
    let server = Server::with_handler(Role::Standalone, {
        let gate = gate.clone();
        move |request| {
            let reply = vec![Step::WaitFor(gate.clone()), Step::Hello(doc! {})];
            is_handshake_for_operations(request).then_some(reply)
        }
    });
    let clock = Clock::stopped();
    let (client, pool) = client_with_cmap(&server.uri("timeoutMS=150&retryReads=false")).await;
    let patient = {
        let database = client.database("db");
        tokio::spawn(
            async move { database.run_command(doc! { "ping": 1 }).timeout(LONG_TIMEOUT).await },
        )
    };
    server.wait_for(|log| log.requests.iter().any(is_handshake_for_operations)).await;
    let impatient = start(&client, "ping");
    pool.wait_for(2, is_checkout_started).await;
    clock.pass(TIMEOUT).await;
    let error = impatient.await.unwrap().expect_err("the client's own limit is shorter");
    assert!(error.is_timeout(), "{error}");
    gate.open();
    bounded(patient).await.unwrap().unwrap();
}

#[tokio::test]
async fn connection_checkout_ends_at_the_deadline() {
    let (server, gate) = slow_server(Role::Standalone);
    let clock = Clock::stopped();
    let (client, pool) = client_with_cmap(&server.uri("maxPoolSize=1&timeoutMS=150")).await;
    let database = client.database("db");
    let busy = tokio::spawn(async move {
        database.run_command(doc! { "slow": 1 }).timeout(LONG_TIMEOUT).await
    });
    server.wait_for(|log| !log.named("slow").is_empty()).await;
    let ping = start(&client, "ping");
    pool.wait_for(2, is_checkout_started).await;
    clock.pass(TIMEOUT).await;
    let error = ping.await.unwrap().expect_err("the only connection is in use");
    assert_bulk(spent(&error).checking_out, "connection checkout", &error);
    assert_message_contains(&error, &["of 1 connections 1 are in use"]);
    assert_eq!(error.outcome(), Outcome::NotSent);
    gate.open();
    bounded(busy).await.unwrap().unwrap();
}

/// Returns the `maxTimeMS` of the latest command with this name.
fn max_time_ms(server: &Server, name: &str) -> Option<i64> {
    server.log().named(name).last().unwrap().body.get_i64("maxTimeMS").ok()
}

#[tokio::test]
async fn the_innermost_timeout_applies_and_is_sent_as_max_time_ms() {
    let server = Server::lenient(Role::Standalone);
    let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
    let client = Client::with_uri_str(server.uri("timeoutMS=240000")).await.unwrap();
    assert_eq!(client.timeout(), Some(minutes(4)));
    let database = client.database("db");
    let shorter = DatabaseOptions::builder().timeout(minutes(3)).build();
    let shorter = client.database_with_options("db", shorter);
    let books: Collection<Document> = shorter.collection("books");
    let shortest = CollectionOptions::builder().timeout(minutes(2)).build();
    let shortest: Collection<Document> = shorter.collection_with_options("books", shortest);
    assert_eq!((books.timeout(), shortest.timeout()), (Some(minutes(3)), Some(minutes(2))));

    let within = |limit: u64| {
        let max_time_ms = max_time_ms(&server, "drop").expect("a time limit");
        let limit = i64::try_from(60_000 * limit).unwrap();
        assert!(max_time_ms <= limit && max_time_ms > limit - 60_000, "{max_time_ms} of {limit}");
    };
    database.collection::<Document>("books").drop().await.unwrap();
    within(4);
    books.drop().await.unwrap();
    within(3);
    shortest.drop().await.unwrap();
    within(2);
    shortest.drop().timeout(minutes(1)).await.unwrap();
    within(1);
    shortest.drop().timeout(Duration::ZERO).await.unwrap();
    assert_eq!(max_time_ms(&server, "drop"), None, "zero is without end");
}

#[tokio::test]
async fn without_a_timeout_no_max_time_ms_is_sent() {
    let server = Server::lenient(Role::Standalone);
    let client = Client::with_uri_str(server.uri("")).await.unwrap();
    run(&client, "ping").await.unwrap();
    assert_eq!(max_time_ms(&server, "ping"), None);
}

#[tokio::test]
async fn timeout_ms_overrides_the_other_timeouts() {
    let server = Server::with_handler(Role::Standalone, |request| {
        let slowly = vec![Step::Delay(TIMEOUT), Step::Reply(doc! { "ok": 1, "n": 1 })];
        (request.name == "insert").then_some(slowly)
    });
    let options = "socketTimeoutMS=20&waitQueueTimeoutMS=20&maxPoolSize=1&wTimeoutMS=20";
    let client = Client::with_uri_str(server.uri(options)).await.unwrap();
    let books = client.database("db").collection::<Document>("books");
    for timeout in [LONG_TIMEOUT, Duration::ZERO] {
        let insert = || books.insert_one(doc! { "_id": 1 }).timeout(timeout);
        let (first, second) = bounded(async { tokio::join!(insert(), insert()) }).await;
        first.and(second).unwrap();
        let log = server.log();
        let sent = &log.named("insert").last().unwrap().body;
        assert!(sent.get_document("writeConcern").is_err(), "{sent}");
    }
    let error = books.insert_one(doc! { "_id": 1 }).await.expect_err("socketTimeoutMS counts");
    assert!(error.is_network_timeout() && !error.is_timeout(), "{error:?}");
}

#[tokio::test]
async fn max_time_ms_expired_is_a_timeout_of_the_call() {
    let rejected =
        doc! { "ok": 0, "code": 50, "codeName": "MaxTimeMSExpired", "errmsg": "too slow" };
    let reply = rejected.clone();
    let server = Server::with_handler(Role::Standalone, move |request| {
        let failed = doc! { "ok": 1, "n": 0, "writeErrors": [{ "index": 0, "code": 50, "errmsg": "too slow" }] };
        let late =
            doc! { "ok": 1, "n": 1, "writeConcernError": { "code": 50, "errmsg": "too slow" } };
        match request.name.as_str() {
            "ping" => Some(vec![Step::Reply(reply.clone())]),
            "insert" => Some(vec![Step::Reply(failed)]),
            "delete" => Some(vec![Step::Reply(late)]),
            _ => None,
        }
    });
    let limited = Client::with_uri_str(server.uri("timeoutMS=60000")).await.unwrap();
    let unlimited = Client::with_uri_str(server.uri("")).await.unwrap();
    for (client, is_timeout) in [(limited, true), (unlimited, false)] {
        let books = client.database("db").collection::<Document>("books");
        let errors = [
            run(&client, "ping").await.unwrap_err(),
            books.insert_one(doc! {}).await.unwrap_err(),
            books.delete_one(doc! {}).await.unwrap_err(),
            books.insert_many([doc! {}]).await.unwrap_err(),
            books.bulk_write([InsertOneModel::new(doc! {}).into()]).await.unwrap_err(),
        ];
        for error in &errors {
            assert_eq!(error.is_timeout(), is_timeout, "{error:?}");
            assert_message_contains(error, &["too slow"]);
        }
        let outcomes = errors.map(|error| error.outcome());
        let expected = [Outcome::MaybeApplied, Outcome::MaybeApplied, Outcome::AppliedNotDurable];
        assert_eq!(outcomes[..3], expected);
    }
}

#[tokio::test]
async fn all_batches_of_a_write_share_one_deadline() {
    let gates = [Gate::closed(), Gate::closed(), Gate::closed()];
    let server = Server::with_handler(Role::Standalone, {
        let gates = gates.clone();
        move |request| {
            if request.is_hello() {
                return Some(vec![Step::Hello(doc! { "maxWriteBatchSize": 2 })]);
            }
            let documents = request.body.get_array("documents").ok()?;
            let first = documents[0].as_document()?.get_i32("_id").ok()?;
            let gate = gates[usize::try_from(first).ok()? / 2].clone();
            Some(vec![Step::WaitFor(gate), Step::Reply(doc! { "ok": 1, "n": 2 })])
        }
    });
    let clock = Clock::stopped();
    let client = Client::with_uri_str(server.uri("timeoutMS=300")).await.unwrap();
    let books = client.database("db").collection::<Document>("books");
    let documents = (0..6).map(|id| doc! { "_id": id });
    let (ended, ()) = tokio::join!(bounded(books.insert_many(documents)), async {
        for (sent, gate) in (1..).zip(&gates) {
            server.wait_for(|log| log.named("insert").len() == sent).await;
            // Each of them is shorter than the time-out; together they exceed it.
            clock.pass(Duration::from_millis(120)).await;
            gate.open();
        }
    });
    let error = ended.expect_err("the deadline passes before the third batch");
    assert!(error.is_timeout(), "{error:?}");
    let ErrorKind::InsertMany(partly) = &*error.kind else { panic!("{error:?}") };
    assert_eq!(partly.inserted_ids.len(), 4, "the ids of the acknowledged batches");
    assert_eq!(error.outcome(), Outcome::MaybeApplied);
    let left: Vec<_> = server
        .log()
        .named("insert")
        .iter()
        .map(|insert| insert.body.get_i64("maxTimeMS").unwrap())
        .collect();
    assert_eq!(left.len(), 3);
    assert!(left.is_sorted_by(|earlier, later| earlier > later), "{left:?}");
}

/// Server with a cursor of three documents for `find`, and of one document for each of the first `more` `getMore`
/// commands. Later `getMore` commands get no reply.
fn server_with_cursor(more: usize) -> Server {
    let asked = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    Server::with_handler(Role::Standalone, move |request| {
        let batch = |name: &str, documents: Vec<Document>| {
            let cursor = doc! { "id": 7_i64, "ns": "db.books", name: documents };
            Some(vec![Step::Reply(doc! { "ok": 1, "cursor": cursor })])
        };
        match request.name.as_str() {
            "find" => batch("firstBatch", vec![doc! { "_id": 1 }, doc! { "_id": 2 }]),
            "getMore" if asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst) >= more => {
                Some(Vec::new())
            }
            "getMore" => batch("nextBatch", vec![doc! { "_id": 3 }]),
            _ => None,
        }
    })
}

#[tokio::test]
async fn a_cursor_returns_its_batch_after_the_deadline_and_is_then_killed() {
    let server = server_with_cursor(0);
    let clock = Clock::stopped();
    let client = Client::with_uri_str(server.uri("")).await.unwrap();
    let books = client.database("db").collection::<Document>("books");
    let mut cursor = bounded(books.find(doc! {}).timeout(TIMEOUT)).await.unwrap();
    assert!(max_time_ms(&server, "find").is_some());
    clock.pass(TIMEOUT).await;
    assert!(bounded(cursor.advance()).await.unwrap());
    assert!(bounded(cursor.advance()).await.unwrap());
    let error = bounded(cursor.advance()).await.unwrap_err();
    assert!(error.is_timeout(), "{error:?}");
    // The cursor is killed, with a deadline of its own.
    server.wait_for(|log| !log.named("killCursors").is_empty()).await;
    assert!(max_time_ms(&server, "killCursors").is_some());
    assert!(server.log().named("getMore").is_empty(), "there was no time for it");
}

#[tokio::test]
async fn iteration_timeout_applies_to_each_advance_of_a_cursor() {
    let server = server_with_cursor(2);
    let clock = Clock::stopped();
    let client = Client::with_uri_str(server.uri("")).await.unwrap();
    let books = client.database("db").collection::<Document>("books");
    let find = books.find(doc! {}).timeout(TIMEOUT).timeout_mode(TimeoutMode::Iteration);
    let mut cursor = bounded(find).await.unwrap();
    assert_eq!(
        max_time_ms(&server, "find"),
        None,
        "the server would take it for the life of the cursor"
    );
    for _ in 0..4 {
        clock.pass(TIMEOUT).await;
        assert!(bounded(cursor.advance()).await.unwrap());
    }
    assert_eq!(max_time_ms(&server, "getMore"), None);
    let (ended, ()) = tokio::join!(bounded(cursor.advance()), expire_get_more(&server, 3, &clock));
    assert!(ended.as_ref().unwrap_err().is_timeout(), "{ended:?}");
}

/// Waits for the `getMore` with this number, and lets its time-out expire.
async fn expire_get_more(server: &Server, number: usize, clock: &Clock) {
    server.wait_for(|log| log.named("getMore").len() == number).await;
    clock.pass(TIMEOUT).await;
}

#[tokio::test]
async fn timeout_of_a_tailable_cursor_applies_to_each_advance() {
    let server = server_with_cursor(1);
    let clock = Clock::stopped();
    let client = Client::with_uri_str(server.uri("")).await.unwrap();
    let books = client.database("db").collection::<Document>("books");
    let find = books
        .find(doc! {})
        .cursor_type(CursorType::TailableAwait)
        .max_await_time(Duration::from_millis(20))
        .timeout(TIMEOUT);
    let mut cursor = bounded(find).await.unwrap();
    for _ in 0..3 {
        clock.pass(TIMEOUT).await;
        assert!(bounded(cursor.advance()).await.unwrap());
    }
    assert_eq!(max_time_ms(&server, "getMore"), Some(20));
    let (ended, ()) = tokio::join!(bounded(cursor.advance()), expire_get_more(&server, 2, &clock));
    assert!(ended.as_ref().unwrap_err().is_timeout(), "{ended:?}");
}

#[tokio::test]
async fn a_late_batch_behind_a_load_balancer_does_not_answer_another_command() {
    let gate = Gate::closed();
    let server = Server::with_handler(Role::LoadBalanced, {
        let gate = gate.clone();
        move |request| {
            let batch = |field: &str| {
                let cursor = doc! { "id": 7_i64, "ns": "db.books", field: [{ "_id": 1 }] };
                Step::Reply(doc! { "ok": 1, "cursor": cursor })
            };
            match request.name.as_str() {
                "find" => Some(vec![batch("firstBatch")]),
                "getMore" => Some(vec![Step::WaitFor(gate.clone()), batch("nextBatch")]),
                _ => None,
            }
        }
    });
    let clock = Clock::stopped();
    let (client, pool) = client_with_cmap(&server.uri("loadBalanced=true")).await;
    let books = client.database("db").collection::<Document>("books");
    let find = books.find(doc! {}).timeout(TIMEOUT).timeout_mode(TimeoutMode::Iteration);
    let mut cursor = bounded(find).await.unwrap();
    assert!(bounded(cursor.advance()).await.unwrap());
    for _ in 0..2 {
        let (ended, ()) =
            tokio::join!(bounded(cursor.advance()), expire_get_more(&server, 1, &clock));
        assert!(ended.as_ref().unwrap_err().is_timeout(), "{ended:?}");
    }
    drop(cursor);
    let reply = run(&client, "ping").await.unwrap();
    assert!(!reply.contains_key("cursor"), "{reply}");
    let log = server.log();
    assert_ne!(log.connections_of("ping"), log.connections_of("find"));
    gate.open();
    // The connection of the ping, and that of the cursor after its reply was drained.
    pool.wait_for(2, is_checked_in).await;
    assert_eq!(server.log().opened, 2);
}

#[tokio::test]
async fn server_selection_past_the_deadline_counts_as_a_timeout() {
    let server = Server::with_handler(Role::Standalone, |_| Some(Vec::new()));
    let client = Client::with_uri_str(server.uri("timeoutMS=50")).await.unwrap();
    let books = client.database("db").collection::<Document>("books");
    let error = bounded(books.insert_many([doc! {}])).await.unwrap_err();
    assert!(error.is_timeout(), "{error:?}");
    assert_eq!(client.metrics().timeouts, 1);
}

#[tokio::test]
async fn shutdown_waits_at_most_for_the_deadlines_of_pending_calls() {
    let (server, _gate) = slow_server(Role::Standalone);
    let clock = Clock::stopped();
    let (client, commands) = client_with_commands(&server.uri("timeoutMS=150")).await;
    let under_way = start(&client, "slow");
    server.wait_for(|log| !log.named("slow").is_empty()).await;
    let shutdown = tokio::spawn(bounded(client.clone().shutdown()));
    clock.pass(TIMEOUT / 3).await;
    assert!(!shutdown.is_finished());
    clock.pass(TIMEOUT).await;
    shutdown.await.unwrap();
    let error = bounded(under_way).await.unwrap().unwrap_err();
    assert!(error.is_timeout(), "{error:?}");
    let seen = commands.seen();
    let [CommandEvent::Started(_), CommandEvent::Failed(failed)] = seen.as_slice() else {
        panic!("{seen:?}");
    };
    assert!(failed.failure.is_network_timeout(), "{failed:?}");
}

#[tokio::test]
async fn monitors_have_no_deadline() {
    let gate = Gate::closed();
    let server = Server::with_handler(Role::Standalone, {
        let gate = gate.clone();
        move |request| {
            let reply = vec![Step::WaitFor(gate.clone()), Step::Hello(doc! {})];
            (request.is_hello() && request.connection == 1).then_some(reply)
        }
    });
    let clock = Clock::stopped();
    let client = Client::with_uri_str(server.uri("timeoutMS=150")).await.unwrap();
    let ping = start(&client, "ping");
    server.wait_for(|log| !log.requests.is_empty()).await;
    clock.pass(TIMEOUT).await;
    let error = ping.await.unwrap().unwrap_err();
    assert!(error.is_timeout(), "{error:?}");
    assert_eq!(server.log().opened, 1, "the monitor still waits for its first reply");
    gate.open();
    bounded(client.database("db").run_command(doc! { "ping": 1 }).timeout(LONG_TIMEOUT))
        .await
        .unwrap();
}
