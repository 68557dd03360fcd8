//! Scripts: expected requests, default replies and reports.

use std::panic::{AssertUnwindSafe, catch_unwind};

use steadfast_wire::{Compressor, MsgFlags};

use super::*;

fn update_one() -> Document {
    doc! { "update": "things", "updates": [{ "q": { "_id": 1 }, "u": { "x": 2_i64 } }], "$db": "db" }
}

#[tokio::test]
async fn expected_requests_get_scripted_replies_in_order() {
    let server = Server::start();
    server
        .expect(insert("db.things").with(doc! { "documents": [{ "_id": 1 }] }).then(reply(done())));
    server.expect(insert("db.things").then(error(11600).labelled("RetryableWriteError")));
    server.expect(update("db.things"));
    let mut client = Client::of(&server).await;
    assert_eq!(client.run(insert_one()).await, done());
    let rejected = client.run(insert_one()).await;
    assert_eq!(rejected.get_str("codeName").unwrap(), "InterruptedAtShutdown");
    assert_eq!(rejected.get_array("errorLabels").unwrap().len(), 1);
    assert_eq!(client.run(update_one()).await, doc! { "n": 1, "nModified": 1, "ok": 1 });
    server.finish();
}

#[tokio::test]
async fn background_commands_get_default_replies_and_can_be_expected() {
    let server = Server::start();
    let mut client = Client::of(&server).await;
    assert_eq!(client.run(ping()).await, doc! { "ok": 1 });
    assert!(client.run(doc! { "hello": 1, "$db": "admin" }).await.get_bool("helloOk").unwrap());
    assert!(client.run(doc! { "buildInfo": 1, "$db": "admin" }).await.contains_key("version"));
    client.run(doc! { "endSessions": [], "$db": "admin" }).await;
    let killed =
        client.run(doc! { "killCursors": "things", "cursors": [7_i64], "$db": "db" }).await;
    assert_eq!(killed.get_array("cursorsKilled").unwrap().len(), 1);
    server.check().unwrap();

    server.expect(command("ping").then(error(91)));
    assert_eq!(client.run(ping()).await.get_i32("code").unwrap(), 91);
    assert_eq!(client.run(ping()).await, doc! { "ok": 1 });
    server.finish();
}

#[tokio::test]
async fn unexpected_command_fails_the_script_with_a_transcript() {
    let server = Server::start();
    server.expect(update("db.things").with(doc! { "ordered": true }));
    let mut client = Client::of(&server).await;
    client.run(ping()).await;
    let rejected = client.run(insert_one()).await;
    assert_eq!(rejected.get_i32("code").unwrap(), 59);
    let received = rejected.get_str("errmsg").unwrap();
    assert!(received.contains("unexpected request insert db.things"), "{received}");

    let report = server.check().unwrap_err().to_string();
    for part in [
        "script failed:",
        "connection 1: unexpected request insert db.things { \"documents\": [{ \"_id\": 1 }] }",
        "next expected is update db.things with { \"ordered\": true }: the command is insert, not update",
        "missing request: update db.things with { \"ordered\": true }",
        "connection 1 opened by 127.0.0.1:",
        "connection 1 > ping admin",
        "connection 1 < { \"ok\": 1 }",
        "connection 1 > insert db.things",
        "connection 1 < { \"ok\": 0, \"errmsg\": \"blackpipe: unexpected",
    ] {
        assert!(report.contains(part), "{part:?} is missing in:\n{report}");
    }
    let panic = catch_unwind(AssertUnwindSafe(|| server.finish())).unwrap_err();
    assert_eq!(panic.downcast_ref::<String>().unwrap(), &report);
}

#[tokio::test]
async fn dropped_server_checks_its_script_unless_already_panicking() {
    let server = Server::start();
    server.expect(insert("db.things"));
    assert!(catch_unwind(AssertUnwindSafe(|| drop(server))).is_err());

    let server = Server::start();
    server.expect(insert("db.things"));
    let panic = catch_unwind(AssertUnwindSafe(|| {
        let _server = server;
        panic!("of the test's own");
    }));
    let panic = panic.map(|(): ()| ()).unwrap_err();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"of the test's own"));
}

