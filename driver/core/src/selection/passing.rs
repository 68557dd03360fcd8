//! What a read tells the server of its read preference.

use crate::{
    description::{ServerType, TopologyType},
    read_preference::ReadPreference,
};

static PRIMARY_PREFERRED: ReadPreference = ReadPreference::PrimaryPreferred { options: None };

/// The read preference to send as `$readPreference` along with a read, if any is to be sent.
///
/// A router or load balancer chooses the member itself, and a secondary answers only if it is told
/// that it may; mode primary is what every server assumes when nothing is sent. A direct connection
/// to a member of a replica set is meant for that member, primary or not, so there the read says
/// `primaryPreferred` where the application said primary or nothing. A standalone server is told
/// nothing at all.
pub fn read_preference_for(
    topology_type: TopologyType,
    server_type: ServerType,
    preference: &ReadPreference,
) -> Option<&ReadPreference> {
    let unless_primary = match preference {
        ReadPreference::Primary => None,
        ReadPreference::Secondary { .. }
        | ReadPreference::PrimaryPreferred { .. }
        | ReadPreference::SecondaryPreferred { .. }
        | ReadPreference::Nearest { .. } => Some(preference),
    };
    match server_type {
        ServerType::Standalone => None,
        ServerType::Mongos | ServerType::LoadBalancer => unless_primary,
        ServerType::RsPrimary
        | ServerType::RsSecondary
        | ServerType::RsArbiter
        | ServerType::RsOther
        | ServerType::RsGhost
        | ServerType::Unknown => match topology_type {
            TopologyType::Single => Some(unless_primary.unwrap_or(&PRIMARY_PREFERRED)),
            TopologyType::ReplicaSetNoPrimary
            | TopologyType::ReplicaSetWithPrimary
            | TopologyType::Sharded
            | TopologyType::LoadBalanced
            | TopologyType::Unknown => unless_primary,
        },
    }
}
