//! All that a set is at one moment: its members, who reaches whom, who is primary.
//!
//! Nothing here waits or does I/O. Whatever happens is told with the time at which it does; afterwards
//! [`State::settle`] draws the conclusions: who steps down, who is elected, who copies what from whom.

use std::{collections::BTreeMap, time::Duration};

use blackpipe_base::rng::Rng;
use bson::{DateTime, oid::ObjectId};
use steadfast_query::Fault;
use tokio::time::Instant;

use super::{SetConfig, members::MANY_SESSIONS};
use crate::{
    clock::Clock,
    log::{Log, OpTime, SessionId, TimestampOrder},
    node::Power,
    session::Active,
    store::Store,
    transaction::Transaction,
};

/// What a member is to the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Primary,
    Secondary,
}

/// Which start of a member's process, in which term, and as what.
pub(crate) type Identity = (ObjectId, i64, Role);

/// What clients are told of the set by one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct View {
    pub(super) role: Role,
    pub(super) primary: Option<usize>,
    pub(super) term: i64,
}

/// One member of a set.
#[derive(Debug)]
pub(crate) struct Member {
    pub(super) power: Power,
    pub(super) role: Role,
    pub(super) term: i64,
    pub(super) log: Log,
    pub(super) store: Store,
    /// The newest entry that it knows most members to have, and the data after it.
    pub(super) commit: OpTime,
    pub(super) committed: Store,
    pub(crate) cluster_time: TimestampOrder,
    /// While it is primary: how far it knows each member to have come.
    pub(super) known: Vec<OpTime>,
    /// While it is primary: its first entry. Only with it, or a later one, older ones commit.
    pub(super) first_of_term: OpTime,
    pub(super) elected: Instant,
    /// Whether it copies nothing for now, and how late it does.
    pub(super) held: bool,
    pub(super) latency: Duration,
    /// How far its clock is ahead.
    pub(super) skew: Duration,
    /// Since when it has reached no primary; a primary: not most members.
    pub(super) lonely_since: Option<Instant>,
    /// Until when it does not stand for election.
    pub(super) passive_until: Option<Instant>,
    /// Which start of its process this is.
    pub(super) process: ObjectId,
    pub(super) started: Instant,
    pub(super) view: View,
    pub(super) topology: u64,
    /// While it is primary: what sessions are doing.
    pub(super) sessions: BTreeMap<SessionId, Active>,
    pub(super) transactions: BTreeMap<SessionId, Transaction>,
}

impl Member {
    fn new(members: usize, process: ObjectId, now: Instant) -> Self {
        Self {
            power: Power::On,
            role: Role::Secondary,
            term: 0,
            log: Log::default(),
            store: Store::default(),
            commit: OpTime::default(),
            committed: Store::default(),
            cluster_time: TimestampOrder::default(),
            known: vec![OpTime::default(); members],
            first_of_term: OpTime::default(),
            elected: now,
            held: false,
            latency: Duration::ZERO,
            skew: Duration::ZERO,
            lonely_since: None,
            passive_until: None,
            process,
            started: now,
            view: View { role: Role::Secondary, primary: None, term: 0 },
            topology: 0,
            sessions: BTreeMap::new(),
            transactions: BTreeMap::new(),
        }
    }

    /// Its newest entry.
    pub(crate) fn last(&self) -> OpTime {
        self.log.last()
    }

    /// Whether it runs and is primary.
    pub(crate) fn is_primary(&self) -> bool {
        self.power == Power::On && self.role == Role::Primary
    }

    pub(crate) fn is_on(&self) -> bool {
        self.power == Power::On
    }

    /// Whether it misses nobody.
    pub(crate) fn is_content(&self) -> bool {
        self.lonely_since.is_none()
    }

    /// Its data now.
    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// Which start of its process this is, and as what: whoever waits for something on a member that
    /// is no longer the same waits in vain.
    pub(crate) fn identity(&self) -> Identity {
        (self.process, self.term, self.role)
    }

    /// Is no longer primary: what is not in the log is lost.
    pub(super) fn become_secondary(&mut self) {
        self.role = Role::Secondary;
        self.lonely_since = None;
        self.sessions.clear();
        self.transactions.clear();
    }

    /// Makes the data that most members have of the data that they had.
    fn commit_entries(&mut self, at: OpTime) {
        if !self.log.has(self.commit) {
            if let Some(store) = self.log.data_until(at.timestamp) {
                self.committed = store;
            }
            return;
        }
        for entry in self.log.after(self.commit.timestamp) {
            // It is the same data that the entry was applied to before.
            if entry.at > at || self.committed.apply(&entry).is_err() {
                break;
            }
        }
    }

    /// Moves what most members have, which it has, too.
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
        self.log.trim(at);
    }
}

/// A set at one moment.
#[derive(Debug)]
pub(crate) struct State {
    pub(super) config: SetConfig,
    pub(super) clock: Clock,
    pub(super) members: Vec<Member>,
    /// Which side of a partition each member is on.
    pub(super) sides: Vec<usize>,
    /// Whether elections are held only when asked for.
    pub(super) manual_elections: bool,
    /// When sessions were used last.
    pub(super) used: BTreeMap<SessionId, Instant>,
    pub(super) many_sessions: usize,
    /// When documents are looked for that have had their time, if any may have.
    pub(super) sweep: Option<Instant>,
    pub(super) session_timeout: Duration,
    pub(super) transaction_lifetime: Duration,
    /// Counts what others wait for: entries, and transactions that end.
    pub(super) revision: u64,
    rng: Rng,
}

