//! Methods of descriptions, for handlers of events.

use std::{
    collections::BTreeMap,
    fmt,
    time::{Duration, Instant},
};

use bson::oid::ObjectId;

use super::{ServerDescription, ServerType, TagSet, TopologyDescription, TopologyType};
use crate::{
    address::ServerAddress,
    selection::{self, SelectionCriteria, SelectionSettings, SelectionTarget, ServerInfo},
};

impl ServerDescription {
    /// Returns the address that the client connects to.
    pub fn address(&self) -> &ServerAddress {
        &self.address
    }

    /// Returns the type of the server.
    pub fn server_type(&self) -> ServerType {
        self.server_type
    }

    /// Returns the moving average of the round trip times, which the latency window is based on.
    pub fn average_round_trip_time(&self) -> Option<Duration> {
        self.average_round_trip_time
    }

    /// Returns the time of the latest check or error.
    pub fn last_update_time(&self) -> Option<Instant> {
        self.last_update_time
    }

    /// Returns the maximum wire version (`maxWireVersion`).
    pub fn max_wire_version(&self) -> Option<i32> {
        self.known(self.max_wire_version)
    }

    /// Returns the minimum wire version (`minWireVersion`).
    pub fn min_wire_version(&self) -> Option<i32> {
        self.known(self.min_wire_version)
    }

    /// Returns the name of the replica set (`setName`).
    pub fn replica_set_name(&self) -> Option<&str> {
        self.set_name.as_deref()
    }

    /// Returns the version of the replica set configuration (`setVersion`).
    pub fn replica_set_version(&self) -> Option<i32> {
        self.set_version
    }

    /// Returns the tags of the server (`tags`).
    pub fn tags(&self) -> Option<&TagSet> {
        self.known(&self.tags)
    }

    /// Returns the error of the check, if the server is Unknown because of one.
    pub fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    fn known<T>(&self, value: T) -> Option<T> {
        self.is_available().then_some(value)
    }
}

impl TopologyDescription {
    /// Returns the type of the topology.
    pub fn topology_type(&self) -> TopologyType {
        self.topology_type
    }

    /// Returns the name of the replica set (`setName`).
    pub fn set_name(&self) -> Option<&String> {
        self.set_name.as_ref()
    }

    /// Returns the highest `setVersion` of a primary.
    pub fn max_set_version(&self) -> Option<i32> {
        self.max_set_version
    }

    /// Returns the highest `electionId` of a primary.
    pub fn max_election_id(&self) -> Option<ObjectId> {
        self.max_election_id
    }

    /// Returns the error if the wire versions of a server are not supported by this driver.
    pub fn compatibility_error(&self) -> Option<&String> {
        self.compatibility_error.as_ref()
    }

    /// Returns all servers, ordered by address.
    pub fn servers(&self) -> BTreeMap<&ServerAddress, ServerInfo<'_>> {
        self.servers.iter().map(|(address, server)| (address, server.into())).collect()
    }

    /// Returns `true` if a server satisfies the criteria. They default to the primary.
    pub fn has_readable_server(&self, selection_criteria: Option<SelectionCriteria>) -> bool {
        let criteria = selection_criteria.unwrap_or_default();
        let settings = SelectionSettings::default();
        selection::suitable(self, SelectionTarget::Read(&criteria), &[], &settings)
            .is_ok_and(|servers| !servers.is_empty())
    }
}

/// Formats the description in one line, as in log messages.
impl fmt::Display for TopologyDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{ Type: {}", self.topology_type)?;
        if let Some(name) = &self.set_name {
            write!(f, ", Set Name: {name}")?;
        }
        if let Some(version) = self.max_set_version {
            write!(f, ", Max Set Version: {version}")?;
        }
        if let Some(id) = self.max_election_id {
            write!(f, ", Max Election ID: {id}")?;
        }
        if let Some(error) = &self.compatibility_error {
            write!(f, ", Compatibility Error: {error}")?;
        }
        if let Some(timeout) = self.logical_session_timeout {
            write!(f, ", Logical Session Timeout: {} s", timeout.as_secs())?;
        }
        f.write_str(", Servers: [")?;
        for (position, server) in self.servers.values().enumerate() {
            f.write_str(if position == 0 { " " } else { ", " })?;
            write!(f, "{}", ServerInfo::from(server))?;
        }
        f.write_str(if self.servers.is_empty() { "] }" } else { " ] }" })
    }
}

/// Formats the description in one line, as in log messages.
impl fmt::Display for ServerDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        ServerInfo::from(self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read_preference::ReadPreference;

    #[test]
    fn topology_with_a_secondary_is_readable_by_secondary_preference_only() {
        let address = ServerAddress::parse("a").unwrap();
        let mut server = ServerDescription::unknown(address.clone());
        assert_eq!(server.max_wire_version(), None);
        server.server_type = ServerType::RsSecondary;
        server.max_wire_version = 21;
        assert_eq!(server.max_wire_version(), Some(21));
        let topology_type = TopologyType::ReplicaSetNoPrimary;
        let mut topology = TopologyDescription { topology_type, ..TopologyDescription::default() };
        topology.servers.insert(address.clone(), server);
        assert!(!topology.has_readable_server(None));
        let secondary = SelectionCriteria::from(ReadPreference::secondary(None));
        assert!(topology.has_readable_server(Some(secondary)));
        assert_eq!(topology.servers()[&address].server_type(), ServerType::RsSecondary);
    }
}
