//! Invalid input from servers: hello replies, command replies, cursors and closed connections.

use std::time::Duration;

use steadfast::{
    Client,
    bson::{Bson, Document, doc},
    error::ErrorKind,
};

use super::{
    LIMITS, assert_message_contains,
    common::{
        Clock, Gate, Request, Role, Server, Step, bounded, is_handshake_for_operations, message,
    },
    first_error, ping,
};

/// Connect and socket time-out of [`LIMITS`].
const REPLY_TIMEOUT: Duration = Duration::from_secs(5);

/// Part of the error message if a server does not reply in time.
const NO_REPLY: &str = "no reply within";

/// Waits for a matching request and advances the clock past its time-out, if the cause is [`NO_REPLY`].
async fn expire_reply(
    server: &Server,
    clock: &Clock,
    cause: &str,
    request: impl Fn(&Request) -> bool,
) {
    if cause == NO_REPLY {
        server.wait_for(|log| log.requests.iter().any(&request)).await;
        clock.pass(REPLY_TIMEOUT).await;
    }
}

/// Document with this nesting depth.
fn nested(depth: usize) -> Vec<u8> {
    let mut document = vec![5, 0, 0, 0, 0];
    for _ in 0..depth {
        let length = i32::try_from(document.len() + 8).unwrap();
        document = [&length.to_le_bytes()[..], b"\x03a\0", &document, b"\0"].concat();
    }
    document
}

/// OP_MSG with these flags and this body.
fn op_msg(flags: u32, body: &[u8]) -> Vec<u8> {
    let payload = [&flags.to_le_bytes()[..], &[0], body].concat();
    message(i32::try_from(16 + payload.len()).unwrap(), 0, 2013, &payload)
}

/// Invalid replies, each with the expected part of the error message.
fn invalid_replies() -> Vec<(Vec<Step>, &'static str)> {
    let http = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n".to_vec();
    let bomb = [2013_i32.to_le_bytes(), i32::MAX.to_le_bytes()].concat();
    let bomb = message(16 + 9, 0, 2012, &[&bomb[..], &[2]].concat());
    let ok = || doc! { "ok": 1 };
    vec![
        (vec![Step::RawBytes(http), Step::HangUp], "it sent an HTTP response"),
        (vec![Step::RawBytes(vec![0xde; 64])], "the header alone has 16 bytes"),
        (vec![Step::RawBytes(message(-1, 0, 2013, &[]))], "invalid message length -1"),
        (vec![Step::RawBytes(message(15, 0, 2013, &[]))], "invalid message length 15"),
        (
            vec![Step::RawBytes(message(i32::MAX, 0, 2013, &[]))],
            "message length 2147483647 exceeds",
        ),
        (vec![Step::RawBytes(message(20, 0, 7, &[0; 4]))], "operation code 7"),
        (vec![Step::RawBytes(op_msg(0, &[200, 0, 0, 0, 0]))], "not a valid BSON document"),
        (vec![Step::RawBytes(op_msg(0, &[251, 255, 255, 255, 0]))], "not a valid BSON document"),
        (vec![Step::RawBytes(op_msg(0, &nested(10_000)))], "exceeds the nesting limit"),
        (vec![Step::RawBytes(op_msg(1, &[5, 0, 0, 0, 0, 1, 2, 3, 4]))], "checksum"),
        (vec![Step::RawBytes(op_msg(0x8000, &[5, 0, 0, 0, 0]))], "unknown required flag bits"),
        (vec![Step::RawBytes(bomb)], "uncompressed size 2147483647"),
        (vec![Step::PartOfReply(ok(), 7), Step::HangUp], "in the middle of a message"),
        (vec![Step::PartOfReply(ok(), 30), Step::HangUp], "in the middle of a message"),
        (vec![Step::PartOfReply(ok(), 30)], NO_REPLY),
        (vec![Step::ReplyToAnother(ok())], "a reply to request"), // pitfall 23
        (vec![Step::HangUp], "the server closed the connection"),
        (vec![], NO_REPLY),
    ]
}

#[tokio::test]
async fn invalid_hello_reply_is_an_error_with_cause_and_address() {
    let clock = Clock::stopped();
    for (steps, cause) in invalid_replies() {
        let server = Server::with_handler(Role::Standalone, move |_| Some(steps.clone()));
        let expiry = expire_reply(&server, &clock, cause, Request::is_hello);
        let error = first_error(&server.uri(LIMITS), &clock, expiry).await;
        assert!(error.is_server_selection_error(), "{error:?}");
        assert_message_contains(&error, &[cause, &server.address()]);
    }
}

