//! Choosing the server for an operation, by what is known of the deployment.
//!
//! Pure: a [`TopologyDescription`] and a [`Target`] go in, a [`Selection`] comes out. Nothing here
//! waits; whoever calls [`select`] and gets [`Selection::NoneYet`] asks again once the description
//! has changed, and on giving up tells the user what [`explain`] says.
//!
//! The steps are those of the Server Selection specification, in its order:
//!
//! 1. an incompatible deployment is an error at once;
//! 2. the servers suitable for the target, without the deprioritised ones, or with them if no other
//!    is suitable ([`suitable`]);
//! 3. of these, those the application's own selector leaves;
//! 4. of these, the ones in the latency window;
//! 5. of these, two at random, and of the two the one with fewer operations under way.

mod candidates;
mod choice;
mod criteria;
mod explain;
mod passing;
mod server_info;
mod staleness;

use std::time::Duration;

use crate::{
    address::ServerAddress,
    description::{ServerDescription, TopologyDescription, TopologyType},
    read_preference::ReadPreference,
};

pub use self::{
    choice::{in_latency_window, pick},
    criteria::{Predicate, SelectionCriteria, Target},
    explain::explain,
    passing::read_preference_for,
    server_info::ServerInfo,
    staleness::SMALLEST_MAX_STALENESS,
};

/// A server is in the latency window if it is at most this much slower than the fastest one.
pub const DEFAULT_LOCAL_THRESHOLD: Duration = Duration::from_millis(15);

/// What a client's options say about selection.
#[derive(Clone)]
#[non_exhaustive]
pub struct Settings {
    /// The width of the latency window.
    pub local_threshold: Duration,
    /// How often servers are checked; part of the estimate of how stale a secondary is.
    pub heartbeat_frequency: Duration,
    /// The application's own say: of the suitable servers, only those it accepts remain.
    pub server_selector: Option<Predicate>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            local_threshold: DEFAULT_LOCAL_THRESHOLD,
            heartbeat_frequency: Duration::from_secs(10),
            server_selector: None,
        }
    }
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings")
            .field("local_threshold", &self.local_threshold)
            .field("heartbeat_frequency", &self.heartbeat_frequency)
            .field("server_selector", &self.server_selector.is_some())
            .finish()
    }
}

/// What came of looking for a server.
#[derive(Clone, Debug, PartialEq)]
pub enum Selection<'t> {
    /// The operation goes to this server.
    Chosen(&'t ServerDescription),
    /// No server is suitable as things stand; a change of the deployment may bring one.
    NoneYet,
    /// No change that waiting could bring would help.
    Impossible(SelectionError),
}

/// Why no server can be selected, however long one waits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SelectionError {
    /// The client and a server have no wire version in common.
    #[error("{0}")]
    Incompatible(String),
    /// The limit on staleness is below what can be told.
    #[error(
        "the read preference's max staleness of {given:?} is too small: it must be at least \
         {least:?} with the client's heartbeat frequency"
    )]
    MaxStalenessTooSmall {
        /// What was asked for.
        given: Duration,
        /// The smallest value that can be honoured.
        least: Duration,
    },
}

/// Chooses the server for an operation.
///
/// `operation_count` tells how many operations a server is executing for this client; `random` are
/// two numbers drawn evenly from all of `u64`. Selecting the primary of a replica set, a load
/// balancer or the one server of a direct connection allocates nothing.
pub fn select<'t>(
    topology: &'t TopologyDescription,
    target: Target<'_>,
    deprioritised: &[ServerAddress],
    settings: &Settings,
    operation_count: impl Fn(&ServerAddress) -> usize,
    random: [u64; 2],
) -> Selection<'t> {
    if let Some(server) = sole_candidate(topology, target, settings) {
        return Selection::Chosen(server);
    }
    let mut servers = match suitable(topology, target, deprioritised, settings) {
        Ok(servers) => servers,
        Err(error) => return Selection::Impossible(error),
    };
    in_latency_window(&mut servers, settings.local_threshold);
    match pick(&servers, |server| operation_count(&server.address), random) {
        Some(server) => Selection::Chosen(server),
        None => Selection::NoneYet,
    }
}

/// The server that is the only one that can be meant, found without allocating.
///
/// That is the primary for a write or a primary read, a load balancer, and the one server of a
/// direct connection. It is `None` in every case that takes the long way, and also if the one
/// server is not available. Deprioritising it would change nothing: there is no other.
pub fn sole_candidate<'t>(
    topology: &'t TopologyDescription,
    target: Target<'_>,
    settings: &Settings,
) -> Option<&'t ServerDescription> {
    if topology.compatibility_error.is_some() {
        return None;
    }
    let server = match (topology.topology_type, target.resolve(topology)) {
        (TopologyType::ReplicaSetWithPrimary, Target::Write)
        | (
            TopologyType::ReplicaSetWithPrimary,
            Target::Read(SelectionCriteria::ReadPreference(ReadPreference::Primary)),
        ) => topology.primary(),
        (
            TopologyType::Single | TopologyType::LoadBalanced,
            Target::Write | Target::Read(SelectionCriteria::ReadPreference(_)),
        ) => topology.servers.values().find(|server| candidates::serves(topology, server)),
        // A named or a custom-picked server, a choice among several, or none at all.
        _ => None,
    }?;
    accepted(server, settings).then_some(server)
}

/// Every server that the operation may go to: the specification's steps up to the latency window.
pub fn suitable<'t>(
    topology: &'t TopologyDescription,
    target: Target<'_>,
    deprioritised: &[ServerAddress],
    settings: &Settings,
) -> Result<Vec<&'t ServerDescription>, SelectionError> {
    let mut servers = suitable_by_target(topology, target, deprioritised, settings)?;
    servers.retain(|server| accepted(server, settings));
    Ok(servers)
}

/// The suitable servers before the application's own selector is asked.
fn suitable_by_target<'t>(
    topology: &'t TopologyDescription,
    target: Target<'_>,
    deprioritised: &[ServerAddress],
    settings: &Settings,
) -> Result<Vec<&'t ServerDescription>, SelectionError> {
    check(topology, target, settings)?;
    let find = |avoid: &[ServerAddress]| {
        let servers = topology.servers.values().filter(|server| !avoid.contains(&server.address));
        candidates::matching(topology, servers.collect(), target, settings)
    };
    let servers = find(deprioritised);
    if servers.is_empty() && !deprioritised.is_empty() {
        return Ok(find(&[]));
    }
    Ok(servers)
}

fn check(
    topology: &TopologyDescription,
    target: Target<'_>,
    settings: &Settings,
) -> Result<(), SelectionError> {
    if let Some(error) = &topology.compatibility_error {
        return Err(SelectionError::Incompatible(error.clone()));
    }
    match target.resolve(topology).read_preference() {
        Some(preference) => staleness::check(preference, topology, settings),
        None => Ok(()),
    }
}

fn accepted(server: &ServerDescription, settings: &Settings) -> bool {
    match &settings.server_selector {
        Some(selector) => selector(&ServerInfo::from(server)),
        None => true,
    }
}

#[cfg(test)]
mod tests;
