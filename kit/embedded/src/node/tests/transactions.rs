//! Multi-document transactions.

use tokio::time::timeout;

use super::*;

impl TestMembers {
    async fn commit(&self, session: u8, number: i64) -> Document {
        self.admin(with(doc! { "commitTransaction": 1 }, several(session, number))).await
    }

    async fn abort(&self, session: u8, number: i64) -> Document {
        self.admin(with(doc! { "abortTransaction": 1 }, several(session, number))).await
    }
}

#[tokio::test(start_paused = true)]
async fn transaction_is_visible_after_commit() {
    let lab = TestMembers::new(3);
    lab.insert(1, doc! {}).await;
    assert_ok(&lab.insert(2, starting(1, 1)).await);
    assert_ok(&lab.insert(3, several(1, 1)).await);
    lab.insert(4, doc! {}).await;
    assert_eq!(lab.ids().await, [1, 4]);
    assert_eq!(lab.ids_on(0, several(1, 1)).await, [1, 2, 3]);
    assert_ok(&lab.commit(1, 1).await);
    assert_ok(&lab.commit(1, 1).await);
    assert_eq!(lab.ids().await, [1, 4, 2, 3]);
    assert_eq!(code(&lab.abort(1, 1).await), 256);
    assert_eq!(code(&lab.insert(5, several(1, 1)).await), 256);
    assert_eq!(code(&lab.insert(5, retryable(1, 1)).await), 217);
}

#[tokio::test(start_paused = true)]
async fn aborted_transaction_has_no_effect() {
    let lab = TestMembers::new(3);
    lab.insert(1, doc! {}).await;
    lab.insert(2, starting(1, 1)).await;
    assert_ok(&lab.abort(1, 1).await);
    assert_eq!(lab.ids().await, [1]);
    for reply in [lab.abort(1, 1).await, lab.commit(1, 1).await, lab.insert(3, several(1, 1)).await]
    {
        assert_eq!(code(&reply), 251);
        assert_eq!(labels(&reply), ["TransientTransactionError"]);
    }
    assert_eq!(code(&lab.commit(9, 1).await), 251);
}

#[tokio::test(start_paused = true)]
async fn failed_statement_aborts_transaction() {
    let lab = TestMembers::new(3);
    lab.insert(1, doc! {}).await;
    lab.insert(2, starting(1, 1)).await;
    let reply = lab.insert(1, several(1, 1)).await;
    assert!(reply.contains_key("writeErrors"), "{reply}");
    assert_eq!(code(&lab.insert(3, several(1, 1)).await), 251);
    let bad = with(doc! { "find": "c", "filter": { "$foo": 1 } }, starting(1, 2));
    assert_ne!(code(&lab.run(bad).await), 0);
    assert_eq!(code(&lab.commit(1, 2).await), 251);
    assert_eq!(lab.ids().await, [1]);
}

#[tokio::test(start_paused = true)]
async fn transactions_conflict_and_plain_writes_wait() {
    let lab = TestMembers::new(3);
    lab.insert(1, doc! {}).await;
    let set = |value: i32| {
        doc! { "update": "c", "updates": [{ "q": { "_id": 1 }, "u": { "$set": { "a": value } } }] }
    };
    assert_ok(&lab.run(with(set(1), starting(1, 1))).await);
    let reply = lab.run(with(set(2), starting(2, 1))).await;
    assert_eq!(code(&reply), 112, "{reply}");
    assert_eq!(labels(&reply), ["TransientTransactionError"]);
    assert_eq!(code(&lab.commit(2, 1).await), 251);
    let reply = lab.run(with(set(3), doc! { "maxTimeMS": 100 })).await;
    assert_eq!(code(&reply), 50);
    let waiting = lab.run(set(4));
    tokio::pin!(waiting);
    assert!(timeout(Duration::from_secs(1), &mut waiting).await.is_err());
    assert_ok(&lab.commit(1, 1).await);
    assert_ok(&waiting.await);
    let reply = lab.run(doc! { "find": "c", "filter": { "_id": 1 } }).await;
    let batch = reply.get_document("cursor").unwrap().get_array("firstBatch").unwrap();
    assert_eq!(batch[0], Bson::Document(doc! { "_id": 1, "a": 4 }));
}

#[tokio::test(start_paused = true)]
async fn plain_write_continues_after_transaction_expires() {
    let lab = TestMembers::new(3);
    lab.insert(0, doc! {}).await;
    lab.insert(1, starting(1, 1)).await;
    let began = tokio::time::Instant::now();
    assert_ok(&lab.insert(1, doc! {}).await);
    assert_eq!(began.elapsed(), Duration::from_secs(60));
    assert_eq!(code(&lab.commit(1, 1).await), 251);
}

