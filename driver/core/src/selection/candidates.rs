//! The servers that fit a target, by the kind of deployment, the mode and the tags.

use super::{SelectionCriteria, ServerInfo, Settings, Target, staleness};
use crate::{
    description::{ServerDescription, ServerType, TagSet, TopologyDescription, TopologyType},
    read_preference::ReadPreference,
};

/// Those of `servers` that fit the target.
///
/// `servers` may lack some of the deployment's: the deprioritised ones. How stale a secondary is
/// gets judged by the whole deployment all the same.
pub(super) fn matching<'t>(
    topology: &'t TopologyDescription,
    mut servers: Vec<&'t ServerDescription>,
    target: Target<'_>,
    settings: &Settings,
) -> Vec<&'t ServerDescription> {
    match target.resolve(topology) {
        Target::Write => servers.retain(|server| takes_writes(topology.topology_type, server)),
        Target::Server(address) => {
            servers.retain(|server| server.address == *address && serves(topology, server));
        }
        Target::Read(criteria) | Target::WritingAggregate(criteria) => match criteria {
            SelectionCriteria::Predicate(predicate) => servers
                .retain(|server| serves(topology, server) && predicate(&ServerInfo::from(*server))),
            SelectionCriteria::ReadPreference(preference) => {
                return readable(topology, servers, preference, settings);
            }
        },
    }
    servers
}

/// Whether the server is one that operations go to in such a deployment at all.
pub(super) fn serves(topology: &TopologyDescription, server: &ServerDescription) -> bool {
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

fn takes_writes(topology_type: TopologyType, server: &ServerDescription) -> bool {
    match topology_type {
        TopologyType::Unknown | TopologyType::ReplicaSetNoPrimary => false,
        // A direct connection is meant for this server, whatever it is: the server itself refuses.
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
    settings: &Settings,
) -> Vec<&'t ServerDescription> {
    servers.retain(|server| serves(topology, server));
    match topology.topology_type {
        // Routers and load balancers get the read preference along with the read, and a direct
        // connection ignores it.
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
    settings: &Settings,
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

/// Staleness is judged before tags: a tag set whose every member is stale must not hide a later
/// set with fresh ones.
fn eligible<'t>(
    topology: &TopologyDescription,
    mut members: Vec<&'t ServerDescription>,
    preference: &ReadPreference,
    settings: &Settings,
) -> Vec<&'t ServerDescription> {
    if let Some(max_staleness) = preference.max_staleness() {
        staleness::retain_fresh(&mut members, topology, max_staleness, settings);
    }
    retain_tagged(&mut members, preference.tag_sets());
    members
}

/// Keeps the members that match the first tag set that any of them matches.
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
