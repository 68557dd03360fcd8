//! Resuming of change streams: resumable errors, start positions and sessions. Neither events nor cursors are lost.

use std::{collections::VecDeque, future::poll_fn, pin::pin, sync::Mutex, task::Poll};

use futures_util::{StreamExt, TryStreamExt};
use steadfast::{bson::Bson, error::RESUMABLE_CHANGE_STREAM_ERROR};

use super::*;
use crate::common::{DocumentChangeStream, Gate, Server, Step};

const STARTED: Timestamp = Timestamp { time: 5, increment: 1 };
const LATER: Timestamp = Timestamp { time: 6, increment: 1 };

/// Server that replies to each `aggregate` and each `getMore` with the next of these steps, and to no more than
/// these.
fn server(
    role: Role,
    wire_version: i32,
    aggregates: impl IntoIterator<Item = Vec<Step>>,
    get_mores: impl IntoIterator<Item = Vec<Step>>,
) -> Server {
    let aggregates = Mutex::new(aggregates.into_iter().collect::<VecDeque<_>>());
    let get_mores = Mutex::new(get_mores.into_iter().collect::<VecDeque<_>>());
    Server::with_handler(role, move |request| {
        let next = |steps: &Mutex<VecDeque<Vec<Step>>>| {
            let next = steps.lock().unwrap().pop_front();
            Some(next.unwrap_or_else(|| vec![Step::WaitFor(Gate::closed())]))
        };
        match request.name.as_str() {
            "aggregate" => next(&aggregates),
            "getMore" => next(&get_mores),
            _ if request.is_hello() => {
                Some(vec![Step::Hello(doc! { "maxWireVersion": wire_version })])
            }
            _ => None,
        }
    })
}

/// Primary with these replies and operation times.
fn primary(
    aggregates: impl IntoIterator<Item = Vec<Step>>,
    get_mores: impl IntoIterator<Item = Vec<Step>>,
) -> Server {
    server(Role::Primary, 17, aggregates, get_mores)
}

fn token(text: &str) -> Document {
    doc! { "_data": text }
}

/// Reply with events of these tokens, and a `postBatchResumeToken`.
fn batch(field: &str, id: i64, events: &[&str], after: Option<&str>, time: Timestamp) -> Vec<Step> {
    let event = |text: &&str| doc! { "_id": token(text), "operationType": "insert" };
    let events: Vec<_> = events.iter().map(event).collect();
    let mut cursor = doc! { "id": id, "ns": "db.books", field: events };
    if let Some(after) = after {
        cursor.insert("postBatchResumeToken", token(after));
    }
    vec![Step::Reply(doc! { "ok": 1, "cursor": cursor, "operationTime": time })]
}

fn first(id: i64, events: &[&str], after: Option<&str>) -> Vec<Step> {
    batch("firstBatch", id, events, after, STARTED)
}

fn next(id: i64, events: &[&str], after: Option<&str>) -> Vec<Step> {
    batch("nextBatch", id, events, after, LATER)
}

fn network_error() -> Vec<Step> {
    vec![Step::HangUp]
}

fn command_error(code: i32, labels: &[&str]) -> Vec<Step> {
    let labels: Vec<_> = labels.iter().map(|label| Bson::from(*label)).collect();
    vec![Step::Reply(doc! { "ok": 0, "code": code, "errmsg": "no", "errorLabels": labels })]
}

async fn watch(server: &Server, options: &str) -> (Client, DocumentChangeStream) {
    let client = Client::with_uri_str(server.uri(options)).await.unwrap();
    let books = client.database("db").collection::<Document>("books");
    let stream = bounded(books.watch()).await.unwrap();
    (client, stream)
}

/// Returns the token of the next event.
async fn next_token(stream: &mut DocumentChangeStream) -> Document {
    let event = bounded(stream.try_next()).await.unwrap().expect("the stream is open");
    as_document(&event.id)
}

fn as_document(token: &impl serde::Serialize) -> Document {
    ::bson::serialize_to_document(token).unwrap()
}

