//! Shutdown and dropping of clients, and dropped futures.

use super::*;

#[tokio::test]
async fn shutdown_waits_for_pending_operations_and_rejects_new_ones() {
    let (server, gate) = slow_server(Role::Standalone);
    let client = Client::with_uri_str(server.uri("")).await.unwrap();
    let slow = start(&client, "slow");
    server.wait_for(|log| !log.named("slow").is_empty()).await;
    let mut shutdown = tokio::spawn(client.clone().shutdown().into_future());
    // Once a new operation is rejected, the shutdown has begun; it has not ended.
    let error = bounded(async {
        loop {
            match run(&client, "ping").await {
                Ok(_) => tokio::task::yield_now().await,
                Err(error) => break error,
            }
        }
    })
    .await;
    assert!(matches!(&*error.kind, ErrorKind::Shutdown), "{error:?}");
    assert!(!shutdown.is_finished() && !slow.is_finished());
    gate.open();
    assert!(slow.await.unwrap().is_ok());
    bounded(&mut shutdown).await.unwrap();
    server.wait_for(|log| log.open == 0).await;
    let error = run(&client, "ping").await.expect_err("it is shut down");
    assert!(matches!(&*error.kind, ErrorKind::Shutdown), "{error:?}");
}

#[tokio::test]
async fn immediate_shutdown_does_not_wait_for_operations() {
    let (server, _gate) = slow_server(Role::Standalone);
    let client = Client::with_uri_str(server.uri("")).await.unwrap();
    let slow = start(&client, "slow");
    server.wait_for(|log| !log.named("slow").is_empty()).await;
    bounded(client.clone().shutdown().immediate(true)).await;
    assert!(!slow.is_finished());
    slow.abort();
}

#[tokio::test]
async fn shutdown_interrupts_server_selection() {
    let server = Server::with_handler(Role::Standalone, |_| Some(Vec::new()));
    let client = Client::with_uri_str(server.uri("")).await.unwrap();
    let ping = start(&client, "ping");
    server.wait_for(|log| !log.requests.is_empty()).await;
    bounded(client.shutdown().immediate(true)).await;
    let error = bounded(ping).await.unwrap().expect_err("no server was found");
    assert!(matches!(&*error.kind, ErrorKind::Shutdown), "{error:?}");
}

#[tokio::test]
async fn dropping_the_last_clone_closes_all_connections() {
    let server = Server::lenient(Role::Standalone);
    let client = Client::with_uri_str(server.uri("minPoolSize=2")).await.unwrap();
    bounded(client.warm_connection_pool()).await;
    let clone = client.clone();
    drop(client);
    run(&clone, "ping").await.unwrap();
    drop(clone);
    server.wait_for(|log| log.open == 0).await;
}

#[tokio::test]
async fn the_reply_to_a_dropped_future_is_read_and_the_connection_kept() {
    // pitfalls 21, 22 and 24
    let _clock = Clock::stopped();
    let (server, gate) = slow_server(Role::Standalone);
    let client = Client::with_uri_str(server.uri("maxPoolSize=1")).await.unwrap();
    let slow = start(&client, "slow");
    server.wait_for(|log| !log.named("slow").is_empty()).await;
    slow.abort();
    assert!(slow.await.unwrap_err().is_cancelled());
    let ping = start(&client, "ping");
    gate.open();
    assert_eq!(ping.await.unwrap().unwrap(), doc! { "ok": 1 }, "its own reply");
    let log = server.log();
    assert_eq!(log.connections_of("slow"), log.connections_of("ping"));
    assert_eq!(log.opened, 2, "one of the monitor, one of operations");
}

/// Returns the number of checked-out connections, and the highest number of open connections.
fn checked_out_and_max_open(events: &[CmapEvent]) -> (i32, i32) {
    let (mut checked_out, mut open, mut max_open) = (0, 0, 0);
    for event in events {
        match event {
            CmapEvent::ConnectionCreated(_) => open += 1,
            CmapEvent::ConnectionClosed(_) => open -= 1,
            CmapEvent::ConnectionCheckedOut(_) => checked_out += 1,
            CmapEvent::ConnectionCheckedIn(_) => checked_out -= 1,
            _ => {}
        }
        max_open = max_open.max(open);
    }
    (checked_out, max_open)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operations_dropped_at_any_point_leak_no_connection_and_no_reply() {
    // pitfalls 21 and 22
    let server = Server::with_handler(Role::Standalone, |request| {
        let number = request.body.get_i32("echo").ok()?;
        let pause = Duration::from_micros(u64::try_from(number % 7).unwrap() * 300);
        Some(vec![Step::Delay(pause), Step::Reply(doc! { "ok": 1, "number": number })])
    });
    let (client, events) = client_with_cmap(&server.uri("maxPoolSize=4")).await;
    let tasks: Vec<_> = (0..32)
        .map(|task| {
            let database = client.database("db");
            tokio::spawn(async move {
                let mut answered = 0;
                for number in task * 100..task * 100 + 60 {
                    // From a time-out that is too short to one that is long enough.
                    let limit = Duration::from_micros(u64::try_from(number * 37 % 9000).unwrap());
                    let echo = database.run_command(doc! { "echo": number });
                    let Ok(reply) = tokio::time::timeout(limit, echo.into_future()).await else {
                        continue;
                    };
                    let reply = reply.expect("dropped operations do not affect others");
                    assert_eq!(reply.get_i32("number").unwrap(), number);
                    answered += 1;
                }
                answered
            })
        })
        .collect();
    let mut answered = 0;
    for task in tasks {
        answered += task.await.unwrap();
    }
    assert!(answered < 32 * 60, "some were dropped");
    events.wait_until(|seen| checked_out_and_max_open(seen).0 == 0).await;
    assert!(checked_out_and_max_open(&events.seen()).1 <= 4);
    for number in 0..20 {
        let database = client.database("db");
        let reply = bounded(database.run_command(doc! { "echo": number })).await.unwrap();
        assert_eq!(reply.get_i32("number").unwrap(), number);
    }
}

#[tokio::test]
async fn a_cancelled_checkout_leaves_the_wait_queue() {
    let (server, gate) = slow_server(Role::Standalone);
    let (client, events) = client_with_cmap(&server.uri("maxPoolSize=1")).await;
    let slow = start(&client, "slow");
    server.wait_for(|log| !log.named("slow").is_empty()).await;
    let given_up = start(&client, "ping");
    events.wait_for(2, is_checkout_started).await;
    given_up.abort();
    assert!(given_up.await.unwrap_err().is_cancelled());
    let kept = start(&client, "hostInfo");
    events.wait_for(3, is_checkout_started).await;
    gate.open();
    assert!(slow.await.unwrap().is_ok());
    assert!(kept.await.unwrap().is_ok());
    assert!(server.log().named("ping").is_empty());
}
