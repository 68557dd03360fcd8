//! Rules set by commands of a client, and error replies.

use blackpipe::proxy::{ErrorReply, Reaction, Rule, WriteConcernError};
use bson::{Document, doc};
use steadfast_wire::{DocumentBytes, OpQuery};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::{
    client::{RawClient, black_pipe, insert, ping},
    fake_server::FakeServer,
};

fn fail_command(mode: impl Into<bson::Bson>, data: Document) -> Document {
    doc! { "configureFailPoint": "failCommand", "mode": mode.into(), "data": data, "$db": "admin" }
}

fn labels(reply: &Document) -> Vec<&str> {
    let labels = reply.get_array("errorLabels").map(Vec::as_slice).unwrap_or_default();
    labels.iter().filter_map(bson::Bson::as_str).collect()
}

#[tokio::test]
async fn rule_is_added_listed_and_removed_by_commands() {
    let server = FakeServer::start().await;
    let proxy = server.proxy().await;
    let mut client = RawClient::of(&proxy).await;
    let rule = doc! { "name": "mine", "command": "insert", "nth": 2, "then": "loseReply" };
    let added = client.run(black_pipe("add", rule)).await.unwrap();
    assert_eq!(added, doc! { "added": ["mine"], "ok": 1.0 });
    client.run(insert(1, 1)).await.unwrap();
    let listed = client.run(black_pipe("list", 1)).await.unwrap();
    let [rule] = &listed.get_array("rules").unwrap()[..] else { panic!("one rule: {listed}") };
    let rule = rule.as_document().unwrap();
    assert_eq!((rule.get_i64("met").unwrap(), rule.get_i64("applied").unwrap()), (1, 0));
    assert_eq!(rule.get_document("then").unwrap(), &doc! { "loseReply": { "reset": false } });
    client.run(insert(2, 1)).await.unwrap_err();

    let mut client = RawClient::of(&proxy).await;
    // JavaScript drivers may send every number as a double.
    let fields = doc! { "retryAfterMS": 3.0 };
    let error = doc! { "error": { "code": 91.0, "fields": fields } };
    let rule = doc! { "name": "doubles", "nth": 1.0, "probability": 1.0, "then": error };
    client.run(black_pipe("add", rule)).await.unwrap().get_array("added").unwrap();
    let reply = client.run(ping()).await.unwrap();
    assert_eq!(reply.get_i32("code").unwrap(), 91);
    assert_eq!(reply.get_f64("retryAfterMS").unwrap(), 3.0);
    let removed = client.run(black_pipe("remove", "mine")).await.unwrap();
    assert_eq!(removed, doc! { "applied": 1_i64, "ok": 1.0 });
    let gone = client.run(black_pipe("remove", "mine")).await.unwrap();
    assert!(gone.get_str("errmsg").unwrap().contains("mine"));
}

#[tokio::test]
async fn ledger_is_read_and_cleared_by_commands() {
    let server = FakeServer::start().await;
    let proxy = server.proxy().await;
    let mut client = RawClient::of(&proxy).await;
    client.run(insert(1, 1)).await.unwrap();
    client.run(ping()).await.unwrap();
    let filter = doc! { "command": "insert", "namespace": "shop.orders" };
    let ledger = client.run(black_pipe("ledger", filter)).await.unwrap();
    let of = |key: &str| ledger.get_array(key).unwrap().clone();
    assert_eq!((of("counts").len(), of("writes").len(), of("entries").len()), (1, 1, 1));
    let writes = of("writes");
    let write = writes[0].as_document().unwrap();
    assert_eq!(write.get_i32("deliveries").unwrap(), 1);
    assert_eq!(write.get_i32("executions").unwrap(), 1);
    assert_eq!(write.get_i64("txnNumber").unwrap(), 1);
    client.run(black_pipe("clear", "ledger")).await.unwrap();
    assert_eq!(proxy.ledger().entries().count(), 0);
}

