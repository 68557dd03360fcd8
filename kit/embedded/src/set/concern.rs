//! Read and write concerns, evaluated on the state: satisfied, pending, or impossible.

use bson::{Bson, Document, doc};
use steadfast_query::{Code, Fault};
use tokio::time::Instant;

use super::state::State;
use crate::{
    call::{ReadConcern, WriteConcern, WriteConcernW},
    oplog::{MemberHistory, OpTime, OrderedTimestamp, StreamHistory},
    store::Store,
};

/// Data that a read sees.
#[derive(Debug)]
pub(crate) struct ReadSnapshot {
    pub(crate) store: Store,
    pub(crate) history: StreamHistory,
    /// Time of a snapshot.
    pub(crate) at: Option<OrderedTimestamp>,
    /// Entry that must be majority-committed before the reply (linearizable reads).
    pub(crate) confirm: Option<OpTime>,
}

impl State {
    /// Evaluates a write concern. `None` while it is not satisfied yet.
    pub(crate) fn evaluate_write_concern(
        &self,
        index: usize,
        at: OpTime,
        concern: &WriteConcern,
    ) -> Option<Result<(), Fault>> {
        let member = self.member(index);
        match concern.effective_w() {
            WriteConcernW::Members(expected) => {
                let expected = expected as usize;
                if expected > self.members().len() {
                    return Some(Err(Fault::new(
                        Code::UNSATISFIABLE_WRITE_CONCERN,
                        "Not enough data-bearing nodes",
                    )));
                }
                let have = member.match_optimes.iter().filter(|optime| **optime >= at).count();
                (expected <= 1 || have >= expected).then_some(Ok(()))
            }
            WriteConcernW::Majority => (member.commit >= at).then_some(Ok(())),
            WriteConcernW::Tag(mode) => Some(Err(Fault::new(
                Code::UNKNOWN_REPL_WRITE_CONCERN,
                format!("No write concern mode named '{mode}' found in replica set configuration"),
            ))),
            WriteConcernW::Tags(tags) => Some(Err(unknown_tag(&tags))),
        }
    }

    /// Data for a read with this concern. `None` while it must wait.
    pub(crate) fn read_snapshot(
        &mut self,
        index: usize,
        concern: &ReadConcern,
        now: Instant,
    ) -> Result<Option<ReadSnapshot>, Fault> {
        if !self.is_set() {
            self.check_standalone(concern)?;
        }
        let (after, at) = (concern.after_cluster_time, concern.at_cluster_time);
        for (name, time) in [("afterClusterTime", after), ("atClusterTime", at)] {
            let Some(time) = time.map(OrderedTimestamp::from) else { continue };
            self.check_not_ahead(index, name, time)?;
            self.advance_oplog_to(index, time, now);
            let member = self.member(index);
            let reached = match concern.level() {
                "majority" | "snapshot" => member.commit,
                _ => member.last(),
            };
            if reached.timestamp < time {
                return Ok(None);
            }
        }
        let member = self.member(index);
        let seen = |store: &Store| self.read_of_data(index, store);
        match concern.level() {
            "majority" => Ok(Some(seen(&member.committed))),
            "snapshot" => self.snapshot(index, at.map(OrderedTimestamp::from)).map(Some),
            "linearizable" => {
                if !member.is_primary() {
                    return Err(Fault::new(
                        Code::NOT_WRITABLE_PRIMARY,
                        "cannot satisfy linearizable read concern on non-primary node",
                    ));
                }
                let read_snapshot = seen(&member.store);
                let note = doc! { "msg": "linearizable read" };
                let note = vec![crate::change::Change::Noop(note)];
                let confirm = self.append(index, note, None, now)?;
                self.replicate(now);
                Ok(Some(ReadSnapshot { confirm: Some(confirm), ..read_snapshot }))
            }
            _ => Ok(Some(seen(&member.store))),
        }
    }

    /// A read of this data.
    pub(crate) fn read_of_data(&self, index: usize, store: &Store) -> ReadSnapshot {
        let history = self.history(index).into();
        ReadSnapshot { store: store.clone(), history, at: None, confirm: None }
    }

    /// Oplog of a member up to the commit point that it knows.
    pub(crate) fn history(&self, index: usize) -> MemberHistory {
        let member = self.member(index);
        MemberHistory::new(&member.oplog, member.commit, &member.committed)
    }

    /// Snapshot at a time, or at the commit point.
    pub(crate) fn snapshot(
        &self,
        index: usize,
        at: Option<OrderedTimestamp>,
    ) -> Result<ReadSnapshot, Fault> {
        let member = self.member(index);
        let Some(at) = at else {
            let at = Some(member.commit.timestamp);
            return Ok(ReadSnapshot { at, ..self.read_of_data(index, &member.committed) });
        };
        let store = member.oplog.snapshot(at).ok_or_else(|| {
            Fault::new(
                Code::SNAPSHOT_TOO_OLD,
                format!(
                    "Read timestamp Timestamp({}, {}) is older than the oldest available timestamp.",
                    at.time, at.increment
                ),
            )
        })?;
        Ok(ReadSnapshot { at: Some(at), ..self.read_of_data(index, &store) })
    }

    /// Rejects a time after the newest cluster time.
    pub(crate) fn check_not_ahead(
        &self,
        index: usize,
        name: &str,
        time: OrderedTimestamp,
    ) -> Result<(), Fault> {
        let current = self.member(index).cluster_time;
        if time <= current {
            return Ok(());
        }
        let show = |time: OrderedTimestamp| {
            format!("{{ ts: Timestamp({}, {}) }}", time.time, time.increment)
        };
        Err(Fault::new(
            Code::INVALID_OPTIONS,
            format!(
                "readConcern {name} value must not be greater than the current clusterTime. \
                 Requested clusterTime: {}; current clusterTime: {}",
                show(time),
                show(current)
            ),
        ))
    }

    /// Rejects read concerns that a standalone server does not support.
    fn check_standalone(&self, concern: &ReadConcern) -> Result<(), Fault> {
        let not_a_set = |what: &str| {
            Err(Fault::new(
                Code::named(123, "NotAReplicaSet"),
                format!("node needs to be a replica set member to use {what}"),
            ))
        };
        if concern.after_cluster_time.is_some() {
            return Err(Fault::new(
                Code::ILLEGAL_OPERATION,
                "Cannot specify afterClusterTime readConcern without replication enabled",
            ));
        }
        match concern.level() {
            "linearizable" => not_a_set("read concern"),
            "snapshot" => not_a_set("readConcern: snapshot"),
            _ => Ok(()),
        }
    }
}

fn unknown_tag(tags: &Document) -> Fault {
    let tag = tags.iter().next().map_or("", |(tag, _): (&String, &Bson)| tag.as_str());
    Fault::new(Code::named(4, "NoSuchKey"), format!("No replica set tag key {tag} in config"))
}
