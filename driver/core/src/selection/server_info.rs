//! Server information for the application's server selector.

use std::{
    borrow::Cow,
    fmt,
    time::{Duration, Instant},
};

use serde::{Serialize, Serializer};

use crate::{
    address::ServerAddress,
    description::{ServerDescription, ServerType, TagSet},
};

/// Read-only view of a server description.
#[derive(Clone, PartialEq)]
pub struct ServerInfo<'a> {
    description: Cow<'a, ServerDescription>,
}

impl ServerInfo<'_> {
    /// Returns the address that the client connects to.
    pub fn address(&self) -> &ServerAddress {
        &self.description.address
    }

    /// Returns the type of the server.
    pub fn server_type(&self) -> ServerType {
        self.description.server_type
    }

    /// Returns the moving average of the round trip times, which the latency window is based on.
    pub fn average_round_trip_time(&self) -> Option<Duration> {
        self.description.average_round_trip_time
    }

    /// Returns the time of the latest check or error.
    pub fn last_update_time(&self) -> Option<Instant> {
        self.description.last_update_time
    }

    /// Returns the maximum wire version (`maxWireVersion`).
    pub fn max_wire_version(&self) -> Option<i32> {
        self.description.max_wire_version()
    }

    /// Returns the minimum wire version (`minWireVersion`).
    pub fn min_wire_version(&self) -> Option<i32> {
        self.description.min_wire_version()
    }

    /// Returns the name of the replica set (`setName`).
    pub fn replica_set_name(&self) -> Option<&str> {
        self.description.set_name.as_deref()
    }

    /// Returns the version of the replica set configuration (`setVersion`).
    pub fn replica_set_version(&self) -> Option<i32> {
        self.description.set_version
    }

    /// Returns the tags of the server (`tags`).
    pub fn tags(&self) -> Option<&TagSet> {
        self.description.tags()
    }

    /// Returns the error of the check, if the server is Unknown because of one.
    pub fn error(&self) -> Option<&str> {
        self.description.error.as_deref()
    }
}

impl<'a> From<&'a ServerDescription> for ServerInfo<'a> {
    fn from(description: &'a ServerDescription) -> Self {
        Self { description: Cow::Borrowed(description) }
    }
}

impl From<ServerDescription> for ServerInfo<'_> {
    fn from(description: ServerDescription) -> Self {
        Self { description: Cow::Owned(description) }
    }
}

impl Serialize for ServerInfo<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.description.serialize(serializer)
    }
}

impl fmt::Debug for ServerInfo<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("ServerInfo");
        shown.field("address", self.address()).field("server_type", &self.server_type());
        if let Some(error) = self.error() {
            return shown.field("error", &error).finish();
        }
        shown
            .field("average_round_trip_time", &self.average_round_trip_time())
            .field("max_wire_version", &self.max_wire_version())
            .field("min_wire_version", &self.min_wire_version())
            .field("replica_set_name", &self.replica_set_name())
            .field("replica_set_version", &self.replica_set_version())
            .field("tags", &self.tags())
            .finish()
    }
}

impl fmt::Display for ServerInfo<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{ Address: {}, Type: {}", self.address(), self.server_type())?;
        if let Some(error) = self.error() {
            return write!(f, ", Error: {error} }}");
        }
        if let Some(time) = self.average_round_trip_time() {
            write!(f, ", Average RTT: {time:?}")?;
        }
        if let Some(name) = self.replica_set_name() {
            write!(f, ", Replica Set Name: {name}")?;
        }
        f.write_str(" }")
    }
}
