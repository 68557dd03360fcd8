//! Writes during failovers: none is lost, none is executed twice.

use super::*;

#[tokio::test]
async fn retry_on_new_primary_is_executed_once() {
    let set = Deployment::replica_set(3).start();
    let mut write = retryable_insert(1, 1);
    write.insert("writeConcern", doc! { "w": "majority" });
    assert!(is_ok(&connect(&set, 0).await.run(write.clone()).await));
    set.faults().kill(0);
    let primary = set.wait_for_primary().await;
    let mut client = connect(&set, primary).await;
    let again = client.run(write).await;
    assert_eq!(again.get_i32("n").unwrap(), 1);
    assert!(again.contains_key("retriedStmtIds"), "{again}");
    assert_eq!(ids(&client.run(find()).await), [1]);
    assert_eq!(set.faults().executions().len(), 1);
}

#[tokio::test]
async fn secondary_rejects_writes_with_topology_version() {
    let set = Deployment::replica_set(2).start();
    let reply = connect(&set, 1).await.run(retryable_insert(1, 1)).await;
    assert_eq!(code(&reply), 10107);
    assert!(labels(&reply).contains(&"RetryableWriteError"));
    assert!(reply.contains_key("topologyVersion"));
}

#[tokio::test]
async fn write_concern_timeout_keeps_write() {
    let set = Deployment::replica_set(2).start();
    set.faults().hold_replication(1);
    let mut write = insert(1);
    write.insert("writeConcern", doc! { "w": 2, "wtimeout": 10 });
    let mut client = connect(&set, 0).await;
    let reply = client.run(write).await;
    assert_eq!(reply.get_document("writeConcernError").unwrap().get_i32("code").unwrap(), 64);
    assert_eq!(ids(&client.run(find()).await), [1]);
    assert_eq!(ids(&connect(&set, 1).await.run(find()).await), [0_i32; 0]);
    set.faults().release_replication(1);
    set.wait_for_replication().await;
    assert_eq!(ids(&connect(&set, 1).await.run(find()).await), [1]);
}

#[tokio::test]
async fn disconnect_during_write_concern_wait_keeps_write() {
    let set = Deployment::replica_set(2).start();
    set.faults().hold_replication(1);
    let mut write = insert(1);
    write.insert("writeConcern", doc! { "w": 2 });
    let mut client = connect(&set, 0).await;
    client.send(write).await;
    let mut other = connect(&set, 0).await;
    while ids(&other.run(find()).await).is_empty() {
        tokio::task::yield_now().await;
    }
    drop(client);
    assert_eq!(ids(&other.run(find()).await), [1]);
}
