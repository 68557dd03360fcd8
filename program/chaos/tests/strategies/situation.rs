//! Faults of the events, as rules of the proxy.

use std::time::Duration;

use blackpipe::proxy::{Direction, Reaction, Rule};

/// Commands that increment the counter.
pub(super) const WRITES: [&str; 2] = ["update", "findAndModify"];
/// An error that is not transient.
const UNAUTHORIZED: i32 = 13;

/// Fault that an event is hit by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Situation {
    /// The connection breaks once before the server receives the request.
    LostRequest,
    /// The connection breaks once after the execution of the request and before the reply.
    LostReply,
    /// The primary steps down before it receives the request, and another primary is elected.
    StepDown,
    /// No server can be reached from the first request on.
    Outage,
    /// The server replies with an error that is not transient.
    CommandError,
}

impl Situation {
    pub(super) const ALL: [Self; 5] =
        [Self::LostRequest, Self::LostReply, Self::StepDown, Self::Outage, Self::CommandError];

    /// Title of the column.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::LostRequest => "lost request",
            Self::LostReply => "lost reply",
            Self::StepDown => "step-down",
            Self::Outage => "outage",
            Self::CommandError => "command error",
        }
    }

    /// Returns `true` if a retry can count the event.
    pub(super) fn is_transient(self) -> bool {
        matches!(self, Self::LostRequest | Self::LostReply | Self::StepDown)
    }

    /// Returns `serverSelectionTimeoutMS`: in an outage, longer than other delays, otherwise long enough for a busy
    /// machine.
    pub(super) fn server_selection_timeout(self) -> Duration {
        match self {
            Self::Outage => Duration::from_millis(250),
            Self::LostRequest | Self::LostReply | Self::StepDown | Self::CommandError => {
                Duration::from_secs(30)
            }
        }
    }

    /// Returns the rules for a client, whose write with the number `step` is hit.
    pub(super) fn rules(self, namespace: &str, app_name: &str, step: u64) -> Vec<Rule> {
        let writes = |reaction| {
            let rule = Rule::new(reaction).namespace(namespace).app_name(app_name);
            WRITES.into_iter().fold(rule.name(app_name), Rule::command)
        };
        match self {
            Self::LostRequest => vec![writes(Reaction::cut_request()).nth(step)],
            Self::LostReply => vec![writes(Reaction::lose_reply()).nth(step)],
            Self::StepDown => vec![writes(Reaction::stall(Direction::Request)).nth(step)],
            Self::Outage => vec![
                Rule::new(Reaction::Refuse).name("no new connection"),
                Rule::new(Reaction::cut_request()).name("no request"),
            ],
            Self::CommandError => vec![writes(Reaction::error(UNAUTHORIZED))],
        }
    }
}
