//! What a script expects, what it lets pass, and what it says when it was not kept.

use std::panic::{AssertUnwindSafe, catch_unwind};

use steadfast_wire::{Compressor, MsgFlags};

use super::*;

fn update_one() -> Document {
    doc! { "update": "things", "updates": [{ "q": { "_id": 1 }, "u": { "x": 2_i64 } }], "$db": "db" }
}

#[tokio::test]
async fn what_is_expected_is_answered_in_its_order_as_the_script_says() {
    let server = Server::start();
    server
        .expect(insert("db.things").with(doc! { "documents": [{ "_id": 1 }] }).then(reply(done())));
    server.expect(insert("db.things").then(error(11600).labelled("RetryableWriteError")));
    server.expect(update("db.things"));
    let mut client = Client::of(&server).await;
    assert_eq!(client.run(insert_one()).await, done());
    let refused = client.run(insert_one()).await;
    assert_eq!(refused.get_str("codeName").unwrap(), "InterruptedAtShutdown");
    assert_eq!(refused.get_array("errorLabels").unwrap().len(), 1);
    assert_eq!(client.run(update_one()).await, doc! { "n": 1, "nModified": 1, "ok": 1 });
    server.finish();
}

#[tokio::test]
async fn what_drivers_say_by_themselves_needs_no_mention_and_can_be_expected() {
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
async fn an_unexpected_command_is_refused_and_told_of_with_the_whole_conversation() {
    let server = Server::start();
    server.expect(update("db.things").with(doc! { "ordered": true }));
    let mut client = Client::of(&server).await;
    client.run(ping()).await;
    let refused = client.run(insert_one()).await;
    assert_eq!(refused.get_i32("code").unwrap(), 59);
    let said = refused.get_str("errmsg").unwrap();
    assert!(said.contains("unexpected: insert db.things"), "{said}");

    let report = server.check().unwrap_err().to_string();
    for part in [
        "The script was not kept.",
        "through connection 1 came unexpected: insert db.things { \"documents\": [{ \"_id\": 1 }] }",
        "expected next is update db.things with { \"ordered\": true }: it is not update",
        "never came: update db.things with { \"ordered\": true }",
        "connection 1 is opened from 127.0.0.1:",
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
async fn a_server_that_is_dropped_answers_for_its_script_unless_the_test_has_failed_already() {
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
async fn a_group_comes_in_any_order_and_what_comes_several_times_is_counted() {
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
    assert!(report.contains("never came: insert db.things\n"), "{report}");
    client.run(insert_one()).await;
    let found = client.run(doc! { "find": "things", "$db": "db" }).await;
    assert_eq!(found.get_document("cursor").unwrap().get_i64("id").unwrap(), 0);
    server.finish();
}

#[tokio::test]
async fn what_may_always_come_gives_way_to_what_is_expected_and_to_what_was_said_later() {
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
async fn expectations_see_fields_and_their_absence_and_whatever_a_closure_sees() {
    let wanted = || insert("db.things");
    for (expected, why) in [
        (wanted(), None),
        (any().of("db"), None),
        (any().of("admin"), Some("it is not of admin")),
        (wanted().with(doc! { "documents": [{ "_id": 1.0 }] }), None),
        (wanted().with(doc! { "documents": [{ "_id": 1_i64 }] }), None),
        (
            wanted().with(doc! { "documents": [{ "_id": 1.5 }] }),
            Some("documents.0._id is 1, not 1.5"),
        ),
        (wanted().with(doc! { "documents": [] }), Some("documents has 1 elements, not 0")),
        (wanted().with(doc! { "documents": [{ "x": 1 }] }), Some("it lacks documents.0.x")),
        (wanted().with(doc! { "txnNumber": 1 }), Some("it lacks txnNumber")),
        (wanted().without("txnNumber"), None),
        (wanted().without("documents"), Some("it has the field documents")),
        (
            wanted().that("is the third", |it| it.earlier == 2),
            Some("it is not one that is the third"),
        ),
        (wanted().at(1), Some("it came to server 0, not 1")),
        (hello(), Some("it is not one that is a hello")),
        (command("INSERT"), Some("it is not INSERT")),
    ] {
        let server = Server::start();
        server.expect(expected);
        Client::of(&server).await.run(insert_one()).await;
        match (server.check(), why) {
            (Ok(()), None) => {}
            (Err(report), Some(why)) => assert!(report.to_string().contains(why), "{report}"),
            (Err(report), None) => panic!("{report}"),
            (Ok(()), Some(why)) => panic!("it was taken although {why}"),
        }
        let _ = catch_unwind(AssertUnwindSafe(|| drop(server)));
    }
}

#[tokio::test]
async fn a_reply_can_be_made_for_the_request() {
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
async fn a_handler_decides_about_each_request_and_all_is_welcome() {
    let server = Server::with_handler(Role::Mongos, |request| match request.name.as_str() {
        "find" => Some(vec![error(50).into()]),
        "insert" if request.earlier > 2 => Some(vec![hang_up()]),
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
async fn code_of_the_test_that_panics_fails_the_script_and_no_other_connection() {
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
async fn a_condition_that_panics_fails_the_script_and_says_so() {
    let server = Server::start();
    server.expect(
        insert("db.things")
            .that("has a five", |request| request.body.get_i32("five").expect("a five") == 5),
    );
    let mut client = Client::of(&server).await;
    client.send(insert_one()).await;
    assert!(client.receive().await.is_err());
    let report = server.check().unwrap_err().to_string();
    assert!(report.contains("a five") && report.contains("the server hung up"), "{report}");
    assert!(catch_unwind(AssertUnwindSafe(|| server.finish())).is_err());
}

#[tokio::test]
async fn each_way_of_asking_is_answered_in_kind() {
    let server = Server::plain(Role::Standalone);
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
async fn a_request_that_wants_no_reply_gets_none_and_is_waited_for() {
    let server = Server::start();
    server.expect(insert("db.things").that("wants no reply", |it| !it.wants_reply));
    let mut client = Client::of(&server).await;
    client.send_with(insert_one(), MsgFlags::MORE_TO_COME, None).await;
    server.settled().await;
    // Were the insert answered, this would be that answer.
    client.run(ping()).await;
    server.finish();
}

#[tokio::test]
async fn hello_says_what_it_is_told_to_say() {
    let server = Server::builder().saying(doc! { "maxWireVersion": 9 }).start();
    server.say(doc! { "setName": "odd", "readOnly": bson::Bson::Null });
    let said = Client::of(&server).await.run(doc! { "hello": 1, "$db": "admin" }).await;
    assert_eq!(said, server.hello());
    assert_eq!(said.get_i32("maxWireVersion").unwrap(), 9);
    assert_eq!(said.get_str("setName").unwrap(), "odd");
    assert!(!said.contains_key("readOnly"));
}
