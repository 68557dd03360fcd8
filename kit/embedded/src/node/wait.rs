//! Waits for changes of the replica set's state, within the time limit of the command.

use steadfast_query::{Code, Fault};
use tokio::time::{Instant, sleep_until};

use super::{Node, ProcessState, RunningCommand};
use crate::{
    call::WriteConcern,
    oplog::OpTime,
    set::{MemberEpoch, State},
};

impl Node {
    /// Repeats a query of the state after every change, until it returns a value or the deadline
    /// passes.
    pub(super) async fn wait_until<T>(
        &self,
        deadline: Option<Instant>,
        mut ask: impl FnMut(&mut State, Instant) -> Option<T>,
    ) -> Option<T> {
        // A frozen member evaluates nothing.
        let mut ask = |state: &mut State, now| {
            let frozen = state.signals(self.index).1 == ProcessState::Frozen;
            if frozen { None } else { ask(state, now) }
        };
        if let Some(answer) = self.shared.change_if_appended(&mut ask) {
            return Some(answer);
        }
        let mut watch = self.shared.watch();
        loop {
            watch.mark_unchanged();
            if let Some(answer) = self.shared.change_if_appended(&mut ask) {
                return Some(answer);
            }
            tokio::select! {
                // `self` holds the sender.
                _ = watch.changed() => {}
                () = sleep_until_deadline(deadline) => return None,
            }
        }
    }

    /// Waits while the member is frozen.
    pub(super) async fn wait_until_thawed(&self) {
        let mut process_state = self.shared.process_state(self.index);
        if *process_state.borrow_and_update() == ProcessState::Frozen {
            let _ = process_state
                .wait_for(|process_state| *process_state != ProcessState::Frozen)
                .await;
        }
    }

    /// Waits until a write satisfies its write concern. Returns the error if it never will.
    pub(super) async fn await_write_concern(
        &self,
        running: &RunningCommand<'_>,
        at: OpTime,
        concern: &WriteConcern,
        epoch: MemberEpoch,
    ) -> Option<Fault> {
        self.await_write_concern_on(self.index, running, at, concern, epoch).await
    }

    /// Does the same for a write that another member, the primary, may have executed.
    pub(super) async fn await_write_concern_on(
        &self,
        writer: usize,
        running: &RunningCommand<'_>,
        at: OpTime,
        concern: &WriteConcern,
        epoch: MemberEpoch,
    ) -> Option<Fault> {
        let limit = concern.timeout.map(|timeout| self.shared.clock.now() + timeout);
        let deadline = [limit, running.deadline].into_iter().flatten().min();
        let waited = self
            .wait_until(deadline, |state, _| {
                if state.member(writer).epoch() != epoch {
                    return Some(Err(Fault::new(
                        Code::INTERRUPTED_DUE_TO_REPL_STATE_CHANGE,
                        "operation was interrupted",
                    )));
                }
                state.evaluate_write_concern(writer, at, concern)
            })
            .await;
        let info = |fault: Fault| {
            let info = bson::doc! { "writeConcern": concern.to_document() };
            fault.with(bson::doc! { "errInfo": info })
        };
        match waited {
            Some(Ok(())) => None,
            Some(Err(fault)) => Some(info(fault)),
            None if limit.is_some() && deadline == limit => {
                let info = bson::doc! { "wtimeout": true, "writeConcern": concern.to_document() };
                let message = "waiting for replication timed out";
                let fault = Fault::new(Code::WRITE_CONCERN_TIMEOUT, message);
                Some(fault.with(bson::doc! { "errInfo": info }))
            }
            None => Some(info(max_time_expired())),
        }
    }
}

/// Error `MaxTimeMSExpired`.
pub(super) fn max_time_expired() -> Fault {
    Fault::new(Code::MAX_TIME_MS_EXPIRED, "operation exceeded time limit")
}

pub(super) async fn sleep_until_deadline(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
