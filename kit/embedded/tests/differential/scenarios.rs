//! Scenarios: tables of raw commands that are sent to a real deployment of MongoDB 8.2 and to the embedded one.
//! The replies are compared field by field, except the text of errors.
//!
//! A scenario has a database of its own. In its commands, `@db` is the name of that database, `"@lsid…"` is a
//! session id, and `"@name"` is a value that an earlier step has kept from its reply.

mod bulk_writes;
mod change_streams;
mod concerns;
mod cursors;
mod exceptions;
mod reply;
mod retryable_writes;
mod run;
mod sharding;
mod targeting;
mod transactions;

use bson::{Document, doc};

pub(crate) use run::{Addresses, compare_on};

/// Deployment that scenarios run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    ReplicaSet,
    ShardedCollection,
}

/// A list of commands and the deployments that they are for.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) only: Option<Target>,
    /// Shards the collection `s` by `{ k: 1 }` before the first step: negative keys are on `shard0`, others on
    /// `shard1`.
    pub(crate) has_sharded_collection: bool,
    pub(crate) steps: Vec<Step>,
}

/// A command.
pub(crate) struct Step {
    /// Unique in its scenario.
    pub(crate) label: &'static str,
    /// Name of the connection. `mongos1`, `secondary`, `shard0` and `shard1` name the server, too; others are
    /// connections to the primary or to the first mongos.
    pub(crate) connection: &'static str,
    pub(crate) command: Document,
    /// Names of values and their paths in the reply.
    pub(crate) keep: Vec<(&'static str, &'static str)>,
    pub(crate) mode: StepMode,
}

/// Expected reply of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StepMode {
    OneReply,
    /// No reply comes (`moreToCome`).
    Unacknowledged,
    /// A `getMore` that is repeated until this many documents have come.
    UntilDocuments(usize),
    /// The reply is not compared.
    Preparation,
}

impl Scenario {
    pub(crate) fn new(name: &'static str) -> Self {
        Self { name, only: None, has_sharded_collection: false, steps: Vec::new() }
    }

    pub(crate) fn only_on(mut self, target: Target) -> Self {
        self.only = Some(target);
        self
    }

    /// Limits it to the sharded cluster, with the sharded collection `s`.
    pub(crate) fn with_sharded_collection(mut self) -> Self {
        self.has_sharded_collection = true;
        self.only_on(Target::ShardedCollection)
    }

    fn push(mut self, label: &'static str, mode: StepMode, command: Document) -> Self {
        assert!(self.steps.iter().all(|step| step.label != label), "{}: {label} twice", self.name);
        let keep = Vec::new();
        self.steps.push(Step { label, connection: "a", command, keep, mode });
        self
    }

    /// Adds a command whose reply is compared.
    pub(crate) fn step(self, label: &'static str, command: Document) -> Self {
        self.push(label, StepMode::OneReply, command)
    }

    /// Adds a command whose reply is not compared.
    pub(crate) fn prepare(self, label: &'static str, command: Document) -> Self {
        self.push(label, StepMode::Preparation, command)
    }

    /// Adds a command without a reply.
    pub(crate) fn unacknowledged(self, label: &'static str, command: Document) -> Self {
        self.push(label, StepMode::Unacknowledged, command)
    }

    /// Adds a `getMore` of the cursor `@cursor` that is repeated until this many documents have come.
    pub(crate) fn events(self, label: &'static str, collection: &str, count: usize) -> Self {
        let command =
            doc! { "getMore": "@cursor", "collection": collection, "maxTimeMS": 2000_i64 };
        self.push(label, StepMode::UntilDocuments(count), command)
    }

    /// Names the connection of the last step.
    pub(crate) fn on(mut self, connection: &'static str) -> Self {
        self.steps.last_mut().expect("a step").connection = connection;
        self
    }

    /// Keeps a value of the last step's reply.
    pub(crate) fn keep(mut self, name: &'static str, path: &'static str) -> Self {
        self.steps.last_mut().expect("a step").keep.push((name, path));
        self
    }
}

/// All scenarios.
pub(crate) fn all() -> Vec<Scenario> {
    [
        retryable_writes::scenarios(),
        transactions::scenarios(),
        targeting::scenarios(),
        sharding::scenarios(),
        bulk_writes::scenarios(),
        cursors::scenarios(),
        concerns::scenarios(),
        change_streams::scenarios(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Adds the fields of a retryable write to a command.
pub(crate) fn retryable(session: &str, number: i64, mut command: Document) -> Document {
    command.insert("lsid", session);
    command.insert("txnNumber", number);
    command
}

/// Adds the fields of the first command of a transaction.
pub(crate) fn begin(session: &str, number: i64, command: Document) -> Document {
    let mut command = within(session, number, command);
    command.insert("startTransaction", true);
    command
}

/// Adds the fields of a later command of a transaction.
pub(crate) fn within(session: &str, number: i64, command: Document) -> Document {
    let mut command = retryable(session, number, command);
    command.insert("autocommit", false);
    command
}

pub(crate) fn commit(session: &str, number: i64) -> Document {
    within(session, number, doc! { "commitTransaction": 1, "$db": "admin" })
}

pub(crate) fn abort(session: &str, number: i64) -> Document {
    within(session, number, doc! { "abortTransaction": 1, "$db": "admin" })
}

/// A command that turns the fail point `failCommand` on for one command.
pub(crate) fn fail_once(data: Document) -> Document {
    doc! { "configureFailPoint": "failCommand", "mode": { "times": 1 }, "data": data, "$db": "admin" }
}

/// A command that turns the fail point `failCommand` off.
pub(crate) fn fail_no_more() -> Document {
    doc! { "configureFailPoint": "failCommand", "mode": "off", "$db": "admin" }
}

/// Reads all documents of a collection in the order of their `_id`.
pub(crate) fn documents(collection: &str) -> Document {
    doc! { "find": collection, "sort": { "_id": 1 } }
}
