//! Execution of a command that reads.

use std::time::Duration;

use bson::{Bson, Document, Timestamp};
use steadfast_query::{Code, Environment, Fault};
use tokio::time::{Instant, sleep_until};

use super::{CommandFailure, CommandOutcome, Node, RunningCommand, wait::max_time_expired};
use crate::{
    command::{Command, ReadContext},
    set::{MemberEpoch, ReadSnapshot, State},
};

/// Default wait of a `getMore` on a cursor that awaits data.
const AWAIT_DATA: Duration = Duration::from_secs(1);

type ReadHandler = fn(&ReadContext<'_>) -> Result<Document, Fault>;

impl Node {
    pub(super) async fn run_read(
        &self,
        running: &RunningCommand<'_>,
        command: &Command,
        read: ReadHandler,
    ) -> Result<CommandOutcome, CommandFailure> {
        if running.call.name == "getMore" {
            return self.run_get_more(running, read).await;
        }
        let seen = self
            .wait_until(running.deadline, |state, now| {
                self.readable_data(state, running, command, now).transpose()
            })
            .await;
        let Some(seen) = seen else { return Err(max_time_expired().into()) };
        let (snapshot, env, epoch) = seen?;
        if let Some(confirm) = snapshot.confirm {
            // Linearizable reads confirm with a majority that this member is still primary.
            let majority = Default::default();
            if let Some(fault) = self.await_write_concern(running, confirm, &majority, epoch).await
            {
                return Err(Fault::new(fault.code, fault.message).into());
            }
        }
        let mut reply = self.read(running, read, &snapshot, &env)?;
        if let Some(at) = snapshot.at {
            let at = Timestamp::from(at);
            match reply.get_mut("cursor") {
                Some(Bson::Document(cursor)) => cursor.insert("atClusterTime", at),
                _ => reply.insert("atClusterTime", at),
            };
        }
        Ok(reply.into())
    }

    /// Data that the command may read. `None` if it must wait.
    fn readable_data(
        &self,
        state: &mut State,
        running: &RunningCommand<'_>,
        command: &Command,
        now: Instant,
    ) -> Result<Option<(ReadSnapshot, Environment, MemberEpoch)>, Fault> {
        self.check_runs(state, running)?;
        let call = running.call;
        // A cursor is read on its own member. Reads that need a primary have their own error.
        let anyway = command.on_any_member
            || call.secondary_ok
            || call.name == "killCursors"
            || call.read_concern.level() == "linearizable";
        if !state.member(self.index).is_primary() && !anyway {
            return Err(Fault::new(
                Code::NOT_PRIMARY_NO_SECONDARY_OK,
                "not primary and secondaryOk=false",
            ));
        }
        let concern = &call.read_concern;
        let snapshot = state.read_snapshot(self.index, concern, now)?;
        if let Some(as_of) = concern.at_cluster_time.or(concern.after_cluster_time)
            && state.awaits_decision(self.index, call.namespace().as_ref(), as_of.into())
        {
            return Ok(None);
        }
        let epoch = state.member(self.index).epoch();
        Ok(snapshot.map(|snapshot| (snapshot, self.environment(state, now), epoch)))
    }

    fn read(
        &self,
        running: &RunningCommand<'_>,
        read: ReadHandler,
        snapshot: &ReadSnapshot,
        env: &Environment,
    ) -> Result<Document, Fault> {
        read(&ReadContext {
            call: running.call,
            env,
            store: &snapshot.store,
            history: &snapshot.history,
            cursors: &self.cursors,
            server_info: &self.server_info,
        })
    }

    /// Runs `getMore`. An empty batch of a change stream waits, up to `maxTimeMS`.
    async fn run_get_more(
        &self,
        running: &RunningCommand<'_>,
        read: ReadHandler,
    ) -> Result<CommandOutcome, CommandFailure> {
        let id = running.call.body.get_i64("getMore").unwrap_or(0);
        let limit = running.call.max_time.unwrap_or(AWAIT_DATA);
        let timeout = self.shared.clock.now() + limit;
        let mut watch = self.shared.watch();
        loop {
            watch.mark_unchanged();
            let (snapshot, env) = self.shared.change_if_appended(|state, now| {
                self.check_runs(state, running)?;
                let snapshot = state.read_of_data(self.index, state.member(self.index).store());
                Ok::<_, Fault>((snapshot, self.environment(state, now)))
            })?;
            let reply = self.read(running, read, &snapshot, &env)?;
            if !is_empty(&reply) || !self.cursors().awaits_data(id) {
                return Ok(reply.into());
            }
            tokio::select! {
                // `self` holds the sender.
                _ = watch.changed() => {}
                () = sleep_until(timeout) => return Ok(reply.into()),
            }
        }
    }
}

/// Returns `true` for a reply to `getMore` with no documents.
pub(crate) fn is_empty(reply: &Document) -> bool {
    let batch = reply.get_document("cursor").and_then(|cursor| cursor.get_array("nextBatch"));
    batch.is_ok_and(Vec::is_empty)
}
