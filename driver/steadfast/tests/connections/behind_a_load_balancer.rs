//! Load-balanced mode: no monitors, and cursors and transactions pinned to their connections.

use steadfast::bson::oid::ObjectId;

use super::*;

/// Server with a cursor of three batches.
fn cursor_server() -> Server {
    Server::with_handler(Role::LoadBalanced, |request| {
        let batch = |id: i64, field: &str, x: i32| {
            doc! { "ok": 1, "cursor": { "id": id, "ns": "db.people", field: [{ "x": x }] } }
        };
        let earlier = i32::try_from(request.earlier_requests).unwrap();
        match request.name.as_str() {
            "find" => Some(vec![Step::Reply(batch(7, "firstBatch", 0))]),
            "getMore" => {
                // The connection has received `hello`, `find`, and at most one `getMore`.
                let id = if earlier < 3 { 7 } else { 0 };
                Some(vec![Step::Reply(batch(id, "nextBatch", earlier))])
            }
            _ => None,
        }
    })
}

#[tokio::test]
async fn load_balanced_client_has_no_monitor_and_sends_hello() {
    let server = Server::lenient(Role::LoadBalanced);
    let client = Client::with_uri_str(server.uri("loadBalanced=true")).await.unwrap();
    run(&client, "ping").await.unwrap();
    let log = server.log();
    assert_eq!(log.opened, 1);
    assert!(!log.requests[0].legacy);
    assert!(log.requests[0].body.get_bool("loadBalanced").unwrap());
}

#[tokio::test]
async fn a_cursor_pins_its_connection_until_it_is_exhausted() {
    let server = cursor_server();
    let uri = server.uri("loadBalanced=true&maxPoolSize=2&waitQueueTimeoutMS=30000");
    let client = Client::with_uri_str(uri).await.unwrap();
    let people = client.database("db").collection::<Document>("people");
    let mut cursor = bounded(people.find(doc! {})).await.unwrap();
    run(&client, "ping").await.unwrap();
    let mut count = 0;
    while bounded(cursor.advance()).await.unwrap() {
        run(&client, "ping").await.unwrap();
        count += 1;
    }
    assert_eq!(count, 3);
    let log = server.log();
    let pinned = log.connections_of("find")[0];
    assert_eq!(log.connections_of("getMore"), [pinned, pinned]);
    assert!(log.connections_of("ping")[..2].iter().all(|&other| other != pinned));
    // Both connections are available again.
    let pings = [start(&client, "ping"), start(&client, "ping")];
    for ping in pings {
        assert!(ping.await.unwrap().is_ok());
    }
    assert_eq!(server.log().opened, 2);
    assert!(server.log().named("killCursors").is_empty());
}

#[tokio::test]
async fn a_dropped_cursor_is_killed_on_its_connection_which_is_then_checked_in() {
    let server = cursor_server();
    let uri = server.uri("loadBalanced=true&maxPoolSize=1&waitQueueTimeoutMS=30000");
    let client = Client::with_uri_str(uri).await.unwrap();
    let people = client.database("db").collection::<Document>("people");
    let mut cursor = bounded(people.find(doc! {})).await.unwrap();
    assert!(bounded(cursor.advance()).await.unwrap());
    drop(cursor);
    run(&client, "ping").await.expect("the only connection comes back");
    let log = server.wait_for(|log| !log.named("killCursors").is_empty()).await;
    assert_eq!(log.connections_of("killCursors"), log.connections_of("find"));
    assert_eq!(server.log().opened, 1);
}

#[tokio::test]
async fn command_events_have_the_service_id() {
    let server = Server::lenient(Role::LoadBalanced);
    let (client, events) = client_with_commands(&server.uri("loadBalanced=true")).await;
    run(&client, "ping").await.unwrap();
    let named = events.seen().into_iter().all(|event| match event {
        CommandEvent::Started(event) => event.service_id.is_some(),
        CommandEvent::Succeeded(event) => event.service_id.is_some(),
        _ => false,
    });
    assert!(named && events.seen().len() == 2);
}

