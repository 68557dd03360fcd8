//! How connections and the proxy itself end, and that nothing is left of them.

use blackpipe::proxy::{Direction, Event, Proxy, Reaction, Rule};
use bson::doc;
use tokio::{io::AsyncWriteExt, net::TcpListener, time::timeout};

use crate::{
    client::{Client, PATIENCE, insert, ping, until_executed},
    slowness::assert_silence,
    upstream::Upstream,
};

#[tokio::test]
async fn a_connection_ends_though_its_replies_are_stalled_or_not_read() {
    let upstream = Upstream::start().await;
    let (sender, mut closed) = tokio::sync::mpsc::unbounded_channel();
    let builder = Proxy::before(upstream.address.to_string()).observe(move |event| {
        if let Event::Closed { why, .. } = event {
            let _ = sender.send((*why).to_owned());
        }
    });
    let proxy = builder.start().await.unwrap();
    proxy.add(Rule::new(Reaction::stall(Direction::Reply)).command("insert"));
    let mut client = Client::of(&proxy).await;
    client.send(insert(1, 10)).await;
    until_executed(&proxy, 1).await;
    assert_silence(&mut client).await;
    drop(client);
    let why = timeout(PATIENCE, closed.recv()).await.unwrap();
    assert_eq!(why.as_deref(), Some("the client hung up"));

    // More than the buffers between the two hold, of which nothing is read; then garbage.
    upstream.answer_with(doc! { "ok": 1.0, "filling": "x".repeat(15_000_000) });
    let mut client = Client::of(&proxy).await;
    for _ in 0..3 {
        client.send(ping()).await;
    }
    client.stream.readable().await.unwrap();
    client.stream.write_all(&[0xff; 16]).await.unwrap();
    let why = timeout(PATIENCE, closed.recv()).await.unwrap().unwrap();
    assert!(why.contains("-1 bytes"), "{why}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_ports_of_a_proxy_are_free_when_it_has_ended() {
    let upstream = Upstream::start().await;
    upstream.say_hello_with(doc! { "ok": 1.0, "hosts": ["db1:1", "db2:1", "db3:1"] });
    for _ in 0..20 {
        let proxy = upstream.proxy().await;
        Client::of(&proxy).await.run(ping()).await.unwrap();
        let members = proxy.members();
        proxy.shutdown().await;
        for (address, _) in members {
            TcpListener::bind(address).await.unwrap();
        }
    }
}
