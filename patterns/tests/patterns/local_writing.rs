//! The local writer: where documents go, what receipts and errors say, and what is left behind.

mod batches;
mod cluster;
mod failing;
mod real;
mod sound;
mod unlisted_codes;

use std::time::{Duration, Instant};

use steadfast::{
    Client, Collection,
    bson::{Bson, Document, doc, oid::ObjectId},
};
use steadfast_embedded::Deployment;
use steadfast_patterns::local_writes::{LocalWriter, LocalWriterBuilder};

use crate::clock::Clock;

/// Long enough for anything that is to happen, on a busy machine, too.
const BOUND: Duration = Duration::from_secs(60);

/// The time a datacenter has in these tests. It passes when the test says so.
const LIMIT: Duration = Duration::from_secs(1);

/// The same where the clock is the real one.
const REAL_LIMIT: Duration = Duration::from_secs(5);

/// The wait before a probe.
const PROBE_EVERY: Duration = Duration::from_millis(20);

/// Two datacenters, each a replica set of its own, and a writer that is near the first.
struct Pair {
    alfa: Deployment,
    bravo: Deployment,
    at_alfa: Collection<Document>,
    at_bravo: Collection<Document>,
    writer: LocalWriter,
}

impl Pair {
    /// Starts it, and stops the clock.
    async fn start() -> (Self, Clock) {
        Self::with(|builder| builder).await
    }

    /// The same with a writer that is built otherwise.
    async fn with(options: impl FnOnce(LocalWriterBuilder) -> LocalWriterBuilder) -> (Self, Clock) {
        (Self::running(options).await, Clock::stopped())
    }

    /// The same with a clock that runs.
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
        // The first connections are there before the clock stops.
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

/// The copies of a message in a collection.
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

/// The document as it must have been written.
fn written(id: ObjectId, message: i64, datacenter: &str) -> Document {
    doc! { "_id": id, "message_id": message, "userid": 123, "datacenter": datacenter }
}

/// All members of a deployment are gone.
fn kill_all(deployment: &Deployment) {
    (0..deployment.members().len()).for_each(|member| deployment.faults().kill(member));
}

fn restart_all(deployment: &Deployment) {
    (0..deployment.members().len()).for_each(|member| deployment.faults().restart(member));
}

/// From now on no write to a deployment gets a majority.
fn hold_majority(deployment: &Deployment) {
    let primary = deployment.primary().expect("there is one");
    let others = (0..deployment.members().len()).filter(|&member| member != primary);
    others.for_each(|member| deployment.faults().hold_replication(member));
}

fn release(deployment: &Deployment) {
    (0..deployment.members().len())
        .for_each(|member| deployment.faults().release_replication(member));
}

/// Has every member of a deployment fail a command in some way, so often.
fn fail(deployment: &Deployment, mode: impl Into<Bson>, data: &Document) {
    let mode = mode.into();
    let point = doc! { "configureFailPoint": "failCommand", "mode": mode, "data": data };
    for member in 0..deployment.members().len() {
        deployment.faults().configure_fail_point(member, point.clone()).unwrap();
    }
}

/// Waits until something is so that stays so, without letting time pass.
async fn until(mut is_so: impl FnMut() -> bool) {
    until_found(async || is_so()).await;
}

/// The same for what has to be asked for.
async fn until_found(mut is_so: impl AsyncFnMut() -> bool) {
    let began = Instant::now();
    while !is_so().await {
        assert!(began.elapsed() < BOUND, "it happens in time");
        tokio::task::yield_now().await;
    }
}

/// Waits until so many documents are in a collection, though no majority may have them.
async fn until_written(collection: &Collection<Document>, documents: u64) {
    until_found(async || collection.count_documents(doc! {}).await.unwrap() == documents).await;
}

/// Waits for a write during which the time of one datacenter passes, once `begun` is over.
async fn late<T>(
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

/// Waits for a write that finds both datacenters late, the second once the first is marked down.
async fn twice_late<T>(
    clock: &Clock,
    writer: &LocalWriter,
    write: impl Future<Output = T>,
    begun: impl Future<Output = ()>,
) -> T {
    let first = async {
        begun.await;
        clock.pass(LIMIT).await;
        until(|| !up(writer)[0]).await;
    };
    late(clock, write, first).await
}

/// Has the `nth` probe of a datacenter fail for want of an answer.
async fn failed_probe(clock: &Clock, writer: &LocalWriter, datacenter: &str, nth: u64) {
    let probes = || writer.metrics().datacenter(datacenter).unwrap().clone();
    assert_eq!((probes().probes, probes().probes_failed), (nth - 1, nth - 1));
    clock.pass(PROBE_EVERY).await;
    until(|| probes().probes == nth).await;
    clock.pass(LIMIT).await;
    until(|| probes().probes_failed == nth).await;
}

/// Lets time pass until probes have brought all datacenters back.
async fn home(clock: &Clock, writer: &LocalWriter) {
    clock.pass_until(PROBE_EVERY, within(writer.until_all_up())).await;
}

/// Waits for what is to happen.
async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(BOUND, future).await.expect("it happens in time")
}

/// Whether each datacenter is up, nearest first.
fn up(writer: &LocalWriter) -> Vec<bool> {
    writer.datacenters().iter().map(|datacenter| datacenter.is_up).collect()
}
