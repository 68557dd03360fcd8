//! A replica set: members with an oplog, elections, failovers.
//!
//! The whole set is one [`State`] behind one lock. Waiters watch a counter that changes with the
//! state. One task sleeps until the next timer of the set, if there is one.

mod concern;
mod election;
mod faults;
mod members;
mod primary_writer;
mod replication;
mod state;
mod status;
#[cfg(test)]
mod tests;
mod ttl_monitor;

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use bson::Document;
use steadfast_query::Fault;
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use super::{
    clock::Clock,
    node::{Node, ProcessState},
};

pub(crate) use concern::ReadSnapshot;
pub(crate) use faults::ExecutionCount;
pub(crate) use primary_writer::PrimaryWriter;
pub(crate) use state::{MemberEpoch, MemberRole, MemberState, State};

/// Time after an injected step-down during which the member is not electable.
const STEP_DOWN_PERIOD: Duration = Duration::from_secs(10);

/// Configuration of a replica set.
#[derive(Clone, Debug)]
pub(crate) struct SetConfig {
    /// `None` for a standalone server, which has one member and exposes no oplog.
    pub(crate) name: Option<String>,
    /// Advertised address of each member, `host:port`.
    pub(crate) addresses: Vec<String>,
    /// Members of priority 0. At least one member is not among them.
    pub(crate) priority_zero: Vec<usize>,
    /// Tags of the members in their order. Members after the last one have none.
    pub(crate) tags: Vec<Document>,
    /// `8.0.4`.
    pub(crate) version: String,
    pub(crate) max_wire_version: i32,
    /// Time without a primary before an election (`electionTimeoutMillis`).
    pub(crate) election_timeout: Duration,
    /// Seed of the random number generator.
    pub(crate) seed: u64,
    /// `true` for a shard of a cluster.
    pub(crate) is_shard: bool,
}

/// State that the members of a set share, with its watchers.
#[derive(Debug)]
pub(crate) struct SharedSet {
    state: Mutex<State>,
    pub(crate) clock: Clock,
    changed: watch::Sender<u64>,
    /// Time of the next timer.
    due: watch::Sender<Option<Instant>>,
    signals: Vec<MemberSignals>,
}

/// Properties of a member that its connections watch.
#[derive(Debug)]
struct MemberSignals {
    process_state: watch::Sender<ProcessState>,
    topology: watch::Sender<u64>,
}

impl SharedSet {
    fn new(config: SetConfig, clock: Clock) -> Self {
        let count = config.addresses.len();
        let state = State::new(config, clock.clone(), clock.now());
        let signals = (0..count)
            .map(|index| {
                let (topology, process_state) = state.signals(index);
                MemberSignals {
                    process_state: watch::Sender::new(process_state),
                    topology: watch::Sender::new(topology),
                }
            })
            .collect();
        Self {
            due: watch::Sender::new(state.next_deadline()),
            state: Mutex::new(state),
            clock,
            changed: watch::Sender::new(0),
            signals,
        }
    }

    /// Locks the state for reading.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // A panic under the lock is a bug. The state is still consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state and notifies watchers.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut State, Instant) -> T) -> T {
        let mut state = self.lock();
        let result = change(&mut state, self.clock.now());
        self.publish(state);
        result
    }

    /// Runs a function that may append entries. Notifies watchers if it did.
    pub(crate) fn change_if_appended<T>(&self, ask: impl FnOnce(&mut State, Instant) -> T) -> T {
        let mut state = self.lock();
        let revision = state.revision;
        let result = ask(&mut state, self.clock.now());
        if state.revision != revision {
            self.publish(state);
        }
        result
    }

    /// Notifies watchers of changes made under a lock from [`lock`](Self::lock).
    pub(crate) fn publish(&self, state: MutexGuard<'_, State>) {
        for (index, signals) in self.signals.iter().enumerate() {
            let (topology, process_state) = state.signals(index);
            send_if_changed(&signals.topology, topology);
            send_if_changed(&signals.process_state, process_state);
        }
        let due = state.next_deadline();
        self.due.send_if_modified(|current| {
            // The timer task need not wake to learn of a later time.
            let earlier = due.is_some_and(|due| current.is_none_or(|current| due < current));
            *current = due;
            earlier
        });
        drop(state);
        self.changed.send_modify(|count| *count += 1);
    }

    /// Receiver of the next change. Must be created before the state is read.
    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    pub(crate) fn process_state(&self, index: usize) -> watch::Receiver<ProcessState> {
        self.signals[index].process_state.subscribe()
    }

    pub(crate) fn topology(&self, index: usize) -> watch::Receiver<u64> {
        self.signals[index].topology.subscribe()
    }
}

fn send_if_changed<T: PartialEq>(sender: &watch::Sender<T>, value: T) {
    sender.send_if_modified(|current| {
        let new = *current != value;
        *current = value;
        new
    });
}

