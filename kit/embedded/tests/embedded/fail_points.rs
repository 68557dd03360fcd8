//! Fail points, by command and from the test.

use super::*;

fn fail(data: Document) -> Document {
    doc! {
        "configureFailPoint": "failCommand", "mode": { "times": 1 }, "data": data, "$db": "admin",
    }
}

#[tokio::test]
async fn fail_command_with_times_fails_once() {
    let set = Deployment::replica_set(1).start();
    let mut client = connect(&set, 0).await;
    client.run(fail(doc! { "failCommands": ["insert"], "errorCode": 10107 })).await;
    let reply = client.run(retryable_insert(1, 1)).await;
    assert_eq!((code(&reply), labels(&reply)), (10107, vec!["RetryableWriteError"]));
    assert!(reply.contains_key("topologyVersion") && reply.contains_key("$clusterTime"));
    assert_eq!(ids(&client.run(find()).await), [0_i32; 0]);
    assert!(is_ok(&client.run(retryable_insert(1, 1)).await));
}

#[tokio::test]
async fn close_connection_prevents_execution() {
    let server = Deployment::standalone().start();
    let data = doc! { "failCommands": ["insert"], "closeConnection": true };
    server.faults().configure_fail_point(0, fail(data)).unwrap();
    let mut client = connect(&server, 0).await;
    client.send(insert(1)).await;
    assert!(client.rest().await.0.is_empty());
    assert_eq!(ids(&connect(&server, 0).await.run(find()).await), [0_i32; 0]);
}

#[tokio::test]
async fn injected_write_concern_error_keeps_write() {
    let set = Deployment::replica_set(1).start();
    let mut client = connect(&set, 0).await;
    let error = doc! { "code": 91, "errmsg": "it shuts down" };
    let data = doc! { "failCommands": ["insert", "find"], "writeConcernError": error.clone() };
    client.run(fail(data)).await;
    let reply = client.run(retryable_insert(1, 1)).await;
    assert_eq!(reply.get_i32("n").unwrap(), 1);
    assert_eq!(reply.get_document("writeConcernError").unwrap(), &error);
    assert_eq!(labels(&reply), ["RetryableWriteError"]);
    assert_eq!(ids(&client.run(find()).await), [1]);
}

#[tokio::test]
async fn block_connection_blocks_one_connection() {
    let server = Deployment::standalone().start();
    let mut slow = connect(&server, 0).await;
    let data = doc! {
        "failCommands": ["insert"], "blockConnection": true, "blockTimeMS": 3_600_000,
    };
    slow.run(fail(data)).await;
    slow.send(insert(1)).await;
    let wait = doc! {
        "waitForFailPoint": "failCommand", "timesEntered": 1, "maxTimeMS": 30_000, "$db": "admin",
    };
    let mut quick = connect(&server, 0).await;
    assert!(is_ok(&quick.run(wait).await));
    assert!(is_ok(&quick.run(insert(2)).await));
    assert_eq!(ids(&quick.run(find()).await), [2]);
}

#[tokio::test(start_paused = true)]
async fn blocked_command_replies_after_block_time() {
    let server = Deployment::standalone().start();
    let mut client = connect(&server, 0).await;
    let data = doc! {
        "failCommands": ["insert"], "blockConnection": true, "blockTimeMS": 60_000,
    };
    client.run(fail(data)).await;
    let began = tokio::time::Instant::now();
    assert!(is_ok(&client.run(insert(1)).await));
    assert!(began.elapsed() >= Duration::from_secs(60));
}

#[tokio::test]
async fn app_name_restricts_fail_command() {
    let server = Deployment::standalone().start();
    let data = doc! { "failCommands": ["insert"], "errorCode": 2, "appName": "till" };
    let command = doc! { "configureFailPoint": "failCommand", "mode": "alwaysOn", "data": data };
    server.faults().configure_fail_point(0, command).unwrap();
    let mut till = connect(&server, 0).await;
    let mut introduction = hello();
    introduction.insert(
        "client",
        doc! {
            "application": { "name": "till" }, "driver": { "name": "d", "version": "1" },
            "os": { "type": "Linux" },
        },
    );
    till.run(introduction).await;
    assert_eq!(code(&till.run(insert(1)).await), 2);
    assert!(is_ok(&connect(&server, 0).await.run(insert(1)).await));
    server.faults().disable_fail_point(0, "failCommand").unwrap();
    assert!(is_ok(&till.run(insert(2)).await));
}

