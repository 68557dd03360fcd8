//! Two datacenters of one sharded cluster, as in the tutorial: each shard has two members in its own
//! datacenter and one of priority 0 in the other. Each datacenter has a mongos.
//!
//! ```text
//!              alfa                    bravo
//! shard0000    0, 1                    2 (priority 0)
//! shard0001    2 (priority 0)          0, 1
//! mongos       0                       1
//! ```

use std::time::Duration;

use steadfast::{
    Client, Collection,
    bson::{Document, doc, oid::ObjectId},
};
use steadfast_embedded::{Deployment, Shard};
use steadfast_patterns::zones::{self, Layout};
use tokio::runtime::Handle;

use super::{documents::all_documents, fault_injector::Datacenters, recorded_writes::StoredCopies};

const SHARDS: [(&str, &str); 2] = [("alfa", "shard0000"), ("bravo", "shard0001")];

pub(crate) struct ShardedDatacenters {
    deployment: Deployment,
}

impl ShardedDatacenters {
    /// Starts the cluster and applies the zones.
    pub(crate) async fn start(seed: u64) -> Self {
        let deployment = Deployment::sharded(&SHARDS.map(|(_, shard)| shard))
            .mongos_count(2)
            .priority_zero([2])
            .election_timeout(Duration::from_millis(50))
            .seed(seed)
            .start();
        let client = Client::with_uri_str(deployment.uri()).await.unwrap();
        let datacenters = SHARDS.map(|(datacenter, shard)| (datacenter, [shard]));
        let layout = Layout::new("app.messages", ["datacenter", "userid"], datacenters).unwrap();
        let found = zones::Cluster::read(&client, &layout).await.unwrap();
        zones::plan(&layout, &found).unwrap().apply(&client).await.unwrap();
        Self { deployment }
    }

    pub(crate) fn uri(&self) -> String {
        self.deployment.uri()
    }

    pub(crate) async fn messages(&self) -> Collection<Document> {
        let client = Client::with_uri_str(self.uri()).await.unwrap();
        client.database("app").collection("messages")
    }

    /// Waits until every running member has replicated everything.
    pub(crate) async fn until_replicated(&self) {
        self.deployment.wait_for_replication().await;
    }

    /// Returns `true` if the primary of a datacenter's shard has this document, on a majority or not.
    pub(crate) async fn primary_has(&self, datacenter: &str, id: ObjectId) -> bool {
        let messages = messages_of_primary(self.own_shard(datacenter)).await;
        messages.count_documents(doc! { "_id": id }).await.unwrap() == 1
    }

    /// Returns the documents of each shard, read from its primary without a mongos.
    pub(crate) async fn stored_copies(&self) -> StoredCopies {
        self.deployment.wait_for_replication().await;
        let mut stored = StoredCopies::default();
        for (datacenter, name) in SHARDS {
            let messages = messages_of_primary(self.deployment.shard(name)).await;
            stored.add(datacenter, &all_documents(&messages).await);
        }
        stored
    }

    fn own_shard(&self, datacenter: &str) -> &Shard {
        let (_, shard) = SHARDS.into_iter().find(|(name, _)| *name == datacenter).unwrap();
        self.deployment.shard(shard)
    }

    fn other_shard(&self, datacenter: &str) -> &Shard {
        let (_, shard) = SHARDS.into_iter().find(|(name, _)| *name != datacenter).unwrap();
        self.deployment.shard(shard)
    }

    fn mongos(datacenter: &str) -> usize {
        SHARDS.iter().position(|(name, _)| *name == datacenter).unwrap()
    }
}

/// Returns the collection on the primary of a shard.
async fn messages_of_primary(shard: &Shard) -> Collection<Document> {
    let primary = shard.members()[shard.wait_for_primary().await].address();
    let uri = format!("mongodb://{primary}/?directConnection=true");
    let client = Client::with_uri_str(uri).await.unwrap();
    client.database("app").collection("messages")
}

impl Datacenters for ShardedDatacenters {
    fn hold_acknowledgements(&self, datacenter: &str) {
        let faults = self.own_shard(datacenter).faults();
        (0..3).for_each(|member| faults.hold_replication(member));
    }

    fn release_acknowledgements(&self, datacenter: &str) {
        let faults = self.own_shard(datacenter).faults();
        (0..3).for_each(|member| faults.release_replication(member));
    }

    fn kill(&self, datacenter: &str) {
        (0..2).for_each(|member| self.own_shard(datacenter).faults().kill(member));
        self.other_shard(datacenter).faults().kill(2);
        self.deployment.faults().kill(Self::mongos(datacenter));
    }

    /// Restarts the former primaries last, so that they roll back writes that only they have.
    fn restart(&self, datacenters: &[&str]) {
        for datacenter in datacenters {
            self.own_shard(datacenter).faults().restart(1);
            self.other_shard(datacenter).faults().restart(2);
            self.deployment.faults().restart(Self::mongos(datacenter));
        }
        for datacenter in datacenters {
            let shard = self.own_shard(datacenter);
            Handle::current().block_on(shard.wait_for_primary());
            shard.faults().restart(0);
        }
    }
}
