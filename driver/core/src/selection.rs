//! Server selection.
//!
//! Pure functions: [`select`] takes a [`TopologyDescription`] and a [`SelectionTarget`] and returns
//! a [`Selection`]. It never waits. After [`Selection::NoneSuitable`] the caller tries again when
//! the description changes. On a time-out, [`explain`] provides the error message.
//!
//! The steps follow the specification [Server Selection]:
//!
//! 1. Fail at once if a server is incompatible.
//! 2. Find the servers suitable for the target, without the deprioritized ones if others are
//!    suitable ([`suitable`]).
//! 3. Apply the application's server selector.
//! 4. Keep the servers in the latency window.
//! 5. Pick two at random, and of these the one with fewer operations in progress.
//!
//! [Server Selection]:
//! https://github.com/mongodb/specifications/blob/master/source/server-selection/server-selection.md

mod candidates;
mod criteria;
mod explain;
mod latency_window;
mod server_info;
mod staleness;
mod wire_preference;

use std::time::Duration;

use crate::{
    address::ServerAddress,
    description::{ServerDescription, TopologyDescription, TopologyType},
    read_preference::ReadPreference,
};

pub use self::{
    criteria::{Predicate, SelectionCriteria, SelectionTarget},
    explain::explain,
    latency_window::{in_latency_window, pick},
    server_info::ServerInfo,
    staleness::SMALLEST_MAX_STALENESS,
    wire_preference::read_preference_for,
};

/// Default size of the latency window (`localThresholdMS`): 15 ms.
pub const DEFAULT_LOCAL_THRESHOLD: Duration = Duration::from_millis(15);

/// Selection settings of a client.
#[derive(Clone)]
#[non_exhaustive]
pub struct SelectionSettings {
    /// Size of the latency window (`localThresholdMS`). Defaults to 15 ms.
    pub local_threshold: Duration,
    /// Interval between heartbeats (`heartbeatFrequencyMS`), used to estimate the staleness of
    /// secondaries. Defaults to 10 seconds.
    pub heartbeat_frequency: Duration,
    /// Server selector of the application: keeps those of the suitable servers that it accepts.
    /// Defaults to none.
    pub server_selector: Option<Predicate>,
}

impl Default for SelectionSettings {
    fn default() -> Self {
        Self {
            local_threshold: DEFAULT_LOCAL_THRESHOLD,
            heartbeat_frequency: Duration::from_secs(10),
            server_selector: None,
        }
    }
}

impl std::fmt::Debug for SelectionSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SelectionSettings")
            .field("local_threshold", &self.local_threshold)
            .field("heartbeat_frequency", &self.heartbeat_frequency)
            .field("server_selector", &self.server_selector.is_some())
            .finish()
    }
}

/// Result of server selection.
#[derive(Clone, Debug, PartialEq)]
pub enum Selection<'t> {
    /// The selected server.
    Selected(&'t ServerDescription),
    /// No server is suitable now. A later description may contain one.
    NoneSuitable,
    /// No later description can contain a suitable server.
    Impossible(SelectionError),
}

/// Error of server selection that waiting cannot resolve.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SelectionError {
    /// A server has no wire version in common with this driver.
    #[error("{0}")]
    Incompatible(String),
    /// `maxStalenessSeconds` is too small to be measured.
    #[error(
        "maxStalenessSeconds of {given:?} is too small; with this heartbeatFrequencyMS it must be at \
         least {least:?}"
    )]
    MaxStalenessTooSmall {
        /// The given value.
        given: Duration,
        /// The smallest allowed value.
        least: Duration,
    },
}

