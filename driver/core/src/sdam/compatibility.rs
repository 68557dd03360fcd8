//! Compatibility of this driver and the servers, by wire version.

use crate::description::{ServerDescription, TopologyDescription, TopologyType};

/// Minimum wire version that this driver supports.
pub const MIN_WIRE_VERSION: i32 = 8;

/// Oldest server version with [`MIN_WIRE_VERSION`].
pub const MIN_SERVER_VERSION: &str = "4.2";

/// Maximum wire version that this driver supports.
pub const MAX_WIRE_VERSION: i32 = 29;

/// Returns an error if a server is too old or too new for this driver.
pub(super) fn error(topology: &TopologyDescription) -> Option<String> {
    if topology.topology_type == TopologyType::LoadBalanced {
        return None;
    }
    topology.servers.values().filter(|server| server.is_available()).find_map(server_error)
}

fn server_error(server: &ServerDescription) -> Option<String> {
    let address = &server.address;
    if server.min_wire_version > MAX_WIRE_VERSION {
        let version = server.min_wire_version;
        Some(format!(
            "Server at {address} requires wire version {version}, but this version of Steadfast \
             only supports up to {MAX_WIRE_VERSION}."
        ))
    } else if server.max_wire_version < MIN_WIRE_VERSION {
        let version = server.max_wire_version;
        Some(format!(
            "Server at {address} reports wire version {version}, but this version of Steadfast \
             requires at least {MIN_WIRE_VERSION} (MongoDB {MIN_SERVER_VERSION})."
        ))
    } else {
        None
    }
}
