//! Compression: negotiated in the handshake, used in both directions, never for authentication commands.

use super::*;

async fn compresses_both_directions(name: &'static str) {
    let server = Server::with_handler(Role::Standalone, move |request| {
        let hello = doc! { "compression": [name] };
        request.is_hello().then(|| vec![Step::Hello(hello)])
    });
    let client = Client::with_uri_str(server.uri(&format!("compressors={name}"))).await.unwrap();
    let admin = client.database("admin");
    let mut ping = doc! { "ping": 1, "comment": "x".repeat(1000) };
    assert_eq!(bounded(admin.run_command(ping.clone())).await.unwrap(), doc! { "ok": 1 });
    // pitfall 46: commands with secrets are never compressed.
    for secret in ["saslStart", "saslContinue", "authenticate", "createUser", "hello"] {
        bounded(admin.run_command(doc! { secret: 1 })).await.unwrap();
    }
    let log = server.log();
    for request in &log.requests {
        let used = request.compressor.map(|used| used.name());
        assert_eq!(used, (request.name == "ping").then_some(name), "{request:?}");
    }
    ping.insert("$db", "admin");
    let mut sent = log.named("ping")[0].body.clone();
    sent.remove("lsid");
    assert_eq!(sent, ping, "the command arrives unchanged");
    let offered = log.requests[0].body.get_array("compression").unwrap();
    assert_eq!(offered.iter().filter_map(|name| name.as_str()).collect::<Vec<_>>(), [name]);
}

#[cfg(feature = "snappy")]
#[tokio::test]
async fn snappy_compresses_both_directions_except_auth_commands() {
    compresses_both_directions("snappy").await;
}

#[cfg(feature = "zlib")]
#[tokio::test]
async fn zlib_compresses_both_directions_except_auth_commands() {
    compresses_both_directions("zlib").await;
}

#[cfg(feature = "zstd")]
#[tokio::test]
async fn zstd_compresses_both_directions_except_auth_commands() {
    compresses_both_directions("zstd").await;
}

#[tokio::test]
async fn messages_are_uncompressed_if_the_server_lacks_the_compressor() {
    let server = Server::lenient(Role::Standalone);
    let uri = server.uri("compressors=zstd,zlib,snappy");
    run(&Client::with_uri_str(uri).await.unwrap(), "ping").await.unwrap();
    assert!(server.log().requests.iter().all(|request| request.compressor.is_none()));
}
