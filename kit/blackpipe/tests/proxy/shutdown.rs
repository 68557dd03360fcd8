//! Ends of connections and shutdown of the proxy.

use blackpipe::proxy::{Direction, Proxy, ProxyEvent, Reaction, Rule};
use bson::doc;
use tokio::{io::AsyncWriteExt, net::TcpListener, time::timeout};

use crate::{
    client::{RawClient, TEST_TIMEOUT, insert, ping, until_executed},
    delays::assert_silence,
    fake_server::FakeServer,
};

#[tokio::test]
async fn connection_closes_despite_stalled_or_unread_replies() {
    let server = FakeServer::start().await;
    let (sender, mut closed) = tokio::sync::mpsc::unbounded_channel();
    let builder = Proxy::builder(server.address.to_string()).observe(move |event| {
        if let ProxyEvent::Closed { why, .. } = event {
            let _ = sender.send((*why).to_owned());
        }
    });
    let proxy = builder.start().await.unwrap();
    proxy.add(Rule::new(Reaction::stall(Direction::Reply)).command("insert"));
    let mut client = RawClient::of(&proxy).await;
    client.send(insert(1, 10)).await;
    until_executed(&proxy, 1).await;
    assert_silence(&mut client).await;
    drop(client);
    let why = timeout(TEST_TIMEOUT, closed.recv()).await.unwrap();
    assert_eq!(why.as_deref(), Some("the client closed the connection"));

    // The replies exceed all buffers and are not read. The invalid message then ends the
    // connection.
    server.answer_with(doc! { "ok": 1.0, "filling": "x".repeat(15_000_000) });
    let mut client = RawClient::of(&proxy).await;
    for _ in 0..3 {
        client.send(ping()).await;
    }
    client.stream.readable().await.unwrap();
    client.stream.write_all(&[0xff; 16]).await.unwrap();
    let why = timeout(TEST_TIMEOUT, closed.recv()).await.unwrap().unwrap();
    assert!(why.contains("invalid message length -1"), "{why}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shutdown_frees_all_ports() {
    let server = FakeServer::start().await;
    server.say_hello_with(doc! { "ok": 1.0, "hosts": ["db1:1", "db2:1", "db3:1"] });
    for _ in 0..20 {
        let proxy = server.proxy().await;
        RawClient::of(&proxy).await.run(ping()).await.unwrap();
        let members = proxy.members();
        proxy.shutdown().await;
        for (address, _) in members {
            TcpListener::bind(address).await.unwrap();
        }
    }
}
