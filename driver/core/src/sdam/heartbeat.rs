//! Results of heartbeats as inputs of the topology.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{address::ServerAddress, description::ServerDescription};

use super::{
    CheckFailure, CheckFailureKind, CheckSuccess, Topology, TopologyEffect,
    transition::{ClearPool, FollowUp},
};

impl Topology {
    /// Applies a successful check.
    pub(super) fn check_succeeded(
        &mut self,
        address: ServerAddress,
        checked: &CheckSuccess,
        now: Instant,
    ) -> Vec<TopologyEffect> {
        let reply = &checked.reply;
        if !reply.ok {
            let message = reply.failure();
            let failure = CheckFailure { kind: CheckFailureKind::Command, message };
            return self.check_failed(address, failure, now);
        }
        if !self.is_monitored() {
            return Vec::new();
        }
        let Some(server) = self.servers.get_mut(&address) else { return Vec::new() };
        if let Some(round_trip) = checked.round_trip {
            server.round_trips.add(round_trip);
        }
        let described = ServerDescription::from_hello(address, reply, &server.round_trips, now);
        if self.is_outdated(&described) {
            return Vec::new();
        }
        self.describe(described, FollowUp::default(), now)
    }

    /// Applies a failed check.
    pub(super) fn check_failed(
        &mut self,
        address: ServerAddress,
        failure: CheckFailure,
        now: Instant,
    ) -> Vec<TopologyEffect> {
        if !self.is_monitored() {
            return Vec::new();
        }
        let Some(server) = self.servers.get_mut(&address) else { return Vec::new() };
        server.round_trips.reset();
        let clear = ClearPool {
            address: address.clone(),
            service_id: None,
            // A server that does not respond to its monitor will not respond to operations.
            interrupt_in_use: failure.kind == CheckFailureKind::NetworkTimeout,
        };
        let follow_up = FollowUp { clear: Some(clear), ..FollowUp::default() };
        let described = ServerDescription::unknown_because(address, failure.message, now);
        self.describe(described, follow_up, now)
    }

    /// Applies a round trip time measured apart from heartbeats.
    pub(super) fn round_trip_measured(
        &mut self,
        address: &ServerAddress,
        sample: Duration,
    ) -> Vec<TopologyEffect> {
        let Some(server) = self.servers.get_mut(address) else { return Vec::new() };
        server.round_trips.add(sample);
        let (average, minimum) = (server.round_trips.average(), server.round_trips.minimum());
        let description = Arc::make_mut(&mut self.description);
        match description.servers.get_mut(address) {
            Some(server) if server.is_available() => {
                server.average_round_trip_time = average;
                server.min_round_trip_time = minimum;
                vec![TopologyEffect::Publish(Arc::clone(&self.description))]
            }
            // The round trip time of an Unknown server is unknown, too.
            Some(_) | None => Vec::new(),
        }
    }

    /// Returns `true` if the current description has a newer `topologyVersion`.
    fn is_outdated(&self, described: &ServerDescription) -> bool {
        let current = self
            .description
            .servers
            .get(&described.address)
            .and_then(|server| server.topology_version);
        match (described.topology_version, current) {
            (Some(described), Some(current)) => described.is_older_than(current),
            (None, _) | (_, None) => false,
        }
    }
}
