//! Of commands: started, succeeded, failed.
//!
//! Each [`CommandStartedEvent`] is followed by exactly one [`CommandSucceededEvent`] or
//! [`CommandFailedEvent`] of the same `request_id`, also when the future of the call was dropped.
//! Commands that carry secrets are shown without their content.

use std::time::Duration;

use bson::{Document, oid::ObjectId};
use steadfast_core::address::ServerAddress;

use crate::error::Error;

/// Which connection a command went through.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ConnectionInfo {
    /// The driver's number for the connection, counted for each server from 1.
    pub id: u32,
    /// The server's number for it.
    pub server_id: Option<i64>,
    /// The server.
    pub address: ServerAddress,
}

/// A command is about to be sent.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CommandStartedEvent {
    /// The command, as it goes out; empty if it must not be shown.
    pub command: Document,
    /// The database it runs on.
    pub db: String,
    /// Its name.
    pub command_name: String,
    /// The number of this message; a second attempt has another.
    pub request_id: i32,
    /// The number of the operation; the same for all its attempts and batches.
    pub operation_id: i64,
    /// The connection it goes through.
    pub connection: ConnectionInfo,
    /// Behind a load balancer, the service.
    pub service_id: Option<ObjectId>,
}

/// A command was answered with success.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CommandSucceededEvent {
    /// How long it took.
    pub duration: Duration,
    /// The reply; empty if it must not be shown.
    pub reply: Document,
    /// The command's name.
    pub command_name: String,
    /// The database it ran on.
    pub db: String,
    /// As in the event of its start.
    pub request_id: i32,
    /// As in the event of its start.
    pub operation_id: i64,
    /// As in the event of its start.
    pub connection: ConnectionInfo,
    /// As in the event of its start.
    pub service_id: Option<ObjectId>,
}

/// A command was refused, or no answer came.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CommandFailedEvent {
    /// How long it took.
    pub duration: Duration,
    /// Why; without the server's message if that must not be shown.
    pub failure: Error,
    /// The command's name.
    pub command_name: String,
    /// The database it ran on.
    pub db: String,
    /// As in the event of its start.
    pub request_id: i32,
    /// As in the event of its start.
    pub operation_id: i64,
    /// As in the event of its start.
    pub connection: ConnectionInfo,
    /// As in the event of its start.
    pub service_id: Option<ObjectId>,
}

/// An event of a command.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum CommandEvent {
    /// It is about to be sent.
    Started(CommandStartedEvent),
    /// It was answered with success.
    Succeeded(CommandSucceededEvent),
    /// It was refused, or no answer came.
    Failed(CommandFailedEvent),
}

/// Whether the content of a command and of its reply must not be shown (pitfall 40).
///
/// A `hello` is sensitive when it carries the first step of logging in.
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
    fn commands_with_secrets_are_known() {
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
