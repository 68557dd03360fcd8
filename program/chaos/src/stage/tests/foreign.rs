//! Deployments that were there before, and stay as they were.

use steadfast_embedded::Deployment;

use super::*;

fn foreign(uri: &str, faults: &[Fault], lasting: Duration) -> Plan {
    plan(Servers::Foreign(Uri::new(uri)), faults, lasting)
}

async fn refusal(uri: &str, faults: &[Fault]) -> String {
    let plan = foreign(uri, faults, Duration::from_secs(1));
    if let Err(invalid) = plan.check() {
        return invalid.to_string();
    }
    let refused = timeout(BOUND, Stage::set(&plan, &silent())).await.expect("it is refused soon");
    refused.err().expect("it is refused").to_string()
}

async fn collections(uri: &str) -> Vec<String> {
    let client = Client::with_uri_str(uri).await.unwrap();
    client.database("stage").list_collection_names().await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deployment_with_a_login_has_all_faults_but_kill_and_nothing_is_left_there() {
    let set = Deployment::replica_set(3).auth("ada", "se:cr@t").in_thread().start();
    let faults = [Fault::Cuts, Fault::Slow, Fault::Overload, Fault::Freeze, Fault::StepDown];
    let plan = foreign(&set.uri(), &faults, Duration::from_secs(8));
    let is_seen =
        |incidents: &[Incident]| has(incidents, &faults) && is_met(incidents, Fault::Freeze);
    let (stage, incidents, _) = staged(plan, is_seen).await;
    assert_eq!(stage.server(), "MongoDB 8.0.0, replica set rs0");
    assert_all_are_there(&stage).await;
    assert_sound(&incidents, &faults);
    assert!(incidents.iter().all(|it| it.is_failover == (it.fault == Fault::StepDown)));
    assert!(!collections(&set.uri()).await.is_empty());
    stage.close().await.unwrap();
    assert!(collections(&set.uri()).await.is_empty());
}

#[tokio::test]
async fn what_is_to_be_kept_is_kept() {
    let set = Deployment::replica_set(1).start();
    let mut plan = foreign(&set.uri(), &[], Duration::from_secs(1));
    plan.keep = true;
    let stage = Stage::set(&plan, &silent()).await.unwrap();
    let client = Client::with_uri_str(stage.straight_uri()).await.unwrap();
    stage.mark_written();
    client.database("stage").collection("things").insert_one(doc! {}).await.unwrap();
    stage.close().await.unwrap();
    assert_eq!(collections(&set.uri()).await, ["things"]);
}

#[tokio::test]
async fn a_database_that_is_there_already_is_refused_and_left_alone() {
    let set = Deployment::replica_set(1).start();
    let client = Client::with_uri_str(set.uri()).await.unwrap();
    client.database("stage").collection("orders").insert_one(doc! {}).await.unwrap();
    let why = refusal(&set.uri(), &[Fault::Cuts]).await;
    assert!(why.starts_with("--database: stage is there already"), "{why}");
    assert_eq!(collections(&set.uri()).await, ["orders"]);
}

#[tokio::test]
async fn what_cannot_be_done_to_a_deployment_is_refused() {
    let set = Deployment::replica_set(1).start();
    let why = refusal(&set.uri(), &[Fault::Cuts, Fault::Kill]).await;
    assert!(why.contains("does not own the processes"), "{why}");

    let alone = Deployment::standalone().start();
    let why = refusal(&alone.uri(), &[Fault::Cuts]).await;
    assert!(why.contains("standalone"), "{why}");

    let cluster = Deployment::sharded(&["alfa"]).start();
    let why = refusal(&cluster.uri(), &[Fault::StepDown]).await;
    assert!(why.contains("sharded cluster"), "{why}");

    set.faults().kill(0);
    let impatient = format!("{}&serverSelectionTimeoutMS=200", set.uri());
    let why = refusal(&impatient, &[Fault::Cuts]).await;
    assert!(why.contains("no suitable server"), "{why}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sharded_cluster_has_the_faults_of_the_network() {
    let cluster = Deployment::sharded(&["alfa", "bravo"]).in_thread().start();
    let faults = [Fault::Cuts, Fault::Slow, Fault::Overload, Fault::Freeze];
    let plan = foreign(&cluster.uri(), &faults, Duration::from_secs(6));
    let is_seen = |incidents: &[Incident]| {
        let is_mongos = |it: &Incident| it.what.contains("a mongos, ") && it.hits > 0;
        has(incidents, &faults) && incidents.iter().any(is_mongos)
    };
    let (stage, incidents, _) = staged(plan, is_seen).await;
    assert_eq!(stage.server(), "MongoDB 8.0.0, sharded cluster");
    assert_sound(&incidents, &faults);
    assert!(incidents.iter().all(|it| !it.is_failover));
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_real_server_with_tls_and_a_login_is_reached_and_nothing_is_left_there() {
    testbed::require!(V6_0);
    use testbed::{Options, ReplicaSet, TestCa, User};

    let (ca, set) = tokio::task::spawn_blocking(|| {
        let ca = TestCa::new().unwrap();
        let options = Options::new().tls(&ca).user(User::new("ada", "se:cr@t"));
        let set = ReplicaSet::start(1, options).unwrap();
        (ca, set)
    })
    .await
    .unwrap();
    let (host, file) = (set.addresses()[0], ca.ca_file());
    let file = file.display();
    let uri = format!(
        "mongodb://ada:se%3Acr%40t@{host}/?replicaSet={}&tls=true&tlsCAFile={file}",
        set.name()
    );
    let plan = foreign(&uri, &[Fault::Cuts, Fault::Slow], Duration::from_secs(2));
    let faults = [Fault::Cuts, Fault::Slow];
    let (stage, incidents, _) = staged(plan, |incidents| has(incidents, &faults)).await;
    assert_sound(&incidents, &faults);
    assert!(!collections(&uri).await.is_empty());
    stage.close().await.unwrap();
    assert!(collections(&uri).await.is_empty());
}