#[tokio::test]
async fn fail_command_affects_streaming_hello() {
    let set = Deployment::replica_set(1).start();
    let mut client = connect(&set, 0).await;
    let known = client.run(hello()).await.get_document("topologyVersion").unwrap().clone();
    let mut watch = hello();
    watch.extend(doc! { "topologyVersion": known, "maxAwaitTimeMS": 1 });
    client.send_with(watch, steadfast_wire::MsgFlags::EXHAUST_ALLOWED, None).await;
    assert!(client.receive().await.unwrap().more_to_come);
    let data = doc! { "failCommands": ["hello"], "errorCode": 91 };
    set.faults().configure_fail_point(0, fail(data)).unwrap();
    loop {
        let reply = client.receive().await.unwrap();
        if !is_ok(&reply.document) {
            assert_eq!(code(&reply.document), 91);
            assert!(!reply.more_to_come, "an error is the last of its replies");
            break;
        }
    }
}

#[tokio::test]
async fn transactional_write_fail_point_closes_connection_after_write() {
    let set = Deployment::replica_set(1).start();
    let mut client = connect(&set, 0).await;
    let point =
        doc! { "configureFailPoint": "onPrimaryTransactionalWrite", "mode": { "times": 1 } };
    set.faults().configure_fail_point(0, point).unwrap();
    assert!(is_ok(&client.run(insert(1)).await), "without a transaction number it goes well");
    client.send(retryable_insert(2, 1)).await;
    assert!(client.rest().await.0.is_empty());
    let mut client = connect(&set, 0).await;
    assert_eq!(ids(&client.run(find()).await), [1, 2]);
    assert_eq!(client.run(retryable_insert(2, 1)).await.get_i32("n").unwrap(), 1);
    assert_eq!(ids(&client.run(find()).await), [1, 2]);
    let executions = set.faults().executions();
    assert!(executions.iter().all(|execution| execution.count == 1), "{executions:?}");
    assert_eq!(executions.len(), 1);
}

#[tokio::test]
async fn max_time_always_time_out_exceeds_time_limits() {
    let server = Deployment::standalone().start();
    let mut client = connect(&server, 0).await;
    let point = doc! { "configureFailPoint": "maxTimeAlwaysTimeOut", "mode": "alwaysOn" };
    server.faults().configure_fail_point(0, point).unwrap();
    let mut limited = find();
    limited.insert("maxTimeMS", 60_000);
    assert_eq!(code(&client.run(limited).await), 50);
    assert!(is_ok(&client.run(find()).await));
}

#[tokio::test]
async fn fail_get_more_closes_cursor() {
    let server = Deployment::standalone().start();
    let mut client = connect(&server, 0).await;
    let documents = (0..5).map(|id| doc! { "_id": id }).collect::<Vec<_>>();
    client.run(doc! { "insert": "things", "documents": documents, "$db": "db" }).await;
    let found = client.run(doc! { "find": "things", "batchSize": 1, "$db": "db" }).await;
    let cursor = found.get_document("cursor").unwrap().get_i64("id").unwrap();
    let more = doc! { "getMore": cursor, "collection": "things", "$db": "db" };
    let point = doc! {
        "configureFailPoint": "failGetMoreAfterCursorCheckout", "mode": { "times": 1 },
        "data": { "errorCode": 38 },
    };
    server.faults().configure_fail_point(0, point).unwrap();
    assert_eq!(code(&client.run(more.clone()).await), 38);
    assert_eq!(code(&client.run(more).await), 43);
}

#[tokio::test]
async fn invalid_fail_points_are_rejected() {
    let server = Deployment::standalone().start();
    let mut client = connect(&server, 0).await;
    let unknown = doc! { "configureFailPoint": "nonsense", "mode": "off", "$db": "admin" };
    assert_eq!(code(&client.run(unknown.clone()).await), 266);
    let rejected = server.faults().configure_fail_point(0, unknown).unwrap_err();
    assert_eq!(rejected.to_string(), "nonsense not found");
    let elsewhere = doc! { "configureFailPoint": "failCommand", "mode": "off", "$db": "db" };
    assert_eq!(code(&client.run(elsewhere).await), 13);
}
