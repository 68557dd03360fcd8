//! Every fault, and after it all is well.

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

/// Longer than anything here takes on a busy machine.
const BOUND: Duration = Duration::from_secs(180);

fn plan(servers: Servers, faults: &[Fault], lasting: Duration) -> Plan {
    Plan {
        faults: faults.to_vec(),
        tasks: 1,
        // As fast as it can.
        rate: 1000,
        lasting,
        database: "stage".to_owned(),
        ..Plan::new(servers)
    }
}

fn silent() -> Arc<dyn Observer> {
    Arc::new(())
}

/// Writes as the load does, as fast as it can, until it is told to end. Says how many it was told were done.
async fn write(uri: String, name: &'static str, mut ending: watch::Receiver<bool>) -> u64 {
    let mut options = ClientOptions::parse(&uri).await.unwrap();
    options.app_name = Some(name.to_owned());
    options.timeout = Some(Duration::from_secs(10));
    let client = Client::with_options(options).unwrap();
    let things = client.database("stage").collection::<Document>(name);
    let mut done = 0;
    while !*ending.borrow_and_update() {
        done += u64::from(things.insert_one(doc! {}).await.is_ok());
    }
    done
}

/// Sets a stage, and runs all of a plan on it. A machine that is too busy for what is to be seen in that time has
/// more of it.
async fn staged(
    mut plan: Plan,
    is_seen: impl Fn(&[Incident]) -> bool,
) -> (Stage, Vec<Incident>, Arc<Live>) {
    const ROUNDS: u32 = 3;
    let mut seen = Vec::new();
    for _ in 0..ROUNDS {
        let stage = Stage::set(&plan, &silent()).await.unwrap();
        stage.mark_written();
        let (incidents, live) = run(&stage, &plan).await;
        if is_seen(&incidents) {
            return (stage, incidents, live);
        }
        stage.close().await.unwrap();
        plan.lasting *= 2;
        seen.push(incidents);
    }
    panic!("it is not seen in any time: {seen:#?}");
}

fn has(incidents: &[Incident], faults: &[Fault]) -> bool {
    faults.iter().all(|fault| incidents.iter().any(|it| it.fault == *fault))
}

fn is_met(incidents: &[Incident], fault: Fault) -> bool {
    incidents.iter().any(|it| it.fault == fault && it.hits > 0)
}

/// All of a plan, with a load.
async fn run(stage: &Stage, plan: &Plan) -> (Vec<Incident>, Arc<Live>) {
    let (stop, stopped) = watch::channel(false);
    let live = Arc::new(Live::default());
    let load = tokio::spawn(write(stage.uri(), APP_NAME, stopped.clone()));
    let trouble = stage.trouble(plan, Instant::now(), stopped, Arc::clone(&live));
    let end = async {
        tokio::time::sleep(plan.lasting).await;
        stop.send_replace(true);
    };
    let ran = timeout(BOUND, async { tokio::join!(trouble, end).0 }).await;
    let incidents = ran.expect("it ends").unwrap();
    assert!(load.await.unwrap() > 0, "writes were made");
    (incidents, live)
}

