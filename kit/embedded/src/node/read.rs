//! Execution of a command that reads.

use std::time::Duration;

use bson::{Bson, Document, Timestamp};
use steadfast_query::{Code, Environment, Fault};
use tokio::time::{Instant, sleep_until};

use super::{Done, Failed, Node, Running, wait::time_is_over};
use crate::{
    command::{Command, Reading},
    set::{Identity, Sight, State},
};

/// Default wait of a `getMore` on a cursor that awaits data.
const AWAIT_DATA: Duration = Duration::from_secs(1);

type Read = fn(&Reading<'_>) -> Result<Document, Fault>;

impl Node {
    pub(super) async fn run_read(
        &self,
        running: &Running<'_>,
        command: &Command,
        read: Read,
    ) -> Result<Done, Failed> {
        if running.call.name == "getMore" {
            return self.run_get_more(running, read).await;
        }
        let seen = self
            .until(running.deadline, |state, now| {
                self.see(state, running, command, now).transpose()
            })
            .await;
        let Some(seen) = seen else { return Err(time_is_over().into()) };
        let (sight, env, identity) = seen?;
        if let Some(confirm) = sight.confirm {
            // Linearizable reads confirm with a majority that this member is still primary.
            let majority = Default::default();
            if let Some(fault) = self.acknowledged(running, confirm, &majority, identity).await {
                return Err(Fault::new(fault.code, fault.message).into());
            }
        }
        let mut reply = self.read(running, read, &sight, &env)?;
        if let Some(at) = sight.at {
            let at = Timestamp::from(at);
            match reply.get_mut("cursor") {
                Some(Bson::Document(cursor)) => cursor.insert("atClusterTime", at),
                _ => reply.insert("atClusterTime", at),
            };
        }
        Ok(reply.into())
    }

    /// Data that the command may read. `None` if it must wait.
    fn see(
        &self,
        state: &mut State,
        running: &Running<'_>,
        command: &Command,
        now: Instant,
    ) -> Result<Option<(Sight, Environment, Identity)>, Fault> {
        self.check_runs(state, running)?;
        let call = running.call;
        // A cursor is read on its own member. Reads that need a primary have their own error.
        let anyway = command.anywhere
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
        let sight = state.sight(self.index, concern, now)?;
        if let Some(as_of) = concern.at_cluster_time.or(concern.after_cluster_time)
            && state.awaits_decision(self.index, call.namespace().as_ref(), as_of.into())
        {
            return Ok(None);
        }
        let identity = state.member(self.index).identity();
        Ok(sight.map(|sight| (sight, self.environment(state, now), identity)))
    }

    fn read(
        &self,
        running: &Running<'_>,
        read: Read,
        sight: &Sight,
        env: &Environment,
    ) -> Result<Document, Fault> {
        read(&Reading {
            call: running.call,
            env,
            store: &sight.store,
            history: &sight.history,
            cursors: &self.cursors,
            about: &self.about,
        })
    }

    /// Runs `getMore`. An empty batch of a change stream waits, up to `maxTimeMS`.
    async fn run_get_more(&self, running: &Running<'_>, read: Read) -> Result<Done, Failed> {
        let id = running.call.body.get_i64("getMore").unwrap_or(0);
        let limit = running.call.max_time.unwrap_or(AWAIT_DATA);
        let patience = self.shared.clock.now() + limit;
        let mut watch = self.shared.watch();
        loop {
            watch.mark_unchanged();
            let (sight, env) = self.shared.ask(|state, now| {
                self.check_runs(state, running)?;
                let sight = state.plain_sight(self.index, state.member(self.index).store());
                Ok::<_, Fault>((sight, self.environment(state, now)))
            })?;
            let reply = self.read(running, read, &sight, &env)?;
            if !is_empty(&reply) || !self.cursors().awaits_data(id) {
                return Ok(reply.into());
            }
            tokio::select! {
                // `self` holds the sender.
                _ = watch.changed() => {}
                () = sleep_until(patience) => return Ok(reply.into()),
            }
        }
    }
}

/// Returns `true` for a reply to `getMore` with no documents.
pub(crate) fn is_empty(reply: &Document) -> bool {
    let batch = reply.get_document("cursor").and_then(|cursor| cursor.get_array("nextBatch"));
    batch.is_ok_and(Vec::is_empty)
}
