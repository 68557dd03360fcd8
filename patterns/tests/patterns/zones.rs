//! Zones on an embedded cluster: effects of plans, and recovery from failures.

use std::sync::{Arc, Mutex};

use steadfast::{
    Client,
    bson::{Bson, Document, doc},
};
use steadfast_embedded::Deployment;
use steadfast_patterns::zones::{
    self, ApplyProgress, BalancerVerdict, Cluster, Contradiction, Layout, StepKind, ZonesError,
};

const MESSAGES: &str = "app.messages";

fn layout() -> Layout {
    Layout::new(
        MESSAGES,
        ["datacenter", "userid"],
        [("alfa", ["shard0000"]), ("bravo", ["shard0001"])],
    )
    .unwrap()
}

/// Starts a cluster whose balancer runs only when the test calls it.
async fn cluster(version: &str) -> (Deployment, Client) {
    let shards = ["shard0000", "shard0001"];
    let deployment = Deployment::sharded(&shards).version(version).without_balancer().start();
    let client = Client::with_uri_str(deployment.uri()).await.unwrap();
    (deployment, client)
}

async fn planned(client: &Client) -> zones::Plan {
    let cluster = Cluster::read(client, &layout()).await.unwrap();
    zones::plan(&layout(), &cluster).unwrap()
}

async fn apply(client: &Client) {
    planned(client).await.apply(client).await.unwrap();
}

/// Returns the shards with chunks of a datacenter.
fn shards_of(deployment: &Deployment, datacenter: &str) -> Vec<String> {
    let of_datacenter =
        |bound: &Document| bound.get_str("datacenter").is_ok_and(|it| it == datacenter);
    let chunks = deployment.chunks(MESSAGES).into_iter();
    chunks
        .filter(|it| of_datacenter(&it.min) && it.min.get("userid") != Some(&Bson::MaxKey))
        .map(|it| it.shard)
        .collect()
}

async fn insert(client: &Client) {
    let messages = client.database("app").collection::<Document>("messages");
    let documents = (0..20).map(|n| {
        doc! { "datacenter": if n % 2 == 0 { "alfa" } else { "bravo" }, "userid": n }
    });
    messages.insert_many(documents).await.unwrap();
}

#[tokio::test]
async fn chunks_are_on_the_right_shards_from_the_start() {
    for version in ["4.2", "4.4", "5.0", "6.0", "8.0"] {
        let (deployment, client) = cluster(version).await;
        let plan = planned(&client).await;
        let enables = matches!(plan.steps()[0].kind(), StepKind::EnableSharding { .. });
        assert_eq!(enables, matches!(version, "4.2" | "4.4" | "5.0"), "{version}");
        plan.apply(&client).await.unwrap();
        assert_eq!(shards_of(&deployment, "alfa"), ["shard0000"], "{version}");
        assert_eq!(shards_of(&deployment, "bravo"), ["shard0001"], "{version}");
        assert!(!deployment.balancer_step().await.unwrap(), "no chunk has to be moved");
        let status = zones::status(&client, &layout()).await.unwrap();
        assert!(status.is_compliant(), "{version}: {status}");
        assert_eq!(
            status.verdict == BalancerVerdict::TooOld,
            version == "4.2",
            "{version}: {status}"
        );
        insert(&client).await;
        assert!(zones::status(&client, &layout()).await.unwrap().is_compliant());
    }
}

#[tokio::test]
async fn applied_plan_has_no_steps_and_can_be_repeated() {
    for version in ["6.0", "8.0"] {
        let (_deployment, client) = cluster(version).await;
        let first = planned(&client).await;
        first.apply(&client).await.unwrap();
        let again = planned(&client).await;
        assert!(again.is_empty(), "{again}");
        // An old plan can be applied again: each of its steps is done.
        first.apply(&client).await.unwrap();
        assert!(planned(&client).await.is_empty());
    }
}

