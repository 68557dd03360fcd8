//! Elections and step-downs.

use steadfast_query::{Code, Fault};
use tokio::time::Instant;

use super::state::{MemberRole, State};
use crate::change::Change;

impl State {
    /// Steps down primaries that learn of a newer term.
    pub(super) fn step_down_for_newer_terms(&mut self) {
        for index in 0..self.members.len() {
            let newest = self.reachable_from(index).map(|other| self.members[other].term).max();
            let member = &mut self.members[index];
            if let Some(newest) = newest
                && newest > member.term
            {
                member.term = newest;
                if member.role == MemberRole::Primary {
                    member.become_secondary();
                }
            }
        }
    }

    /// Records when members lost contact to the primary, or a primary to the majority.
    pub(super) fn update_contacts(&mut self, now: Instant) {
        for index in 0..self.members.len() {
            let content = match self.members[index].role {
                MemberRole::Primary => self.reachable_from(index).count() >= self.majority(),
                MemberRole::Secondary => self.primary_of(index).is_some(),
            };
            let member = &mut self.members[index];
            if content || !member.is_on() {
                member.isolated_since = None;
            } else if member.isolated_since.is_none() {
                member.isolated_since = Some(now);
            }
        }
    }

    /// Steps down primaries that have not reached a majority for the election timeout.
    pub(super) fn step_down_isolated_primaries(&mut self, now: Instant) {
        if self.manual_elections {
            return;
        }
        let timeout = self.config.election_timeout;
        for member in &mut self.members {
            let due = member.isolated_since.is_some_and(|since| since + timeout <= now);
            if member.is_primary() && due {
                member.become_secondary();
                member.isolated_since = Some(now);
            }
        }
    }

    /// Holds due elections. Returns `true` if a member was elected.
    pub(super) fn hold_due_elections(&mut self, now: Instant) -> bool {
        if self.manual_elections {
            return false;
        }
        let timeout = self.config.election_timeout;
        let impatient = (0..self.members.len()).find(|index| {
            let member = &self.members[*index];
            member.is_on()
                && member.role == MemberRole::Secondary
                && member.isolated_since.is_some_and(|since| since + timeout <= now)
                && self.candidate(*index, now).is_some()
        });
        match impatient.and_then(|index| self.candidate(index, now)) {
            Some(candidate) => {
                self.complete_election(candidate, now);
                true
            }
            None => false,
        }
    }

    /// Time of the next election or of the next step-down of an isolated primary.
    pub(super) fn next_election(&self) -> Option<Instant> {
        if self.manual_elections {
            return None;
        }
        let timeout = self.config.election_timeout;
        (0..self.members.len())
            .filter_map(|index| {
                let member = &self.members[index];
                let due = member.isolated_since? + timeout;
                if member.role == MemberRole::Primary {
                    return Some(due);
                }
                // Without a majority no election can succeed. Passive members do not stand before
                // their time.
                let electable = self
                    .reachable_from(index)
                    .filter(|other| {
                        !self.is_priority_zero(*other) && self.votes(*other) >= self.majority()
                    })
                    .map(|other| {
                        self.members[other].unelectable_until.map_or(due, |it| it.max(due))
                    });
                electable.min()
            })
            .min()
    }

    /// Candidate of the members that one reaches: electable, with the newest oplog and the votes of
    /// a majority.
    fn candidate(&self, index: usize, now: Instant) -> Option<usize> {
        let standing = self
            .reachable_from(index)
            .filter(|other| self.may_stand(*other, now) && self.votes(*other) >= self.majority());
        // The first of equals. `max_by_key` would return the last.
        standing.reduce(|best, other| {
            if self.members[other].last() > self.members[best].last() { other } else { best }
        })
    }

    /// Returns `true` if a member is electable at this time.
    fn may_stand(&self, index: usize, now: Instant) -> bool {
        !self.is_priority_zero(index)
            && self.members[index].unelectable_until.is_none_or(|until| until <= now)
    }

    pub(super) fn is_priority_zero(&self, index: usize) -> bool {
        self.config.priority_zero.contains(&index)
    }

    /// Number of votes for a candidate. Members with a newer oplog vote no.
    fn votes(&self, candidate: usize) -> usize {
        let last = self.members[candidate].last();
        self.reachable_from(candidate).filter(|voter| self.members[*voter].last() <= last).count()
    }

    /// Makes a member primary of a new term, if a majority votes for it.
    pub(crate) fn elect(&mut self, candidate: usize, now: Instant) -> Result<(), Fault> {
        if self.members[candidate].is_primary() && self.members[candidate].isolated_since.is_none()
        {
            return Ok(());
        }
        if self.is_priority_zero(candidate) || self.votes(candidate) < self.majority() {
            return Err(Fault::new(Code::named(125, "CommandFailed"), "Election failed."));
        }
        self.complete_election(candidate, now);
        self.settle(now);
        Ok(())
    }

    /// Steps down a primary, which is not electable for some time. Another member is elected at
    /// once.
    pub(crate) fn step_down(&mut self, index: usize, unelectable_until: Instant, now: Instant) {
        let member = &mut self.members[index];
        if member.role == MemberRole::Primary {
            member.become_secondary();
        }
        member.unelectable_until = Some(unelectable_until);
        if !self.manual_elections
            && let Some(successor) = self.candidate(index, now)
        {
            self.complete_election(successor, now);
        }
        self.settle(now);
    }

    /// Makes a secondary unelectable until a time.
    pub(crate) fn set_unelectable(&mut self, index: usize, until: Instant, now: Instant) {
        self.members[index].unelectable_until = Some(until);
        self.settle(now);
    }

    /// Returns `true` if a majority, including an electable member, has all entries of a primary.
    pub(crate) fn has_successor(&self, index: usize, now: Instant) -> bool {
        let last = self.members[index].last();
        let mut up_to_date = 0;
        let mut electable = false;
        for other in self.reachable_from(index).filter(|other| self.members[*other].last() == last)
        {
            up_to_date += 1;
            electable |= other != index && self.may_stand(other, now);
        }
        electable && up_to_date >= self.majority()
    }

    /// Completes an election. All members in reach adopt the new term.
    fn complete_election(&mut self, candidate: usize, now: Instant) {
        self.catch_up(candidate, now);
        let voters: Vec<usize> = self.reachable_from(candidate).collect();
        let term = voters.iter().map(|voter| self.members[*voter].term).max().unwrap_or(0) + 1;
        for voter in voters {
            let voter = &mut self.members[voter];
            voter.term = term;
            if voter.role == MemberRole::Primary {
                voter.become_secondary();
            }
        }
        self.become_primary(candidate, now);
    }

    pub(super) fn become_primary(&mut self, index: usize, now: Instant) {
        let member = &mut self.members[index];
        member.role = MemberRole::Primary;
        member.term = member.term.max(1);
        member.elected = now;
        member.isolated_since = None;
        member.unelectable_until = None;
        member.match_optimes.fill(Default::default());
        let note = bson::doc! { "msg": "new primary" };
        let first = self.append(index, vec![Change::Noop(note)], None, now);
        self.members[index].first_of_term = first.unwrap_or_default();
        self.restore_prepared(index, now);
        self.replicate(now);
    }
}