#[tokio::test]
async fn unordered_group_and_times_are_counted() {
    let server = Server::start();
    server.expect_in_any_order([
        insert("db.things").times(2),
        update("db.things").then(reply(doc! { "ok": 1, "n": 7 })),
    ]);
    server.expect(find("db.things"));
    let mut client = Client::of(&server).await;
    client.run(insert_one()).await;
    assert_eq!(client.run(update_one()).await.get_i32("n").unwrap(), 7);
    let report = server.check().unwrap_err().to_string();
    assert!(report.contains("missing request: insert db.things\n"), "{report}");
    client.run(insert_one()).await;
    let found = client.run(doc! { "find": "things", "$db": "db" }).await;
    assert_eq!(found.get_document("cursor").unwrap().get_i64("id").unwrap(), 0);
    server.finish();
}

#[tokio::test]
async fn expected_requests_and_later_definitions_take_precedence() {
    let server = Server::start();
    server.whenever(insert("db.things").then(error(1)));
    server.whenever(insert("db.things").then(error(2)).times(1));
    server.expect(insert("db.things").then(error(3)));
    let mut client = Client::of(&server).await;
    let mut codes = Vec::new();
    for _ in 0..4 {
        codes.push(client.run(insert_one()).await.get_i32("code").unwrap());
    }
    assert_eq!(codes, [3, 2, 1, 1]);
    server.finish();
}

#[tokio::test]
async fn mismatch_names_the_failed_condition() {
    let wanted = || insert("db.things");
    for (expected, why) in [
        (wanted(), None),
        (any().of("db"), None),
        (any().of("admin"), Some("the namespace is db.things, not admin")),
        (wanted().with(doc! { "documents": [{ "_id": 1.0 }] }), None),
        (wanted().with(doc! { "documents": [{ "_id": 1_i64 }] }), None),
        (
            wanted().with(doc! { "documents": [{ "_id": 1.5 }] }),
            Some("documents.0._id is 1, not 1.5"),
        ),
        (wanted().with(doc! { "documents": [] }), Some("documents has 1 elements, not 0")),
        (wanted().with(doc! { "documents": [{ "x": 1 }] }), Some("documents.0.x is missing")),
        (wanted().with(doc! { "txnNumber": 1 }), Some("txnNumber is missing")),
        (wanted().without("txnNumber"), None),
        (wanted().without("documents"), Some("documents is present")),
        (
            wanted().that("is the third", |it| it.earlier_requests == 2),
            Some("the condition \"is the third\" is false"),
        ),
        (wanted().at(1), Some("it arrived at server 0, not 1")),
        (hello(), Some("the condition \"is a hello\" is false")),
        (command("INSERT"), Some("the command is insert, not INSERT")),
    ] {
        let server = Server::start();
        server.expect(expected);
        Client::of(&server).await.run(insert_one()).await;
        match (server.check(), why) {
            (Ok(()), None) => {}
            (Err(report), Some(why)) => assert!(report.to_string().contains(why), "{report}"),
            (Err(report), None) => panic!("{report}"),
            (Ok(()), Some(why)) => panic!("matched, expected a mismatch: {why}"),
        }
        let _ = catch_unwind(AssertUnwindSafe(|| drop(server)));
    }
}

#[tokio::test]
async fn then_with_computes_the_reply_from_the_request() {
    let server = Server::start();
    let echo = find("db.things").then_with(|request| {
        let filter = request.body.get_document("filter").unwrap().clone();
        vec![reply(doc! { "ok": 1, "asked": filter })]
    });
    server.expect(echo.times(2));
    let mut client = Client::of(&server).await;
    for x in 0..2 {
        let command = doc! { "find": "things", "filter": { "x": x }, "$db": "db" };
        assert_eq!(client.run(command).await.get_document("asked").unwrap(), &doc! { "x": x });
    }
    server.finish();
}