#[tokio::test]
async fn interrupted_plan_is_completed_by_the_next() {
    let commands = ["addShardToZone", "updateZoneKeyRange", "shardCollection"];
    for (version, command) in ["6.0", "8.0"].into_iter().flat_map(|v| commands.map(|it| (v, it))) {
        let (deployment, client) = cluster(version).await;
        // 13 is `Unauthorized`, which is not retryable.
        let refuse = doc! {
            "configureFailPoint": "failCommand", "mode": { "skip": i32::from(command == "updateZoneKeyRange") },
            "data": { "failCommands": [command], "errorCode": 13 },
        };
        deployment.faults().configure_fail_point(0, refuse).unwrap();
        let plan = planned(&client).await;
        let error = plan.apply(&client).await.unwrap_err();
        let ZonesError::Step { number, steps, step, .. } = &error else { panic!("{error}") };
        assert!(step.command().contains_key(command), "{error}");
        assert!(error.to_string().contains(&format!("step {number} of {steps} failed")), "{error}");
        let left = planned(&client).await;
        assert_eq!(left.steps(), &plan.steps()[number - 1..], "the steps before are done");
        deployment.faults().disable_fail_point(0, "failCommand").unwrap();
        left.apply(&client).await.unwrap();
        assert_eq!(shards_of(&deployment, "bravo"), ["shard0001"]);
        assert!(planned(&client).await.is_empty());
    }
}

#[tokio::test]
async fn step_is_retried_after_a_lost_reply_or_a_conflict() {
    let (deployment, client) = cluster("8.0").await;
    let data = [doc! { "closeConnection": true }, doc! { "errorCode": 117 }];
    for (mut data, command) in data.into_iter().zip(["addShardToZone", "shardCollection"]) {
        data.insert("failCommands", vec![command]);
        let fail =
            doc! { "configureFailPoint": "failCommand", "mode": { "times": 2 }, "data": data };
        deployment.faults().configure_fail_point(0, fail).unwrap();
        let again = Arc::new(Mutex::new(0));
        let count = again.clone();
        let plan = planned(&client).await;
        let applied = plan.apply(&client).progress(move |progress| {
            if let ApplyProgress::Retried { step, .. } = progress {
                assert!(step.command().contains_key(command));
                *count.lock().unwrap() += 1;
            }
        });
        applied.await.unwrap();
        assert_eq!(*again.lock().unwrap(), 2, "{command}");
        if command == "addShardToZone" {
            client.database("app").drop().await.unwrap();
        }
    }
    assert!(zones::status(&client, &layout()).await.unwrap().is_compliant());
}

#[tokio::test]
async fn two_clients_can_apply_a_plan_concurrently() {
    for version in ["6.0", "8.0"] {
        let (deployment, client) = cluster(version).await;
        let other = Client::with_uri_str(deployment.uri()).await.unwrap();
        let (one, two) = (planned(&client).await, planned(&other).await);
        let (one, two) = tokio::join!(one.apply(&client), two.apply(&other));
        one.unwrap();
        two.unwrap();
        assert_eq!(shards_of(&deployment, "alfa"), ["shard0000"]);
        assert_eq!(deployment.zone_ranges(MESSAGES).len(), 2);
    }
}

#[tokio::test]
async fn progress_reports_each_step() {
    let (_deployment, client) = cluster("8.0").await;
    let reported = Arc::new(Mutex::new(Vec::new()));
    let listener = reported.clone();
    let plan = planned(&client).await;
    let applied = plan.apply(&client).progress(move |progress| {
        if let ApplyProgress::Done { number, steps, step, .. } = progress {
            listener.lock().unwrap().push(format!("{number}/{steps} {step}"));
        }
    });
    applied.await.unwrap();
    let reported = reported.lock().unwrap();
    assert_eq!(reported.len(), 5);
    assert_eq!(reported[0], "1/5 add shard0000 to zone alfa");
    assert_eq!(reported[4], "5/5 shard the collection by { datacenter: 1, userid: 1 }");
}

