//! Polling of SRV records for the mongos of a sharded cluster.

use std::time::{Duration, Instant};

use crate::{address::ServerAddress, description::TopologyType};

use super::{Topology, TopologyEffect, transition::FollowUp};

/// Minimum interval between two successful polls.
const MIN_RESCAN_INTERVAL: Duration = Duration::from_secs(60);

/// Returns the interval from the end of one poll to the next (`rescanSRVIntervalMS`).
///
/// `lowest_ttl` is the lowest TTL of the records, or `None` if no verified host was found.
pub fn rescan_interval(lowest_ttl: Option<Duration>, heartbeat_frequency: Duration) -> Duration {
    match lowest_ttl {
        Some(ttl) => ttl.max(MIN_RESCAN_INTERVAL),
        None => heartbeat_frequency,
    }
}

impl Topology {
    /// Returns `true` if SRV records must be polled: for topologies of type Unknown and Sharded.
    pub fn polls_srv_records(&self) -> bool {
        !self.closed
            && matches!(
                self.description.topology_type,
                TopologyType::Unknown | TopologyType::Sharded
            )
    }

    /// Applies a poll of the SRV records. Servers that remain are not changed.
    pub(super) fn srv_hosts_found(
        &mut self,
        hosts: &[ServerAddress],
        now: Instant,
    ) -> Vec<TopologyEffect> {
        if hosts.is_empty() || !self.polls_srv_records() {
            return Vec::new();
        }
        let mut draft = self.draft(now);
        draft.topology.servers.retain(|address, _| hosts.contains(address));
        let most = self.settings.srv_max_hosts.unwrap_or(usize::MAX);
        for host in hosts {
            if draft.topology.servers.len() < most {
                draft.add(host);
            }
        }
        if draft.topology == *self.description {
            return Vec::new();
        }
        self.adopt(draft, FollowUp::default())
    }
}
