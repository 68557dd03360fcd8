//! The prose tests of server discovery and monitoring: those of its test plan, numbered here in the
//! order in which they stand there, and those of streaming, round trips and heartbeats.
//!
//! Left out: of 6, the replies of OP_QUERY to reads, which are not sent by OP_QUERY; 10, it needs
//! servers of version 7.0. In 3, the plan forbids to check the server again at once, which the
//! specification itself has since come to demand.

mod heartbeats;
mod plan;

use std::time::Duration;

use steadfast::options::ServerMonitoringMode;
use steadfast_core::description::{ServerDescription, ServerType, TopologyType};

use super::*;

/// Longer than any test takes: who sees a heartbeat sooner sees one that was asked for.
const LONG_HEARTBEAT: Duration = Duration::from_secs(600);

/// Has a client that knows all members run what fails, and gives what the server was taken for
/// before, what it is taken for next, and what the topology is with that.
async fn fail_and_observe<T: std::fmt::Debug>(
    observed: &ProseClient,
    operation: impl IntoFuture<Output = Result<T, Error>>,
) -> (ServerDescription, ServerDescription, TopologyType) {
    let before = observed.servers.seen().len();
    let error = bounded(operation).await.expect_err("it is refused");
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

/// Waits until a client has found so many members, all of them usable.
async fn all_known(observed: &ProseClient, members: usize) {
    let is_complete = |event: &SdamEvent| {
        let SdamEvent::TopologyDescriptionChanged(event) = event else { return false };
        let servers = &event.new_description.servers;
        servers.len() == members
            && servers.values().all(|server| server.server_type.is_data_bearing())
    };
    observed.servers.wait_for(1, is_complete).await;
}

/// Whether the event tells that this server was found to be of this kind.
fn found(event: &SdamEvent, address: &ServerAddress, kind: ServerType) -> bool {
    matches!(event, SdamEvent::ServerDescriptionChanged(event)
        if event.address == *address && event.new_description.server_type == kind)
}