fn latest(stream: &DocumentChangeStream) -> Option<Document> {
    stream.resume_token().as_ref().map(as_document)
}

/// Returns the `$changeStream` stage of each `aggregate`.
fn change_stream_stages(server: &Server) -> Vec<Document> {
    let stage = |body: &Document| {
        let stage = body.get_array("pipeline").unwrap()[0].as_document().unwrap();
        stage.get_document("$changeStream").unwrap().clone()
    };
    server.log().named("aggregate").iter().map(|request| stage(&request.body)).collect()
}

fn count(server: &Server, name: &str) -> usize {
    server.log().named(name).len()
}

/// Waits until exactly these cursors were killed.
async fn wait_for_killed(server: &Server, ids: &[i64]) {
    let log = server.wait_for(|log| log.named("killCursors").len() >= ids.len()).await;
    let mut killed = Vec::new();
    for request in log.named("killCursors") {
        killed.extend(request.body.get_array("cursors").unwrap().iter().map(|id| id.as_i64()));
    }
    killed.sort_unstable();
    assert_eq!(killed, ids.iter().map(|id| Some(*id)).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_stream_resumes_in_its_session_after_a_network_error() {
    let aggregates = [first(7, &[], Some("a")), first(8, &["1"], None)];
    let server = primary(aggregates, [network_error(), next(8, &["2"], Some("b"))]);
    let (_client, mut stream) = watch(&server, "").await;
    assert_eq!(latest(&stream), Some(token("a")));
    assert_eq!(next_token(&mut stream).await, token("1"));
    assert_eq!(latest(&stream), Some(token("1")));
    assert_eq!(next_token(&mut stream).await, token("2"));
    assert_eq!(latest(&stream), Some(token("b")));
    assert_eq!(change_stream_stages(&server), [doc! {}, doc! { "resumeAfter": token("a") }]);

    // The lost cursor is killed on its server.
    wait_for_killed(&server, &[7]).await;
    let log = server.log();
    let mut sessions = log.named("aggregate");
    sessions.extend(log.named("getMore"));
    sessions.extend(log.named("killCursors"));
    let id = |request: &&crate::common::Request| request.body.get("lsid").unwrap().to_string();
    assert_eq!(sessions.iter().map(id).collect::<BTreeSet<_>>().len(), 1);
}

#[tokio::test]
async fn a_stream_without_a_token_resumes_at_its_initial_operation_time() {
    let again = batch("firstBatch", 8, &[], None, LATER);
    let aggregates = [first(7, &[], None), again, first(9, &["1"], None)];
    let server = primary(aggregates, [network_error(), network_error()]);
    let (_client, mut stream) = watch(&server, "").await;
    assert_eq!(latest(&stream), None);
    assert_eq!(next_token(&mut stream).await, token("1"));
    let at = doc! { "startAtOperationTime": STARTED };
    assert_eq!(change_stream_stages(&server), [doc! {}, at.clone(), at]);
}

#[tokio::test]
async fn a_failed_resume_ends_the_stream_and_keeps_its_token() {
    let aggregates = [first(7, &["1", "2"], None), command_error(1, &[])];
    let server = primary(aggregates, [network_error()]);
    let (_client, mut stream) = watch(&server, "").await;
    assert_eq!(next_token(&mut stream).await, token("1"));
    assert_eq!(next_token(&mut stream).await, token("2"));
    assert!(stream.is_alive());
    let error = bounded(stream.try_next()).await.unwrap_err();
    assert_eq!(error.code(), Some(1));
    assert!(bounded(stream.next()).await.is_none() && !stream.is_alive());
    assert_eq!(bounded(stream.next_if_any()).await.unwrap_err().code(), Some(1));
    assert_eq!(latest(&stream), Some(token("2")));
    assert_eq!((count(&server, "aggregate"), count(&server, "getMore")), (2, 1));
}

#[tokio::test]
async fn an_error_that_is_not_resumable_closes_the_stream() {
    let server = primary([first(7, &[], Some("a"))], [command_error(1, &[])]);
    let (_client, mut stream) = watch(&server, "").await;
    assert_eq!(bounded(stream.try_next()).await.unwrap_err().code(), Some(1));
    assert!(bounded(stream.next()).await.is_none() && !stream.is_alive());
    wait_for_killed(&server, &[7]).await;
    assert_eq!(count(&server, "aggregate"), 1);
}

#[tokio::test]
async fn errors_are_resumable_by_code_before_4_4_and_by_label_since() {
    // RetryChangeStream
    let unlabelled = || command_error(234, &[]);
    let labelled = || command_error(1, &[RESUMABLE_CHANGE_STREAM_ERROR]);
    for (wire_version, get_more, is_resumed) in [
        (8, unlabelled(), true),
        (8, labelled(), false),
        (9, unlabelled(), false),
        (9, labelled(), true),
    ] {
        let aggregates = [first(7, &[], Some("a")), first(8, &["1"], None)];
        let server = server(Role::Primary, wire_version, aggregates, [get_more]);
        let (_client, mut stream) = watch(&server, "").await;
        let came = bounded(stream.try_next()).await;
        assert_eq!(came.is_ok(), is_resumed, "{wire_version}: {came:?}");
        assert_eq!(count(&server, "aggregate"), if is_resumed { 2 } else { 1 });
        wait_for_killed(&server, &[7]).await;
    }
}

#[tokio::test]
async fn cursor_not_found_is_resumed_without_kill_cursors() {
    let aggregates = [first(7, &[], Some("a")), first(8, &["1"], None)];
    let server = primary(aggregates, [command_error(43, &[])]);
    let (_client, mut stream) = watch(&server, "").await;
    assert_eq!(next_token(&mut stream).await, token("1"));
    drop(stream);
    wait_for_killed(&server, &[8]).await;
}

/// Prose test 2 of change streams. Current servers reject such a pipeline, so the server is scripted.
#[tokio::test]
async fn prose_2_an_event_without_a_token_fails_the_stream_and_closes_it() {
    let nameless = doc! { "ok": 1, "cursor": {
        "id": 7_i64, "ns": "db.books", "nextBatch": [{ "operationType": "insert" }],
    } };
    let server = primary([first(7, &["1"], None)], [vec![Step::Reply(nameless)]]);
    let (_client, mut stream) = watch(&server, "").await;
    assert_eq!(next_token(&mut stream).await, token("1"));
    let error = bounded(stream.try_next()).await.unwrap_err();
    assert!(matches!(&*error.kind, ErrorKind::MissingResumeToken), "{error:?}");
    assert!(bounded(stream.next()).await.is_none() && !stream.is_alive());
    assert_eq!(latest(&stream), Some(token("1")));
    wait_for_killed(&server, &[7]).await;
    assert_eq!(count(&server, "aggregate"), 1);
}

/// Polls a future once, then drops it.
async fn poll_once<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// Waits for the next event until the server has received this number of commands with this name, then drops the
/// future.
async fn interrupt(stream: &mut DocumentChangeStream, server: &Server, name: &str, count: usize) {
    tokio::select! {
        _ = stream.next() => panic!("there is no event yet"),
        _ = server.wait_for(|log| log.named(name).len() >= count) => {}
    }
}

#[tokio::test]
async fn a_dropped_next_loses_no_event() {
    let gate = Gate::closed();
    let held = [vec![Step::WaitFor(gate.clone())], next(7, &["1", "2"], None)].concat();
    let server = primary([first(7, &[], None)], [held]);
    let (_client, mut stream) = watch(&server, "").await;
    assert!(poll_once(stream.next()).await.is_none());
    interrupt(&mut stream, &server, "getMore", 1).await;
    assert!(poll_once(stream.next_if_any()).await.is_none());
    gate.open();
    assert_eq!(next_token(&mut stream).await, token("1"));
    assert_eq!(next_token(&mut stream).await, token("2"));
    assert_eq!(count(&server, "getMore"), 1);
}

#[tokio::test]
async fn several_dropped_futures_share_one_resume() {
    let gate = Gate::closed();
    let held = [vec![Step::WaitFor(gate.clone())], first(8, &["1"], None)].concat();
    let server = primary([first(7, &[], Some("a")), held], [network_error()]);
    let (_client, mut stream) = watch(&server, "").await;
    interrupt(&mut stream, &server, "aggregate", 2).await;
    assert!(poll_once(stream.next()).await.is_none());
    assert!(poll_once(stream.next_if_any()).await.is_none());
    assert!(stream.is_alive());
    gate.open();
    assert_eq!(next_token(&mut stream).await, token("1"));
    assert_eq!((count(&server, "aggregate"), count(&server, "getMore")), (2, 1));
}

#[tokio::test]
async fn a_stream_dropped_while_it_resumes_leaks_no_cursor() {
    let gate = Gate::closed();
    let held = [vec![Step::WaitFor(gate.clone())], first(8, &["1"], None)].concat();
    // CursorNotFound: the first cursor is not killed.
    let server = primary([first(7, &[], Some("a")), held], [command_error(43, &[])]);
    let (_client, mut stream) = watch(&server, "").await;
    interrupt(&mut stream, &server, "aggregate", 2).await;
    drop(stream);
    gate.open();
    wait_for_killed(&server, &[8]).await;
}

#[tokio::test]
async fn next_if_any_sends_one_get_more_and_resumes_once() {
    let aggregates = [first(7, &[], Some("a")), first(8, &[], Some("b"))];
    let server = primary(aggregates, [network_error(), next(8, &[], Some("c"))]);
    let (_client, mut stream) = watch(&server, "").await;
    assert!(bounded(stream.next_if_any()).await.unwrap().is_none());
    assert_eq!((count(&server, "aggregate"), count(&server, "getMore")), (2, 1));
    assert_eq!(latest(&stream), Some(token("b")));
    assert!(bounded(stream.next_if_any()).await.unwrap().is_none() && stream.is_alive());
    assert_eq!((count(&server, "aggregate"), count(&server, "getMore")), (2, 2));
    assert_eq!(latest(&stream), Some(token("c")));
}

/// pitfall 20
#[tokio::test]
async fn an_exhausted_stream_returns_its_session() {
    let server = primary([first(7, &[], None)], [next(0, &["1", "2"], None)]);
    let (client, mut stream) = watch(&server, "").await;
    assert_eq!(next_token(&mut stream).await, token("1"));
    assert!(stream.is_alive(), "an event is left");
    bounded(client.database("db").run_command(doc! { "ping": 1 })).await.unwrap();
    let log = server.log();
    let session = |name: &str| log.named(name)[0].body.get("lsid").cloned();
    assert_eq!(session("ping"), session("aggregate"));
    assert_eq!(next_token(&mut stream).await, token("2"));
    assert!(!stream.is_alive());
    assert!(bounded(stream.next()).await.is_none());
    drop(stream);
    bounded(client.shutdown()).await;
    assert_eq!(count(&server, "killCursors"), 0);
}

#[tokio::test]
async fn behind_a_load_balancer_a_resumed_stream_pins_another_connection() {
    let aggregates = [first(7, &[], Some("a")), first(8, &["1"], None)];
    let get_mores = [network_error(), next(8, &["2"], None)];
    let server = server(Role::LoadBalanced, 17, aggregates, get_mores);
    let (client, mut stream) = watch(&server, "loadBalanced=true&maxPoolSize=1").await;
    assert_eq!(next_token(&mut stream).await, token("1"));
    assert_eq!(next_token(&mut stream).await, token("2"));
    let log = server.log();
    let pinned = log.connections_of("aggregate");
    assert_eq!(log.connections_of("getMore"), pinned);
    assert_ne!(pinned[0], pinned[1]);
    drop(stream);
    // The pinned connection is checked in after `killCursors`.
    bounded(client.database("db").run_command(doc! { "ping": 1 })).await.unwrap();
    wait_for_killed(&server, &[8]).await;
    assert_eq!(server.log().connections_of("killCursors"), [pinned[1]]);
}