#[tokio::test]
async fn invalid_reply_is_an_error_with_cause_and_address() {
    let clock = Clock::stopped();
    for (steps, cause) in invalid_replies() {
        let server = Server::with_handler(Role::Standalone, move |request| {
            (request.name == "ping").then(|| steps.clone())
        });
        let client = Client::with_uri_str(server.uri(LIMITS)).await.unwrap();
        let is_ping = |request: &Request| request.name == "ping";
        let (ended, ()) =
            tokio::join!(ping(&client), expire_reply(&server, &clock, cause, is_ping));
        let error = ended.expect_err(cause);
        assert!(!error.is_server_selection_error(), "{error:?}");
        assert_message_contains(&error, &[cause, &server.address()]);
        assert_eq!(error.server_address().map(ToString::to_string), Some(server.address()));
        // The next operation gets another connection.
        let database = client.database("db");
        let next = bounded(database.run_command(doc! { "hostInfo": 1 }));
        // The monitor may have to check the server first, at most every 500 ms (`minHeartbeatFrequencyMS`).
        let (reply, ()) = tokio::join!(next, clock.pass(Duration::from_millis(500)));
        assert_eq!(reply.expect("a new connection is made"), doc! { "ok": 1 }, "{cause}");
        let log = server.log();
        assert_ne!(log.connections_of("ping"), log.connections_of("hostInfo"), "{cause}");
    }
}

#[tokio::test]
async fn invalid_handshake_of_a_pooled_connection_is_an_error_with_cause_and_address() {
    let clock = Clock::stopped();
    for (steps, cause) in invalid_replies() {
        let server = Server::with_handler(Role::Standalone, move |request| {
            is_handshake_for_operations(request).then(|| steps.clone())
        });
        let uri = server.uri(&format!("{LIMITS}&retryReads=false"));
        let client = Client::with_uri_str(uri).await.unwrap();
        let expiry = expire_reply(&server, &clock, cause, is_handshake_for_operations);
        let (ended, ()) = tokio::join!(ping(&client), expiry);
        let error = ended.expect_err(cause);
        // `connectTimeoutMS` limits the handshake.
        let cause = if cause == NO_REPLY { "connectTimeoutMS" } else { cause };
        assert_message_contains(&error, &[cause, &server.address()]);
    }
}

#[tokio::test]
async fn incompatible_wire_version_is_an_error_with_the_required_version() {
    for (min, max, cause) in [(0, 6, "requires at least"), (1000, 1001, "only supports up to")] {
        let server = Server::with_handler(Role::Standalone, move |request| {
            let versions = doc! { "minWireVersion": min, "maxWireVersion": max };
            request.is_hello().then(|| vec![Step::Hello(versions)])
        });
        let client = Client::with_uri_str(server.uri("")).await.unwrap();
        let error = ping(&client).await.expect_err("it is not supported");
        assert!(matches!(&*error.kind, ErrorKind::IncompatibleServer { .. }), "{error:?}");
        assert_message_contains(&error, &[cause, &server.address()]);
    }
}

#[tokio::test]
async fn command_error_of_hello_shows_the_message_of_the_server() {
    let server = Server::with_handler(Role::Standalone, |_| {
        let no = doc! { "ok": 0, "code": 8000, "codeName": "AtlasError", "errmsg": "not today" };
        Some(vec![Step::Reply(no)])
    });
    let error = first_error(&server.uri(LIMITS), &Clock::stopped(), async {}).await;
    assert_message_contains(&error, &["not today", "8000", &server.address()]);
}

#[tokio::test]
async fn hello_reply_with_wrong_types_does_not_panic() {
    let invalid = [
        doc! { "ok": 1 },
        doc! { "ok": "yes" },
        doc! {},
        doc! { "ok": 1, "maxWireVersion": "17", "hosts": 5, "setName": [1], "tags": 1 },
        doc! { "ok": 1, "maxWireVersion": 17, "setName": "s", "hosts": ["", ":::", 4, "a:99999"] },
        doc! { "ok": 1, "ismaster": true, "maxWireVersion": 17, "topologyVersion": { "a": 1 },
        "logicalSessionTimeoutMinutes": i64::MAX, "setName": "s", "me": "", "hosts": [""] },
    ];
    let clock = Clock::stopped();
    for hello in invalid {
        let text = hello.to_string();
        let server =
            Server::with_handler(Role::Standalone, move |_| Some(vec![Step::Reply(hello.clone())]));
        let error = first_error(&server.uri(LIMITS), &clock, async {}).await;
        assert!(!matches!(&*error.kind, ErrorKind::Internal { .. }), "{text}: {error}");
    }
}

