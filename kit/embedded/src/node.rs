//! A member of a replica set, or a standalone server, as connections use it.

mod checks;
mod read;
mod reply;
mod sessions;
mod set_commands;
mod stepdown;
#[cfg(test)]
mod tests;
mod transaction;
mod wait;
mod write;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bson::{Document, oid::ObjectId};
use steadfast_query::{Code, Environment, Fault};
use tokio::{sync::watch, time::Instant};

pub(crate) use checks::{check, check_transaction_end, not_stable};
pub(crate) use read::is_empty;

use super::{
    call::Call,
    command::{self, Handler, ServerInfo},
    cursor::Cursors,
    oplog::{MemberHistory, OpTime, OrderedTimestamp},
    set::{SetConfig, SharedSet, State},
};

/// State of a server's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProcessState {
    /// Running.
    Running,
    /// Stopped by SIGSTOP: connections stay open, nothing runs.
    Frozen,
    /// Killed by SIGKILL: no connections, no listener.
    Killed,
}

/// A member of a replica set.
#[derive(Debug)]
pub(crate) struct Node {
    shared: Arc<SharedSet>,
    index: usize,
    server_info: ServerInfo,
    cursors: Mutex<Cursors>,
}

/// A command in progress: the process that received it, and its deadline.
#[derive(Debug)]
struct RunningCommand<'a> {
    call: &'a Call,
    process: ObjectId,
    deadline: Option<Instant>,
}

/// Result of a command.
#[derive(Debug, Default)]
struct CommandOutcome {
    reply: Document,
    /// Error of the write concern.
    concern: Option<Fault>,
    /// Newest entry that it wrote or read.
    at: Option<OpTime>,
}

/// Error of a command, and whether it may have written before.
#[derive(Debug)]
struct CommandFailure {
    fault: Fault,
    wrote: bool,
}

impl From<Fault> for CommandFailure {
    fn from(fault: Fault) -> Self {
        Self { fault, wrote: false }
    }
}

impl From<Document> for CommandOutcome {
    fn from(reply: Document) -> Self {
        Self { reply, ..Self::default() }
    }
}

impl Node {
    pub(super) fn new(shared: Arc<SharedSet>, index: usize, config: &SetConfig) -> Self {
        let started = shared.lock().wall_time(index, shared.clock.now());
        let server_info = ServerInfo {
            version: config.version.clone(),
            max_wire_version: config.max_wire_version,
            address: config.addresses[index].clone(),
            set_name: config.name.clone(),
            process_id: i32::try_from(std::process::id()).unwrap_or(1),
            started,
        };
        Self { shared, index, server_info, cursors: Mutex::default() }
    }

    /// Runs a command, including all waits, and returns the complete reply: `ok`, errors with
    /// labels, `operationTime` and `$clusterTime`.
    ///
    /// The future can be dropped at any time. Writes done by then stay. A frozen member replies
    /// after it continues. A killed one cannot be reached.
    pub(crate) async fn run(&self, call: Call) -> Document {
        self.wait_until_thawed().await;
        let process = self.shared.lock().process(self.index);
        let deadline = call.max_time.map(|limit| self.shared.clock.now() + limit);
        let running = RunningCommand { call: &call, process, deadline };
        let outcome = self.execute(&running).await;
        self.wait_until_thawed().await;
        self.finish(&call, outcome)
    }

    /// Reply to `hello` without the fields of a connection (`connectionId`, `saslSupportedMechs`,
    /// `compression` …).
    pub(crate) fn hello(&self) -> Document {
        let now = self.shared.clock.now();
        self.shared.lock().hello(self.index, now)
    }

    /// Counter of the topology version. It changes whenever [`hello`](Self::hello) changes.
    pub(crate) fn topology(&self) -> watch::Receiver<u64> {
        self.shared.topology(self.index)
    }

    /// Process state of the member.
    pub(crate) fn process_state(&self) -> watch::Receiver<ProcessState> {
        self.shared.process_state(self.index)
    }

    /// Static facts about the server.
    pub(crate) fn server_info(&self) -> &ServerInfo {
        &self.server_info
    }

