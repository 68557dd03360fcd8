//! Faults of the scripted server, byte by byte.

use std::io::ErrorKind;

use steadfast_wire::MsgFlags;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

#[tokio::test]
async fn hang_up_closes_the_connection_without_a_reply() {
    let server = Server::start();
    server.expect(insert("db.things").then(hang_up()));
    let mut client = Client::of(&server).await;
    client.send(insert_one()).await;
    let (bytes, end) = client.rest().await;
    assert_eq!(bytes, [0_u8; 0]);
    end.expect("it is closed, and not reset");
    server.finish();
}

#[tokio::test]
async fn reset_resets_the_connection_without_a_reply() {
    let server = Server::start();
    server.expect(insert("db.things").then(reset()));
    let mut client = Client::of(&server).await;
    client.send(insert_one()).await;
    let (bytes, end) = client.rest().await;
    assert_eq!((bytes, end.unwrap_err().kind()), (Vec::new(), ErrorKind::ConnectionReset));
    server.finish();
}

#[tokio::test]
async fn part_of_reply_sends_the_exact_number_of_bytes() {
    let small = done();
    let large = doc! { "ok": 1, "text": "x".repeat(3_000_000) };
    let length = |reply: &Document| client::message(1, reply, MsgFlags::empty()).len();
    let some = [0, 15, 16, 17, 65_535, 65_536, 1_500_000, length(&large) - 1, length(&large)];
    let cuts = (0..=length(&small)).map(|count| (&small, count));
    for (document, count) in cuts.chain(some.map(|count| (&large, count))) {
        let server = Server::start();
        server.expect(any().then(part_of_reply(document.clone(), count)).then(hang_up()));
        let mut client = Client::of(&server).await;
        client.send(ping()).await;
        let (bytes, end) = client.rest().await;
        end.unwrap();
        assert_eq!(bytes.len(), count);
        let claimed = bytes.first_chunk().map(|length| u32::from_le_bytes(*length));
        assert!(claimed.is_none_or(|claimed| claimed as usize == length(document)));
        server.finish();
    }
}

/// A duplex of one byte shows how much the server read: the bytes written, minus one that may be in
/// the buffer.
#[tokio::test]
async fn cut_after_reads_the_exact_number_of_bytes() {
    let mut large = insert_one();
    large.insert("comment", "x".repeat(200_000));
    let message = client::message(1, &large, MsgFlags::empty());
    for count in [0, 1, 16, 64, 65, 1_000, 100_000, message.len() - 1] {
        let server = Server::start();
        server.expect(insert("db.things").cut_after(count));
        let (near, far) = tokio::io::duplex(1);
        server.serve(far);
        let mut near = near;
        let mut written = 0;
        while let Ok(1..) = near.write(&message[written..=written]).await {
            written += 1;
        }
        // The server reads at least 64 bytes to find the command name.
        let expected = count.max(64);
        assert!((expected..=expected + 1).contains(&written), "{written}, not {expected}");
        let log = server.wait_for(|log| log.open == 0).await;
        assert_eq!((log.cut, log.requests.len()), (1, 0), "it has not come");
        server.finish();
    }
}

#[tokio::test]
async fn cut_request_resets_its_connection_only() {
    let server = Server::start();
    server.expect(insert("db.things").cut_after(20));
    server.expect(insert("db.things").then(reply(done())));
    let mut client = Client::of(&server).await;
    client.run(ping()).await;
    client.send(insert_one()).await;
    let (bytes, end) = client.rest().await;
    assert_eq!((bytes, end.unwrap_err().kind()), (Vec::new(), ErrorKind::ConnectionReset));
    assert_eq!(Client::of(&server).await.run(insert_one()).await, done());
    server.finish();
}