#[tokio::test]
async fn unacknowledged_writes_send_hints() {
    let server = Server::lenient(Role::LoadBalanced);
    let client = Client::with_uri_str(server.uri("loadBalanced=true&w=0")).await.unwrap();
    let people = client.database("db").collection::<Document>("people");
    let hint = || steadfast::options::Hint::Name("i".to_owned());
    people.delete_one(doc! {}).hint(hint()).await.unwrap();
    people.find_one_and_delete(doc! {}).hint(hint()).await.unwrap();
    let model = steadfast::options::DeleteManyModel::new(doc! {}).hint(hint());
    people.bulk_write([model.into()]).await.unwrap();
    let sent =
        |log: &ServerLog| log.named("delete").len() == 2 && log.named("findAndModify").len() == 1;
    server.wait_for(sent).await;
}

fn cleared_services(events: &Recorder<CmapEvent>) -> Vec<Option<ObjectId>> {
    let services = events.seen().into_iter().filter_map(|event| match event {
        CmapEvent::PoolCleared(event) => Some(event.service_id),
        _ => None,
    });
    services.collect()
}

/// `serviceId` number `number`.
fn service(number: u8) -> ObjectId {
    ObjectId::from_bytes([number; 12])
}

#[tokio::test]
async fn failed_authentication_clears_the_pool_of_its_service() {
    // A network error, a command error and a malformed reply.
    let ways = [
        vec![Step::HangUp],
        vec![Step::Reply(doc! { "ok": 0, "code": 18, "errmsg": "wrong password" })],
        vec![Step::Reply(doc! { "ok": 1 })],
    ];
    for way in ways {
        let server = Server::with_handler(Role::LoadBalanced, move |request| {
            (request.name == "saslStart").then(|| way.clone())
        });
        let uri = server.uri("loadBalanced=true").replace("://", "://user:pencil@");
        let (client, events) = client_with_cmap(&uri).await;
        run(&client, "ping").await.expect_err("authentication fails");
        let max_time_ms: Vec<_> = events.seen().iter().filter_map(kind_of_failure).collect();
        assert_eq!(max_time_ms, ["created", "cleared", "closed", "check-out failed"]);
        assert_eq!(cleared_services(&events), [Some(service(7))]);
    }
}

fn kind_of_failure(event: &CmapEvent) -> Option<&'static str> {
    match event {
        CmapEvent::ConnectionCreated(_) => Some("created"),
        CmapEvent::PoolCleared(_) => Some("cleared"),
        CmapEvent::ConnectionClosed(_) => Some("closed"),
        CmapEvent::ConnectionCheckoutFailed(_) => Some("check-out failed"),
        _ => None,
    }
}

#[tokio::test]
async fn failed_handshake_clears_no_pool() {
    let ways = [
        vec![Step::HangUp],
        vec![Step::Reply(doc! { "ok": 0, "code": 11600, "errmsg": "interrupted at shutdown" })],
        vec![Step::Hello(doc! { "serviceId": null })],
    ];
    for way in ways {
        let server = Server::with_handler(Role::LoadBalanced, move |request| {
            request.is_hello().then(|| way.clone())
        });
        let (client, events) = client_with_cmap(&server.uri("loadBalanced=true")).await;
        run(&client, "ping").await.expect_err("no connection is available");
        assert_eq!(cleared_services(&events), []);
    }
}

/// Both connections are authenticating when the first fails. The second failure has an old generation and clears
/// nothing.
#[tokio::test]
async fn connections_of_one_service_that_fail_together_clear_its_pool_once() {
    let gate = Gate::closed();
    let server = Server::with_handler(Role::LoadBalanced, {
        let gate = gate.clone();
        move |request| match request.name.as_str() {
            "saslStart" => Some(vec![Step::WaitFor(gate.clone()), Step::HangUp]),
            // The third and later connections lead to another service.
            _ if request.is_hello() => {
                let number = if request.connection <= 2 { 7 } else { 8 };
                Some(vec![Step::Hello(doc! { "serviceId": service(number) })])
            }
            _ => None,
        }
    });
    let uri = server.uri("loadBalanced=true&maxConnecting=3").replace("://", "://user:pencil@");
    let (client, events) = client_with_cmap(&uri).await;
    let pings = [start(&client, "ping"), start(&client, "ping"), start(&client, "ping")];
    server.wait_for(|log| log.named("saslStart").len() == 3).await;
    gate.open();
    for ping in pings {
        ping.await.unwrap().expect_err("authentication fails");
    }
    let cleared = cleared_services(&events);
    let times = |number| cleared.iter().filter(|it| **it == Some(service(number))).count();
    assert_eq!(times(7), 1, "{cleared:?}");
    // An operation whose connection is closed gets another connection, which fails, too.
    assert!(times(8) >= 1 && times(7) + times(8) == cleared.len(), "{cleared:?}");
}

