//! One sharded cluster: the datacenter field routes.

use steadfast_patterns::local_writes::LocalWriteError;

use super::*;

/// A cluster of two zones, a shard for each, and a writer that is near the first.
struct Cluster {
    deployment: Deployment,
    messages: Collection<Document>,
    writer: LocalWriter,
}

impl Cluster {
    /// Starts it, and stops the clock.
    async fn start(limit: Duration) -> (Self, Clock) {
        let deployment = Deployment::sharded(&["alfa", "bravo"])
            .election_timeout(Duration::from_millis(50))
            .start();
        let client = Client::with_uri_str(deployment.uri()).await.unwrap();
        let admin = client.database("admin");
        let mut commands = Vec::new();
        for zone in ["alfa", "bravo"] {
            let end = |end: Bson| doc! { "datacenter": zone, "userid": end };
            commands.push(doc! { "addShardToZone": zone, "zone": zone });
            commands.push(doc! {
                "updateZoneKeyRange": "app.messages",
                "min": end(Bson::MinKey),
                "max": end(Bson::MaxKey),
                "zone": zone,
            });
        }
        commands.push(doc! { "enableSharding": "app" });
        let key = doc! { "datacenter": 1, "userid": 1 };
        commands.push(doc! { "shardCollection": "app.messages", "key": key });
        for command in commands {
            admin.run_command(command).await.unwrap();
        }
        let messages = client.database("app").collection("messages");
        let writer = LocalWriter::builder()
            .cluster(&messages, ["alfa", "bravo"])
            .acknowledged_within(limit)
            .probe_every(PROBE_EVERY)
            .build()
            .unwrap();
        (Self { deployment, messages, writer }, Clock::stopped())
    }

    /// Kills all but one member of a shard.
    fn kill_most_of(&self, shard: &str) {
        for member in [0, 1] {
            self.deployment.shard(shard).faults().kill(member);
        }
    }

    fn restart(&self, shard: &str) {
        for member in [0, 1] {
            self.deployment.shard(shard).faults().restart(member);
        }
    }

    /// How many documents a shard has, asked of its primary.
    async fn in_shard(&self, shard: &str) -> u64 {
        let shard = self.deployment.shard(shard);
        let primary = shard.wait_for_primary().await;
        let address = shard.members()[primary].address();
        let uri = format!("mongodb://{address}/?directConnection=true");
        let client = Client::with_uri_str(uri).await.unwrap();
        client
            .database("app")
            .collection::<Document>("messages")
            .count_documents(doc! {})
            .await
            .unwrap()
    }
}

#[tokio::test]
async fn the_datacenter_field_routes() {
    let (cluster, _clock) = Cluster::start(BOUND).await;
    let receipt = cluster.writer.insert(&message(1)).await.unwrap();
    assert_eq!(receipt.datacenter(), "alfa");
    let far = LocalWriter::builder().cluster(&cluster.messages, ["bravo", "alfa"]).build().unwrap();
    for answer in far.insert_many([message(2), message(3)]).await {
        assert_eq!(answer.unwrap().datacenter(), "bravo");
    }
    assert_eq!(cluster.in_shard("alfa").await, 1);
    assert_eq!(cluster.in_shard("bravo").await, 2);
    assert_eq!(only_copy(&cluster.messages, 1).await, written(receipt.id(), 1, "alfa"));
}

#[tokio::test]
async fn a_shard_without_a_majority_is_left_and_come_home_to() {
    let (cluster, clock) = Cluster::start(LIMIT).await;
    cluster.writer.insert(&message(0)).await.unwrap();
    cluster.kill_most_of("alfa");
    let receipt = late(&clock, cluster.writer.insert(&message(1)), async {}).await.unwrap();
    assert_eq!((receipt.datacenter(), receipt.failed().len()), ("bravo", 1));
    assert_eq!(up(&cluster.writer), [false, true]);
    for answer in within(cluster.writer.insert_many([message(2), message(3)])).await {
        assert_eq!(answer.unwrap().datacenter(), "bravo");
    }
    assert_eq!(cluster.in_shard("bravo").await, 3);
    // The probes go to the shard, too: as long as it is dead, it is not come home to.
    for nth in 1..=2 {
        failed_probe(&clock, &cluster.writer, "alfa", nth).await;
    }
    assert_eq!(up(&cluster.writer), [false, true]);

    cluster.restart("alfa");
    home(&clock, &cluster.writer).await;
    assert_eq!(cluster.writer.insert(&message(4)).await.unwrap().datacenter(), "alfa");
    // What was in doubt may have come to be.
    assert!((2..=3).contains(&cluster.in_shard("alfa").await));
}

#[tokio::test]
async fn a_batch_is_switched_as_a_document_is() {
    let (cluster, clock) = Cluster::start(LIMIT).await;
    cluster.kill_most_of("alfa");
    let write = cluster.writer.insert_many((0..20).map(message));
    let answers = late(&clock, write, async {}).await;
    for answer in answers {
        let receipt = answer.unwrap();
        assert_eq!((receipt.datacenter(), receipt.failed().len()), ("bravo", 1));
    }
    assert_eq!(cluster.in_shard("bravo").await, 20);
}

#[tokio::test]
async fn both_shards_without_a_majority_are_all_down() {
    let (cluster, clock) = Cluster::start(LIMIT).await;
    cluster.kill_most_of("alfa");
    cluster.kill_most_of("bravo");
    let one = cluster.writer.insert(&message(1));
    let error = twice_late(&clock, &cluster.writer, one, async {}).await.unwrap_err();
    assert!(matches!(error, LocalWriteError::AllDown { .. }), "{error}");
    let many = cluster.writer.insert_many([message(2)]);
    for answer in clock.pass_until(LIMIT, many).await {
        let error = answer.unwrap_err();
        assert!(matches!(error, LocalWriteError::AllDown { .. }), "{error}");
    }
    assert_eq!(up(&cluster.writer), [false, false]);
}

#[tokio::test]
async fn a_document_without_the_rest_of_the_shard_key_is_written_and_one_with_an_array_is_refused()
{
    let (cluster, _clock) = Cluster::start(BOUND).await;
    cluster.writer.insert(&doc! { "message_id": 1_i64 }).await.unwrap();
    let error = cluster.writer.insert(&doc! { "userid": [1, 2] }).await.unwrap_err();
    assert!(matches!(error, LocalWriteError::Rejected { .. }), "{error}");
    assert_eq!(up(&cluster.writer), [true, true]);
}
