//! Faults that a rule injects.

use std::{fmt, num::NonZeroU64, time::Duration};

use bson::Document;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{
        self, IntoDeserializer, MapAccess, Visitor,
        value::{MapAccessDeserializer, MapDeserializer},
    },
};

/// Fault that a rule injects.
///
/// In rules files and commands it is a name (`"loseReply"`) or a document with settings (`{
/// loseReply: { reset: true } }`).
///
/// [`Delay`](Self::Delay) and [`Throttle`](Self::Throttle) also let the following rules apply. Any
/// other reaction ends the evaluation of rules.
///
/// ```
/// use std::time::Duration;
///
/// use blackpipe::proxy::{ErrorReply, Reaction, Rule};
///
/// let slow = Rule::new(Reaction::delay_reply(Duration::from_millis(20)));
/// let overloaded = ErrorReply::new(462).with_labels(["SystemOverloadedError", "RetryableError"]);
/// let rejected = Rule::new(Reaction::Error(overloaded)).command("find").probability(0.1).seed(7);
/// assert_eq!((slow.reaction().name(), rejected.reaction().name()), ("delay", "error"));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum Reaction {
    /// Forwards only the first `after` bytes of the request and ends the connection. The server
    /// does not execute the request.
    CutRequest {
        /// Bytes of the message, header included, that reach the server. Defaults to 0.
        after: usize,
        /// Resets the connection to the client instead of closing it.
        reset: bool,
    },
    /// Forwards the request, waits for the whole reply, and ends the connection without sending the
    /// reply.
    LoseReply {
        /// Resets the connection to the client instead of closing it.
        reset: bool,
    },
    /// Forwards the request, and ends the connection after `after` bytes of the reply.
    CutReply {
        /// Bytes of the message, header included, that reach the client.
        after: usize,
        /// Resets the connection to the client instead of closing it.
        reset: bool,
    },
    /// Delays a message.
    Delay {
        /// Delay in milliseconds.
        ms: u64,
        /// Delayed direction. Defaults to the request.
        direction: Direction,
    },
    /// Limits the rate of a message.
    Throttle {
        /// Rate in bytes per second.
        bytes_per_second: NonZeroU64,
        /// Limited direction. Defaults to both.
        #[serde(skip_serializing_if = "Option::is_none")]
        direction: Option<Direction>,
    },
    /// Stops one direction of the connection, from this message on, until the rule is removed. The
    /// connection stays open.
    Stall {
        /// Stopped direction. Defaults to replies.
        direction: Direction,
    },
    /// Replies with an error.
    Error(ErrorReply),
    /// Forwards the request and adds a write concern error to its reply.
    WriteConcernError(WriteConcernError),
    /// Accepts new connections and resets them immediately.
    Refuse,
}

/// Direction of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Direction {
    /// From the client to the server.
    Request,
    /// From the server to the client.
    Reply,
}

/// Error reply of a rule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct ErrorReply {
    /// Error code (`code`).
    pub code: i32,
    /// Name of the error (`codeName`). Defaults to the name of the code, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code_name: Option<String>,
    /// Message of the error (`errmsg`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Error labels (`errorLabels`). Defaults to those that a server adds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<Vec<String>>,
    /// Forwards the request to the server before the error is sent. The server's reply is
    /// discarded.
    #[serde(default)]
    pub execute: bool,
    /// Code of the error replies to replace. The request is forwarded; replies without that code
    /// are forwarded unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<i32>,
    /// Further fields of the reply, such as `retryAfterMS` or `topologyVersion`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fields: Option<Document>,
}

impl ErrorReply {
    /// Creates an error with this code.
    pub fn new(code: i32) -> Self {
        Self {
            code,
            code_name: None,
            message: None,
            labels: None,
            execute: false,
            replaces: None,
            fields: None,
        }
    }

    /// Sets exactly these labels.
    pub fn with_labels<L: Into<String>>(mut self, labels: impl IntoIterator<Item = L>) -> Self {
        self.labels = Some(labels.into_iter().map(Into::into).collect());
        self
    }

    /// Forwards the request to the server before the error is sent.
    pub fn executed(mut self) -> Self {
        self.execute = true;
        self
    }

    /// Replaces only error replies of the server with this code.
    pub fn replacing(mut self, code: i32) -> Self {
        self.replaces = Some(code);
        self
    }

    /// Returns `true` if the request is forwarded to the server.
    pub(crate) fn forwards(&self) -> bool {
        self.execute || self.replaces.is_some()
    }

    /// Returns `true` if a server's reply with this code is replaced.
    pub(crate) fn applies_to(&self, code: Option<i32>) -> bool {
        self.replaces.is_none_or(|replaced| code == Some(replaced))
    }
}

/// Write concern error that a rule adds to a reply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct WriteConcernError {
    /// Error code (`code`).
    pub code: i32,
    /// Name of the error (`codeName`). Defaults to the name of the code, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code_name: Option<String>,
    /// Message of the error (`errmsg`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Error labels of the reply (`errorLabels`). Defaults to those that a server adds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<Vec<String>>,
    /// Further fields of the error, such as `errInfo`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fields: Option<Document>,
}

impl WriteConcernError {
    /// Creates a write concern error with this code.
    pub fn new(code: i32) -> Self {
        Self { code, code_name: None, message: None, labels: None, fields: None }
    }
}