/// Message given by the specification.
#[tokio::test]
async fn server_without_load_balancing_is_rejected_with_the_specified_message() {
    let server = Server::lenient(Role::Mongos);
    let client = Client::with_uri_str(server.uri("loadBalanced=true")).await.unwrap();
    let error = run(&client, "ping").await.expect_err("there is no serviceId");
    let ErrorKind::IncompatibleServer { message, .. } = &*error.kind else { panic!("{error:?}") };
    let words = "Driver attempted to initialize in load balancing mode, but the server does not \
                 support this mode.";
    assert_eq!(message, words);
    assert_message_contains(&error, &[&server.address()]);
}

#[tokio::test]
async fn wait_queue_timeout_error_counts_connections_by_use() {
    let gate = Gate::closed();
    let server = Server::with_handler(Role::LoadBalanced, {
        let gate = gate.clone();
        move |request| {
            let cursor = doc! { "id": 7_i64, "ns": "db.people", "firstBatch": [{ "x": 1 }] };
            match request.name.as_str() {
                "find" => Some(vec![Step::Reply(doc! { "ok": 1, "cursor": cursor })]),
                "insert" => Some(vec![Step::Reply(doc! { "ok": 1, "n": 1 })]),
                "slow" => Some(vec![Step::WaitFor(gate.clone()), Step::Reply(doc! { "ok": 1 })]),
                _ => None,
            }
        }
    });
    let clock = Clock::stopped();
    let uri = server.uri("loadBalanced=true&maxPoolSize=4&waitQueueTimeoutMS=200");
    let (client, events) = client_with_cmap(&uri).await;
    let people = client.database("db").collection::<Document>("people");
    let timed_out = async |started: usize, used: &str| {
        let ping = start(&client, "ping");
        events.wait_for(started, is_checkout_started).await;
        clock.pass(Duration::from_millis(200)).await;
        let error = ping.await.unwrap().expect_err("all connections are in use");
        let text = "Timeout waiting for connection from the connection pool. maxPoolSize: 4, \
                    connections in use by";
        assert_message_contains(&error, &[&format!("{text} {used}"), &server.address()]);
        assert!(error.is_network_timeout(), "{error:?}");
    };
    let cursors = [bounded(people.find(doc! {})).await, bounded(people.find(doc! {})).await];
    let mut session = bounded(client.start_session()).await.unwrap();
    bounded(session.start_transaction()).await.unwrap();
    bounded(people.insert_one(doc! {}).session(&mut session)).await.unwrap();
    let slow = start(&client, "slow");
    server.wait_for(|log| !log.named("slow").is_empty()).await;
    timed_out(
        5,
        "cursors: 2, connections in use by transactions: 1, connections in use by other \
                  operations: 1",
    )
    .await;
    // A cursor of the transaction uses the pinned connection of the transaction.
    let within = bounded(people.find(doc! {}).session(&mut session)).await.unwrap();
    let [_, closed] = cursors;
    drop(closed);
    server.wait_for(|log| log.named("killCursors").len() == 1).await;
    let second = start(&client, "slow");
    server.wait_for(|log| log.named("slow").len() == 2).await;
    timed_out(
        7,
        "cursors: 1, connections in use by transactions: 1, connections in use by other \
                  operations: 2",
    )
    .await;
    gate.open();
    for slow in [slow, second] {
        slow.await.unwrap().unwrap();
    }
    drop(within);
}