    /// Returns `true` for commands that open or continue a change stream. Before 4.4 their errors
    /// have no label for resumable errors.
    pub(crate) fn uses_change_stream(&self, name: &str, body: &Document) -> bool {
        let has_error_labels = self.server_info.max_wire_version >= 9;
        has_error_labels
            && match name {
                "aggregate" => command::opens_change_stream(body),
                "getMore" => self.cursors().awaits_data(body.get_i64("getMore").unwrap_or(0)),
                _ => false,
            }
    }

    /// Id of the current process (`topologyVersion.processId`).
    pub(crate) fn process(&self) -> ObjectId {
        self.shared.lock().process(self.index)
    }

    /// Oplog up to the majority commit point. `None` while the member is frozen.
    ///
    /// # Errors
    ///
    /// Returns an error if this process has ended.
    pub(crate) fn history(&self, process: ObjectId) -> Result<Option<MemberHistory>, Fault> {
        let state = self.shared.lock();
        match state.signals(self.index).1 {
            ProcessState::Running if state.process(self.index) == process => {
                Ok(Some(state.history(self.index)))
            }
            ProcessState::Frozen => Ok(None),
            ProcessState::Running | ProcessState::Killed => {
                Err(Fault::new(Code::INTERRUPTED_AT_SHUTDOWN, "interrupted at shutdown"))
            }
        }
    }

    /// Lets the primary write a no-op entry if its oplog has no entry of this time or later.
    pub(crate) fn advance_oplog_to(&self, time: OrderedTimestamp) {
        self.shared.change_if_appended(|state, now| state.advance_oplog_to(self.index, time, now));
    }

    /// Closes all cursors, because their process has ended.
    pub(super) fn close_cursors(&self) {
        self.cursors().kill_all();
    }

    fn cursors(&self) -> MutexGuard<'_, Cursors> {
        self.cursors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn execute(
        &self,
        running: &RunningCommand<'_>,
    ) -> Result<CommandOutcome, CommandFailure> {
        let call = running.call;
        self.shared.change_if_appended(|state, now| self.begin(state, running, now))?;
        if set_commands::is_set_command(&call.name) {
            return self.run_set_command(running).await;
        }
        let command = command::find(&call.name).ok_or_else(|| no_such_command(&call.name))?;
        checks::check(call, command, self.server_info.set_name.is_some())?;
        let run = (command.run)(&call.body);
        if call.in_transaction() {
            return self.run_in_transaction(running, run).await;
        }
        match run {
            Handler::Read(read) => self.run_read(running, command, read).await,
            Handler::Write(write) => self.run_write(running, write).await,
        }
    }

    /// Advances the cluster time and marks the session as used.
    fn begin(
        &self,
        state: &mut State,
        running: &RunningCommand<'_>,
        now: Instant,
    ) -> Result<(), Fault> {
        self.check_runs(state, running)?;
        let call = running.call;
        if state.is_set()
            && let Some(time) = call.cluster_time
        {
            state.advance_cluster_time(self.index, time.into(), now)?;
        }
        if let Some(session) = &call.session {
            state.use_session(session, now);
        }
        Ok(())
    }

    /// Checks that the process that received the command still runs.
    fn check_runs(&self, state: &State, running: &RunningCommand<'_>) -> Result<(), Fault> {
        let runs = state.signals(self.index).1 != ProcessState::Killed;
        if runs && state.process(self.index) == running.process {
            return Ok(());
        }
        Err(Fault::new(Code::INTERRUPTED_AT_SHUTDOWN, "interrupted at shutdown"))
    }

    /// Environment of a command's expressions.
    fn environment(&self, state: &mut State, now: Instant) -> Environment {
        let seed = state.next_random();
        let today = state.wall_time(self.index, now);
        let mut env = Environment::new(today, state.cluster_time(self.index).into(), seed);
        env.dialect = self.server_info.dialect();
        env
    }

    /// Reply `{ ok: 1 }` to commands that do nothing on a member.
    fn ok_reply() -> Result<CommandOutcome, CommandFailure> {
        Ok(Document::new().into())
    }

    fn check_primary(&self, state: &State) -> Result<(), Fault> {
        if state.member(self.index).is_primary() {
            return Ok(());
        }
        Err(Fault::new(Code::NOT_WRITABLE_PRIMARY, "not primary"))
    }
}

fn no_such_command(name: &str) -> Fault {
    Fault::new(Code::COMMAND_NOT_FOUND, format!("no such command: '{name}'"))
}