impl Reaction {
    /// Ends the connection before the request is forwarded.
    pub fn cut_request() -> Self {
        Self::cut_request_after(0)
    }

    /// Ends the connection after `bytes` bytes of the request.
    pub fn cut_request_after(bytes: usize) -> Self {
        Self::CutRequest { after: bytes, reset: false }
    }

    /// Forwards the request and ends the connection without its reply.
    pub fn lose_reply() -> Self {
        Self::LoseReply { reset: false }
    }

    /// Ends the connection after `bytes` bytes of the reply.
    pub fn cut_reply_after(bytes: usize) -> Self {
        Self::CutReply { after: bytes, reset: false }
    }

    /// Resets the connection (RST) instead of closing it. No effect on reactions that do not end a
    /// connection.
    pub fn with_reset(mut self) -> Self {
        match &mut self {
            Self::CutRequest { reset, .. }
            | Self::LoseReply { reset }
            | Self::CutReply { reset, .. } => *reset = true,
            Self::Delay { .. }
            | Self::Throttle { .. }
            | Self::Stall { .. }
            | Self::Error(_)
            | Self::WriteConcernError(_)
            | Self::Refuse => {}
        }
        self
    }

    /// Delays requests.
    pub fn delay(time: Duration) -> Self {
        let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Self::Delay { ms, direction: Direction::Request }
    }

    /// Delays replies.
    pub fn delay_reply(time: Duration) -> Self {
        let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Self::Delay { ms, direction: Direction::Reply }
    }

    /// Limits the rate in both directions.
    ///
    /// # Panics
    ///
    /// Panics if the rate is 0.
    pub fn throttle(bytes_per_second: u64) -> Self {
        let bytes_per_second =
            NonZeroU64::new(bytes_per_second).expect("the rate is greater than 0");
        Self::Throttle { bytes_per_second, direction: None }
    }

    /// Stops one direction until the rule is removed.
    pub fn stall(direction: Direction) -> Self {
        Self::Stall { direction }
    }

    /// Replies with an error without forwarding the request.
    pub fn error(code: i32) -> Self {
        Self::Error(ErrorReply::new(code))
    }

    /// Name of the reaction in rules files.
    pub fn name(&self) -> &'static str {
        match self {
            Self::CutRequest { .. } => "cutRequest",
            Self::LoseReply { .. } => "loseReply",
            Self::CutReply { .. } => "cutReply",
            Self::Delay { .. } => "delay",
            Self::Throttle { .. } => "throttle",
            Self::Stall { .. } => "stall",
            Self::Error(_) => "error",
            Self::WriteConcernError(_) => "writeConcernError",
            Self::Refuse => "refuse",
        }
    }
}

/// Serialized form. Settings with a default are optional.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
enum ReactionRepr {
    CutRequest {
        #[serde(default)]
        after: usize,
        #[serde(default)]
        reset: bool,
    },
    LoseReply {
        #[serde(default)]
        reset: bool,
    },
    CutReply {
        after: usize,
        #[serde(default)]
        reset: bool,
    },
    Delay {
        ms: u64,
        #[serde(default = "requests")]
        direction: Direction,
    },
    Throttle {
        bytes_per_second: NonZeroU64,
        #[serde(default)]
        direction: Option<Direction>,
    },
    Stall {
        #[serde(default = "replies")]
        direction: Direction,
    },
    Error(ErrorReply),
    WriteConcernError(WriteConcernError),
    Refuse {},
}

fn requests() -> Direction {
    Direction::Request
}

fn replies() -> Direction {
    Direction::Reply
}

impl From<ReactionRepr> for Reaction {
    fn from(written: ReactionRepr) -> Self {
        match written {
            ReactionRepr::CutRequest { after, reset } => Self::CutRequest { after, reset },
            ReactionRepr::LoseReply { reset } => Self::LoseReply { reset },
            ReactionRepr::CutReply { after, reset } => Self::CutReply { after, reset },
            ReactionRepr::Delay { ms, direction } => Self::Delay { ms, direction },
            ReactionRepr::Throttle { bytes_per_second, direction } => {
                Self::Throttle { bytes_per_second, direction }
            }
            ReactionRepr::Stall { direction } => Self::Stall { direction },
            ReactionRepr::Error(error) => Self::Error(error),
            ReactionRepr::WriteConcernError(error) => Self::WriteConcernError(error),
            ReactionRepr::Refuse {} => Self::Refuse,
        }
    }
}

impl<'de> Deserialize<'de> for Reaction {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NameOrSettings).map(Self::from)
    }
}

/// Deserializes `"loseReply"` like `{ loseReply: {} }`.
struct NameOrSettings;

impl<'de> Visitor<'de> for NameOrSettings {
    type Value = ReactionRepr;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a reaction, or a document of its name and settings")
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<ReactionRepr, E> {
        let nothing = std::collections::BTreeMap::<String, String>::new();
        let alone = MapDeserializer::new(std::iter::once((name, nothing.into_deserializer())));
        ReactionRepr::deserialize(MapAccessDeserializer::new(alone))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ReactionRepr, A::Error> {
        let written = ReactionRepr::deserialize(MapAccessDeserializer::new(&mut map))?;
        match map.next_key::<String>()? {
            None => Ok(written),
            Some(_) => Err(de::Error::custom("a rule has one reaction; write a rule for each")),
        }
    }
}