#[tokio::test]
async fn invalid_command_gets_usage() {
    let server = FakeServer::start().await;
    let proxy = server.proxy().await;
    let mut client = RawClient::of(&proxy).await;
    let wrong = [
        (black_pipe("insert", 1), "unknown operation insert"),
        (black_pipe("clear", 1), "'rules'"),
        (black_pipe("add", doc! { "then": "loseRply" }), "`loseReply`"),
        (black_pipe("add", doc! { "comand": "insert", "then": "refuse" }), "`command`"),
        (black_pipe("add", 3), "a rule"),
        (fail_command("on", doc! {}), "mode"),
        (fail_command("alwaysOn", doc! { "failCommands": ["insert"] }), "errorCode"),
    ];
    for (command, expected) in wrong {
        let reply = client.run(command.clone()).await.unwrap();
        assert_eq!(reply.get_f64("ok").unwrap(), 0.0, "{command}");
        assert!(reply.get_str("errmsg").unwrap().contains(expected), "{reply}");
    }
    let usage = client.run(doc! { "blackPipe": 1, "$db": "admin" }).await.unwrap();
    assert!(usage.get_str("usage").unwrap().contains("ledger"));
    assert!(proxy.rules().is_empty());
}

#[tokio::test]
async fn proxy_implements_the_fail_command_fail_point() {
    let server = FakeServer::start().await;
    let proxy = server.proxy().await;
    let mut client = RawClient::of(&proxy).await;
    let data = doc! { "failCommands": ["insert"], "errorCode": 10107 };
    let on = client.run(fail_command(doc! { "times": 1 }, data.clone())).await.unwrap();
    assert_eq!(on, doc! { "count": 0_i64, "ok": 1.0 });
    let reply = client.run(insert(1, 1)).await.unwrap();
    assert_eq!((reply.get_f64("ok").unwrap(), reply.get_i32("code").unwrap()), (0.0, 10107));
    assert_eq!(labels(&reply), ["RetryableWriteError"]);
    assert_eq!(reply.get_str("codeName").unwrap(), "NotWritablePrimary");
    client.run(insert(1, 1)).await.unwrap().get_i32("n").unwrap();
    assert_eq!(proxy.ledger().count("insert", "shop.orders").deliveries, 1);

    client.run(fail_command("alwaysOn", data)).await.unwrap();
    assert_eq!(client.run(insert(2, 1)).await.unwrap().get_f64("ok").unwrap(), 0.0);
    let off = client.run(fail_command("off", doc! {})).await.unwrap();
    assert_eq!(off, doc! { "count": 1_i64, "ok": 1.0 });
    assert_eq!(client.run(insert(2, 1)).await.unwrap().get_f64("ok").unwrap(), 1.0);

    let close = doc! { "failCommands": ["insert"], "closeConnection": true };
    client.run(fail_command("alwaysOn", close)).await.unwrap();
    client.run(insert(3, 1)).await.unwrap_err();
}

#[tokio::test]
async fn rules_apply_to_streamed_replies() {
    let server = FakeServer::start().await;
    let proxy = server.proxy().await;
    server.answer_times(5);
    let ends = [
        (Reaction::error(91), Some(91)),
        (Reaction::cut_request(), None),
        (Reaction::lose_reply(), None),
    ];
    for (reaction, code) in ends {
        proxy.add(Rule::new(reaction).name("third").command("hello").nth(3));
        let mut client = RawClient::of(&proxy).await;
        client.send(doc! { "hello": 1, "$db": "admin" }).await;
        for _ in 0..2 {
            assert_eq!(client.reply().await.unwrap().get_f64("ok").unwrap(), 1.0);
        }
        if let Some(code) = code {
            assert_eq!(client.reply().await.unwrap().get_i32("code").unwrap(), code);
        }
        assert_eq!(client.rest().await.0, b"");
        assert_eq!(proxy.ledger().entries().last().unwrap().rules, ["third"]);
    }
}

#[tokio::test]
async fn app_name_restricts_the_fail_point() {
    let server = FakeServer::start().await;
    let proxy = server.proxy().await;
    let data = doc! { "failCommands": ["ping"], "errorCode": 1, "appName": "mine" };
    RawClient::of(&proxy).await.run(fail_command("alwaysOn", data)).await.unwrap();
    for (name, ok) in [("mine", 0.0), ("other", 1.0)] {
        let mut client = RawClient::of(&proxy).await;
        let hello = doc! {
            "hello": 1, "client": { "application": { "name": name } }, "$db": "admin",
        };
        client.run(hello).await.unwrap();
        assert_eq!(client.run(ping()).await.unwrap().get_f64("ok").unwrap(), ok, "{name}");
    }
}

