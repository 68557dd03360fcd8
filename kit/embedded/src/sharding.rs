//! What a test asks of a sharded cluster: where its chunks are, and that they move now.

use std::sync::Arc;

use bson::Document;

use super::{Deployment, Refused, host::Host, namespace::Namespace, router::Cluster};

/// A range of shard keys and the shard that it lives on.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Chunk {
    /// The least key of it.
    pub min: Document,
    /// The key that it ends before.
    pub max: Document,
    /// The shard.
    pub shard: String,
}

/// A range of shard keys and the zone that it is to live in.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ZoneRange {
    /// The least key of it.
    pub min: Document,
    /// The key that it ends before.
    pub max: Document,
    /// The zone.
    pub zone: String,
}

/// Of a sharded cluster.
impl Deployment {
    /// The chunks of a collection, `database.collection`, in the order of their keys. One that is not
    /// sharded has none.
    ///
    /// # Panics
    ///
    /// If it is no sharded cluster.
    #[track_caller]
    pub fn chunks(&self, namespace: &str) -> Vec<Chunk> {
        let chunks = self.cluster().chunks(&named(namespace)).into_iter();
        chunks.map(|(min, max, shard)| Chunk { min, max, shard }).collect()
    }

    /// The ranges of a collection that are to live in a zone, in the order of their keys.
    ///
    /// # Panics
    ///
    /// If it is no sharded cluster.
    #[track_caller]
    pub fn zones(&self, namespace: &str) -> Vec<ZoneRange> {
        let zones = self.cluster().zones(&named(namespace)).into_iter();
        zones.map(|(min, max, zone)| ZoneRange { min, max, zone }).collect()
    }

    /// Moves chunks until all are in their place, whether the balancer is on or not, and says how many
    /// it moved: first those that are not in their zone, then from shards with many to those with few.
    ///
    /// # Panics
    ///
    /// If it is no sharded cluster.
    pub async fn balance(&self) -> Result<usize, Refused> {
        let cluster = self.cluster();
        cluster.balance().await.map_err(|fault| Refused::new(fault.message))
    }

    /// Moves the next chunk that is not in its place, and says whether there was one.
    ///
    /// # Panics
    ///
    /// If it is no sharded cluster.
    pub async fn balancer_step(&self) -> Result<bool, Refused> {
        let cluster = self.cluster();
        cluster.balancer_step().await.map_err(|fault| Refused::new(fault.message))
    }

    #[track_caller]
    fn cluster(&self) -> Arc<Cluster> {
        match self.members.first().map(|member| member.door.server().host.clone()) {
            Some(Host::Router(router)) => router.cluster.clone(),
            Some(Host::Member(_)) | None => panic!("it is no sharded cluster"),
        }
    }
}

fn named(namespace: &str) -> Namespace {
    let (database, collection) = namespace.split_once('.').unwrap_or((namespace, ""));
    Namespace::new(database, collection)
}
