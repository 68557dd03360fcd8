//! Server monitoring: streaming heartbeats, step-downs and servers that stop responding.

use steadfast::bson::oid::ObjectId;

use super::*;

/// `hello` reply of a replica set member with this `topologyVersion` counter.
fn member(counter: i64, primary: bool) -> Step {
    Step::Hello(fields(counter, primary))
}

/// Fields of that reply that differ from the default.
fn fields(counter: i64, primary: bool) -> Document {
    let version = doc! { "processId": ObjectId::from_bytes([3; 12]), "counter": counter };
    let mut hello = doc! { "topologyVersion": version };
    if !primary {
        hello.extend(doc! {
            "ismaster": false, "isWritablePrimary": false, "secondary": true,
            "primary": Bson::Null, "electionId": Bson::Null,
        });
    }
    hello
}

/// Returns `true` for an awaitable `hello`.
fn is_awaited(request: &Request) -> bool {
    request.is_hello() && request.body.contains_key("topologyVersion")
}

#[tokio::test]
async fn a_streaming_monitor_detects_an_election() {
    let election = Gate::closed();
    let server = Server::with_handler(Role::Primary, {
        let election = election.clone();
        move |request| match (request.is_hello(), is_awaited(request)) {
            (false, _) => None,
            (true, false) => Some(vec![member(1, false)]),
            (true, true) => {
                let elected = member(2, true);
                let silence = Step::WaitFor(Gate::closed());
                Some(vec![Step::WaitFor(election.clone()), elected, silence])
            }
        }
    });
    // No other check becomes due during this test.
    let uri = server.uri("replicaSet=set&heartbeatFrequencyMS=600000");
    let client = Client::with_uri_str(uri).await.unwrap();
    server.wait_for(|log| log.requests.iter().any(is_awaited)).await;
    let ping = start(&client, "ping");
    election.open();
    assert!(bounded(ping).await.unwrap().is_ok());
}

/// Member that is elected when the first gate opens, and accepts writes when the second opens.
fn candidate(elected: &Gate, writable: &Gate) -> Server {
    let (elected, writable) = (elected.clone(), writable.clone());
    Server::with_handler(Role::Primary, move |request| {
        let known = request.body.get_document("topologyVersion").ok();
        let known = known.and_then(|version| version.get_i64("counter").ok());
        match (request.is_hello(), known) {
            (false, _) => None,
            (true, None) => Some(vec![member(1, false)]),
            (true, Some(1)) => {
                let mut hello = fields(2, false);
                // It is the only member, so `hello` names itself as the primary only after the election.
                hello.remove("primary");
                Some(vec![Step::WaitFor(elected.clone()), Step::Hello(hello)])
            }
            (true, Some(2)) => Some(vec![Step::WaitFor(writable.clone()), member(3, true)]),
            (true, Some(_)) => Some(vec![Step::WaitFor(Gate::closed())]),
        }
    })
}

#[tokio::test]
async fn a_pending_selection_opens_a_connection_to_the_elected_member_early() {
    let (elected, writable) = (Gate::closed(), Gate::closed());
    let server = candidate(&elected, &writable);
    let uri = server.uri("replicaSet=set&heartbeatFrequencyMS=600000");
    let (client, events) = client_with_cmap(&uri).await;
    server.wait_for(|log| log.requests.iter().any(is_awaited)).await;
    let ping = start(&client, "ping");
    // The test has a single thread: once this task continues, the other waits in server selection.
    tokio::task::yield_now().await;
    elected.open();
    events.wait_for(1, |event| matches!(event, CmapEvent::ConnectionReady(_))).await;
    assert!(!events.seen().iter().any(is_checkout_started), "no operation waits yet");
    writable.open();
    assert!(bounded(ping).await.unwrap().is_ok());
    let created = |event: &&CmapEvent| matches!(event, CmapEvent::ConnectionCreated(_));
    assert_eq!(events.seen().iter().filter(created).count(), 1, "no second connection");
}

