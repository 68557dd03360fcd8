//! A replica set: members that replicate a log, elect a primary and lose it again.
//!
//! The whole set is one plain [`State`] behind one lock. What waits, waits for a counter that moves
//! with every change. One task sleeps until something is due by itself; if nothing is, it sleeps.

mod concern;
mod election;
mod expiry;
mod faults;
mod members;
mod replication;
mod state;
mod status;
#[cfg(test)]
mod tests;
mod writing;

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
    node::{Node, Power},
};

pub(crate) use concern::Sight;
pub(crate) use faults::Execution;
pub(crate) use state::{Identity, Member, Role, State};
pub(crate) use writing::Direct;

/// For how long a primary that a test tells to step down does not stand for election.
const PASSIVE: Duration = Duration::from_secs(10);

/// How a set is made.
#[derive(Clone, Debug)]
pub(crate) struct SetConfig {
    /// `None` for a standalone server, which has one member and no log that anybody reads.
    pub(crate) name: Option<String>,
    /// `host:port` of each member, as clients are told them.
    pub(crate) addresses: Vec<String>,
    /// Members that are never primary. At least one is none of them.
    pub(crate) priority_zero: Vec<usize>,
    /// The tags of its members, in their order; members after the last have none.
    pub(crate) tags: Vec<Document>,
    /// `8.0.4`.
    pub(crate) version: String,
    pub(crate) max_wire_version: i32,
    /// How long members do without a primary before they elect another.
    pub(crate) election_timeout: Duration,
    /// What chance comes from.
    pub(crate) seed: u64,
    /// Whether it is a shard of a cluster, whose data only routers should touch.
    pub(crate) is_shard: bool,
}

/// What all members of a set share: its state, and who watches it.
#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    pub(crate) clock: Clock,
    changed: watch::Sender<u64>,
    /// When something is due.
    due: watch::Sender<Option<Instant>>,
    signals: Vec<Signals>,
}

/// What connections to one member watch.
#[derive(Debug)]
struct Signals {
    power: watch::Sender<Power>,
    topology: watch::Sender<u64>,
}

