//! Target of a connection: a member of a replica set, a standalone server, or a mongos.

use std::sync::Arc;

use bson::{Bson, Document};
use tokio::sync::watch;

use super::{
    call::Call,
    command::ServerInfo,
    mongos::Mongos,
    node::{Node, ProcessState},
    set::ReplicaSet,
};

/// Executes the commands of connections.
#[derive(Clone, Debug)]
pub(crate) enum Host {
    /// A member of a replica set, or a standalone server.
    Member(MemberHandle),
    /// A mongos.
    Mongos(Arc<Mongos>),
}

/// A member and its replica set.
#[derive(Clone, Debug)]
pub(crate) struct MemberHandle {
    pub(crate) node: Arc<Node>,
    pub(crate) set: Arc<ReplicaSet>,
    /// Index of the member.
    pub(crate) index: usize,
}

impl Host {
    /// Members of a set, in order.
    pub(crate) fn members(set: &Arc<ReplicaSet>) -> Vec<Self> {
        let nodes = set.nodes().into_iter().enumerate();
        nodes
            .map(|(index, node)| Self::Member(MemberHandle { node, set: set.clone(), index }))
            .collect()
    }

    /// Runs a command and returns the complete reply. The future can be dropped at any time.
    pub(crate) async fn run(&self, call: Call) -> Document {
        match self {
            Self::Member(member) => member.node.run(call).await,
            Self::Mongos(mongos) => mongos.run(call).await,
        }
    }

    /// Returns `true` for commands that open or continue a change stream.
    pub(crate) fn uses_change_stream(&self, name: &str, body: &Document) -> bool {
        match self {
            Self::Member(member) => member.node.uses_change_stream(name, body),
            Self::Mongos(mongos) => mongos.uses_change_stream(name, body),
        }
    }

    /// Adds `$clusterTime` and `operationTime` where they are missing.
    pub(crate) fn add_cluster_times(&self, reply: &mut Document) {
        if reply.contains_key("$clusterTime") {
            return;
        }
        match self {
            Self::Member(member) => member.node.add_cluster_times(reply),
            Self::Mongos(mongos) => mongos.add_cluster_times(reply),
        }
    }

    /// Reply to `hello` without the fields of a connection.
    pub(crate) fn hello(&self) -> Document {
        match self {
            Self::Member(member) => member.node.hello(),
            Self::Mongos(mongos) => mongos.hello(),
        }
    }

    /// Changes whenever [`hello`](Self::hello) changes.
    pub(crate) fn topology(&self) -> watch::Receiver<u64> {
        match self {
            Self::Member(member) => member.node.topology(),
            Self::Mongos(mongos) => mongos.topology(),
        }
    }

    /// Process state of the server.
    pub(crate) fn process_state(&self) -> watch::Receiver<ProcessState> {
        match self {
            Self::Member(member) => member.node.process_state(),
            Self::Mongos(mongos) => mongos.process_state(),
        }
    }

    /// Static facts about the server.
    pub(crate) fn server_info(&self) -> &ServerInfo {
        match self {
            Self::Member(member) => member.node.server_info(),
            Self::Mongos(mongos) => mongos.server_info(),
        }
    }

    /// Kills the process.
    pub(crate) fn kill(&self) {
        match self {
            Self::Member(member) => member.set.kill(member.index),
            Self::Mongos(mongos) => mongos.set_process_state(ProcessState::Killed),
        }
    }

    /// Restarts the process.
    pub(crate) fn restart(&self) {
        match self {
            Self::Member(member) => member.set.restart(member.index),
            Self::Mongos(mongos) => mongos.set_process_state(ProcessState::Running),
        }
    }

    /// Freezes the process.
    pub(crate) fn freeze(&self) {
        match self {
            Self::Member(member) => member.set.freeze(member.index),
            Self::Mongos(mongos) => mongos.set_process_state(ProcessState::Frozen),
        }
    }

    /// Continues the process.
    pub(crate) fn thaw(&self) {
        match self {
            Self::Member(member) => member.set.thaw(member.index),
            Self::Mongos(mongos) => mongos.set_process_state(ProcessState::Running),
        }
    }

    /// Stops or resumes replication from other members.
    pub(crate) fn hold_replication(&self, holds: bool) {
        match (self, holds) {
            (Self::Member(member), true) => member.set.hold_replication(member.index),
            (Self::Member(member), false) => member.set.release_replication(member.index),
            (Self::Mongos(_), _) => {}
        }
    }

    /// `topologyVersion` of `NotWritablePrimary` and similar errors.
    pub(crate) fn topology_version(&self) -> Option<Bson> {
        self.hello().remove("topologyVersion")
    }

    /// Returns `true` if the server accepts writes.
    pub(crate) fn is_writable(&self) -> bool {
        self.hello().get_bool("isWritablePrimary").unwrap_or(false)
    }
}