/// Selects the server for an operation.
///
/// `operation_count` returns the number of operations that a server is executing for this client.
/// `random` contains two numbers, uniformly distributed over `u64`. Selecting the primary of a
/// replica set, a load balancer or the server of a direct connection does not allocate.
pub fn select<'t>(
    topology: &'t TopologyDescription,
    target: SelectionTarget<'_>,
    deprioritized: &[ServerAddress],
    settings: &SelectionSettings,
    operation_count: impl Fn(&ServerAddress) -> usize,
    random: [u64; 2],
) -> Selection<'t> {
    if let Some(server) = sole_candidate(topology, target, settings) {
        return Selection::Selected(server);
    }
    let mut servers = match suitable(topology, target, deprioritized, settings) {
        Ok(servers) => servers,
        Err(error) => return Selection::Impossible(error),
    };
    in_latency_window(&mut servers, settings.local_threshold);
    match pick(&servers, |server| operation_count(&server.address), random) {
        Some(server) => Selection::Selected(server),
        None => Selection::NoneSuitable,
    }
}

/// Returns the only possible server without allocating.
///
/// This is the primary for a write or a read from the primary, a load balancer, or the server of a
/// direct connection. Returns `None` in all other cases, and if the server is not available.
/// Deprioritization has no effect, because there is no other server.
/// server is not available. Deprioritising it would change nothing: there is no other.
pub fn sole_candidate<'t>(
    topology: &'t TopologyDescription,
    target: SelectionTarget<'_>,
    settings: &SelectionSettings,
) -> Option<&'t ServerDescription> {
    if topology.compatibility_error.is_some() {
        return None;
    }
    let server = match (topology.topology_type, target.resolve(topology)) {
        (TopologyType::ReplicaSetWithPrimary, SelectionTarget::Write)
        | (
            TopologyType::ReplicaSetWithPrimary,
            SelectionTarget::Read(SelectionCriteria::ReadPreference(ReadPreference::Primary)),
        ) => topology.primary(),
        (
            TopologyType::Single | TopologyType::LoadBalanced,
            SelectionTarget::Write | SelectionTarget::Read(SelectionCriteria::ReadPreference(_)),
        ) => topology.servers.values().find(|server| candidates::is_usable(topology, server)),
        // A specific server, a predicate, or several candidates.
        _ => None,
    }?;
    accepted(server, settings).then_some(server)
}

/// Returns all suitable servers: the steps of the specification before the latency window.
///
/// # Errors
///
/// The errors that waiting cannot resolve.
pub fn suitable<'t>(
    topology: &'t TopologyDescription,
    target: SelectionTarget<'_>,
    deprioritized: &[ServerAddress],
    settings: &SelectionSettings,
) -> Result<Vec<&'t ServerDescription>, SelectionError> {
    let mut servers = suitable_by_target(topology, target, deprioritized, settings)?;
    servers.retain(|server| accepted(server, settings));
    Ok(servers)
}

/// Returns the suitable servers before the application's server selector.
fn suitable_by_target<'t>(
    topology: &'t TopologyDescription,
    target: SelectionTarget<'_>,
    deprioritized: &[ServerAddress],
    settings: &SelectionSettings,
) -> Result<Vec<&'t ServerDescription>, SelectionError> {
    check(topology, target, settings)?;
    let find = |avoid: &[ServerAddress]| {
        let servers = topology.servers.values().filter(|server| !avoid.contains(&server.address));
        candidates::matching(topology, servers.collect(), target, settings)
    };
    let servers = find(deprioritized);
    if servers.is_empty() && !deprioritized.is_empty() {
        return Ok(find(&[]));
    }
    Ok(servers)
}

fn check(
    topology: &TopologyDescription,
    target: SelectionTarget<'_>,
    settings: &SelectionSettings,
) -> Result<(), SelectionError> {
    if let Some(error) = &topology.compatibility_error {
        return Err(SelectionError::Incompatible(error.clone()));
    }
    match target.resolve(topology).read_preference() {
        Some(preference) => staleness::check(preference, topology, settings),
        None => Ok(()),
    }
}

fn accepted(server: &ServerDescription, settings: &SelectionSettings) -> bool {
    match &settings.server_selector {
        Some(selector) => selector(&ServerInfo::from(server)),
        None => true,
    }
}

#[cfg(test)]
mod tests;