/// Fires the timers of the set while it exists.
async fn run_timers(shared: Weak<SharedSet>, mut due: watch::Receiver<Option<Instant>>) {
    loop {
        let next = *due.borrow_and_update();
        let woken = async {
            match next {
                Some(next) => sleep_until(next).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = due.changed() => if changed.is_err() { return },
            () = woken => {
                let Some(shared) = shared.upgrade() else { return };
                shared.change(State::settle);
            }
        }
    }
}

/// A replica set, or a standalone server.
#[derive(Debug)]
pub(crate) struct ReplicaSet {
    shared: Arc<SharedSet>,
    nodes: Vec<Arc<Node>>,
}

impl ReplicaSet {
    /// Starts a set. It has a primary when this returns. Requires a tokio runtime for its timers.
    pub(crate) fn start(config: SetConfig, clock: Clock) -> Arc<Self> {
        let shared = Arc::new(SharedSet::new(config.clone(), clock));
        tokio::spawn(run_timers(Arc::downgrade(&shared), shared.due.subscribe()));
        let nodes = (0..config.addresses.len())
            .map(|index| Arc::new(Node::new(Arc::clone(&shared), index, &config)))
            .collect();
        Arc::new(Self { shared, nodes })
    }

    /// The shared state, for changes on several shards at once.
    pub(crate) fn shared(&self) -> &SharedSet {
        &self.shared
    }

    /// Members of the set.
    pub(crate) fn nodes(&self) -> Vec<Arc<Node>> {
        self.nodes.clone()
    }

    /// Index of the primary, if there is one.
    pub(crate) fn primary(&self) -> Option<usize> {
        self.shared.lock().primary()
    }

    /// Makes the primary step down. Another member is elected at once, if possible.
    pub(crate) fn step_down(&self) {
        self.shared.change(|state, now| {
            if let Some(primary) = state.primary() {
                state.step_down(primary, now + STEP_DOWN_PERIOD, now);
            }
        });
    }

    /// Elects a member, if a majority votes for it.
    pub(crate) fn elect(&self, index: usize) -> Result<(), Fault> {
        self.shared.change(|state, now| state.elect(index, now))
    }

    /// Kills the process of a member. Its oplog survives.
    pub(crate) fn kill(&self, index: usize) {
        self.shared.change(|state, now| state.kill(index, now));
        self.nodes[index].close_cursors();
    }

    /// Restarts a killed member.
    pub(crate) fn restart(&self, index: usize) {
        self.shared.change(|state, now| state.restart(index, now));
    }

    /// Freezes a member, as `kill -STOP` does.
    pub(crate) fn freeze(&self, index: usize) {
        self.shared.change(|state, now| state.freeze(index, now));
    }

    /// Continues a frozen member.
    pub(crate) fn thaw(&self, index: usize) {
        self.shared.change(|state, now| state.thaw(index, now));
    }

    /// Partitions the members into groups. Clients reach all members.
    pub(crate) fn partition(&self, groups: &[&[usize]]) {
        self.shared.change(|state, now| state.partition(groups, now));
    }

    /// Ends all partitions.
    pub(crate) fn heal(&self) {
        self.shared.change(State::heal);
    }

    /// Stops replication to a secondary until [`release_replication`](Self::release_replication).
    pub(crate) fn hold_replication(&self, index: usize) {
        self.shared.change(|state, now| state.hold_replication(index, true, now));
    }

    /// Resumes replication to a secondary.
    pub(crate) fn release_replication(&self, index: usize) {
        self.shared.change(|state, now| state.hold_replication(index, false, now));
    }

    /// Delays replication to a secondary.
    pub(crate) fn replication_latency(&self, index: usize, latency: Duration) {
        self.shared.change(|state, now| state.set_latency(index, latency, now));
    }

    /// Sets the clock of a member ahead.
    pub(crate) fn clock_skew(&self, index: usize, ahead: Duration) {
        self.shared.change(|state, _| state.set_skew(index, ahead));
    }

    /// `true` leaves elections to [`elect`](Self::elect).
    pub(crate) fn manual_elections(&self, manual: bool) {
        self.shared.change(|state, now| state.set_manual_elections(manual, now));
    }

    /// Counts the executions of each retryable write statement and each commit.
    pub(crate) fn executions(&self) -> Vec<ExecutionCount> {
        self.shared.lock().executions()
    }

    /// Waits for a primary that reaches a majority.
    pub(crate) async fn wait_for_primary(&self) -> usize {
        self.until(|state| {
            let primary = state.primary()?;
            state.member(primary).has_contact().then_some(primary)
        })
        .await
    }

    /// Waits until all running members have the entries of the primary.
    pub(crate) async fn wait_for_replication(&self) {
        self.until(|state| state.is_replicated().then_some(())).await;
    }

    async fn until<T>(&self, condition: impl Fn(&State) -> Option<T>) -> T {
        let mut watch = self.shared.watch();
        loop {
            watch.mark_unchanged();
            if let Some(met) = condition(&self.shared.lock()) {
                return met;
            }
            // `self` holds the sender.
            let _ = watch.changed().await;
        }
    }
}
