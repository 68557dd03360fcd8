//! One server, connected to directly, whatever it is.

use crate::description::ServerDescription;

use super::draft::Draft;

/// Keeps the server, unless it belongs to another replica set than the one asked for.
pub(super) fn update(draft: &mut Draft, server: &ServerDescription) {
    let Some(wanted) = draft.topology.set_name.clone() else { return };
    if server.is_available() && server.set_name.as_deref() != Some(&wanted) {
        let found = match &server.set_name {
            Some(name) => format!("is a member of the replica set \"{name}\""),
            None => "is no member of a replica set".to_owned(),
        };
        let why = format!("the server {found}, but the replica set \"{wanted}\" was asked for");
        draft.mark_unknown(&server.address, why);
    }
}
