//! Local writer: routing, receipts, errors and failover.

mod basic;
mod batches;
mod failover;
mod real_server;
mod sharded;
mod unlisted_codes;

use std::time::{Duration, Instant};

use steadfast::{
    Client, Collection,
    bson::{Bson, Document, doc, oid::ObjectId},
};
use steadfast_embedded::Deployment;
use steadfast_patterns::local_writes::{LocalWriter, LocalWriterBuilder};

use crate::clock::Clock;

/// Time limit of a wait. Only a hang exceeds it.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Time limit of a datacenter. The tests move the clock.
const LIMIT: Duration = Duration::from_secs(1);

/// Time limit of a datacenter in tests with the real clock.
const REAL_LIMIT: Duration = Duration::from_secs(5);

/// Interval of probes.
const PROBE_EVERY: Duration = Duration::from_millis(20);

/// Two datacenters, each a replica set, and a writer whose nearest one is the first.
struct TwoDatacenters {
    alfa: Deployment,
    bravo: Deployment,
    at_alfa: Collection<Document>,
    at_bravo: Collection<Document>,
    writer: LocalWriter,
}

impl TwoDatacenters {
    /// Starts them and stops the clock.
    async fn start() -> (Self, Clock) {
        Self::with(|builder| builder).await
    }

    /// Starts them with other options of the writer, and stops the clock.
    async fn with(options: impl FnOnce(LocalWriterBuilder) -> LocalWriterBuilder) -> (Self, Clock) {
        (Self::running(options).await, Clock::stopped())
    }

    /// Starts them with other options of the writer and a running clock.
    async fn running(options: impl FnOnce(LocalWriterBuilder) -> LocalWriterBuilder) -> Self {
        let start =
            || Deployment::replica_set(3).election_timeout(Duration::from_millis(50)).start();
        let (alfa, bravo) = (start(), start());
        let (at_alfa, at_bravo) = (messages(&alfa).await, messages(&bravo).await);
        let builder = LocalWriter::builder()
            .datacenter("alfa", &at_alfa)
            .datacenter("bravo", &at_bravo)
            .acknowledged_within(LIMIT)
            .probe_every(PROBE_EVERY);
        let writer = options(builder).build().unwrap();
        // Connections are established before the clock stops.
        for collection in [&at_alfa, &at_bravo] {
            collection.count_documents(doc! {}).await.unwrap();
        }
        Self { alfa, bravo, at_alfa, at_bravo, writer }
    }
}

async fn messages(deployment: &Deployment) -> Collection<Document> {
    let client = Client::with_uri_str(deployment.uri()).await.unwrap();
    client.database("app").collection("messages")
}

/// Returns the copies of a message in a collection.
async fn copies(collection: &Collection<Document>, message: i64) -> Vec<Document> {
    let mut cursor = collection.find(doc! { "message_id": message }).await.unwrap();
    let mut found = Vec::new();
    while cursor.advance().await.unwrap() {
        found.push(cursor.deserialize_current().unwrap());
    }
    found
}

async fn only_copy(collection: &Collection<Document>, message: i64) -> Document {
    let mut found = copies(collection, message).await;
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

fn message(id: i64) -> Document {
    doc! { "message_id": id, "userid": 123 }
}

/// Returns the document as the writer inserts it.
fn written(id: ObjectId, message: i64, datacenter: &str) -> Document {
    doc! { "_id": id, "message_id": message, "userid": 123, "datacenter": datacenter }
}

/// Kills all members of a deployment.
fn kill_all(deployment: &Deployment) {
    (0..deployment.members().len()).for_each(|member| deployment.faults().kill(member));
}

fn restart_all(deployment: &Deployment) {
    (0..deployment.members().len()).for_each(|member| deployment.faults().restart(member));
}

/// Prevents writes to a deployment from reaching a majority.
fn hold_majority(deployment: &Deployment) {
    let primary = deployment.primary().expect("there is one");
    let others = (0..deployment.members().len()).filter(|&member| member != primary);
    others.for_each(|member| deployment.faults().hold_replication(member));
}

fn release(deployment: &Deployment) {
    (0..deployment.members().len())
        .for_each(|member| deployment.faults().release_replication(member));
}

/// Sets the fail point `failCommand` on every member of a deployment.
fn fail(deployment: &Deployment, mode: impl Into<Bson>, data: &Document) {
    let mode = mode.into();
    let point = doc! { "configureFailPoint": "failCommand", "mode": mode, "data": data };
    for member in 0..deployment.members().len() {
        deployment.faults().configure_fail_point(member, point.clone()).unwrap();
    }
}

/// Waits for a condition without moving the clock.
async fn wait_until(mut is_so: impl FnMut() -> bool) {
    wait_until_async(async || is_so()).await;
}

/// Waits for an asynchronous condition without moving the clock.
async fn wait_until_async(mut is_so: impl AsyncFnMut() -> bool) {
    let began = Instant::now();
    while !is_so().await {
        assert!(began.elapsed() < TEST_TIMEOUT, "the wait hangs");
        tokio::task::yield_now().await;
    }
}

/// Waits until a collection has this number of documents, on a majority or not.
async fn until_written(collection: &Collection<Document>, documents: u64) {
    wait_until_async(async || collection.count_documents(doc! {}).await.unwrap() == documents)
        .await;
}

/// Waits for a write that exceeds the time limit of one datacenter after `begun`.
async fn past_limit<T>(
    clock: &Clock,
    write: impl Future<Output = T>,
    begun: impl Future<Output = ()>,
) -> T {
    let pass = async {
        begun.await;
        clock.pass(LIMIT).await;
    };
    tokio::join!(write, pass).0
}

/// Waits for a write that exceeds the time limits of both datacenters.
async fn past_both_limits<T>(
    clock: &Clock,
    writer: &LocalWriter,
    write: impl Future<Output = T>,
    begun: impl Future<Output = ()>,
) -> T {
    let first = async {
        begun.await;
        clock.pass(LIMIT).await;
        wait_until(|| !up(writer)[0]).await;
    };
    past_limit(clock, write, first).await
}

/// Lets the `nth` probe of a datacenter exceed its time limit.
async fn failed_probe(clock: &Clock, writer: &LocalWriter, datacenter: &str, nth: u64) {
    let probes = || writer.metrics().datacenter(datacenter).unwrap().clone();
    assert_eq!((probes().probes, probes().probes_failed), (nth - 1, nth - 1));
    clock.pass(PROBE_EVERY).await;
    wait_until(|| probes().probes == nth).await;
    clock.pass(LIMIT).await;
    wait_until(|| probes().probes_failed == nth).await;
}

/// Moves the clock until probes have marked all datacenters up.
async fn until_probed_up(clock: &Clock, writer: &LocalWriter) {
    clock.pass_until(PROBE_EVERY, in_time(writer.until_all_up())).await;
}

/// Waits for a future with a time limit.
async fn in_time<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(TEST_TIMEOUT, future).await.expect("the wait hangs")
}

/// Returns the state of each datacenter, nearest first: `true` if it is up.
fn up(writer: &LocalWriter) -> Vec<bool> {
    writer.datacenters().iter().map(|datacenter| datacenter.is_up).collect()
}
