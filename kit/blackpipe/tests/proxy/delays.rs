//! Delays, rates and stalls.

use std::time::{Duration, Instant};

use blackpipe::proxy::{Direction, Reaction, Rule};
use bson::doc;
use tokio::time::timeout;

use crate::{
    client::{RawClient, TEST_TIMEOUT, insert, ping, until_applied, until_executed},
    fake_server::FakeServer,
};

/// Index of the first client connection. The proxy's own `hello` is connection 0.
const FIRST: usize = 1;

#[tokio::test]
async fn delay_applies_to_the_chosen_direction() {
    const DELAY: Duration = Duration::from_millis(300);
    let mut server = FakeServer::start().await;
    let proxy = server.proxy().await;
    proxy.add(Rule::new(Reaction::delay(DELAY)).name("delay").command("ping"));
    let began = Instant::now();
    let mut client = RawClient::of(&proxy).await;
    client.send(ping()).await;
    client.stream.readable().await.unwrap();
    assert!(began.elapsed() >= DELAY);

    proxy.add(Rule::new(Reaction::delay_reply(DELAY)).name("delay").command("ping"));
    let mut client = RawClient::of(&proxy).await;
    let began = Instant::now();
    let length = client.message(ping()).len();
    client.run(ping()).await.unwrap();
    assert!(began.elapsed() >= DELAY);
    drop(client);
    assert_eq!(server.ended(FIRST + 1).await.bytes.len(), length);
}

#[tokio::test]
async fn throttle_limits_the_rate_of_a_message() {
    let server = FakeServer::start().await;
    let proxy = server.proxy().await;
    proxy.add(Rule::new(Reaction::throttle(20_000)).command("insert"));
    let mut client = RawClient::of(&proxy).await;
    let began = Instant::now();
    client.run(insert(1, 8_000)).await.unwrap();
    let took = began.elapsed().as_secs_f64();
    assert!((0.4..TEST_TIMEOUT.as_secs_f64()).contains(&took), "{took} s");
    // Other requests are not throttled.
    client.run(ping()).await.unwrap();
}

#[tokio::test]
async fn stalled_request_is_forwarded_after_the_rule_is_removed() {
    let server = FakeServer::start().await;
    let proxy = server.proxy().await;
    let rule = proxy.add(Rule::new(Reaction::stall(Direction::Request)).command("insert"));
    let mut client = RawClient::of(&proxy).await;
    client.run(ping()).await.unwrap();
    let before = server.so_far(FIRST).bytes.len();
    client.send(insert(1, 10)).await;
    client.send(ping()).await;
    until_applied(&proxy, 1).await;
    assert_silence(&mut client).await;
    assert_eq!(server.so_far(FIRST).bytes.len(), before);
    // Another connection is not stalled.
    RawClient::of(&proxy).await.run(ping()).await.unwrap();

    assert_eq!(proxy.remove(&rule), Some(1));
    timeout(TEST_TIMEOUT, client.reply()).await.unwrap().unwrap();
    timeout(TEST_TIMEOUT, client.reply()).await.unwrap().unwrap();
}

#[tokio::test]
async fn stalled_reply_arrives_after_the_rule_is_removed() {
    let server = FakeServer::start().await;
    let proxy = server.proxy().await;
    proxy.add(Rule::new(Reaction::stall(Direction::Reply)).command("insert"));
    let mut client = RawClient::of(&proxy).await;
    client.send(insert(1, 10)).await;
    until_executed(&proxy, 1).await;
    assert_silence(&mut client).await;
    proxy.clear_rules();
    assert_eq!(
        timeout(TEST_TIMEOUT, client.reply()).await.unwrap().unwrap(),
        doc! { "ok": 1.0, "n": 1 }
    );
}

#[tokio::test]
async fn client_disconnect_closes_a_stalled_connection() {
    let mut server = FakeServer::start().await;
    let proxy = server.proxy().await;
    for (nth, direction) in [(FIRST, Direction::Request), (FIRST + 1, Direction::Reply)] {
        let executed = u64::from(direction == Direction::Reply);
        proxy.add(Rule::new(Reaction::stall(direction)).name("stall").command("insert"));
        let mut client = RawClient::of(&proxy).await;
        client.send(insert(1, 10)).await;
        // Later requests on the connection are not read.
        client.send(ping()).await;
        until_applied(&proxy, 1).await;
        until_executed(&proxy, executed).await;
        assert_silence(&mut client).await;
        drop(client);
        assert!(server.ended(nth).await.ended);
    }
}

/// Asserts that nothing arrives for a while, not even the end of the connection.
pub(crate) async fn assert_silence(client: &mut RawClient) {
    let quiet = timeout(Duration::from_millis(150), client.stream.peek(&mut [0; 1])).await;
    assert!(quiet.is_err(), "something came: {quiet:?}");
}