#[tokio::test]
async fn existing_documents_are_moved_by_the_balancer() {
    for version in ["6.0", "8.0"] {
        let (deployment, client) = cluster(version).await;
        insert(&client).await;
        let plan = planned(&client).await;
        let kinds: Vec<_> = plan.steps().iter().map(|it| it.kind().clone()).collect();
        assert!(matches!(kinds[4], StepKind::CreateIndex { .. }), "{plan}");
        assert!(plan.notes()[0].contains("the balancer moves them"), "{plan}");
        plan.apply(&client).await.unwrap();
        let status = zones::status(&client, &layout()).await.unwrap();
        assert!(!status.is_compliant(), "{status}");
        assert_eq!(status.verdict, BalancerVerdict::Violation("zoneViolation".to_owned()));
        assert!(!status.misplaced.is_empty(), "{status}");
        let error = zones::until_compliant(&client, &layout(), |_| ()).await.unwrap_err();
        assert!(error.to_string().contains("sh.startBalancer()"), "{error}");
        while deployment.balancer_step().await.unwrap() {}
        let status = zones::status(&client, &layout()).await.unwrap();
        assert!(status.is_compliant(), "{status}");
        for (shard, datacenter) in [("shard0000", "alfa"), ("shard0001", "bravo")] {
            let uri = deployment.shard(shard).members()[0].address();
            let uri = format!("mongodb://{uri}/?directConnection=true");
            let direct = Client::with_uri_str(uri).await.unwrap();
            let messages = direct.database("app").collection::<Document>("messages");
            let here = messages.distinct("datacenter", doc! {}).await.unwrap();
            assert_eq!(here, [Bson::from(datacenter)], "{shard}");
            assert_eq!(messages.count_documents(doc! {}).await.unwrap(), 10);
        }
    }
}

#[tokio::test]
async fn until_compliant_waits_for_the_balancer() {
    let (_deployment, client) = cluster("8.0").await;
    insert(&client).await;
    apply(&client).await;
    let admin = client.database("admin");
    let misplaced = Arc::new(Mutex::new(Vec::new()));
    let seen = misplaced.clone();
    let start = admin.run_command(doc! { "balancerStart": 1 });
    start.await.unwrap();
    let layout = layout();
    let waited = zones::until_compliant(&client, &layout, |status| {
        seen.lock().unwrap().push(status.misplaced.len());
    });
    let status = tokio::time::timeout(std::time::Duration::from_secs(60), waited).await;
    assert!(status.expect("the wait ends").unwrap().is_compliant());
    assert_eq!(misplaced.lock().unwrap().last(), Some(&0));
}

#[tokio::test]
async fn removal_removes_zones_and_keeps_documents() {
    for version in ["4.2", "6.0", "8.0"] {
        let (deployment, client) = cluster(version).await;
        apply(&client).await;
        insert(&client).await;
        // Another collection uses one of the zones.
        let admin = client.database("admin");
        let other = doc! {
            "updateZoneKeyRange": "app.others", "min": { "x": 1 }, "max": { "x": 2 }, "zone": "bravo",
        };
        admin.run_command(other).await.unwrap();
        for step in [3, 0] {
            let cluster = Cluster::read(&client, &layout()).await.unwrap();
            let removal = zones::removal(&layout(), &cluster);
            assert_eq!(removal.steps().len(), step, "{removal}");
            removal.apply(&client).await.unwrap();
        }
        assert!(deployment.zone_ranges(MESSAGES).is_empty());
        let shards = admin.run_command(doc! { "listShards": 1 }).await.unwrap();
        let zones: Vec<_> = shards
            .get_array("shards")
            .unwrap()
            .iter()
            .map(|it| it.as_document().unwrap().get_array("tags").cloned().unwrap_or_default())
            .collect();
        assert_eq!(zones, [vec![], vec![Bson::from("bravo")]]);
        let messages = client.database("app").collection::<Document>("messages");
        assert_eq!(messages.count_documents(doc! {}).await.unwrap(), 20);
        assert!(!deployment.chunks(MESSAGES).is_empty(), "the collection stays sharded");
    }
}

