//! State of a replica set at one moment: members, partitions, terms, roles.
//!
//! Nothing here waits or does I/O. Each input comes with the current time. Afterwards
//! [`State::settle`] applies the consequences: step-downs, elections, replication.

use std::{collections::BTreeMap, time::Duration};

use blackpipe_base::rng::Rng;
use bson::{DateTime, oid::ObjectId};
use steadfast_query::Fault;
use tokio::time::Instant;

use super::{SetConfig, members::SESSION_CLEANUP_THRESHOLD};
use crate::{
    clock::Clock,
    node::ProcessState,
    oplog::{OpTime, Oplog, OrderedTimestamp, SessionId},
    session::ActiveTxn,
    store::Store,
    transaction::Transaction,
};

/// MemberRole of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemberRole {
    Primary,
    Secondary,
}

/// Process, term and role of a member. A waiting command checks that none of them has changed.
pub(crate) type MemberEpoch = (ObjectId, i64, MemberRole);

/// Topology as a member reports it in `hello`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TopologyView {
    pub(super) role: MemberRole,
    pub(super) primary: Option<usize>,
    pub(super) term: i64,
}

/// A member of a replica set.
#[derive(Debug)]
pub(crate) struct MemberState {
    pub(super) process_state: ProcessState,
    pub(super) role: MemberRole,
    pub(super) term: i64,
    pub(super) oplog: Oplog,
    pub(super) store: Store,
    /// Majority commit point, and the data at it.
    pub(super) commit: OpTime,
    pub(super) committed: Store,
    pub(crate) cluster_time: OrderedTimestamp,
    /// Match optime of each member, known while it is primary.
    pub(super) match_optimes: Vec<OpTime>,
    /// First entry of its term as primary. Older entries commit only together with this one.
    pub(super) first_of_term: OpTime,
    pub(super) elected: Instant,
    /// Replication is stopped by the test.
    pub(super) replication_held: bool,
    pub(super) latency: Duration,
    /// Clock skew.
    pub(super) skew: Duration,
    /// Time of the last contact to a primary, or of a primary to a majority. `None` while there is
    /// contact.
    pub(super) isolated_since: Option<Instant>,
    /// End of the time during which it is not electable.
    pub(super) unelectable_until: Option<Instant>,
    /// Id of the current process.
    pub(super) process: ObjectId,
    pub(super) started: Instant,
    pub(super) view: TopologyView,
    pub(super) topology: u64,
    /// State of sessions while it is primary.
    pub(super) sessions: BTreeMap<SessionId, ActiveTxn>,
    pub(super) transactions: BTreeMap<SessionId, Transaction>,
}

impl MemberState {
    fn new(members: usize, process: ObjectId, now: Instant) -> Self {
        Self {
            process_state: ProcessState::Running,
            role: MemberRole::Secondary,
            term: 0,
            oplog: Oplog::default(),
            store: Store::default(),
            commit: OpTime::default(),
            committed: Store::default(),
            cluster_time: OrderedTimestamp::default(),
            match_optimes: vec![OpTime::default(); members],
            first_of_term: OpTime::default(),
            elected: now,
            replication_held: false,
            latency: Duration::ZERO,
            skew: Duration::ZERO,
            isolated_since: None,
            unelectable_until: None,
            process,
            started: now,
            view: TopologyView { role: MemberRole::Secondary, primary: None, term: 0 },
            topology: 0,
            sessions: BTreeMap::new(),
            transactions: BTreeMap::new(),
        }
    }

    /// Optime of its newest entry.
    pub(crate) fn last(&self) -> OpTime {
        self.oplog.last()
    }

    /// Returns `true` for a running primary.
    pub(crate) fn is_primary(&self) -> bool {
        self.process_state == ProcessState::Running && self.role == MemberRole::Primary
    }

    pub(crate) fn is_on(&self) -> bool {
        self.process_state == ProcessState::Running
    }

    /// Returns `true` if it reaches a primary, or as a primary a majority.
    pub(crate) fn has_contact(&self) -> bool {
        self.isolated_since.is_none()
    }