impl Shared {
    fn new(config: SetConfig, clock: Clock) -> Self {
        let count = config.addresses.len();
        let state = State::new(config, clock.clone(), clock.now());
        let signals = (0..count)
            .map(|index| {
                let (topology, power) = state.signals(index);
                Signals { power: watch::Sender::new(power), topology: watch::Sender::new(topology) }
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

    /// Looks at the state.
    pub(crate) fn look(&self) -> MutexGuard<'_, State> {
        // A panic under the lock is a defect; what others see is still the state before or after.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, and tells all who watch.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut State, Instant) -> T) -> T {
        let mut state = self.look();
        let result = change(&mut state, self.clock.now());
        self.tell(state);
        result
    }

    /// Asks the state for something that may mean new entries; if so, all who watch are told.
    pub(crate) fn ask<T>(&self, ask: impl FnOnce(&mut State, Instant) -> T) -> T {
        let mut state = self.look();
        let revision = state.revision;
        let result = ask(&mut state, self.clock.now());
        if state.revision != revision {
            self.tell(state);
        }
        result
    }

    /// Tells all who watch of what was changed under a lock that [`look`](Self::look) gave.
    pub(crate) fn tell(&self, state: MutexGuard<'_, State>) {
        for (index, signals) in self.signals.iter().enumerate() {
            let (topology, power) = state.signals(index);
            set_if_new(&signals.topology, topology);
            set_if_new(&signals.power, power);
        }
        let due = state.next_deadline();
        self.due.send_if_modified(|known| {
            // The task that sleeps until a later time need not wake to hear that nothing is due before.
            let earlier = due.is_some_and(|due| known.is_none_or(|known| due < known));
            *known = due;
            earlier
        });
        drop(state);
        self.changed.send_modify(|count| *count += 1);
    }

    /// Waits for the next change; to be asked for before the state is looked at.
    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    pub(crate) fn power(&self, index: usize) -> watch::Receiver<Power> {
        self.signals[index].power.subscribe()
    }

    pub(crate) fn topology(&self, index: usize) -> watch::Receiver<u64> {
        self.signals[index].topology.subscribe()
    }
}

fn set_if_new<T: PartialEq>(sender: &watch::Sender<T>, value: T) {
    sender.send_if_modified(|known| {
        let new = *known != value;
        *known = value;
        new
    });
}

/// Does what is due by itself, for as long as the set is there.
async fn keep_time(shared: Weak<Shared>, mut due: watch::Receiver<Option<Instant>>) {
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
    shared: Arc<Shared>,
    nodes: Vec<Arc<Node>>,
}

impl ReplicaSet {
    /// Starts one: a primary is there when this returns. Needs a tokio runtime for its timers.
    pub(crate) fn start(config: SetConfig, clock: Clock) -> Arc<Self> {
        let shared = Arc::new(Shared::new(config.clone(), clock));
        tokio::spawn(keep_time(Arc::downgrade(&shared), shared.due.subscribe()));
        let nodes = (0..config.addresses.len())
            .map(|index| Arc::new(Node::new(Arc::clone(&shared), index, &config)))
            .collect();
        Arc::new(Self { shared, nodes })
    }

    /// Its state, for routers, which change that of several shards at one moment.
    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Its members.
    pub(crate) fn nodes(&self) -> Vec<Arc<Node>> {
        self.nodes.clone()
    }

    /// Which member is primary, if one is.
    pub(crate) fn primary(&self) -> Option<usize> {
        self.shared.look().primary()
    }

    /// The primary steps down, and another member is elected at once, if one can be.
    pub(crate) fn step_down(&self) {
        self.shared.change(|state, now| {
            if let Some(primary) = state.primary() {
                state.step_down(primary, now + PASSIVE, now);
            }
        });
    }

    /// This member becomes primary, if most members vote for it.
    pub(crate) fn elect(&self, index: usize) -> Result<(), Fault> {
        self.shared.change(|state, now| state.elect(index, now))
    }

    /// A member's process ends, as by `kill -9`. What is in its log stays.
    pub(crate) fn kill(&self, index: usize) {
        self.shared.change(|state, now| state.kill(index, now));
        self.nodes[index].lose_cursors();
    }

    /// A member that was killed runs again.
    pub(crate) fn restart(&self, index: usize) {
        self.shared.change(|state, now| state.restart(index, now));
    }

    /// A member stands still, as by `kill -STOP`.
    pub(crate) fn freeze(&self, index: usize) {
        self.shared.change(|state, now| state.freeze(index, now));
    }

    /// A member that stood still goes on.
    pub(crate) fn thaw(&self, index: usize) {
        self.shared.change(|state, now| state.thaw(index, now));
    }

    /// Members reach those of their own group only. Clients reach all.
    pub(crate) fn partition(&self, groups: &[&[usize]]) {
        self.shared.change(|state, now| state.partition(groups, now));
    }

    /// All members reach each other again.
    pub(crate) fn heal(&self) {
        self.shared.change(State::heal);
    }

    /// A secondary copies nothing until [`release_replication`](Self::release_replication).
    pub(crate) fn hold_replication(&self, index: usize) {
        self.shared.change(|state, now| state.hold_replication(index, true, now));
    }

    /// A secondary copies again.
    pub(crate) fn release_replication(&self, index: usize) {
        self.shared.change(|state, now| state.hold_replication(index, false, now));
    }

    /// A secondary has what is written only after so long.
    pub(crate) fn replication_latency(&self, index: usize, latency: Duration) {
        self.shared.change(|state, now| state.set_latency(index, latency, now));
    }

    /// A member's clock is ahead by so much.
    pub(crate) fn clock_skew(&self, index: usize, ahead: Duration) {
        self.shared.change(|state, _| state.set_skew(index, ahead));
    }

    /// Whether elections are held only by [`elect`](Self::elect).
    pub(crate) fn manual_elections(&self, manual: bool) {
        self.shared.change(|state, now| state.set_manual_elections(manual, now));
    }

    /// How often each statement of a retryable write, and each commit, was executed.
    pub(crate) fn executions(&self) -> Vec<Execution> {
        self.shared.look().executions()
    }

    /// Waits until there is a primary that reaches most members, and says which.
    pub(crate) async fn until_primary(&self) -> usize {
        self.until(|state| {
            let primary = state.primary()?;
            state.member(primary).is_content().then_some(primary)
        })
        .await
    }

    /// Waits until every member that runs has all that the primary has.
    pub(crate) async fn until_replicated(&self) {
        self.until(|state| state.is_replicated().then_some(())).await;
    }

    async fn until<T>(&self, condition: impl Fn(&State) -> Option<T>) -> T {
        let mut watch = self.shared.watch();
        loop {
            watch.mark_unchanged();
            if let Some(met) = condition(&self.shared.look()) {
                return met;
            }
            // The sender is in `self`.
            let _ = watch.changed().await;
        }
    }
}
