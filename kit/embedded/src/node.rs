//! One member of a replica set, or a standalone server, as what connections talk to.

mod checks;
mod own;
mod read;
mod reply;
mod sessions;
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

pub(crate) use checks::{check, check_end, not_stable};
pub(crate) use read::is_empty;

use super::{
    call::Call,
    command::{self, About, Run},
    cursor::Cursors,
    log::{History, OpTime, TimestampOrder},
    set::{SetConfig, Shared, State},
};

/// Whether a server runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Power {
    /// It answers.
    On,
    /// It keeps its connections and does nothing (`kill -STOP`).
    Frozen,
    /// It is gone (`kill -9`): no connection stays, none is taken.
    Off,
}

/// One member of a set.
#[derive(Debug)]
pub(crate) struct Node {
    shared: Arc<Shared>,
    index: usize,
    about: About,
    cursors: Mutex<Cursors>,
}

/// A call that is being answered: by which start of the member's process, and until when.
#[derive(Debug)]
struct Running<'a> {
    call: &'a Call,
    process: ObjectId,
    deadline: Option<Instant>,
}

/// What a call came to.
#[derive(Debug, Default)]
struct Done {
    reply: Document,
    /// What it waited for did not happen.
    concern: Option<Fault>,
    /// The newest entry that it wrote or saw.
    at: Option<OpTime>,
}

/// Why a call came to nothing, and whether it may have written something before.
#[derive(Debug)]
struct Failed {
    fault: Fault,
    wrote: bool,
}

impl From<Fault> for Failed {
    fn from(fault: Fault) -> Self {
        Self { fault, wrote: false }
    }
}

impl From<Document> for Done {
    fn from(reply: Document) -> Self {
        Self { reply, ..Self::default() }
    }
}

impl Node {
    pub(super) fn new(shared: Arc<Shared>, index: usize, config: &SetConfig) -> Self {
        let started = shared.look().time_of_day(index, shared.clock.now());
        let about = About {
            version: config.version.clone(),
            max_wire_version: config.max_wire_version,
            address: config.addresses[index].clone(),
            set_name: config.name.clone(),
            process_id: i32::try_from(std::process::id()).unwrap_or(1),
            started,
        };
        Self { shared, index, about, cursors: Mutex::default() }
    }

    /// Runs a command to its end, waiting included, and gives the whole reply: `ok`, errors with
    /// their labels, `operationTime` and `$clusterTime`.
    ///
    /// May be dropped at any time; what has been written by then stays. A member that is frozen
    /// answers when it goes on; one that is gone cannot be reached.
    pub(crate) async fn run(&self, call: Call) -> Document {
        self.thawed().await;
        let process = self.shared.look().process(self.index);
        let deadline = call.max_time.map(|limit| self.shared.clock.now() + limit);
        let running = Running { call: &call, process, deadline };
        let outcome = self.execute(&running).await;
        self.thawed().await;
        self.finish(&call, outcome)
    }

    /// What `hello` says of the set, of this member and of what it can do; what is about the
    /// connection (`connectionId`, `saslSupportedMechs`, `compression` …) is not in it.
    pub(crate) fn hello(&self) -> Document {
        let now = self.shared.clock.now();
        self.shared.look().hello(self.index, now)
    }

    /// The counter of its topology version, which moves whenever [`hello`](Self::hello) does.
    pub(crate) fn topology(&self) -> watch::Receiver<u64> {
        self.shared.topology(self.index)
    }

    /// Whether it runs.
    pub(crate) fn power(&self) -> watch::Receiver<Power> {
        self.shared.power(self.index)
    }

    /// What it tells of itself.
    pub(crate) fn about(&self) -> &About {
        &self.about
    }

    /// Whether a command opens a change stream, or asks one. Older versions do not say that it can go
    /// on after an error: before 4.4.
    pub(crate) fn watches(&self, name: &str, body: &Document) -> bool {
        let tells = self.about.max_wire_version >= 9;
        tells
            && match name {
                "aggregate" => command::opens_change_stream(body),
                "getMore" => self.cursors().awaits_data(body.get_i64("getMore").unwrap_or(0)),
                _ => false,
            }
    }

    /// Which start of its process this is.
    pub(crate) fn process(&self) -> ObjectId {
        self.shared.look().process(self.index)
    }

    /// The log up to what most members have. `None` while it is frozen.
    ///
    /// # Errors
    ///
    /// It runs no longer as this process.
    pub(crate) fn history(&self, process: ObjectId) -> Result<Option<History>, Fault> {
        let state = self.shared.look();
        match state.signals(self.index).1 {
            Power::On if state.process(self.index) == process => {
                Ok(Some(state.history(self.index)))
            }
            Power::Frozen => Ok(None),
            Power::On | Power::Off => {
                Err(Fault::new(Code::INTERRUPTED_AT_SHUTDOWN, "interrupted at shutdown"))
            }
        }
    }

    /// Has the primary write a note, if the log has nothing of a time or later.
    pub(crate) fn reach_time(&self, time: TimestampOrder) {
        self.shared.ask(|state, now| state.reach_time(self.index, time, now));
    }

    /// What clients have not fetched yet is gone with the process that held it.
    pub(super) fn lose_cursors(&self) {
        self.cursors().kill_all();
    }

    fn cursors(&self) -> MutexGuard<'_, Cursors> {
        self.cursors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn execute(&self, running: &Running<'_>) -> Result<Done, Failed> {
        let call = running.call;
        self.shared.ask(|state, now| self.begin(state, running, now))?;
        if own::knows(&call.name) {
            return self.run_own(running).await;
        }
        let command = command::find(&call.name).ok_or_else(|| no_such_command(&call.name))?;
        checks::check(call, command, self.about.set_name.is_some())?;
        let run = (command.run)(&call.body);
        if call.in_transaction() {
            return self.run_in_transaction(running, run).await;
        }
        match run {
            Run::Read(read) => self.run_read(running, command, read).await,
            Run::Write(write) => self.run_write(running, write).await,
        }
    }

    /// Hears what the client has heard, and notes that its session is in use.
    fn begin(&self, state: &mut State, running: &Running<'_>, now: Instant) -> Result<(), Fault> {
        self.check_runs(state, running)?;
        let call = running.call;
        if state.is_set()
            && let Some(time) = call.cluster_time
        {
            state.hear_of(self.index, time.into(), now)?;
        }
        if let Some(session) = &call.session {
            state.use_session(session, now);
        }
        Ok(())
    }

    /// Whether the member is still the process that the call came to.
    fn check_runs(&self, state: &State, running: &Running<'_>) -> Result<(), Fault> {
        let runs = state.signals(self.index).1 != Power::Off;
        if runs && state.process(self.index) == running.process {
            return Ok(());
        }
        Err(Fault::new(Code::INTERRUPTED_AT_SHUTDOWN, "interrupted at shutdown"))
    }

    /// What a query can see besides documents, for one command.
    fn environment(&self, state: &mut State, now: Instant) -> Environment {
        let seed = state.roll();
        let today = state.time_of_day(self.index, now);
        let mut env = Environment::new(today, state.cluster_time(self.index).into(), seed);
        env.dialect = self.about.dialect();
        env
    }

    /// The reply to commands of a member that only say that all is well.
    fn fine() -> Result<Done, Failed> {
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
