//! Prepared transactions of a shard. They are replicated, so a new primary has them.

use std::sync::Arc;

use super::Store;
use crate::oplog::{CommitStep, OpTime, PreparedTransaction, TransactionId};

/// A prepared transaction and its prepare entry.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    pub(crate) at: OpTime,
    pub(crate) transaction: Arc<PreparedTransaction>,
}

impl Store {
    /// Prepared transactions without a decision.
    pub(crate) fn prepared(&self) -> impl Iterator<Item = &Prepared> {
        self.prepared.values()
    }

    /// A prepared transaction by its id.
    pub(crate) fn prepared_transaction(&self, id: &TransactionId) -> Option<&Prepared> {
        self.prepared.get(id)
    }

    pub(super) fn apply_step(&mut self, step: &CommitStep, at: OpTime) {
        match step {
            CommitStep::Prepared(transaction) => {
                let transaction = Arc::clone(transaction);
                self.prepared.insert_mut(transaction.id.clone(), Prepared { at, transaction });
            }
            CommitStep::Committed { id, .. } | CommitStep::Aborted(id) => {
                self.prepared.remove_mut(id);
            }
        }
    }
}
