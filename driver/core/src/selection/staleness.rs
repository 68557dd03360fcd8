//! Staleness of secondaries, estimated from their latest heartbeats.

use std::time::{Duration, Instant};

use super::{SelectionError, SelectionSettings};
use crate::{
    description::{ServerDescription, ServerType, TopologyDescription, TopologyType},
    read_preference::ReadPreference,
};

/// Minimum of `maxStalenessSeconds`: 90 seconds.
pub const SMALLEST_MAX_STALENESS: Duration = Duration::from_secs(90);

/// Interval of no-op writes of an idle primary, by which a secondary can appear stale.
const IDLE_WRITE_PERIOD: Duration = Duration::from_secs(10);

/// Checks that `maxStalenessSeconds` exceeds the uncertainty of the estimate.
///
/// Applies to replica sets only: a mongos checks the value itself.
pub(super) fn check(
    preference: &ReadPreference,
    topology: &TopologyDescription,
    settings: &SelectionSettings,
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

/// Keeps the primary and the secondaries that are known to be fresh enough.
pub(super) fn retain_fresh(
    members: &mut Vec<&ServerDescription>,
    topology: &TopologyDescription,
    max_staleness: Duration,
    settings: &SelectionSettings,
) {
    let limit = millis(max_staleness);
    members.retain(|member| {
        member.server_type != ServerType::RsSecondary
            || staleness_ms(member, topology, settings).is_some_and(|lag| lag <= limit)
    });
}

/// Returns the estimated staleness of a secondary at its next heartbeat, in milliseconds. It is
/// negative if the clocks or the times of the heartbeats differ unfavourably, and `None` if a
/// server does not report `lastWriteDate`.
pub(super) fn staleness_ms(
    secondary: &ServerDescription,
    topology: &TopologyDescription,
    settings: &SelectionSettings,
) -> Option<i128> {
    let lag = match topology.primary() {
        Some(primary) => {
            let checked_apart =
                signed_millis(secondary.last_update_time?, primary.last_update_time?);
            checked_apart + last_write_ms(primary)? - last_write_ms(secondary)?
        }
        None => latest_secondary_write(topology)? - last_write_ms(secondary)?,
    };
    Some(lag + millis(settings.heartbeat_frequency))
}

fn latest_secondary_write(topology: &TopologyDescription) -> Option<i128> {
    let members = topology.servers.values();
    members
        .filter(|server| server.server_type == ServerType::RsSecondary)
        .filter_map(last_write_ms)
        .max()
}

fn last_write_ms(server: &ServerDescription) -> Option<i128> {
    server.last_write_date.map(|date| date.timestamp_millis().into())
}

fn signed_millis(later: Instant, earlier: Instant) -> i128 {
    millis(later.saturating_duration_since(earlier))
        - millis(earlier.saturating_duration_since(later))
}

fn millis(duration: Duration) -> i128 {
    i128::try_from(duration.as_millis()).unwrap_or(i128::MAX / 4)
}
