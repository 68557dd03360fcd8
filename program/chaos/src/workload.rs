//! The load: writes of all kinds from several tasks, each recorded, and in the end searched for.
//!
//! What is written, and where, is made before the faults begin, for all operations of the plan. So there is a
//! limit to them: two million, for which some two and a half million small documents are prepared, and in the end
//! about half a gigabyte of memory holds what is known of each. Servers in memory have these documents three
//! times, and what was done to them; there, 300,000 operations take a gigabyte.
//!
//! # When it is counted
//!
//! The census comes when nothing of the load can change the database any more. That rests on this:
//!
//! - all operations have ended, and the load's client is shut down with its connections: with what goes on in the
//!   background of calls that were dropped, and a transaction that was not committed by then never is;
//! - all servers are up and thawed, and the proxy holds nothing back: the stage sees to that;
//! - a write on a majority, by the client that counts, has succeeded: what was there before it stays, and what a
//!   deposed primary has written alone is undone;
//! - a request that still waited in a server, whose connection is gone, is carried out soon or never: it is
//!   counted until two counts in a row are the same.

mod census;
mod client;
mod dropping;
mod idempotent;
mod perform;
mod plain;
mod reason;
mod sequence;
mod sharding;
mod target;
mod transaction;
mod watch;

use std::{collections::BTreeMap, error::Error, sync::Arc, time::Duration, time::Instant};

use steadfast::Client;
use tokio::{sync::watch::Receiver, task::JoinSet};

use self::{perform::Performer, sequence::Sequence, target::Target};
use super::{
    account::Record,
    live::Live,
    plan::{InvalidPlan, Plan, Servers},
};

/// How many operations a plan may have.
const MOST: u64 = 2_000_000;
/// How many it may have on servers in memory.
const MOST_IN_MEMORY: u64 = 300_000;
/// How long the client may take to shut down when all operations have ended.
const SHUTDOWN: Duration = Duration::from_secs(5);

/// The operations of a plan, each with its number, kind and marks.
pub(super) struct Workload {
    plan: Plan,
    sequence: Sequence,
}

impl Workload {
    /// Refuses a plan of which nothing would come, or too much.
    pub(super) fn new(plan: &Plan) -> Result<Self, InvalidPlan> {
        let operations = plan.operations();
        let invalid = |why: &str| Err(InvalidPlan(why.to_owned()));
        if plan.workload.is_empty() {
            return invalid("there is nothing to write: choose a workload");
        }
        if plan.tasks == 0 || operations == 0 {
            return invalid("no operation would begin: more tasks, a higher rate or more time");
        }
        let (most, place) = match plan.servers {
            Servers::Embedded => (MOST_IN_MEMORY, " in memory"),
            Servers::Mongod | Servers::Sharded | Servers::Foreign(_) => (MOST, ""),
        };
        if operations > most {
            let secs = (most / u64::from(plan.rate)).max(1);
            return invalid(&format!(
                "{operations} operations are too many, {most} is the limit{place}: {secs} s at this rate"
            ));
        }
        Ok(Self { plan: plan.clone(), sequence: Sequence::new(plan.seed, &plan.workload) })
    }

    /// Takes the database, or is refused. From here on, what is there is this run's.
    pub(super) async fn claim(&self, straight: &Client) -> Result<(), Box<dyn Error>> {
        self.target(straight).claim().await
    }

    /// Puts there what will be changed and deleted. No fault is there yet.
    pub(super) async fn prepare(&self, straight: &Client) -> Result<(), Box<dyn Error>> {
        self.target(straight).prepare(&self.sequence, self.plan.operations()).await
    }

    /// Makes the writes until all are made, or until `ending` is true; those under way are awaited.
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
        if tokio::time::timeout(SHUTDOWN, client.clone().shutdown()).await.is_err() {
            client.shutdown().immediate(true).await;
        }
        records.sort_by_key(|record| record.began + record.took);
        Ok(records)
    }

    /// How often each mark was applied, by what is in the database. All faults are over.
    pub(super) async fn census(
        &self,
        straight: &Client,
    ) -> Result<BTreeMap<u64, u64>, Box<dyn Error>> {
        census::take(&self.target(straight), &self.sequence, self.plan.operations()).await
    }

    fn target(&self, client: &Client) -> Target {
        let database = client.database(&self.plan.database);
        let is_sharded = self.plan.servers == Servers::Sharded;
        Target::within(&database, self.plan.operations(), self.plan.strategy, is_sharded)
    }
}

#[cfg(test)]
mod tests;
