//! Every event is read once and trimmed to one copy, whatever is in the way: the type of its key, two
//! deployments, a server that is lost, two trims that want opposite things.

mod opposed;
mod order;
mod reading;
mod trimming;

use steadfast::{
    Client, Collection,
    bson::{Bson, Document, doc, oid::ObjectId},
    options::ClientOptions,
};
use steadfast_embedded::Deployment;
use steadfast_patterns::duplicates::{Distinct, Duplicates};

/// An id of a second long past.
fn id(second: u8, rest: u8) -> ObjectId {
    ObjectId::from_bytes([0, 0, 1, second, 0, 0, 0, 0, 0, 0, 0, rest])
}

/// The datacenters alfa and bravo, with a shard each.
struct Cluster {
    _deployment: Deployment,
    messages: Collection<Document>,
}

impl Cluster {
    async fn start() -> Self {
        Self::watched(|_| {}).await
    }

    /// With a change of the client's options.
    async fn watched(change: impl FnOnce(&mut ClientOptions)) -> Self {
        // With one member each, so that the nearest has heard of every write.
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

/// A datacenter with a deployment of its own.
async fn datacenter() -> (Deployment, Collection<Document>) {
    let deployment = Deployment::replica_set(1).start();
    let client = Client::with_uri_str(deployment.uri()).await.unwrap();
    let messages = client.database("app").collection("messages");
    (deployment, messages)
}

/// The field `n` of all that is read.
async fn numbers(mut found: Distinct<Document>) -> Vec<i32> {
    let mut numbers = Vec::new();
    while found.advance().await.unwrap() {
        numbers.push(found.current().get_i32("n").unwrap());
    }
    numbers
}

/// All that is there, sorted by `_id`.
async fn all(messages: &Collection<Document>) -> Vec<Document> {
    let mut found = messages.find(doc! {}).sort(doc! { "_id": 1 }).await.unwrap();
    let mut all = Vec::new();
    while found.advance().await.unwrap() {
        all.push(found.deserialize_current().unwrap());
    }
    all
}