#[tokio::test]
async fn no_connection_is_opened_early_without_a_pending_selection() {
    let (elected, writable) = (Gate::closed(), Gate::closed());
    let server = candidate(&elected, &writable);
    let uri = server.uri("replicaSet=set&heartbeatFrequencyMS=600000");
    let (client, events) = client_with_cmap(&uri).await;
    elected.open();
    // The monitor sends the next `hello` only after it has processed the election.
    let knows = |request: &Request| {
        let version = request.body.get_document("topologyVersion");
        version.is_ok_and(|it| it.get_i64("counter").is_ok_and(|counter| counter == 2))
    };
    server.wait_for(|log| log.requests.iter().any(knows)).await;
    let created = |event: &CmapEvent| matches!(event, CmapEvent::ConnectionCreated(_));
    assert!(!events.seen().iter().any(created));
    writable.open();
    run(&client, "ping").await.expect("the member is primary");
}

#[tokio::test]
async fn a_streaming_monitor_detects_a_silent_server() {
    let server = Server::with_handler(Role::Primary, |request| {
        if request.name == "slow" || is_awaited(request) {
            return Some(Vec::new());
        }
        request.is_hello().then(|| vec![member(1, true)])
    });
    let uri = server.uri("replicaSet=set&heartbeatFrequencyMS=500&connectTimeoutMS=400");
    let clock = Clock::stopped();
    let client = Client::with_uri_str(uri).await.unwrap();
    let slow = start(&client, "slow");
    let is_there = |log: &common::ServerLog| {
        !log.named("slow").is_empty() && log.requests.iter().any(is_awaited)
    };
    server.wait_for(is_there).await;
    clock.pass(Duration::from_millis(500 + 400)).await;
    let error = slow.await.unwrap().expect_err("the server sends no reply");
    assert!(error.is_network_error(), "{error:?}");
    assert_message_contains(&error, &["interrupted", &server.address()]);
}

#[tokio::test]
async fn a_server_that_stepped_down_is_checked_before_it_is_used() {
    let server = Server::with_handler(Role::Primary, |request| {
        let no = doc! { "ok": 0, "code": 10107, "codeName": "NotWritablePrimary", "errmsg": "no" };
        (request.name == "insert").then(|| vec![Step::Reply(no)])
    });
    let client = Client::with_uri_str(server.uri("replicaSet=set")).await.unwrap();
    let people = client.database("db").collection::<Document>("people");
    let error = bounded(people.insert_one(doc! { "_id": 1 })).await.expect_err("not primary");
    assert_eq!(error.code(), Some(10107));
    let hellos = |log: &common::ServerLog| log.requests.iter().filter(|it| it.is_hello()).count();
    let before = hellos(&server.log());
    run(&client, "ping").await.expect("the member is primary again");
    let log = server.log();
    assert!(hellos(&log) > before, "the server was checked");
    assert_eq!(log.connections_of("ping"), log.connections_of("insert"), "from 4.2 on, kept");
}

#[tokio::test]
async fn pool_cleared_error_contains_its_cause() {
    // pitfall 26
    let gate = Gate::closed();
    let server = Server::with_handler(Role::Standalone, {
        let gate = gate.clone();
        move |request| {
            let dies = [Step::WaitFor(gate.clone()), Step::HangUp];
            (request.name == "slow").then(|| dies.to_vec())
        }
    });
    let (client, events) = client_with_cmap(&server.uri("maxPoolSize=1")).await;
    let slow = start(&client, "slow");
    server.wait_for(|log| !log.named("slow").is_empty()).await;
    let waiting = start(&client, "ping");
    events.wait_for(2, is_checkout_started).await;
    gate.open();
    assert_message_contains(
        &slow.await.unwrap().unwrap_err(),
        &["closed the connection", &server.address()],
    );
    let error = waiting.await.unwrap().expect_err("the pool is cleared");
    assert!(matches!(&*error.kind, ErrorKind::ConnectionPoolCleared { .. }), "{error:?}");
    assert_message_contains(&error, &["closed the connection", &server.address()]);
    run(&client, "ping").await.expect("the pool is made ready again");
}
