//! Replication: oplog entries, sync sources, rollback, majority commit point.

use std::sync::Arc;

use steadfast_query::Fault;
use tokio::time::Instant;

use super::state::{MemberRole, State};
use crate::{
    change::Change,
    oplog::{CommitStep, OpTime, OplogEntry, OrderedTimestamp, SessionUpdate},
};

impl State {
    /// Appends an entry to a primary's oplog and applies it, or does neither. Other members get it
    /// with the next [`replicate`](Self::replicate).
    pub(crate) fn append(
        &mut self,
        index: usize,
        changes: Vec<Change>,
        record: Option<SessionUpdate>,
        now: Instant,
    ) -> Result<OpTime, Fault> {
        self.append_step(index, changes, record, None, now)
    }

    /// Appends an entry that is a step of a two-phase commit.
    pub(crate) fn append_step(
        &mut self,
        index: usize,
        changes: Vec<Change>,
        record: Option<SessionUpdate>,
        step: Option<CommitStep>,
        now: Instant,
    ) -> Result<OpTime, Fault> {
        self.revision += 1;
        let second = self.second(index, now);
        let wall = self.wall_time(index, now);
        let member = &mut self.members[index];
        let newest = member.cluster_time.max(member.last().timestamp);
        let at = OpTime { term: member.term, timestamp: newest.next(second) };
        let before = member.store.write(&changes)?;
        let entry = Arc::new(OplogEntry { at, wall, changes, record, step, before });
        member.store.apply_metadata(&entry);
        member.cluster_time = at.timestamp;
        member.oplog.push(Arc::clone(&entry), now, &member.store);
        self.schedule_ttl_pass(&entry.changes, now);
        Ok(at)
    }

    /// Replicates entries to all members in reach, then advances the commit points.
    pub(crate) fn replicate(&mut self, now: Instant) {
        for index in 0..self.members.len() {
            if self.members[index].role == MemberRole::Secondary
                && let Some(source) = self.sync_source_of(index)
            {
                self.replicate_from(index, source, now);
            }
        }
        for index in 0..self.members.len() {
            if self.members[index].is_primary() {
                self.advance_commit(index);
            }
        }
    }

    /// Time at which a member with replication latency copies next.
    pub(super) fn next_replication(&self) -> Option<Instant> {
        (0..self.members.len())
            .filter_map(|index| {
                let member = &self.members[index];
                if member.role == MemberRole::Primary
                    || member.replication_held
                    || member.latency.is_zero()
                {
                    return None;
                }
                let source = &self.members[self.sync_source_of(index)?];
                let written = source.oplog.next_written(member.last().timestamp)?;
                Some(written + member.latency)
            })
            .min()
    }

    /// Sync source of a secondary: the primary, otherwise a member that is ahead on the same
    /// branch.
    fn sync_source_of(&self, index: usize) -> Option<usize> {
        if let Some(primary) = self.primary_of(index) {
            return Some(primary);
        }
        let last = self.members[index].last();
        self.reachable_from(index)
            .filter(|other| {
                let other = &self.members[*other];
                other.last() > last && other.oplog.has(last)
            })
            .max_by_key(|other| self.members[*other].last())
    }

    /// Replicates from the sync source.
    fn replicate_from(&mut self, index: usize, source: usize, now: Instant) {
        let [member, source_member] = self
            .members
            .get_disjoint_mut([index, source])
            .unwrap_or_else(|_| unreachable!("the sync source is another member"));
        if !member.replication_held {
            if !source_member.oplog.has(member.last()) {
                member.roll_back_to_common_point(source_member);
            }
            if member.latency.is_zero() {
                member.copy_all(source_member);
            } else {
                let due = now.checked_sub(member.latency);
                member.copy_until(source_member, due);
            }
        }
        // A rollback may have removed entries that the truncated oplog of the source continues
        // from.
        if source_member.oplog.has(member.last()) {
            source_member.match_optimes[index] = member.last();
            let commit = source_member.commit.min(member.last());
            member.commit_to(commit);
        }
        member.cluster_time = member.cluster_time.max(source_member.cluster_time);
    }

    /// Advances the majority commit point to an entry of the primary's own term.
    fn advance_commit(&mut self, index: usize) {
        let majority = self.majority();
        let member = &mut self.members[index];
        member.match_optimes[index] = member.last();
        let mut match_optimes = member.match_optimes.clone();
        match_optimes.sort_unstable_by(|one, other| other.cmp(one));
        let most = match_optimes[majority - 1];
        if most < member.first_of_term || most <= member.commit {
            return;
        }
        member.commit_to(most);
        for other in 0..self.members.len() {
            let commit = self.members[index].commit;
            if other != index && self.reaches(index, other) {
                let follower = &self.members[other];
                if self.members[index].oplog.has(follower.last()) {
                    let commit = commit.min(follower.last());
                    self.members[other].commit_to(commit);
                }
            }
        }
    }

    /// Catches up a newly elected primary with members that have more entries.
    pub(super) fn catch_up(&mut self, index: usize, now: Instant) {
        if self.members[index].replication_held {
            return;
        }
        let last = self.members[index].last();
        let best = self
            .reachable_from(index)
            .filter(|other| {
                let other = &self.members[*other];
                other.last() > last && other.oplog.has(last)
            })
            .max_by_key(|other| self.members[*other].last());
        if let Some(best) = best {
            let late = std::mem::take(&mut self.members[index].latency);
            self.replicate_from(index, best, now);
            self.members[index].latency = late;
        }
    }

    /// Appends a no-op entry if the oplog of a primary is behind a time. The time may come from
    /// another shard.
    pub(crate) fn advance_oplog_to(&mut self, index: usize, time: OrderedTimestamp, now: Instant) {
        let Some(primary) = self.primary_of(index) else { return };
        let member = &mut self.members[primary];
        if member.last().timestamp >= time {
            return;
        }
        member.cluster_time = member.cluster_time.max(time);
        let note = bson::doc! { "msg": "noop for reads after a cluster time" };
        if self.append(primary, vec![Change::Noop(note)], None, now).is_ok() {
            self.replicate(now);
        }
    }
}

impl super::state::MemberState {
    /// Rolls back to the common point with a source. If it is truncated, the member copies all data
    /// (initial sync).
    fn roll_back_to_common_point(&mut self, source: &Self) {
        let common = self.oplog.common_point(&source.oplog);
        match common.and_then(|common| self.oplog.roll_back(common)) {
            Some(store) => self.store = store,
            None => {
                self.oplog = source.oplog.clone();
                self.store = source.store.clone();
            }
        }
    }

    /// Copies the whole oplog and data of the source.
    fn copy_all(&mut self, source: &Self) {
        if self.last() != source.last() {
            self.oplog = source.oplog.clone();
            self.store = source.store.clone();
        }
    }

    /// Copies the entries that the source wrote until a time.
    fn copy_until(&mut self, source: &Self, until: Option<Instant>) {
        if let Some(until) = until {
            (self.oplog, self.store) = source.oplog.copy_until(until, &self.oplog, &self.store);
        }
    }
}
