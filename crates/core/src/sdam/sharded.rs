//! A sharded cluster: only its routers are wanted.

use crate::description::{ServerDescription, ServerType};

use super::draft::Draft;

pub(super) fn update(draft: &mut Draft, server: &ServerDescription) {
    match server.server_type {
        ServerType::Unknown | ServerType::Mongos => {}
        ServerType::Standalone
        | ServerType::RsPrimary
        | ServerType::RsSecondary
        | ServerType::RsArbiter
        | ServerType::RsOther
        | ServerType::RsGhost
        | ServerType::LoadBalancer => draft.remove(&server.address),
    }
}
