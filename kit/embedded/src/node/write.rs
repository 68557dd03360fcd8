//! Execution of a command that writes, outside of a transaction.

use bson::Document;
use steadfast_query::{Code, Fault};
use tokio::time::Instant;

use super::{Done, Failed, Node, Running, wait::time_is_over};
use crate::{
    call::Call,
    change::Progress,
    command::Writing,
    log::OpTime,
    set::{Direct, Identity, State},
};

/// First wire version whose secondaries run `$out` and `$merge` by writing on the primary (MongoDB
/// 5.0).
const WRITES_FROM_SECONDARIES: i32 = 13;

pub(super) type Write = fn(&mut Writing<'_>) -> Result<Document, Fault>;

/// Result of a write.
struct Written {
    reply: Document,
    /// Entry whose write concern is awaited.
    at: OpTime,
    identity: Identity,
    /// Member that executed the write.
    writer: usize,
}

impl Node {
    pub(super) async fn run_write(
        &self,
        running: &Running<'_>,
        write: Write,
    ) -> Result<Done, Failed> {
        let mut progress = Progress::default();
        let mut wrote = false;
        let written = self
            .until(running.deadline, |state, now| {
                self.attempt(state, running, write, &mut progress, &mut wrote, now).transpose()
            })
            .await;
        let Written { reply, at, identity, writer } = match written {
            Some(Ok(written)) => written,
            Some(Err(fault)) => return Err(Failed { fault, wrote }),
            None => return Err(Failed { fault: time_is_over(), wrote }),
        };
        let concern = &running.call.write_concern;
        let concern = self.acknowledged_by(writer, running, at, concern, identity).await;
        Ok(Done { reply, concern, at: Some(at) })
    }

    /// Runs the command once. Returns `None` if a transaction conflicts. The command must run again
    /// after the next change.
    fn attempt(
        &self,
        state: &mut State,
        running: &Running<'_>,
        write: Write,
        progress: &mut Progress,
        wrote: &mut bool,
        now: Instant,
    ) -> Result<Option<Written>, Fault> {
        self.check_runs(state, running)?;
        let call = running.call;
        let writer = self.writer(state, call)?;
        let seen = (writer != self.index).then(|| state.member(self.index).store().clone());
        let retryable = call.session.as_ref().zip(call.transaction.map(|it| it.number));
        if let Some((session, number)) = retryable {
            if state.must_wait(writer, session, number) {
                return Ok(None);
            }
            state.begin_retryable(writer, session, number)?;
        }
        let env = self.environment(state, now);
        let direct = Direct::new(state, writer, retryable, now);
        let mut direct = direct.trapped(call.trap.as_ref()).hidden(call.repeats);
        let outcome = write(&mut Writing {
            call,
            env: &env,
            changes: &mut direct,
            seen: seen.as_ref(),
            progress,
            cursors: &self.cursors,
            about: &self.about,
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
                Ok(Some(Written { reply, at, identity: member.identity(), writer }))
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
            && self.about.max_wire_version >= WRITES_FROM_SECONDARIES;
        let primary = state.primary_of(self.index);
        match (self.check_primary(state), primary) {
            (Err(_), Some(primary)) if may_send => Ok(primary),
            (check, _) => check.map(|()| self.index),
        }
    }
}
