//! The fail point `onPrimaryTransactionalWrite`: what a statement that goes on record runs into.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use steadfast_query::Fault;

use super::{FailPoints, ON_PRIMARY_TRANSACTIONAL_WRITE};
use blackpipe_base::number::{code, is_true};

/// What the statements of a command may run into, one after the other. Clones are the same one.
#[derive(Clone, Debug)]
pub(crate) struct Trap {
    points: Arc<FailPoints>,
    closes: Arc<AtomicBool>,
}

impl Trap {
    /// For one command.
    pub(crate) fn new(points: Arc<FailPoints>) -> Self {
        Self { points, closes: Arc::default() }
    }

    /// A statement is about to be written. The command goes on if only its connection is closed.
    pub(crate) fn step(&self) -> Result<(), Fault> {
        let Some(data) = self.points.enter(ON_PRIMARY_TRANSACTIONAL_WRITE, |_| true) else {
            return Ok(());
        };
        if data.get("closeConnection").is_none_or(is_true) {
            self.closes.store(true, Ordering::Relaxed);
        }
        let message = "Failing write due to failpoint. The write must not be reflected.";
        match data.get("failBeforeCommitExceptionCode").and_then(code) {
            Some(code) => Err(Fault::new(crate::codes::code_of(code), message)),
            None => Ok(()),
        }
    }

    /// Whether the command's connection is to be closed instead of a reply.
    pub(crate) fn closes(&self) -> bool {
        self.closes.load(Ordering::Relaxed)
    }
}
