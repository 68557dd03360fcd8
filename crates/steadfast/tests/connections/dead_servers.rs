//! Servers that die while operations wait for them, and come back.

use super::*;

const IMPATIENT: &str = "heartbeatFrequencyMS=500&connectTimeoutMS=400";

/// Whether it is a hello of the monitor's after the first.
fn is_later_heartbeat(request: &Request) -> bool {
    request.connection == 1 && request.is_hello() && request.earlier > 0
}

#[tokio::test]
async fn operations_do_not_wait_for_a_server_that_its_monitor_finds_dead() {
    let server = Server::with_handler(Role::Standalone, |request| {
        (request.name == "slow" || is_later_heartbeat(request)).then(Vec::new)
    });
    let client = Client::with_uri_str(server.uri(IMPATIENT)).await.unwrap();
    let error = run(&client, "slow").await.expect_err("nothing is ever answered");
    assert!(error.is_network_error(), "{error:?}");
    assert_says(&error, &["interrupted", &server.address()]);
}

#[tokio::test]
async fn operations_that_cannot_even_be_sent_are_interrupted_too() {
    let server = Server::with_handler(Role::Standalone, |request| {
        // After the handshake, nothing is read from the connection any more.
        let deaf = || vec![Step::Hello(doc! {}), Step::Wait(Gate::closed())];
        match is_handshake_for_operations(request) {
            true => Some(deaf()),
            false => is_later_heartbeat(request).then(Vec::new),
        }
    });
    let client = Client::with_uri_str(server.uri(IMPATIENT)).await.unwrap();
    // More than the buffers on the way can hold.
    let command = doc! { "slow": 1, "text": "x".repeat(40_000_000) };
    let sending = bounded(client.database("db").run_command(command)).await;
    let error = sending.expect_err("it cannot be sent");
    assert!(error.is_network_error(), "{error:?}");
    assert_says(&error, &["interrupted", &server.address()]);
}

#[tokio::test]
async fn a_server_that_comes_back_is_used_again() {
    let dead = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let server = Server::with_handler(Role::Standalone, {
        let dead = Arc::clone(&dead);
        move |_| dead.load(std::sync::atomic::Ordering::SeqCst).then(|| vec![Step::HangUp])
    });
    let client = Client::with_uri_str(server.uri(IMPATIENT)).await.unwrap();
    run(&client, "ping").await.unwrap();
    dead.store(true, std::sync::atomic::Ordering::SeqCst);
    run(&client, "ping").await.expect_err("it hangs up");
    dead.store(false, std::sync::atomic::Ordering::SeqCst);
    run(&client, "ping").await.expect("it is found again");
}
