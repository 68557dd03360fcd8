//! Delays, rates and stalls: what is held up, what is not, and that it goes on.

use std::time::{Duration, Instant};

use blackpipe::proxy::{Direction, Reaction, Rule};
use bson::doc;
use tokio::time::timeout;

use crate::{
    client::{Client, PATIENCE, insert, ping, until_applied, until_executed},
    upstream::Upstream,
};

/// The proxy's own hello is the first connection that the server gets.
const FIRST: usize = 1;

#[tokio::test]
async fn a_delayed_request_reaches_the_server_late_and_a_delayed_reply_does_not() {
    const DELAY: Duration = Duration::from_millis(300);
    let mut upstream = Upstream::start().await;
    let proxy = upstream.proxy().await;
    proxy.add(Rule::new(Reaction::delay(DELAY)).name("delay").command("ping"));
    let began = Instant::now();
    let mut client = Client::of(&proxy).await;
    client.send(ping()).await;
    client.stream.readable().await.unwrap();
    assert!(began.elapsed() >= DELAY);

    proxy.add(Rule::new(Reaction::delay_reply(DELAY)).name("delay").command("ping"));
    let mut client = Client::of(&proxy).await;
    let began = Instant::now();
    let length = client.message(ping()).len();
    client.run(ping()).await.unwrap();
    assert!(began.elapsed() >= DELAY);
    drop(client);
    assert_eq!(upstream.ended(FIRST + 1).await.bytes.len(), length);
}

#[tokio::test]
async fn a_throttled_message_takes_its_time() {
    let upstream = Upstream::start().await;
    let proxy = upstream.proxy().await;
    proxy.add(Rule::new(Reaction::throttle(20_000)).command("insert"));
    let mut client = Client::of(&proxy).await;
    let began = Instant::now();
    client.run(insert(1, 8_000)).await.unwrap();
    let took = began.elapsed().as_secs_f64();
    assert!((0.4..PATIENCE.as_secs_f64()).contains(&took), "{took} s");
    // Others are not held up.
    client.run(ping()).await.unwrap();
}

#[tokio::test]
async fn a_stalled_request_does_not_reach_the_server_until_the_rule_is_removed() {
    let upstream = Upstream::start().await;
    let proxy = upstream.proxy().await;
    let rule = proxy.add(Rule::new(Reaction::stall(Direction::Request)).command("insert"));
    let mut client = Client::of(&proxy).await;
    client.run(ping()).await.unwrap();
    let before = upstream.so_far(FIRST).bytes.len();
    client.send(insert(1, 10)).await;
    client.send(ping()).await;
    until_applied(&proxy, 1).await;
    assert_silence(&mut client).await;
    assert_eq!(upstream.so_far(FIRST).bytes.len(), before);
    // Another connection is not stalled.
    Client::of(&proxy).await.run(ping()).await.unwrap();

    assert_eq!(proxy.remove(&rule), Some(1));
    timeout(PATIENCE, client.reply()).await.unwrap().unwrap();
    timeout(PATIENCE, client.reply()).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_stalled_reply_is_of_a_request_that_was_executed_and_comes_in_the_end() {
    let upstream = Upstream::start().await;
    let proxy = upstream.proxy().await;
    proxy.add(Rule::new(Reaction::stall(Direction::Reply)).command("insert"));
    let mut client = Client::of(&proxy).await;
    client.send(insert(1, 10)).await;
    until_executed(&proxy, 1).await;
    assert_silence(&mut client).await;
    proxy.clear();
    assert_eq!(
        timeout(PATIENCE, client.reply()).await.unwrap().unwrap(),
        doc! { "ok": 1.0, "n": 1 }
    );
}

#[tokio::test]
async fn a_client_that_leaves_a_stalled_connection_leaves_nothing_behind() {
    let mut upstream = Upstream::start().await;
    let proxy = upstream.proxy().await;
    for (nth, direction) in [(FIRST, Direction::Request), (FIRST + 1, Direction::Reply)] {
        let executed = u64::from(direction == Direction::Reply);
        proxy.add(Rule::new(Reaction::stall(direction)).name("stall").command("insert"));
        let mut client = Client::of(&proxy).await;
        client.send(insert(1, 10)).await;
        // What comes after it is not read any more.
        client.send(ping()).await;
        until_applied(&proxy, 1).await;
        until_executed(&proxy, executed).await;
        assert_silence(&mut client).await;
        drop(client);
        assert!(upstream.ended(nth).await.ended);
    }
}

/// Nothing comes for a while, not even an end.
pub(crate) async fn assert_silence(client: &mut Client) {
    let quiet = timeout(Duration::from_millis(150), client.stream.peek(&mut [0; 1])).await;
    assert!(quiet.is_err(), "something came: {quiet:?}");
}
