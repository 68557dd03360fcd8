//! Resume tokens: hexadecimal strings in the order of events, equal on all members.

use std::cmp::Ordering;

use bson::{Bson, Document, doc};
use steadfast_query::{Code, Fault, value::format_document};

use crate::oplog::OrderedTimestamp;

/// Position of a change stream. The next event comes after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StreamPosition {
    pub(crate) at: OrderedTimestamp,
    pub(crate) point: EventPoint,
    /// Index of the shard. Entries of several shards can have the same timestamp.
    pub(crate) shard: u32,
}

/// A point within an oplog entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventPoint {
    /// Before the entry.
    Start,
    /// After the event of a change.
    Event(u32),
    /// After the `invalidate` that follows the event of a change.
    Invalidate(u32),
}

impl EventPoint {
    /// Sort key: the event of a change and its `invalidate` come before the next change.
    fn place(self) -> (Option<u32>, bool) {
        match self {
            Self::Start => (None, false),
            Self::Event(number) => (Some(number), false),
            Self::Invalidate(number) => (Some(number), true),
        }
    }
}

impl Ord for EventPoint {
    fn cmp(&self, other: &Self) -> Ordering {
        self.place().cmp(&other.place())
    }
}

impl PartialOrd for EventPoint {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Encoded kinds of points, in their order: before the index of a change, and after it.
const TIME: &str = "82";
const START: &str = "29296E04";
const CHANGE: &str = "2C";
const EVENT: &str = "6E04";
const INVALIDATE: &str = "6F04";

impl StreamPosition {
    /// Position before all entries of a timestamp.
    pub(crate) fn start(at: OrderedTimestamp) -> Self {
        Self { at, point: EventPoint::Start, shard: 0 }
    }

    /// Timestamp before all events that follow.
    pub(crate) fn floor(self) -> OrderedTimestamp {
        let OrderedTimestamp { time, increment } = self.at;
        match increment.checked_sub(1) {
            Some(increment) => OrderedTimestamp { time, increment },
            None => OrderedTimestamp { time: time.saturating_sub(1), increment: u32::MAX },
        }
    }

    /// The resume token.
    pub(crate) fn token(self) -> Document {
        let OrderedTimestamp { time, increment } = self.at;
        let point = match self.point {
            EventPoint::Start => START.to_owned(),
            EventPoint::Event(number) => format!("{CHANGE}{number:08X}{EVENT}"),
            EventPoint::Invalidate(number) => format!("{CHANGE}{number:08X}{INVALIDATE}"),
        };
        let shard = match self.shard {
            0 => String::new(),
            shard => format!("{shard:08X}"),
        };
        doc! { "_data": format!("{TIME}{time:08X}{increment:08X}{point}{shard}") }
    }

    /// Parses a resume token.
    pub(crate) fn read(token: &Document) -> Result<Self, Fault> {
        let Some(Bson::String(data)) = token.get("_data") else {
            return Err(Fault::location(
                40647,
                format!(
                    "Bad resume token: _data of missing or of wrong type. Expected string, got {}",
                    format_document(token)
                ),
            ));
        };
        if data.is_empty() {
            return Err(Fault::location(40649, "invalid empty resume token"));
        }
        if data.len() % 2 != 0 || !data.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(Fault::failed_to_parse("resume token string was not a valid hex string"));
        }
        Self::parse(&data.to_ascii_uppercase()).ok_or_else(|| {
            Fault::location(50811, "KeyString format error: no event has this resume token")
        })
    }

    fn parse(data: &str) -> Option<Self> {
        let data = data.strip_prefix(TIME)?;
        let (time, data) = number(data)?;
        let (increment, data) = number(data)?;
        let at = OrderedTimestamp { time, increment };
        if data == START {
            return Some(Self::start(at));
        }
        let (change, data) = number(data.strip_prefix(CHANGE)?)?;
        let (point, shard) = match (data.strip_prefix(EVENT), data.strip_prefix(INVALIDATE)) {
            (Some(shard), _) => (EventPoint::Event(change), shard),
            (_, Some(shard)) => (EventPoint::Invalidate(change), shard),
            (None, None) => return None,
        };
        let shard = match shard {
            "" => 0,
            shard => number(shard).filter(|(_, rest)| rest.is_empty())?.0,
        };
        Some(Self { at, point, shard })
    }
}

fn number(data: &str) -> Option<(u32, &str)> {
    let (digits, rest) = data.split_at_checked(8)?;
    Some((u32::from_str_radix(digits, 16).ok()?, rest))
}

/// Error of a resume token whose event is not in this oplog.
pub(super) fn not_found(position: StreamPosition) -> Fault {
    Fault::new(
        Code::named(280, "ChangeStreamFatalError"),
        format!(
            "cannot resume stream; the resume token was not found. {}",
            format_document(&position.token())
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(time: u32, increment: u32, point: EventPoint) -> StreamPosition {
        StreamPosition { at: OrderedTimestamp { time, increment }, point, shard: 0 }
    }

    #[test]
    fn resume_tokens_sort_in_event_order() {
        let all = [
            at(1, 9, EventPoint::Start),
            at(1, 9, EventPoint::Event(0)),
            StreamPosition { shard: 1, ..at(1, 9, EventPoint::Event(0)) },
            StreamPosition { shard: 2, ..at(1, 9, EventPoint::Event(0)) },
            at(1, 9, EventPoint::Invalidate(0)),
            StreamPosition { shard: 1, ..at(1, 9, EventPoint::Invalidate(0)) },
            at(1, 9, EventPoint::Event(1)),
            at(1, 10, EventPoint::Start),
            at(2, 1, EventPoint::Start),
        ];
        let tokens = all.map(|position| position.token().get_str("_data").unwrap().to_owned());
        assert!(tokens.is_sorted() && all.is_sorted());
        for (position, token) in all.into_iter().zip(tokens) {
            assert_eq!(StreamPosition::read(&doc! { "_data": token }).unwrap(), position);
        }
    }

    #[test]
    fn invalid_resume_tokens_are_rejected() {
        let code = |token: Document| StreamPosition::read(&token).unwrap_err().code.number;
        assert_eq!(code(doc! {}), 40647);
        assert_eq!(code(doc! { "_data": 1 }), 40647);
        assert_eq!(code(doc! { "_data": "" }), 40649);
        assert_eq!(code(doc! { "_data": "xyz" }), 9);
        assert_eq!(code(doc! { "_data": "zz" }), 9);
        assert_eq!(code(doc! { "_data": "00" }), 50811);
        assert_eq!(code(doc! { "_data": "8263" }), 50811);
    }
}
