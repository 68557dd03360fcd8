//! What a member that is not the primary teaches of its replica set.
//!
//! Its list of members may be old: servers are added by it, but none is removed except the one
//! that does not belong.

use crate::description::ServerDescription;

use super::draft::Draft;

/// The specification's "updateRSWithoutPrimary".
pub(super) fn without_primary(draft: &mut Draft, server: &ServerDescription) {
    if draft.topology.set_name.is_none() {
        draft.topology.set_name.clone_from(&server.set_name);
    } else if draft.topology.set_name != server.set_name {
        draft.remove(&server.address);
        return;
    }
    for member in server.members() {
        draft.add(member);
    }
    if goes_by_another_name(server) {
        draft.remove(&server.address);
    }
}

/// The specification's "updateRSWithPrimaryFromMember".
pub(super) fn with_primary(draft: &mut Draft, server: &ServerDescription) {
    if draft.topology.set_name != server.set_name || goes_by_another_name(server) {
        draft.remove(&server.address);
    }
    // This member may have been the primary.
    draft.check_if_has_primary();
}

/// The set knows the server by an address of its own, under which it is monitored too.
fn goes_by_another_name(server: &ServerDescription) -> bool {
    server.me.as_ref().is_some_and(|me| *me != server.address)
}