#[tokio::test]
async fn error_is_sent_with_or_without_execution() {
    let server = FakeServer::start().await;
    let proxy = server.proxy().await;
    let mut client = RawClient::of(&proxy).await;
    let error = ErrorReply::new(462).with_labels(["RetryableError", "SystemOverloadedError"]);
    for execute in [false, true] {
        let error = if execute { error.clone().executed() } else { error.clone() };
        proxy.clear_ledger();
        proxy.add(Rule::new(Reaction::Error(error)).name("error").command("insert"));
        let reply = client.run(insert(1, 1)).await.unwrap();
        assert_eq!(labels(&reply), ["RetryableError", "SystemOverloadedError"]);
        let count = proxy.ledger().count("insert", "shop.orders");
        assert_eq!((count.attempts, count.executions), (1, u64::from(execute)));
        let returned = proxy.ledger().entries().map(|entry| entry.returned_bytes).sum::<usize>();
        assert!(returned > 16, "{returned} bytes were returned");
    }
}

#[tokio::test]
async fn replaces_applies_only_to_its_error_code() {
    let server = FakeServer::start().await;
    let proxy = server.proxy().await;
    let labels_of_462 = ["SystemOverloadedError", "RetryableError"];
    let error = ErrorReply::new(462).with_labels(labels_of_462).replacing(449);
    proxy.add(Rule::new(Reaction::Error(error)));
    let mut client = RawClient::of(&proxy).await;
    let mut answer = async |reply: Document| {
        server.answer_with(reply);
        client.run(insert(1, 1)).await.unwrap()
    };
    let overloaded = doc! { "ok": 0.0, "code": 449, "errorLabels": ["SystemOverloadedError"] };
    let replaced = answer(overloaded).await;
    assert_eq!(replaced.get_i32("code").unwrap(), 462, "{replaced}");
    assert_eq!(labels(&replaced), labels_of_462);
    for unchanged in [doc! { "ok": 1.0, "n": 1 }, doc! { "ok": 0.0, "code": 11000 }] {
        assert_eq!(answer(unchanged.clone()).await, unchanged);
    }
    let count = proxy.ledger().count("insert", "shop.orders");
    assert_eq!((count.attempts, count.deliveries, count.executions), (3, 3, 1));
}

#[tokio::test]
async fn write_concern_error_is_added_to_the_reply() {
    let server = FakeServer::start().await;
    let proxy = server.proxy().await;
    let error = WriteConcernError::new(91);
    proxy.add(Rule::new(Reaction::WriteConcernError(error)).command("insert"));
    let reply = RawClient::of(&proxy).await.run(insert(1, 1)).await.unwrap();
    assert_eq!((reply.get_f64("ok").unwrap(), reply.get_i32("n").unwrap()), (1.0, 1));
    let added = reply.get_document("writeConcernError").unwrap();
    assert_eq!(added.get_i32("code").unwrap(), 91);
    assert_eq!(labels(&reply), ["RetryableWriteError"]);
}

#[tokio::test]
async fn rules_and_commands_apply_to_compressed_requests() {
    let server = FakeServer::start().await;
    let proxy = server.proxy().await;
    for name in ["snappy", "zlib", "zstd"] {
        let mut client = RawClient::of(&proxy).await;
        client.compressor = Some(name.parse().unwrap());
        let rule =
            doc! { "name": "e", "command": "insert", "then": { "error": { "code": 11000 } } };
        client.run(black_pipe("add", rule)).await.unwrap();
        let reply = client.run(insert(1, 1000)).await.unwrap();
        assert_eq!(reply.get_str("codeName").unwrap(), "DuplicateKey");
    }
}

#[tokio::test]
async fn legacy_hello_gets_an_op_reply() {
    let server = FakeServer::start().await;
    let proxy = server.proxy().await;
    proxy.add(Rule::new(Reaction::error(91)).command("isMaster"));
    let mut client = RawClient::of(&proxy).await;
    let command: DocumentBytes = bson::rawdoc! { "isMaster": 1 }.try_into().unwrap();
    let mut message = Vec::new();
    OpQuery::hello(command).encode(7, &mut message).unwrap();
    client.stream.write_all(&message).await.unwrap();
    let mut header = [0; 16];
    client.stream.read_exact(&mut header).await.unwrap();
    // OP_REPLY with `responseTo` 7.
    assert_eq!(header[12..], 1_i32.to_le_bytes());
    assert_eq!(header[8..12], 7_i32.to_le_bytes());
}
