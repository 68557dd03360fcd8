//! The load: concurrent writes of all kinds, the history of the operations, and the count of their marks.
//!
//! The documents for all operations of the plan are inserted before the faults begin, which limits their number.
//! Two million operations need 2.5 million small documents and half a gigabyte of memory for their history. In an
//! embedded deployment, which has three copies of the documents and an oplog, 300,000 operations need a gigabyte.
//!
//! # Time of the count
//!
//! The marks are counted when the load cannot change the database any more:
//!
//! - All operations have ended. The load's client is shut down with its connections and its background tasks for
//!   dropped calls. A transaction without a commit is never committed.
//! - All servers run, and the proxy stalls no connection. The stage ensures this.
//! - A write with `w: "majority"` has succeeded. Earlier writes are durable, and writes that only a deposed primary
//!   had are rolled back.
//! - A server may still execute a request of a closed connection: the count is repeated until two consecutive
//!   counts are equal.

mod census;
mod client;
mod dropping;
mod events;
mod idempotent;
mod perform;
mod plain;
mod reason;
mod sequence;
mod sharding;
mod target;
mod transaction;

use std::{collections::BTreeMap, error::Error, sync::Arc, time::Duration, time::Instant};

use steadfast::Client;
use tokio::{sync::watch::Receiver, task::JoinSet};

use self::{perform::Performer, sequence::Sequence, target::Target};
use super::{
    account::Record,
    live::Live,
    plan::{InvalidPlan, Plan, Servers},
};

/// Maximum number of operations.
const MAX_OPERATIONS: u64 = 2_000_000;
/// Maximum number of operations in an embedded deployment.
const MAX_OPERATIONS_IN_MEMORY: u64 = 300_000;
/// Time-out for the shutdown of the client after all operations.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// Operations of a plan.
pub(super) struct Workload {
    plan: Plan,
    sequence: Sequence,
}

impl Workload {
    /// Returns an error for a plan without operations or with too many.
    pub(super) fn new(plan: &Plan) -> Result<Self, InvalidPlan> {
        let operations = plan.operations();
        let invalid = |why: &str| Err(InvalidPlan(why.to_owned()));
        if plan.workload.is_empty() {
            return invalid("the workload is empty: choose at least one group of writes");
        }
        if plan.tasks == 0 || operations == 0 {
            return invalid("the plan has no operations: increase tasks, rate or duration");
        }
        let (most, place) = match plan.servers {
            Servers::Embedded => (MAX_OPERATIONS_IN_MEMORY, " in memory"),
            Servers::Mongod | Servers::Sharded | Servers::Foreign(_) => (MAX_OPERATIONS, ""),
        };
        if operations > most {
            let secs = (most / u64::from(plan.rate)).max(1);
            return invalid(&format!(
                "{operations} operations are too many, {most} is the limit{place}: {secs} s at this rate"
            ));
        }
        Ok(Self { plan: plan.clone(), sequence: Sequence::new(plan.seed, &plan.workload) })
    }

    /// Claims the database for this run, or returns an error if it exists.
    pub(super) async fn claim(&self, direct_client: &Client) -> Result<(), Box<dyn Error>> {
        self.target(direct_client).claim().await
    }

    /// Inserts the documents that the load updates and deletes.
    pub(super) async fn prepare(&self, direct_client: &Client) -> Result<(), Box<dyn Error>> {
        self.target(direct_client).prepare(&self.sequence, self.plan.operations()).await
    }

    /// Runs all operations, or until `ending` is `true`. Awaits operations in progress.
    pub(super) async fn run(
        &self,
        uri: &str,
        began: Instant,
        ending: Receiver<bool>,
        live: Arc<Live>,
    ) -> Result<Vec<Record>, Box<dyn Error>> {
        let client = client::open(uri, &self.plan).await?;
        let performer = Arc::new(Performer {
            plan: self.plan.clone(),
            sequence: self.sequence.clone(),
            target: self.target(&client),
            began,
            live,
        });
        let mut tasks = JoinSet::new();
        for task in 0..self.plan.tasks {
            tasks.spawn(Arc::clone(&performer).work(u64::from(task), ending.clone()));
        }
        let mut records = Vec::new();
        while let Some(done) = tasks.join_next().await {
            records.append(&mut done?);
        }
        if tokio::time::timeout(SHUTDOWN_TIMEOUT, client.clone().shutdown()).await.is_err() {
            client.shutdown().immediate(true).await;
        }
        records.sort_by_key(|record| record.began + record.took);
        Ok(records)
    }

    /// Counts the marks in the database. All faults must have ended.
    pub(super) async fn census(
        &self,
        direct_client: &Client,
    ) -> Result<BTreeMap<u64, u64>, Box<dyn Error>> {
        census::take(&self.target(direct_client), &self.sequence, self.plan.operations()).await
    }

    fn target(&self, client: &Client) -> Target {
        let database = client.database(&self.plan.database);
        let is_sharded = self.plan.servers == Servers::Sharded;
        Target::within(&database, self.plan.operations(), self.plan.strategy, is_sharded)
    }
}

#[cfg(test)]
mod tests;