#[tokio::test]
async fn invalid_size_limits_do_not_block_writes() {
    for (documents, batch) in [(-1, -1), (16 * 1024 * 1024, 0), (16 * 1024 * 1024, i32::MIN)] {
        let server = Server::with_handler(Role::Standalone, move |request| {
            let limits = doc! {
                "maxBsonObjectSize": documents, "maxWriteBatchSize": batch,
                "maxMessageSizeBytes": documents,
            };
            match request.name.as_str() {
                "insert" => Some(vec![Step::Reply(doc! { "ok": 1, "n": 1 })]),
                _ if request.is_hello() => Some(vec![Step::Hello(limits)]),
                _ => None,
            }
        });
        let client = Client::with_uri_str(server.uri("")).await.unwrap();
        let people = client.database("db").collection::<Document>("people");
        let result = bounded(people.insert_many([doc! { "a": 1 }, doc! { "b": 2 }])).await;
        let result = result.unwrap_or_else(|error| panic!("{documents}, {batch}: {error}"));
        assert_eq!(result.inserted_ids.len(), 2);
    }
}

#[tokio::test]
async fn invalid_write_replies_do_not_panic() {
    let replies = [
        doc! { "ok": 1 },
        doc! { "ok": 1, "n": -1, "nModified": -7 },
        doc! { "ok": 1, "n": "many", "nModified": [] },
        doc! { "ok": 1, "n": 0, "upserted": [{ "index": 0, "_id": 1 }] },
        doc! { "ok": 1, "n": 1, "upserted": [{ "index": 99, "_id": 1 }] },
        doc! { "ok": 1, "n": 1, "upserted": { "index": -1 } },
        doc! { "ok": 1, "n": i64::MAX, "writeErrors": 5 },
        doc! { "ok": 1, "n": 0, "writeErrors": [{ "index": 99, "code": 1, "errmsg": "x" }] },
        doc! { "ok": 1, "n": 0, "writeErrors": [{ "index": -1 }] },
        doc! { "ok": 1, "n": 0, "writeErrors": [{}], "writeConcernError": "no" },
    ];
    for reply in replies {
        let server = Server::with_handler(Role::Standalone, {
            let reply = reply.clone();
            move |request| (!request.is_hello()).then(|| vec![Step::Reply(reply.clone())])
        });
        let client = Client::with_uri_str(server.uri("")).await.unwrap();
        let people = client.database("db").collection::<Document>("people");
        let set = || doc! { "$set": { "a": 1 } };
        let _ = bounded(people.insert_one(doc! { "_id": 1 })).await;
        let _ = bounded(people.insert_many([doc! { "_id": 1 }, doc! { "_id": 2 }])).await;
        let _ = bounded(people.update_one(doc! {}, set()).upsert(true)).await;
        let _ = bounded(people.update_many(doc! {}, set())).await;
        let _ = bounded(people.replace_one(doc! {}, doc! { "a": 1 })).await;
        let _ = bounded(people.delete_one(doc! {})).await;
        let _ = bounded(people.find_one_and_delete(doc! {})).await;
        let _ = bounded(people.count_documents(doc! {})).await;
        let _ = bounded(people.estimated_document_count()).await;
        let _ = bounded(people.distinct("a", doc! {})).await;
        assert!(server.log().requests.len() >= 10, "all were sent: {reply}");
    }
}

#[tokio::test]
async fn only_a_reply_with_ok_1_is_a_success() {
    let answered = async |ok: Option<Bson>| {
        let server = Server::with_handler(Role::Primary, move |request| {
            let mut reply = doc! { "before": 1, "errmsg": "no", "writeErrors": [] };
            reply.extend(ok.clone().map(|ok| ("ok".to_owned(), ok)));
            reply.insert("after", 1);
            (request.name == "ping").then(|| vec![Step::Reply(reply)])
        });
        ping(&Client::with_uri_str(server.uri("")).await.unwrap()).await
    };
    for ok in [Bson::Int32(1), Bson::Int64(1), Bson::Double(1.0), Bson::Boolean(true)] {
        answered(Some(ok)).await.unwrap();
    }
    let others = [
        Bson::Int32(0),
        Bson::Int64(0),
        Bson::Double(0.0),
        Bson::Double(f64::NAN),
        Bson::Boolean(false),
        Bson::Null,
        Bson::from("1"),
        Bson::from(doc! { "ok": 1 }),
    ];
    for ok in others.into_iter().map(Some).chain([None]) {
        let error = answered(ok.clone()).await.expect_err("it is an error");
        assert!(matches!(&*error.kind, ErrorKind::Command(_)), "{ok:?}: {error:?}");
    }
}

