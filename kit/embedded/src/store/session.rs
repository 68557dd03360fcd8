//! Records of sessions: newest `txnNumber` and results of its statements (`config.transactions`).

use bson::{DateTime, Document};
use rpds::RedBlackTreeMapSync;

use crate::{change::Statement, oplog::SessionUpdateKind};

/// Record of a session.
#[derive(Clone, Debug)]
pub(crate) struct SessionRecord {
    number: i64,
    statements: RedBlackTreeMapSync<i32, Document>,
    committed: bool,
    last_use: DateTime,
}

impl SessionRecord {
    pub(super) fn new(number: i64, at: DateTime) -> Self {
        Self { number, statements: RedBlackTreeMapSync::new_sync(), committed: false, last_use: at }
    }

    /// Newest `txnNumber`.
    pub(crate) fn number(&self) -> i64 {
        self.number
    }

    /// Result of a statement of that retryable write, if it was executed.
    pub(crate) fn statement(&self, id: i32) -> Option<&Document> {
        self.statements.get(&id)
    }

    /// All executed statements of that retryable write with their results.
    pub(crate) fn statements(&self) -> impl Iterator<Item = (&i32, &Document)> {
        self.statements.iter()
    }

    /// Returns `true` if the number is that of a committed transaction.
    pub(crate) fn committed(&self) -> bool {
        self.committed
    }

    /// Time of the last change of the record.
    pub(crate) fn last_use(&self) -> DateTime {
        self.last_use
    }

    /// Adds a record. Records of older numbers are removed.
    pub(super) fn add(&mut self, number: i64, what: &SessionUpdateKind, at: DateTime) {
        if number < self.number {
            return;
        }
        if number > self.number {
            *self = Self::new(number, at);
        }
        self.last_use = at;
        match what {
            SessionUpdateKind::Statement(Statement { id, outcome }) => {
                self.statements.insert_mut(*id, outcome.clone());
            }
            SessionUpdateKind::Committed => self.committed = true,
        }
    }
}
