//! Runs on existing deployments, which are unchanged afterwards.

use steadfast_embedded::Deployment;

use super::*;

fn foreign(uri: &str, faults: &[Fault], lasting: Duration) -> Plan {
    plan(Servers::Foreign(Uri::new(uri)), faults, lasting)
}

async fn setup_error(uri: &str, faults: &[Fault]) -> String {
    let plan = foreign(uri, faults, Duration::from_secs(1));
    if let Err(invalid) = plan.check() {
        return invalid.to_string();
    }
    let started = timeout(RUN_TIMEOUT, Stage::set(&plan, &silent())).await.expect("no time-out");
    started.err().expect("an error").to_string()
}

async fn collections(uri: &str) -> Vec<String> {
    let client = Client::with_uri_str(uri).await.unwrap();
    client.database("stage").list_collection_names().await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deployment_with_authentication_has_all_faults_except_kill() {
    let set = Deployment::replica_set(3).auth("ada", "se:cr@t").in_thread().start();
    let faults = [Fault::Cuts, Fault::Slow, Fault::Overload, Fault::Freeze, Fault::StepDown];
    let plan = foreign(&set.uri(), &faults, Duration::from_secs(8));
    let is_expected =
        |incidents: &[Incident]| has(incidents, &faults) && has_hits(incidents, Fault::Freeze);
    let (stage, incidents, _) = run_until(plan, is_expected).await;
    assert_eq!(stage.server(), "MongoDB 8.0.0, replica set rs0");
    assert_all_members_run(&stage).await;
    assert_valid(&incidents, &faults);
    assert!(incidents.iter().all(|it| it.is_failover == (it.fault == Fault::StepDown)));
    assert!(!collections(&set.uri()).await.is_empty());
    stage.close().await.unwrap();
    assert!(collections(&set.uri()).await.is_empty());
}

#[tokio::test]
async fn plan_can_keep_the_database() {
    let set = Deployment::replica_set(1).start();
    let mut plan = foreign(&set.uri(), &[], Duration::from_secs(1));
    plan.keep = true;
    let stage = Stage::set(&plan, &silent()).await.unwrap();
    let client = Client::with_uri_str(stage.direct_uri()).await.unwrap();
    stage.mark_written();
    client.database("stage").collection("orders").insert_one(doc! {}).await.unwrap();
    stage.close().await.unwrap();
    assert_eq!(collections(&set.uri()).await, ["orders"]);
}

#[tokio::test]
async fn existing_database_is_rejected_and_unchanged() {
    let set = Deployment::replica_set(1).start();
    let client = Client::with_uri_str(set.uri()).await.unwrap();
    client.database("stage").collection("orders").insert_one(doc! {}).await.unwrap();
    let why = setup_error(&set.uri(), &[Fault::Cuts]).await;
    assert!(why.starts_with("--database: stage already exists"), "{why}");
    assert_eq!(collections(&set.uri()).await, ["orders"]);
}

#[tokio::test]
async fn unsupported_faults_and_deployments_are_rejected() {
    let set = Deployment::replica_set(1).start();
    let why = setup_error(&set.uri(), &[Fault::Cuts, Fault::Kill]).await;
    assert!(why.contains("kill is not supported with --uri"), "{why}");

    let alone = Deployment::standalone().start();
    let why = setup_error(&alone.uri(), &[Fault::Cuts]).await;
    assert!(why.contains("standalone"), "{why}");

    let cluster = Deployment::sharded(&["alfa"]).start();
    let why = setup_error(&cluster.uri(), &[Fault::StepDown]).await;
    assert!(why.contains("sharded cluster"), "{why}");

    set.faults().kill(0);
    let uri = format!("{}&serverSelectionTimeoutMS=200", set.uri());
    let why = setup_error(&uri, &[Fault::Cuts]).await;
    assert!(why.contains("no suitable server"), "{why}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sharded_cluster_has_the_faults_of_the_network() {
    let cluster = Deployment::sharded(&["alfa", "bravo"]).in_thread().start();
    let faults = [Fault::Cuts, Fault::Slow, Fault::Overload, Fault::Freeze];
    let plan = foreign(&cluster.uri(), &faults, Duration::from_secs(6));
    let is_expected = |incidents: &[Incident]| {
        let is_mongos = |it: &Incident| it.what.contains("a mongos, ") && it.hits > 0;
        has(incidents, &faults) && incidents.iter().any(is_mongos)
    };
    let (stage, incidents, _) = run_until(plan, is_expected).await;
    assert_eq!(stage.server(), "MongoDB 8.0.0, sharded cluster");
    assert_valid(&incidents, &faults);
    assert!(incidents.iter().all(|it| !it.is_failover));
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn collections_are_dropped_on_a_real_server_with_tls_and_authentication() {
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
    let (stage, incidents, _) = run_until(plan, |incidents| has(incidents, &faults)).await;
    assert_valid(&incidents, &faults);
    assert!(!collections(&uri).await.is_empty());
    stage.close().await.unwrap();
    assert!(collections(&uri).await.is_empty());
}
