//! Connection pool limits: `maxPoolSize`, `minPoolSize`, `maxConnecting`, `maxIdleTimeMS` and `waitQueueTimeoutMS`.

use super::*;

#[tokio::test]
async fn connection_checkout_fails_after_wait_queue_timeout_ms() {
    let (server, gate) = slow_server(Role::Standalone);
    let clock = Clock::stopped();
    let (client, events) =
        client_with_cmap(&server.uri("maxPoolSize=1&waitQueueTimeoutMS=200")).await;
    let slow = start(&client, "slow");
    server.wait_for(|log| !log.named("slow").is_empty()).await;
    let ping = start(&client, "ping");
    events.wait_for(2, is_checkout_started).await;
    clock.pass(Duration::from_millis(150)).await;
    assert!(!ping.is_finished());
    clock.pass(Duration::from_millis(50)).await;
    let error = ping.await.unwrap().expect_err("the only connection is in use");
    assert!(error.is_network_timeout(), "{error:?}");
    assert_message_contains(&error, &["waitQueueTimeoutMS", "1 are in use", &server.address()]);
    gate.open();
    assert!(slow.await.unwrap().is_ok());
    assert!(run(&client, "ping").await.is_ok(), "its place in the queue is gone");
    assert_eq!(server.log().opened, 2, "one of the monitor, one of operations");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_do_not_exceed_max_pool_size() {
    let server = Server::lenient(Role::Standalone);
    let client = Client::with_uri_str(server.uri("maxPoolSize=3")).await.unwrap();
    let tasks: Vec<_> = (0..40)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move {
                for _ in 0..10 {
                    run(&client, "ping").await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let log = server.log();
    assert_eq!(log.named("ping").len(), 400);
    let used: BTreeSet<_> = log.connections_of("ping").into_iter().collect();
    assert!(used.len() <= 3, "{used:?}");
    assert!(log.most_open <= 4, "three, and the monitor's: {}", log.most_open);
}

#[tokio::test]
async fn concurrent_handshakes_do_not_exceed_max_connecting() {
    let gate = Gate::closed();
    let server = Server::with_handler(Role::Standalone, {
        let gate = gate.clone();
        move |request| {
            let held = [Step::WaitFor(gate.clone()), Step::Hello(doc! {})];
            is_handshake_for_operations(request).then(|| held.to_vec())
        }
    });
    let (client, events) = client_with_cmap(&server.uri("maxConnecting=2")).await;
    let pings: Vec<_> = (0..6).map(|_| start(&client, "ping")).collect();
    // All six operations have entered the wait queue.
    events.wait_for(6, is_checkout_started).await;
    assert_eq!(events.seen().iter().filter(|event| is_created(event)).count(), 2);
    gate.open();
    for ping in pings {
        assert!(ping.await.unwrap().is_ok());
    }
}

#[tokio::test]
async fn min_pool_size_connections_are_kept_ready() {
    let server = Server::lenient(Role::Standalone);
    let (client, events) = client_with_cmap(&server.uri("minPoolSize=3")).await;
    bounded(client.warm_connection_pool()).await;
    assert_eq!(server.log().opened, 4, "three, and the monitor's");
    let pings = [start(&client, "ping"), start(&client, "ping"), start(&client, "ping")];
    for ping in pings {
        assert!(ping.await.unwrap().is_ok());
    }
    assert_eq!(events.seen().iter().filter(|event| is_created(event)).count(), 3);
}

#[tokio::test]
async fn warming_does_not_wait_for_a_server_that_closes_connections() {
    let server = Server::with_handler(Role::Standalone, |request| {
        is_handshake_for_operations(request).then(|| vec![Step::HangUp])
    });
    let client = Client::with_uri_str(server.uri("minPoolSize=2")).await.unwrap();
    bounded(client.warm_connection_pool()).await;
    let error = run(&client, "ping").await.expect_err("no connection is available");
    assert_message_contains(&error, &["closed the connection", &server.address()]);
}

#[tokio::test]
async fn warming_ends_at_shutdown() {
    let gate = Gate::closed();
    let server = Server::with_handler(Role::Standalone, move |request| {
        is_handshake_for_operations(request).then(|| vec![Step::WaitFor(gate.clone())])
    });
    let client = Client::with_uri_str(server.uri("minPoolSize=1")).await.unwrap();
    let warming = tokio::spawn({
        let client = client.clone();
        async move { bounded(client.warm_connection_pool()).await }
    });
    server.wait_for(|log| log.requests.iter().any(is_handshake_for_operations)).await;
    bounded(client.shutdown()).await;
    warming.await.expect("it ends in time");
}

#[tokio::test]
async fn a_connection_idle_for_longer_than_max_idle_time_is_closed() {
    let server = Server::lenient(Role::Standalone);
    let (client, events) = client_with_cmap(&server.uri("maxIdleTimeMS=50")).await;
    run(&client, "ping").await.unwrap();
    let idle = |event: &CmapEvent| {
        matches!(event, CmapEvent::ConnectionClosed(closed)
            if closed.reason == ConnectionClosedReason::Idle)
    };
    events.wait_for(1, idle).await;
    server.wait_for(|log| log.open == 1).await;
    run(&client, "ping").await.unwrap();
    let used = server.log().connections_of("ping");
    assert_ne!(used[0], used[1]);
}
