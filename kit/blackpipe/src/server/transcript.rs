//! Transcript of requests and replies.

use std::{fmt, net::SocketAddr};

use bson::Document;

/// Maximum number of characters of a document.
const MAX_DOCUMENT_CHARS: usize = 400;
/// Maximum number of lines. Older lines are dropped.
const MAX_LINES: usize = 10_000;

/// Transcript of requests and replies, one line each. Reports of failed scripts contain it;
/// [`transcript`](super::Server::transcript) returns it at any time.
#[derive(Clone, Debug, Default)]
pub struct Transcript {
    lines: std::collections::VecDeque<TranscriptLine>,
    dropped_lines: usize,
}

#[derive(Clone, Debug)]
struct TranscriptLine {
    member: usize,
    connection: usize,
    event: TranscriptEvent,
}

/// Event on a connection.
#[derive(Clone, Debug)]
pub(super) enum TranscriptEvent {
    Opened(Option<SocketAddr>),
    Came(String),
    Sent(String),
    Did(String),
    Closed(String),
}

impl TranscriptEvent {
    /// Reply with a remark, such as "first 20 bytes".
    pub(super) fn sent(document: &Document, how: &str) -> Self {
        Self::Sent(format!("{}{how}", shortened(document.to_string())))
    }

    pub(super) fn came(request: &impl fmt::Display) -> Self {
        Self::Came(shortened(request.to_string()))
    }
}

impl Transcript {
    pub(super) fn add(&mut self, member: usize, connection: usize, event: TranscriptEvent) {
        if self.lines.len() == MAX_LINES {
            self.lines.pop_front();
            self.dropped_lines += 1;
        }
        self.lines.push_back(TranscriptLine { member, connection, event });
    }

    /// Number of lines.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Returns `true` if there are no lines.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }
}

/// Formats lines like `connection 2 > insert db.things { … }` and `connection 2 < { "ok": 1 }`.
impl fmt::Display for Transcript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.dropped_lines > 0 {
            writeln!(f, "  ({} earlier lines omitted)", self.dropped_lines)?;
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

impl fmt::Display for TranscriptEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Opened(Some(from)) => write!(f, "opened by {from}"),
            Self::Opened(None) => f.write_str("opened"),
            Self::Came(request) => write!(f, "> {request}"),
            Self::Sent(reply) => write!(f, "< {reply}"),
            Self::Did(what) => write!(f, ". {what}"),
            Self::Closed(how) => write!(f, "closed: {how}"),
        }
    }
}

fn shortened(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(MAX_DOCUMENT_CHARS) {
        text.truncate(end);
        text.push('…');
    }
    text
}
