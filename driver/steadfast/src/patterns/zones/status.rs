//! Where the documents of a layout's collection are, and whether that is where they belong.

mod table;
#[cfg(test)]
mod tests;

use std::time::Duration;

use bson::{Document, doc};
use serde::Serialize;

use super::{
    cluster::{Balancer, Cluster},
    contradiction::Contradictions,
    error::ZonesError,
    layout::Layout,
    plan::{self, Plan},
};
use crate::{
    Client,
    error::Result as Answer,
    patterns::{again, hello::COMMAND_NOT_FOUND},
};

/// How often the cluster is asked while one waits for it.
const PAUSE: Duration = Duration::from_millis(500);
/// How often in a row it may fail to answer.
const PATIENCE: u32 = 20;

/// Where the documents of a layout's collection are, and whether that is where they belong.
///
/// Its text is a table.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Status {
    /// The collection, `database.collection`.
    pub collection: String,
    /// Its shard key, if it is sharded.
    pub shard_key: Option<Document>,
    /// The shards of the cluster.
    pub shards: Vec<ShardStatus>,
    /// The ranges of the layout.
    pub ranges: Vec<RangeStatus>,
    /// The chunks that have keys of a datacenter and live on a shard of none, or of another.
    pub misplaced: Vec<Misplaced>,
    /// The balancer.
    pub balancer: Balancer,
    /// What the balancer itself says of the collection.
    pub verdict: Verdict,
    /// What would have to be done, or why it cannot be.
    pub left: Result<Plan, Contradictions>,
    /// Differences between the layout and the members of its shards.
    pub warnings: Vec<String>,
    hindrances: Vec<String>,
}

/// A shard, its zones and its chunks.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ShardStatus {
    /// Its name.
    pub name: String,
    /// Its members.
    pub host: String,
    /// The zones that it is in.
    pub zones: Vec<String>,
    /// The datacenter that the layout has it in.
    pub datacenter: Option<String>,
    /// How many chunks of the collection it has.
    pub chunks: usize,
    /// How many of these should be elsewhere.
    pub misplaced: usize,
}

/// The range of a datacenter.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RangeStatus {
    /// The datacenter.
    pub datacenter: String,
    /// The least key of it.
    pub min: Document,
    /// The key that it ends before.
    pub max: Document,
    /// The zone that it is assigned to, if it is.
    pub zone: Option<String>,
}

/// A chunk that is not where it should be.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Misplaced {
    /// The least key of it.
    pub min: Document,
    /// The key that it ends before.
    pub max: Document,
    /// The shard that it is on.
    pub shard: String,
    /// The datacenter that it has keys of.
    pub datacenter: String,
}

/// What the balancer says of the collection (`balancerCollectionStatus`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Verdict {
    /// There is nothing for it to do.
    Compliant,
    /// There is, and this is the first that it found: `zoneViolation`, `chunksImbalance`, `draining`.
    Violation(String),
    /// The collection is not sharded.
    NotSharded,
    /// The cluster is older than MongoDB 4.4, and cannot be asked.
    TooOld,
}

impl Verdict {
    fn is_zone_violation(&self) -> bool {
        matches!(self, Self::Violation(violation) if violation == "zoneViolation")
    }
}

impl Status {
    /// Whether all is applied, and each datacenter's documents are on its shards, also by what the
    /// balancer says. That shards have more chunks than others does not matter here.
    pub fn is_compliant(&self) -> bool {
        self.left.as_ref().is_ok_and(Plan::is_empty)
            && self.misplaced.is_empty()
            && !self.verdict.is_zone_violation()
    }

    /// Why it would be in vain to wait until it [is compliant](Self::is_compliant), if so.
    pub fn hindrance(&self) -> Option<String> {
        if self.is_compliant() {
            return None;
        }
        match &self.left {
            Err(contradictions) => Some(contradictions.to_string()),
            Ok(plan) if !plan.is_empty() => {
                Some("the layout is not applied, or not all of it".to_owned())
            }
            Ok(_) if self.hindrances.is_empty() => None,
            Ok(_) => Some(self.hindrances.join("; ")),
        }
    }

