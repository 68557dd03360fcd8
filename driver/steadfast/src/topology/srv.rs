//! SRV polling: mongos can join and leave a sharded cluster.

use std::time::Duration;

use steadfast_core::{
    sdam::{TopologyInput, rescan_interval},
    srv::SrvName,
};

use super::{Topology, WeakTopology, lock};
use crate::{dns::Resolver, random::random_below};

impl Topology {
    /// Polls the SRV records while the topology is unknown or sharded.
    pub(crate) fn poll_srv_records(&self, name: SrvName, resolver: Resolver) {
        let heartbeat = self.monitor_settings.heartbeat_frequency;
        self.establisher.spawn(poll_in_background(
            self.weak_self.clone(),
            name,
            resolver,
            heartbeat,
        ));
    }
}

async fn poll_in_background(
    topology: WeakTopology,
    name: SrvName,
    resolver: Resolver,
    heartbeat: Duration,
) {
    let mut lowest_ttl = Some(Duration::ZERO);
    loop {
        tokio::time::sleep(rescan_interval(lowest_ttl, heartbeat)).await;
        match topology.0.upgrade() {
            Some(topology) if lock(&topology.state).topology.polls_srv_records() => {}
            _ => return,
        }
        let renewal = match resolver.hosts(&name).await {
            Ok(records) => name.verify_poll(&records, random_below),
            Err(error) => {
                tracing::warn!(target: "steadfast::topology", "SRV records not renewed: {error}");
                lowest_ttl = None;
                continue;
            }
        };
        for warning in &renewal.warnings {
            tracing::warn!(target: "steadfast::topology", "SRV records: {warning}");
        }
        lowest_ttl = renewal.lowest_ttl;
        topology.apply(TopologyInput::SrvHosts(renewal.hosts), None);
    }
}