    /// Current data.
    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// Process, term and role. A command that waits on a member fails when they change.
    pub(crate) fn epoch(&self) -> MemberEpoch {
        (self.process, self.term, self.role)
    }

    /// Becomes a secondary. State that is not in the oplog is lost.
    pub(super) fn become_secondary(&mut self) {
        self.role = MemberRole::Secondary;
        self.isolated_since = None;
        self.sessions.clear();
        self.transactions.clear();
    }

    /// Applies the entries up to the new commit point to the committed data.
    fn commit_entries(&mut self, at: OpTime) {
        if !self.oplog.has(self.commit) {
            if let Some(store) = self.oplog.data_until(at.timestamp) {
                self.committed = store;
            }
            return;
        }
        for entry in self.oplog.after(self.commit.timestamp) {
            // The entry was applied to the same data before.
            if entry.at > at || self.committed.apply(&entry).is_err() {
                break;
            }
        }
    }

    /// Advances the commit point to an entry that the member has.
    pub(super) fn commit_to(&mut self, at: OpTime) {
        if at <= self.commit {
            return;
        }
        if at == self.last() {
            self.committed = self.store.clone();
        } else {
            self.commit_entries(at);
        }
        self.commit = at;
        self.oplog.trim(at);
    }
}

/// State of a replica set.
#[derive(Debug)]
pub(crate) struct State {
    pub(super) config: SetConfig,
    pub(super) clock: Clock,
    pub(super) members: Vec<MemberState>,
    /// Partition group of each member.
    pub(super) partition_groups: Vec<usize>,
    /// `true` disables automatic elections.
    pub(super) manual_elections: bool,
    /// Last use of sessions.
    pub(super) session_last_use: BTreeMap<SessionId, Instant>,
    pub(super) session_cleanup_threshold: usize,
    /// Time of the next TTL pass, if a TTL index exists.
    pub(super) next_ttl_pass: Option<Instant>,
    pub(super) session_timeout: Duration,
    pub(super) transaction_lifetime: Duration,
    /// Counts changes that others wait for: entries, ended transactions.
    pub(super) revision: u64,
    rng: Rng,
}

impl State {
    /// A set whose first electable member is primary.
    pub(crate) fn new(config: SetConfig, clock: Clock, now: Instant) -> Self {
        let count = config.addresses.len();
        let mut state = Self {
            rng: Rng::new(config.seed),
            clock,
            members: Vec::new(),
            partition_groups: vec![0; count],
            manual_elections: false,
            session_last_use: BTreeMap::new(),
            session_cleanup_threshold: SESSION_CLEANUP_THRESHOLD,
            next_ttl_pass: None,
            session_timeout: Duration::from_secs(30 * 60),
            transaction_lifetime: Duration::from_secs(60),
            revision: 0,
            config,
        };
        for _ in 0..count {
            let process = state.object_id(now);
            state.members.push(MemberState::new(count, process, now));
        }
        let first = (0..count).find(|index| !state.is_priority_zero(*index)).unwrap_or(0);
        state.become_primary(first, now);
        state.settle(now);
        state
    }

    /// Applies the consequences of an input.
    pub(crate) fn settle(&mut self, now: Instant) {
        loop {
            self.step_down_for_newer_terms();
            self.update_contacts(now);
            self.step_down_isolated_primaries(now);
            self.replicate(now);
            if !self.hold_due_elections(now) {
                break;
            }
        }
        self.end_old_transactions(now);
        self.run_ttl_pass(now);
        self.update_topology_versions();
    }

