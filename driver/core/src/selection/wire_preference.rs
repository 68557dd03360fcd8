//! The `$readPreference` of commands.

use crate::{
    description::{ServerType, TopologyType},
    read_preference::ReadPreference,
};

static PRIMARY_PREFERRED: ReadPreference = ReadPreference::PrimaryPreferred { options: None };

/// Returns the `$readPreference` of a read, or `None` if the field is omitted.
///
/// A mongos or load balancer selects the member itself, and a secondary rejects reads without
/// `$readPreference`. Without the field, servers assume primary. A direct connection to a member of
/// a replica set reads from this member whatever its state, so primary is sent as
/// `primaryPreferred`. For a standalone server, the field is omitted.
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
