//! What a rule does to a request and its reply.

use std::{fmt, num::NonZeroU64, time::Duration};

use bson::Document;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{
        self, IntoDeserializer, MapAccess, Visitor,
        value::{MapAccessDeserializer, MapDeserializer},
    },
};

/// What a rule does.
///
/// In rules files and commands it is written as its name (`"loseReply"`) or, with settings, as a
/// document (`{ loseReply: { reset: true } }`).
///
/// [`Delay`](Self::Delay) and [`Throttle`](Self::Throttle) slow things down and let the rules after
/// them have their say; everything else decides.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum Reaction {
    /// Forwards only the first `after` bytes of the request, none by default, and ends the
    /// connection. The server does not execute it.
    CutRequest {
        /// How many bytes of the message, header included, reach the server.
        after: usize,
        /// The client sees a reset instead of an end.
        reset: bool,
    },
    /// Lets the server execute the request, waits for its whole reply, and ends the connection
    /// without a byte of it.
    LoseReply {
        /// The client sees a reset instead of an end.
        reset: bool,
    },
    /// Lets the server execute the request, and ends the connection after `after` bytes of the
    /// reply.
    CutReply {
        /// How many bytes of the message, header included, reach the client.
        after: usize,
        /// The client sees a reset instead of an end.
        reset: bool,
    },
    /// Waits before it forwards.
    Delay {
        /// How long, in milliseconds.
        ms: u64,
        /// Which of the two waits: the request, unless this says otherwise.
        direction: Direction,
    },
    /// Forwards slowly.
    Throttle {
        /// How fast.
        bytes_per_second: NonZeroU64,
        /// Only one of the two; both otherwise.
        #[serde(skip_serializing_if = "Option::is_none")]
        direction: Option<Direction>,
    },
    /// From this message on, nothing passes in one direction of this connection, which stays open,
    /// until the rule is removed.
    Stall {
        /// Which direction: that of replies, unless this says otherwise.
        direction: Direction,
    },
    /// The client gets an error for a reply.
    Error(ErrorReply),
    /// The server executes the request, and its reply gets a write concern error.
    WriteConcernError(WriteConcernError),
    /// New connections are accepted and reset at once.
    Refuse,
}

/// A direction of traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Direction {
    /// From the client to the server.
    Request,
    /// From the server to the client.
    Reply,
}

/// An error in place of a reply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct ErrorReply {
    /// Its number.
    pub code: i32,
    /// Its name; that of the number, if this says nothing and it is a well-known one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code_name: Option<String>,
    /// What it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Its labels. Without this, those that a server would give it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<Vec<String>>,
    /// Whether the server executes the request first. Its own reply is then thrown away.
    #[serde(default)]
    pub execute: bool,
    /// Code of the error replies that this one replaces: the request is forwarded, and a reply without that
    /// code is passed on unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<i32>,
    /// More fields of the reply, such as `retryAfterMS` or `topologyVersion`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fields: Option<Document>,
}

impl ErrorReply {
    /// An error with this number.
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

    /// The same with exactly these labels.
    pub fn with_labels<L: Into<String>>(mut self, labels: impl IntoIterator<Item = L>) -> Self {
        self.labels = Some(labels.into_iter().map(Into::into).collect());
        self
    }

    /// The same after the server executed the request.
    pub fn executed(mut self) -> Self {
        self.execute = true;
        self
    }

    /// Replaces only error replies of the server that have this code.
    pub fn replacing(mut self, code: i32) -> Self {
        self.replaces = Some(code);
        self
    }

    /// Returns true if the request is forwarded to the server.
    pub(crate) fn forwards(&self) -> bool {
        self.execute || self.replaces.is_some()
    }

    /// Returns true if it replaces a server's reply with this code.
    pub(crate) fn applies_to(&self, code: Option<i32>) -> bool {
        self.replaces.is_none_or(|replaced| code == Some(replaced))
    }
}

