//! Malicious servers: they receive no documents before authentication, and their claims raise no limits on memory and
//! open no connections.

use blackpipe::message::Request;
use steadfast::{
    Client,
    bson::{Document, doc, rawdoc},
    event::sdam::SdamEvent,
    options::ClientOptions,
};
use steadfast_wire::{Compressor, compress};

use super::{
    LIMITS, assert_message_contains,
    common::{Clock, Recorder, Role, Server, Step, bounded, is_handshake_for_operations, message},
    first_error, ping,
};

/// Hello fields of an arbiter.
fn arbiter() -> Document {
    doc! { "ismaster": false, "isWritablePrimary": false, "secondary": false, "arbiterOnly": true }
}

#[tokio::test]
async fn unauthenticated_connection_never_carries_a_command() {
    let flagged = || doc! { "arbiterOnly": true };
    // Hello fields for the monitor and for the pooled connection, and options of the client.
    for (monitor, pooled, options) in [
        (flagged(), flagged(), ""),
        (doc! {}, flagged(), ""),
        (doc! {}, arbiter(), ""),
        (flagged(), arbiter(), "directConnection=true"),
        (arbiter(), arbiter(), "directConnection=true"),
        (doc! {}, doc! { "setName": null, "hidden": true, "arbiterOnly": true }, ""),
        (doc! {}, doc! { "msg": "isdbgrid", "arbiterOnly": true }, ""),
    ] {
        let case = format!("{monitor}, then {pooled}, {options}");
        let server = Server::with_handler(Role::Primary, move |request| match request {
            it if is_handshake_for_operations(it) => Some(vec![Step::Hello(pooled.clone())]),
            it if it.is_hello() => Some(vec![Step::Hello(monitor.clone())]),
            _ => None,
        });
        let uri = server.uri(options).replace("://", "://user:pencil@");
        let client = Client::with_uri_str(uri).await.unwrap();
        let people = client.database("db").collection::<Document>("people");
        let written = bounded(people.insert_one(doc! { "secret": 1 })).await;
        assert!(server.log().named("insert").is_empty(), "the document arrived: {case}");
        let error = written.expect_err("the server does not know the password");
        assert!(error.is_auth_error(), "{case}: {error:?}");
        assert_message_contains(&error, &[&server.address()]);
    }
}

#[tokio::test]
async fn arbiter_is_used_by_a_client_without_credentials() {
    let server = Server::with_handler(Role::Primary, |request| {
        request.is_hello().then(|| vec![Step::Hello(arbiter())])
    });
    let client = Client::with_uri_str(server.uri("directConnection=true")).await.unwrap();
    ping(&client).await.unwrap();
}

/// Reply compressed by this compressor, negotiated or not.
fn compressed(request: &Request, reply: &Document, compressor: Compressor) -> Vec<Step> {
    let mut plain = request.clone();
    plain.compressor = None;
    let mut bytes = Vec::new();
    compress(&plain.reply(reply), compressor, &mut bytes).unwrap();
    vec![Step::RawBytes(bytes)]
}

fn hello() -> Document {
    doc! { "ok": 1, "ismaster": true, "maxWireVersion": 21, "helloOk": true }
}

#[tokio::test]
async fn reply_with_a_compressor_that_was_not_negotiated_is_rejected() {
    let cause = "compressed with noop, which was not negotiated";
    let server = Server::with_handler(Role::Standalone, |request| {
        request.is_hello().then(|| compressed(request, &hello(), Compressor::Noop))
    });
    let error = first_error(&server.uri(LIMITS), &Clock::stopped(), async {}).await;
    assert_message_contains(&error, &[cause, &server.address()]);

    let server = Server::with_handler(Role::Standalone, |request| {
        let ok = doc! { "ok": 1 };
        (request.name == "ping").then(|| compressed(request, &ok, Compressor::Noop))
    });
    let client = Client::with_uri_str(server.uri("")).await.unwrap();
    let error = ping(&client).await.expect_err("nothing was negotiated");
    assert_message_contains(&error, &[cause, &server.address()]);
}

