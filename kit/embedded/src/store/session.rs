//! What is known of a session: its newest transaction number, and what was done under it.

use bson::{DateTime, Document};
use rpds::RedBlackTreeMapSync;

use crate::{change::Statement, log::Recorded};

/// What is known of a session.
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

    /// The newest transaction number.
    pub(crate) fn number(&self) -> i64 {
        self.number
    }

    /// What became of a statement of the retryable write of that number, if it was executed.
    pub(crate) fn statement(&self, id: i32) -> Option<&Document> {
        self.statements.get(&id)
    }

    /// All statements of that retryable write that were executed, with what became of them.
    pub(crate) fn statements(&self) -> impl Iterator<Item = (&i32, &Document)> {
        self.statements.iter()
    }

    /// Whether the number was that of a transaction of several documents, and it committed.
    pub(crate) fn committed(&self) -> bool {
        self.committed
    }

    /// When something was put on record last.
    pub(crate) fn last_use(&self) -> DateTime {
        self.last_use
    }

    /// Only the newest number stays on record.
    pub(super) fn add(&mut self, number: i64, what: &Recorded, at: DateTime) {
        if number < self.number {
            return;
        }
        if number > self.number {
            *self = Self::new(number, at);
        }
        self.last_use = at;
        match what {
            Recorded::Statement(Statement { id, outcome }) => {
                self.statements.insert_mut(*id, outcome.clone());
            }
            Recorded::Committed => self.committed = true,
        }
    }
}
