//! Requests and replies cut at exact byte positions, in one packet and in many.

use std::io;

use blackpipe::proxy::{Delivery, Proxy, Reaction, Rule};
use bson::doc;

use crate::{
    client::{RawClient, insert, ping},
    fake_server::FakeServer,
};

/// Extra bytes: a message in one packet, and one in many.
const SIZES: [usize; 2] = [100, 1_000_000];

/// Index of the first client connection. The proxy's own `hello` is connection 0.
const FIRST: usize = 1;

fn cuts(length: usize) -> Vec<usize> {
    let mut cuts = vec![0, 1, 3, 4, 15, 16, 17, 21, length / 2, length - 1, length];
    if length > 100_000 {
        cuts.extend([1448, 1460, 65_535, 65_536, 65_537]);
    }
    cuts
}

#[tokio::test]
async fn request_is_cut_at_the_exact_byte() {
    let mut server = FakeServer::start().await;
    let proxy = server.proxy().await;
    let mut nth = FIRST;
    for size in SIZES {
        let length = RawClient::of(&proxy).await.message(insert(1, size)).len();
        nth += 1;
        for after in cuts(length) {
            proxy.add(Rule::new(Reaction::cut_request_after(after)).name("cut").command("insert"));
            let mut client = RawClient::of(&proxy).await;
            let message = client.message(insert(1, size));
            let sent = tokio::io::AsyncWriteExt::write_all(&mut client.stream, &message).await;
            sent.unwrap();
            let (answer, ended) = client.rest().await;
            ended.expect("an orderly end");
            assert_eq!(answer, b"", "nothing comes back");
            let got = server.ended(nth).await;
            assert_eq!(got.bytes.len(), after, "of {length} bytes");
            assert_eq!(got.bytes, message[..after]);
            nth += 1;
        }
    }
    let ledger = proxy.ledger();
    let wholly = ledger.entries().filter(|entry| entry.delivery == Delivery::Whole).count();
    assert_eq!(wholly, 2, "those that were cut behind their last byte");
}

#[tokio::test]
async fn reply_is_cut_at_the_exact_byte() {
    let server = FakeServer::start().await;
    let proxy = server.proxy().await;
    for size in SIZES {
        server.answer_with(doc! { "ok": 1.0, "n": 1, "filling": "x".repeat(size) });
        let whole = server.answer_bytes(1);
        for packet in [usize::MAX, 1000] {
            server.answer_in_packets_of(packet);
            for after in cuts(whole.len()) {
                proxy.add(Rule::new(Reaction::cut_reply_after(after)).name("cut"));
                let mut client = RawClient::of(&proxy).await;
                client.send(ping()).await;
                let (answer, ended) = client.rest().await;
                ended.expect("an orderly end");
                assert_eq!(answer.len(), after, "of {} bytes", whole.len());
                assert_eq!(answer, whole[..after]);
            }
        }
    }
    let ledger = proxy.ledger();
    assert!(ledger.entries().all(|entry| entry.answer.is_some_and(|answer| answer.ok)));
}

#[tokio::test]
async fn lost_reply_belongs_to_an_executed_request() {
    let mut server = FakeServer::start().await;
    let proxy = server.proxy().await;
    proxy.add(Rule::new(Reaction::lose_reply()).command("insert").retry(false));
    let mut client = RawClient::of(&proxy).await;
    client.send(insert(1, 10)).await;
    let (answer, ended) = client.rest().await;
    ended.expect("an orderly end");
    assert_eq!(answer, b"");
    let message = RawClient::of(&proxy).await.message(insert(1, 10));
    assert_eq!(server.ended(FIRST).await.bytes, message);

    // The same write again is a retry and passes.
    server.answer_with(doc! { "ok": 1.0, "n": 1, "retriedStmtIds": [0] });
    let reply = RawClient::of(&proxy).await.run(insert(1, 10)).await.unwrap();
    assert_eq!(reply.get_i32("n").unwrap(), 1);
    let ledger = proxy.ledger();
    let [write] = ledger.writes_of("insert", "shop.orders")[..] else { panic!("one write") };
    assert_eq!((write.attempts, write.deliveries), (2, 2));
    assert_eq!((write.executions, write.from_record), (1, 1));
    assert!(!ledger.anything_applied_twice());
    let applied: Vec<_> = proxy.rules().iter().map(blackpipe::proxy::RuleState::applied).collect();
    assert_eq!(applied, [1]);
}

#[tokio::test]
async fn with_reset_resets_instead_of_closing() {
    let server = FakeServer::start().await;
    let proxy = server.proxy().await;
    let reactions = [
        Reaction::cut_request(),
        Reaction::cut_request_after(30),
        Reaction::lose_reply(),
        Reaction::cut_reply_after(10),
    ];
    for reaction in reactions {
        for reset in [false, true] {
            let reaction = if reset { reaction.clone().with_reset() } else { reaction.clone() };
            proxy.add(Rule::new(reaction.clone()).name("cut"));
            let mut client = RawClient::of(&proxy).await;
            client.send(ping()).await;
            let (_, ended) = client.rest().await;
            let kind = ended.err().map(|error| error.kind());
            let expected = reset.then_some(io::ErrorKind::ConnectionReset);
            assert_eq!(kind, expected, "{reaction:?}");
        }
    }
}

#[tokio::test]
async fn refuse_applies_the_given_number_of_times() {
    let server = FakeServer::start().await;
    let proxy = server.proxy().await;
    proxy.add(Rule::new(Reaction::Refuse).times(2));
    for _ in 0..2 {
        let mut client = RawClient::of(&proxy).await;
        client.run(ping()).await.unwrap_err();
    }
    RawClient::of(&proxy).await.run(ping()).await.unwrap();
}

#[tokio::test]
async fn unacknowledged_write_is_forwarded_before_the_cut() {
    let mut server = FakeServer::start().await;
    let proxy = server.proxy().await;
    proxy.add(Rule::new(Reaction::lose_reply()).command("insert"));
    let mut client = RawClient::of(&proxy).await;
    let mut message = client.message(insert(1, 10));
    // Flag `moreToCome`.
    message[16] |= 2;
    tokio::io::AsyncWriteExt::write_all(&mut client.stream, &message).await.unwrap();
    let (answer, _) = client.rest().await;
    assert_eq!(answer, b"");
    assert_eq!(server.ended(FIRST).await.bytes, message);
}

#[tokio::test]
async fn client_disconnect_closes_only_its_server_connection() {
    let mut server = FakeServer::start().await;
    let proxy: Proxy = server.proxy().await;
    let mut other = RawClient::of(&proxy).await;
    other.run(ping()).await.unwrap();
    let mut client = RawClient::of(&proxy).await;
    client.run(ping()).await.unwrap();
    let length = client.message(ping()).len();
    drop(client);
    assert_eq!(server.ended(FIRST + 1).await.bytes.len(), length);
    other.run(ping()).await.unwrap();
    assert!(!server.so_far(FIRST).ended);
}
