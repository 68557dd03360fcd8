//! One sharded cluster, in which the datacenter field routes documents.

use steadfast_patterns::local_writes::LocalWriteError;

use super::*;

/// A cluster of two zones with one shard each, and a writer whose nearest datacenter is the first.
struct ShardedFixture {
    deployment: Deployment,
    messages: Collection<Document>,
    writer: LocalWriter,
}

impl ShardedFixture {
    /// Starts it and stops the clock.
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

    /// Returns the number of documents of a shard, read from its primary.
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
async fn datacenter_field_routes_the_document() {
    let (cluster, _clock) = ShardedFixture::start(TEST_TIMEOUT).await;
    let receipt = cluster.writer.insert(&message(1)).await.unwrap();
    assert_eq!(receipt.datacenter(), "alfa");
    let far = LocalWriter::builder().cluster(&cluster.messages, ["bravo", "alfa"]).build().unwrap();
    for result in far.insert_many([message(2), message(3)]).await {
        assert_eq!(result.unwrap().datacenter(), "bravo");
    }
    assert_eq!(cluster.in_shard("alfa").await, 1);
    assert_eq!(cluster.in_shard("bravo").await, 2);
    assert_eq!(only_copy(&cluster.messages, 1).await, written(receipt.id(), 1, "alfa"));
}

#[tokio::test]
async fn writer_fails_over_from_a_shard_without_majority_and_fails_back() {
    let (cluster, clock) = ShardedFixture::start(LIMIT).await;
    cluster.writer.insert(&message(0)).await.unwrap();
    cluster.kill_most_of("alfa");
    let receipt = past_limit(&clock, cluster.writer.insert(&message(1)), async {}).await.unwrap();
    assert_eq!((receipt.datacenter(), receipt.failed().len()), ("bravo", 1));
    assert_eq!(up(&cluster.writer), [false, true]);
    for result in in_time(cluster.writer.insert_many([message(2), message(3)])).await {
        assert_eq!(result.unwrap().datacenter(), "bravo");
    }
    assert_eq!(cluster.in_shard("bravo").await, 3);
    // Probes are routed to the shard, too: the datacenter stays down as long as the shard is.
    for nth in 1..=2 {
        failed_probe(&clock, &cluster.writer, "alfa", nth).await;
    }
    assert_eq!(up(&cluster.writer), [false, true]);

    cluster.restart("alfa");
    until_probed_up(&clock, &cluster.writer).await;
    assert_eq!(cluster.writer.insert(&message(4)).await.unwrap().datacenter(), "alfa");
    // Writes in doubt may have been applied.
    assert!((2..=3).contains(&cluster.in_shard("alfa").await));
}

#[tokio::test]
async fn batch_fails_over_like_a_single_document() {
    let (cluster, clock) = ShardedFixture::start(LIMIT).await;
    cluster.kill_most_of("alfa");
    let write = cluster.writer.insert_many((0..20).map(message));
    let results = past_limit(&clock, write, async {}).await;
    for result in results {
        let receipt = result.unwrap();
        assert_eq!((receipt.datacenter(), receipt.failed().len()), ("bravo", 1));
    }
    assert_eq!(cluster.in_shard("bravo").await, 20);
}

#[tokio::test]
async fn shards_without_majority_are_all_down() {
    let (cluster, clock) = ShardedFixture::start(LIMIT).await;
    cluster.kill_most_of("alfa");
    cluster.kill_most_of("bravo");
    let one = cluster.writer.insert(&message(1));
    let error = past_both_limits(&clock, &cluster.writer, one, async {}).await.unwrap_err();
    assert!(matches!(error, LocalWriteError::AllDown { .. }), "{error}");
    let many = cluster.writer.insert_many([message(2)]);
    for result in clock.pass_until(LIMIT, many).await {
        let error = result.unwrap_err();
        assert!(matches!(error, LocalWriteError::AllDown { .. }), "{error}");
    }
    assert_eq!(up(&cluster.writer), [false, false]);
}

#[tokio::test]
async fn document_may_lack_shard_key_fields_but_not_have_an_array_in_them() {
    let (cluster, _clock) = ShardedFixture::start(TEST_TIMEOUT).await;
    cluster.writer.insert(&doc! { "message_id": 1_i64 }).await.unwrap();
    let error = cluster.writer.insert(&doc! { "userid": [1, 2] }).await.unwrap_err();
    assert!(matches!(error, LocalWriteError::Rejected { .. }), "{error}");
    assert_eq!(up(&cluster.writer), [true, true]);
}
