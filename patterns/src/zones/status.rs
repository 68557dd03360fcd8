//! Status: the location of the documents of a layout's collection.

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
use crate::{hello::COMMAND_NOT_FOUND, retry};
use steadfast::{Client, error::Result as DriverResult};

/// Wait between two reads of the status.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Largest number of consecutive errors.
const MAX_FAILURES_IN_A_ROW: u32 = 20;

/// Location of the documents of a layout's collection.
///
/// `Display` writes a table.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Status {
    /// Namespace of the collection, `database.collection`.
    pub collection: String,
    /// Shard key, if it is sharded.
    pub shard_key: Option<Document>,
    /// Shards of the cluster.
    pub shards: Vec<ShardStatus>,
    /// Ranges of the layout.
    pub ranges: Vec<RangeStatus>,
    /// Chunks with keys of a datacenter on a shard of another, or of none.
    pub misplaced: Vec<Misplaced>,
    /// State of the balancer.
    pub balancer: Balancer,
    /// Status of the collection by the balancer.
    pub verdict: BalancerVerdict,
    /// Remaining plan, or the contradictions.
    pub left: Result<Plan, Contradictions>,
    /// Differences between the layout and the members of its shards.
    pub warnings: Vec<String>,
    blockers: Vec<String>,
}

/// Shard with its zones and chunks.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ShardStatus {
    /// Name of the shard.
    pub name: String,
    /// Members (`host`).
    pub host: String,
    /// Zones of the shard.
    pub zones: Vec<String>,
    /// Datacenter of the layout.
    pub datacenter: Option<String>,
    /// Number of chunks of the collection.
    pub chunks: usize,
    /// Number of misplaced chunks.
    pub misplaced: usize,
}

/// Range of a datacenter.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RangeStatus {
    /// Name of the datacenter.
    pub datacenter: String,
    /// Lower bound, included.
    pub min: Document,
    /// Upper bound, excluded.
    pub max: Document,
    /// Zone that it is assigned to, if any.
    pub zone: Option<String>,
}

/// Misplaced chunk.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Misplaced {
    /// Lower bound, included.
    pub min: Document,
    /// Upper bound, excluded.
    pub max: Document,
    /// Shard of the chunk.
    pub shard: String,
    /// Datacenter of its keys.
    pub datacenter: String,
}

/// Status of the collection by the balancer (`balancerCollectionStatus`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum BalancerVerdict {
    /// The collection is compliant.
    Compliant,
    /// First violation: `zoneViolation`, `chunksImbalance`, `draining`.
    Violation(String),
    /// The collection is not sharded.
    NotSharded,
    /// The cluster is older than MongoDB 4.4 and does not have the command.
    TooOld,
}

impl BalancerVerdict {
    fn is_zone_violation(&self) -> bool {
        matches!(self, Self::Violation(violation) if violation == "zoneViolation")
    }
}

impl Status {
    /// Returns `true` if the plan is applied, no chunk is misplaced, and the balancer reports no zone
    /// violation. An imbalance of chunks does not count.
    pub fn is_compliant(&self) -> bool {
        self.left.as_ref().is_ok_and(Plan::is_empty)
            && self.misplaced.is_empty()
            && !self.verdict.is_zone_violation()
    }

    /// Returns the reason why it will not become [compliant](Self::is_compliant), if there is one.
    pub fn blocker(&self) -> Option<String> {
        if self.is_compliant() {
            return None;
        }
        match &self.left {
            Err(contradictions) => Some(contradictions.to_string()),
            Ok(plan) if !plan.is_empty() => Some("the layout is not fully applied".to_owned()),
            Ok(_) if self.blockers.is_empty() => None,
            Ok(_) => Some(self.blockers.join("; ")),
        }
    }

    fn of(layout: &Layout, cluster: &Cluster, verdict: BalancerVerdict) -> Self {
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
            blockers: plan::blockers(cluster),
        }
    }
}

/// Reads the status of a layout.
///
/// # Errors
///
/// Those of [`Cluster::read`].
///
/// ```no_run
/// # async fn run(client: steadfast::Client, layout: steadfast_patterns::zones::Layout)
/// # -> Result<(), steadfast_patterns::zones::ZonesError> {
/// use steadfast_patterns::zones;
///
/// let status = zones::status(&client, &layout).await?;
/// println!("{status}");
/// # Ok(()) }
/// ```
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
        None => BalancerVerdict::NotSharded,
    };
    Ok(Status::of(layout, &cluster, verdict))
}

async fn verdict(client: &Client, collection: &str) -> DriverResult<BalancerVerdict> {
    let command = doc! { "balancerCollectionStatus": collection };
    let reply = match client.database("admin").run_command(command).await {
        Ok(reply) => reply,
        // Since MongoDB 4.4.
        Err(error) if error.code() == Some(COMMAND_NOT_FOUND) => {
            return Ok(BalancerVerdict::TooOld);
        }
        Err(error) => return Err(error),
    };
    if reply.get_bool("balancerCompliant").unwrap_or(false) {
        return Ok(BalancerVerdict::Compliant);
    }
    let violation = reply.get_str("firstComplianceViolation").unwrap_or("unknown");
    Ok(BalancerVerdict::Violation(violation.to_owned()))
}

/// Waits until the documents of each datacenter are on its shards, and returns the status. `seen` receives each
/// status on the way.
///
/// It waits for the balancer without a time limit.
///
/// # Errors
///
/// [`ZonesError::CannotComply`] if the layout is not applied, or the balancer is off. Otherwise those of [`status`],
/// after several errors in a row.
///
/// # Cancellation
///
/// It only reads.
///
/// ```no_run
/// # async fn run(client: steadfast::Client, layout: steadfast_patterns::zones::Layout)
/// # -> Result<(), steadfast_patterns::zones::ZonesError> {
/// use steadfast_patterns::zones;
///
/// let seen = |status: &zones::Status| println!("{} chunks are misplaced", status.misplaced.len());
/// let status = zones::until_compliant(&client, &layout, seen).await?;
/// assert!(status.is_compliant());
/// # Ok(()) }
/// ```
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
                if let Some(reason) = status.blocker() {
                    return Err(ZonesError::CannotComply { reason });
                }
            }
            Err(ZonesError::Failed(error))
                if retry::can_retry_at_once(&error) && failures < MAX_FAILURES_IN_A_ROW =>
            {
                failures += 1;
            }
            Err(error) => return Err(error),
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}