#[tokio::test(start_paused = true)]
async fn unsupported_command_in_transaction_does_not_abort_it() {
    let lab = TestMembers::new(3);
    lab.insert(1, doc! {}).await;
    lab.insert(2, starting(1, 1)).await;
    assert_eq!(code(&lab.insert(2, starting(1, 1)).await), 117);
    let rejected = [
        (with(doc! { "count": "c" }, several(1, 1)), 263),
        (with(doc! { "find": "c", "readConcern": { "level": "snapshot" } }, several(1, 1)), 72),
        (inserting(3, with(several(1, 1), doc! { "writeConcern": { "w": 1 } })), 72),
        (
            with(doc! { "find": "c", "readConcern": { "level": "linearizable" } }, starting(1, 2)),
            72,
        ),
    ];
    for (body, expected) in rejected {
        assert_eq!(code(&lab.run(body).await), expected);
    }
    let elsewhere = lab.run_on(0, "config", with(doc! { "find": "c" }, several(1, 1))).await;
    assert_eq!(code(&elsewhere), 263);
    let start = with(doc! { "commitTransaction": 1 }, starting(1, 2));
    assert_eq!(code(&lab.admin(start).await), 263);
    assert_eq!(code(&lab.admin(doc! { "commitTransaction": 1 }).await), 125);
    let not_admin = lab.run(with(doc! { "commitTransaction": 1 }, several(1, 1))).await;
    assert_eq!(code(&not_admin), 13);
    assert_ok(&lab.commit(1, 1).await);
    assert_eq!(lab.ids().await, [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn failover_aborts_open_and_keeps_committed_transactions() {
    let lab = TestMembers::new(3);
    lab.insert(1, doc! {}).await;
    lab.insert(2, starting(1, 1)).await;
    lab.insert(3, starting(2, 1)).await;
    assert_ok(&lab.commit(2, 1).await);
    lab.set.step_down();
    let reply = lab.commit(1, 1).await;
    assert_eq!(code(&reply), 10107);
    assert_eq!(labels(&reply), ["RetryableWriteError"]);
    let commit = |session| with(doc! { "commitTransaction": 1 }, several(session, 1));
    let reply = lab.run_on(1, "admin", commit(1)).await;
    assert_eq!(code(&reply), 251);
    assert_eq!(
        reply.get_str("errmsg").unwrap(),
        "Given transaction number 1 does not match any in-progress transactions. The active \
         transaction number is -1"
    );
    assert_ok(&lab.run_on(1, "admin", commit(2)).await);
    assert_eq!(lab.ids_on(1, doc! {}).await, [1, 3]);
}

#[tokio::test(start_paused = true)]
async fn commit_waits_for_write_concern() {
    let lab = TestMembers::new(3);
    lab.insert(1, doc! {}).await;
    lab.set.hold_replication(2);
    lab.insert(2, starting(1, 1)).await;
    let commit = with(several(1, 1), doc! { "writeConcern": { "w": 3, "wtimeout": 100 } });
    let commit = with(doc! { "commitTransaction": 1 }, commit);
    assert_eq!(concern_code(&lab.admin(commit.clone()).await), 64);
    assert_eq!(concern_code(&lab.admin(commit.clone()).await), 64);
    lab.set.release_replication(2);
    assert_eq!(concern_code(&lab.admin(commit).await), 0);
}

#[tokio::test(start_paused = true)]
async fn kill_sessions_aborts_transactions() {
    let lab = TestMembers::new(3);
    lab.insert(1, doc! {}).await;
    lab.insert(2, starting(1, 1)).await;
    assert_ok(&lab.run(doc! { "killAllSessions": [] }).await);
    assert_eq!(code(&lab.insert(3, several(1, 1)).await), 251);
    lab.insert(2, starting(1, 2)).await;
    assert_ok(&lab.insert(3, retryable(1, 3)).await);
    assert_eq!(code(&lab.insert(4, several(1, 2)).await), 225);
}

#[tokio::test(start_paused = true)]
async fn write_waiting_for_transaction_continues_when_its_session_moves_on() {
    let lab = TestMembers::new(3);
    lab.insert(0, doc! {}).await;
    lab.insert(1, starting(1, 1)).await;
    let waiting = lab.insert(1, doc! {});
    tokio::pin!(waiting);
    assert!(timeout(Duration::from_millis(1), &mut waiting).await.is_err());
    let nothing = doc! { "delete": "c", "deletes": [{ "q": { "_id": 99 }, "limit": 1 }] };
    assert_ok(&lab.run(with(nothing, retryable(1, 2))).await);
    let began = tokio::time::Instant::now();
    assert_ok(&waiting.await);
    assert_eq!(began.elapsed(), Duration::ZERO);
}