impl State {
    /// A set whose first member is primary, of those that may be.
    pub(crate) fn new(config: SetConfig, clock: Clock, now: Instant) -> Self {
        let count = config.addresses.len();
        let mut state = Self {
            rng: Rng::new(config.seed),
            clock,
            members: Vec::new(),
            sides: vec![0; count],
            manual_elections: false,
            used: BTreeMap::new(),
            many_sessions: MANY_SESSIONS,
            sweep: None,
            session_timeout: Duration::from_secs(30 * 60),
            transaction_lifetime: Duration::from_secs(60),
            revision: 0,
            config,
        };
        for _ in 0..count {
            let process = state.object_id(now);
            state.members.push(Member::new(count, process, now));
        }
        let first = (0..count).find(|index| !state.is_priority_zero(*index)).unwrap_or(0);
        state.become_primary(first, now);
        state.settle(now);
        state
    }

    /// Draws the conclusions from whatever has happened.
    pub(crate) fn settle(&mut self, now: Instant) {
        loop {
            self.yield_to_newer_terms();
            self.note_contacts(now);
            self.leave_lonely_primaries(now);
            self.replicate(now);
            if !self.elect_where_due(now) {
                break;
            }
        }
        self.end_old_transactions(now);
        self.sweep(now);
        self.note_views();
    }

    /// When something happens by itself next.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let transactions = self.members.iter().filter_map(|member| {
            let open = member.transactions.values().filter(|open| !open.is_prepared());
            open.map(|open| open.began() + self.transaction_lifetime).min()
        });
        let deadlines = [self.next_election(), self.next_replication(), self.sweep];
        deadlines.into_iter().flatten().chain(transactions).min()
    }

    pub(crate) fn config(&self) -> &SetConfig {
        &self.config
    }

    pub(crate) fn member(&self, index: usize) -> &Member {
        &self.members[index]
    }

    pub(crate) fn member_mut(&mut self, index: usize) -> &mut Member {
        &mut self.members[index]
    }

    pub(crate) fn members(&self) -> &[Member] {
        &self.members
    }

    /// Whether it is a replica set, and not a standalone server.
    pub(crate) fn is_set(&self) -> bool {
        self.config.name.is_some()
    }

    /// The primary that clients should find: of the newest term.
    pub(crate) fn primary(&self) -> Option<usize> {
        let primaries = (0..self.members.len()).filter(|i| self.members[*i].is_primary());
        primaries.max_by_key(|i| self.members[*i].term)
    }

    /// How many members are most of them.
    pub(crate) fn majority(&self) -> usize {
        self.members.len() / 2 + 1
    }

    /// Whether two members hear each other.
    pub(super) fn reaches(&self, one: usize, other: usize) -> bool {
        self.members[one].is_on()
            && self.members[other].is_on()
            && self.sides[one] == self.sides[other]
    }

    /// Whom a member hears, itself among them.
    pub(super) fn reached_by(&self, index: usize) -> impl Iterator<Item = usize> + '_ {
        (0..self.members.len()).filter(move |other| self.reaches(index, *other))
    }

    /// The primary that a member follows.
    pub(crate) fn primary_of(&self, index: usize) -> Option<usize> {
        self.reached_by(index).find(|other| self.members[*other].role == Role::Primary)
    }

    /// A client's newest cluster time: this member's is not older. Far ahead of the time of day it is
    /// refused.
    pub(crate) fn hear_of(
        &mut self,
        index: usize,
        time: TimestampOrder,
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

    /// The newest time that a member has heard of.
    pub(crate) fn cluster_time(&self, index: usize) -> TimestampOrder {
        self.members[index].cluster_time
    }

    /// The time of day on a member's clock.
    pub(crate) fn time_of_day(&self, index: usize, now: Instant) -> DateTime {
        self.clock.time_at(now, self.members[index].skew)
    }

    pub(super) fn second(&self, index: usize, now: Instant) -> u32 {
        u32::try_from(self.time_of_day(index, now).timestamp_millis() / 1000).unwrap_or(0)
    }

    /// Returns the next random number.
    pub(crate) fn roll(&mut self) -> u64 {
        self.rng.next_u64()
    }

    pub(super) fn object_id(&mut self, now: Instant) -> ObjectId {
        let seconds = self.clock.time_at(now, Duration::ZERO).timestamp_millis() / 1000;
        let mut bytes = [0; 12];
        bytes[..4].copy_from_slice(&u32::try_from(seconds).unwrap_or(0).to_be_bytes());
        bytes[4..].copy_from_slice(&self.roll().to_be_bytes());
        ObjectId::from_bytes(bytes)
    }

    /// Counts what clients would see differently.
    fn note_views(&mut self) {
        for index in 0..self.members.len() {
            let primary = self.primary_of(index);
            let member = &mut self.members[index];
            let view = View { role: member.role, primary, term: member.term };
            if member.power == Power::On && member.view != view {
                member.view = view;
                // Nothing of what a standalone server says of itself changes.
                member.topology += u64::from(self.config.name.is_some());
            }
        }
    }
}
