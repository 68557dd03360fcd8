//! Execution of a command that writes, outside of a transaction.

use bson::Document;
use steadfast_query::{Code, Fault};
use tokio::time::Instant;

use super::{CommandFailure, CommandOutcome, Node, RunningCommand, wait::max_time_expired};
use crate::{
    call::Call,
    change::BatchProgress,
    command::WriteContext,
    oplog::OpTime,
    set::{MemberEpoch, PrimaryWriter, State},
};

/// First wire version whose secondaries run `$out` and `$merge` by writing on the primary (MongoDB
/// 5.0).
const OUT_ON_SECONDARIES: i32 = 13;

pub(super) type WriteHandler = fn(&mut WriteContext<'_>) -> Result<Document, Fault>;

/// Result of a write.
struct WriteAttempt {
    reply: Document,
    /// Entry whose write concern is awaited.
    at: OpTime,
    epoch: MemberEpoch,
    /// Member that executed the write.
    writer: usize,
}

impl Node {
    pub(super) async fn run_write(
        &self,
        running: &RunningCommand<'_>,
        write: WriteHandler,
    ) -> Result<CommandOutcome, CommandFailure> {
        let mut progress = BatchProgress::default();
        let mut wrote = false;
        let written = self
            .wait_until(running.deadline, |state, now| {
                self.attempt(state, running, write, &mut progress, &mut wrote, now).transpose()
            })
            .await;
        let WriteAttempt { reply, at, epoch, writer } = match written {
            Some(Ok(written)) => written,
            Some(Err(fault)) => return Err(CommandFailure { fault, wrote }),
            None => return Err(CommandFailure { fault: max_time_expired(), wrote }),
        };
        let concern = &running.call.write_concern;
        let concern = self.await_write_concern_on(writer, running, at, concern, epoch).await;
        Ok(CommandOutcome { reply, concern, at: Some(at) })
    }

    /// Runs the command once. Returns `None` if a transaction conflicts. The command must run again
    /// after the next change.
    fn attempt(
        &self,
        state: &mut State,
        running: &RunningCommand<'_>,
        write: WriteHandler,
        progress: &mut BatchProgress,
        wrote: &mut bool,
        now: Instant,
    ) -> Result<Option<WriteAttempt>, Fault> {
        self.check_runs(state, running)?;
        let call = running.call;
        let writer = self.writer(state, call)?;
        let seen = (writer != self.index).then(|| state.member(self.index).store().clone());
        let retryable = call.session.as_ref().zip(call.transaction.map(|it| it.number));
        if let Some((session, number)) = retryable {
            if state.must_wait(writer, session, number) {
                return Ok(None);
            }
            state.begin_retryable_write(writer, session, number)?;
        }
        let env = self.environment(state, now);
        let direct = PrimaryWriter::new(state, writer, retryable, now);
        let mut direct = direct
            .with_fail_point(call.write_fail_point.as_ref())
            .hidden_from_change_streams(call.hidden_from_change_streams);
        let outcome = write(&mut WriteContext {
            call,
            env: &env,
            changes: &mut direct,
            seen: seen.as_ref(),
            progress,
            cursors: &self.cursors,
            server_info: &self.server_info,
        });
        let written = direct.written();
        if written.is_some() {
            *wrote = true;
            state.replicate(now);
        }
        let member = state.member(writer);
        match outcome {
            Ok(reply) => {
                let at = written.unwrap_or(member.last());
                Ok(Some(WriteAttempt { reply, at, epoch: member.epoch(), writer }))
            }
            Err(fault) if fault.code == Code::WRITE_CONFLICT => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    /// The member that writes: this one if it is primary. The output of an aggregation on a
    /// secondary is written by the primary.
    fn writer(&self, state: &State, call: &Call) -> Result<usize, Fault> {
        let may_send = call.name == "aggregate"
            && call.secondary_ok
            && self.server_info.max_wire_version >= OUT_ON_SECONDARIES;
        let primary = state.primary_of(self.index);
        match (self.check_primary(state), primary) {
            (Err(_), Some(primary)) if may_send => Ok(primary),
            (check, _) => check.map(|()| self.index),
        }
    }
}
