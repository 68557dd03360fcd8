//! A load balancer: one server, always usable, never monitored.

use crate::description::{ServerDescription, ServerType, TopologyDescription};

/// The balancer is what it was said to be from the start.
pub(super) fn discovered(topology: &TopologyDescription) -> TopologyDescription {
    let mut next = topology.clone();
    for server in next.servers.values_mut() {
        *server = ServerDescription {
            server_type: ServerType::LoadBalancer,
            ..ServerDescription::unknown(server.address.clone())
        };
    }
    next
}
