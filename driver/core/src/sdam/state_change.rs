//! Errors by which a server says that it is not what it is taken for.

use super::input::CommandFailure;
use crate::retry::codes;

/// In which way a server is not what it is taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateChange {
    /// It is a member, but not the primary.
    NotWritablePrimary,
    /// It is a member, but cannot be used at present.
    Recovering,
    /// It is about to be gone, and its connections with it.
    ShuttingDown,
}

impl StateChange {
    /// The state change that an error tells of: by its code alone if it has one, otherwise by its
    /// message.
    pub fn of(code: Option<i32>, message: &str) -> Option<Self> {
        match code {
            Some(code) => Self::of_code(code),
            None => Self::of_message(message),
        }
    }

    fn of_code(code: i32) -> Option<Self> {
        match code {
            codes::SHUTDOWN_IN_PROGRESS | codes::INTERRUPTED_AT_SHUTDOWN => {
                Some(Self::ShuttingDown)
            }
            codes::PRIMARY_STEPPED_DOWN
            | codes::INTERRUPTED_DUE_TO_REPL_STATE_CHANGE
            | codes::NOT_PRIMARY_OR_SECONDARY => Some(Self::Recovering),
            codes::LEGACY_NOT_PRIMARY
            | codes::NOT_WRITABLE_PRIMARY
            | codes::NOT_PRIMARY_NO_SECONDARY_OK => Some(Self::NotWritablePrimary),
            _ => None,
        }
    }

    fn of_message(message: &str) -> Option<Self> {
        if message.contains("not master or secondary") || message.contains("node is recovering") {
            Some(Self::Recovering)
        } else if message.contains("not master") {
            Some(Self::NotWritablePrimary)
        } else {
            None
        }
    }
}

impl CommandFailure {
    /// The state change that it tells of.
    pub fn state_change(&self) -> Option<StateChange> {
        // Code zero is how some servers spell "no code".
        StateChange::of(self.code.filter(|&code| code != 0), &self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_messages_tell_of_state_changes() {
        use StateChange::{NotWritablePrimary, Recovering, ShuttingDown};
        for (code, message, expected) in [
            (Some(91), "", Some(ShuttingDown)),
            (Some(11600), "", Some(ShuttingDown)),
            (Some(11602), "", Some(Recovering)),
            (Some(13436), "", Some(Recovering)),
            (Some(189), "", Some(Recovering)),
            (Some(10107), "", Some(NotWritablePrimary)),
            (Some(13435), "", Some(NotWritablePrimary)),
            (Some(10058), "", Some(NotWritablePrimary)),
            (Some(1), "not master; node is recovering", None),
            (None, "not master or secondary; cannot read", Some(Recovering)),
            (None, "the node is recovering", Some(Recovering)),
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
