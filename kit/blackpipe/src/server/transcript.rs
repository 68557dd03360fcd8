//! All that was said between clients and servers, line by line, as a reader wants it.

use std::{fmt, net::SocketAddr};

use bson::Document;

/// How much of a document is shown.
const MOST_SHOWN: usize = 400;
/// How many lines are kept. A test that says more is not read from its beginning.
const MOST_LINES: usize = 10_000;

/// All that was said between clients and servers so far, a line each. It is shown when a script is
/// not kept, and [`transcript`](super::Server::transcript) gives it at any time.
#[derive(Clone, Debug, Default)]
pub struct Conversation {
    lines: std::collections::VecDeque<Line>,
    forgotten: usize,
}

#[derive(Clone, Debug)]
struct Line {
    member: usize,
    connection: usize,
    event: Event,
}

/// What happened on a connection.
#[derive(Clone, Debug)]
pub(super) enum Event {
    Opened(Option<SocketAddr>),
    Came(String),
    Sent(String),
    Did(String),
    Closed(String),
}

impl Event {
    /// A reply was sent, in this way.
    pub(super) fn sent(document: &Document, how: &str) -> Self {
        Self::Sent(format!("{}{how}", shortened(document.to_string())))
    }

    pub(super) fn came(request: &impl fmt::Display) -> Self {
        Self::Came(shortened(request.to_string()))
    }
}

impl Conversation {
    pub(super) fn add(&mut self, member: usize, connection: usize, event: Event) {
        if self.lines.len() == MOST_LINES {
            self.lines.pop_front();
            self.forgotten += 1;
        }
        self.lines.push_back(Line { member, connection, event });
    }

    /// How many lines there are.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Whether nothing was said.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }
}

/// `connection 2 > insert db.things { … }` and `connection 2 < { "ok": 1 }`, line by line.
impl fmt::Display for Conversation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.forgotten > 0 {
            writeln!(f, "  ({} earlier lines are forgotten)", self.forgotten)?;
        }
        let several = self.lines.iter().any(|line| line.member > 0);
        for line in &self.lines {
            if several {
                write!(f, "  server {},", line.member)?;
            } else {
                f.write_str(" ")?;
            }
            writeln!(f, " connection {} {}", line.connection, line.event)?;
        }
        Ok(())
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Opened(Some(from)) => write!(f, "is opened from {from}"),
            Self::Opened(None) => f.write_str("is opened"),
            Self::Came(request) => write!(f, "> {request}"),
            Self::Sent(reply) => write!(f, "< {reply}"),
            Self::Did(what) => write!(f, ". {what}"),
            Self::Closed(how) => write!(f, "is closed: {how}"),
        }
    }
}

fn shortened(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(MOST_SHOWN) {
        text.truncate(end);
        text.push('…');
    }
    text
}