fn assert_sound(incidents: &[Incident], wanted: &[Fault]) {
    for fault in wanted {
        assert!(incidents.iter().any(|it| it.fault == *fault), "{fault:?} in {incidents:#?}");
    }
    assert!(incidents.is_sorted_by_key(|incident| incident.began), "{incidents:#?}");
    assert!(incidents.iter().all(|it| it.began <= it.ended && wanted.contains(&it.fault)));
    let is_of_member =
        |it: &&Incident| matches!(it.fault, Fault::Kill | Fault::Freeze | Fault::StepDown);
    let of_members: Vec<&Incident> = incidents.iter().filter(is_of_member).collect();
    let one_at_a_time = of_members.windows(2).all(|pair| pair[0].ended <= pair[1].began);
    assert!(one_at_a_time, "{of_members:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn embedded_servers_have_every_fault_and_are_well_again() {
    let faults = Servers::Embedded.default_faults();
    let all = plan(Servers::Embedded, &faults, Duration::from_secs(10));
    // So that many connections break.
    let plan = Plan { rate: 100, ..all };
    let is_seen = |incidents: &[Incident]| {
        has(incidents, &faults)
            && is_met(incidents, Fault::Cuts)
            && incidents.iter().filter(|it| it.is_failover).count() >= 2
    };
    let (stage, incidents, live) = staged(plan, is_seen).await;
    assert_sound(&incidents, &faults);
    assert_eq!(live.incidents.load(Relaxed), incidents.len() as u64);
    assert!(live.now().is_empty(), "{:?}", live.now());
    assert!(live.hits.load(Relaxed) >= incidents.iter().map(|it| it.hits).sum());

    assert_all_are_there(&stage).await;
    stage.close().await.unwrap();
}

/// A write on all members, not on most, is made at once.
async fn assert_all_are_there(stage: &Stage) {
    let uri = format!("{}&w=3&wtimeoutMS=60000", stage.straight_uri());
    let client = Client::with_uri_str(uri).await.unwrap();
    client.database("stage").collection("last").insert_one(doc! {}).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_is_cut_short_leaves_nothing_down() {
    let faults = [Fault::Kill, Fault::Cuts];
    let plan = plan(Servers::Embedded, &faults, Duration::from_secs(600));
    let stage = Stage::set(&plan, &silent()).await.unwrap();
    let (stop, stopped) = watch::channel(false);
    let live = Arc::new(Live::default());
    let trouble = stage.trouble(&plan, Instant::now(), stopped, Arc::clone(&live));
    let end = async {
        // Both at a time; either may be first where a machine is busy.
        let is_now = |what: &str| live.now().iter().any(|it| it.contains(what));
        while !(is_now("is killed") && is_now("connections break")) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        stop.send_replace(true);
    };
    let ran = timeout(BOUND, async { tokio::join!(trouble, end).0 }).await;
    let incidents = ran.expect("it ends").unwrap();
    assert_sound(&incidents, &faults);
    assert!(live.now().is_empty(), "{:?}", live.now());
    assert_all_are_there(&stage).await;
}

#[tokio::test]
async fn only_the_load_is_hit() {
    let plan = plan(Servers::Embedded, &[Fault::Overload], Duration::from_secs(600));
    let stage = Stage::set(&plan, &silent()).await.unwrap();
    let (stop, stopped) = watch::channel(false);
    let live = Arc::new(Live::default());
    let other = tokio::spawn(write(stage.uri(), "somebody else", stopped.clone()));
    let trouble = stage.trouble(&plan, Instant::now(), stopped, Arc::clone(&live));
    let end = async {
        while live.incidents.load(Relaxed) == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        stop.send_replace(true);
    };
    let incidents = timeout(BOUND, async { tokio::join!(trouble, end).0 }).await.unwrap().unwrap();
    assert!(other.await.unwrap() > 0);
    assert!(!incidents.is_empty() && incidents.iter().all(|it| it.hits == 0), "{incidents:#?}");
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_servers_have_every_fault_of_members_and_are_well_again() {
    testbed::require!(V6_0);
    let faults = [Fault::StepDown, Fault::Kill, Fault::Freeze];
    let plan = plan(Servers::Mongod, &faults, Duration::from_secs(24));
    let (stage, incidents, live) = staged(plan, |incidents| has(incidents, &faults)).await;
    assert!(stage.server().starts_with("mongod "), "{}", stage.server());
    assert_sound(&incidents, &faults);
    for fault in faults {
        let first = incidents.iter().find(|it| it.fault == fault);
        assert!(first.is_some_and(|it| it.is_failover), "the primary is first: {incidents:#?}");
    }
    assert!(live.now().is_empty(), "{:?}", live.now());
    assert_all_are_there(&stage).await;
    stage.close().await.unwrap();
}
