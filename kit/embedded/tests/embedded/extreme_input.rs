//! Extreme input: rejected without effect on other clients.

use bson::Timestamp;

use super::*;

#[tokio::test]
async fn cluster_time_at_end_of_second_is_accepted() {
    let set = Deployment::replica_set(3).start();
    let mut client = connect(&set, 0).await;
    let now = u32::try_from(bson::DateTime::now().timestamp_millis() / 1000).unwrap();
    let time = Timestamp { time: now + 1000, increment: u32::MAX };
    let mut with_future_time = insert(1);
    let signature = doc! { "hash": Binary { subtype: BinarySubtype::Generic, bytes: vec![0; 20] }, "keyId": 0_i64 };
    with_future_time.insert("$clusterTime", doc! { "clusterTime": time, "signature": signature });
    let reply = client.run(with_future_time).await;
    assert!(is_ok(&reply), "{reply}");
    assert!(is_ok(&client.run(insert(2)).await));
    assert_eq!(ids(&client.run(find()).await), [1, 2]);
}

#[tokio::test]
async fn extreme_durations_are_limited() {
    let set = Deployment::replica_set(3).election_timeout(Duration::MAX).start();
    set.faults().replication_latency(2, Duration::MAX);
    set.faults().clock_skew(1, Duration::MAX);
    let mut secondary = connect(&set, 1).await;
    let freeze = doc! { "replSetFreeze": i64::MAX, "$db": "admin" };
    assert!(is_ok(&secondary.run(freeze).await));
    let mut client = connect(&set, 0).await;
    assert!(is_ok(&client.run(insert(1)).await));
    let step_down = doc! {
        "replSetStepDown": i64::MAX, "secondaryCatchUpPeriodSecs": 0, "force": true, "$db": "admin",
    };
    assert!(is_ok(&client.run(step_down).await));
    assert!(!is_ok(&client.run(insert(2)).await));
}

#[tokio::test]
async fn upsert_with_excessive_depth_is_rejected() {
    let server = Deployment::standalone().start();
    let mut client = connect(&server, 0).await;
    let path = vec!["a"; 50_000].join(".");
    let update = doc! { "q": { path.as_str(): 1 }, "u": { "$set": { "b": 1 } }, "upsert": true };
    let command = doc! { "update": "things", "updates": [update], "$db": "db" };
    let reply = client.run(command).await;
    let error = reply.get_array("writeErrors").unwrap()[0].as_document().unwrap().clone();
    assert_eq!(code(&error), 15);
    for stage in ["$addFields", "$project"] {
        let pipeline = vec![doc! { stage: { path.as_str(): 1 } }];
        let command =
            doc! { "aggregate": "things", "pipeline": pipeline, "cursor": {}, "$db": "db" };
        assert_eq!(code(&client.run(command).await), 15);
    }
    assert!(is_ok(&client.run(insert(1)).await));
}
