//! Rules for updating each topology type with a new server description.

use std::collections::BTreeSet;

use crate::{
    address::ServerAddress,
    description::{ServerDescription, ServerType, TopologyDescription, TopologyType},
};

use super::{draft::TopologyDraft, election};

/// Updates a topology of type Unknown. The first conclusive description determines its type.
pub(super) fn unknown(draft: &mut TopologyDraft, server: &ServerDescription) {
    match server.server_type {
        // A ghost does not report a replica set name, so it is not conclusive.
        ServerType::Unknown | ServerType::RsGhost | ServerType::LoadBalancer => {}
        ServerType::Standalone if draft.single_seed && draft.topology.servers.len() == 1 => {
            draft.topology.topology_type = TopologyType::Single;
        }
        // With several seeds, a standalone is most likely a member under maintenance.
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

/// Updates a topology of type Single: the server becomes Unknown if its replica set name differs
/// from the required one.
pub(super) fn single(draft: &mut TopologyDraft, server: &ServerDescription) {
    let Some(expected) = draft.topology.set_name.clone() else { return };
    if server.is_available() && server.set_name.as_deref() != Some(&expected) {
        let found = match &server.set_name {
            Some(name) => format!("is a member of the replica set \"{name}\""),
            None => "is no member of a replica set".to_owned(),
        };
        let why = format!("the server {found}, but the replica set \"{expected}\" was asked for");
        draft.mark_unknown(&server.address, why);
    }
}

/// Updates a sharded cluster, which contains only mongos.
pub(super) fn sharded(draft: &mut TopologyDraft, server: &ServerDescription) {
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

/// Updates a replica set without a known primary.
pub(super) fn no_primary(draft: &mut TopologyDraft, server: &ServerDescription) {
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

/// Updates a replica set with a known primary.
pub(super) fn with_primary(draft: &mut TopologyDraft, server: &ServerDescription) {
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

/// Implements "updateRSFromPrimary" of the specification.
fn from_primary(draft: &mut TopologyDraft, primary: &ServerDescription) {
    if draft.topology.set_name.is_none() {
        draft.topology.set_name.clone_from(&primary.set_name);
    } else if draft.topology.set_name != primary.set_name {
        draft.remove(&primary.address);
        draft.check_if_has_primary();
        return;
    }
    match election::compare(&draft.topology, primary) {
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
    mark_other_primaries_unknown(draft, &primary.address);
    adopt_members(draft, primary);
    draft.check_if_has_primary();
}

/// Marks other primaries Unknown and requests an immediate check. Their pools are not cleared.
fn mark_other_primaries_unknown(draft: &mut TopologyDraft, primary: &ServerAddress) {
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

/// Makes the servers equal to the members that the primary reports.
fn adopt_members(draft: &mut TopologyDraft, primary: &ServerDescription) {
    let members: BTreeSet<&ServerAddress> = primary.members().collect();
    for member in &members {
        draft.add(member);
    }
    draft.topology.servers.retain(|address, _| members.contains(address));
}

/// Implements "updateRSWithoutPrimary" of the specification. The reported members can be outdated,
/// so they are added, but none is removed. Only the reporting server itself is removed if it does
/// not belong.
fn from_member_without_primary(draft: &mut TopologyDraft, server: &ServerDescription) {
    if draft.topology.set_name.is_none() {
        draft.topology.set_name.clone_from(&server.set_name);
    } else if draft.topology.set_name != server.set_name {
        draft.remove(&server.address);
        return;
    }
    for member in server.members() {
        draft.add(member);
    }
    if address_differs_from_me(server) {
        draft.remove(&server.address);
    }
}

/// Implements "updateRSWithPrimaryFromMember" of the specification.
fn from_member_with_primary(draft: &mut TopologyDraft, server: &ServerDescription) {
    if draft.topology.set_name != server.set_name || address_differs_from_me(server) {
        draft.remove(&server.address);
    }
    // This member may have been the primary.
    draft.check_if_has_primary();
}

/// Returns `true` if the replica set uses another address for this server, under which it is
/// monitored as well.
fn address_differs_from_me(server: &ServerDescription) -> bool {
    server.me.as_ref().is_some_and(|me| *me != server.address)
}

/// Describes a load balancer: a single server, always available, never monitored.
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
