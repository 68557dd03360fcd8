//! Malformed input from clients: invalid messages, false lengths, early disconnects. The proxy and
//! other connections continue.

use blackpipe::proxy::{Proxy, ProxyEvent, Reaction, Rule};
use tokio::io::AsyncWriteExt;

use crate::{
    client::{RawClient, insert, ping},
    fake_server::FakeServer,
};

fn header(length: i32, op_code: i32) -> Vec<u8> {
    [length, 1, 0, op_code].iter().flat_map(|field| field.to_le_bytes()).collect()
}

#[tokio::test]
async fn invalid_length_closes_only_its_connection() {
    let server = FakeServer::start().await;
    let proxy = server.proxy().await;
    let mut bystander = RawClient::of(&proxy).await;
    bystander.run(ping()).await.unwrap();
    let liars = [
        header(-1, 2013),
        header(0, 2013),
        header(15, 2013),
        header(48_000_001, 2013),
        header(i32::MAX, 2013),
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        // A TLS handshake, whose first bytes could be a length.
        [&[0x16, 3, 1, 2, 0][..], &[0; 600]].concat(),
    ];
    for liar in liars {
        let mut client = RawClient::of(&proxy).await;
        client.stream.write_all(&liar).await.unwrap();
        let (answer, _) = client.rest().await;
        assert_eq!(answer, b"");
        bystander.run(ping()).await.unwrap();
    }
}

#[tokio::test]
async fn invalid_messages_affect_no_other_connection() {
    let server = FakeServer::start().await;
    let proxy = server.proxy().await;
    proxy.add(Rule::new(Reaction::error(1)).command("insert").namespace("elsewhere"));
    let mut bystander = RawClient::of(&proxy).await;
    let valid = bystander.message(insert(1, 50));
    let mut raw_bytes: Vec<Vec<u8>> = [1, 2004, 2007, 2012, 2013, 77, -1]
        .iter()
        .flat_map(|&op_code| {
            [&[][..], &[0xff; 60], &[0; 60], &[1; 60]].map(|payload| {
                let length = i32::try_from(16 + payload.len()).unwrap();
                [&header(length, op_code)[..], payload].concat()
            })
        })
        .collect();
    // A valid message with one wrong byte, anywhere after its length.
    for at in 4..valid.len() {
        let mut wrong = valid.clone();
        wrong[at] ^= 0x85;
        raw_bytes.push(wrong);
    }
    for message in raw_bytes {
        let mut client = RawClient::of(&proxy).await;
        client.stream.write_all(&message).await.unwrap();
        drop(client);
    }
    bystander.run(ping()).await.unwrap();
}

/// A command with documents nested to this depth.
fn nested(command: &str, depth: usize) -> Vec<u8> {
    let length = |bytes: usize| i32::try_from(bytes).unwrap().to_le_bytes();
    let mut deep = Vec::new();
    for level in (1..=depth).rev() {
        deep.extend(length(5 + 7 * level));
        deep.extend([3, 0]);
    }
    deep.extend(length(5));
    deep.resize(deep.len() + 1 + depth, 0);
    let fields =
        [b"\x08", command.as_bytes(), b"\0\x01\x03add\0", &deep, b"\x02$db\0\x02\0\0\0d\0\0"];
    let fields = fields.concat();
    let mut message = header(i32::try_from(16 + 5 + 4 + fields.len()).unwrap(), 2013);
    message.extend([0; 5]);
    message.extend(length(4 + fields.len()));
    message.extend(fields);
    message
}

#[tokio::test]
async fn deeply_nested_documents_do_not_crash_the_proxy() {
    let server = FakeServer::start().await;
    let watched = Proxy::builder(server.address.to_string()).observe(|event| {
        if let ProxyEvent::Request { message, .. } = event {
            // Decodes the body, as a recording observer does.
            let _ = message.body.map(bson::Document::try_from);
        }
    });
    let proxy = watched.start().await.unwrap();
    for command in ["blackPipe", "configureFailPoint", "ping"] {
        let mut client = RawClient::of(&proxy).await;
        client.stream.write_all(&nested(command, 100_000)).await.unwrap();
        client.reply().await.unwrap();
        client.run(ping()).await.unwrap();
    }
}

#[tokio::test]
async fn client_disconnect_at_any_byte_affects_no_other_connection() {
    let server = FakeServer::start().await;
    let proxy = server.proxy().await;
    let mut bystander = RawClient::of(&proxy).await;
    let message = bystander.message(insert(1, 50));
    for sent in 0..=message.len() {
        let mut client = RawClient::of(&proxy).await;
        client.stream.write_all(&message[..sent]).await.unwrap();
        if sent % 2 == 0 {
            client.stream.set_zero_linger().unwrap();
        }
        drop(client);
    }
    bystander.run(insert(2, 50)).await.unwrap();
    // An incomplete request is never executed.
    let ledger = proxy.ledger();
    assert!(ledger.count("insert", "shop.orders").attempts <= 2);
}

#[tokio::test]
async fn pipelined_requests_are_forwarded_in_order() {
    let server = FakeServer::start().await;
    let proxy = server.proxy().await;
    let mut client = RawClient::of(&proxy).await;
    let messages: Vec<u8> = (0..500).flat_map(|nth| client.message(insert(nth, 300))).collect();
    client.stream.write_all(&messages).await.unwrap();
    for _ in 0..500 {
        assert_eq!(client.reply().await.unwrap().get_i32("n").unwrap(), 1);
    }
    assert_eq!(proxy.ledger().count("insert", "shop.orders").executions, 500);
}

#[tokio::test]
async fn large_message_is_forwarded_early_and_recorded_when_complete() {
    let mut server = FakeServer::start().await;
    let proxy = server.proxy().await;
    let mut client = RawClient::of(&proxy).await;
    let message = client.message(insert(1, 1_000_000));
    let (early, late) = message.split_at(400_000);
    client.stream.write_all(early).await.unwrap();
    server.until(1, early.len()).await;
    assert_eq!(proxy.ledger().entries().count(), 0);
    // A rule added too late for this request applies to the next.
    proxy.add(Rule::new(Reaction::cut_request()).command("insert"));
    client.stream.write_all(late).await.unwrap();
    assert_eq!(client.reply().await.unwrap().get_i32("n").unwrap(), 1);
    assert_eq!(server.so_far(1).bytes, message);
    assert_eq!(proxy.ledger().count("insert", "shop.orders").executions, 1);
    client.run(insert(2, 1_000_000)).await.unwrap_err();
    assert_eq!(server.ended(1).await.bytes.len(), message.len());
}
