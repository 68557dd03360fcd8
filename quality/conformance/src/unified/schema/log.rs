//! Expected log messages (`expectLogMessages`).

use bson::Document;
use serde::Deserialize;

/// Component of a log message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Component {
    Command,
    Topology,
    ServerSelection,
    Connection,
}

/// Severity of a log message, the most severe first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Severity {
    Emergency,
    Alert,
    Critical,
    Error,
    Warning,
    Notice,
    Info,
    Debug,
    Trace,
}

/// Observed log messages of a client: the lowest severity of each component.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "LogComponentFields")]
pub(crate) struct LogComponents(LogComponentFields);

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct LogComponentFields {
    command: Option<Severity>,
    topology: Option<Severity>,
    server_selection: Option<Severity>,
    connection: Option<Severity>,
}

impl TryFrom<LogComponentFields> for LogComponents {
    type Error = &'static str;

    fn try_from(fields: LogComponentFields) -> Result<Self, Self::Error> {
        let LogComponentFields { command, topology, server_selection, connection } = fields;
        if [command, topology, server_selection, connection].iter().all(Option::is_none) {
            return Err("no component is observed");
        }
        Ok(Self(fields))
    }
}

impl LogComponents {
    pub(crate) fn includes(&self, component: Component, severity: Severity) -> bool {
        let least = match component {
            Component::Command => self.0.command,
            Component::Topology => self.0.topology,
            Component::ServerSelection => self.0.server_selection,
            Component::Connection => self.0.connection,
        };
        least.is_some_and(|least| severity <= least)
    }
}

/// Expected messages of one client.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ExpectedLogMessagesForClient {
    pub(crate) client: String,
    pub(crate) messages: Vec<ExpectedLogMessage>,
    #[serde(default)]
    pub(crate) ignore_messages: Vec<ExpectedLogMessage>,
    #[serde(default)]
    pub(crate) ignore_extra_messages: bool,
}

/// An expected message.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ExpectedLogMessage {
    pub(crate) level: Severity,
    pub(crate) component: Component,
    pub(crate) failure_is_redacted: Option<bool>,
    pub(crate) data: Document,
}