#[tokio::test]
async fn invalid_cursor_replies_are_errors_that_name_the_server() {
    let cursors = [
        doc! { "ok": 1 },
        doc! { "ok": 1, "cursor": 7 },
        doc! { "ok": 1, "cursor": { "id": 0_i64 } },
        doc! { "ok": 1, "cursor": { "id": "x", "ns": "db.people", "firstBatch": [] } },
        doc! { "ok": 1, "cursor": { "id": 1_i64, "ns": "nodot", "firstBatch": [] } },
        doc! { "ok": 1, "cursor": { "id": 1_i64, "ns": "db.people", "firstBatch": { "0": 1 } } },
        doc! { "ok": 1, "cursor": { "id": 0_i64, "ns": "db.people", "firstBatch": [1, "two"] } },
    ];
    for reply in cursors {
        let server = Server::with_handler(Role::Standalone, {
            let reply = reply.clone();
            move |request| (request.name == "find").then(|| vec![Step::Reply(reply.clone())])
        });
        let client = Client::with_uri_str(server.uri("")).await.unwrap();
        let people = client.database("db").collection::<Document>("people");
        let error = match bounded(people.find(doc! {})).await {
            Err(error) => error,
            Ok(mut cursor) => bounded(cursor.advance()).await.expect_err(&reply.to_string()),
        };
        assert_message_contains(&error, &["invalid reply", &server.address()]);
    }
}

#[tokio::test]
async fn an_unsolicited_message_on_an_idle_connection_closes_only_that_connection() {
    let gate = Gate::closed();
    let late = op_msg(0, &[5, 0, 0, 0, 0]);
    let server = Server::with_handler(Role::Standalone, {
        let gate = gate.clone();
        move |request| {
            let reply = Step::Reply(doc! { "ok": 1, "mine": true });
            let unsolicited =
                [Step::WaitFor(gate.clone()), Step::RawBytes(late.clone()), Step::HangUp];
            (request.name == "ping").then(|| [vec![reply], unsolicited.to_vec()].concat())
        }
    });
    let client = Client::with_uri_str(server.uri("")).await.unwrap();
    ping(&client).await.unwrap();
    gate.open();
    server.wait_for(|log| log.opened == 2 && log.open == 1).await;
    server.process_socket_events().await;
    let reply = bounded(client.database("db").run_command(doc! { "hostInfo": 1 })).await.unwrap();
    assert_eq!(reply, doc! { "ok": 1 }, "the reply is the one to this command");
    let log = server.log();
    assert_ne!(log.connections_of("ping"), log.connections_of("hostInfo"));
}

#[tokio::test]
async fn an_idle_connection_closed_by_the_server_is_replaced() {
    let server = Server::with_handler(Role::Standalone, |request| {
        let steps = vec![Step::Reply(doc! { "ok": 1 }), Step::HangUp];
        (request.name == "ping").then_some(steps)
    });
    let client = Client::with_uri_str(server.uri("")).await.unwrap();
    for round in 1..=5 {
        ping(&client).await.unwrap_or_else(|error| panic!("round {round}: {error}"));
        server.wait_for(|log| log.named("ping").len() == round && log.open == 1).await;
        server.process_socket_events().await;
        server.wait_for(|log| log.open == 1).await;
    }
}

#[tokio::test]
async fn retries_are_limited_if_the_server_closes_every_connection() {
    let server = Server::with_handler(Role::Standalone, |request| {
        let steps = vec![Step::Hello(doc! {}), Step::HangUp];
        is_handshake_for_operations(request).then_some(steps)
    });
    let client = Client::with_uri_str(server.uri("")).await.unwrap();
    let error = ping(&client).await.expect_err("no connection is established");
    assert!(error.is_network_error(), "{error:?}");
    assert_message_contains(&error, &["the server close", &server.address()]);
    assert!(server.log().opened <= 5, "{} connections", server.log().opened);
}