#[cfg(all(feature = "zlib", feature = "snappy"))]
#[tokio::test]
async fn reply_may_be_compressed_by_any_negotiated_compressor_and_no_other() {
    use steadfast_wire::ZlibLevel;

    let zlib = Compressor::Zlib(ZlibLevel::DEFAULT);
    // Compressors in the hello reply, the compressor of command replies, and that of the hello reply.
    for (listed, used, of_hello, is_good) in [
        (vec!["snappy", "zlib"], zlib, None, true),
        (vec!["snappy", "zlib"], zlib, Some(Compressor::Snappy), true),
        (vec!["snappy"], Compressor::Snappy, None, true),
        (vec!["snappy"], zlib, None, false),
        (vec![], Compressor::Snappy, None, false),
        (vec!["snappy", "noop"], Compressor::Noop, None, false),
    ] {
        let case = format!("{listed:?}, {used}, {of_hello:?}");
        let server = Server::with_handler(Role::Standalone, move |request| {
            let mut hello = hello();
            hello.insert("compression", &listed);
            match request.name.as_str() {
                "ping" => Some(compressed(request, &doc! { "ok": 1 }, used)),
                _ if !request.is_hello() => None,
                _ => Some(match of_hello {
                    Some(compressor) => compressed(request, &hello, compressor),
                    None => vec![Step::Reply(hello)],
                }),
            }
        });
        let client = Client::with_uri_str(server.uri("compressors=snappy,zlib")).await.unwrap();
        match ping(&client).await {
            Ok(_) => assert!(is_good, "{case}"),
            Err(error) => {
                assert!(!is_good, "{case}: {error}");
                assert_message_contains(&error, &["which was not negotiated"]);
            }
        }
    }
}

/// Size above the limit of replies, which is MongoDB's largest message and an allowance.
const TOO_LARGE: i32 = 70_000_000;

#[tokio::test]
async fn claimed_message_size_does_not_raise_the_limit_of_replies() {
    let server = Server::with_handler(Role::Standalone, |request| match request.name.as_str() {
        "ping" => Some(vec![Step::RawBytes(message(TOO_LARGE, request.id, 2013, &[0; 5]))]),
        _ => {
            let claim = doc! { "maxMessageSizeBytes": i32::MAX };
            request.is_hello().then(|| vec![Step::Hello(claim)])
        }
    });
    let client = Client::with_uri_str(server.uri("socketTimeoutMS=5000")).await.unwrap();
    let error = ping(&client).await.expect_err("no reply is so long");
    assert_message_contains(&error, &["message length 70000000 exceeds", &server.address()]);
}

#[cfg(feature = "zlib")]
#[tokio::test]
async fn claimed_message_size_does_not_raise_the_limit_of_decompression() {
    use steadfast_wire::ZlibLevel;

    let size = usize::try_from(TOO_LARGE).unwrap();
    let plain = message(TOO_LARGE + 16, 0, 1, &vec![0; size]);
    let mut bomb = Vec::new();
    compress(&plain, Compressor::Zlib(ZlibLevel::DEFAULT), &mut bomb).unwrap();
    assert!(bomb.len() < 100_000);
    let server = Server::with_handler(Role::Standalone, move |request| {
        let claim = doc! { "maxMessageSizeBytes": i32::MAX, "compression": ["zlib"] };
        match request.name.as_str() {
            "ping" => Some(vec![Step::RawBytes(bomb.clone())]),
            _ => request.is_hello().then(|| vec![Step::Hello(claim)]),
        }
    });
    let client = Client::with_uri_str(server.uri("compressors=zlib")).await.unwrap();
    let error = ping(&client).await.expect_err("no reply is so long");
    assert_message_contains(&error, &["uncompressed size 70000000", &server.address()]);
}

