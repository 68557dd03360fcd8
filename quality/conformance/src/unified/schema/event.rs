//! Expected events (`expectEvents`).

use bson::Document;
use serde::Deserialize;

use super::primitives::EmptyDocument;

/// Expected events of one client.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "ExpectedEventsFields")]
pub(crate) struct ExpectedEventsForClient {
    pub(crate) client: String,
    pub(crate) family: EventFamily,
    pub(crate) events: Vec<EventExpectation>,
    pub(crate) ignore_extra_events: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ExpectedEventsFields {
    client: String,
    event_type: Option<EventFamily>,
    events: Vec<EventExpectation>,
    #[serde(default)]
    ignore_extra_events: bool,
}

impl TryFrom<ExpectedEventsFields> for ExpectedEventsForClient {
    type Error = String;

    fn try_from(fields: ExpectedEventsFields) -> Result<Self, Self::Error> {
        let ExpectedEventsFields { client, event_type, events, ignore_extra_events } = fields;
        let family = event_type.unwrap_or(EventFamily::Command);
        match events.iter().find(|event| event.family() != family) {
            Some(stray) => Err(format!("{stray:?} among events of type {family:?}")),
            None => Ok(Self { client, family, events, ignore_extra_events }),
        }
    }
}

/// Family of events (`eventType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum EventFamily {
    Command,
    Cmap,
    Sdam,
}

/// An expected event.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::enum_variant_names, reason = "the names are those of the test files")]
pub(crate) enum EventExpectation {
    CommandStartedEvent(CommandStarted),
    CommandSucceededEvent(CommandSucceeded),
    CommandFailedEvent(CommandFailed),
    PoolCreatedEvent(EmptyDocument),
    PoolReadyEvent(EmptyDocument),
    PoolClearedEvent(PoolCleared),
    PoolClosedEvent(EmptyDocument),
    ConnectionCreatedEvent(EmptyDocument),
    ConnectionReadyEvent(EmptyDocument),
    ConnectionClosedEvent(Reason),
    ConnectionCheckOutStartedEvent(EmptyDocument),
    ConnectionCheckOutFailedEvent(Reason),
    ConnectionCheckedOutEvent(EmptyDocument),
    ConnectionCheckedInEvent(EmptyDocument),
    ServerDescriptionChangedEvent(DescriptionChange<ServerKind>),
    ServerHeartbeatStartedEvent(Heartbeat),
    ServerHeartbeatSucceededEvent(Heartbeat),
    ServerHeartbeatFailedEvent(Heartbeat),
    TopologyDescriptionChangedEvent(DescriptionChange<TopologyKind>),
    TopologyOpeningEvent(EmptyDocument),
    TopologyClosedEvent(EmptyDocument),
}

impl EventExpectation {
    /// Returns true for a command-started event of this command.
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

/// Declares an expected command event: its own fields, and the fields that all command events have.
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

/// Expected fields that all command events have.
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

/// Expected descriptions before and after a change.
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
    /// Returns true if a description of this type is expected. The variants have the names of the types.
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