    /// Time of the next timer.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let transactions = self.members.iter().filter_map(|member| {
            let open = member.transactions.values().filter(|open| !open.is_prepared());
            open.map(|open| open.began() + self.transaction_lifetime).min()
        });
        let deadlines = [self.next_election(), self.next_replication(), self.next_ttl_pass];
        deadlines.into_iter().flatten().chain(transactions).min()
    }

    pub(crate) fn config(&self) -> &SetConfig {
        &self.config
    }

    pub(crate) fn member(&self, index: usize) -> &MemberState {
        &self.members[index]
    }

    pub(crate) fn member_mut(&mut self, index: usize) -> &mut MemberState {
        &mut self.members[index]
    }

    pub(crate) fn members(&self) -> &[MemberState] {
        &self.members
    }

    /// Returns `true` for a replica set, `false` for a standalone server.
    pub(crate) fn is_set(&self) -> bool {
        self.config.name.is_some()
    }

    /// The primary with the newest term.
    pub(crate) fn primary(&self) -> Option<usize> {
        let primaries = (0..self.members.len()).filter(|i| self.members[*i].is_primary());
        primaries.max_by_key(|i| self.members[*i].term)
    }

    /// Number of members in a majority.
    pub(crate) fn majority(&self) -> usize {
        self.members.len() / 2 + 1
    }

    /// Returns `true` if two members reach each other.
    pub(super) fn reaches(&self, one: usize, other: usize) -> bool {
        self.members[one].is_on()
            && self.members[other].is_on()
            && self.partition_groups[one] == self.partition_groups[other]
    }

    /// Members that a member reaches, including itself.
    pub(super) fn reachable_from(&self, index: usize) -> impl Iterator<Item = usize> + '_ {
        (0..self.members.len()).filter(move |other| self.reaches(index, *other))
    }

    /// The primary that a member follows.
    pub(crate) fn primary_of(&self, index: usize) -> Option<usize> {
        self.reachable_from(index).find(|other| self.members[*other].role == MemberRole::Primary)
    }

    /// Advances a member's cluster time to that of a client (`$clusterTime`). Rejects a time that
    /// is far ahead of the wall clock.
    pub(crate) fn advance_cluster_time(
        &mut self,
        index: usize,
        time: OrderedTimestamp,
        now: Instant,
    ) -> Result<(), Fault> {
        const YEAR: u32 = 365 * 24 * 60 * 60;
        let second = self.second(index, now);
        if time.time > second.saturating_add(YEAR) {
            return Err(Fault::new(
                steadfast_query::Code::named(205, "ClusterTimeFailsRateLimiter"),
                format!(
                    "New $clusterTime, {}, is too far from this node's wall clock time, {second}.",
                    time.time
                ),
            ));
        }
        let member = &mut self.members[index];
        member.cluster_time = member.cluster_time.max(time);
        Ok(())
    }

    /// Newest cluster time of a member.
    pub(crate) fn cluster_time(&self, index: usize) -> OrderedTimestamp {
        self.members[index].cluster_time
    }

    /// Wall time on a member's clock.
    pub(crate) fn wall_time(&self, index: usize, now: Instant) -> DateTime {
        self.clock.wall_time_at(now, self.members[index].skew)
    }

    pub(super) fn second(&self, index: usize, now: Instant) -> u32 {
        u32::try_from(self.wall_time(index, now).timestamp_millis() / 1000).unwrap_or(0)
    }

    /// Returns a random number.
    pub(crate) fn next_random(&mut self) -> u64 {
        self.rng.next_u64()
    }

    pub(super) fn object_id(&mut self, now: Instant) -> ObjectId {
        let seconds = self.clock.wall_time_at(now, Duration::ZERO).timestamp_millis() / 1000;
        let mut bytes = [0; 12];
        bytes[..4].copy_from_slice(&u32::try_from(seconds).unwrap_or(0).to_be_bytes());
        bytes[4..].copy_from_slice(&self.next_random().to_be_bytes());
        ObjectId::from_bytes(bytes)
    }

    /// Increments the topology version of members whose `hello` has changed.
    fn update_topology_versions(&mut self) {
        for index in 0..self.members.len() {
            let primary = self.primary_of(index);
            let member = &mut self.members[index];
            let view = TopologyView { role: member.role, primary, term: member.term };
            if member.process_state == ProcessState::Running && member.view != view {
                member.view = view;
                // The `hello` of a standalone server does not change.
                member.topology += u64::from(self.config.name.is_some());
            }
        }
    }
}
