//! Command events: started, succeeded and failed. See
//! [command monitoring](https://github.com/mongodb/specifications/blob/master/source/command-logging-and-monitoring/command-logging-and-monitoring.md).
//!
//! Each [`CommandStartedEvent`] is followed by exactly one [`CommandSucceededEvent`] or
//! [`CommandFailedEvent`] with the same `request_id`, also if the future of the operation is
//! dropped. Events of sensitive commands, such as those of authentication, have empty documents.

use std::time::Duration;

use bson::{Document, oid::ObjectId};
use serde::Serialize;
use steadfast_core::address::ServerAddress;

#[expect(deprecated, reason = "exported for applications that still implement it")]
pub use super::handlers::CommandEventHandler;
use crate::error::Error;

/// Connection of a command.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ConnectionInfo {
    /// Connection id assigned by the driver, counted from 1 for each server.
    pub id: u32,
    /// Connection id assigned by the server (`connectionId`).
    pub server_id: Option<i64>,
    /// Address of the server.
    pub address: ServerAddress,
}

/// A command is about to be sent.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CommandStartedEvent {
    /// Command as sent. Empty for sensitive commands.
    pub command: Document,
    /// Name of the database.
    pub db: String,
    /// Name of the command.
    pub command_name: String,
    /// Request id of the message. Each attempt has another.
    pub request_id: i32,
    /// Operation id, shared by all attempts and batches of an operation.
    pub operation_id: i64,
    /// Connection of the command.
    pub connection: ConnectionInfo,
    /// Service id behind a load balancer.
    pub service_id: Option<ObjectId>,
}

/// A command succeeded.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CommandSucceededEvent {
    /// Duration of the command.
    pub duration: Duration,
    /// Reply of the server. Empty for sensitive commands.
    pub reply: Document,
    /// Name of the command.
    pub command_name: String,
    /// Name of the database.
    pub db: String,
    /// Request id, as in the started event.
    pub request_id: i32,
    /// Operation id, as in the started event.
    pub operation_id: i64,
    /// Connection, as in the started event.
    pub connection: ConnectionInfo,
    /// Service id behind a load balancer.
    pub service_id: Option<ObjectId>,
}

/// A command failed: with an error reply or without a reply.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CommandFailedEvent {
    /// Duration of the command.
    pub duration: Duration,
    /// Error. The server's message is redacted for sensitive commands. Serialized as its text.
    #[serde(serialize_with = "crate::serde_helpers::as_text")]
    pub failure: Error,
    /// Name of the command.
    pub command_name: String,
    /// Name of the database.
    pub db: String,
    /// Request id, as in the started event.
    pub request_id: i32,
    /// Operation id, as in the started event.
    pub operation_id: i64,
    /// Connection, as in the started event.
    pub connection: ConnectionInfo,
    /// Service id behind a load balancer.
    pub service_id: Option<ObjectId>,
}

/// Event of a command.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum CommandEvent {
    /// A command is about to be sent.
    Started(CommandStartedEvent),
    /// A command succeeded.
    Succeeded(CommandSucceededEvent),
    /// A command failed.
    Failed(CommandFailedEvent),
}

/// Returns `true` for sensitive commands, whose contents must not appear in events (pitfall 40).
///
/// A `hello` is sensitive if it contains `speculativeAuthenticate`.
pub(crate) fn is_sensitive(name: &str, command: &bson::RawDocument) -> bool {
    const SECRET: [&str; 10] = [
        "authenticate",
        "saslStart",
        "saslContinue",
        "getnonce",
        "createUser",
        "updateUser",
        "copydbgetnonce",
        "copydbsaslstart",
        "copydb",
        "copydbSaslStart",
    ];
    SECRET.iter().any(|secret| secret.eq_ignore_ascii_case(name))
        || (["hello", "ismaster"].iter().any(|hello| hello.eq_ignore_ascii_case(name))
            && matches!(command.get("speculativeAuthenticate"), Ok(Some(_))))
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::is_sensitive;

    #[test]
    fn sensitive_commands_are_detected() {
        for name in ["saslStart", "SASLSTART", "saslContinue", "authenticate", "getnonce"] {
            assert!(is_sensitive(name, &rawdoc! {}), "{name}");
        }
        for name in ["createUser", "updateUser", "copydb", "copydbgetnonce", "copydbsaslstart"] {
            assert!(is_sensitive(name, &rawdoc! {}), "{name}");
        }
        for name in ["hello", "isMaster", "ismaster"] {
            assert!(is_sensitive(name, &rawdoc! { "speculativeAuthenticate": {} }), "{name}");
            assert!(!is_sensitive(name, &rawdoc! {}), "{name}");
        }
        assert!(!is_sensitive("insert", &rawdoc! { "speculativeAuthenticate": {} }));
    }
}
