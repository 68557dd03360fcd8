//! Nothing is known yet: the first telling reply decides what kind of topology this is.

use crate::description::{ServerDescription, ServerType, TopologyType};

use super::{draft::Draft, from_member, from_primary};

pub(super) fn update(draft: &mut Draft, server: &ServerDescription) {
    match server.server_type {
        // A ghost does not say which set it is of, so it decides nothing.
        ServerType::Unknown | ServerType::RsGhost | ServerType::LoadBalancer => {}
        ServerType::Standalone if draft.single_seed && draft.topology.servers.len() == 1 => {
            draft.topology.topology_type = TopologyType::Single;
        }
        // One of several seeds: a member under maintenance, most likely. The others will tell.
        ServerType::Standalone => draft.remove(&server.address),
        ServerType::Mongos => draft.topology.topology_type = TopologyType::Sharded,
        ServerType::RsPrimary => {
            draft.topology.topology_type = TopologyType::ReplicaSetWithPrimary;
            from_primary::update(draft, server);
        }
        ServerType::RsSecondary | ServerType::RsArbiter | ServerType::RsOther => {
            draft.topology.topology_type = TopologyType::ReplicaSetNoPrimary;
            from_member::without_primary(draft, server);
        }
    }
}
