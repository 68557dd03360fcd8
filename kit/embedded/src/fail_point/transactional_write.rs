//! The fail point `onPrimaryTransactionalWrite`, which acts on recorded statements.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use steadfast_query::Fault;

use super::{FailPoints, ON_PRIMARY_TRANSACTIONAL_WRITE};
use blackpipe_base::number::{code, is_true};

/// Fail point for the statements of one command. Clones share their state.
#[derive(Clone, Debug)]
pub(crate) struct TransactionalWriteFailPoint {
    points: Arc<FailPoints>,
    closes_connection: Arc<AtomicBool>,
}

impl TransactionalWriteFailPoint {
    /// The fail point for one command.
    pub(crate) fn new(points: Arc<FailPoints>) -> Self {
        Self { points, closes_connection: Arc::default() }
    }

    /// Enters the fail point before a statement is written. Returns an error if the statement must
    /// fail. The command continues if only its connection is closed.
    pub(crate) fn step(&self) -> Result<(), Fault> {
        let Some(data) = self.points.enter(ON_PRIMARY_TRANSACTIONAL_WRITE, |_| true) else {
            return Ok(());
        };
        if data.get("closeConnection").is_none_or(is_true) {
            self.closes_connection.store(true, Ordering::Relaxed);
        }
        let message = "Failing write due to failpoint. The write must not be reflected.";
        match data.get("failBeforeCommitExceptionCode").and_then(code) {
            Some(code) => Err(Fault::new(crate::codes::code_of(code), message)),
            None => Ok(()),
        }
    }

    /// Returns `true` if the connection must be closed instead of a reply.
    pub(crate) fn closes_connection(&self) -> bool {
        self.closes_connection.load(Ordering::Relaxed)
    }
}
