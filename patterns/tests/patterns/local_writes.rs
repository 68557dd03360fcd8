//! Local writes through a datacenter's death, slow acknowledgements and cut connections, under load: every
//! receipt is held against what the datacenters really have, then the duplicates are read away and trimmed.
//!
//! On the embedded sharded cluster, and on two real replica sets. Everything comes from a seed;
//! `STEADFAST_SEED=7` begins with another than 1, `STEADFAST_SEEDED_RUNS=20` runs as many of them.

mod books;
mod census;
mod cluster;
mod load;
mod naive;
mod sets;
mod weather;

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
    books::{Books, Census},
    cluster::Cluster,
    load::Load,
    sets::Sets,
    weather::{ACKNOWLEDGED_WITHIN, Event, Weather},
};
use crate::dice::Dice;

/// How often a datacenter that is down is asked whether it is back.
const PROBE_EVERY: Duration = Duration::from_millis(20);

/// Only a hang takes as long.
const BOUND: Duration = Duration::from_secs(900);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_sharded_cluster_no_acknowledged_document_is_lost_and_each_duplicate_was_announced() {
    let first = asked("STEADFAST_SEED", 1);
    for seed in first..first + asked("STEADFAST_SEEDED_RUNS", 1) {
        tokio::time::timeout(BOUND, on_a_cluster(seed)).await.expect("it ends in time");
    }
}

async fn on_a_cluster(seed: u64) {
    let mut dice = Dice(seed);
    let cluster = Arc::new(Cluster::start(seed).await);
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
    let load = Load::start(writers, &mut dice);
    let weather = Weather { datacenters: Arc::clone(&cluster), network: vec![network] };
    let events = dice.shuffled(vec![
        Event::SlowAcknowledgements("alfa"),
        Event::SlowAcknowledgements("bravo"),
        Event::Outage("bravo"),
        Event::OutageOfTheSlow("alfa"),
        Event::BothGone,
        Event::LateReplies,
        Event::CutConnections,
    ]);
    weather.befall(&events, &load, &mut dice).await;
    read_during_an_outage(&weather, &load).await;
    weather.befall(&[Event::SlowAcknowledgements("alfa")], &load, &mut dice).await;
    let books = load.stop().await;

    let census = cluster.census().await;
    judge(&format!("seed {seed}"), &books, &census);
    let messages = cluster.messages().await;
    let reading = Duplicates::of(&messages).key(["message_id"]).keep(Keep::First);
    reads_show_each_once(&reading, &books, &census).await;
    a_dry_run_deletes_nothing(&reading, &census).await;
    assert_eq!(cluster.census().await, census);
    trim_deletes_the_surplus(&reading, &census).await;
    leaves_the_first_of_each(&census, &cluster.census().await);
    another_trim_finds_nothing(&reading).await;
}

/// A datacenter is down, and what was acknowledged before can be read all the same: each shard has a member
/// in the other datacenter, too.
async fn read_during_an_outage(weather: &Weather<Cluster>, load: &Load) {
    weather.datacenters.until_replicated().await;
    let before = load.acknowledged();
    weather.begin_outage("alfa", load).await;
    let messages = weather.datacenters.messages().await;
    let reading = Duplicates::of(&messages).key(["message_id"]);
    let read = read_all(&reading).await;
    let missing: Vec<_> = before.iter().filter(|key| !read.contains_key(key)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    weather.end_outage("alfa", load).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_two_real_replica_sets_no_acknowledged_document_is_lost_and_each_duplicate_was_announced()
 {
    testbed::require!(V6_0);
    let seed = asked("STEADFAST_SEED", 1);
    let sets = tokio::task::spawn_blocking(Sets::start).await.unwrap();
    tokio::time::timeout(BOUND, on_sets(seed, Arc::new(sets))).await.expect("it ends in time");
}

async fn on_sets(seed: u64, sets: Arc<Sets>) {
    let mut dice = Dice(seed);
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
    let load = Load::start(writers, &mut dice);
    let weather = Weather { datacenters: Arc::clone(&sets), network };
    let events = dice.shuffled(vec![
        Event::SlowAcknowledgements("alfa"),
        Event::OutageOfTheSlow("alfa"),
        Event::Outage("bravo"),
        Event::LateReplies,
        Event::CutConnections,
    ]);
    weather.befall(&events, &load, &mut dice).await;
    let books = load.stop().await;

    let census = sets.census().await;
    judge(&format!("seed {seed}, real servers"), &books, &census);
    let (alfa, bravo) = (sets.messages("alfa").await, sets.messages("bravo").await);
    let reading = Duplicates::over([&alfa, &bravo]).key(["message_id"]).keep(Keep::First);
    reads_show_each_once(&reading, &books, &census).await;
    a_dry_run_deletes_nothing(&reading, &census).await;
    assert_eq!(sets.census().await, census);
    trim_deletes_the_surplus(&reading, &census).await;
    leaves_the_first_of_each(&census, &sets.census().await);
    another_trim_finds_nothing(&reading).await;
}

/// Every receipt is right, and there was something to be right about.
fn judge(run: &str, books: &Books, census: &Census) {
    let verdict = books.judge(census);
    report(&format!("{run}: {verdict}"));
    assert!(verdict.is_clean(), "{verdict:#?}");
    assert!(verdict.duplicated > 0, "without duplicates it shows nothing");
    assert!(verdict.denied > 0, "some attempts failed for certain");
    // The judge can tell: of books that keep quiet about other copies, it finds each of them.
    let quiet = books.clone().without_doubts().judge(census);
    assert!(quiet.lost.is_empty());
    assert!(quiet.unexplained.len() >= verdict.surplus, "{quiet:#?}");
    let nothing = books.judge(&Census::default());
    assert_eq!(nothing.lost.len(), verdict.acknowledged);
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

async fn reads_show_each_once(reading: &Duplicates<Document>, books: &Books, census: &Census) {
    let read = read_all(reading).await;
    assert!(books.acknowledged().all(|key| read.contains_key(&key)), "all that were acknowledged");
    assert_eq!(read, census.firsts(), "of each the first copy");
}

async fn a_dry_run_deletes_nothing(reading: &Duplicates<Document>, census: &Census) {
    let report = reading.trim(doc! {}).older_than(Duration::ZERO).await.unwrap();
    assert_eq!(report.deleted, 0);
    assert_eq!(report.surplus, census.surplus());
}

async fn trim_deletes_the_surplus(reading: &Duplicates<Document>, census: &Census) {
    let report = reading.trim(doc! {}).older_than(Duration::ZERO).dry_run(false).await.unwrap();
    assert_eq!((report.deleted, report.differing), (census.surplus(), 0));
}

async fn another_trim_finds_nothing(reading: &Duplicates<Document>) {
    let again = reading.trim(doc! {}).older_than(Duration::ZERO).dry_run(false).await.unwrap();
    assert_eq!((again.surplus, again.deleted), (0, 0));
}

fn leaves_the_first_of_each(before: &Census, after: &Census) {
    assert_eq!(after.surplus(), 0);
    assert_eq!(after.firsts(), before.firsts());
}

fn asked(variable: &str, usual: u64) -> u64 {
    env::var(variable).map_or(usual, |number| number.parse().expect("a number"))
}

/// Figures for whoever reads the output (`--nocapture`).
#[allow(clippy::print_stderr)]
fn report(line: &str) {
    eprintln!("{line}");
}