#[tokio::test]
async fn status_is_displayed_as_a_table() {
    let (_deployment, client) = cluster("8.0").await;
    let before = zones::status(&client, &layout()).await.unwrap().to_string();
    assert!(before.starts_with("app.messages, not sharded\n"), "{before}");
    assert!(before.contains("not assigned"), "{before}");
    assert!(before.ends_with("The layout is not applied: 5 steps are left.\n"), "{before}");
    apply(&client).await;
    let after = zones::status(&client, &layout()).await.unwrap();
    let table = after.to_string();
    let lines: Vec<_> = table.lines().collect();
    assert_eq!(lines[0], "app.messages, sharded by { datacenter: 1, userid: 1 }");
    assert_eq!(lines[2], "shard      zones  datacenter  chunks  misplaced");
    assert_eq!(lines[4], "shard0001  bravo  bravo            2          0");
    assert!(
        lines[7].starts_with("alfa        { datacenter: \"alfa\", userid: MinKey() }  "),
        "{table}"
    );
    assert_eq!(after.shards.iter().map(|it| it.chunks).sum::<usize>(), 5);
    assert!(table.ends_with("Each datacenter's documents are on its shards.\n"), "{table}");
}

#[tokio::test]
async fn replica_set_is_rejected_as_not_mongos() {
    let set = Deployment::replica_set(1).start();
    let client = Client::with_uri_str(set.uri()).await.unwrap();
    let error = Cluster::read(&client, &layout()).await.unwrap_err();
    assert!(matches!(error, ZonesError::NotMongos { .. }));
    let message = error.to_string();
    assert!(message.starts_with("a member of the replica set rs0 replied"), "{message}");
    assert!(message.contains("mongos"), "{message}");
}

#[tokio::test]
async fn contradiction_is_reported_and_changes_nothing() {
    let (deployment, client) = cluster("8.0").await;
    let admin = client.database("admin");
    let other = doc! { "shardCollection": MESSAGES, "key": { "userid": "hashed" } };
    admin.run_command(other).await.unwrap();
    admin.run_command(doc! { "addShardToZone": "shard0001", "zone": "alfa" }).await.unwrap();
    let before = deployment.chunks(MESSAGES);
    let cluster = Cluster::read(&client, &layout()).await.unwrap();
    let contradictions = zones::plan(&layout(), &cluster).unwrap_err();
    let kinds: Vec<_> = contradictions.iter().collect();
    assert!(
        matches!(kinds[0], Contradiction::UnlistedShardInZone { shard, .. } if shard == "shard0001")
    );
    assert!(matches!(kinds[1], Contradiction::OtherShardKey { .. }), "{contradictions}");
    assert_eq!(kinds.len(), 2, "{contradictions}");
    assert_eq!(deployment.chunks(MESSAGES), before);
    let status = zones::status(&client, &layout()).await.unwrap();
    assert!(!status.is_compliant() && status.blocker().is_some());
}

#[tokio::test]
async fn server_rejects_the_steps_that_a_plan_avoids() {
    let (_deployment, client) = cluster("8.0").await;
    apply(&client).await;
    let admin = client.database("admin");
    let code = async |command: Document| admin.run_command(command).await.unwrap_err().code();
    let range = |zone: &str| {
        let layout = layout();
        let (min, max) = (layout.min("alfa"), layout.max("alfa"));
        doc! { "updateZoneKeyRange": MESSAGES, "min": min, "max": max, "zone": zone }
    };
    assert_eq!(code(range("bravo")).await, Some(178), "the range has another zone");
    assert_eq!(admin.run_command(range("alfa")).await.unwrap().get_f64("ok").unwrap(), 1.0);
    let last = doc! { "removeShardFromZone": "shard0000", "zone": "alfa" };
    assert_eq!(code(last).await, Some(154), "the last shard of a zone with ranges");
    let mut other = range("alfa");
    other.insert("updateZoneKeyRange", "app.others");
    admin.run_command(other).await.unwrap();
    let shard = doc! { "shardCollection": "app.others", "key": { "userid": 1 } };
    assert_eq!(code(shard).await, Some(72), "the ranges have another key");
}

