//! Prose tests of server discovery and monitoring: those of the test plan, numbered in their order there, and those
//! of streaming, round-trip time and heartbeats.
//!
//! Omitted: OP_QUERY replies to reads in 6, because the driver does not send OP_QUERY; 10, which requires MongoDB
//! 7.0. In 3, the plan forbids an immediate check, which the specification itself now requires.

mod heartbeats;
mod plan;

use std::time::Duration;

use steadfast::options::ServerMonitoringMode;
use steadfast_core::description::{ServerDescription, ServerType, TopologyType};

use super::*;

/// Heartbeat frequency that no test reaches: an earlier heartbeat is an immediate check.
const LONG_HEARTBEAT: Duration = Duration::from_secs(600);

/// Runs a failing operation on a client that has discovered all members. Returns the previous and the next server
/// type, and the topology type.
async fn fail_and_observe<T: std::fmt::Debug>(
    observed: &ProseClient,
    operation: impl IntoFuture<Output = Result<T, Error>>,
) -> (ServerDescription, ServerDescription, TopologyType) {
    let before = observed.servers.seen().len();
    let error = bounded(operation).await.expect_err("it is rejected");
    let lost = |seen: &[SdamEvent]| {
        seen[before..].iter().find_map(|event| match event {
            SdamEvent::ServerDescriptionChanged(event) => Some(event.clone()),
            _ => None,
        })
    };
    observed.servers.wait_until(|seen| lost(seen).is_some()).await;
    let lost = lost(&observed.servers.seen()).expect("it was waited for");
    assert_eq!(error.server_address(), Some(&lost.address), "{error:?}");
    let with_it = |event: &SdamEvent| match event {
        SdamEvent::TopologyDescriptionChanged(event) => Some(event.new_description.topology_type),
        _ => None,
    };
    observed.servers.wait_until(|seen| seen[before..].iter().any(|it| with_it(it).is_some())).await;
    let topology = observed.servers.seen()[before..].iter().find_map(with_it).expect("seen");
    (lost.previous_description, lost.new_description, topology)
}

/// Waits until a client has discovered this number of available members.
async fn all_known(observed: &ProseClient, members: usize) {
    let is_complete = |event: &SdamEvent| {
        let SdamEvent::TopologyDescriptionChanged(event) = event else { return false };
        let servers = &event.new_description.servers;
        servers.len() == members
            && servers.values().all(|server| server.server_type.is_data_bearing())
    };
    observed.servers.wait_for(1, is_complete).await;
}

/// Returns `true` if the event changes the server to this type.
fn found(event: &SdamEvent, address: &ServerAddress, kind: ServerType) -> bool {
    matches!(event, SdamEvent::ServerDescriptionChanged(event)
        if event.address == *address && event.new_description.server_type == kind)
}
