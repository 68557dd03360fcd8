//! What comes of bad input, whichever side it is from: an error that names the cause and the server,
//! in time, and never a panic.

#![allow(missing_docs)]

mod common;

use std::time::Duration;

use common::{
    Clock, Gate, Recorder, Request, Role, Server, Step, bounded, is_handshake_for_operations,
    message,
};
use steadfast::{
    Client,
    bson::{Bson, Document, doc},
    error::{Error, ErrorKind, Result},
    event::sdam::SdamEvent,
    options::ClientOptions,
};

/// How long a client waits for things; by a clock that is stopped.
const LIMITS: &str = "serverSelectionTimeoutMS=30000&connectTimeoutMS=5000&socketTimeoutMS=5000";
const LIMIT: Duration = Duration::from_secs(5);

/// What is said of a server that does not answer in time.
const NO_REPLY: &str = "no reply within";

async fn ping(client: &Client) -> Result<Document> {
    bounded(client.database("db").run_command(doc! { "ping": 1 })).await
}

/// The error of the first operation of a client, whose time to find a server passes when its monitor has found
/// out what is wrong.
async fn first_error(uri: &str, clock: &Clock, finds_out: impl Future<Output = ()>) -> Error {
    let heartbeats = Recorder::new();
    let mut options = ClientOptions::parse(uri).await.expect("a sound connection string");
    options.sdam_event_handler = Some(heartbeats.handler());
    let client = Client::with_options(options).unwrap();
    let (ended, ()) = tokio::join!(ping(&client), async {
        finds_out.await;
        let over = |event: &SdamEvent| {
            use SdamEvent::{ServerHeartbeatFailed, ServerHeartbeatSucceeded};
            matches!(event, ServerHeartbeatFailed(_) | ServerHeartbeatSucceeded(_))
        };
        heartbeats.wait_for(1, over).await;
        clock.pass(Duration::from_secs(30)).await;
    });
    ended.expect_err("the server is no good")
}

/// The time to answer in passes when such a request is there, if that is not answered.
async fn time_passes(
    server: &Server,
    clock: &Clock,
    cause: &str,
    request: impl Fn(&Request) -> bool,
) {
    if cause == NO_REPLY {
        server.wait_for(|log| log.requests.iter().any(&request)).await;
        clock.pass(LIMIT).await;
    }
}

#[track_caller]
fn assert_says(error: &Error, parts: &[&str]) {
    let text = error.to_string();
    for part in parts {
        assert!(text.contains(part), "{part:?} is missing in: {text}");
    }
}

/// A document that holds one that holds one that …
fn nested(depth: usize) -> Vec<u8> {
    let mut document = vec![5, 0, 0, 0, 0];
    for _ in 0..depth {
        let length = i32::try_from(document.len() + 8).unwrap();
        document = [&length.to_le_bytes()[..], b"\x03a\0", &document, b"\0"].concat();
    }
    document
}

/// An OP_MSG with these flags and this for its body.
fn op_msg(flags: u32, body: &[u8]) -> Vec<u8> {
    let payload = [&flags.to_le_bytes()[..], &[0], body].concat();
    message(i32::try_from(16 + payload.len()).unwrap(), 0, 2013, &payload)
}

/// What a server may do in place of replying, and what the error is to say of it.
fn misbehaviours() -> Vec<(Vec<Step>, &'static str)> {
    let http = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n".to_vec();
    let bomb = [2013_i32.to_le_bytes(), i32::MAX.to_le_bytes()].concat();
    let bomb = message(16 + 9, 0, 2012, &[&bomb[..], &[2]].concat());
    let ok = || doc! { "ok": 1 };
    vec![
        (vec![Step::Raw(http), Step::HangUp], "its first bytes are an HTTP response"),
        (vec![Step::Raw(vec![0xde; 64])], "bytes long, but its header alone takes 16"),
        (vec![Step::Raw(message(-1, 0, 2013, &[]))], "claims to be -1 bytes long"),
        (vec![Step::Raw(message(15, 0, 2013, &[]))], "claims to be 15 bytes long"),
        (vec![Step::Raw(message(i32::MAX, 0, 2013, &[]))], "claims to be 2147483647 bytes long"),
        (vec![Step::Raw(message(20, 0, 7, &[0; 4]))], "operation code 7"),
        (vec![Step::Raw(op_msg(0, &[200, 0, 0, 0, 0]))], "not a valid document"),
        (vec![Step::Raw(op_msg(0, &[251, 255, 255, 255, 0]))], "not a valid document"),
        (vec![Step::Raw(op_msg(0, &nested(10_000)))], "nested more than"),
        (vec![Step::Raw(op_msg(1, &[5, 0, 0, 0, 0, 1, 2, 3, 4]))], "checksum"),
        (vec![Step::Raw(op_msg(0x8000, &[5, 0, 0, 0, 0]))], "unknown required flags"),
        (vec![Step::Raw(bomb)], "claims to hold 2147483647 bytes"),
        (vec![Step::Part(ok(), 7), Step::HangUp], "in the middle of a message"),
        (vec![Step::Part(ok(), 30), Step::HangUp], "in the middle of a message"),
        (vec![Step::Part(ok(), 30)], NO_REPLY),
        (vec![Step::ReplyToAnother(ok())], "a reply to request"), // pitfall 23
        (vec![Step::HangUp], "the server closed the connection"),
        (vec![], NO_REPLY),
    ]
}

