//! Error messages of failed server selection.

use std::fmt::Write;

use super::{SelectionSettings, SelectionTarget, check, staleness, suitable_by_target};
use crate::{
    description::{ServerDescription, ServerType, TopologyDescription, TopologyType},
    read_preference::ReadPreference,
};

/// Describes what is missing and the state of every server, with its last error.
///
/// ```text
/// no primary: a:27017 is RSSecondary; b:27017 is unreachable: connection refused
/// ```
pub fn explain(
    topology: &TopologyDescription,
    target: SelectionTarget<'_>,
    settings: &SelectionSettings,
) -> String {
    if let Err(error) = check(topology, target, settings) {
        return error.to_string();
    }
    let target = target.resolve(topology);
    let rejected = suitable_by_target(topology, target, &[], settings).unwrap_or_default();
    if settings.server_selector.is_some() && !rejected.is_empty() {
        let addresses: Vec<_> = rejected.iter().map(|server| server.address.to_string()).collect();
        return format!(
            "the client's server selector rejected every suitable server: {}",
            addresses.join(", ")
        );
    }
    format!("{}: {}", missing(topology, target), servers(topology, target, settings))
}

/// Describes the missing kind of server.
fn missing(topology: &TopologyDescription, target: SelectionTarget<'_>) -> String {
    let in_replica_set = matches!(
        topology.topology_type,
        TopologyType::ReplicaSetNoPrimary | TopologyType::ReplicaSetWithPrimary
    );
    match (target, target.read_preference()) {
        (SelectionTarget::Server(address), _) => format!("server {address} is not available"),
        (SelectionTarget::Write, _) | (_, Some(ReadPreference::Primary)) if in_replica_set => {
            "no primary".to_owned()
        }
        (SelectionTarget::Write, _) => "no server accepts writes".to_owned(),
        (_, Some(preference)) if in_replica_set => {
            format!("no server matches read preference {preference}")
        }
        (_, Some(_)) => "no server is available for reads".to_owned(),
        (_, None) => "no server matches the custom predicate".to_owned(),
    }
}

fn servers(
    topology: &TopologyDescription,
    target: SelectionTarget<'_>,
    settings: &SelectionSettings,
) -> String {
    if topology.servers.is_empty() {
        return match &topology.set_name {
            Some(name) => format!("none of the hosts is a member of replica set \"{name}\""),
            None => "the deployment has no servers".to_owned(),
        };
    }
    let described: Vec<_> = topology
        .servers
        .values()
        .map(|server| describe(server, topology, target, settings))
        .collect();
    described.join("; ")
}

fn describe(
    server: &ServerDescription,
    topology: &TopologyDescription,
    target: SelectionTarget<'_>,
    settings: &SelectionSettings,
) -> String {
    let mut text = match (server.server_type, &server.error) {
        (ServerType::Unknown, Some(error)) => {
            return format!("{} is unreachable: {error}", server.address);
        }
        (ServerType::Unknown, None) => {
            return format!("{} has not been checked yet", server.address);
        }
        (server_type, _) => format!("{} is {server_type}", server.address),
    };
    let Some(preference) = target.read_preference() else { return text };
    if !preference.tag_sets().is_empty() {
        // Writing to a `String` cannot fail.
        let _ = write!(text, " with tags {:?}", server.tags);
    }
    if preference.max_staleness().is_some() && server.server_type == ServerType::RsSecondary {
        let _ = match staleness::staleness_ms(server, topology, settings) {
            Some(lag) => write!(text, ", about {} s stale", lag / 1000),
            None => write!(text, ", of unknown staleness"),
        };
    }
    text
}
