//! Sharded clusters behind mongos.

use super::*;

#[tokio::test]
async fn mongos_share_the_catalog() {
    let cluster = Deployment::sharded(&["alfa", "bravo"]).mongos_count(2).start();
    assert_eq!(cluster.members().len(), 2);
    assert!(!cluster.uri().contains("replicaSet"), "{}", cluster.uri());
    let mut client = connect(&cluster, 0).await;
    let greeting = client.run(hello()).await;
    assert_eq!(greeting.get_str("msg").unwrap(), "isdbgrid");
    assert!(greeting.contains_key("$clusterTime"));
    assert!(is_ok(&client.run(insert(1)).await));
    assert_eq!(ids(&connect(&cluster, 1).await.run(find()).await), [1]);
    let names: Vec<_> = cluster.shards().iter().map(|shard| shard.name()).collect();
    assert_eq!(names, ["alfa", "bravo"]);
    let mut kept = Vec::new();
    for shard in cluster.shards() {
        let mut member = connect_to(shard.members()[0].address()).await;
        kept.push(ids(&member.run(find()).await).len());
    }
    kept.sort_unstable();
    assert_eq!(kept, [0, 1], "an unsharded collection is on one shard");
}

#[tokio::test]
async fn mongos_hides_shard_failover() {
    let cluster =
        Deployment::sharded(&["alfa"]).election_timeout(Duration::from_millis(50)).start();
    let mut client = connect(&cluster, 0).await;
    let write = retryable_insert(1, 1);
    assert!(is_ok(&client.run(write.clone()).await));
    let shard = cluster.shard("alfa");
    shard.faults().kill(shard.primary().unwrap());
    shard.wait_for_primary().await;
    assert_eq!(client.run(write).await.get_i32("n").unwrap(), 1);
    assert_eq!(ids(&client.run(find()).await), [1]);
    let executions = cluster.faults().executions();
    assert_eq!(executions.iter().map(|it| it.count).collect::<Vec<_>>(), [1]);
}

#[tokio::test]
async fn mongos_is_killed_and_restarted() {
    let cluster = Deployment::sharded(&["alfa"]).start();
    let mut client = connect(&cluster, 0).await;
    client.run(insert(1)).await;
    cluster.faults().kill(0);
    assert!(client.rest().await.0.is_empty());
    assert!(TcpStream::connect(cluster.member(0).address()).await.is_err());
    cluster.faults().restart(0);
    assert_eq!(ids(&connect(&cluster, 0).await.run(find()).await), [1]);
}

#[tokio::test]
async fn mongos_has_its_own_fail_points() {
    let cluster = Deployment::sharded(&["alfa"]).mongos_count(2).start();
    let point = doc! {
        "configureFailPoint": "failCommand", "mode": { "times": 1 },
        "data": { "failCommands": ["insert"], "errorCode": 91 }, "$db": "admin",
    };
    let mut client = connect(&cluster, 0).await;
    assert!(is_ok(&client.run(point).await));
    assert!(is_ok(&connect(&cluster, 1).await.run(insert(1)).await));
    assert_eq!(code(&client.run(insert(2)).await), 91);
}

#[tokio::test]
async fn load_balanced_hello_has_service_id() {
    let cluster = Deployment::sharded(&["alfa"]).load_balanced().start();
    assert!(cluster.uri().ends_with("/?loadBalanced=true"), "{}", cluster.uri());
    let mut asked = hello();
    asked.insert("loadBalanced", true);
    let reply = connect(&cluster, 0).await.run(asked).await;
    assert!(reply.get_object_id("serviceId").is_ok(), "{reply}");
    let reply = connect(&cluster, 0).await.run(hello()).await;
    assert!(!reply.contains_key("serviceId"));
}

#[tokio::test]
async fn cluster_requires_shards_and_mongos() {
    assert!(Deployment::sharded(&[]).try_start().is_err());
    assert!(Deployment::sharded(&["alfa", "alfa"]).try_start().is_err());
    assert!(Deployment::sharded(&["alfa"]).mongos_count(0).try_start().is_err());
    assert!(Deployment::sharded(&["alfa"]).members_per_shard(0).try_start().is_err());
}

#[tokio::test]
async fn zones_keep_documents_on_their_shard() {
    let cluster = Deployment::sharded(&["alfa", "bravo"]).without_balancer().start();
    let mut client = connect(&cluster, 0).await;
    let admin = |mut command: bson::Document| {
        command.insert("$db", "admin");
        command
    };
    let all = bson::Bson::MinKey..bson::Bson::MaxKey;
    for zone in ["alfa", "bravo"] {
        let add = doc! { "addShardToZone": zone, "zone": zone };
        assert!(is_ok(&client.run(admin(add)).await));
        let range = doc! {
            "updateZoneKeyRange": "db.things",
            "min": { "datacenter": zone, "_id": all.start.clone() },
            "max": { "datacenter": zone, "_id": all.end.clone() },
            "zone": zone,
        };
        assert!(is_ok(&client.run(admin(range)).await));
    }
    let shard = doc! { "shardCollection": "db.things", "key": { "datacenter": 1, "_id": 1 } };
    assert!(is_ok(&client.run(admin(shard)).await));
    let alfa = cluster
        .chunks("db.things")
        .into_iter()
        .find(|chunk| chunk.min == doc! { "datacenter": "alfa", "_id": all.start.clone() });
    assert_eq!(alfa.unwrap().shard, "alfa");
    assert_eq!(cluster.zone_ranges("db.things").len(), 2);
    assert!(!cluster.balancer_step().await.unwrap(), "all are in their place from the start");
    let insert = doc! {
        "insert": "things",
        "documents": [{ "_id": 1, "datacenter": "alfa" }, { "_id": 2, "datacenter": "bravo" }],
        "$db": "db",
    };
    assert!(is_ok(&client.run(insert).await));
    for (shard, id) in [("alfa", 1), ("bravo", 2)] {
        let mut member = connect_to(cluster.shard(shard).members()[0].address()).await;
        assert_eq!(ids(&member.run(find()).await), [id]);
    }
}

#[tokio::test]
async fn shard_without_electable_members_has_no_primary() {
    let cluster = Deployment::sharded(&["alfa"])
        .priority_zero([2])
        .election_timeout(Duration::from_millis(20))
        .start();
    let mut client = connect(&cluster, 0).await;
    assert!(is_ok(&client.run(insert(1)).await));
    let shard = cluster.shard("alfa");
    (0..2).for_each(|member| shard.faults().kill(member));
    let mut late = insert(2);
    late.insert("maxTimeMS", 200);
    assert!(!is_ok(&client.run(late).await), "the third cannot take it");
    shard.faults().restart(1);
    assert_eq!(shard.wait_for_primary().await, 1);
    assert_eq!(ids(&client.run(find()).await), [1]);
    let all = Deployment::replica_set(2).priority_zero([0, 1]).try_start();
    assert!(all.is_err(), "no member could become primary");
}