/// Starts a cluster whose shards have members in these datacenters. The last member of each has priority 0.
async fn tagged_cluster(first: [&str; 3], second: [&str; 3]) -> (Deployment, Client) {
    let tags = |names: [&str; 3]| names.map(|name| doc! { "datacenter": name, "disk": "ssd" });
    let deployment = Deployment::sharded(&["shard0000", "shard0001"])
        .tags("shard0000", tags(first))
        .tags("shard0001", tags(second))
        .priority_zero([2])
        .start();
    let client = Client::with_uri_str(deployment.uri()).await.unwrap();
    (deployment, client)
}

#[tokio::test]
async fn members_of_the_shards_are_compared_with_the_layout() {
    let (_deployment, client) =
        tagged_cluster(["alfa", "alfa", "bravo"], ["bravo", "bravo", "alfa"]).await;
    let plan = planned(&client).await;
    assert_eq!(plan.steps()[0].reason(), "2 of 3 voting members of shard0000 are in alfa");
    assert_eq!(plan.steps()[1].reason(), "2 of 3 voting members of shard0001 are in bravo");
    assert_eq!(plan.warnings(), [""; 0]);
    plan.apply(&client).await.unwrap();
    let status = zones::until_compliant(&client, &layout(), |_| ()).await.unwrap();
    assert_eq!(status.warnings, [""; 0]);

    let (deployment, client) =
        tagged_cluster(["alfa", "bravo", "bravo"], ["bravo", "bravo", "alfa"]).await;
    let plan = planned(&client).await;
    assert_eq!(plan.steps()[0].reason(), "the layout has shard0000 in alfa");
    assert_eq!(plan.steps()[1].reason(), "2 of 3 voting members of shard0001 are in bravo");
    let electable = deployment.shard("shard0000").members()[1].address();
    let expected = [
        "1 of 3 voting members of shard0000 is in alfa: ".to_owned(),
        format!("{electable} in bravo can become primary of shard0000 (priority 1): "),
    ];
    assert_eq!(plan.warnings().len(), expected.len(), "{:?}", plan.warnings());
    for (warning, begin) in plan.warnings().iter().zip(expected) {
        assert!(warning.starts_with(&begin), "{warning}");
        assert!(plan.to_string().contains(&format!("Warning: {warning}.\n")), "{plan}");
    }
    let status = zones::status(&client, &layout()).await.unwrap();
    assert_eq!(status.warnings, plan.warnings());
    assert!(
        status.to_string().contains("\nWarning: 1 of 3 voting members of shard0000"),
        "{status}"
    );
}

#[tokio::test]
async fn unread_members_of_a_cluster_give_a_warning() {
    let (deployment, client) =
        tagged_cluster(["alfa", "alfa", "bravo"], ["bravo", "bravo", "alfa"]).await;
    let cluster = Cluster::read(&client, &layout()).await.unwrap();
    for member in 0..3 {
        deployment.shard("shard0001").faults().kill(member);
    }
    let reread = Cluster::read(&client, &layout()).await.unwrap();
    assert_eq!(reread.members["shard0000"], cluster.members["shard0000"]);
    let plan = zones::plan(&layout(), &reread).unwrap();
    assert_eq!(plan.steps()[1].reason(), "the layout has shard0001 in bravo");
    let [warning] = plan.warnings() else { panic!("{:?}", plan.warnings()) };
    assert!(warning.starts_with("the members of shard0001 were not read: "), "{warning}");
}
