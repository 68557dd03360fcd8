//! Injection of every fault, and recovery from it.

mod foreign;

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use steadfast::{
    Client,
    bson::{Document, doc},
    options::ClientOptions,
};
use tokio::{sync::watch, time::timeout};

use super::*;
use crate::plan::{Fault, Servers, Uri};

/// Time-out of a run, with a margin for busy machines.
const RUN_TIMEOUT: Duration = Duration::from_secs(180);

fn plan(servers: Servers, faults: &[Fault], lasting: Duration) -> Plan {
    Plan {
        faults: faults.to_vec(),
        tasks: 1,
        // As fast as possible.
        rate: 1000,
        lasting,
        database: "stage".to_owned(),
        ..Plan::new(servers)
    }
}

fn silent() -> Arc<dyn Observer> {
    Arc::new(())
}

/// Inserts documents as fast as possible until `ending` is `true`. Returns the number of acknowledged inserts.
async fn write(uri: String, name: &'static str, mut ending: watch::Receiver<bool>) -> u64 {
    let mut options = ClientOptions::parse(&uri).await.unwrap();
    options.app_name = Some(name.to_owned());
    options.timeout = Some(Duration::from_secs(10));
    let client = Client::with_options(options).unwrap();
    let collection = client.database("stage").collection::<Document>(name);
    let mut inserted = 0;
    while !*ending.borrow_and_update() {
        inserted += u64::from(collection.insert_one(doc! {}).await.is_ok());
    }
    inserted
}

/// Runs a plan on a new deployment until the incidents are as expected. On a busy machine, faults can be missing:
/// each further round takes twice as long.
async fn run_until(
    mut plan: Plan,
    is_expected: impl Fn(&[Incident]) -> bool,
) -> (Stage, Vec<Incident>, Arc<Live>) {
    const ROUNDS: u32 = 3;
    let mut seen = Vec::new();
    for _ in 0..ROUNDS {
        let stage = Stage::set(&plan, &silent()).await.unwrap();
        stage.mark_written();
        let (incidents, live) = run(&stage, &plan).await;
        if is_expected(&incidents) {
            return (stage, incidents, live);
        }
        stage.close().await.unwrap();
        plan.lasting *= 2;
        seen.push(incidents);
    }
    panic!("expected incidents are missing: {seen:#?}");
}

fn has(incidents: &[Incident], faults: &[Fault]) -> bool {
    faults.iter().all(|fault| incidents.iter().any(|it| it.fault == *fault))
}

fn has_hits(incidents: &[Incident], fault: Fault) -> bool {
    incidents.iter().any(|it| it.fault == fault && it.hits > 0)
}

/// Runs all faults of a plan with a load.
async fn run(stage: &Stage, plan: &Plan) -> (Vec<Incident>, Arc<Live>) {
    let (stop, stopped) = watch::channel(false);
    let live = Arc::new(Live::default());
    let load = tokio::spawn(write(stage.uri(), APP_NAME, stopped.clone()));
    let faults = stage.run_faults(plan, Instant::now(), stopped, Arc::clone(&live));
    let end = async {
        tokio::time::sleep(plan.lasting).await;
        stop.send_replace(true);
    };
    let ran = timeout(RUN_TIMEOUT, async { tokio::join!(faults, end).0 }).await;
    let incidents = ran.expect("it ends").unwrap();
    assert!(load.await.unwrap() > 0, "inserts were acknowledged");
    (incidents, live)
}

