//! Oplog: the replicated log of changes, in the order of optimes.

mod branch;
mod history;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use bson::{Bson, DateTime, Document, Timestamp, Uuid, doc};

use super::change::{Change, Statement};

pub(crate) use branch::Oplog;
pub(crate) use history::{MemberHistory, ShardLocator, StreamHistory};

/// Optime of an entry: the term of the primary that wrote it, and its timestamp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OpTime {
    pub(crate) term: i64,
    pub(crate) timestamp: OrderedTimestamp,
}

/// A timestamp that can be compared: seconds, and a counter within the second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OrderedTimestamp {
    pub(crate) time: u32,
    pub(crate) increment: u32,
}

impl From<Timestamp> for OrderedTimestamp {
    fn from(Timestamp { time, increment }: Timestamp) -> Self {
        Self { time, increment }
    }
}

impl From<OrderedTimestamp> for Timestamp {
    fn from(OrderedTimestamp { time, increment }: OrderedTimestamp) -> Self {
        Self { time, increment }
    }
}

impl OpTime {
    /// Optime as replies show it.
    pub(crate) fn to_document(self) -> Document {
        doc! { "ts": Timestamp::from(self.timestamp), "t": self.term }
    }
}

impl OrderedTimestamp {
    /// The next timestamp that is not before this second.
    pub(crate) fn next(self, second: u32) -> Self {
        if second > self.time {
            Self { time: second, increment: 1 }
        } else if let Some(increment) = self.increment.checked_add(1) {
            Self { time: self.time, increment }
        } else {
            // A client can have advanced the cluster time to the end of a second.
            Self { time: self.time.saturating_add(1), increment: 1 }
        }
    }

    /// First moment of the second, as a date.
    pub(crate) fn date(self) -> Bson {
        Bson::DateTime(DateTime::from_millis(i64::from(self.time) * 1000))
    }
}

/// Session id: the bytes of its UUID and of the digest of its user.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SessionId {
    pub(crate) id: Vec<u8>,
    pub(crate) user: Vec<u8>,
}

/// Change of a session's record that comes with an entry.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SessionUpdate {
    pub(crate) session: SessionId,
    pub(crate) number: i64,
    pub(crate) what: SessionUpdateKind,
}

/// Event that a session record stores under a `txnNumber`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SessionUpdateKind {
    /// A statement of a retryable write was executed.
    Statement(Statement),
    /// A multi-document transaction committed.
    Committed,
}

/// A transaction, by its session id and `txnNumber`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TransactionId {
    pub(crate) session: SessionId,
    pub(crate) number: i64,
}

/// A prepared transaction. Its commit cannot fail on this shard any more and applies the changes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PreparedTransaction {
    pub(crate) id: TransactionId,
    pub(crate) changes: Vec<Change>,
    /// Session record of the commit entry.
    pub(crate) record: Option<SessionUpdate>,
}

/// Step of a two-phase commit.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum CommitStep {
    /// The transaction is prepared.
    Prepared(Arc<PreparedTransaction>),
    /// A prepared transaction committed. Snapshots from `visible` on show it, on all shards.
    Committed { id: TransactionId, visible: OrderedTimestamp },
    /// A prepared transaction aborted.
    Aborted(TransactionId),
}

/// An oplog entry. Its changes are applied together or not at all.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OplogEntry {
    pub(crate) at: OpTime,
    pub(crate) wall: DateTime,
    pub(crate) changes: Vec<Change>,
    pub(crate) record: Option<SessionUpdate>,
    /// Step of a two-phase commit that the entry records.
    pub(crate) step: Option<CommitStep>,
    /// Prior state of each change, for change streams.
    pub(crate) before: Vec<PriorState>,
}

/// State before a change, as far as change streams need it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PriorState {
    /// UUID of the collection. `None` for views.
    pub(crate) collection: Option<Uuid>,
    pub(crate) is_view: bool,
    /// Document before an update or delete, options of a collection, or specification of an index.
    pub(crate) document: Option<Arc<Document>>,
    /// `true` if the collection stores pre-images and post-images (`changeStreamPreAndPostImages`).
    pub(crate) has_images: bool,
    /// Collection that a rename dropped.
    pub(crate) replaced: Option<Uuid>,
}

impl OplogEntry {
    /// Returns `true` for entries of a chunk migration. Change streams do not show them.
    pub(crate) fn is_migration(&self) -> bool {
        matches!(self.changes.first(), Some(Change::Noop(note)) if note.contains_key(MIGRATION))
    }

    /// Returns `true` if the entry commits a prepared transaction that snapshots at this time show,
    /// although the entry is later.
    fn is_visible_at(&self, at: OrderedTimestamp) -> bool {
        matches!(&self.step, Some(CommitStep::Committed { visible, .. }) if *visible <= at)
    }
}

/// Field of a no-op entry that marks a migration.
const MIGRATION: &str = "fromMigrate";

impl Change {
    /// Marks an entry that change streams do not show: its documents come from another shard, or
    /// another shard's entry shows the same event.
    pub(crate) fn migration(of: &str) -> Self {
        Self::Noop(doc! { "msg": "migrated", "ns": of, MIGRATION: true })
    }
}