#[tokio::test]
async fn malformed_connection_strings_are_refused_with_the_reason() {
    let cases = [
        ("", "mongodb://"),
        ("http://localhost", "mongodb://"),
        ("mongodb://", "host"),
        ("mongodb://a:b@c:d@localhost", "@"),
        ("mongodb://localhost:0", "port"),
        ("mongodb://localhost:65536", "port"),
        ("mongodb://localhost:port", "port"),
        ("mongodb://localhost/a%20b", "database name"),
        ("mongodb://localhost/?w", "name=value"),
        ("mongodb://localhost/?directConnection=true&loadBalanced=true", "cannot be combined"),
        ("mongodb://a,b/?directConnection=true", "directConnection"),
        ("mongodb://localhost/?authMechanism=MAGIC", "authentication mechanism"),
        ("mongodb+srv://one.example.org,two.example.org", "exactly one host name"),
        ("mongodb+srv://cluster.example.org:27017", "port"),
        ("mongodb://%ZZ@localhost", "%"),
        ("mongodb://localhost/?maxPoolSize=1&minPoolSize=2", "minPoolSize"),
    ];
    for (uri, cause) in cases {
        let error = Client::with_uri_str(uri).await.expect_err(uri);
        assert!(error.is_invalid_argument(), "{uri}: {error:?}");
        assert!(error.to_string().contains(cause), "{uri}: {cause:?} is missing in: {error}");
        assert!(!error.to_string().contains("a:b"), "a password is shown: {error}");
    }
}

#[tokio::test]
async fn a_host_that_does_not_exist_is_named() {
    // No name may have a part of 64 letters, so nobody needs to be asked.
    let host = format!("{}.invalid", "n".repeat(64));
    let uri = format!("mongodb://{host}:27017/?{LIMITS}");
    let error = first_error(&uri, &Clock::stopped(), async {}).await;
    assert!(error.is_server_selection_error());
    assert_says(&error, &["cannot resolve the host", &host, "serverSelectionTimeoutMS"]);
}

#[tokio::test]
async fn a_port_where_nothing_listens_is_named() {
    // Nobody else gets the port either.
    let deaf = tokio::net::TcpSocket::new_v4().unwrap();
    deaf.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = deaf.local_addr().unwrap().to_string();
    let uri = format!("mongodb://{address}/?{LIMITS}");
    let error = first_error(&uri, &Clock::stopped(), async {}).await;
    assert!(error.is_server_selection_error());
    assert_says(&error, &["cannot connect to", "refused", &address, "serverSelectionTimeoutMS"]);
}

#[tokio::test]
async fn a_server_that_misbehaves_in_its_hello_is_named_with_the_cause() {
    let clock = Clock::stopped();
    for (steps, cause) in misbehaviours() {
        let server = Server::with_handler(Role::Standalone, move |_| Some(steps.clone()));
        let finds_out = time_passes(&server, &clock, cause, Request::is_hello);
        let error = first_error(&server.uri(LIMITS), &clock, finds_out).await;
        assert!(error.is_server_selection_error(), "{error:?}");
        assert_says(&error, &[cause, &server.address()]);
    }
}

