//! Injected faults of a set: crashes, freezes, partitions, replication lag.

use std::time::Duration;

use tokio::time::Instant;

use super::state::State;
use crate::{
    change::Change,
    clock::clamp_duration,
    node::ProcessState,
    oplog::{OpTime, SessionId, SessionUpdate, SessionUpdateKind},
};

/// Number of executions of a retryable write statement or a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExecutionCount {
    pub(crate) session: SessionId,
    pub(crate) number: i64,
    /// `None` for the commit of a transaction.
    pub(crate) statement: Option<i32>,
    pub(crate) count: usize,
}

impl State {
    /// Kills the process of a member. Its oplog survives.
    pub(crate) fn kill(&mut self, index: usize, now: Instant) {
        let member = &mut self.members[index];
        member.process_state = ProcessState::Killed;
        member.become_secondary();
        self.settle(now);
    }

    /// Restarts a killed member.
    pub(crate) fn restart(&mut self, index: usize, now: Instant) {
        if self.members[index].process_state != ProcessState::Killed {
            return;
        }
        let process = self.object_id(now);
        let alone = self.members.len() == 1;
        let member = &mut self.members[index];
        member.process_state = ProcessState::Running;
        member.process = process;
        member.started = now;
        member.topology = 0;
        member.unelectable_until = None;
        if alone {
            member.term += 1;
            self.become_primary(index, now);
        }
        self.settle(now);
    }

    /// Freezes a member. Others do not reach it.
    pub(crate) fn freeze(&mut self, index: usize, now: Instant) {
        if self.members[index].process_state == ProcessState::Running {
            self.members[index].process_state = ProcessState::Frozen;
            self.settle(now);
        }
    }

    /// Continues a frozen member.
    pub(crate) fn thaw(&mut self, index: usize, now: Instant) {
        if self.members[index].process_state == ProcessState::Frozen {
            self.members[index].process_state = ProcessState::Running;
            self.settle(now);
        }
    }

    /// Partitions the members into groups. A member in no group is isolated.
    pub(crate) fn partition(&mut self, groups: &[&[usize]], now: Instant) {
        for index in 0..self.partition_groups.len() {
            let group = groups.iter().position(|group| group.contains(&index));
            self.partition_groups[index] = group.unwrap_or(groups.len() + index);
        }
        self.settle(now);
    }

    /// Ends all partitions.
    pub(crate) fn heal(&mut self, now: Instant) {
        self.partition_groups.fill(0);
        self.settle(now);
    }

    /// Stops or resumes replication to a secondary.
    pub(crate) fn hold_replication(&mut self, index: usize, replication_held: bool, now: Instant) {
        self.members[index].replication_held = replication_held;
        self.settle(now);
    }

    /// Delays replication to a secondary.
    pub(crate) fn set_latency(&mut self, index: usize, latency: Duration, now: Instant) {
        self.members[index].latency = clamp_duration(latency);
        self.settle(now);
    }

    /// Sets the clock of a member ahead.
    pub(crate) fn set_skew(&mut self, index: usize, skew: Duration) {
        self.members[index].skew = clamp_duration(skew);
    }

    /// Disables or enables automatic elections.
    pub(crate) fn set_manual_elections(&mut self, manual: bool, now: Instant) {
        self.manual_elections = manual;
        self.settle(now);
    }

    /// Returns `true` if all running members have the entries of the primary.
    pub(crate) fn is_replicated(&self) -> bool {
        let Some(primary) = self.primary() else { return false };
        let last = self.members[primary].last();
        self.members.iter().all(|member| !member.is_on() || member.last() == last)
    }

    /// Returns `true` if the entry is majority-committed.
    pub(crate) fn is_committed(&self, at: OpTime) -> bool {
        self.members.iter().any(|member| member.commit >= at && member.oplog.has(at))
    }

    /// Counts the executions of each retryable write statement and each commit in the retained
    /// oplog of the most up-to-date member. A count above 1 is a bug.
    pub(crate) fn executions(&self) -> Vec<ExecutionCount> {
        let newest = self.members.iter().max_by_key(|member| member.last());
        let mut executions: Vec<ExecutionCount> = Vec::new();
        for entry in newest.into_iter().flat_map(|member| member.oplog.entries()) {
            let Some(SessionUpdate { session, number, what }) = &entry.record else { continue };
            let statement = match what {
                // A record that was copied with a chunk: another shard executed the statement.
                SessionUpdateKind::Statement(_)
                    if entry.changes.iter().all(|it| matches!(it, Change::Noop(_))) =>
                {
                    continue;
                }
                SessionUpdateKind::Statement(statement) => Some(statement.id),
                SessionUpdateKind::Committed => None,
            };
            let (session, number) = (session.clone(), *number);
            executions.push(ExecutionCount { session, number, statement, count: 1 });
        }
        executions.sort_by(|one, other| {
            (&one.session, one.number, one.statement).cmp(&(
                &other.session,
                other.number,
                other.statement,
            ))
        });
        executions.dedup_by(|next, first| {
            let same = (&next.session, next.number, next.statement)
                == (&first.session, first.number, first.statement);
            first.count += usize::from(same);
            same
        });
        executions
    }
}