#[tokio::test]
async fn handler_decides_each_request() {
    let server = Server::with_handler(Role::Mongos, |request| match request.name.as_str() {
        "find" => Some(vec![error(50).into()]),
        "insert" if request.earlier_requests > 2 => Some(vec![hang_up()]),
        _ => None,
    });
    let mut client = Client::of(&server).await;
    let hello = client.run(doc! { "hello": 1, "$db": "admin" }).await;
    assert_eq!(hello.get_str("msg").unwrap(), "isdbgrid");
    assert_eq!(client.run(insert_one()).await.get_i32("n").unwrap(), 1);
    assert_eq!(
        client.run(doc! { "find": "things", "$db": "db" }).await.get_i32("code").unwrap(),
        50
    );
    client.send(insert_one()).await;
    assert!(client.receive().await.is_err());
    let log = server.wait_for(|log| log.open == 0).await;
    assert_eq!(log.connections_of("insert"), [1, 1]);
    assert_eq!((log.opened, log.most_open, log.requests.len()), (1, 1, 4));
    server.finish();
}

#[tokio::test]
async fn panicking_handler_fails_the_script_and_closes_its_connection() {
    let server = Server::with_handler(Role::Standalone, |request| {
        assert_ne!(request.name, "find", "no finding today");
        None
    });
    let (mut one, mut other) = (Client::of(&server).await, Client::of(&server).await);
    one.run(ping()).await;
    one.send(doc! { "find": "things", "$db": "db" }).await;
    assert!(one.receive().await.is_err());
    other.run(ping()).await;
    let report = server.check().unwrap_err().to_string();
    assert!(report.contains("no finding today"), "{report}");
    assert!(catch_unwind(AssertUnwindSafe(|| server.finish())).is_err());
}

#[tokio::test]
async fn panicking_condition_fails_the_script() {
    let server = Server::start();
    server.expect(
        insert("db.things")
            .that("has a five", |request| request.body.get_i32("five").expect("a five") == 5),
    );
    let mut client = Client::of(&server).await;
    client.send(insert_one()).await;
    assert!(client.receive().await.is_err());
    let report = server.check().unwrap_err().to_string();
    assert!(report.contains("a five") && report.contains("closed by the script"), "{report}");
    assert!(catch_unwind(AssertUnwindSafe(|| server.finish())).is_err());
}

#[tokio::test]
async fn reply_has_the_wire_format_of_the_request() {
    let server = Server::lenient(Role::Standalone);
    let mut client = Client::of(&server).await;
    let id = client.send_legacy(&doc! { "isMaster": 1, "helloOk": true }).await;
    let hello = client.receive().await.unwrap();
    assert_eq!(hello.response_to, id);
    assert!(hello.document.get_bool("ismaster").unwrap());
    for compressor in ["snappy", "zlib", "zstd", "noop"] {
        let compressor = Some(compressor.parse::<Compressor>().unwrap());
        client.send_with(insert_one(), MsgFlags::empty(), compressor).await;
        let reply = client.receive().await.unwrap();
        assert_eq!((reply.compressor, reply.document.get_i32("n").unwrap()), (compressor, 1));
    }
    let log = server.log();
    assert!(log.requests[0].legacy && log.requests[0].database == "admin");
    assert_eq!(log.requests.last().unwrap().compressor, Some(Compressor::Noop));
}

#[tokio::test]
async fn request_with_more_to_come_gets_no_reply() {
    let server = Server::start();
    server.expect(insert("db.things").that("expects no reply", |it| !it.expects_reply));
    let mut client = Client::of(&server).await;
    client.send_with(insert_one(), MsgFlags::MORE_TO_COME, None).await;
    server.wait_for_script().await;
    // A reply to the insert would arrive here instead.
    client.run(ping()).await;
    server.finish();
}

#[tokio::test]
async fn hello_fields_can_be_overridden() {
    let server = Server::builder().hello_fields(doc! { "maxWireVersion": 9 }).start();
    server.set_hello_fields(doc! { "setName": "odd", "readOnly": bson::Bson::Null });
    let received = Client::of(&server).await.run(doc! { "hello": 1, "$db": "admin" }).await;
    assert_eq!(received, server.hello());
    assert_eq!(received.get_i32("maxWireVersion").unwrap(), 9);
    assert_eq!(received.get_str("setName").unwrap(), "odd");
    assert!(!received.contains_key("readOnly"));
}
