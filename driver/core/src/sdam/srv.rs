//! The routers of a sharded cluster come and go with the DNS records that name them.

use std::time::{Duration, Instant};

use crate::{address::ServerAddress, description::TopologyType};

use super::{Effect, Topology, transition::FollowUp};

/// DNS is not asked more often than this while it answers.
const MIN_RESCAN_INTERVAL: Duration = Duration::from_secs(60);

/// How long to wait, from the end of one lookup, before DNS is asked again for the hosts.
///
/// `lowest_ttl` is the lowest lifetime of the records found; none if no verified host was found.
pub fn rescan_interval(lowest_ttl: Option<Duration>, heartbeat_frequency: Duration) -> Duration {
    match lowest_ttl {
        Some(ttl) => ttl.max(MIN_RESCAN_INTERVAL),
        None => heartbeat_frequency,
    }
}

impl Topology {
    /// Whether DNS is to be asked again: only routers are found by it.
    pub fn follows_srv_records(&self) -> bool {
        !self.closed
            && matches!(
                self.description.topology_type,
                TopologyType::Unknown | TopologyType::Sharded
            )
    }

    /// DNS names these hosts now. Those that stay are left alone.
    pub(super) fn srv_hosts_found(&mut self, hosts: &[ServerAddress], now: Instant) -> Vec<Effect> {
        if hosts.is_empty() || !self.follows_srv_records() {
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
