//! What a primary teaches of its replica set: the truth, if it is not a stale one.

use std::collections::BTreeSet;

use crate::{
    address::ServerAddress,
    description::{ServerDescription, ServerType},
};

use super::{draft::Draft, election};

/// The specification's "updateRSFromPrimary".
pub(super) fn update(draft: &mut Draft, primary: &ServerDescription) {
    if draft.topology.set_name.is_none() {
        draft.topology.set_name.clone_from(&primary.set_name);
    } else if draft.topology.set_name != primary.set_name {
        draft.remove(&primary.address);
        draft.check_if_has_primary();
        return;
    }
    match election::weigh(&draft.topology, primary) {
        Ok((max_election_id, max_set_version)) => {
            draft.topology.max_election_id = max_election_id;
            draft.topology.max_set_version = max_set_version;
        }
        Err(stale) => {
            draft.mark_unknown(&primary.address, stale.to_string());
            draft.check_if_has_primary();
            return;
        }
    }
    depose_others(draft, &primary.address);
    adopt_members(draft, primary);
    draft.check_if_has_primary();
}

/// There is one primary. Who was it before is to be asked again, at once; its pool stays.
fn depose_others(draft: &mut Draft, primary: &ServerAddress) {
    let deposed: Vec<ServerAddress> = draft
        .topology
        .servers
        .values()
        .filter(|server| server.server_type == ServerType::RsPrimary && server.address != *primary)
        .map(|server| server.address.clone())
        .collect();
    for address in deposed {
        let why = "primary marked stale due to discovery of newer primary";
        draft.mark_unknown(&address, why);
        draft.recheck.insert(address);
    }
}

/// The set has the members that its primary names, no more and no less.
fn adopt_members(draft: &mut Draft, primary: &ServerDescription) {
    let members: BTreeSet<&ServerAddress> = primary.members().collect();
    for member in &members {
        draft.add(member);
    }
    draft.topology.servers.retain(|address, _| members.contains(address));
}
