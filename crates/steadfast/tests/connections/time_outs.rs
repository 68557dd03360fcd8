//! How long things are waited for: each time-out does what it says.

use super::*;

#[tokio::test]
async fn a_reply_is_waited_for_as_long_as_socket_timeout_says() {
    let (server, _gate) = slow_server(Role::Standalone);
    let client = Client::with_uri_str(server.uri("socketTimeoutMS=200")).await.unwrap();
    let began = Instant::now();
    let error = run(&client, "slow").await.expect_err("nobody opens the gate");
    assert!(began.elapsed() >= Duration::from_millis(200));
    assert!(error.is_network_timeout(), "{error:?}");
    assert_says(&error, &["socketTimeoutMS", &server.address()]);
    run(&client, "ping").await.unwrap();
}

#[tokio::test]
async fn socket_timeout_says_nothing_of_handshakes_and_monitors() {
    let server = Server::with_handler(Role::Standalone, |request| {
        let slowly = vec![Step::Pause(Duration::from_millis(400)), Step::Hello(doc! {})];
        request.is_hello().then_some(slowly)
    });
    let uri = server.uri("socketTimeoutMS=100&connectTimeoutMS=10000");
    let client = Client::with_uri_str(uri).await.unwrap();
    run(&client, "ping").await.unwrap();
}

#[tokio::test]
async fn a_connection_is_to_be_made_within_connect_timeout() {
    let server = Server::with_handler(Role::Standalone, |request| {
        is_handshake_for_operations(request).then(Vec::new)
    });
    let client = Client::with_uri_str(server.uri("connectTimeoutMS=300")).await.unwrap();
    let began = Instant::now();
    let error = run(&client, "ping").await.expect_err("no handshake is answered");
    assert!(began.elapsed() >= Duration::from_millis(300));
    assert!(error.is_network_timeout(), "{error:?}");
    assert_says(&error, &["connectTimeoutMS", &server.address()]);
}

#[tokio::test]
async fn a_server_is_looked_for_as_long_as_server_selection_timeout_says() {
    let server = Server::with_handler(Role::Standalone, |_| Some(Vec::new()));
    let client = Client::with_uri_str(server.uri("serverSelectionTimeoutMS=200")).await.unwrap();
    let began = Instant::now();
    let error = run(&client, "ping").await.expect_err("no hello is answered");
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(200) && took < Duration::from_secs(8), "{took:?}");
    assert!(error.is_server_selection_error(), "{error:?}");
    assert_says(&error, &["serverSelectionTimeoutMS", "has not answered yet", &server.address()]);
}