#[tokio::test]
async fn a_server_that_misbehaves_in_a_reply_is_named_with_the_cause() {
    let clock = Clock::stopped();
    for (steps, cause) in misbehaviours() {
        let server = Server::with_handler(Role::Standalone, move |request| {
            (request.name == "ping").then(|| steps.clone())
        });
        let client = Client::with_uri_str(server.uri(LIMITS)).await.unwrap();
        let is_ping = |request: &Request| request.name == "ping";
        let (ended, ()) = tokio::join!(ping(&client), time_passes(&server, &clock, cause, is_ping));
        let error = ended.expect_err(cause);
        assert!(!error.is_server_selection_error(), "{error:?}");
        assert_says(&error, &[cause, &server.address()]);
        assert_eq!(error.server_address().map(ToString::to_string), Some(server.address()));
        // And what the connection was used for does not come back to haunt the next operation.
        let database = client.database("db");
        let next = bounded(database.run_command(doc! { "hostInfo": 1 }));
        // The server may have to be looked at anew before, which is done twice a second.
        let (reply, ()) = tokio::join!(next, clock.pass(Duration::from_millis(500)));
        assert_eq!(reply.expect("a new connection is made"), doc! { "ok": 1 }, "{cause}");
        let log = server.log();
        assert_ne!(log.connections_of("ping"), log.connections_of("hostInfo"), "{cause}");
    }
}

#[tokio::test]
async fn a_server_that_misbehaves_in_the_handshake_of_a_pooled_connection_is_named() {
    let clock = Clock::stopped();
    for (steps, cause) in misbehaviours() {
        let server = Server::with_handler(Role::Standalone, move |request| {
            is_handshake_for_operations(request).then(|| steps.clone())
        });
        let uri = server.uri(&format!("{LIMITS}&retryReads=false"));
        let client = Client::with_uri_str(uri).await.unwrap();
        let passing = time_passes(&server, &clock, cause, is_handshake_for_operations);
        let (ended, ()) = tokio::join!(ping(&client), passing);
        let error = ended.expect_err(cause);
        // How long it takes until nobody answers is connectTimeoutMS's to say here.
        let cause = if cause == NO_REPLY { "connectTimeoutMS" } else { cause };
        assert_says(&error, &[cause, &server.address()]);
    }
}

#[tokio::test]
async fn servers_too_old_or_too_new_are_named_with_what_is_needed() {
    for (min, max, cause) in [(0, 6, "requires at least"), (1000, 1001, "only supports up to")] {
        let server = Server::with_handler(Role::Standalone, move |request| {
            let versions = doc! { "minWireVersion": min, "maxWireVersion": max };
            request.is_hello().then(|| vec![Step::Hello(versions)])
        });
        let client = Client::with_uri_str(server.uri("")).await.unwrap();
        let error = ping(&client).await.expect_err("it is not supported");
        assert!(matches!(&*error.kind, ErrorKind::IncompatibleServer { .. }), "{error:?}");
        assert_says(&error, &[cause, &server.address()]);
    }
}

#[tokio::test]
async fn a_refused_hello_is_told_in_the_words_of_the_server() {
    let server = Server::with_handler(Role::Standalone, |_| {
        let no = doc! { "ok": 0, "code": 8000, "codeName": "AtlasError", "errmsg": "not today" };
        Some(vec![Step::Reply(no)])
    });
    let error = first_error(&server.uri(LIMITS), &Clock::stopped(), async {}).await;
    assert_says(&error, &["not today", "8000", &server.address()]);
}

#[tokio::test]
async fn a_hello_of_the_wrong_types_is_no_reason_to_panic() {
    let nonsense = [
        doc! { "ok": 1 },
        doc! { "ok": "yes" },
        doc! {},
        doc! { "ok": 1, "maxWireVersion": "17", "hosts": 5, "setName": [1], "tags": 1 },
        doc! { "ok": 1, "maxWireVersion": 17, "setName": "s", "hosts": ["", ":::", 4, "a:99999"] },
        doc! { "ok": 1, "ismaster": true, "maxWireVersion": 17, "topologyVersion": { "a": 1 },
        "logicalSessionTimeoutMinutes": i64::MAX, "setName": "s", "me": "", "hosts": [""] },
    ];
    let clock = Clock::stopped();
    for hello in nonsense {
        let text = hello.to_string();
        let server =
            Server::with_handler(Role::Standalone, move |_| Some(vec![Step::Reply(hello.clone())]));
        let error = first_error(&server.uri(LIMITS), &clock, async {}).await;
        assert!(!matches!(&*error.kind, ErrorKind::Internal { .. }), "{text}: {error}");
    }
}

