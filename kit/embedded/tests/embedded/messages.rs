//! Messages: replies, unacknowledged requests, invalid messages.

use steadfast_wire::{MessageWriter, MsgFlags};
use tokio::io::AsyncWriteExt;

use super::*;

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let server = Deployment::standalone().start();
    let mut client = connect(&server, 0).await;
    let sent =
        [client.send(insert(1)).await, client.send(insert(2)).await, client.send(find()).await];
    let mut replies = Vec::new();
    for _ in sent {
        replies.push(client.receive().await.unwrap());
    }
    assert_eq!(replies.iter().map(|reply| reply.response_to).collect::<Vec<_>>(), sent);
    assert_eq!(ids(&replies[2].document), [1, 2]);
}

#[tokio::test]
async fn unacknowledged_request_is_executed_without_reply() {
    let server = Deployment::standalone().start();
    let mut client = connect(&server, 0).await;
    client.send_with(insert(1), MsgFlags::MORE_TO_COME, None).await;
    assert_eq!(ids(&client.run(find()).await), [1]);
    // Also if the client disconnects at once.
    let mut hasty = connect(&server, 0).await;
    hasty.send_with(insert(2), MsgFlags::MORE_TO_COME, None).await;
    hasty.stream.shutdown().await.unwrap();
    let (rest, _) = hasty.rest().await;
    assert!(rest.is_empty());
    assert_eq!(ids(&client.run(find()).await), [1, 2]);
}

#[tokio::test]
async fn document_sequences_and_checksums_are_accepted() {
    let server = Deployment::standalone().start();
    let mut client = connect(&server, 0).await;
    let mut bytes = Vec::new();
    let mut message = MessageWriter::request(&mut bytes, 7, MsgFlags::CHECKSUM_PRESENT);
    message.body().append_str("insert", "things").unwrap().append_str("$db", "db").unwrap();
    let mut documents = message.start_sequence("documents").unwrap();
    documents.push(bson::rawdoc! { "_id": 1 });
    documents.push(bson::rawdoc! { "_id": 2 });
    documents.finish().unwrap();
    client.stream.write_all(&bytes).await.unwrap();
    let reply = client.receive().await.unwrap();
    assert_eq!((reply.response_to, reply.document.get_i32("n").unwrap()), (7, 2));
}

#[tokio::test]
async fn invalid_message_closes_only_its_connection() {
    let server = Deployment::standalone().start();
    let mut other = connect(&server, 0).await;
    let too_long = [&48_000_001_i32.to_le_bytes()[..], &[0; 12]].concat();
    let of_nothing =
        [&16_i32.to_le_bytes()[..], &[1, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0]].concat();
    for nonsense in [too_long, of_nothing, vec![0; 16], b"GET / HTTP/1.1\r\n\r\n".to_vec()] {
        let mut client = connect(&server, 0).await;
        client.stream.write_all(&nonsense).await.unwrap();
        let (rest, _) = tokio::time::timeout(TEST_TIMEOUT, client.rest()).await.unwrap();
        assert!(rest.is_empty(), "{nonsense:?}");
    }
    assert!(is_ok(&other.run(insert(1)).await));
}

#[tokio::test]
async fn command_without_db_is_rejected() {
    let server = Deployment::standalone().start();
    let mut client = connect(&server, 0).await;
    assert_eq!(code(&client.run(doc! { "find": "things" }).await), 40571);
    assert_eq!(code(&client.run(doc! { "nonsense": 1, "$db": "db" }).await), 59);
}

#[tokio::test]
async fn whatsmyuri_returns_client_address() {
    let server = Deployment::standalone().start();
    let mut client = connect(&server, 0).await;
    let own = client.stream.local_addr().unwrap().to_string();
    let reply = client.run(doc! { "whatsmyuri": 1, "$db": "admin" }).await;
    assert_eq!(reply.get_str("you").unwrap(), own);
}
