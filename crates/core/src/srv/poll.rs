//! Asking DNS again: when, and what a new answer changes.

use std::{collections::BTreeSet, time::Duration};

use super::{SrvName, SrvRecord, choose};
use crate::{address::ServerAddress, description::TopologyType};

/// DNS is not asked more often than this while it answers.
const SHORTEST_INTERVAL: Duration = Duration::from_secs(60);

/// Keeps the routers of a sharded cluster up to date with the SRV records they were found by.
///
/// Ask DNS [`interval`](Self::interval) after the end of the last time, if
/// [`polls`](Self::polls) says so of the topology, and tell [`on_answer`](Self::on_answer) or
/// [`on_failure`](Self::on_failure) what came of it.
#[derive(Clone, Debug)]
pub struct SrvPoll {
    name: SrvName,
    max_hosts: u32,
    heartbeat_frequency: Duration,
    interval: Duration,
}

/// What a new answer from DNS changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SrvUpdate {
    /// Hosts to watch from now on.
    pub added: Vec<ServerAddress>,
    /// Hosts to forget.
    pub removed: Vec<ServerAddress>,
    /// What is worth a line in the log: hosts that were not believed, or why nothing changed.
    pub warnings: Vec<String>,
}

impl SrvPoll {
    /// Polling that goes on from the first answer. `max_hosts` is `srvMaxHosts`; zero means all.
    pub fn new(
        name: SrvName,
        first_answer: &[SrvRecord],
        max_hosts: u32,
        heartbeat_frequency: Duration,
    ) -> Self {
        let interval = interval_of(first_answer);
        Self { name, max_hosts, heartbeat_frequency, interval }
    }

    /// What to ask DNS for.
    pub fn name(&self) -> &SrvName {
        &self.name
    }

    /// How long to wait after the last time.
    pub fn interval(&self) -> Duration {
        self.interval
    }

    /// Whether the records say anything about a topology of this kind. A replica set knows its
    /// members better.
    pub fn polls(topology: TopologyType) -> bool {
        match topology {
            TopologyType::Sharded | TopologyType::Unknown => true,
            TopologyType::Single
            | TopologyType::ReplicaSetNoPrimary
            | TopologyType::ReplicaSetWithPrimary
            | TopologyType::LoadBalanced => false,
        }
    }

    /// DNS answered. Hosts outside of the domain are left out; if none is left, nothing changes.
    /// `random_below(n)` is a random number from 0 to n-1.
    pub fn on_answer(
        &mut self,
        records: &[SrvRecord],
        current: &BTreeSet<ServerAddress>,
        random_below: impl FnMut(usize) -> usize,
    ) -> SrvUpdate {
        let mut verified = BTreeSet::new();
        let mut warnings = Vec::new();
        for record in records {
            match self.name.verify(record) {
                Ok(host) => drop(verified.insert(host)),
                Err(error) => warnings.push(error.to_string()),
            }
        }
        if verified.is_empty() {
            let mut update = self.on_failure("no usable SRV records");
            warnings.append(&mut update.warnings);
            return SrvUpdate { warnings, ..update };
        }
        self.interval = interval_of(records);
        let kept = current.intersection(&verified).count();
        let new: Vec<_> = verified.difference(current).cloned().collect();
        SrvUpdate {
            added: self.choose_new(new, kept, random_below),
            removed: current.difference(&verified).cloned().collect(),
            warnings,
        }
    }

    /// DNS did not answer: nothing changes, and it is asked again soon.
    pub fn on_failure(&mut self, reason: &str) -> SrvUpdate {
        self.interval = self.heartbeat_frequency;
        let warning = format!("SRV records of {} could not be renewed: {reason}", self.name);
        SrvUpdate { warnings: vec![warning], ..SrvUpdate::default() }
    }

    /// Hosts in use stay; chance decides only among the new ones.
    fn choose_new(
        &self,
        new: Vec<ServerAddress>,
        kept: usize,
        random_below: impl FnMut(usize) -> usize,
    ) -> Vec<ServerAddress> {
        if self.max_hosts == 0 {
            return new;
        }
        let room = self.max_hosts.saturating_sub(u32::try_from(kept).unwrap_or(u32::MAX));
        if room == 0 { Vec::new() } else { choose(new, room, random_below) }
    }
}

/// As long as the records are good, within reason.
fn interval_of(records: &[SrvRecord]) -> Duration {
    let shortest = records.iter().map(|record| record.ttl).min();
    shortest.unwrap_or(SHORTEST_INTERVAL).max(SHORTEST_INTERVAL)
}
