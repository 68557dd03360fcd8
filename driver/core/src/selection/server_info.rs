//! What an application's own selector gets to see of a server.

use std::{
    borrow::Cow,
    fmt,
    time::{Duration, Instant},
};

use crate::{
    address::ServerAddress,
    description::{ServerDescription, ServerType, TagSet},
};

/// What is known of a server, to be asked and not to be changed.
#[derive(Clone, PartialEq)]
pub struct ServerInfo<'a> {
    description: Cow<'a, ServerDescription>,
}

impl ServerInfo<'_> {
    /// Where the client connects to.
    pub fn address(&self) -> &ServerAddress {
        &self.description.address
    }

    /// What it is.
    pub fn server_type(&self) -> ServerType {
        self.description.server_type
    }

    /// The moving average of its round trips, by which the latency window is drawn.
    pub fn average_round_trip_time(&self) -> Option<Duration> {
        self.description.average_round_trip_time
    }

    /// When the server was last heard of.
    pub fn last_update_time(&self) -> Option<Instant> {
        self.description.last_update_time
    }

    /// The highest wire version it speaks.
    pub fn max_wire_version(&self) -> Option<i32> {
        self.known(self.description.max_wire_version)
    }

    /// The lowest wire version it speaks.
    pub fn min_wire_version(&self) -> Option<i32> {
        self.known(self.description.min_wire_version)
    }

    /// The name of its replica set.
    pub fn replica_set_name(&self) -> Option<&str> {
        self.description.set_name.as_deref()
    }

    /// The version of its replica set's configuration.
    pub fn replica_set_version(&self) -> Option<i32> {
        self.description.set_version
    }

    /// Its tags.
    pub fn tags(&self) -> Option<&TagSet> {
        self.known(&self.description.tags)
    }

    /// Why the server is unknown, if an error was the reason.
    pub fn error(&self) -> Option<&str> {
        self.description.error.as_deref()
    }

    fn known<T>(&self, value: T) -> Option<T> {
        self.description.is_available().then_some(value)
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
