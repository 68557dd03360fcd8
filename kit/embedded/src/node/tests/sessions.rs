//! Retryable writes and sessions.

use super::*;

#[tokio::test(start_paused = true)]
async fn retried_write_is_executed_once() {
    let lab = TestMembers::new(3);
    let increase = doc! {
        "update": "c",
        "updates": [{ "q": { "_id": 1 }, "u": { "$inc": { "n": 1 } }, "upsert": true }],
    };
    let first = lab.run(with(increase.clone(), retryable(1, 7))).await;
    assert_ok(&first);
    lab.set.kill(0);
    let primary = lab.set.wait_for_primary().await;
    let again = lab.run_on(primary, "t", with(increase.clone(), retryable(1, 7))).await;
    assert_eq!(again.get("upserted"), first.get("upserted"));
    assert!(again.contains_key("retriedStmtIds"));
    lab.run_on(primary, "t", with(increase, retryable(1, 8))).await;
    let reply = lab.run_on(primary, "t", doc! { "find": "c" }).await;
    let batch = reply.get_document("cursor").unwrap().get_array("firstBatch").unwrap();
    assert_eq!(batch[0], Bson::Document(doc! { "_id": 1, "n": 2 }));
    assert!(lab.set.executions().iter().all(|execution| execution.count == 1));
    assert_eq!(lab.set.executions().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn older_txn_number_is_rejected() {
    let lab = TestMembers::new(3);
    lab.insert(1, retryable(0xab, 5)).await;
    let reply = lab.insert(2, retryable(0xab, 4)).await;
    assert_eq!(code(&reply), 225);
    assert_eq!(
        reply.get_str("errmsg").unwrap(),
        "Retryable write with txnNumber 4 is prohibited on session \
         abababab-abab-abab-abab-abababababab - 47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU= -  -  \
         because a newer retryable write with txnNumber 5 has already started on this session."
    );
    let reply = lab.insert(2, starting(0xab, 4)).await;
    assert_eq!(code(&reply), 225);
    assert_eq!(lab.ids().await, [1]);
}

#[tokio::test(start_paused = true)]
async fn expired_session_is_removed() {
    let lab = TestMembers::new(3);
    assert_ok(&lab.insert(1, retryable(1, 5)).await);
    tokio::time::advance(Duration::from_secs(30 * 60 + 1)).await;
    let reply = lab.insert(1, retryable(1, 5)).await;
    let error = reply.get_array("writeErrors").unwrap()[0].as_document().unwrap();
    assert_eq!(error.get_i32("code").unwrap(), 11000, "it was done again");
}

#[tokio::test(start_paused = true)]
async fn sessions_are_started_refreshed_and_ended() {
    let lab = TestMembers::new(3);
    let started = lab.run(doc! { "startSession": 1 }).await;
    assert_eq!(started.get_i32("timeoutMinutes").unwrap(), 30);
    let id = started.get_document("id").unwrap().clone();
    for name in ["refreshSessions", "endSessions", "killSessions"] {
        assert_ok(&lab.run(doc! { name: [id.clone()] }).await);
    }
    assert_eq!(code(&lab.run(doc! { "endSessions": 1 }).await), 14);
    lab.insert(1, retryable(1, 5)).await;
    lab.run(doc! { "endSessions": [{ "id": Uuid::from_bytes([1; 16]) }] }).await;
    let again = lab.insert(1, retryable(1, 5)).await;
    assert!(again.contains_key("retriedStmtIds"), "the record stays");
}

#[tokio::test(start_paused = true)]
async fn get_more_accepts_read_concern() {
    let lab = TestMembers::new(3);
    lab.insert(1, doc! {}).await;
    lab.insert(2, doc! {}).await;
    let concern = doc! { "readConcern": { "level": "snapshot" } };
    let reply = lab.run(with(doc! { "find": "c", "batchSize": 1 }, concern.clone())).await;
    let cursor = reply.get_document("cursor").unwrap().get_i64("id").unwrap();
    let more = doc! { "getMore": cursor, "collection": "c" };
    assert_ok(&lab.run(with(more, concern)).await);
}
