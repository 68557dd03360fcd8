//! Servers suitable for a target, by topology type, read preference mode and tags.

use super::{SelectionCriteria, SelectionSettings, SelectionTarget, ServerInfo, staleness};
use crate::{
    description::{ServerDescription, ServerType, TagSet, TopologyDescription, TopologyType},
    read_preference::ReadPreference,
};

/// Returns those of `servers` that are suitable for the target.
///
/// `servers` can lack the deprioritized servers. Staleness is estimated with the whole topology
/// nevertheless.
pub(super) fn matching<'t>(
    topology: &'t TopologyDescription,
    mut servers: Vec<&'t ServerDescription>,
    target: SelectionTarget<'_>,
    settings: &SelectionSettings,
) -> Vec<&'t ServerDescription> {
    match target.resolve(topology) {
        SelectionTarget::Write => {
            servers.retain(|server| accepts_writes(topology.topology_type, server));
        }
        SelectionTarget::Server(address) => {
            servers.retain(|server| server.address == *address && is_usable(topology, server));
        }
        SelectionTarget::Read(criteria) | SelectionTarget::WritingAggregate(criteria) => {
            match criteria {
                SelectionCriteria::Predicate(predicate) => servers.retain(|server| {
                    is_usable(topology, server) && predicate(&ServerInfo::from(*server))
                }),
                SelectionCriteria::ReadPreference(preference) => {
                    return readable(topology, servers, preference, settings);
                }
            }
        }
    }
    servers
}

/// Returns `true` if operations can be sent to this server in a topology of this type.
pub(super) fn is_usable(topology: &TopologyDescription, server: &ServerDescription) -> bool {
    match topology.topology_type {
        TopologyType::Unknown => false,
        TopologyType::Single => server.is_available(),
        TopologyType::LoadBalanced => server.server_type == ServerType::LoadBalancer,
        TopologyType::Sharded => server.server_type == ServerType::Mongos,
        TopologyType::ReplicaSetNoPrimary | TopologyType::ReplicaSetWithPrimary => {
            is_primary(server) || is_secondary(server)
        }
    }
}

fn accepts_writes(topology_type: TopologyType, server: &ServerDescription) -> bool {
    match topology_type {
        TopologyType::Unknown | TopologyType::ReplicaSetNoPrimary => false,
        // A direct connection may target a server of any type: the server itself rejects the write.
        TopologyType::Single => server.is_available(),
        TopologyType::LoadBalanced => server.server_type == ServerType::LoadBalancer,
        TopologyType::Sharded => server.server_type == ServerType::Mongos,
        TopologyType::ReplicaSetWithPrimary => is_primary(server),
    }
}

fn readable<'t>(
    topology: &'t TopologyDescription,
    mut servers: Vec<&'t ServerDescription>,
    preference: &ReadPreference,
    settings: &SelectionSettings,
) -> Vec<&'t ServerDescription> {
    servers.retain(|server| is_usable(topology, server));
    match topology.topology_type {
        // A mongos or load balancer applies the read preference itself, and a direct connection
        // ignores it.
        TopologyType::Unknown
        | TopologyType::Single
        | TopologyType::LoadBalanced
        | TopologyType::Sharded => servers,
        TopologyType::ReplicaSetNoPrimary | TopologyType::ReplicaSetWithPrimary => {
            members_for(topology, servers, preference, settings)
        }
    }
}

fn members_for<'t>(
    topology: &'t TopologyDescription,
    members: Vec<&'t ServerDescription>,
    preference: &ReadPreference,
    settings: &SelectionSettings,
) -> Vec<&'t ServerDescription> {
    let primaries = || members.iter().copied().filter(|member| is_primary(member)).collect();
    let secondaries = || {
        let secondaries = members.iter().copied().filter(|member| is_secondary(member)).collect();
        eligible(topology, secondaries, preference, settings)
    };
    match preference {
        ReadPreference::Primary => primaries(),
        ReadPreference::Secondary { .. } => secondaries(),
        ReadPreference::PrimaryPreferred { .. } => or_else(primaries(), secondaries),
        ReadPreference::SecondaryPreferred { .. } => or_else(secondaries(), primaries),
        ReadPreference::Nearest { .. } => eligible(topology, members, preference, settings),
    }
}

fn or_else<'t>(
    preferred: Vec<&'t ServerDescription>,
    fallback: impl FnOnce() -> Vec<&'t ServerDescription>,
) -> Vec<&'t ServerDescription> {
    if preferred.is_empty() { fallback() } else { preferred }
}

/// Applies staleness before tags. A tag set whose members are all stale must not hide a later one
/// with fresh members.
fn eligible<'t>(
    topology: &TopologyDescription,
    mut members: Vec<&'t ServerDescription>,
    preference: &ReadPreference,
    settings: &SelectionSettings,
) -> Vec<&'t ServerDescription> {
    if let Some(max_staleness) = preference.max_staleness() {
        staleness::retain_fresh(&mut members, topology, max_staleness, settings);
    }
    retain_tagged(&mut members, preference.tag_sets());
    members
}

/// Keeps the members that match the first tag set with any match.
fn retain_tagged(members: &mut Vec<&ServerDescription>, tag_sets: &[TagSet]) {
    if tag_sets.is_empty() {
        return;
    }
    let deciding = tag_sets.iter().find(|tags| members.iter().any(|member| has(member, tags)));
    match deciding {
        Some(tags) => members.retain(|member| has(member, tags)),
        None => members.clear(),
    }
}

fn has(member: &ServerDescription, tags: &TagSet) -> bool {
    tags.iter().all(|(name, value)| member.tags.get(name) == Some(value))
}

fn is_primary(server: &ServerDescription) -> bool {
    server.server_type == ServerType::RsPrimary
}

fn is_secondary(server: &ServerDescription) -> bool {
    server.server_type == ServerType::RsSecondary
}
