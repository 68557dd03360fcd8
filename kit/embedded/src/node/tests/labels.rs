//! Generic fields of replies: times, labels, topology version.

use super::*;

#[tokio::test(start_paused = true)]
async fn write_reply_has_op_time_and_election_id() {
    let lab = TestMembers::new(3);
    let reply = lab.insert(1, doc! {}).await;
    assert_ok(&reply);
    assert_eq!(reply.get_i32("n").unwrap(), 1);
    assert_eq!(reply.get_object_id("electionId").unwrap().to_hex(), "7fffffff0000000000000001");
    let at = reply.get_document("opTime").unwrap().get_timestamp("ts").unwrap();
    assert_eq!(reply.get_timestamp("operationTime").unwrap(), at);
    let time = reply.get_document("$clusterTime").unwrap();
    assert_eq!(time.get_timestamp("clusterTime").unwrap(), at);
    let signature = time.get_document("signature").unwrap();
    assert_eq!(signature.get_binary_generic("hash").unwrap(), &vec![0; 20]);
}

#[tokio::test(start_paused = true)]
async fn standalone_has_no_cluster_time_and_no_retryable_writes() {
    let lab = TestMembers::standalone();
    let reply = lab.insert(1, doc! { "writeConcern": { "w": "majority" } }).await;
    assert_eq!(reply, doc! { "n": 1, "ok": 1.0 });
    let reply = lab.insert(2, retryable(1, 1)).await;
    assert_eq!(code(&reply), 20);
    assert!(reply.get_str("errmsg").unwrap().starts_with("Transaction numbers are only allowed"));
    let reply = lab.insert(3, doc! { "writeConcern": { "w": 2 } }).await;
    assert_eq!(code(&reply), 2);
    assert_eq!(lab.ids().await, [1]);
    let reply = lab.run(doc! { "find": "c", "readConcern": { "level": "snapshot" } }).await;
    assert_eq!(code(&reply), 123);
    let hello = lab.set.nodes()[0].hello();
    assert!(hello.get_bool("isWritablePrimary").unwrap());
    assert!(!hello.contains_key("setName") && !hello.contains_key("me"));
}

#[tokio::test(start_paused = true)]
async fn not_writable_primary_error_has_topology_version() {
    let lab = TestMembers::new(3);
    let reply = lab.run_on(1, "t", inserting(1, doc! {})).await;
    assert_eq!(code(&reply), 10107);
    assert_eq!(labels(&reply), [""; 0]);
    let version = reply.get_document("topologyVersion").unwrap();
    let hello = lab.set.nodes()[1].hello();
    assert_eq!(version, hello.get_document("topologyVersion").unwrap());

    let reply = lab.run_on(1, "t", inserting(1, retryable(1, 1))).await;
    assert_eq!(labels(&reply), ["RetryableWriteError"], "it has not begun to execute it");
    let reply = lab.run_on(1, "t", inserting(1, starting(1, 2))).await;
    assert_eq!(code(&reply), 10107);
    assert_eq!(labels(&reply), ["TransientTransactionError"]);
    let commit = with(doc! { "commitTransaction": 1 }, several(1, 2));
    let reply = lab.run_on(1, "admin", commit).await;
    assert_eq!(labels(&reply), ["RetryableWriteError"]);
    let reply = lab.run_on(1, "t", doc! { "find": "c" }).await;
    assert_eq!(code(&reply), 13435);
}

#[tokio::test(start_paused = true)]
async fn unknown_commands_and_fields_are_rejected() {
    let lab = TestMembers::new(1);
    let reply = lab.run(doc! { "foo": 1 }).await;
    assert_eq!(code(&reply), 59);
    assert_eq!(reply.get_str("errmsg").unwrap(), "no such command: 'foo'");
    assert!(reply.contains_key("operationTime"));
    let strict = doc! { "distinct": "c", "key": "a", "apiVersion": "1", "apiStrict": true };
    assert_eq!(code(&lab.run(strict).await), 323);
    assert_eq!(code(&lab.run(doc! { "find": "c", "writeConcern": { "w": 1 } }).await), 72);
    assert_eq!(code(&lab.run(with(doc! { "find": "c" }, retryable(1, 1))).await), 50768);
    let reply = lab.insert(1, doc! { "readConcern": { "level": "majority" } }).await;
    assert_eq!(code(&reply), 72);
    let future = doc! {
        "clusterTime": bson::Timestamp { time: u32::MAX - 5, increment: 1 },
        "signature": {},
    };
    assert_eq!(code(&lab.run(doc! { "find": "c", "$clusterTime": future }).await), 205);
}

#[tokio::test(start_paused = true)]
async fn newer_cluster_time_is_gossiped() {
    let lab = TestMembers::new(3);
    let now = lab.insert(1, doc! {}).await.get_timestamp("operationTime").unwrap();
    let ahead = bson::Timestamp { time: now.time + 50, increment: 4 };
    let time = doc! { "clusterTime": ahead, "signature": {} };
    let reply = lab.run(doc! { "find": "c", "$clusterTime": time }).await;
    let reported =
        reply.get_document("$clusterTime").unwrap().get_timestamp("clusterTime").unwrap();
    assert_eq!(reported, ahead);
    let after = doc! { "afterClusterTime": ahead };
    assert_eq!(lab.ids_on(0, doc! { "readConcern": after.clone() }).await, [1]);
    let later = bson::Timestamp { time: ahead.time + 50, increment: 1 };
    let rejected = doc! { "find": "c", "readConcern": { "afterClusterTime": later } };
    assert_eq!(code(&lab.run(rejected).await), 72);
}
