//! The events that a test expects.

use bson::Document;
use serde::Deserialize;

use super::primitives::Nothing;

/// The events expected of one client.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "Fields")]
pub(crate) struct ExpectedEventsForClient {
    pub(crate) client: String,
    pub(crate) family: EventFamily,
    pub(crate) events: Vec<EventExpectation>,
    pub(crate) ignore_extra_events: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Fields {
    client: String,
    event_type: Option<EventFamily>,
    events: Vec<EventExpectation>,
    #[serde(default)]
    ignore_extra_events: bool,
}

impl TryFrom<Fields> for ExpectedEventsForClient {
    type Error = String;

    fn try_from(fields: Fields) -> Result<Self, Self::Error> {
        let Fields { client, event_type, events, ignore_extra_events } = fields;
        let family = event_type.unwrap_or(EventFamily::Command);
        match events.iter().find(|event| event.family() != family) {
            Some(stray) => Err(format!("{stray:?} among events of type {family:?}")),
            None => Ok(Self { client, family, events, ignore_extra_events }),
        }
    }
}

/// What events are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum EventFamily {
    Command,
    Cmap,
    Sdam,
}

/// An event that is expected, and what must be true of it.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::enum_variant_names, reason = "the names are those of the test files")]
pub(crate) enum EventExpectation {
    CommandStartedEvent(CommandStarted),
    CommandSucceededEvent(CommandSucceeded),
    CommandFailedEvent(CommandFailed),
    PoolCreatedEvent(Nothing),
    PoolReadyEvent(Nothing),
    PoolClearedEvent(PoolCleared),
    PoolClosedEvent(Nothing),
    ConnectionCreatedEvent(Nothing),
    ConnectionReadyEvent(Nothing),
    ConnectionClosedEvent(Reason),
    ConnectionCheckOutStartedEvent(Nothing),
    ConnectionCheckOutFailedEvent(Reason),
    ConnectionCheckedOutEvent(Nothing),
    ConnectionCheckedInEvent(Nothing),
    ServerDescriptionChangedEvent(DescriptionChange<ServerKind>),
    ServerHeartbeatStartedEvent(Heartbeat),
    ServerHeartbeatSucceededEvent(Heartbeat),
    ServerHeartbeatFailedEvent(Heartbeat),
    TopologyDescriptionChangedEvent(DescriptionChange<TopologyKind>),
    TopologyOpeningEvent(Nothing),
    TopologyClosedEvent(Nothing),
}

impl EventExpectation {
    /// Whether it is that a command of this name was sent.
    pub(crate) fn is_start_of(&self, command: &str) -> bool {
        match self {
            Self::CommandStartedEvent(event) => event.common().command_name == Some(command),
            _ => false,
        }
    }

    pub(crate) fn family(&self) -> EventFamily {
        match self {
            Self::CommandStartedEvent(_)
            | Self::CommandSucceededEvent(_)
            | Self::CommandFailedEvent(_) => EventFamily::Command,
            Self::PoolCreatedEvent(_)
            | Self::PoolReadyEvent(_)
            | Self::PoolClearedEvent(_)
            | Self::PoolClosedEvent(_)
            | Self::ConnectionCreatedEvent(_)
            | Self::ConnectionReadyEvent(_)
            | Self::ConnectionClosedEvent(_)
            | Self::ConnectionCheckOutStartedEvent(_)
            | Self::ConnectionCheckOutFailedEvent(_)
            | Self::ConnectionCheckedOutEvent(_)
            | Self::ConnectionCheckedInEvent(_) => EventFamily::Cmap,
            Self::ServerDescriptionChangedEvent(_)
            | Self::ServerHeartbeatStartedEvent(_)
            | Self::ServerHeartbeatSucceededEvent(_)
            | Self::ServerHeartbeatFailedEvent(_)
            | Self::TopologyDescriptionChangedEvent(_)
            | Self::TopologyOpeningEvent(_)
            | Self::TopologyClosedEvent(_) => EventFamily::Sdam,
        }
    }
}

/// Declares what is expected of an event of a command: its own fields and those that all have.
macro_rules! command_event {
    ($name:ident { $($field:ident),* }) => {
        #[derive(Clone, Debug, Deserialize)]
        #[serde(rename_all = "camelCase", deny_unknown_fields)]
        pub(crate) struct $name {
            $( pub(crate) $field: Option<Document>, )*
            command_name: Option<String>,
            database_name: Option<String>,
            has_service_id: Option<bool>,
            has_server_connection_id: Option<bool>,
        }

        impl $name {
            pub(crate) fn common(&self) -> CommandExpectation<'_> {
                CommandExpectation {
                    command_name: self.command_name.as_deref(),
                    database_name: self.database_name.as_deref(),
                    has_service_id: self.has_service_id,
                    has_server_connection_id: self.has_server_connection_id,
                }
            }
        }
    };
}
command_event!(CommandStarted { command });
command_event!(CommandSucceeded { reply });
command_event!(CommandFailed {});

/// What is expected of any event of a command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommandExpectation<'a> {
    pub(crate) command_name: Option<&'a str>,
    pub(crate) database_name: Option<&'a str>,
    pub(crate) has_service_id: Option<bool>,
    pub(crate) has_server_connection_id: Option<bool>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct PoolCleared {
    pub(crate) has_service_id: Option<bool>,
    pub(crate) interrupt_in_use_connections: Option<bool>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Reason {
    pub(crate) reason: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Heartbeat {
    pub(crate) awaited: Option<bool>,
}

/// A description before and after.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct DescriptionChange<K> {
    pub(crate) previous_description: Option<DescriptionKind<K>>,
    pub(crate) new_description: Option<DescriptionKind<K>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DescriptionKind<K> {
    #[serde(rename = "type")]
    kind: Option<K>,
}

impl<K: std::fmt::Debug> DescriptionKind<K> {
    /// Whether a description of this type will do. The variants are named as the types are.
    pub(crate) fn allows(&self, name: &str) -> bool {
        self.kind.as_ref().is_none_or(|kind| format!("{kind:?}") == name)
    }
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) enum ServerKind {
    Standalone,
    Mongos,
    PossiblePrimary,
    RSPrimary,
    RSSecondary,
    RSOther,
    RSArbiter,
    RSGhost,
    LoadBalancer,
    Unknown,
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) enum TopologyKind {
    Single,
    Unknown,
    ReplicaSetNoPrimary,
    ReplicaSetWithPrimary,
    Sharded,
    LoadBalanced,
}