#[tokio::test]
async fn cut_rule_selects_by_connection_and_command() {
    let rule = |connection, name: &str| (connection == 2 && name == "ping").then_some(30);
    let server = Server::builder().cut_requests(rule).start();
    let (mut one, mut two) = (Client::of(&server).await, Client::of(&server).await);
    server.wait_for(|log| log.opened == 2).await;
    one.run(ping()).await;
    two.send(ping()).await;
    assert!(two.receive().await.is_err());
    assert_eq!(server.log().cut, 1);
}

#[tokio::test]
async fn repeated_misdirected_and_more_to_come_replies_are_sent() {
    let server = Server::start();
    server.expect(any().then(reply(done())).then(reply(done())));
    server.expect(any().then(reply_to_another(done())));
    server.expect(any().then(Step::ReplyWithMoreToCome(done())));
    let mut client = Client::of(&server).await;
    let id = client.send(insert_one()).await;
    for _ in 0..2 {
        assert_eq!(client.receive().await.unwrap().response_to, id);
    }
    let id = client.send(insert_one()).await;
    assert_ne!(client.receive().await.unwrap().response_to, id);
    let id = client.send(insert_one()).await;
    let reply = client.receive().await.unwrap();
    assert!(reply.more_to_come && reply.response_to == id);
    server.finish();
}

#[tokio::test]
async fn raw_bytes_are_sent_unchanged() {
    let server = Server::start();
    server.expect(any().then(raw_bytes(*b"HTTP/1.1 400\r\n\r\n")).then(hang_up()));
    let mut client = Client::of(&server).await;
    client.send(insert_one()).await;
    assert_eq!(client.rest().await.0, b"HTTP/1.1 400\r\n\r\n");
    server.finish();
}

#[tokio::test]
async fn no_reply_keeps_the_connection_open() {
    let server = Server::start();
    server.expect(insert("db.things").then(no_reply()));
    let mut client = Client::of(&server).await;
    client.send(insert_one()).await;
    client.run(ping()).await;
    server.finish();
}

#[tokio::test]
async fn closed_gate_holds_a_reply() {
    let server = Server::start();
    let gate = Gate::closed();
    server.expect(insert("db.things").then(wait_for(&gate)).then(reply(done())));
    let mut client = Client::of(&server).await;
    client.send(insert_one()).await;
    server.wait_for(|log| log.named("insert").len() == 1).await;
    server.process_socket_events().await;
    let early = client.stream.try_read(&mut [0; 1]).unwrap_err();
    assert_eq!(early.kind(), ErrorKind::WouldBlock);
    gate.open();
    assert_eq!(client.receive().await.unwrap().document, done());
    server.finish();
}

#[tokio::test]
async fn stopped_server_resumes_at_its_address() {
    let server = Server::start();
    let mut client = Client::of(&server).await;
    client.run(ping()).await;
    server.close_connections();
    assert_eq!(client.stream.read(&mut [0; 1]).await.unwrap_or(0), 0);
    Client::of(&server).await.run(ping()).await;

    server.stop();
    server.wait_for(|log| log.open == 0).await;
    let refused = tokio::net::TcpStream::connect(server.socket_address()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    server.resume();
    Client::of(&server).await.run(ping()).await;
}

#[tokio::test]
async fn stop_and_resume_take_effect_immediately() {
    for server in [Server::start(), Server::builder().in_thread().start()] {
        let mut client = Client::of(&server).await;
        client.run(ping()).await;
        for _ in 0..20 {
            server.stop();
            let refused = std::net::TcpStream::connect(server.socket_address()).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
            server.resume();
        }
        assert_eq!(client.stream.read(&mut [0; 1]).await.unwrap_or(0), 0);
        Client::of(&server).await.run(ping()).await;
    }
}

#[tokio::test]
async fn stopped_server_keeps_its_address_reserved() {
    let server = Server::start();
    Client::of(&server).await.run(ping()).await;
    server.stop();
    let other = tokio::net::TcpSocket::new_v4().unwrap();
    assert_eq!(other.bind(server.socket_address()).unwrap_err().kind(), ErrorKind::AddrInUse);
    server.resume();
    Client::of(&server).await.run(ping()).await;
}
