//! A replica set whose primary is known, until it is not any more.

use crate::description::{ServerDescription, ServerType};

use super::{draft::Draft, from_member, from_primary};

pub(super) fn update(draft: &mut Draft, server: &ServerDescription) {
    match server.server_type {
        ServerType::Unknown | ServerType::RsGhost => draft.check_if_has_primary(),
        ServerType::Standalone | ServerType::Mongos | ServerType::LoadBalancer => {
            draft.remove(&server.address);
            draft.check_if_has_primary();
        }
        ServerType::RsPrimary => from_primary::update(draft, server),
        ServerType::RsSecondary | ServerType::RsArbiter | ServerType::RsOther => {
            from_member::with_primary(draft, server);
        }
    }
}
