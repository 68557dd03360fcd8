//! State of a replica set: no runtime, no socket, simulated time.

mod elections;
mod random;
mod replication;
mod transactions;

use std::{sync::Arc, time::Duration};

use bson::{Bson, Document, Uuid, doc};
use steadfast_query::Fault;
use tokio::time::Instant;

use super::{PrimaryWriter, SetConfig, State};
use crate::{
    call::{WriteConcern, WriteConcernW},
    change::{Change, ChangeWriter, Statement},
    clock::Clock,
    namespace::Namespace,
    oplog::{OpTime, SessionId},
};

/// Election timeout.
const TIMEOUT: Duration = Duration::from_millis(300);

/// A state with its time.
struct TestState {
    state: State,
    now: Instant,
}

impl TestState {
    fn new(members: usize) -> Self {
        Self::with_priority_zero(members, Vec::new())
    }

    fn with_priority_zero(members: usize, priority_zero: Vec<usize>) -> Self {
        let clock = Clock::system();
        let now = clock.now();
        let config = SetConfig {
            name: Some(String::from("rs")),
            addresses: (0..members).map(|index| format!("localhost:{}", 27017 + index)).collect(),
            priority_zero,
            tags: Vec::new(),
            version: String::from("8.0.4"),
            max_wire_version: 25,
            election_timeout: TIMEOUT,
            seed: 7,
            is_shard: false,
        };
        let mut lab = Self { state: State::new(config, clock, now), now };
        let create = Change::CreateCollection {
            namespace: namespace(),
            uuid: Uuid::from_bytes([1; 16]),
            options: Document::new(),
        };
        let primary = lab.state.primary().unwrap();
        lab.state.append(primary, vec![create], None, now).unwrap();
        lab.state.replicate(now);
        lab
    }

    /// Advances the time and fires timers when they are due.
    fn advance_time(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(due) = self.state.next_deadline().filter(|due| *due <= end) {
            self.now = due.max(self.now);
            self.state.settle(self.now);
        }
        self.now = end;
        self.state.settle(end);
    }

    /// Inserts a document on a member that considers itself primary.
    fn insert(&mut self, index: usize, id: i32) -> Result<OpTime, Fault> {
        self.insert_as(index, id, None)
    }

    fn insert_as(
        &mut self,
        index: usize,
        id: i32,
        retryable: Option<(&SessionId, i64)>,
    ) -> Result<OpTime, Fault> {
        let mut direct = PrimaryWriter::new(&mut self.state, index, retryable, self.now);
        direct.reserve(&namespace(), &[&id.into()])?;
        let statement = Statement { id: 0, outcome: doc! { "n": 1 } };
        direct.apply_change(insertion(id), Some(statement))?;
        let at = direct.written().unwrap();
        self.state.replicate(self.now);
        Ok(at)
    }

    /// The `_id`s on a member, in order.
    fn ids(&self, index: usize) -> Vec<i32> {
        let collection = self.state.member(index).store().collection(&namespace());
        let documents = collection.into_iter().flat_map(|it| it.documents());
        documents.filter_map(|document| document.get_i32("_id").ok()).collect()
    }

    fn acknowledged(&self, index: usize, at: OpTime, w: WriteConcernW) -> bool {
        let concern = WriteConcern { w: Some(w), ..WriteConcern::default() };
        matches!(self.state.evaluate_write_concern(index, at, &concern), Some(Ok(())))
    }

    fn is_majority(&self, index: usize, at: OpTime) -> bool {
        self.acknowledged(index, at, WriteConcernW::Majority)
    }
}

fn namespace() -> Namespace {
    Namespace::new("t", "c")
}

fn insertion(id: i32) -> Change {
    Change::Insert { namespace: namespace(), document: Arc::new(doc! { "_id": id }) }
}

fn session(number: u8) -> SessionId {
    SessionId { id: vec![number; 16], user: Vec::new() }
}

fn milliseconds(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn bson(id: i32) -> Bson {
    Bson::Int32(id)
}
