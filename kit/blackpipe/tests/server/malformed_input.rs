//! Malformed input from clients: invalid messages, false lengths, early disconnects.

use std::panic::{AssertUnwindSafe, catch_unwind};

use steadfast_wire::MsgFlags;
use tokio::io::AsyncWriteExt;

use super::*;

/// A message with these header fields.
fn message(length: i32, op_code: i32, payload: &[u8]) -> Vec<u8> {
    let header = [length, 1, 0, op_code].map(i32::to_le_bytes).concat();
    [&header, payload].concat()
}

fn lies() -> Vec<(&'static str, Vec<u8>)> {
    let deep: Vec<u8> = (0..5_000).rev().flat_map(|_| *b"\x03a\0").collect();
    let bomb = [&2013_i32.to_le_bytes()[..], &i32::MAX.to_le_bytes(), &[2], &[0; 40]].concat();
    let body = |document: &[u8]| {
        message(i32::try_from(21 + document.len()).unwrap(), 2013, &[&[0; 5], document].concat())
    };
    vec![
        ("nothing", Vec::new()),
        ("a letter", b"x".to_vec()),
        ("another protocol", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec()),
        ("a negative length", message(-1, 2013, &[])),
        ("a length below the header's", message(15, 2013, &[])),
        ("a length beyond all measure", message(i32::MAX, 2013, &[])),
        ("a large claim and no more", message(47_000_000, 2013, &[0; 100])),
        ("an unknown operation", message(20, 7, &[0; 4])),
        ("an old insert", message(30, 2002, &[0; 14])),
        ("a reply", message(36 + 5, 1, &[&[0; 16][..], &[1, 0, 0, 0, 5, 0, 0, 0, 0]].concat())),
        ("no section", message(20, 2013, &[0; 4])),
        ("unknown flags", message(21 + 5, 2013, &[4, 0, 0, 0, 0, 5, 0, 0, 0, 0])),
        ("no command", body(&[5, 0, 0, 0, 0])),
        ("a document that is longer than it is", body(&[200, 0, 0, 0, 0])),
        ("a document of a negative length", body(&[255, 255, 255, 255, 0])),
        ("a document without end", body(&[&5_000_i32.to_le_bytes()[..], &deep].concat())),
        ("a string that is not text", body(&[14, 0, 0, 0, 2, 0xff, 0, 2, 0, 0, 0, 0xfe, 0, 0])),
        ("a bomb", message(i32::try_from(16 + bomb.len()).unwrap(), 2012, &bomb)),
        (
            "a query of a collection",
            message(16 + 4 + 5 + 8 + 5, 2004, b"\0\0\0\0db.c\0\0\0\0\0\0\0\0\0\x05\0\0\0\0"),
        ),
    ]
}

#[tokio::test]
async fn malformed_message_affects_no_other_connection() {
    let server = Server::lenient(Role::Standalone);
    let mut other = Client::of(&server).await;
    for (what, bytes) in lies() {
        let mut liar = Client::of(&server).await;
        liar.stream.write_all(&bytes).await.unwrap();
        let _ = liar.stream.shutdown().await;
        let _ = liar.rest().await;
        other.run(ping()).await;
        server.wait_for(|log| log.open == 1).await;
        assert!(server.log().requests.iter().all(|it| it.name == "ping"), "{what}");
    }
    server.finish();
}

#[tokio::test]
async fn invalid_message_fails_a_strict_script_but_disconnect_does_not() {
    let server = Server::start();
    let whole = client::message(1, &insert_one(), MsgFlags::empty());
    Client::of(&server).await.stream.write_all(&whole[..30]).await.unwrap();
    server.wait_for(|log| log.opened == 1 && log.open == 0).await;
    server.check().unwrap();
    Client::of(&server).await.stream.write_all(&message(-1, 2013, &[])).await.unwrap();
    server.wait_for(|log| log.opened == 2 && log.open == 0).await;
    let report = server.check().unwrap_err().to_string();
    assert!(report.contains("connection 2: invalid message: "), "{report}");
    assert!(report.contains("connection 1 closed: connection to the client lost"), "{report}");
    assert!(catch_unwind(AssertUnwindSafe(|| server.finish())).is_err());
}

#[tokio::test]
async fn client_disconnect_after_any_byte_affects_no_other_connection() {
    let server = Server::lenient(Role::Standalone);
    let whole = client::message(1, &insert_one(), MsgFlags::empty());
    let mut other = Client::of(&server).await;
    for length in 0..whole.len() {
        let mut client = Client::of(&server).await;
        client.stream.write_all(&whole[..length]).await.unwrap();
        drop(client);
        other.run(ping()).await;
    }
    let log = server.wait_for(|log| log.open == 1).await;
    assert_eq!(log.named("insert").len(), 0);
    server.finish();
}

#[tokio::test]
async fn slow_reader_and_slow_writer_do_not_block_others() {
    let server = Server::with_handler(Role::Standalone, |request| {
        let large = doc! { "ok": 1, "text": "x".repeat(8_000_000) };
        (request.name == "find").then(|| vec![reply(large)])
    });
    let mut deaf = Client::of(&server).await;
    deaf.send(doc! { "find": "things", "$db": "db" }).await;
    server.wait_for(|log| log.named("find").len() == 1).await;
    let mut slow = Client::of(&server).await;
    for byte in client::message(1, &insert_one(), MsgFlags::empty()) {
        slow.stream.write_all(&[byte]).await.unwrap();
        server.process_socket_events().await;
    }
    assert_eq!(slow.receive().await.unwrap().document.get_i32("n").unwrap(), 1);
    assert_eq!(deaf.receive().await.unwrap().document.len(), 2);
}

#[tokio::test]
async fn pipelined_requests_get_replies_in_order() {
    let server = Server::lenient(Role::Standalone);
    let mut client = Client::of(&server).await;
    let mut ids = Vec::new();
    for _ in 0..50 {
        ids.push(client.send(insert_one()).await);
    }
    for id in ids {
        assert_eq!(client.receive().await.unwrap().response_to, id);
    }
}

/// Corrupts bytes of valid messages, chosen by a fixed seed.
#[tokio::test]
async fn corrupted_messages_affect_no_other_connection() {
    let server = Server::lenient(Role::Primary);
    let mut other = Client::of(&server).await;
    let whole = client::message(1, &insert_one(), MsgFlags::empty());
    let mut die = 0x2545_f491_4f6c_dd1d_u64;
    let mut roll = |sides: usize| {
        die ^= die << 13;
        die ^= die >> 7;
        die ^= die << 17;
        usize::try_from(die % u64::try_from(sides).unwrap()).unwrap()
    };
    for _ in 0..300 {
        let mut message = whole.clone();
        for _ in 0..=roll(4) {
            let at = roll(message.len());
            message[at] = u8::try_from(roll(256)).unwrap();
        }
        let mut client = Client::of(&server).await;
        client.stream.write_all(&message).await.unwrap();
        let _ = client.stream.shutdown().await;
        let _ = client.rest().await;
    }
    other.run(ping()).await;
    server.wait_for(|log| log.open == 1).await;
    server.finish();
}
