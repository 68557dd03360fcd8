//! Read and write concerns.

use tokio::time::{advance, timeout};

use super::*;

fn concern(concern: Document) -> Document {
    doc! { "writeConcern": concern }
}

#[tokio::test(start_paused = true)]
async fn a_write_waits_for_as_many_members_as_it_should() {
    let lab = Lab::new(3);
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
async fn what_can_never_be_is_not_waited_for() {
    let lab = Lab::new(3);
    assert_eq!(concern_code(&lab.insert(1, concern(doc! { "w": 4 })).await), 100);
    assert_eq!(concern_code(&lab.insert(2, concern(doc! { "w": "foo" })).await), 79);
    assert_eq!(concern_code(&lab.insert(3, concern(doc! { "w": { "dc": 1 } })).await), 4);
    assert_eq!(lab.ids().await, [1, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn most_members_are_waited_for_if_nothing_is_said() {
    let lab = Lab::new(3);
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
async fn a_read_after_a_write_waits_for_it_on_a_secondary() {
    let lab = Lab::new(3);
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
async fn a_snapshot_is_what_was_at_a_time() {
    let lab = Lab::new(3);
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
async fn a_frozen_member_answers_when_it_goes_on() {
    let lab = Lab::new(3);
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
