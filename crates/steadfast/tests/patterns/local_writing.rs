//! The local writer: where documents go, what receipts and errors say, and what is left behind.

mod batches;
mod cluster;
mod failing;
mod real;
mod sound;
mod unlisted_codes;

use std::time::Duration;

use blackpipe::embedded::Deployment;
use steadfast::{
    Client, Collection,
    bson::{Bson, Document, doc, oid::ObjectId},
    patterns::local_writes::{LocalWriter, LocalWriterBuilder},
};

/// Long enough for anything that is to happen, on a busy machine, too.
const BOUND: Duration = Duration::from_secs(60);

/// How long a datacenter has in these tests: what is sound answers within it on a busy machine, too.
const LIMIT: Duration = Duration::from_secs(1);

/// The same where the clock is the real one.
const REAL_LIMIT: Duration = Duration::from_secs(5);

/// Two datacenters, each a replica set of its own, and a writer that is near the first.
struct Pair {
    alfa: Deployment,
    bravo: Deployment,
    at_alfa: Collection<Document>,
    at_bravo: Collection<Document>,
    writer: LocalWriter,
}

impl Pair {
    async fn start() -> Self {
        Self::with(|builder| builder).await
    }

    async fn with(options: impl FnOnce(LocalWriterBuilder) -> LocalWriterBuilder) -> Self {
        let start =
            || Deployment::replica_set(3).election_timeout(Duration::from_millis(50)).start();
        let (alfa, bravo) = (start(), start());
        let (at_alfa, at_bravo) = (messages(&alfa).await, messages(&bravo).await);
        let builder = LocalWriter::builder()
            .datacenter("alfa", &at_alfa)
            .datacenter("bravo", &at_bravo)
            .acknowledged_within(LIMIT)
            .probe_every(Duration::from_millis(20));
        let writer = options(builder).build().unwrap();
        // The first connections are there before a test counts milliseconds.
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
        deployment.faults().fail_point(member, point.clone()).unwrap();
    }
}

/// Waits until something is so that stays so.
async fn until(mut is_so: impl FnMut() -> bool) {
    within(async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}

/// Waits for what is to happen.
async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(BOUND, future).await.expect("it happens in time")
}

/// Whether each datacenter is up, nearest first.
fn up(writer: &LocalWriter) -> Vec<bool> {
    writer.datacenters().iter().map(|datacenter| datacenter.is_up).collect()
}