#[tokio::test]
async fn limits_that_make_no_sense_do_not_stop_writes_for_ever() {
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
async fn replies_to_writes_that_make_no_sense_are_errors_or_taken_but_never_panics() {
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
async fn only_a_reply_that_says_so_is_a_success() {
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
        let error = answered(ok.clone()).await.expect_err("it was refused");
        assert!(matches!(&*error.kind, ErrorKind::Command(_)), "{ok:?}: {error:?}");
    }
}

#[tokio::test]
async fn cursors_that_make_no_sense_are_errors_that_name_the_server() {
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
        assert_says(&error, &["invalid reply", &server.address()]);
    }
}

#[tokio::test]
async fn an_unsolicited_message_on_an_idle_connection_costs_only_that_connection() {
    let gate = Gate::closed();
    let late = op_msg(0, &[5, 0, 0, 0, 0]);
    let server = Server::with_handler(Role::Standalone, {
        let gate = gate.clone();
        move |request| {
            let reply = Step::Reply(doc! { "ok": 1, "mine": true });
            let unasked = [Step::Wait(gate.clone()), Step::Raw(late.clone()), Step::HangUp];
            (request.name == "ping").then(|| [vec![reply], unasked.to_vec()].concat())
        }
    });
    let client = Client::with_uri_str(server.uri("")).await.unwrap();
    ping(&client).await.unwrap();
    gate.open();
    server.wait_for(|log| log.opened == 2 && log.open == 1).await;
    server.let_sockets_settle().await;
    let reply = bounded(client.database("db").run_command(doc! { "hostInfo": 1 })).await.unwrap();
    assert_eq!(reply, doc! { "ok": 1 }, "the reply is the one to this command");
    let log = server.log();
    assert_ne!(log.connections_of("ping"), log.connections_of("hostInfo"));
}

#[tokio::test]
async fn a_connection_closed_while_idle_is_replaced_unnoticed() {
    let server = Server::with_handler(Role::Standalone, |request| {
        let farewell = vec![Step::Reply(doc! { "ok": 1 }), Step::HangUp];
        (request.name == "ping").then_some(farewell)
    });
    let client = Client::with_uri_str(server.uri("")).await.unwrap();
    for round in 1..=5 {
        ping(&client).await.unwrap_or_else(|error| panic!("round {round}: {error}"));
        server.wait_for(|log| log.named("ping").len() == round && log.open == 1).await;
        server.let_sockets_settle().await;
        server.wait_for(|log| log.open == 1).await;
    }
}

#[tokio::test]
async fn a_server_that_closes_every_new_connection_is_not_tried_for_ever() {
    let server = Server::with_handler(Role::Standalone, |request| {
        let farewell = vec![Step::Hello(doc! {}), Step::HangUp];
        is_handshake_for_operations(request).then_some(farewell)
    });
    let client = Client::with_uri_str(server.uri("")).await.unwrap();
    let error = ping(&client).await.expect_err("there is no connection to be had");
    assert!(error.is_network_error(), "{error:?}");
    assert_says(&error, &["the server close", &server.address()]);
    assert!(server.log().opened <= 5, "{} connections", server.log().opened);
}

#[tokio::test]
async fn names_that_end_a_string_early_or_confuse_a_namespace_are_never_sent() {
    // pitfall 41
    let server = Server::plain(Role::Standalone);
    let client = Client::with_uri_str(server.uri("")).await.unwrap();
    for name in ["", "a\0b", "\0", "a.b", "a/b", "a b", "$cmd", "a\"b"] {
        let database = client.database(name);
        let people = database.collection::<Document>("people");
        for error in [
            bounded(database.run_command(doc! { "ping": 1 })).await.expect_err(name),
            bounded(database.drop()).await.expect_err(name),
            bounded(database.list_collection_names()).await.expect_err(name),
            bounded(people.insert_one(doc! { "a": 1 })).await.expect_err(name),
            bounded(people.find_one(doc! {})).await.expect_err(name),
        ] {
            assert!(error.is_invalid_argument(), "{name:?}: {error:?}");
        }
    }
    for name in ["", "a\0b", "\0"] {
        let people = client.database("db").collection::<Document>(name);
        for error in [
            bounded(people.insert_one(doc! { "a": 1 })).await.expect_err(name),
            bounded(people.insert_many([doc! { "a": 1 }])).await.map(drop).expect_err(name),
            bounded(people.find(doc! {})).await.map(drop).expect_err(name),
            bounded(people.aggregate([])).await.map(drop).expect_err(name),
            bounded(people.update_one(doc! {}, doc! { "$set": { "a": 1 } })).await.expect_err(name),
            bounded(people.delete_many(doc! {})).await.expect_err(name),
            bounded(people.find_one_and_delete(doc! {})).await.map(drop).expect_err(name),
            bounded(people.distinct("a", doc! {})).await.map(drop).expect_err(name),
            bounded(people.count_documents(doc! {})).await.map(drop).expect_err(name),
            bounded(people.drop()).await.expect_err(name),
        ] {
            assert!(error.is_invalid_argument(), "{name:?}: {error:?}");
        }
    }
    let sent: Vec<_> = server.log().requests.into_iter().filter(|sent| !sent.is_hello()).collect();
    assert!(sent.is_empty(), "{sent:?}");
}

