//! Stress test of local writes under load: datacenters fail, acknowledge late, and lose connections. Every
//! receipt is compared with the documents in the datacenters; then duplicates are read and trimmed.
//! The tests use the embedded sharded cluster and two real replica sets. Faults and documents follow from a
//! seed. `STEADFAST_SEED=7` starts with this seed instead of 1, `STEADFAST_SEEDED_RUNS=20` runs twenty seeds.

mod documents;
mod fault_injector;
mod load;
mod naive_writer;
mod recorded_writes;
mod replica_sets;
mod sharded;

use std::{collections::BTreeMap, env, sync::Arc, time::Duration};

use blackpipe::proxy::Proxy;
use steadfast::{
    Client,
    bson::{Document, doc, oid::ObjectId},
};
use steadfast_patterns::{
    duplicates::{Duplicates, Keep},
    local_writes::LocalWriter,
};

use self::{
    fault_injector::{ACKNOWLEDGED_WITHIN, DatacenterFault, FaultInjector},
    load::Load,
    recorded_writes::{RecordedWrites, StoredCopies},
    replica_sets::ReplicaSetDatacenters,
    sharded::ShardedDatacenters,
};
use crate::rng::Rng;

/// Interval of the probes of a datacenter that is down.
const PROBE_EVERY: Duration = Duration::from_millis(20);

/// Time limit of a run. Only a hang exceeds it.
const TEST_TIMEOUT: Duration = Duration::from_secs(900);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sharded_cluster_loses_no_acknowledged_document_and_receipts_list_all_copies() {
    let first = env_number("STEADFAST_SEED", 1);
    for seed in first..first + env_number("STEADFAST_SEEDED_RUNS", 1) {
        tokio::time::timeout(TEST_TIMEOUT, on_a_cluster(seed)).await.expect("the run hangs");
    }
}

async fn on_a_cluster(seed: u64) {
    let mut rng = Rng(seed);
    let cluster = Arc::new(ShardedDatacenters::start(seed).await);
    let network = Proxy::builder(cluster.uri()).start().await.unwrap();
    let mut writers = Vec::new();
    for order in [["alfa", "bravo"], ["bravo", "alfa"], ["alfa", "bravo"]] {
        let client = Client::with_uri_str(network.uri()).await.unwrap();
        let messages = client.database("app").collection::<Document>("messages");
        let writer = LocalWriter::builder()
            .cluster(messages, order)
            .acknowledged_within(ACKNOWLEDGED_WITHIN)
            .probe_every(PROBE_EVERY)
            .build()
            .unwrap();
        writers.push((order[0], writer));
    }
    let load = Load::start(writers, &mut rng);
    let injector = FaultInjector { datacenters: Arc::clone(&cluster), network: vec![network] };
    let events = rng.shuffled(vec![
        DatacenterFault::SlowAcknowledgements("alfa"),
        DatacenterFault::SlowAcknowledgements("bravo"),
        DatacenterFault::Outage("bravo"),
        DatacenterFault::OutageDuringSlowAcknowledgements("alfa"),
        DatacenterFault::OutageOfBoth,
        DatacenterFault::LateReplies,
        DatacenterFault::CutConnections,
    ]);
    injector.inject(&events, &load, &mut rng).await;
    read_during_an_outage(&injector, &load).await;
    injector.inject(&[DatacenterFault::SlowAcknowledgements("alfa")], &load, &mut rng).await;
    let recorded = load.stop().await;

    let stored = cluster.stored_copies().await;
    assert_sound(&format!("seed {seed}"), &recorded, &stored);
    let messages = cluster.messages().await;
    let reading = Duplicates::of(&messages).key(["message_id"]).keep(Keep::First);
    assert_reads_return_each_once(&reading, &recorded, &stored).await;
    assert_dry_run_deletes_nothing(&reading, &stored).await;
    assert_eq!(cluster.stored_copies().await, stored);
    assert_trim_deletes_surplus(&reading, &stored).await;
    assert_first_copies_remain(&stored, &cluster.stored_copies().await);
    assert_second_trim_finds_nothing(&reading).await;
}

