//! How far a secondary lags behind, estimated from what the servers said when last checked.

use std::time::{Duration, Instant};

use super::{SelectionError, Settings};
use crate::{
    description::{ServerDescription, ServerType, TopologyDescription, TopologyType},
    read_preference::ReadPreference,
};

/// The smallest max staleness a client may ask for.
pub const SMALLEST_MAX_STALENESS: Duration = Duration::from_secs(90);

/// An idle primary writes this often, so a secondary may seem to lag by as much.
const IDLE_WRITE_PERIOD: Duration = Duration::from_secs(10);

/// Refuses a max staleness too small to be told from the noise of measuring it.
///
/// Only a client that sees a replica set's members judges it; a router judges for itself.
pub(super) fn check(
    preference: &ReadPreference,
    topology: &TopologyDescription,
    settings: &Settings,
) -> Result<(), SelectionError> {
    let Some(given) = preference.max_staleness() else { return Ok(()) };
    let least =
        SMALLEST_MAX_STALENESS.max(settings.heartbeat_frequency.saturating_add(IDLE_WRITE_PERIOD));
    match topology.topology_type {
        TopologyType::ReplicaSetNoPrimary | TopologyType::ReplicaSetWithPrimary
            if given < least =>
        {
            Err(SelectionError::MaxStalenessTooSmall { given, least })
        }
        TopologyType::ReplicaSetNoPrimary
        | TopologyType::ReplicaSetWithPrimary
        | TopologyType::Single
        | TopologyType::Sharded
        | TopologyType::LoadBalanced
        | TopologyType::Unknown => Ok(()),
    }
}

/// Keeps the primary and those secondaries that are known to be fresh enough.
pub(super) fn retain_fresh(
    members: &mut Vec<&ServerDescription>,
    topology: &TopologyDescription,
    max_staleness: Duration,
    settings: &Settings,
) {
    let limit = millis(max_staleness);
    members.retain(|member| {
        member.server_type != ServerType::RsSecondary
            || staleness_ms(member, topology, settings).is_some_and(|lag| lag <= limit)
    });
}

/// How stale the secondary will be just before it is checked again, in milliseconds; negative if
/// its clock or the primary's was read at an unlucky moment, none if it did not say enough.
pub(super) fn staleness_ms(
    secondary: &ServerDescription,
    topology: &TopologyDescription,
    settings: &Settings,
) -> Option<i128> {
    let lag = match topology.primary() {
        Some(primary) => {
            let checked_apart =
                signed_millis(secondary.last_update_time?, primary.last_update_time?);
            checked_apart + written(primary)? - written(secondary)?
        }
        None => latest_secondary_write(topology)? - written(secondary)?,
    };
    Some(lag + millis(settings.heartbeat_frequency))
}

fn latest_secondary_write(topology: &TopologyDescription) -> Option<i128> {
    let members = topology.servers.values();
    members.filter(|server| server.server_type == ServerType::RsSecondary).filter_map(written).max()
}

fn written(server: &ServerDescription) -> Option<i128> {
    server.last_write_date.map(|date| date.timestamp_millis().into())
}

fn signed_millis(later: Instant, earlier: Instant) -> i128 {
    millis(later.saturating_duration_since(earlier))
        - millis(earlier.saturating_duration_since(later))
}

fn millis(duration: Duration) -> i128 {
    i128::try_from(duration.as_millis()).unwrap_or(i128::MAX / 4)
}
