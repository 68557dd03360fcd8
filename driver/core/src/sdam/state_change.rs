//! State change errors: a server reports that it is not writable, recovering or shutting down.

use super::input::CommandFailure;
use crate::retry::codes;

/// State change error of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateChangeError {
    /// "Not writable primary": the server is a member, but not the primary.
    NotWritablePrimary,
    /// "Node is recovering": the server is a member, but not available at present.
    NodeIsRecovering,
    /// "Node is shutting down": its connections will be closed.
    NodeIsShuttingDown,
}

impl StateChangeError {
    /// Classifies an error by its code or, without a code, by its message.
    pub fn of(code: Option<i32>, message: &str) -> Option<Self> {
        match code {
            Some(code) => Self::of_code(code),
            None => Self::of_message(message),
        }
    }

    fn of_code(code: i32) -> Option<Self> {
        match code {
            codes::SHUTDOWN_IN_PROGRESS | codes::INTERRUPTED_AT_SHUTDOWN => {
                Some(Self::NodeIsShuttingDown)
            }
            codes::PRIMARY_STEPPED_DOWN
            | codes::INTERRUPTED_DUE_TO_REPL_STATE_CHANGE
            | codes::NOT_PRIMARY_OR_SECONDARY => Some(Self::NodeIsRecovering),
            codes::LEGACY_NOT_PRIMARY
            | codes::NOT_WRITABLE_PRIMARY
            | codes::NOT_PRIMARY_NO_SECONDARY_OK => Some(Self::NotWritablePrimary),
            _ => None,
        }
    }

    fn of_message(message: &str) -> Option<Self> {
        if message.contains("not master or secondary") || message.contains("node is recovering") {
            Some(Self::NodeIsRecovering)
        } else if message.contains("not master") {
            Some(Self::NotWritablePrimary)
        } else {
            None
        }
    }
}

impl CommandFailure {
    /// Returns the state change error, if it is one.
    pub fn state_change(&self) -> Option<StateChangeError> {
        // Some servers send code 0 for "no code".
        StateChangeError::of(self.code.filter(|&code| code != 0), &self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_change_errors_are_classified_by_code_then_message() {
        use StateChangeError::{NodeIsRecovering, NodeIsShuttingDown, NotWritablePrimary};
        for (code, message, expected) in [
            (Some(91), "", Some(NodeIsShuttingDown)),
            (Some(11600), "", Some(NodeIsShuttingDown)),
            (Some(11602), "", Some(NodeIsRecovering)),
            (Some(13436), "", Some(NodeIsRecovering)),
            (Some(189), "", Some(NodeIsRecovering)),
            (Some(10107), "", Some(NotWritablePrimary)),
            (Some(13435), "", Some(NotWritablePrimary)),
            (Some(10058), "", Some(NotWritablePrimary)),
            (Some(1), "not master; node is recovering", None),
            (None, "not master or secondary; cannot read", Some(NodeIsRecovering)),
            (None, "the node is recovering", Some(NodeIsRecovering)),
            (None, "not master and slaveOk=false", Some(NotWritablePrimary)),
            (Some(0), "not master", Some(NotWritablePrimary)),
            (None, "duplicate key", None),
        ] {
            let failure =
                CommandFailure { code, message: message.to_owned(), ..CommandFailure::default() };
            assert_eq!(failure.state_change(), expected, "{code:?} {message}");
        }
    }
}
