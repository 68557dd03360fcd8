//! Sharded clusters in tests: chunks, zone ranges, balancing.

use std::sync::Arc;

use bson::Document;

use super::{Deployment, DeploymentError, host::Host, mongos::Cluster, namespace::Namespace};

/// A chunk: a range of shard keys and the shard that owns it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Chunk {
    /// Lower bound, inclusive.
    pub min: Document,
    /// Upper bound, exclusive.
    pub max: Document,
    /// Name of the shard.
    pub shard: String,
}

/// A range of shard keys that is assigned to a zone.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ZoneRange {
    /// Lower bound, inclusive.
    pub min: Document,
    /// Upper bound, exclusive.
    pub max: Document,
    /// Name of the zone.
    pub zone: String,
}

/// Methods of sharded clusters.
impl Deployment {
    /// Chunks of a collection, `database.collection`, in the order of their bounds. Empty for an
    /// unsharded collection.
    ///
    /// ```
    /// use steadfast_embedded::Deployment;
    ///
    /// let cluster = Deployment::sharded(&["alfa", "bravo"]).start();
    /// assert!(cluster.chunks("shop.orders").is_empty());
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if this is not a sharded cluster.
    #[track_caller]
    pub fn chunks(&self, namespace: &str) -> Vec<Chunk> {
        let chunks = self.cluster().chunks(&named(namespace)).into_iter();
        chunks.map(|(min, max, shard)| Chunk { min, max, shard }).collect()
    }

    /// Zone ranges of a collection, in the order of their bounds.
    ///
    /// ```
    /// use steadfast_embedded::Deployment;
    ///
    /// let cluster = Deployment::sharded(&["alfa", "bravo"]).start();
    /// assert!(cluster.zone_ranges("shop.orders").is_empty());
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if this is not a sharded cluster.
    #[track_caller]
    pub fn zone_ranges(&self, namespace: &str) -> Vec<ZoneRange> {
        let zones = self.cluster().zones(&named(namespace)).into_iter();
        zones.map(|(min, max, zone)| ZoneRange { min, max, zone }).collect()
    }

    /// Moves chunks until the cluster is balanced and returns the number of migrations. Zone
    /// violations come first, then imbalances. The balancer need not be enabled.
    ///
    /// ```
    /// use steadfast_embedded::Deployment;
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let cluster = Deployment::sharded(&["alfa", "bravo"]).start();
    /// assert_eq!(cluster.balance().await.unwrap(), 0);
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if a migration fails, for example because a shard has no primary.
    ///
    /// # Panics
    ///
    /// Panics if this is not a sharded cluster.
    pub async fn balance(&self) -> Result<usize, DeploymentError> {
        let cluster = self.cluster();
        cluster.balance().await.map_err(|fault| DeploymentError::new(fault.message))
    }

    /// Executes the next migration. Returns `false` if the cluster is balanced.
    ///
    /// # Errors
    ///
    /// Returns an error if the migration fails, for example because a shard has no primary.
    ///
    /// # Panics
    ///
    /// Panics if this is not a sharded cluster.
    pub async fn balancer_step(&self) -> Result<bool, DeploymentError> {
        let cluster = self.cluster();
        cluster.balancer_step().await.map_err(|fault| DeploymentError::new(fault.message))
    }

    #[track_caller]
    fn cluster(&self) -> Arc<Cluster> {
        match self.members.first().map(|member| member.endpoint.server().host.clone()) {
            Some(Host::Mongos(mongos)) => mongos.cluster.clone(),
            Some(Host::Member(_)) | None => {
                panic!("this is not a sharded cluster; start one with Deployment::sharded")
            }
        }
    }
}

fn named(namespace: &str) -> Namespace {
    let (database, collection) = namespace.split_once('.').unwrap_or((namespace, ""));
    Namespace::new(database, collection)
}
