//! Read and write concerns.

use tokio::time::{advance, timeout};

use super::*;

fn concern(concern: Document) -> Document {
    doc! { "writeConcern": concern }
}

#[tokio::test(start_paused = true)]
async fn write_waits_for_w_members() {
    let lab = TestMembers::new(3);
    assert_eq!(concern_code(&lab.insert(1, concern(doc! { "w": 3 })).await), 0);
    lab.set.hold_replication(2);
    assert_eq!(concern_code(&lab.insert(2, concern(doc! { "w": "majority" })).await), 0);
    let reply = lab.insert(3, concern(doc! { "w": 3, "wtimeout": 200 })).await;
    assert_ok(&reply);
    let expected = doc! {
        "code": 64,
        "codeName": "WriteConcernTimeout",
        "errmsg": "waiting for replication timed out",
        "errInfo": {
            "wtimeout": true,
            "writeConcern": { "w": 3, "wtimeout": 200, "provenance": "clientSupplied" },
        },
    };
    assert_eq!(reply.get_document("writeConcernError").unwrap(), &expected);
    let limited = with(concern(doc! { "w": 3 }), doc! { "maxTimeMS": 100 });
    assert_eq!(concern_code(&lab.insert(4, limited).await), 50);
    let waiting = lab.insert(5, concern(doc! { "w": 3 }));
    tokio::pin!(waiting);
    assert!(timeout(Duration::from_secs(100), &mut waiting).await.is_err());
    lab.set.release_replication(2);
    assert_eq!(concern_code(&waiting.await), 0);
    assert_eq!(lab.ids_on(2, doc! {}).await, [1, 2, 3, 4, 5]);
}

#[tokio::test(start_paused = true)]
async fn unsatisfiable_write_concern_fails_at_once() {
    let lab = TestMembers::new(3);
    assert_eq!(concern_code(&lab.insert(1, concern(doc! { "w": 4 })).await), 100);
    assert_eq!(concern_code(&lab.insert(2, concern(doc! { "w": "foo" })).await), 79);
    assert_eq!(concern_code(&lab.insert(3, concern(doc! { "w": { "dc": 1 } })).await), 4);
    assert_eq!(lab.ids().await, [1, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn default_write_concern_is_majority() {
    let lab = TestMembers::new(3);
    lab.insert(1, doc! {}).await;
    lab.set.hold_replication(1);
    lab.set.hold_replication(2);
    let reply = lab.insert(2, doc! { "maxTimeMS": 100 }).await;
    let error = reply.get_document("writeConcernError").unwrap();
    let shown = error.get_document("errInfo").unwrap().get_document("writeConcern").unwrap();
    assert_eq!(shown.get_str("provenance").unwrap(), "implicitDefault");
    assert_eq!(lab.ids().await, [1, 2]);
    let majority = doc! { "readConcern": { "level": "majority" } };
    assert_eq!(lab.ids_on(0, majority.clone()).await, [1]);
    assert_eq!(lab.ids_on(1, majority).await, [1]);
    let reply = lab
        .run(doc! { "find": "c", "readConcern": { "level": "linearizable" }, "maxTimeMS": 100 })
        .await;
    assert_eq!(code(&reply), 50);
    lab.set.release_replication(1);
    let linearizable = doc! { "readConcern": { "level": "linearizable" } };
    assert_eq!(lab.ids_on(0, linearizable.clone()).await, [1, 2]);
    let reply = lab
        .run_on(
            1,
            "t",
            with(doc! { "find": "c", "$readPreference": { "mode": "secondary" } }, linearizable),
        )
        .await;
    assert_eq!(code(&reply), 10107);
}

#[tokio::test(start_paused = true)]
async fn after_cluster_time_waits_on_secondary() {
    let lab = TestMembers::new(3);
    lab.insert(1, doc! {}).await;
    lab.set.replication_latency(2, Duration::from_millis(500));
    let at = lab.insert(2, doc! {}).await.get_timestamp("operationTime").unwrap();
    // The client gossips the cluster time. Without it the member would reject the operation time as
    // too far ahead.
    let after = doc! {
        "readConcern": { "afterClusterTime": at },
        "$clusterTime": { "clusterTime": at, "signature": {} },
    };
    assert_eq!(lab.ids_on(2, doc! {}).await, [1]);
    let before = tokio::time::Instant::now();
    assert_eq!(lab.ids_on(2, after).await, [1, 2]);
    assert_eq!(before.elapsed(), Duration::from_millis(500));
}

#[tokio::test(start_paused = true)]
async fn snapshot_read_returns_data_at_cluster_time() {
    let lab = TestMembers::new(3);
    let at = lab.insert(1, doc! {}).await.get_timestamp("operationTime").unwrap();
    let reply = lab.run(doc! { "find": "c", "readConcern": { "level": "snapshot" } }).await;
    let cursor = reply.get_document("cursor").unwrap();
    assert_eq!(cursor.get_timestamp("atClusterTime").unwrap(), at);
    lab.insert(2, doc! {}).await;
    let then = doc! { "readConcern": { "level": "snapshot", "atClusterTime": at } };
    assert_eq!(lab.ids_on(0, then.clone()).await, [1]);
    assert_eq!(lab.ids_on(1, then).await, [1]);
    let count = doc! { "count": "c", "readConcern": { "level": "snapshot" } };
    assert_eq!(code(&lab.run(count).await), 72);
}

#[tokio::test(start_paused = true)]
async fn frozen_member_replies_after_thaw() {
    let lab = TestMembers::new(3);
    lab.insert(1, doc! {}).await;
    lab.set.freeze(1);
    let waiting = lab.ids_on(1, doc! {});
    tokio::pin!(waiting);
    assert!(timeout(Duration::from_secs(1), &mut waiting).await.is_err());
    lab.set.thaw(1);
    assert_eq!(waiting.await, [1]);
    advance(Duration::from_secs(1)).await;
    assert_eq!(lab.set.primary(), Some(0));
}