fn assert_valid(incidents: &[Incident], planned: &[Fault]) {
    for fault in planned {
        assert!(incidents.iter().any(|it| it.fault == *fault), "{fault:?} in {incidents:#?}");
    }
    assert!(incidents.is_sorted_by_key(|incident| incident.began), "{incidents:#?}");
    assert!(incidents.iter().all(|it| it.began <= it.ended && planned.contains(&it.fault)));
    let is_of_member =
        |it: &&Incident| matches!(it.fault, Fault::Kill | Fault::Freeze | Fault::StepDown);
    let of_members: Vec<&Incident> = incidents.iter().filter(is_of_member).collect();
    let one_at_a_time = of_members.windows(2).all(|pair| pair[0].ended <= pair[1].began);
    assert!(one_at_a_time, "{of_members:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn embedded_servers_recover_from_every_fault() {
    let faults = Servers::Embedded.default_faults();
    let all = plan(Servers::Embedded, &faults, Duration::from_secs(10));
    // A lower rate has more cuts per write.
    let plan = Plan { rate: 100, ..all };
    let is_expected = |incidents: &[Incident]| {
        has(incidents, &faults)
            && has_hits(incidents, Fault::Cuts)
            && incidents.iter().filter(|it| it.is_failover).count() >= 2
    };
    let (stage, incidents, live) = run_until(plan, is_expected).await;
    assert_valid(&incidents, &faults);
    assert_eq!(live.incidents.load(Relaxed), incidents.len() as u64);
    assert!(live.now().is_empty(), "{:?}", live.now());
    assert!(live.hits.load(Relaxed) >= incidents.iter().map(|it| it.hits).sum());

    assert_all_members_run(&stage).await;
    stage.close().await.unwrap();
}

/// Checks that a write with `w: 3` succeeds.
async fn assert_all_members_run(stage: &Stage) {
    let uri = format!("{}&w=3&wtimeoutMS=60000", stage.direct_uri());
    let client = Client::with_uri_str(uri).await.unwrap();
    client.database("stage").collection("last").insert_one(doc! {}).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn interrupted_run_restores_all_members() {
    let faults = [Fault::Kill, Fault::Cuts];
    let plan = plan(Servers::Embedded, &faults, Duration::from_secs(600));
    let stage = Stage::set(&plan, &silent()).await.unwrap();
    let (stop, stopped) = watch::channel(false);
    let live = Arc::new(Live::default());
    let faults_run = stage.run_faults(&plan, Instant::now(), stopped, Arc::clone(&live));
    let end = async {
        // Waits until both faults are in effect, in any order.
        let is_now = |what: &str| live.now().iter().any(|it| it.contains(what));
        while !(is_now("is killed") && is_now("connections break")) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        stop.send_replace(true);
    };
    let ran = timeout(RUN_TIMEOUT, async { tokio::join!(faults_run, end).0 }).await;
    let incidents = ran.expect("it ends").unwrap();
    assert_valid(&incidents, &faults);
    assert!(live.now().is_empty(), "{:?}", live.now());
    assert_all_members_run(&stage).await;
}

#[tokio::test]
async fn other_clients_are_not_affected() {
    let plan = plan(Servers::Embedded, &[Fault::Overload], Duration::from_secs(600));
    let stage = Stage::set(&plan, &silent()).await.unwrap();
    let (stop, stopped) = watch::channel(false);
    let live = Arc::new(Live::default());
    let other = tokio::spawn(write(stage.uri(), "other client", stopped.clone()));
    let faults = stage.run_faults(&plan, Instant::now(), stopped, Arc::clone(&live));
    let end = async {
        while live.incidents.load(Relaxed) == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        stop.send_replace(true);
    };
    let ran = timeout(RUN_TIMEOUT, async { tokio::join!(faults, end).0 }).await;
    let incidents = ran.unwrap().unwrap();
    assert!(other.await.unwrap() > 0);
    assert!(!incidents.is_empty() && incidents.iter().all(|it| it.hits == 0), "{incidents:#?}");
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_servers_recover_from_every_fault_of_members() {
    testbed::require!(V6_0);
    let faults = [Fault::StepDown, Fault::Kill, Fault::Freeze];
    let plan = plan(Servers::Mongod, &faults, Duration::from_secs(24));
    let (stage, incidents, live) = run_until(plan, |incidents| has(incidents, &faults)).await;
    assert!(stage.server().starts_with("mongod "), "{}", stage.server());
    assert_valid(&incidents, &faults);
    for fault in faults {
        let first = incidents.iter().find(|it| it.fault == fault);
        assert!(first.is_some_and(|it| it.is_failover), "the primary is first: {incidents:#?}");
    }
    assert!(live.now().is_empty(), "{:?}", live.now());
    assert_all_members_run(&stage).await;
    stage.close().await.unwrap();
}
