//! Embedded replica set of three members.

use std::time::Duration;

use steadfast_embedded::{Deployment, Faults};
use tokio::time::timeout;

use super::{
    Result,
    set::{MEMBERS, Member, Role, meant},
};
use crate::schedule::FaultTarget;

const ELECTION_TIMEOUT: Duration = Duration::from_millis(500);
/// Many times the usual recovery time.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(30);
const VERSION: &str = "8.0";

/// A replica set that ends when this value is dropped.
pub(super) struct Embedded {
    set: Deployment,
}

impl Embedded {
    /// Starts the set in its own thread, so that the load does not delay it.
    pub(super) fn start(seed: u64) -> Result<Self> {
        let set = Deployment::replica_set(MEMBERS)
            .version(VERSION)
            .seed(seed)
            .election_timeout(ELECTION_TIMEOUT)
            .in_thread();
        Ok(Self { set: set.try_start()? })
    }

    pub(super) fn server(&self) -> String {
        format!("embedded servers, as MongoDB {VERSION}")
    }

    pub(super) fn uri(&self) -> String {
        self.set.uri()
    }

    pub(super) fn faults(&self) -> Faults {
        self.set.faults()
    }

    pub(super) async fn find(&self, who: FaultTarget) -> Result<Member> {
        let primary = self.primary().await?;
        Ok(self.member(meant(who, primary, MEMBERS), primary))
    }

    pub(super) async fn step_down(&self) -> Result<Member> {
        let primary = self.primary().await?;
        self.faults().step_down();
        Ok(self.member(primary, primary))
    }

    pub(super) async fn recover(&self) -> Result<()> {
        self.primary().await?;
        let replicated = timeout(RECOVERY_TIMEOUT, self.set.wait_for_replication()).await;
        replicated.map_err(|_| late("its members have not caught up"))?;
        Ok(())
    }

    /// Thaws and restarts all members.
    pub(super) fn heal(&self) {
        for member in 0..MEMBERS {
            self.faults().thaw(member);
            self.faults().restart(member);
        }
    }

    async fn primary(&self) -> Result<usize> {
        let primary = timeout(RECOVERY_TIMEOUT, self.set.wait_for_primary()).await;
        primary.map_err(|_| late("it has no primary").into())
    }

    fn member(&self, number: usize, primary: usize) -> Member {
        let address = self.set.members()[number].address().to_string();
        Member { number, address, role: Role::of(number == primary), shard: None }
    }
}

fn late(what: &str) -> String {
    format!(
        "the embedded replica set does not recover: {what} after {} s",
        RECOVERY_TIMEOUT.as_secs()
    )
}
