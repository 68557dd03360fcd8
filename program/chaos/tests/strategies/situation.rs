//! What goes wrong, as rules of the proxy between the application and its servers.

use std::time::Duration;

use blackpipe::proxy::{Direction, Reaction, Rule};

/// The commands that count.
pub(super) const WRITES: [&str; 2] = ["update", "findAndModify"];
/// `Unauthorized`: what was refused once is refused again.
const UNAUTHORIZED: i32 = 13;

/// What an event meets on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Situation {
    /// The connection breaks once, and the server never sees the request.
    LostRequest,
    /// The connection breaks once, when the server has executed the request and before it is known.
    LostReply,
    /// The primary steps down while the request is on its way to it; another is elected.
    StepDown,
    /// From the first request on, no server can be reached.
    Outage,
    /// The server answers, and says no.
    Refusal,
}

impl Situation {
    pub(super) const ALL: [Self; 5] =
        [Self::LostRequest, Self::LostReply, Self::StepDown, Self::Outage, Self::Refusal];

    /// Above its column.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::LostRequest => "lost request",
            Self::LostReply => "lost reply",
            Self::StepDown => "step-down",
            Self::Outage => "outage",
            Self::Refusal => "refusal",
        }
    }

    /// Whether an event can be counted.
    pub(super) fn passes(self) -> bool {
        matches!(self, Self::LostRequest | Self::LostReply | Self::StepDown)
    }

    /// How long clients look for a server: in an outage, so long that it can be told from other
    /// delays, and else long enough for a busy machine.
    pub(super) fn server_selection_timeout(self) -> Duration {
        match self {
            Self::Outage => Duration::from_millis(250),
            Self::LostRequest | Self::LostReply | Self::StepDown | Self::Refusal => {
                Duration::from_secs(30)
            }
        }
    }

    /// The rules that make it so for one client, whose nth write `step` is.
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
            Self::Refusal => vec![writes(Reaction::error(UNAUTHORIZED))],
        }
    }
}
