//! Servers that stop responding while operations wait for replies, and recover.

use super::*;

const SHORT_TIMEOUTS: &str = "heartbeatFrequencyMS=500&connectTimeoutMS=400";

/// Returns `true` for a `hello` of the monitor after the first.
fn is_later_heartbeat(request: &Request) -> bool {
    request.connection == 1 && request.is_hello() && request.earlier_requests > 0
}

/// Waits until the next heartbeat was sent, and lets its time-out expire.
async fn expire_heartbeat(server: &Server, clock: &Clock) {
    clock.pass(Duration::from_millis(500)).await;
    server.wait_for(|log| log.requests.iter().any(is_later_heartbeat)).await;
    clock.pass(Duration::from_millis(400)).await;
}

#[tokio::test]
async fn operations_are_interrupted_when_the_heartbeat_fails() {
    let server = Server::with_handler(Role::Standalone, |request| {
        (request.name == "slow" || is_later_heartbeat(request)).then(Vec::new)
    });
    let clock = Clock::stopped();
    let client = Client::with_uri_str(server.uri(SHORT_TIMEOUTS)).await.unwrap();
    let slow = start(&client, "slow");
    server.wait_for(|log| !log.named("slow").is_empty()).await;
    expire_heartbeat(&server, &clock).await;
    let error = slow.await.unwrap().expect_err("the server sends no reply");
    assert!(error.is_network_error(), "{error:?}");
    assert_message_contains(&error, &["interrupted", &server.address()]);
}

#[tokio::test]
async fn blocked_sends_are_interrupted_when_the_heartbeat_fails() {
    let server = Server::with_handler(Role::Standalone, |request| {
        // After the handshake, the server reads nothing from the connection.
        let not_reading = || vec![Step::Hello(doc! {}), Step::WaitFor(Gate::closed())];
        match is_handshake_for_operations(request) {
            true => Some(not_reading()),
            false => is_later_heartbeat(request).then(Vec::new),
        }
    });
    let clock = Clock::stopped();
    let (client, commands) = client_with_commands(&server.uri(SHORT_TIMEOUTS)).await;
    // More bytes than the socket buffers hold.
    let command = doc! { "slow": 1, "text": "x".repeat(40_000_000) };
    let database = client.database("db");
    let sending = bounded(database.run_command(command));
    let (sent, ()) = tokio::join!(sending, async {
        commands.wait_for(1, |event| matches!(event, CommandEvent::Started(_))).await;
        expire_heartbeat(&server, &clock).await;
    });
    let error = sent.expect_err("it cannot be sent");
    assert!(error.is_network_error(), "{error:?}");
    assert_message_contains(&error, &["interrupted", &server.address()]);
}

#[tokio::test]
async fn a_recovered_server_is_used_again() {
    let dead = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let server = Server::with_handler(Role::Standalone, {
        let dead = Arc::clone(&dead);
        move |_| dead.load(std::sync::atomic::Ordering::SeqCst).then(|| vec![Step::HangUp])
    });
    let client = Client::with_uri_str(server.uri("heartbeatFrequencyMS=500")).await.unwrap();
    run(&client, "ping").await.unwrap();
    dead.store(true, std::sync::atomic::Ordering::SeqCst);
    run(&client, "ping").await.expect_err("it hangs up");
    dead.store(false, std::sync::atomic::Ordering::SeqCst);
    run(&client, "ping").await.expect("the server is available again");
}