/// The limit of replies is lower before authentication.
#[tokio::test]
async fn replies_of_the_handshake_are_small() {
    const TWO_MEBIBYTES: i32 = 2 * 1024 * 1024;
    let clock = Clock::stopped();
    let too_long =
        |request: &Request| vec![Step::RawBytes(message(TWO_MEBIBYTES, request.id, 2013, &[0; 5]))];
    let cause = "message length 2097152 exceeds";
    let server = Server::with_handler(Role::Standalone, move |it| Some(too_long(it)));
    let error = first_error(&server.uri(LIMITS), &clock, async {}).await;
    assert_message_contains(&error, &[cause, &server.address()]);

    let server = Server::with_handler(Role::Standalone, move |request| {
        (request.name == "saslStart").then(|| too_long(request))
    });
    let uri = server.uri("").replace("://", "://user:pencil@");
    let error = ping(&Client::with_uri_str(uri).await.unwrap()).await.expect_err("too long");
    assert_message_contains(&error, &[cause, &server.address()]);

    // After the handshake, a reply may be as large as MongoDB's largest message.
    let server = Server::with_handler(Role::Standalone, |request| {
        let long = doc! { "ok": 1, "long": "x".repeat(3 * 1024 * 1024) };
        (request.name == "ping").then(|| vec![Step::Reply(long)])
    });
    ping(&Client::with_uri_str(server.uri("")).await.unwrap()).await.unwrap();
}

#[tokio::test]
async fn tiny_limits_of_a_server_end_in_an_error() {
    let limits = ["maxBsonObjectSize", "maxMessageSizeBytes", "maxWriteBatchSize"];
    for (limit, size) in limits.into_iter().flat_map(|limit| [(limit, 1), (limit, 20)]) {
        let server = Server::with_handler(Role::Primary, move |request| {
            let mut hello = doc! { "maxWireVersion": 25 };
            hello.insert(limit, size);
            match request.name.as_str() {
                "insert" => Some(vec![Step::Reply(doc! { "ok": 1, "n": 1 })]),
                _ => request.is_hello().then(|| vec![Step::Hello(hello)]),
            }
        });
        let client = Client::with_uri_str(server.uri("")).await.unwrap();
        let people = client.database("db").collection::<Document>("people");
        let documents = || [rawdoc! { "name": "x".repeat(50) }, rawdoc! { "name": "Ada" }];
        let raw = people.clone_with_type::<steadfast::bson::RawDocumentBuf>();
        let many = bounded(raw.insert_many(documents())).await;
        let one = bounded(raw.insert_one(&documents()[0])).await;
        let models: Vec<_> =
            documents().map(|it| raw.insert_one_model(it).unwrap()).into_iter().collect();
        let bulk = bounded(client.bulk_write(models)).await;
        match limit {
            "maxWriteBatchSize" => assert!(many.is_ok() && one.is_ok(), "{many:?} {one:?}"),
            "maxMessageSizeBytes" => {
                assert!(many.is_err() && one.is_err() && bulk.is_err());
                assert!(server.log().named("insert").is_empty());
            }
            // The server checks the size of a single document.
            _ => assert!(many.is_err() && bulk.is_err(), "{many:?} {bulk:?}"),
        }
    }
}

#[cfg(unix)]
#[tokio::test]
async fn unix_socket_in_a_hello_reply_is_ignored() {
    let socket = "/tmp/steadfast-impostor.sock";
    for list in ["hosts", "passives", "arbiters"] {
        let server = Server::lenient(Role::Primary);
        let mut named = doc! { "hosts": [server.address()] };
        match list {
            "hosts" => named.insert("hosts", [server.address(), socket.to_owned()].to_vec()),
            _ => named.insert(list, [socket].to_vec()),
        };
        server.set_hello_fields(named);
        let events = Recorder::new();
        let mut options = ClientOptions::parse(server.uri("replicaSet=set")).await.unwrap();
        options.sdam_event_handler = Some(events.handler());
        let client = Client::with_options(options).unwrap();
        ping(&client).await.unwrap();
        let opened: Vec<_> = events
            .seen()
            .into_iter()
            .filter_map(|event| match event {
                SdamEvent::ServerOpening(event) => Some(event.address.to_string()),
                _ => None,
            })
            .collect();
        assert_eq!(opened, [server.address()], "{list}");
    }
}
