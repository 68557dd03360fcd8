//! Messages read from a stream: split packets, false lengths, dropped futures.

use steadfast_wire::write_legacy_hello;
use tokio::io::AsyncWriteExt;

use super::*;

fn hello(id: i32) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_legacy_hello(&mut bytes, id, bson::rawdoc! { "isMaster": 1 }).unwrap();
    bytes
}

fn claim(length: i32) -> Vec<u8> {
    [length, 1, 0, 2013].map(i32::to_le_bytes).concat()
}

#[tokio::test]
async fn claimed_length_allocates_no_memory() {
    let mut inbox = MessageReader::new();
    let claimed = claim(47_000_000);
    let error = inbox.next(&mut claimed.as_slice()).await.unwrap_err();
    assert!(
        matches!(error, MessageError::Truncated { received: 16, missing: 46_999_984 }),
        "{error:?}"
    );
    assert!(inbox.bytes.capacity() <= 2 * READ_CHUNK_BYTES, "{}", inbox.bytes.capacity());
}

#[tokio::test]
async fn message_above_the_limit_fails_after_its_first_bytes() {
    let mut inbox = MessageReader::with_limit(1_000);
    let error = inbox.next(&mut &claim(1_001)[..4]).await.unwrap_err();
    assert!(matches!(error, MessageError::Wire(WireError::LengthTooLarge { .. })), "{error:?}");
}

#[tokio::test]
async fn dropped_next_future_keeps_buffered_bytes() {
    let (mut near, mut far) = tokio::io::duplex(1_000);
    let (mut inbox, whole) = (MessageReader::new(), hello(7));
    for byte in &whole[..whole.len() - 1] {
        near.write_all(&[*byte]).await.unwrap();
        let dropped = tokio::time::timeout(std::time::Duration::ZERO, inbox.next(&mut far)).await;
        assert!(dropped.is_err(), "the message is incomplete");
    }
    near.write_all(&whole[whole.len() - 1..]).await.unwrap();
    assert_eq!(inbox.next(&mut far).await.unwrap().unwrap(), whole);
}

#[tokio::test]
async fn peek_reads_only_requested_bytes_of_the_current_message() {
    let both = [hello(1), hello(2)].concat();
    let length = both.len() / 2;
    for (wanted, taken) in [(0, 0), (1, 1), (16, 16), (17, 17), (length, length), (1_000, length)] {
        let (mut inbox, mut stream) = (MessageReader::new(), both.as_slice());
        assert_eq!(inbox.peek(&mut stream, wanted).await.unwrap().len(), taken);
        assert_eq!(stream.len(), both.len() - taken, "{wanted} wanted");
        assert_eq!(inbox.next(&mut stream).await.unwrap().unwrap(), both[..length]);
        assert_eq!(inbox.next(&mut stream).await.unwrap().unwrap(), both[length..]);
    }
}

#[test]
fn reply_and_empty_document_are_not_commands() {
    let reply = Request::decode(hello(1).into(), 1).unwrap().reply(&bson::doc! { "ok": 1 });
    let error = Request::decode(reply.into(), 1).unwrap_err();
    assert_eq!(error.to_string(), "expected a command, received a reply");
    let empty = [26_i32, 1, 0, 2013, 0].map(i32::to_le_bytes).concat();
    let empty = [&empty[..], &[0, 5, 0, 0, 0, 0]].concat();
    let error = Request::decode(empty.into(), 1).unwrap_err();
    assert_eq!(error.to_string(), "expected a command, received an empty document");
    assert!(reply_document(hello(1).into()).is_err());
}

#[test]
fn duplicate_field_is_detected() {
    let mut twice = bson::RawDocumentBuf::new();
    twice.append(bson::cstr!("ping"), 1);
    twice.append(bson::cstr!("$db"), "a");
    twice.append(bson::cstr!("$db"), "b");
    let mut bytes = Vec::new();
    OpMsg::new(DocumentBytes::try_from(twice).unwrap()).encode(1, 0, &mut bytes).unwrap();
    assert!(Request::decode(bytes.into(), 1).unwrap().has_duplicate_fields);
    assert!(!Request::decode(hello(1).into(), 1).unwrap().has_duplicate_fields);
}
