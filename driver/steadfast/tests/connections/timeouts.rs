//! Time-outs of the client: `socketTimeoutMS`, `connectTimeoutMS` and `serverSelectionTimeoutMS`.

use super::*;

#[tokio::test]
async fn a_missing_reply_is_an_error_after_socket_timeout_ms() {
    let (server, _gate) = slow_server(Role::Standalone);
    let clock = Clock::stopped();
    let client = Client::with_uri_str(server.uri("socketTimeoutMS=200")).await.unwrap();
    let slow = start(&client, "slow");
    server.wait_for(|log| !log.named("slow").is_empty()).await;
    clock.pass(Duration::from_millis(150)).await;
    assert!(!slow.is_finished());
    clock.pass(Duration::from_millis(50)).await;
    let error = slow.await.unwrap().expect_err("the gate stays closed");
    assert!(error.is_network_timeout(), "{error:?}");
    assert_message_contains(&error, &["socketTimeoutMS", &server.address()]);
    run(&client, "ping").await.unwrap();
}

#[tokio::test]
async fn socket_timeout_ms_does_not_apply_to_handshakes_and_monitors() {
    let gates = [Gate::closed(), Gate::closed()];
    let server = Server::with_handler(Role::Standalone, {
        let gates = gates.clone();
        move |request| {
            let gate = &gates[usize::from(is_handshake_for_operations(request))];
            let slowly = vec![Step::WaitFor(gate.clone()), Step::Hello(doc! {})];
            request.is_hello().then_some(slowly)
        }
    });
    let clock = Clock::stopped();
    let uri = server.uri("socketTimeoutMS=100&connectTimeoutMS=10000");
    let client = Client::with_uri_str(uri).await.unwrap();
    let ping = start(&client, "ping");
    for (hellos, gate) in (1..).zip(&gates) {
        server.wait_for(|log| log.requests.len() == hellos).await;
        clock.pass(Duration::from_millis(400)).await;
        gate.open();
    }
    ping.await.unwrap().unwrap();
}

#[tokio::test]
async fn connection_establishment_fails_after_connect_timeout_ms() {
    let server = Server::with_handler(Role::Standalone, |request| {
        is_handshake_for_operations(request).then(Vec::new)
    });
    let clock = Clock::stopped();
    let uri = server.uri("connectTimeoutMS=300&retryReads=false");
    let client = Client::with_uri_str(uri).await.unwrap();
    let ping = start(&client, "ping");
    server.wait_for(|log| log.requests.iter().any(is_handshake_for_operations)).await;
    clock.pass(Duration::from_millis(250)).await;
    assert!(!ping.is_finished());
    clock.pass(Duration::from_millis(50)).await;
    let error = ping.await.unwrap().expect_err("no handshake is answered");
    assert!(error.is_network_timeout(), "{error:?}");
    assert_message_contains(&error, &["connectTimeoutMS", &server.address()]);
}

#[tokio::test]
async fn server_selection_fails_after_server_selection_timeout_ms() {
    let server = Server::with_handler(Role::Standalone, |_| Some(Vec::new()));
    let clock = Clock::stopped();
    let client = Client::with_uri_str(server.uri("serverSelectionTimeoutMS=200")).await.unwrap();
    let ping = start(&client, "ping");
    server.wait_for(|log| !log.requests.is_empty()).await;
    clock.pass(Duration::from_millis(150)).await;
    assert!(!ping.is_finished());
    clock.pass(Duration::from_millis(50)).await;
    let error = ping.await.unwrap().expect_err("no hello is answered");
    assert!(error.is_server_selection_error(), "{error:?}");
    assert_message_contains(
        &error,
        &["serverSelectionTimeoutMS", "has not been checked yet", &server.address()],
    );
}
