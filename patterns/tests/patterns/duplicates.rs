//! Reads and trims of duplicates: types of keys, several deployments, lost servers, and concurrent trims.

mod concurrent_trims;
mod read;
mod sort_order;
mod trim;

use steadfast::{
    Client, Collection,
    bson::{Bson, Document, doc, oid::ObjectId},
    options::ClientOptions,
};
use steadfast_embedded::Deployment;
use steadfast_patterns::duplicates::{Distinct, Duplicates};

/// Returns an old ObjectId with this second.
fn id(second: u8, rest: u8) -> ObjectId {
    ObjectId::from_bytes([0, 0, 1, second, 0, 0, 0, 0, 0, 0, 0, rest])
}

/// A sharded cluster with the datacenters alfa and bravo, one shard each.
struct DuplicatesFixture {
    _deployment: Deployment,
    messages: Collection<Document>,
}

impl DuplicatesFixture {
    async fn start() -> Self {
        Self::watched(|_| {}).await
    }

    /// Starts it with changed client options.
    async fn watched(change: impl FnOnce(&mut ClientOptions)) -> Self {
        // With one member in each shard, the nearest member has every write.
        let deployment = Deployment::sharded(&["alfa", "bravo"]).members_per_shard(1).start();
        let mut options = ClientOptions::parse(deployment.uri()).await.unwrap();
        change(&mut options);
        let client = Client::with_options(options).unwrap();
        let admin = client.database("admin");
        for shard in ["alfa", "bravo"] {
            let zone = doc! { "addShardToZone": shard, "zone": shard };
            admin.run_command(zone).await.unwrap();
            let range = doc! {
                "updateZoneKeyRange": "app.messages",
                "min": { "datacenter": shard, "userid": Bson::MinKey },
                "max": { "datacenter": shard, "userid": Bson::MaxKey },
                "zone": shard,
            };
            admin.run_command(range).await.unwrap();
        }
        let key = doc! { "datacenter": 1, "userid": 1 };
        admin.run_command(doc! { "enableSharding": "app" }).await.unwrap();
        let sharding = doc! { "shardCollection": "app.messages", "key": key };
        admin.run_command(sharding).await.unwrap();
        Self { _deployment: deployment, messages: client.database("app").collection("messages") }
    }

    fn duplicates(&self) -> Duplicates<Document> {
        Duplicates::of(&self.messages).key(["message_id"])
    }
}

/// Starts a replica set for one datacenter.
async fn datacenter() -> (Deployment, Collection<Document>) {
    let deployment = Deployment::replica_set(1).start();
    let client = Client::with_uri_str(deployment.uri()).await.unwrap();
    let messages = client.database("app").collection("messages");
    (deployment, messages)
}

/// Returns the field `n` of all documents that are read.
async fn numbers(mut found: Distinct<Document>) -> Vec<i32> {
    let mut numbers = Vec::new();
    while found.advance().await.unwrap() {
        numbers.push(found.current().get_i32("n").unwrap());
    }
    numbers
}

/// Returns all documents, sorted by `_id`.
async fn all(messages: &Collection<Document>) -> Vec<Document> {
    let mut found = messages.find(doc! {}).sort(doc! { "_id": 1 }).await.unwrap();
    let mut all = Vec::new();
    while found.advance().await.unwrap() {
        all.push(found.deserialize_current().unwrap());
    }
    all
}