/// Reads all acknowledged documents while a datacenter is down: each shard has a member in the other
/// datacenter.
async fn read_during_an_outage(injector: &FaultInjector<ShardedDatacenters>, load: &Load) {
    injector.datacenters.until_replicated().await;
    let before = load.acknowledged();
    injector.begin_outage("alfa", load).await;
    let messages = injector.datacenters.messages().await;
    let reading = Duplicates::of(&messages).key(["message_id"]);
    let read = read_all(&reading).await;
    let missing: Vec<_> = before.iter().filter(|key| !read.contains_key(key)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    injector.end_outage("alfa", load).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_replica_sets_lose_no_acknowledged_document_and_receipts_list_all_copies() {
    testbed::require!(V6_0);
    let seed = env_number("STEADFAST_SEED", 1);
    let sets = tokio::task::spawn_blocking(ReplicaSetDatacenters::start).await.unwrap();
    tokio::time::timeout(TEST_TIMEOUT, on_sets(seed, Arc::new(sets))).await.expect("the run hangs");
}

async fn on_sets(seed: u64, sets: Arc<ReplicaSetDatacenters>) {
    let mut rng = Rng(seed);
    let mut network = Vec::new();
    for datacenter in ["alfa", "bravo"] {
        network.push(Proxy::builder(sets.set(datacenter).uri()).start().await.unwrap());
    }
    let mut writers = Vec::new();
    for order in [[("alfa", 0), ("bravo", 1)], [("bravo", 1), ("alfa", 0)]] {
        let mut builder = LocalWriter::builder();
        for (datacenter, proxy) in order {
            let client = Client::with_uri_str(network[proxy].uri()).await.unwrap();
            let messages = client.database("app").collection::<Document>("messages");
            builder = builder.datacenter(datacenter, messages);
        }
        let builder = builder.acknowledged_within(ACKNOWLEDGED_WITHIN).probe_every(PROBE_EVERY);
        writers.push((order[0].0, builder.build().unwrap()));
    }
    let load = Load::start(writers, &mut rng);
    let injector = FaultInjector { datacenters: Arc::clone(&sets), network };
    let events = rng.shuffled(vec![
        DatacenterFault::SlowAcknowledgements("alfa"),
        DatacenterFault::OutageDuringSlowAcknowledgements("alfa"),
        DatacenterFault::Outage("bravo"),
        DatacenterFault::LateReplies,
        DatacenterFault::CutConnections,
    ]);
    injector.inject(&events, &load, &mut rng).await;
    let recorded = load.stop().await;

    let stored = sets.stored_copies().await;
    assert_sound(&format!("seed {seed}, real servers"), &recorded, &stored);
    let (alfa, bravo) = (sets.messages("alfa").await, sets.messages("bravo").await);
    let reading = Duplicates::over([&alfa, &bravo]).key(["message_id"]).keep(Keep::First);
    assert_reads_return_each_once(&reading, &recorded, &stored).await;
    assert_dry_run_deletes_nothing(&reading, &stored).await;
    assert_eq!(sets.stored_copies().await, stored);
    assert_trim_deletes_surplus(&reading, &stored).await;
    assert_first_copies_remain(&stored, &sets.stored_copies().await);
    assert_second_trim_finds_nothing(&reading).await;
}

/// Asserts that every receipt is correct, and that the run had duplicates and failed attempts.
fn assert_sound(run: &str, recorded: &RecordedWrites, stored: &StoredCopies) {
    let comparison = recorded.compare(stored);
    report(&format!("{run}: {comparison}"));
    assert!(comparison.is_clean(), "{comparison:#?}");
    assert!(comparison.duplicated > 0, "the run has no duplicates");
    assert!(comparison.not_applied > 0, "no attempt failed for certain");
    // Without the possible copies, the comparison finds each of them.
    let incomplete = recorded.clone().without_possible_copies().compare(stored);
    assert!(incomplete.lost.is_empty());
    assert!(incomplete.unlisted.len() >= comparison.surplus, "{incomplete:#?}");
    let nothing = recorded.compare(&StoredCopies::default());
    assert_eq!(nothing.lost.len(), comparison.acknowledged);
}

async fn read_all(reading: &Duplicates<Document>) -> BTreeMap<i64, ObjectId> {
    let mut documents = reading.read(doc! {}).await.unwrap();
    let mut read = BTreeMap::new();
    while documents.advance().await.unwrap() {
        let document = documents.deserialize_current().unwrap();
        let key = document.get_i64("message_id").unwrap();
        let before = read.insert(key, document.get_object_id("_id").unwrap());
        assert_eq!(before, None, "message {key} is read twice");
    }
    read
}

async fn assert_reads_return_each_once(
    reading: &Duplicates<Document>,
    recorded: &RecordedWrites,
    stored: &StoredCopies,
) {
    let read = read_all(reading).await;
    assert!(
        recorded.acknowledged().all(|key| read.contains_key(&key)),
        "an acknowledged document is missing"
    );
    assert_eq!(read, stored.first_copies(), "the first copy of each");
}

async fn assert_dry_run_deletes_nothing(reading: &Duplicates<Document>, stored: &StoredCopies) {
    let report = reading.trim(doc! {}).older_than(Duration::ZERO).await.unwrap();
    assert_eq!(report.deleted, 0);
    assert_eq!(report.surplus, stored.surplus());
}

async fn assert_trim_deletes_surplus(reading: &Duplicates<Document>, stored: &StoredCopies) {
    let report = reading.trim(doc! {}).older_than(Duration::ZERO).dry_run(false).await.unwrap();
    assert_eq!((report.deleted, report.differing), (stored.surplus(), 0));
}

async fn assert_second_trim_finds_nothing(reading: &Duplicates<Document>) {
    let again = reading.trim(doc! {}).older_than(Duration::ZERO).dry_run(false).await.unwrap();
    assert_eq!((again.surplus, again.deleted), (0, 0));
}

fn assert_first_copies_remain(before: &StoredCopies, after: &StoredCopies) {
    assert_eq!(after.surplus(), 0);
    assert_eq!(after.first_copies(), before.first_copies());
}

fn env_number(variable: &str, default: u64) -> u64 {
    env::var(variable).map_or(default, |number| number.parse().expect("a number"))
}

/// Prints figures (visible with `--nocapture`).
#[allow(clippy::print_stderr)]
fn report(line: &str) {
    eprintln!("{line}");
}