/// A write concern error that is added to a reply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct WriteConcernError {
    /// Its number.
    pub code: i32,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code_name: Option<String>,
    /// What it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The labels of the reply. Without this, those that a server would give it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<Vec<String>>,
    /// More fields of the error, such as `errInfo`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fields: Option<Document>,
}

impl WriteConcernError {
    /// A write concern error with this number.
    pub fn new(code: i32) -> Self {
        Self { code, code_name: None, message: None, labels: None, fields: None }
    }
}

impl Reaction {
    /// Ends the connection before a byte of the request is forwarded.
    pub fn cut_request() -> Self {
        Self::cut_request_after(0)
    }

    /// Ends the connection after so many bytes of the request.
    pub fn cut_request_after(bytes: usize) -> Self {
        Self::CutRequest { after: bytes, reset: false }
    }

    /// Lets the server execute, and loses its reply with the connection.
    pub fn lose_reply() -> Self {
        Self::LoseReply { reset: false }
    }

    /// Ends the connection after so many bytes of the reply.
    pub fn cut_reply_after(bytes: usize) -> Self {
        Self::CutReply { after: bytes, reset: false }
    }

    /// The same with a reset (RST) in place of an orderly end, if it ends a connection.
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

    /// Holds requests back for a while.
    pub fn delay(time: Duration) -> Self {
        let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Self::Delay { ms, direction: Direction::Request }
    }

    /// Holds replies back for a while.
    pub fn delay_reply(time: Duration) -> Self {
        let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Self::Delay { ms, direction: Direction::Reply }
    }

    /// Forwards so many bytes in a second, both ways.
    ///
    /// # Panics
    ///
    /// If it is none.
    pub fn throttle(bytes_per_second: u64) -> Self {
        let bytes_per_second = NonZeroU64::new(bytes_per_second).expect("more than none");
        Self::Throttle { bytes_per_second, direction: None }
    }

    /// Lets nothing pass any more in one direction.
    pub fn stall(direction: Direction) -> Self {
        Self::Stall { direction }
    }

    /// Answers with an error, and does not bother the server.
    pub fn error(code: i32) -> Self {
        Self::Error(ErrorReply::new(code))
    }

    /// Its name in rules files.
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

/// As it is written: each setting may be left out if it has a default.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
enum Written {
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

impl From<Written> for Reaction {
    fn from(written: Written) -> Self {
        match written {
            Written::CutRequest { after, reset } => Self::CutRequest { after, reset },
            Written::LoseReply { reset } => Self::LoseReply { reset },
            Written::CutReply { after, reset } => Self::CutReply { after, reset },
            Written::Delay { ms, direction } => Self::Delay { ms, direction },
            Written::Throttle { bytes_per_second, direction } => {
                Self::Throttle { bytes_per_second, direction }
            }
            Written::Stall { direction } => Self::Stall { direction },
            Written::Error(error) => Self::Error(error),
            Written::WriteConcernError(error) => Self::WriteConcernError(error),
            Written::Refuse {} => Self::Refuse,
        }
    }
}

impl<'de> Deserialize<'de> for Reaction {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NameOrSettings).map(Self::from)
    }
}

/// Reads `"loseReply"` like `{ loseReply: {} }`.
struct NameOrSettings;

impl<'de> Visitor<'de> for NameOrSettings {
    type Value = Written;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a reaction, or a document of its name and settings")
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<Written, E> {
        let nothing = std::collections::BTreeMap::<String, String>::new();
        let alone = MapDeserializer::new(std::iter::once((name, nothing.into_deserializer())));
        Written::deserialize(MapAccessDeserializer::new(alone))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Written, A::Error> {
        let written = Written::deserialize(MapAccessDeserializer::new(&mut map))?;
        match map.next_key::<String>()? {
            None => Ok(written),
            Some(_) => Err(de::Error::custom("a rule has one reaction; write a rule for each")),
        }
    }
}
