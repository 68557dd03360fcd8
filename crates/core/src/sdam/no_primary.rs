//! A replica set whose primary is not known.

use crate::description::{ServerDescription, ServerType, TopologyType};

use super::{draft::Draft, from_member, from_primary};

pub(super) fn update(draft: &mut Draft, server: &ServerDescription) {
    match server.server_type {
        ServerType::Unknown | ServerType::RsGhost => {}
        ServerType::Standalone | ServerType::Mongos | ServerType::LoadBalancer => {
            draft.remove(&server.address);
        }
        ServerType::RsPrimary => {
            draft.topology.topology_type = TopologyType::ReplicaSetWithPrimary;
            from_primary::update(draft, server);
        }
        ServerType::RsSecondary | ServerType::RsArbiter | ServerType::RsOther => {
            from_member::without_primary(draft, server);
        }
    }
}
