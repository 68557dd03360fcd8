//! What a newly described server means to each type of topology.

use std::collections::BTreeSet;

use crate::{
    address::ServerAddress,
    description::{ServerDescription, ServerType, TopologyDescription, TopologyType},
};

use super::{draft::Draft, election};

/// Updates a topology of unknown type: the first reply that tells decides it.
pub(super) fn unknown(draft: &mut Draft, server: &ServerDescription) {
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
            from_primary(draft, server);
        }
        ServerType::RsSecondary | ServerType::RsArbiter | ServerType::RsOther => {
            draft.topology.topology_type = TopologyType::ReplicaSetNoPrimary;
            from_member_without_primary(draft, server);
        }
    }
}

/// Keeps the server, unless it belongs to another replica set than the one asked for.
pub(super) fn single(draft: &mut Draft, server: &ServerDescription) {
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

/// Updates a sharded cluster, which keeps only its mongos.
pub(super) fn sharded(draft: &mut Draft, server: &ServerDescription) {
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

/// Updates a replica set whose primary is not known.
pub(super) fn no_primary(draft: &mut Draft, server: &ServerDescription) {
    match server.server_type {
        ServerType::Unknown | ServerType::RsGhost => {}
        ServerType::Standalone | ServerType::Mongos | ServerType::LoadBalancer => {
            draft.remove(&server.address);
        }
        ServerType::RsPrimary => {
            draft.topology.topology_type = TopologyType::ReplicaSetWithPrimary;
            from_primary(draft, server);
        }
        ServerType::RsSecondary | ServerType::RsArbiter | ServerType::RsOther => {
            from_member_without_primary(draft, server);
        }
    }
}

/// Updates a replica set whose primary is known, until it is not any more.
pub(super) fn with_primary(draft: &mut Draft, server: &ServerDescription) {
    match server.server_type {
        ServerType::Unknown | ServerType::RsGhost => draft.check_if_has_primary(),
        ServerType::Standalone | ServerType::Mongos | ServerType::LoadBalancer => {
            draft.remove(&server.address);
            draft.check_if_has_primary();
        }
        ServerType::RsPrimary => from_primary(draft, server),
        ServerType::RsSecondary | ServerType::RsArbiter | ServerType::RsOther => {
            from_member_with_primary(draft, server);
        }
    }
}

/// The specification's "updateRSFromPrimary".
fn from_primary(draft: &mut Draft, primary: &ServerDescription) {
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

/// The specification's "updateRSWithoutPrimary". The list of members may be old: servers are added by it,
/// but none is removed except the one that does not belong.
fn from_member_without_primary(draft: &mut Draft, server: &ServerDescription) {
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
fn from_member_with_primary(draft: &mut Draft, server: &ServerDescription) {
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

/// Describes a load balancer: one server, always usable, never monitored.
pub(super) fn load_balanced(topology: &TopologyDescription) -> TopologyDescription {
    let mut next = topology.clone();
    for server in next.servers.values_mut() {
        *server = ServerDescription {
            server_type: ServerType::LoadBalancer,
            ..ServerDescription::unknown(server.address.clone())
        };
    }
    next
}
