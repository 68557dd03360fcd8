//! Behind a load balancer: no monitors, and cursors bound to their connections.

use super::*;

/// A server with a cursor of three batches.
fn cursor_server() -> Server {
    Server::with_handler(Role::LoadBalanced, |request| {
        let batch = |id: i64, field: &str, x: i32| {
            doc! { "ok": 1, "cursor": { "id": id, "ns": "db.people", field: [{ "x": x }] } }
        };
        let earlier = i32::try_from(request.earlier).unwrap();
        match request.name.as_str() {
            "find" => Some(vec![Step::Reply(batch(7, "firstBatch", 0))]),
            "getMore" => {
                // The connection has seen hello, find, and one getMore or none.
                let id = if earlier < 3 { 7 } else { 0 };
                Some(vec![Step::Reply(batch(id, "nextBatch", earlier))])
            }
            _ => None,
        }
    })
}

#[tokio::test]
async fn a_server_that_knows_of_no_load_balancer_is_refused() {
    let server = Server::plain(Role::Mongos);
    let client = Client::with_uri_str(server.uri("loadBalanced=true")).await.unwrap();
    let error = run(&client, "ping").await.expect_err("there is no serviceId");
    assert_says(&error, &["loadBalanced", "serviceId", &server.address()]);
}

#[tokio::test]
async fn nothing_is_monitored_and_hello_is_modern() {
    let server = Server::plain(Role::LoadBalanced);
    let client = Client::with_uri_str(server.uri("loadBalanced=true")).await.unwrap();
    run(&client, "ping").await.unwrap();
    let log = server.log();
    assert_eq!(log.opened, 1);
    assert!(!log.requests[0].legacy);
    assert!(log.requests[0].body.get_bool("loadBalanced").unwrap());
}

#[tokio::test]
async fn a_cursor_stays_with_its_connection_and_gives_it_back_at_its_end() {
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
    let home = log.connections_of("find")[0];
    assert_eq!(log.connections_of("getMore"), [home, home]);
    assert!(log.connections_of("ping")[..2].iter().all(|&other| other != home));
    // Both connections are free again.
    let pings = [start(&client, "ping"), start(&client, "ping")];
    for ping in pings {
        assert!(ping.await.unwrap().is_ok());
    }
    assert_eq!(server.log().opened, 2);
    assert!(server.log().named("killCursors").is_empty());
}

#[tokio::test]
async fn a_dropped_cursor_is_killed_through_its_connection_which_then_is_free() {
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
async fn the_service_is_named_in_events() {
    let server = Server::plain(Role::LoadBalanced);
    let (client, events) = client_with_commands(&server.uri("loadBalanced=true")).await;
    run(&client, "ping").await.unwrap();
    let named = events.seen().into_iter().all(|event| match event {
        CommandEvent::Started(event) => event.service_id.is_some(),
        CommandEvent::Succeeded(event) => event.service_id.is_some(),
        _ => false,
    });
    assert!(named && events.seen().len() == 2);
}