#[tokio::test]
async fn keys_with_a_nul_are_never_sent() {
    // pitfall 41
    let server = Server::plain(Role::Standalone);
    let client = Client::with_uri_str(server.uri("")).await.unwrap();
    let database = client.database("db");
    let people = database.collection::<Document>("people");
    let bad = || doc! { "good": { "ba\0d": 1 } };
    for error in [
        bounded(people.insert_one(bad())).await.expect_err("insert_one"),
        bounded(people.insert_many([bad()])).await.expect_err("insert_many"),
        bounded(people.find(bad())).await.map(drop).expect_err("find"),
        bounded(people.update_one(doc! {}, doc! { "$set": bad() })).await.expect_err("update"),
        bounded(people.replace_one(doc! {}, bad())).await.expect_err("replace"),
        bounded(people.delete_one(bad())).await.expect_err("delete"),
        bounded(people.aggregate([doc! { "$match": bad() }])).await.map(drop).expect_err("agg"),
        bounded(database.run_command(doc! { "pi\0ng": 1 })).await.expect_err("run_command"),
    ] {
        let text = error.to_string().to_lowercase();
        assert!(text.contains("nul") || text.contains("\\0"), "{error:?}");
    }
    let sent: Vec<_> = server.log().requests.into_iter().filter(|sent| !sent.is_hello()).collect();
    assert!(sent.is_empty(), "{sent:?}");
}

#[tokio::test]
async fn what_is_too_large_is_refused_before_it_is_sent() {
    let server = Server::with_handler(Role::Standalone, |request| {
        let limits = doc! { "maxBsonObjectSize": 1000, "maxMessageSizeBytes": 5000 };
        request.is_hello().then(|| vec![Step::Hello(limits)])
    });
    let client = Client::with_uri_str(server.uri("")).await.unwrap();
    let database = client.database("db");
    let people = database.collection::<Document>("people");
    let large = |size| doc! { "text": "x".repeat(size) };
    let error = bounded(people.insert_many([doc! {}, large(2000)])).await.expect_err("a document");
    assert!(error.is_invalid_argument(), "{error:?}");
    assert_says(&error, &["document 1", "bytes long", "1000"]);
    let command = doc! { "ping": 1, "text": "x".repeat(6000) };
    for error in [
        bounded(people.insert_one(large(6000))).await.expect_err("insert_one"),
        bounded(people.find_one(large(6000))).await.expect_err("find_one"),
        bounded(database.run_command(command)).await.expect_err("run_command"),
    ] {
        assert!(error.is_invalid_argument(), "{error:?}");
        assert_says(&error, &["the message is", "bytes long", "5000"]);
    }
    let sent: Vec<_> = server.log().requests.into_iter().filter(|sent| !sent.is_hello()).collect();
    assert!(sent.is_empty(), "{sent:?}");
    // And the connection that it was to go through is as good as before.
    ping(&client).await.unwrap();
    assert_eq!(server.log().opened, 2, "one of the monitor, one of operations");
}

#[tokio::test]
async fn times_beyond_all_measure_do_not_overflow() {
    let server = Server::plain(Role::Standalone);
    let mut options = ClientOptions::parse(server.uri("")).await.unwrap();
    options.server_selection_timeout = Some(Duration::MAX);
    options.connect_timeout = Some(Duration::MAX);
    options.socket_timeout = Some(Duration::MAX);
    options.heartbeat_freq = Some(Duration::MAX);
    options.max_idle_time = Some(Duration::MAX);
    options.wait_queue_timeout = Some(Duration::MAX);
    options.local_threshold = Some(Duration::MAX);
    let client = Client::with_options(options).unwrap();
    ping(&client).await.unwrap();
    ping(&client).await.unwrap();
}