    fn of(layout: &Layout, cluster: &Cluster, verdict: Verdict) -> Self {
        let misplaced: Vec<Misplaced> = cluster
            .misplaced(layout)
            .map(|(chunk, datacenter)| Misplaced {
                min: chunk.min.clone(),
                max: chunk.max.clone(),
                shard: chunk.shard.clone(),
                datacenter: datacenter.to_owned(),
            })
            .collect();
        let shards = cluster.shards.iter().map(|shard| ShardStatus {
            name: shard.name.clone(),
            host: shard.host.clone(),
            zones: shard.zones.clone(),
            datacenter: layout.datacenter_of(&shard.name).map(|it| it.name.clone()),
            chunks: cluster.chunks.iter().filter(|it| it.shard == shard.name).count(),
            misplaced: misplaced.iter().filter(|it| it.shard == shard.name).count(),
        });
        let ranges = layout.datacenters().iter().map(|datacenter| RangeStatus {
            datacenter: datacenter.name.clone(),
            min: layout.min(&datacenter.name),
            max: layout.max(&datacenter.name),
            zone: cluster.zone_of_range(layout, &datacenter.name).map(str::to_owned),
        });
        Self {
            collection: layout.collection().to_string(),
            shard_key: cluster.collection.shard_key.clone(),
            shards: shards.collect(),
            ranges: ranges.collect(),
            misplaced,
            balancer: cluster.balancer.clone(),
            verdict,
            left: plan::plan(layout, cluster),
            warnings: cluster.member_warnings(layout),
            hindrances: plan::hindrances(cluster),
        }
    }
}

/// Asks where the documents of a layout's collection are, and whether that is where they belong.
pub async fn status(client: &Client, layout: &Layout) -> Result<Status, ZonesError> {
    status_of(client, layout, Cluster::read(client, layout).await?).await
}

async fn status_of(
    client: &Client,
    layout: &Layout,
    cluster: Cluster,
) -> Result<Status, ZonesError> {
    let verdict = match &cluster.collection.shard_key {
        Some(_) => verdict(client, &layout.collection().to_string()).await?,
        None => Verdict::NotSharded,
    };
    Ok(Status::of(layout, &cluster, verdict))
}

async fn verdict(client: &Client, collection: &str) -> Answer<Verdict> {
    let command = doc! { "balancerCollectionStatus": collection };
    let reply = match client.database("admin").run_command(command).await {
        Ok(reply) => reply,
        // It came with MongoDB 4.4.
        Err(error) if error.code() == Some(COMMAND_NOT_FOUND) => return Ok(Verdict::TooOld),
        Err(error) => return Err(error),
    };
    if reply.get_bool("balancerCompliant").unwrap_or(false) {
        return Ok(Verdict::Compliant);
    }
    let violation = reply.get_str("firstComplianceViolation").unwrap_or("unknown");
    Ok(Verdict::Violation(violation.to_owned()))
}

/// Waits until each datacenter's documents are on its shards, and gives the status then. `seen` is told
/// of each status on the way.
///
/// It takes as long as the balancer does; put a time limit around it if there is one. It fails at once if
/// waiting would be in vain: the layout is not applied, or the balancer is off.
pub async fn until_compliant(
    client: &Client,
    layout: &Layout,
    mut seen: impl FnMut(&Status),
) -> Result<Status, ZonesError> {
    let mut failures = 0;
    let mut members = Cluster::read(client, layout).await?.members;
    loop {
        let read = match Cluster::read_config(client, layout).await {
            Ok(cluster) => {
                let cluster = Cluster { members: std::mem::take(&mut members), ..cluster };
                members.clone_from(&cluster.members);
                status_of(client, layout, cluster).await
            }
            Err(error) => Err(error),
        };
        match read {
            Ok(status) => {
                failures = 0;
                seen(&status);
                if status.is_compliant() {
                    return Ok(status);
                }
                if let Some(why) = status.hindrance() {
                    return Err(ZonesError::InVain { why });
                }
            }
            Err(ZonesError::Failed(error))
                if again::can_retry_at_once(&error) && failures < PATIENCE =>
            {
                failures += 1;
            }
            Err(error) => return Err(error),
        }
        tokio::time::sleep(PAUSE).await;
    }
}
