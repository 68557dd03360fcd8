//! Compression: agreed upon in the handshake, used both ways, and never for secrets.

use super::*;

async fn both_ways(name: &'static str) {
    let server = Server::with_handler(Role::Standalone, move |request| {
        let hello = doc! { "compression": [name] };
        request.is_hello().then(|| vec![Step::Hello(hello)])
    });
    let client = Client::with_uri_str(server.uri(&format!("compressors={name}"))).await.unwrap();
    let admin = client.database("admin");
    let mut ping = doc! { "ping": 1, "comment": "x".repeat(1000) };
    assert_eq!(bounded(admin.run_command(ping.clone())).await.unwrap(), doc! { "ok": 1 });
    // pitfall 46: what carries secrets is never compressed.
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
    assert_eq!(sent, ping, "nothing is lost on the way");
    let offered = log.requests[0].body.get_array("compression").unwrap();
    assert_eq!(offered.iter().filter_map(|name| name.as_str()).collect::<Vec<_>>(), [name]);
}

#[cfg(feature = "snappy")]
#[tokio::test]
async fn snappy_is_used_both_ways_but_for_secrets() {
    both_ways("snappy").await;
}

#[cfg(feature = "zlib")]
#[tokio::test]
async fn zlib_is_used_both_ways_but_for_secrets() {
    both_ways("zlib").await;
}

#[cfg(feature = "zstd")]
#[tokio::test]
async fn zstd_is_used_both_ways_but_for_secrets() {
    both_ways("zstd").await;
}

#[tokio::test]
async fn a_server_without_the_compressor_is_sent_plain_messages() {
    let server = Server::lenient(Role::Standalone);
    let uri = server.uri("compressors=zstd,zlib,snappy");
    run(&Client::with_uri_str(uri).await.unwrap(), "ping").await.unwrap();
    assert!(server.log().requests.iter().all(|request| request.compressor.is_none()));
}
