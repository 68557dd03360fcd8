//! The log that members replicate: entries in the order of their time.

mod branch;
mod history;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use bson::{Bson, DateTime, Document, Timestamp, Uuid, doc};

use super::change::{Change, Statement};

pub(crate) use branch::Log;
pub(crate) use history::{Histories, History, Sharding};

/// When something was written: the cluster's time, and the term of the primary that wrote it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OpTime {
    pub(crate) term: i64,
    pub(crate) timestamp: TimestampOrder,
}

/// A timestamp as something to compare: seconds, and a count within the second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TimestampOrder {
    pub(crate) time: u32,
    pub(crate) increment: u32,
}

impl From<Timestamp> for TimestampOrder {
    fn from(Timestamp { time, increment }: Timestamp) -> Self {
        Self { time, increment }
    }
}

impl From<TimestampOrder> for Timestamp {
    fn from(TimestampOrder { time, increment }: TimestampOrder) -> Self {
        Self { time, increment }
    }
}

impl OpTime {
    /// As replies show it.
    pub(crate) fn to_document(self) -> Document {
        doc! { "ts": Timestamp::from(self.timestamp), "t": self.term }
    }
}

impl TimestampOrder {
    /// The next one that is not before this second.
    pub(crate) fn next(self, second: u32) -> Self {
        if second > self.time {
            Self { time: second, increment: 1 }
        } else if let Some(increment) = self.increment.checked_add(1) {
            Self { time: self.time, increment }
        } else {
            // Clients may have heard of the last moment of a second.
            Self { time: self.time.saturating_add(1), increment: 1 }
        }
    }

    /// The first moment of its second, as a time of day.
    pub(crate) fn date(self) -> Bson {
        Bson::DateTime(DateTime::from_millis(i64::from(self.time) * 1000))
    }
}

/// Who a session belongs to and which it is: the bytes of its UUID and of its user's digest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SessionId {
    pub(crate) id: Vec<u8>,
    pub(crate) user: Vec<u8>,
}

/// What an entry says about a session.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Record {
    pub(crate) session: SessionId,
    pub(crate) number: i64,
    pub(crate) what: Recorded,
}

/// What is known of a transaction number.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Recorded {
    /// A statement of a retryable write was executed.
    Statement(Statement),
    /// The transaction of several documents committed.
    Committed,
}

/// A transaction by its session and its number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TransactionId {
    pub(crate) session: SessionId,
    pub(crate) number: i64,
}

/// A transaction that cannot fail on this shard any more. Its changes are made when it commits.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PreparedTransaction {
    pub(crate) id: TransactionId,
    pub(crate) changes: Vec<Change>,
    /// The record of the commit entry.
    pub(crate) record: Option<Record>,
}

/// A step of the two-phase commit of a transaction over several shards.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum CommitStep {
    /// The transaction is prepared.
    Prepared(Arc<PreparedTransaction>),
    /// A prepared transaction committed. Snapshots from `visible` on show it, on every shard.
    Committed { id: TransactionId, visible: TimestampOrder },
    /// A prepared transaction aborted.
    Aborted(TransactionId),
}

/// One entry: its changes are there all together or not at all.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) at: OpTime,
    pub(crate) wall: DateTime,
    pub(crate) changes: Vec<Change>,
    pub(crate) record: Option<Record>,
    /// The step of a two-phase commit that this entry is.
    pub(crate) step: Option<CommitStep>,
    /// What each of the changes found, for change streams.
    pub(crate) before: Vec<Before>,
}

/// What a change found where it was made. What most changes do not need is not kept.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Before {
    /// Which collection it was; none of a view.
    pub(crate) collection: Option<Uuid>,
    pub(crate) is_view: bool,
    /// The document that changed or went; the options of a collection, or the specification of an
    /// index.
    pub(crate) document: Option<Arc<Document>>,
    /// Whether the collection's documents are to be told as they were (`changeStreamPreAndPostImages`).
    pub(crate) has_images: bool,
    /// The collection that went because another one got its name.
    pub(crate) replaced: Option<Uuid>,
}

impl Entry {
    /// Whether it is about documents that came from another shard, or went there: nothing that anybody
    /// wrote.
    pub(crate) fn is_migration(&self) -> bool {
        matches!(self.changes.first(), Some(Change::Note(note)) if note.contains_key(MIGRATION))
    }

    /// Whether it commits a prepared transaction that snapshots of this time show, though the entry
    /// itself is later.
    fn is_visible_at(&self, at: TimestampOrder) -> bool {
        matches!(&self.step, Some(CommitStep::Committed { visible, .. }) if *visible <= at)
    }
}

/// The field of a note that says so.
const MIGRATION: &str = "fromMigrate";

impl Change {
    /// The first change of an entry that change streams do not show: its documents come from another
    /// shard, or another shard's entry is shown for it.
    pub(crate) fn migration(of: &str) -> Self {
        Self::Note(doc! { "msg": "migrated", "ns": of, MIGRATION: true })
    }
}
